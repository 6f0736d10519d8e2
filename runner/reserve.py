"""What one worker may spend: reserved in the ledger before it is spent, in portions that keep ahead of its requests.

Pure, but for a clock that is handed in. Hides how large a portion is: what requests wait for, and what more will be
sent until the next portion is there, by how fast they went lately and how long the ledger takes. So a request seldom
waits, and little more than what is in flight is reserved should the process die. A portion is no single request's:
what none of them takes goes back when the work is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .usage import NOTHING, Bound

Portions = tuple[tuple[str, Bound], ...]
"""Model → so much more is reserved; below zero: given back."""

ROUND_TRIPS = 3
"""A portion lasts for so many: until the next is asked for, until that is there, and one to spare."""
FIRST_ROUND_TRIP_S = 0.03
AHEAD = 128
"""No more requests than these, or than are in flight or ready to be, are reserved ahead."""


@dataclass(slots=True)
class _Pool:
    """One model's. `free`: reserved in the ledger, and in no request."""

    free: Bound = NOTHING
    waiting: Bound = NOTHING
    taken: Bound = NOTHING
    """Since the last portion was asked for."""
    per_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """How fast requests, tokens and money were taken."""
    open: int = 0
    """Requests that have taken something and are not over."""

    def ahead(self, elapsed_s: float, seconds: float) -> Bound:
        """What will be taken in the next `seconds`, if it goes on as of late."""
        new = (self.taken.requests / elapsed_s, self.taken.tokens / elapsed_s, self.taken.nano_usd / elapsed_s)
        self.per_s = tuple((old + now) / 2 for old, now in zip(self.per_s, new, strict=True))  # type: ignore[assignment]
        self.taken = NOTHING
        most = max(AHEAD, self.open + self.waiting.requests)
        share = seconds if self.per_s[0] * seconds <= most else most / self.per_s[0]
        return Bound(*(math.ceil(speed * share) for speed in self.per_s))


@dataclass(slots=True)
class Reserve:
    """One worker's, for all of its models. `pause_s`: batches to the ledger follow each other no faster.

    Before a request: `take`, or `wait` and, once a portion came, `meet`. After it: `over`.
    """

    clock: Callable[[], float]
    pause_s: float
    _pools: dict[str, _Pool] = field(default_factory=dict)
    _users: int = 0
    _asked_at: float = -math.inf
    _round_trip_s: float = FIRST_ROUND_TRIP_S

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Requests may come. Outside of all such blocks what is free is given back."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    @property
    def is_surplus(self) -> bool:
        """Whether the next portions give something back."""
        return not self._users and any(pool.free for pool in self._pools.values())

    def take(self, model: str, bound: Bound) -> bool:
        """For a request that comes just now: whether it may be sent. What others wait for is theirs."""
        pool = self._pools.setdefault(model, _Pool())
        if not pool.free.covers(pool.waiting + bound):
            return False
        self._give(pool, bound)
        return True

    def wait(self, model: str, bound: Bound) -> None:
        """Have it reserved with the next portion."""
        self._pools[model].waiting += bound

    def meet(self, model: str, bound: Bound) -> bool:
        """For a request that waited: whether it may be sent now. It waits on otherwise."""
        pool = self._pools[model]
        if not pool.free.covers(bound):
            return False
        pool.waiting -= bound
        self._give(pool, bound)
        return True

    def give_up(self, model: str, bound: Bound) -> None:
        """A request that waited is not to be sent any more."""
        self._pools[model].waiting -= bound

    def over(self, model: str, unsent: Bound = NOTHING) -> None:
        """A request that was given its bound has ended; `unsent` is that bound where it never went out."""
        pool = self._pools[model]
        pool.open -= 1
        pool.free += unsent

    def due(self) -> Portions:
        """What goes into the next batch. What it gives back can be taken no more."""
        now = self.clock()
        elapsed_s = max(now - self._asked_at, self.pause_s)
        self._asked_at = now
        portions = []
        for model, pool in self._pools.items():
            ahead = pool.ahead(elapsed_s, ROUND_TRIPS * (self._round_trip_s + self.pause_s))
            if self._users:
                more = (pool.waiting + ahead - pool.free).above_zero()
            else:
                more, pool.free = NOTHING - pool.free, NOTHING
            if more:
                portions.append((model, more))
        return tuple(portions)

    def granted(self, portions: Portions) -> None:
        """The batch with these portions is acknowledged: they are in the ledger."""
        self._round_trip_s = self.clock() - self._asked_at
        for model, more in portions:
            self._pools[model].free += more.above_zero()

    def _give(self, pool: _Pool, bound: Bound) -> None:
        pool.free -= bound
        pool.taken += bound
        pool.open += 1
