"""What a request waits for before it is sent: a reservation in the ledger, and capacity for its reply.

Hides who has the batches sent that bring both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runner.endpoint.rate_limiter import Stopped
from runner.usage import CostBound

from .outbox import Outbox
from .reservations import ReservationPool

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
"""Before the ledger is asked again, where nothing that waits can be paid. Doubled each time."""


class Reservations:
    """Requests wait here for their reservations, and one of them has the next batch sent."""

    def __init__(self, pool: ReservationPool, outbox: Outbox, expects_more: Callable[[], bool] = lambda: False) -> None:
        """`pool` goes along with the outbox. `expects_more`: whether requests are under way that do not wait yet."""
        self._pool = pool
        self._outbox = outbox
        self._expects_more = expects_more
        self._is_asking = False
        self._pause_s = FIRST_PAUSE_S
        # What waits for nothing is the pool's own.
        self.in_use = pool.in_use
        self.release = pool.release

    async def reserve(self, bound: CostBound, closed: asyncio.Event | None = None) -> bool:
        """Return once the ledger has reserved for one request what it may come to at most. Then `release` is due.

        False: less is left of the budget. With `closed` that is waited for, in case it changes; Stopped is raised once
        that is set.
        """
        if self._pool.take(bound):
            return True
        self._pool.wait(bound)
        try:
            while closed is not None or self._pool.is_within_reach(bound):
                if closed is not None and closed.is_set():
                    raise Stopped("the budget")
                await self._next_answer()
                if self._pool.try_take(bound):
                    return True
        except BaseException:
            self._pool.give_up(bound)
            raise
        self._pool.give_up(bound)
        return False

    def notify(self) -> None:
        """Let all who wait look again whether they are to."""
        self._outbox.changed.notify()

    async def _next_answer(self) -> None:
        """Return when it may be another matter. Of those who wait here one has a batch sent, now or after a pause."""
        if self._is_asking:
            await self._outbox.changed.wait()
            return
        self._is_asking = True
        try:
            if not self._pool.is_blocked:
                self._pause_s = FIRST_PAUSE_S
                await self._outbox.record()
            elif not await self._outbox.changed.wait(self._pause_s):
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
                self._pool.is_quiet = not self._expects_more()
                await self._outbox.record()
        finally:
            self._is_asking = False
            self._outbox.changed.notify()


class Capacity:
    """How many requests a worker may have on their way.

    A reply counts as in flight until it is acknowledged: a death of the process loses what waits in the outbox, so
    while the aggregator is away, or its disk is full, nobody is let through who would add to that.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._in_flight = 0
        self._let_through = False

    async def wait(self, places: Callable[[], int]) -> None:
        """Return once fewer requests than `places` says are on their way or wait for their acknowledgement.

        Whoever is let through is to `count_in_flight` before anything else is awaited.
        """
        with self._outbox.hurried():
            while not self._let_through and self._in_flight + self._outbox.unacknowledged >= max(1, places()):
                if self._outbox.holds_notes_alone:
                    # Nobody else would have them sent.
                    await self._outbox.flush()
                else:
                    await self._outbox.changed.wait()

    @contextmanager
    def count_in_flight(self) -> Iterator[None]:
        """A request is on its way. What comes of it is to be noted or recorded before anything else is awaited."""
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._outbox.changed.notify()

    def stop_waiting(self) -> None:
        """Hold nobody up any more: nothing is asked from now on, and whoever waits is to see that."""
        self._let_through = True
        self._outbox.changed.notify()
