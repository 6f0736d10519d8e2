"""What a request waits for before it is sent: a reservation in the ledger, and capacity for its reply.

Hides who has the batches sent that bring both.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runner.endpoint.rate_limiter import Stopped
from runner.usage import CostBound

from .outbox import Outbox

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
"""Before the ledger is asked again, where nothing that waits can be paid. Doubled each time."""


@dataclass(slots=True, eq=False)
class Admission:
    """One worker's, over all of its accounts.

    Requests wait here for their reservations, and one of them has the next batch sent. And for capacity: a reply counts
    as in flight until it is acknowledged, since a death of the process loses what waits in the outbox; so while the
    aggregator is away, or its disk is full, nobody is let through who would add to that.
    """

    outbox: Outbox
    expects_more: Callable[[], bool] = lambda: False
    """Whether requests are under way that do not wait yet."""
    _is_asking: bool = False
    _pause_s: float = FIRST_PAUSE_S
    _in_flight: int = 0
    _let_through: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Who waits for capacity queues here: at most one looks anew at each change."""

    async def reserve(self, bound: CostBound, closed: asyncio.Event | None = None) -> bool:
        """Return once the ledger has reserved for one request what it may come to at most. Then `pool.release` is due.

        False: less is left of the budget. With `closed` that is waited for, in case it changes; Stopped is raised once
        that is set.
        """
        pool = self.outbox.pool
        if pool.take(bound):
            return True
        pool.wait(bound)
        try:
            while closed is not None or pool.is_within_reach(bound):
                if closed is not None and closed.is_set():
                    raise Stopped("the budget")
                await self._next_answer()
                if pool.try_take(bound):
                    return True
        except BaseException:
            pool.give_up(bound)
            raise
        pool.give_up(bound)
        return False

    async def wait_for_capacity(self, places: Callable[[], int]) -> None:
        """Return once fewer requests than `places` says are on their way or wait for their acknowledgement.

        `places`: the worker's, the same for all who wait. Whoever is let through is to `count_in_flight` before
        anything else is awaited.
        """
        async with self._turn:
            while not self._let_through and self._in_flight + self.outbox.unacknowledged >= max(1, places()):
                await self.outbox.wait_for_change()

    @contextmanager
    def count_in_flight(self) -> Iterator[None]:
        """A request is on its way. What comes of it is to be noted or recorded before anything else is awaited."""
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self.outbox.changed.notify()

    def stop_waiting(self) -> None:
        """Hold nobody up any more: nothing is asked from now on, and whoever waits is to see that."""
        self._let_through = True
        self.outbox.changed.notify()

    async def _next_answer(self) -> None:
        """Return when it may be another matter. Of those who wait here one has a batch sent, now or after a pause."""
        if self._is_asking:
            await self.outbox.changed.wait()
            return
        self._is_asking = True
        try:
            if not self.outbox.pool.is_blocked:
                self._pause_s = FIRST_PAUSE_S
                await self.outbox.record()
            elif not await self.outbox.changed.wait(self._pause_s):
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
                self.outbox.pool.is_quiet = not self.expects_more()
                await self.outbox.record()
        finally:
            self._is_asking = False
            self.outbox.changed.notify()
