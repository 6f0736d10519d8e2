"""The outbox: what was recorded is sent, in order, once acknowledged never again, and batches form by themselves."""

from __future__ import annotations

import asyncio

import pytest

from runner.outbox import Outbox
from runner.protocol import Ack, Attempt, Batch


def attempt(number: int) -> Attempt:
    return Attempt(f"r{number}", (b"k" * 16,), "j", "m", "m", "first", 1, "ok", 0.0, "w")


class Listener:
    """Takes batches as the aggregator would, by their number."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    async def __call__(self, batch: Batch) -> Ack:
        if batch.seq > len(self.batches):
            assert batch.seq == len(self.batches) + 1
            self.batches.append(batch)
        return Ack(batch.seq, 0)

    @property
    def requests(self) -> list[str]:
        return [entry.request_id for batch in self.batches for entry in batch.attempts]


async def test_concurrent_records_share_batches_and_keep_their_order() -> None:
    listener = Listener()
    outbox = Outbox("s", listener)
    await asyncio.gather(*(outbox.record(attempt(n)) for n in range(100)))
    assert listener.requests == [f"r{n}" for n in range(100)]
    assert len(listener.batches) < 10


async def test_notes_are_sent_by_drain() -> None:
    listener = Listener()
    outbox = Outbox("s", listener)
    await outbox.note(attempt(1))
    assert listener.batches == []
    await outbox.drain()
    assert listener.requests == ["r1"]
    await outbox.drain()
    assert len(listener.batches) == 1


@pytest.mark.parametrize("committed", [False, True])
async def test_a_recorder_cancelled_while_sending_loses_nothing(committed: bool) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    listener = Listener()

    async def slow(batch: Batch) -> Ack:
        if committed:
            await listener(batch)
        started.set()
        await go_on.wait()
        return await listener(batch)

    outbox = Outbox("s", slow)
    recording = asyncio.create_task(outbox.record(attempt(1)))
    await started.wait()
    recording.cancel()
    with pytest.raises(asyncio.CancelledError):
        await recording
    go_on.set()
    await outbox.record(attempt(2))
    assert listener.requests == ["r1", "r2"]
