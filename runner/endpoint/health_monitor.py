"""Whether an account is worth going on with, as all workers together see its endpoint, and who may send to it.

Pure: time comes in as a number. An endpoint that was never reached, that has let nothing through for too long (it is
away, or answers with nothing but 429s), or that wants something of the user is closed; the other accounts of a sweep go
on. One that has given no good reply yet gets requests from a few workers only, and one that is away a probe from one at
a time, ever more seldom.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from runner.config import RunConfig
from runner.messages import AccountStats, Lease

NEVER_REACHED_PROBES = 3
NEVER_REACHED_S = 4.0
"""An endpoint that gave no reply of any kind over so many connections and seconds counts as never reached."""
STARTERS = 2
"""Workers that may send to an endpoint before it has given a good reply: a wrong key fails the requests of each."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""Between two probes of an endpoint that is away."""


@dataclass(slots=True)
class ProbeScheduler:
    """The turns to probe one account, over all workers: after 1, 2, 4, … 60 s, and for all once one got through.

    Turns go round, for the way to the endpoint may be broken for one worker alone.
    """

    _down: dict[str, int] = field(default_factory=dict)
    """Worker whose breaker is open → its failed probes."""
    _pause_s: float = FIRST_PAUSE_S
    _due_s: float = 0.0
    _has_turn: str | None = None
    """Whose turn it is, until it has reported what came of it."""
    _last: str | None = None
    _is_back: bool = False

    def observe(self, worker: str, seen: AccountStats, now_s: float) -> None:
        """Take in what a worker saw.

        What came of a turn shows in nothing but `has_turn` for sure: a breaker that closed and opened again between two
        renewals may report as many failed probes as before.
        """
        self._is_back |= seen.succeeded > 0
        if not seen.is_open:
            self.forget(worker)
            return
        if not self._down:
            self._pause_s, self._due_s = FIRST_PAUSE_S, now_s + FIRST_PAUSE_S
        if self._down.get(worker) != seen.probes:
            self._is_back = False
        self._down[worker] = seen.probes
        if worker == self._has_turn and not seen.has_turn:
            self._has_turn = None
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._due_s = now_s + self._pause_s

    def assign_turn(self, worker: str, now_s: float) -> bool:
        """Whether this worker is to probe now; given once, until it has reported what came of it."""
        if worker not in self._down:
            return False
        if self._is_back:
            return True
        if self._has_turn is not None or now_s < self._due_s or (worker == self._last and len(self._down) > 1):
            return False
        self._has_turn = self._last = worker
        return True

    @property
    def is_away(self) -> bool:
        """Whether a probe has shown that it is, and nothing got through since."""
        return not self._is_back and any(self._down.values())

    def forget(self, worker: str) -> None:
        """The worker is gone, or its breaker closed."""
        self._down.pop(worker, None)
        if worker == self._has_turn:
            self._has_turn = None


@dataclass(slots=True)
class _AccountHealth:
    where: str
    answered: bool = False
    throttled: int = 0
    trouble_since: float | None = None
    only_throttled: bool = False
    """Whether since then nothing was seen but 429s."""
    seen: dict[str, AccountStats] = field(default_factory=dict)
    """Worker → what it saw last."""
    idle: set[str] = field(default_factory=set)
    """Workers that hold nothing of it: what failed last there is no outage, however long nothing succeeds after it."""
    unreachable_at: float | None = None
    """When a connection was last seen to fail."""
    last_error: str | None = None
    works: bool = False
    """It has given a good reply."""
    starters: list[str] = field(default_factory=list)
    probes: ProbeScheduler = field(default_factory=ProbeScheduler)

    def observe(self, worker: str, seen: AccountStats, now_s: float) -> None:
        """Take in what one worker saw of it since its last report."""
        self.answered |= seen.answered > 0
        self.works |= seen.succeeded > 0
        self.probes.observe(worker, seen, now_s)
        self.throttled += seen.throttled
        if seen.failing or seen.put_off:
            self.last_error = seen.last_error or self.last_error
        before = self.seen.get(worker)
        if seen.unreachable > (before.unreachable if before else 0):
            self.unreachable_at = now_s
        self.seen[worker] = replace(seen, failing=0, put_off=0) if worker in self.idle else seen
        if seen.succeeded or not any(last.failing or last.put_off for last in self.seen.values()):
            self.trouble_since = None
        elif self.trouble_since is None:
            self.trouble_since, self.only_throttled = now_s, True
        if seen.failing or seen.answered > seen.throttled:
            self.only_throttled = False

    def forget(self, worker: str) -> None:
        """The worker is gone; so is what it saw."""
        self.seen.pop(worker, None)
        self.probes.forget(worker)


class HealthMonitor:
    """Collects what the workers see; says which accounts are closed and why."""

    def __init__(self, config: RunConfig) -> None:
        self._max_outage_s = config.retry.max_outage_s
        self._max_outage = config.retry.max_outage
        self._accounts = {m.account_name: _AccountHealth(m.base_url) for m in config.models}
        self.given_up: dict[str, str] = {}
        """Account → why it was given up."""
        self.action_needed: dict[str, str] = {}
        """Account → what the user must mend."""

    def observe(self, worker: str, stats: Iterable[AccountStats], now_s: float) -> list[str]:
        """Take in what one worker saw; returns accounts that are given up because of it."""
        closed = []
        for seen in stats:
            account = self._accounts.get(seen.account)
            if account is None:
                # Of the reformat stage alone: a run goes on without it.
                continue
            account.observe(worker, seen, now_s)
            if seen.account not in self.closed and (why := self._why_give_up(seen.account, account, now_s)):
                self.given_up[seen.account] = why
                closed.append(seen.account)
        return closed

    def _why_give_up(self, name: str, account: _AccountHealth, now_s: float) -> str | None:
        if account.trouble_since is None:
            return None
        away_s = now_s - account.trouble_since
        unreachable = sum(last.unreachable for last in account.seen.values())
        # Connections that stand and wait for a slow first reply make no new failures: such an endpoint was reached.
        still_failing = account.unreachable_at is not None and now_s - account.unreachable_at < NEVER_REACHED_S
        if not account.answered and unreachable >= NEVER_REACHED_PROBES and away_s >= NEVER_REACHED_S and still_failing:
            return f"{name}: {account.where} was never reached ({account.last_error}); run the same command to go on"
        if away_s >= self._max_outage_s:
            what = "answered nothing but 429s" if account.only_throttled else "gave no good reply"
            return f"{name}: {account.where} {what} for {self._max_outage} ({account.last_error})"
        return None

    def limit_demand(self, demand: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """Of worker → account → trials that it holds: what it may send now."""
        admitted = {worker: dict(held) for worker, held in demand.items()}
        for name, account in self._accounts.items():
            wanting = [worker for worker, held in demand.items() if held.get(name)]
            account.idle = demand.keys() - wanting
            if account.works:
                continue
            before = [worker for worker in account.starters if worker in wanting]
            account.starters = [*before, *(w for w in wanting if w not in before)][:STARTERS]
            for worker in wanting:
                if worker not in account.starters:
                    del admitted[worker][name]
        return admitted

    def assign_probes(self, worker: str, leases: Iterable[Lease], now_s: float) -> tuple[Lease, ...]:
        """The worker's leases, with its turn to probe an endpoint that is away."""
        return tuple(
            replace(lease, probe=True)
            if lease.account in self._accounts and self._accounts[lease.account].probes.assign_turn(worker, now_s)
            else lease
            for lease in leases
        )

    @property
    def working(self) -> int:
        """How many accounts have shown that they work."""
        return sum(account.works for account in self._accounts.values())

    def close_account(self, account: str, words: str) -> None:
        """The endpoint refuses for a reason that only the user can mend; `words` are the provider's."""
        self.action_needed.setdefault(account, words)

    def forget(self, worker: str) -> None:
        """The worker is gone; so is what it saw."""
        for account in self._accounts.values():
            account.forget(worker)

    @property
    def closed(self) -> tuple[str, ...]:
        """Accounts to which nothing more is sent in this session."""
        return tuple(sorted({*self.given_up, *self.action_needed}))

    @property
    def throttled(self) -> dict[str, int]:
        """429 replies of this session by account."""
        return {name: account.throttled for name, account in self._accounts.items()}

    @property
    def states(self) -> dict[str, str]:
        """A few words on every account that takes no requests now."""
        away = {name: "endpoint away, probing" for name, account in self._accounts.items() if account.probes.is_away}
        words = away | dict.fromkeys(self.closed, "stopped")
        errors = {name: self._accounts[name].last_error for name in words}
        return {name: word + (f" ({errors[name]})" if errors[name] else "") for name, word in words.items()}

    @property
    def in_flight(self) -> int:
        """Requests on their way, as the workers saw it last."""
        return sum(seen.in_flight for account in self._accounts.values() for seen in account.seen.values())
