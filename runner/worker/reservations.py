"""What one worker may spend: reserved in the ledger before it is spent, in portions that keep ahead of its requests.

Pure. Hides how large a portion is: what requests wait for, and what more will be sent until the next portion is there,
by how many went out between two batches of late. So few requests wait, and no more than about twice what is in flight
is reserved should the process die. A portion is no single request's: what none of them takes goes back when the work
is done.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runner.messages import NOTHING, CostBound

Portions = tuple[tuple[str, CostBound], ...]
"""Model → so much more is reserved; below zero: given back."""

BATCHES = 2
"""A portion lasts for so many: until the next is asked for, and until that is there."""
FADING = 0.75
"""What remains of the most that went out between two batches, from one to the next."""
LITTLE = 64
"""Requests. So many too many stay reserved: work goes by fits and starts."""
MOST_AHEAD = 3
"""Times as many requests as were ever in flight: more are never reserved ahead."""


@dataclass(slots=True)
class _Pool:
    """One model's. `free`: reserved in the ledger, and in no request."""

    free: CostBound = NOTHING
    waiting: CostBound = NOTHING
    taken: CostBound = NOTHING
    """Since the last portion was asked for."""
    most: CostBound = NOTHING
    """Taken between two batches lately."""
    open: int = 0
    """Requests that have taken something and are not over."""
    most_open: int = 0
    """With those that wait."""

    def ahead(self) -> CostBound:
        """What will be taken until the next portion is there, if it goes on as of late."""
        fading = self.most.for_requests(math.ceil(self.most.requests * FADING))
        self.most = max(self.taken, fading, key=lambda bound: bound.requests)
        self.taken = NOTHING
        limit = max(LITTLE, MOST_AHEAD * self.most_open)
        return self.most.for_requests(min(BATCHES * self.most.requests, limit))


@dataclass(slots=True)
class ReservationPool:
    """One worker's, for all of its models.

    Before a request: `take`, or `wait` and, once a portion came, `meet`. After it: `over`.
    """

    _pools: dict[str, _Pool] = field(default_factory=dict)
    _users: int = 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Requests may come. Outside of all such blocks what is free is given back."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    @property
    def is_awaited(self) -> bool:
        """Whether a request waits for the next portion."""
        return any(pool.waiting for pool in self._pools.values())

    @property
    def is_surplus(self) -> bool:
        """Whether the next portions give something back."""
        return not self._users and any(pool.free for pool in self._pools.values())

    def take(self, model: str, bound: CostBound) -> bool:
        """For a request that comes just now: whether it may be sent. What others wait for is theirs."""
        pool = self._pools.setdefault(model, _Pool())
        if not pool.free.covers(pool.waiting + bound):
            return False
        self._give(pool, bound)
        return True

    def wait(self, model: str, bound: CostBound) -> None:
        """Have it reserved with the next portion."""
        pool = self._pools[model]
        pool.waiting += bound
        pool.most_open = max(pool.most_open, pool.open + pool.waiting.requests)

    def try_take(self, model: str, bound: CostBound) -> bool:
        """For a request that waited: whether it may be sent now. It waits on otherwise."""
        pool = self._pools[model]
        if not pool.free.covers(bound):
            return False
        pool.waiting -= bound
        self._give(pool, bound)
        return True

    def give_up(self, model: str, bound: CostBound) -> None:
        """A request that waited is not to be sent any more."""
        self._pools[model].waiting -= bound

    def release(self, model: str, unsent: CostBound = NOTHING) -> None:
        """A request that was given its bound has ended; `unsent` is that bound where it never went out."""
        pool = self._pools[model]
        pool.open -= 1
        pool.free += unsent

    def next_portions(self) -> Portions:
        """What goes into the next batch. What it gives back can be taken no more."""
        portions = []
        for model, pool in self._pools.items():
            wanted = pool.waiting + pool.ahead() if self._users else NOTHING
            more = (wanted - pool.free).above_zero()
            if not self._users or (not more and pool.free.requests > 2 * wanted.requests + LITTLE):
                more, pool.free = wanted - pool.free, wanted
            if more:
                portions.append((model, more))
        return tuple(portions)

    def confirm(self, portions: Portions) -> None:
        """The batch with these portions is acknowledged: they are in the ledger."""
        for model, more in portions:
            self._pools[model].free += more.above_zero()

    def _give(self, pool: _Pool, bound: CostBound) -> None:
        pool.free -= bound
        pool.taken += bound
        pool.open += 1
        pool.most_open = max(pool.most_open, pool.open)
