"""Whether an account is worth going on with, as all workers together see its endpoint, and who may ask it.

Pure: time comes in as a number. An endpoint that was never reached, that has let nothing through for too long (it is
away, or answers with nothing but 429s), or that wants something of the user is closed; the other accounts of a sweep go
on. One that has given no good reply yet is asked by a few workers only, and one that is away by one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from runner.config import RunConfig
from runner.messages import AccountStats, Lease

from .circuit_breaker import ProbeScheduler

NEVER_REACHED_PROBES = 3
NEVER_REACHED_S = 4.0
"""An endpoint that gave no reply of any kind over so many connections and seconds counts as never reached."""
STARTERS = 2
"""Workers that may ask an endpoint before it has given a good reply: with a wrong key, each would have to see it."""


@dataclass(slots=True)
class _Account:
    where: str
    answered: bool = False
    throttled: int = 0
    trouble_since: float | None = None
    only_throttled: bool = False
    """Whether since then nothing was seen but 429s."""
    failing: dict[str, int] = field(default_factory=dict)
    put_off: dict[str, int] = field(default_factory=dict)
    """Worker → its 429s in a row."""
    idle: set[str] = field(default_factory=set)
    """Workers that hold nothing of it: what failed last there is no outage, however long nothing succeeds after it."""
    unreachable: dict[str, int] = field(default_factory=dict)
    unreachable_at: float | None = None
    """When a connection was last seen to fail."""
    last_error: str | None = None
    works: bool = False
    """It has given a good reply."""
    starters: list[str] = field(default_factory=list)
    recovery: ProbeScheduler = field(default_factory=ProbeScheduler)

    @property
    def in_trouble(self) -> bool:
        """Whether the last that some worker with trials of it saw there was not good."""
        return any(self.failing.values()) or any(self.put_off.values())


class HealthMonitor:
    """Collects the workers' news; tells which accounts are closed and why."""

    def __init__(self, config: RunConfig) -> None:
        self._max_outage_s = config.retry.max_outage_s
        self._max_outage = config.retry.max_outage
        self._accounts = {m.account_name: _Account(m.base_url) for m in config.models}
        self._given_up: dict[str, str] = {}
        self._action_needed: dict[str, str] = {}

    def observe(self, worker: str, news: Iterable[AccountStats], now_s: float) -> list[str]:
        """Take in one worker's news; returns accounts that are given up because of it."""
        closed = []
        for heard in news:
            account = self._accounts.get(heard.account)
            if account is None:
                # Of the reformat stage alone: a run goes on without it.
                continue
            account.answered = account.answered or heard.answered > 0
            account.works = account.works or heard.succeeded > 0
            account.recovery.observe(
                worker, heard.is_open, heard.probes, heard.succeeded > 0, now_s, has_turn=heard.has_turn
            )
            account.throttled += heard.throttled
            if heard.failing or heard.put_off:
                account.last_error = heard.last_error or account.last_error
            is_idle = worker in account.idle
            account.failing[worker], account.put_off[worker] = (0, 0) if is_idle else (heard.failing, heard.put_off)
            if heard.unreachable > account.unreachable.get(worker, 0):
                account.unreachable_at = now_s
            account.unreachable[worker] = heard.unreachable
            if heard.succeeded or not account.in_trouble:
                account.trouble_since = None
            elif account.trouble_since is None:
                account.trouble_since, account.only_throttled = now_s, True
            if heard.failing or heard.answered > heard.throttled:
                account.only_throttled = False
            if heard.account not in self.closed and (why := self._why_give_up(heard.account, account, now_s)):
                self._given_up[heard.account] = why
                closed.append(heard.account)
        return closed

    def _why_give_up(self, name: str, account: _Account, now_s: float) -> str | None:
        if account.trouble_since is None:
            return None
        away_s = now_s - account.trouble_since
        probes = sum(account.unreachable.values())
        # Connections that stand and wait for a slow first reply make no new failures: such an endpoint was reached.
        still_failing = account.unreachable_at is not None and now_s - account.unreachable_at < NEVER_REACHED_S
        if not account.answered and probes >= NEVER_REACHED_PROBES and away_s >= NEVER_REACHED_S and still_failing:
            return f"{name}: {account.where} was never reached ({account.last_error}); run the same command to go on"
        if away_s >= self._max_outage_s:
            what = "answered nothing but 429s" if account.only_throttled else "gave no good reply"
            return f"{name}: {account.where} {what} for {self._max_outage} ({account.last_error})"
        return None

    def limit_demand(self, demand: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """Of worker → account → trials that it holds: what may be asked now."""
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
            if lease.account in self._accounts and self._accounts[lease.account].recovery.assign_turn(worker, now_s)
            else lease
            for lease in leases
        )

    @property
    def working(self) -> int:
        """How many accounts have shown that they work."""
        return sum(account.works for account in self._accounts.values())

    def close_account(self, account: str, words: str) -> None:
        """The endpoint refuses for a reason that only the user can mend, told in the provider's words."""
        self._action_needed.setdefault(account, words)

    def forget(self, worker: str) -> None:
        """The worker is gone; so is what it saw."""
        for account in self._accounts.values():
            account.failing.pop(worker, None)
            account.put_off.pop(worker, None)
            account.unreachable.pop(worker, None)
            account.recovery.forget(worker)

    @property
    def closed(self) -> tuple[str, ...]:
        """Accounts of which nothing more is asked in this session."""
        return tuple(sorted({*self._given_up, *self._action_needed}))

    @property
    def given_up(self) -> list[str]:
        """Why accounts were given up."""
        return list(self._given_up.values())

    @property
    def action_needed(self) -> list[str]:
        """What the user must mend."""
        return list(self._action_needed.values())

    @property
    def throttled(self) -> dict[str, int]:
        """429 replies of this session by account."""
        return {name: account.throttled for name, account in self._accounts.items()}

    @property
    def states(self) -> dict[str, str]:
        """A few words on every account that takes no requests now."""
        away = {name: "endpoint away, probing" for name, account in self._accounts.items() if account.recovery.is_away}
        return away | dict.fromkeys(self.closed, "stopped")
