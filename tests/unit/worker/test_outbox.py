"""The outbox: what was recorded is sent, in order, once acknowledged never again, and batches form by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import DiskFull, StoppedEarly
from runner.messages import Ack, Attempt, Batch
from runner.usage import CostBound
from runner.worker import outbox as outbox_module
from runner.worker.admission import Admission
from runner.worker.outbox import Outbox
from runner.worker.reservations import ReservationPool


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
        return Ack(batch.seq, 0, batch.reserved.above_zero())

    @property
    def requests(self) -> list[str]:
        return [entry.request_id for batch in self.batches for entry in batch.attempts]


async def at_rest(value: Callable[[], object]) -> None:
    """Return once all tasks wait for something, as far as one sees by a value."""
    before = object()
    while value() != before:
        before = value()
        for _ in range(100):
            await asyncio.sleep(0)


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


async def test_drain_waits_for_what_is_there_and_not_for_what_others_add_meanwhile() -> None:
    listener = Listener()

    async def busy(batch: Batch) -> Ack:
        # As other tasks do all the time: something new waits whenever a batch is acknowledged.
        await outbox.note(attempt(len(listener.batches) + 2))
        return await listener(batch)

    outbox = Outbox("s", busy)
    await outbox.note(attempt(1))
    async with asyncio.timeout(30):
        await outbox.drain()
    assert listener.requests == ["r1"]


async def test_what_is_spent_was_acknowledged_as_reserved_before() -> None:
    listener = Listener()
    pool = ReservationPool()
    outbox = Outbox("s", listener, pool)
    admission = Admission(outbox)
    for number in range(1, 4):
        # Each more than whatever may have been reserved ahead.
        bound = CostBound(1, 10**number, 10**number)
        with pool.in_use():
            assert all(await asyncio.gather(*(admission.reserve(bound) for _ in range(50))))
            assert sum(batch.reserved.tokens for batch in listener.batches) >= 50 * bound.tokens
            for _ in range(50):
                pool.release(unsent=bound)
        await outbox.drain()
        asked = [batch.reserved for batch in listener.batches]
        assert sum(asked, CostBound()) == CostBound(), "what was not used is given back"
    assert len(listener.batches) < 15, "they do not ask one by one"


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


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("error", [StoppedEarly("away"), ConnectionResetError(), ValueError("a bug")])
async def test_after_any_error_the_same_batch_is_sent_again(error: Exception, committed: bool) -> None:
    listener = Listener()
    sent: list[Batch] = []

    async def failing(batch: Batch) -> Ack:
        sent.append(batch)
        if len(sent) == 1:
            if committed:
                await listener(batch)
            raise error
        return await listener(batch)

    outbox = Outbox("s", failing)
    with pytest.raises(type(error)):
        await outbox.record(attempt(1))
    await outbox.record(attempt(2))
    assert sent[0] == sent[1]
    assert listener.requests == ["r1", "r2"]


async def test_a_batch_that_finds_no_room_is_kept_until_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "FULL_PAUSE_S", 0.0)
    listener = Listener()
    tries = 0

    async def full(batch: Batch) -> Ack:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise DiskFull("no room")
        return await listener(batch)

    await Outbox("s", full).record(attempt(1))
    assert (tries, listener.requests) == (4, ["r1"])


async def test_what_waits_while_the_aggregator_is_away_counts_as_in_flight() -> None:
    """Sixteen requests at a time, as fast as they can be answered, and nobody who takes their answers."""
    listener = Listener()
    back = asyncio.Event()

    async def away(batch: Batch) -> Ack:
        await back.wait()
        return await listener(batch)

    outbox = Outbox("s", away)
    admission = Admission(outbox)
    places = asyncio.Semaphore(16)
    asked = 0

    async def judge(number: int) -> None:
        nonlocal asked
        async with places:
            await admission.wait_for_capacity(lambda: 16)
            with admission.count_in_flight():
                asked += 1
                await asyncio.sleep(0)
        await outbox.record(attempt(number))

    judging = [asyncio.create_task(judge(number)) for number in range(2000)]
    await at_rest(lambda: asked)
    assert asked == 16
    back.set()
    await asyncio.gather(*judging)
    assert sorted(listener.requests) == sorted(f"r{number}" for number in range(2000))


@given(st.lists(st.tuples(st.sampled_from(["records", "notes", "ends"]), st.integers(0, 3)), max_size=40), st.data())
def test_no_more_than_the_places_are_on_their_way_or_unacknowledged(
    requests: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Whatever becomes of requests, and whenever batches are acknowledged; and none waits for ever."""
    places = data.draw(st.integers(1, 5))
    listener = Listener()
    out = most = 0

    async def slowly(batch: Batch) -> Ack:
        nonlocal out
        for _ in range(data.draw(st.integers(0, 5))):
            await asyncio.sleep(0)
        out -= len(batch.attempts)
        return await listener(batch)

    outbox = Outbox("s", slowly)
    admission = Admission(outbox)

    async def judge(number: int, what: str, turns: int) -> None:
        nonlocal out, most
        await admission.wait_for_capacity(lambda: places)
        with admission.count_in_flight():
            out += 1
            most = max(most, out)
            for _ in range(turns):
                await asyncio.sleep(0)
        match what:
            case "records":
                await outbox.record(attempt(number))
            case "notes":
                await outbox.note(attempt(number))
            case _:
                out -= 1

    async def all_of_them() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*(judge(number, *request) for number, request in enumerate(requests)))
            await outbox.drain()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox_module, "LINGER_S", 0.0)
        asyncio.run(all_of_them())
    assert most <= places
    assert out == 0


async def test_nobody_is_held_up_any_more_once_nothing_is_asked() -> None:
    async def away(batch: Batch) -> Ack:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    outbox = Outbox("s", away)
    admission = Admission(outbox)
    recording = [asyncio.create_task(outbox.record(attempt(number))) for number in range(3)]
    await asyncio.sleep(0)
    waiting = asyncio.create_task(admission.wait_for_capacity(lambda: 3))
    await at_rest(waiting.done)
    assert not waiting.done()
    admission.stop_waiting()
    await waiting
    await admission.wait_for_capacity(lambda: 3)
    for task in recording:
        task.cancel()
    await asyncio.gather(*recording, return_exceptions=True)
