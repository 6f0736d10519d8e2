"""What is spent was reserved before: in whatever order things happen, whoever dies, and however often batches come."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from virtual_time import run

from judges import load_judge
from runner.config import Budget, parse_config
from runner.endpoint.circuit_breaker import CircuitBreaker, Health
from runner.endpoint.client import Client
from runner.endpoint.judge_model import judge_models
from runner.endpoint.rate_limiter import RateLimiter, Stopped
from runner.endpoint.response import Completion, EndpointError
from runner.endpoint.retry_policy import ErrorKind
from runner.ledger.aggregator import Aggregator
from runner.ledger.ledger import Ledger
from runner.messages import Ack, Batch, Lease, Task
from runner.usage import NOTHING, CostBound, Usage
from runner.worker.account import Account, Sender
from runner.worker.admission import LONGEST_PAUSE_S, Admission
from runner.worker.outbox import LINGER_S, Outbox
from runner.worker.request import JudgeRequest, build_probe
from runner.worker.reservations import LITTLE, ReservationPool

BUDGETS = (
    Budget(usd=0.0006),
    Budget(requests=3),
    Budget(tokens=1000),
    Budget(usd=0.001, requests=5, tokens=2000),
    Budget(usd=100.0, requests=2, tokens=10**9),
)
RESERVED_BY_SENDER = "SELECT sender, requests, tokens, nano_usd FROM reserved"
PRICE = {"input": 0.02, "output": 10.0}
CONFIG = parse_config(
    {
        "name": "spend",
        "items": {"path": "none.jsonl"},
        "judges": ["yes-no"],
        "models": [{"name": "m", "model": "gpt", "base_url": "http://127.0.0.1:9/v1", "price": PRICE}],
    }
)
PAIR = judge_models(CONFIG, [load_judge("yes-no", Path())])["yes-no", "m"]
TASK = Task(1, "yes-no", "m", 0, ())

ANSWERED, UNCOUNTED, REJECTED, LOST, UNREACHED = "answered", "uncounted", "rejected", "lost", "unreached"
CHARGED = (ANSWERED, UNCOUNTED, LOST)


def request(max_tokens: int) -> JudgeRequest:
    messages = [{"role": "user", "content": "Is it so?"}]
    asked = build_probe(TASK, PAIR, PAIR.body(messages, sampling={"max_tokens": max_tokens}), "w")
    return replace(asked, request_id=f"r{max_tokens}")


def cost(tokens_in: int, tokens_out: int) -> CostBound:
    return CostBound(
        1, tokens_in + tokens_out, round(1e3 * (tokens_in * PRICE["input"] + tokens_out * PRICE["output"]))
    )


class Endpoint(Client):
    """The endpoint, and what it writes into its own log: what it charges, it charges when a request arrives."""

    def __init__(self) -> None:
        self.log = NOTHING
        self.open: deque[tuple[str, int, asyncio.Future[None]]] = deque()
        self.fates: dict[int, tuple[str, int]] = {}

    async def complete(self, body: dict[str, Any], keep: Any = ()) -> Completion:
        fate, produced = self.fates[body["max_tokens"]]
        if fate != UNREACHED:
            self.log += cost(2, produced) if fate in CHARGED else CostBound(1)
        answer = asyncio.get_running_loop().create_future()
        self.open.append((fate, produced, answer))
        await answer
        usage = Usage(2, 0, produced, 0, cost(2, produced).usd)
        match fate:
            case "answered":
                return Completion("yes", None, None, "stop", "gpt", None, usage, 0.1)
            case "uncounted":
                return Completion("yes", None, None, "stop", "gpt", None, Usage(), 0.1, counted=False)
            case "rejected":
                raise EndpointError(ErrorKind.THROTTLED, "too fast", 429)
            case "lost":
                raise EndpointError(ErrorKind.CONNECTION, "broken")
        raise EndpointError(ErrorKind.UNREACHABLE, "refused")


@dataclass
class Life:
    """A worker from birth to death: the real outbox, limiter and account, and the requests that it is about to make."""

    name: str
    world: World
    tasks: dict[asyncio.Task[None], CostBound] = field(default_factory=dict)
    dead: bool = False
    doubtful: CostBound = NOTHING
    """Bounds of requests that came to no known end."""

    def __post_init__(self) -> None:
        pool = ReservationPool()
        self.outbox = Outbox(self.name, self.send, pool)
        self.admission = Admission(self.outbox, lambda: self.account.expects_more)
        working = CircuitBreaker(Health.WORKING)
        self.account = Account(RateLimiter("m"), self.admission, working)
        self.account.apply(Lease("m", 3))
        self.in_use = ExitStack()
        self.in_use.enter_context(pool.in_use())

    def ask(self, asked: JudgeRequest) -> None:
        self.tasks[asyncio.create_task(self.judge(asked))] = asked.bound

    @property
    def waiting(self) -> list[CostBound]:
        """Bounds of the requests that are not over."""
        return [bound for task, bound in self.tasks.items() if not task.done()]

    async def rest(self) -> None:
        """As a worker does that holds no work."""
        if not self.waiting:
            self.in_use.close()
            await self.outbox.drain()

    async def send(self, batch: Batch) -> Ack:
        if self.dead:
            await asyncio.Event().wait()
        await self.world.aggregator_is_there.wait()
        ack = self.world.aggregator.record(batch)
        if self.world.acks_get_lost:
            # Recorded, and the worker does not know: it sends the same again.
            event("a batch came twice")
            ack = self.world.aggregator.record(batch)
        return ack

    async def judge(self, asked: JudgeRequest) -> None:
        """As the worker's loop does, without the retries."""
        try:
            # As copies are sent, whose failures hold up nothing.
            async with self.account.acquire(asked, self.world.endpoint, Sender.COPY) as complete:
                completion = await complete()
        except Stopped:
            return
        except EndpointError as error:
            attempt = asked.failed_attempt(1, 0.0, error)
        else:
            attempt = asked.answered_attempt(1, 0.0, completion)
        self.doubtful += asked.bound - attempt.freed
        await self.outbox.record(attempt)

    def kill(self) -> None:
        self.dead = True
        for task in self.tasks:
            task.cancel()


class World:
    """Driver, workers, aggregator, endpoint."""

    def __init__(self, folder: Path, budget: Budget) -> None:
        self.path = folder / "run.db"
        self.budget = budget
        self.aggregator = Aggregator(self.path, budget)
        self.endpoint = Endpoint()
        self.aggregator_is_there = asyncio.Event()
        self.aggregator_is_there.set()
        self.acks_get_lost = False
        self.born = self.asked = 0
        self.lives = [self.birth(), self.birth()]

    def birth(self) -> Life:
        self.born += 1
        return Life(f"w-{self.born}", self)

    async def do(self, what: str, number: int, fate: str) -> None:
        life = self.lives[number % len(self.lives)]
        match what:
            case "ask":
                self.asked += 1
                asked = request(10 + self.asked)
                self.endpoint.fates[10 + self.asked] = fate, 10 + self.asked - number
                life.ask(asked)
            case "reply":
                for _ in range(min(number, len(self.endpoint.open))):
                    answer = self.endpoint.open.popleft()[2]
                    if not answer.done():
                        answer.set_result(None)
            case "time":
                await asyncio.sleep(0.3)
            case "kill":
                self.lives.remove(life)
                life.kill()
                self.lives.append(self.birth())
            case "kill all":
                for life in self.lives:
                    life.kill()
                self.aggregator.close()
                self.aggregator = Aggregator(self.path, self.budget)
                self.lives = [self.birth(), self.birth()]
            case "away":
                self.aggregator_is_there.clear()
            case "back":
                self.aggregator_is_there.set()
            case "twice":
                self.acks_get_lost = not self.acks_get_lost
        await asyncio.sleep(LINGER_S / 2)
        self.check()

    def check(self) -> None:
        with Ledger(self.path, read_only=True) as ledger:
            names, rows = ledger.attempt_rows(0, 10_000)
            spent = sum((spend.usage for spend in ledger.spend().values()), Usage())
            reserved = ledger.spending.reserved()
        answered = sum(row[names.index("status")] is not None for row in rows)
        settled = CostBound(answered, int(spent.input_tokens + spent.output_tokens), round(spent.cost_usd * 1e9))
        assert self.endpoint.log.covers(settled)
        assert (settled + reserved).covers(self.endpoint.log)
        cap, billed = self.budget, self.endpoint.log
        assert cap.usd is None or billed.nano_usd <= cap.usd * 1e9
        assert cap.tokens is None or billed.tokens <= cap.tokens
        assert cap.requests is None or billed.requests <= cap.requests

    async def end(self) -> None:
        """All that fits is sent. Then everybody ends in good order: only what is in doubt for good stays reserved."""
        self.aggregator_is_there.set()
        for _ in range(12):
            await self.do("reply", 99, "")
            for life in self.lives:
                await life.rest()
            await asyncio.sleep(2 * LONGEST_PAUSE_S)
        assert not self.endpoint.open
        with Ledger(self.path, read_only=True, budget=self.budget) as ledger:
            left = ledger.spending.left()
        assert left is not None
        held_up = [life for life in self.lives if life.waiting]
        for life in held_up:
            event("held up by the budget")
            assert not any(left.above_zero().covers(bound) for bound in life.waiting), "what fits is sent"
        snapshot = self.aggregator.snapshot()
        assert snapshot.starved >= {life.name for life in held_up}
        assert (snapshot.over_budget is not None) >= bool(held_up)
        billed = self.endpoint.log
        for life in self.lives:
            life.account.stop()
            async with asyncio.timeout(10):
                await asyncio.gather(*life.tasks)
            life.in_use.close()
            await life.outbox.drain()
        self.check()
        assert self.endpoint.log == billed
        with Ledger(self.path, read_only=True) as ledger:
            kept = {row[0]: CostBound(*row[1:]) for row in ledger._db.rows(RESERVED_BY_SENDER)}
        for life in self.lives:
            assert kept.get(life.name, NOTHING) == life.doubtful


step = st.tuples(
    st.sampled_from(
        (
            "ask",
            "ask",
            "ask",
            "ask",
            "ask",
            "ask",
            "ask",
            "reply",
            "reply",
            "time",
            "kill",
            "kill all",
            "away",
            "back",
            "twice",
        )
    ),
    st.integers(0, 9),
    st.sampled_from((ANSWERED, ANSWERED, ANSWERED, UNCOUNTED, REJECTED, LOST, UNREACHED)),
)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(BUDGETS), st.lists(step, min_size=8, max_size=40))
@example(BUDGETS[0], [("ask", 0, LOST), ("reply", 9, LOST), ("time", 0, LOST)] * 20)
@example(BUDGETS[1], [("ask", 0, ANSWERED), ("time", 0, LOST), ("kill", 0, LOST)] * 20)
@example(BUDGETS[2], [("ask", 0, ANSWERED), ("time", 0, LOST), ("kill all", 0, LOST)] * 20)
@example(BUDGETS[3], [("ask", number, ANSWERED) for number in range(10)] * 3)
def test_the_endpoints_own_count_lies_between_what_is_settled_and_that_with_what_is_reserved(
    budget: Budget, steps: Sequence[tuple[str, int, str]]
) -> None:
    """And below the budget in each unit, in whatever order workers ask, settle and die; and what fits is sent."""

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder), budget)
            for what in steps:
                await world.do(*what)
            await world.end()
            world.aggregator.close()

    run(live)


ONE = CostBound(1, 100, 1000)


def test_a_first_request_waits_for_its_own() -> None:
    reserve = ReservationPool()
    with reserve.in_use():
        assert not reserve.take(ONE)
        reserve.wait(ONE)
        assert reserve.next_portion() == (ONE, None)
        assert not reserve.try_take(ONE)
        reserve.confirm(Ack(1, 0, ONE))
        assert not reserve.take(ONE), "what another waited for is not free"
        assert reserve.try_take(ONE)


def test_what_is_free_goes_back_when_no_request_can_come() -> None:
    reserve = ReservationPool()
    with reserve.in_use():
        assert not reserve.take(ONE)
        reserve.wait(ONE)
        reserve.confirm(Ack(1, 0, reserve.next_portion()[0]))
        assert reserve.try_take(ONE)
        reserve.release(unsent=ONE)
        assert not reserve.is_surplus
    assert reserve.is_surplus
    assert reserve.next_portion() == (NOTHING - ONE, None)
    assert not reserve.is_surplus
    assert reserve.next_portion() == (NOTHING, None)


COMPLETION = Completion("yes", None, None, "stop", "gpt", None, Usage(2, 0, 8, 0, 0.0), 0.1)
DEAR, CHEAP = CostBound(1, 500, 5000), CostBound(1, 100, 1000)


def refused(reserve: ReservationPool, left: CostBound) -> None:
    reserve.next_portion()
    reserve.confirm(Ack(1, 0, NOTHING, left))


def test_near_the_end_of_the_budget_the_cheapest_that_wait_are_paid_and_all_else_goes_back() -> None:
    reserve = ReservationPool(free=CostBound(1, 50, 500))
    with reserve.in_use():
        for bound in (DEAR, CHEAP, DEAR, CHEAP):
            reserve.wait(bound)
        refused(reserve, CostBound(2**62, 640, 2**62))
        assert not reserve.is_blocked
        portion, starved = reserve.next_portion()
        assert (reserve.free + portion.above_zero(), starved) == (CHEAP + CHEAP, None)
        reserve.confirm(Ack(2, 0, portion.above_zero(), CostBound(2**62, 450, 2**62)))
        assert reserve.try_take(CHEAP)
        assert reserve.try_take(CHEAP)
        assert reserve.is_blocked
        assert not reserve.is_within_reach(DEAR)
        # Of what the next batch frees the dear ones can be paid.
        answered = replace(request(1).answered_attempt(1, 0.0, COMPLETION), freed=CHEAP)
        assert reserve.next_portion([answered]) == (DEAR, None)


def test_a_pool_is_starved_when_nothing_is_in_flight_and_nothing_else_to_be_expected() -> None:
    reserve = ReservationPool()
    with reserve.in_use():
        for bound in (CHEAP, DEAR, DEAR):
            reserve.wait(bound)
        reserve.confirm(Ack(1, 0, CHEAP, CostBound(10, 400, 2**62)))
        assert reserve.try_take(CHEAP)
        reserve.is_quiet = True
        assert reserve.next_portion() == (NOTHING, None), "one is in flight"
        reserve.release()
        assert reserve.next_portion() == (NOTHING, None), "others may come"
        reserve.is_quiet = True
        assert reserve.next_portion() == (NOTHING, DEAR)
        reserve.give_up(DEAR)
        reserve.give_up(DEAR)
        reserve.is_quiet = True
        assert reserve.next_portion() == (NOTHING, None)


def test_a_dear_request_that_cannot_be_paid_holds_up_no_cheap_one() -> None:
    reserve = ReservationPool()
    with reserve.in_use():
        reserve.wait(DEAR)
        reserve.confirm(Ack(1, 0, CHEAP.for_requests(3), CostBound(2**62, 100, 2**62)))
        assert reserve.take(CHEAP)
        reserve.confirm(Ack(2, 0, NOTHING, CostBound(2**62, 300, 2**62)))
        assert not reserve.take(CHEAP), "now the other can be paid"


def test_little_is_reserved_ahead_where_little_is_left() -> None:
    reserve = ReservationPool()
    with reserve.in_use():
        for left, ahead in ((10**6, 64), (640, 40), (32, 2), (3, 0)):
            reserve.confirm(Ack(1, 0, CHEAP.for_requests(40), CostBound(left, 2**62, 2**62)))
            while reserve.take(CHEAP):
                reserve.release()
            portion, _ = reserve.next_portion()
            reserve.confirm(Ack(2, 0, portion.above_zero(), CostBound(left - portion.requests, 2**62, 2**62)))
            assert reserve.free == CHEAP.for_requests(ahead)


def test_what_lies_idle_where_little_is_left_goes_back_with_the_next_batch() -> None:
    reserve = ReservationPool()
    with reserve.in_use():
        reserve.confirm(Ack(1, 0, CHEAP.for_requests(9), CostBound(2**62, 20_000, 2**62)))
        assert reserve.next_portion() == (NOTHING, None)
        reserve.confirm(Ack(2, 0, NOTHING, CostBound(2**62, 2000, 2**62)))
        assert reserve.next_portion() == (NOTHING - CHEAP.for_requests(9), None)


@pytest.mark.parametrize("round_trip_s", [0.005, 0.05, 0.2])
@pytest.mark.parametrize("in_flight", [1, 16, 256])
def test_few_requests_wait_and_little_is_reserved_ahead(in_flight: int, round_trip_s: float) -> None:
    """Every place in flight sends requests of 200 ms one after the other; so does the outbox with its batches."""
    reserve = ReservationPool()
    busy: list[float] = []
    """When each of the requests in flight is over."""
    waiting = sent = granted = 0
    portion = NOTHING
    batch_at, answer_at = LINGER_S, math.inf
    with reserve.in_use():
        for step in range(2000):
            now = step * 0.01
            sent = 0 if step == 1000 else sent
            for _ in [end for end in busy if end <= now]:
                reserve.release()
            busy = [end for end in busy if end > now]
            if answer_at <= now:
                reserve.confirm(Ack(1, 0, portion.above_zero()))
                granted += portion.requests
                while waiting and reserve.try_take(ONE):
                    waiting, sent, granted = waiting - 1, sent + 1, granted - 1
                    busy.append(now + 0.199)
                batch_at, answer_at = now + LINGER_S, math.inf
            for _ in range(in_flight - len(busy) - waiting):
                if reserve.take(ONE):
                    sent, granted = sent + 1, granted - 1
                    busy.append(now + 0.199)
                else:
                    reserve.wait(ONE)
                    waiting += 1
            if batch_at <= now:
                portion, _ = reserve.next_portion()
                batch_at, answer_at = math.inf, now + round_trip_s
            assert 0 <= granted <= 3 * in_flight + LITTLE
    assert sent > 0.9 * in_flight * 50, "once it is known how fast it goes"
