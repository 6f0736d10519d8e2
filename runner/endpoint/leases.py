"""Who may use how much of each account: requests in flight and rates, as leases whose sum keeps to the limits.

Pure. Hides why the sum holds although workers learn of their leases late: a lease that shrank is counted at its old
size until the worker has answered, and requests still in flight are counted until they end. Shares follow the work: a
worker that holds no trials of an account gets none of it, one that alone holds some may use it all.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runner.config import Limits
from runner.messages import AccountStats, Lease

from .adaptive_rate import AdaptiveRate

HOLD = 5
"""Leases in a row after which a worker passes its place on, where there are fewer places than workers with work."""


@dataclass(slots=True)
class _Share:
    """One worker's part of one account. `counted_*` is what it may be using at most, as far as is known here."""

    demand: int = 0
    in_flight: int = 0
    requests_per_s: float = 0.0
    tokens_per_s: float = 0.0
    counted_in_flight: int = 0
    counted_requests: float = 0.0
    counted_tokens: float = 0.0
    turns: int = 0
    """Leases in a row with a place."""


@dataclass(slots=True)
class _AccountLeases:
    limits: Limits
    adaptive_rate: AdaptiveRate = field(default_factory=AdaptiveRate)
    shares: dict[str, _Share] = field(default_factory=dict)
    """By worker, in the order in which they are served where there is not a place for each."""


class LeaseAllocator:
    """The limits of all accounts, shared out over the workers.

    Per worker: `join`, then `allocate` and `confirm` in turn (one renewal under way at a time), at the end `leave`.
    """

    def __init__(self, accounts: Mapping[str, Limits], on_call: str | None = None) -> None:
        """`on_call`: an account that any trial may come to need, whichever is its own."""
        self._on_call = on_call
        self._accounts = {name: _AccountLeases(limits) for name, limits in accounts.items()}

    def join(self, worker: str) -> None:
        """A worker has started; it holds nothing yet."""
        for account in self._accounts.values():
            account.shares[worker] = _Share()

    def leave(self, worker: str) -> None:
        """The worker's process is gone, and with it its requests."""
        for account in self._accounts.values():
            account.shares.pop(worker, None)
            account.adaptive_rate.forget(worker)

    def set_demand(self, worker: str, demand: Mapping[str, int]) -> None:
        """Account → trials that the worker holds. Set for all workers before the first leases, none is favoured."""
        for name, account in self._accounts.items():
            own = demand.get(name, 0)
            account.shares[worker].demand = sum(demand.values()) if name == self._on_call else own

    def allocate(self, worker: str, demand: Mapping[str, int]) -> tuple[Lease, ...]:
        """The worker's shares from now on, of every account: to be sent to it, and then to `confirm`."""
        self.set_demand(worker, demand)
        return tuple(self._lease(name, account, worker) for name, account in self._accounts.items())

    def holds(self, worker: str, account: str) -> bool:
        """Whether the worker's last lease of the account lets it send anything."""
        return self._accounts[account].shares[worker].in_flight > 0

    def confirm(self, worker: str, stats: Iterable[AccountStats] = ()) -> None:
        """The worker has taken its last leases; `stats` is what it answered."""
        in_flight = {entry.account: entry.in_flight for entry in stats}
        for name, account in self._accounts.items():
            share = account.shares.get(worker)
            if share is None:
                continue
            share.counted_in_flight = max(share.in_flight, in_flight.get(name, 0))
            share.counted_requests, share.counted_tokens = share.requests_per_s, share.tokens_per_s

    def observe(self, worker: str, stats: Iterable[AccountStats], now_s: float) -> None:
        """Keep to what the endpoints take: where they throttle, leases come to less than the limits."""
        for entry in stats:
            self._accounts[entry.account].adaptive_rate.observe(worker, entry, now_s)

    def _lease(self, name: str, account: _AccountLeases, worker: str) -> Lease:
        limits, share = account.limits, account.shares[worker]
        self._rotate(account, worker)
        targets = self._targets(account)
        others = [other for other_name, other in account.shares.items() if other_name != worker]
        free = limits.in_flight - sum(other.counted_in_flight for other in others)
        share.in_flight = max(0, min(targets[worker], free))
        share.turns = share.turns + 1 if share.in_flight else 0
        share.counted_in_flight = max(share.counted_in_flight, share.in_flight)
        # Rates go by the places in flight, so that all workers come to the end of their trials together.
        part = targets[worker] / max(1, sum(targets.values())) if share.in_flight else 0.0
        requests = _per_s(account.adaptive_rate.cap(limits.rpm), part, sum(other.counted_requests for other in others))
        tokens = _per_s(limits.tpm, part, sum(other.counted_tokens for other in others))
        share.requests_per_s, share.tokens_per_s = requests or 0.0, tokens or 0.0
        share.counted_requests = max(share.counted_requests, share.requests_per_s)
        share.counted_tokens = max(share.counted_tokens, share.tokens_per_s)
        return Lease(name, share.in_flight, requests, tokens)

    def _targets(self, account: _AccountLeases) -> dict[str, int]:
        """Worker → places in flight: equal shares, above its demand only what no other has a use for."""
        targets = dict.fromkeys(account.shares, 0)
        left = account.limits.in_flight
        working = [worker for worker, share in account.shares.items() if share.demand > 0]
        wanting = working
        while left and wanting:
            even = max(1, left // len(wanting))
            for worker in wanting[:left]:
                more = min(even, account.shares[worker].demand - targets[worker])
                targets[worker] += more
                left -= more
            wanting = [worker for worker in wanting if account.shares[worker].demand > targets[worker]]
        for worker in working:
            # Trials that reach a worker between two renewals need not wait for the next.
            targets[worker] += left // len(working)
        return targets

    def _rotate(self, account: _AccountLeases, worker: str) -> None:
        """Send a worker to the end of the queue that has had its turn while others with work have no place at all."""
        wanting = sum(share.demand > 0 for share in account.shares.values())
        if wanting > account.limits.in_flight and account.shares[worker].turns >= HOLD:
            account.shares[worker].turns = 0
            account.shares[worker] = account.shares.pop(worker)


def _per_s(per_minute: float | None, part: float, counted_others: float) -> float | None:
    if per_minute is None:
        return None
    limit = per_minute / 60
    # Rounded down a little: shares of the same sum, added up in another order, must not come out above the limit.
    rate = max(0.0, min(limit * part, limit - counted_others)) * (1 - 1e-9)
    return rate if rate > limit * 1e-6 and math.isfinite(rate) else 0.0
