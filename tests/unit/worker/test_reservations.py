"""What is spent was reserved before: in whatever order things happen, whoever dies, and however often batches come."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from judges import load_judge
from runner.config import parse_config
from runner.endpoint.circuit_breaker import CircuitBreaker, Health
from runner.endpoint.client import Client
from runner.endpoint.judge_model import judge_models
from runner.endpoint.leases import LeaseAllocator
from runner.endpoint.rate_limiter import RateLimiter, Stopped
from runner.endpoint.response import Completion, EndpointError
from runner.endpoint.retry_policy import ErrorKind
from runner.ledger.aggregator import Aggregator
from runner.ledger.ledger import Ledger
from runner.messages import NOTHING, Ack, Batch, CostBound, Task, Usage
from runner.worker import outbox
from runner.worker.account import Account, Sender
from runner.worker.outbox import LINGER_S, Outbox
from runner.worker.request import JudgeRequest, build_probe
from runner.worker.reservations import LITTLE, Portions, ReservationPool

CAP_USD = 0.001
RESERVED_BY_SENDER = "SELECT sender, sum(requests), sum(tokens), sum(nano_usd) FROM reserved GROUP BY sender"
PRICE = {"input": 0.02, "output": 10.0}
CONFIG = parse_config(
    {
        "name": "spend",
        "items": {"path": "none.jsonl"},
        "judges": ["yes-no"],
        "models": [{"name": "m", "model": "gpt", "base_url": "http://127.0.0.1:9/v1", "price": PRICE}],
        "budget": {"usd": CAP_USD},
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
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    dead: bool = False
    doubtful: CostBound = NOTHING
    """Bounds of requests that came to no known end."""

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.name, self.send)
        self.account = Account(RateLimiter("m"), self.outbox, CircuitBreaker(Health.WORKING))
        self.spending = self.outbox.keep_reserve()
        self.spending.__enter__()

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

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.db"
        self.aggregator = Aggregator(self.path)
        self.endpoint = Endpoint()
        self.aggregator_is_there = asyncio.Event()
        self.aggregator_is_there.set()
        self.acks_get_lost = False
        self.born = self.asked = 0
        self.session()

    def session(self) -> None:
        """A new session, when all workers of the one before are gone."""
        spent = sum(spend.usage.cost_usd for spend in self.aggregator.spend().values())
        with Ledger(self.path, read_only=True) as ledger:
            spent += ledger.reserved().usd
        self.budget = LeaseAllocator(CONFIG.accounts(), CONFIG.budget.usd, spent)
        self.lives = [self.birth(), self.birth()]

    def birth(self) -> Life:
        self.born += 1
        life = Life(f"w-{self.born}", self)
        self.budget.join(life.name)
        return life

    def tick(self) -> None:
        for life in self.lives:
            self.budget.set_demand(life.name, {"m": 9})
        for life in self.lives:
            (lease,) = self.budget.allocate(life.name, {"m": 9})
            life.account.limiter.apply(lease)
            self.budget.confirm(life.name, [life.account.stats()])

    async def do(self, what: str, number: int, fate: str) -> None:
        life = self.lives[number % len(self.lives)]
        match what:
            case "ask":
                self.asked += 1
                asked = request(10 + self.asked)
                self.endpoint.fates[10 + self.asked] = fate, 10 + self.asked - number
                life.tasks.append(asyncio.create_task(life.judge(asked)))
            case "reply":
                for _ in range(min(number, len(self.endpoint.open))):
                    answer = self.endpoint.open.popleft()[2]
                    if not answer.done():
                        answer.set_result(None)
            case "tick":
                self.tick()
            case "kill":
                self.lives.remove(life)
                life.kill()
                self.budget.leave(life.name)
                self.budget.settle(life.name, self.aggregator.spent_by(life.outbox.sender))
                self.lives.append(self.birth())
            case "kill all":
                for life in self.lives:
                    life.kill()
                self.aggregator.close()
                self.aggregator = Aggregator(self.path)
                self.session()
            case "away":
                self.aggregator_is_there.clear()
            case "back":
                self.aggregator_is_there.set()
            case "twice":
                self.acks_get_lost = not self.acks_get_lost
        for _ in range(12):
            await asyncio.sleep(0)
        self.check()

    def check(self) -> None:
        with Ledger(self.path, read_only=True) as ledger:
            names, rows = ledger.attempt_rows(0, 10_000)
            spent = sum((spend.usage for spend in ledger.spend().values()), Usage())
            reserved = ledger.reserved()
        answered = sum(row[names.index("status")] is not None for row in rows)
        settled = CostBound(answered, int(spent.input_tokens + spent.output_tokens), round(spent.cost_usd * 1e9))
        assert self.endpoint.log.covers(settled)
        assert (settled + reserved).covers(self.endpoint.log)
        assert self.endpoint.log.usd <= CAP_USD

    async def end(self) -> None:
        """Everybody finishes in good order: only what nobody will ever know more of stays reserved."""
        self.aggregator_is_there.set()
        for life in self.lives:
            life.account.stop()
            while not all(task.done() for task in life.tasks):
                await self.do("reply", 99, "")
            life.spending.__exit__(None, None, None)
            await life.outbox.drain()
        self.check()
        with Ledger(self.path, read_only=True) as ledger:
            kept = {row[0]: CostBound(*row[1:]) for row in ledger._db.rows(RESERVED_BY_SENDER)}
        for life in self.lives:
            assert kept.get(life.name, NOTHING) == life.doubtful


step = st.tuples(
    st.sampled_from(
        ("ask", "ask", "ask", "ask", "reply", "reply", "tick", "kill", "kill all", "away", "back", "twice")
    ),
    st.integers(0, 9),
    st.sampled_from((ANSWERED, ANSWERED, ANSWERED, UNCOUNTED, REJECTED, LOST, UNREACHED)),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(step, max_size=40))
@example([("ask", 0, LOST), ("reply", 9, LOST), ("tick", 0, LOST)] * 20)
@example([("tick", 0, LOST), ("ask", 0, ANSWERED), ("tick", 0, LOST), ("tick", 0, LOST), ("kill", 0, LOST)] * 20)
@example([("tick", 0, LOST), ("ask", 0, ANSWERED), ("tick", 0, LOST), ("tick", 0, LOST), ("kill all", 0, LOST)] * 20)
def test_the_endpoints_own_count_lies_between_what_is_settled_and_that_with_what_is_reserved(
    steps: Sequence[tuple[str, int, str]],
) -> None:
    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder))
            world.tick()
            for what in steps:
                await world.do(*what)
            await world.end()
            world.aggregator.close()

    with patch.object(outbox, "LINGER_S", 0.0):
        asyncio.run(live())


ONE = CostBound(1, 100, 1000)


def test_a_first_request_waits_for_its_own() -> None:
    reserve = ReservationPool()
    with reserve.in_use():
        assert not reserve.take("m", ONE)
        reserve.wait("m", ONE)
        portions = reserve.next_portions()
        assert portions == (("m", ONE),)
        assert not reserve.try_take("m", ONE)
        reserve.confirm(portions)
        assert not reserve.take("m", ONE), "what another waited for is not free"
        assert reserve.try_take("m", ONE)


def test_what_is_free_goes_back_when_no_request_can_come() -> None:
    reserve = ReservationPool()
    with reserve.in_use():
        assert not reserve.take("m", ONE)
        reserve.wait("m", ONE)
        reserve.confirm(reserve.next_portions())
        assert reserve.try_take("m", ONE)
        reserve.release("m", unsent=ONE)
        assert not reserve.is_surplus
    assert reserve.is_surplus
    assert reserve.next_portions() == (("m", NOTHING - ONE),)
    assert not reserve.is_surplus
    assert reserve.next_portions() == ()


@pytest.mark.parametrize("round_trip_s", [0.005, 0.05, 0.2])
@pytest.mark.parametrize("in_flight", [1, 16, 256])
def test_few_requests_wait_and_little_is_reserved_ahead(in_flight: int, round_trip_s: float) -> None:
    """Every place in flight sends requests of 200 ms one after the other; so does the outbox with its batches."""
    reserve = ReservationPool()
    busy: list[float] = []
    """When each of the requests in flight is over."""
    waiting = sent = granted = 0
    portions: Portions = ()
    batch_at, answer_at = LINGER_S, math.inf
    with reserve.in_use():
        for step in range(2000):
            now = step * 0.01
            sent = 0 if step == 1000 else sent
            for _ in [end for end in busy if end <= now]:
                reserve.release("m")
            busy = [end for end in busy if end > now]
            if answer_at <= now:
                reserve.confirm(portions)
                granted += sum(more.requests for _, more in portions)
                while waiting and reserve.try_take("m", ONE):
                    waiting, sent, granted = waiting - 1, sent + 1, granted - 1
                    busy.append(now + 0.199)
                batch_at, answer_at = now + LINGER_S, math.inf
            for _ in range(in_flight - len(busy) - waiting):
                if reserve.take("m", ONE):
                    sent, granted = sent + 1, granted - 1
                    busy.append(now + 0.199)
                else:
                    reserve.wait("m", ONE)
                    waiting += 1
            if batch_at <= now:
                portions = reserve.next_portions()
                batch_at, answer_at = math.inf, now + round_trip_s
            assert 0 <= granted <= 3 * in_flight + LITTLE
    assert sent > 0.9 * in_flight * 50, "once it is known how fast it goes"
