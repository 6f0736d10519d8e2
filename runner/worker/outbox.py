"""What a worker has to tell the aggregator, in numbered batches, kept until it is acknowledged.

Hides batching and re-sending: one batch is in flight at a time, everything that arrives meanwhile goes into the next
one, and a batch is sent again until the aggregator has answered, since an error never means "not recorded".
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from runner.change_signal import ChangeSignal
from runner.errors import DiskFull
from runner.messages import Ack, Attempt, Batch, Judgment, PendingTrial

from .reservations import ReservationPool

LINGER_S = 0.02
BATCH_RECORDS = 500
UNSENT_NOTES = 200
"""Failed attempts that may wait for a batch: what a worker's death can lose of them."""
FULL_PAUSE_S = 1.0
"""Between two sends of a batch that the ledger's disk has no room for."""

log = structlog.get_logger()
SendBatch = Callable[[Batch], Awaitable[Ack]]


@dataclass(slots=True, eq=False)
class _QueuedRecord:
    attempt: Attempt | None = None
    judgments: Sequence[Judgment] = ()
    waiting: Sequence[PendingTrial] = ()
    acknowledged: bool = False


@dataclass(slots=True, eq=False)
class Outbox:
    """Send records in numbered batches, and with each what `pool` asks for."""

    sender: str
    send: SendBatch
    """Returns once the batch is committed, and raises only for good."""
    pool: ReservationPool = field(default_factory=ReservationPool)
    changed: ChangeSignal = field(default_factory=ChangeSignal)
    """A batch was acknowledged, or a caller of `record` has gone."""
    _process: int = field(default_factory=os.getpid)
    _seq: int = 0
    _queue: deque[_QueuedRecord] = field(default_factory=deque)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _unanswered: tuple[Batch, list[_QueuedRecord]] | None = None
    _recording: int = 0
    """Callers of `record`: they have the batches sent."""
    _hurried: int = 0

    @property
    def unacknowledged(self) -> int:
        """Records that the process would take with it."""
        return len(self._queue)

    async def wait_for_change(self) -> None:
        """Return when something was acknowledged, or is to be looked at anew. Batches do not linger meanwhile."""
        self._hurried += 1
        try:
            if self._queue and not self._recording:
                # Nobody else would have them sent.
                await self._flush(self._queue[0])
            else:
                await self.changed.wait()
        finally:
            self._hurried -= 1

    async def note(self, attempt: Attempt) -> None:
        """Send along with a later batch; waits only where many are unsent."""
        record = self._queued(_QueuedRecord(attempt=attempt))
        if len(self._queue) >= UNSENT_NOTES:
            await self._flush(record)

    async def record(
        self, attempt: Attempt | None = None, judgments: Sequence[Judgment] = (), waiting: Sequence[PendingTrial] = ()
    ) -> None:
        """Send, and return once it is acknowledged. What is given in one call is committed in one transaction."""
        record = self._queued(_QueuedRecord(attempt, judgments, waiting))
        self._recording += 1
        try:
            while not record.acknowledged:
                await self._flush(record)
        finally:
            self._recording -= 1
            self.changed.notify()

    async def drain(self) -> None:
        """Return once everything noted so far is acknowledged, and what was reserved for nothing is given back."""
        if self._queue:
            last = self._queue[-1]
            # Not until the queue is empty: other tasks may never let it be.
            while not last.acknowledged:
                await self._flush(last)
        while self.pool.is_surplus:
            await self.record()

    async def _flush(self, wanted: _QueuedRecord) -> None:
        async with self._lock:
            if wanted.acknowledged:
                return
            if self._unanswered is None:
                if len(self._queue) < BATCH_RECORDS:
                    is_urgent = self._hurried or self.pool.is_awaited
                    await asyncio.sleep(0 if is_urgent else LINGER_S)
                self._unanswered = self._next_batch()
            # Where sending was broken off, the aggregator may hold this number already: the same batch goes again.
            batch, records = self._unanswered
            while True:
                try:
                    ack = await self.send(batch)
                    break
                except DiskFull:
                    # The driver learns of it from the aggregator, and decides how long there is to make room.
                    await asyncio.sleep(FULL_PAUSE_S)
            log.debug("acknowledged", sender=batch.sender, seq=batch.seq)
            self._unanswered = None
            self.pool.confirm(ack)
            for record in records:
                self._queue.popleft()
                record.acknowledged = True
            self.changed.notify()

    def _queued(self, record: _QueuedRecord) -> _QueuedRecord:
        if os.getpid() != self._process:
            # A copy of this process that a judge's code made, and did not end: it would go on with the run beside it.
            os._exit(0)
        self._queue.append(record)
        return record

    def _next_batch(self) -> tuple[Batch, list[_QueuedRecord]]:
        records = [self._queue[i] for i in range(min(BATCH_RECORDS, len(self._queue)))]
        attempts = tuple(record.attempt for record in records if record.attempt)
        reserved, starved = self.pool.next_portion(attempts)
        self._seq += 1
        judgments = tuple(judgment for record in records for judgment in record.judgments)
        waiting = tuple(waiting for record in records for waiting in record.waiting)
        return Batch(self.sender, self._seq, attempts, judgments, waiting, reserved, starved), records
