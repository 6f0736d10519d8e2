"""What a worker has to tell the aggregator, kept until it is acknowledged.

Hides batching and re-sending: one batch is in flight at a time, everything that arrives meanwhile goes into the next
one, and a batch is sent again until the aggregator has answered, since an error never means "not recorded". While it
is away, or its disk is full, what waits here is bounded: a death of the process loses it, so it counts as in flight,
and `room` lets nobody through who would add to that. What is to be spent goes the same way before it is spent (`hold`):
each batch asks for what will be wanted next.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import structlog

from runner.errors import DiskFull
from runner.messages import NOTHING, Ack, Attempt, Batch, CostBound, Judgment, PendingTrial

from .reservations import ReservationPool

LINGER_S = 0.02
BATCH_RECORDS = 500
UNSENT_NOTES = 200
"""Failed attempts that may wait for a batch: what a worker's death can lose of them."""
FULL_PAUSE_S = 1.0
"""Between two sends of a batch that the ledger's disk has no room for."""

log = structlog.get_logger()
Send = Callable[[Batch], Awaitable[Ack]]


@dataclass(slots=True, eq=False)
class _Record:
    attempt: Attempt | None = None
    judgments: Sequence[Judgment] = ()
    waiting: Sequence[PendingTrial] = ()
    acknowledged: bool = False


class Outbox:
    """Send records in numbered batches. `send` returns once the batch is committed, and raises only for good."""

    def __init__(self, sender: str, send: Send) -> None:
        self.sender = sender
        self._process = os.getpid()
        self._reserve = ReservationPool()
        self._portion = asyncio.Event()
        """Set once the next batch is acknowledged; then it is another."""
        self._asks = False
        self._send = send
        self._seq = 0
        self._queue: deque[_Record] = deque()
        self._lock = asyncio.Lock()
        self._unanswered: tuple[Batch, list[_Record]] | None = None
        self._sending = 0
        """Requests on their way."""
        self._recording = 0
        """Callers of `record`: they have the batches sent."""
        self._crowding = 0
        """Callers of `room` that wait."""
        self._let_through = False
        self._changed = asyncio.Event()
        """Set when there may be room; then it is another."""

    async def wait_for_capacity(self, places: Callable[[], int]) -> None:
        """Return once fewer requests than `places` says are on their way or wait for their acknowledgement.

        Whoever is let through is to be `sending` before anything else is awaited.
        """
        self._crowding += 1
        try:
            while not self._let_through and self._sending + len(self._queue) >= max(1, places()):
                if self._queue and not self._recording:
                    # Notes alone, which nobody else would have sent.
                    await self._flush(self._queue[0])
                else:
                    await self._changed.wait()
        finally:
            self._crowding -= 1

    @contextmanager
    def count_in_flight(self) -> Iterator[None]:
        """A request is on its way. What comes of it is to be noted or recorded before anything else is awaited."""
        self._sending += 1
        try:
            yield
        finally:
            self._sending -= 1
            self._change()

    def stop_waiting(self) -> None:
        """Hold nobody up in `room` any more: nothing is asked from now on, and whoever waits is to see that."""
        self._let_through = True
        self._change()

    async def note(self, attempt: Attempt) -> None:
        """Send along with a later batch; waits only where many are unsent."""
        record = self._queued(_Record(attempt=attempt))
        if len(self._queue) >= UNSENT_NOTES:
            await self._flush(record)

    async def record(
        self,
        attempt: Attempt | None = None,
        judgments: Sequence[Judgment] = (),
        waiting: Sequence[PendingTrial] = (),
    ) -> None:
        """Send, and return once it is acknowledged. What is given in one call is committed in one transaction."""
        record = self._queued(_Record(attempt, judgments, waiting))
        self._recording += 1
        try:
            while not record.acknowledged:
                await self._flush(record)
        finally:
            self._recording -= 1
            self._change()

    async def drain(self) -> None:
        """Return once everything noted so far is acknowledged, and what was reserved for nothing is given back."""
        if self._queue:
            last = self._queue[-1]
            # Not until the queue is empty: other tasks may never let it be.
            while not last.acknowledged:
                await self._flush(last)
        while self._reserve.is_surplus:
            await self.record()

    def keep_reserve(self) -> AbstractContextManager[None]:
        """Requests may be sent. Outside of all such blocks nothing stays reserved for requests to come."""
        return self._reserve.in_use()

    async def reserve(self, model: str, bound: CostBound) -> None:
        """Return once the ledger has reserved for one request what it may come to at most. Then `over` is due."""
        if self._reserve.take(model, bound):
            return
        self._reserve.wait(model, bound)
        try:
            met = False
            while not met:
                await self._next_portion()
                met = self._reserve.try_take(model, bound)
        except BaseException:
            self._reserve.give_up(model, bound)
            raise

    def release(self, model: str, unsent: CostBound = NOTHING) -> None:
        """A request that was reserved for has ended; `unsent` is its bound where it never went out."""
        self._reserve.release(model, unsent)

    async def _next_portion(self) -> None:
        """Return after a batch was acknowledged. Of those who wait here one has it sent."""
        if self._asks:
            await self._portion.wait()
            return
        self._asks = True
        try:
            await self.record()
        finally:
            self._asks = False
            self._arrived()

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _arrived(self) -> None:
        self._portion.set()
        self._portion = asyncio.Event()

    async def _flush(self, wanted: _Record) -> None:
        async with self._lock:
            if wanted.acknowledged:
                return
            if self._unanswered is None:
                if len(self._queue) < BATCH_RECORDS:
                    is_urgent = self._crowding or self._reserve.is_awaited
                    await asyncio.sleep(0 if is_urgent else LINGER_S)
                self._unanswered = self._next_batch()
            # Where sending was broken off, the aggregator may hold this number already: the same batch goes again.
            batch, records = self._unanswered
            while True:
                try:
                    await self._send(batch)
                    break
                except DiskFull:
                    # The driver learns of it from the aggregator, and decides how long there is to make room.
                    await asyncio.sleep(FULL_PAUSE_S)
            log.debug("acknowledged", sender=batch.sender, seq=batch.seq)
            self._unanswered = None
            self._reserve.confirm(batch.reserved)
            self._arrived()
            for record in records:
                self._queue.popleft()
                record.acknowledged = True

    def _queued(self, record: _Record) -> _Record:
        if os.getpid() != self._process:
            # A copy of this process that a judge's code made, and did not end: it would go on with the run beside it.
            os._exit(0)
        self._queue.append(record)
        return record

    def _next_batch(self) -> tuple[Batch, list[_Record]]:
        records = [self._queue[i] for i in range(min(BATCH_RECORDS, len(self._queue)))]
        self._seq += 1
        batch = Batch(
            sender=self.sender,
            seq=self._seq,
            attempts=tuple(record.attempt for record in records if record.attempt),
            judgments=tuple(judgment for record in records for judgment in record.judgments),
            waiting=tuple(waiting for record in records for waiting in record.waiting),
            reserved=self._reserve.next_portions(),
        )
        return batch, records
