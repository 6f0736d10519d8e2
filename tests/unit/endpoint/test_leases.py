"""The sum of what the workers may use keeps to the limits under any order of joining, leasing, answering and dying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runner.config import Limits
from runner.endpoint.leases import HOLD, LeaseAllocator
from runner.messages import AccountStats, Lease

IN_FLIGHT, RPM, TPM, USD = 5, 600.0, 6000.0, 1.0


def budget(in_flight: int = IN_FLIGHT, **more: float | None) -> LeaseAllocator:
    return LeaseAllocator({"a": Limits(rpm=RPM, tpm=TPM, in_flight=in_flight)}, **more)  # type: ignore[arg-type]


def lease(share: LeaseAllocator, worker: str, demand: int, in_flight: int | None = None) -> Lease:
    """One whole tick; the worker has `in_flight` requests under way when it answers (by default: as leased)."""
    (given,) = share.allocate(worker, {"a": demand})
    share.confirm(worker, [AccountStats("a", in_flight=given.in_flight if in_flight is None else in_flight)])
    return given


def test_one_busy_worker_uses_the_whole_account() -> None:
    share = budget()
    share.join("idle")
    share.join("busy")
    assert lease(share, "idle", 0) == Lease("a", 0, 0.0, 0.0)
    given = lease(share, "busy", 100)
    assert given.in_flight == IN_FLIGHT
    assert given.requests_per_s == pytest.approx(RPM / 60)
    assert given.tokens_per_s == pytest.approx(TPM / 60)
    assert given.usd is None


def test_without_limits_rates_are_not_limited() -> None:
    share = LeaseAllocator({"a": Limits()})
    share.join("w")
    assert lease(share, "w", 1) == Lease("a", 256)


def test_told_of_all_demand_the_first_round_shares_equally() -> None:
    share = budget(in_flight=8)
    for worker in "wxyz":
        share.join(worker)
        share.set_demand(worker, {"a": 50})
    assert [lease(share, worker, 50).in_flight for worker in "wxyz"] == [2, 2, 2, 2]


def test_shares_follow_demand() -> None:
    share = budget(in_flight=10)
    for worker, demand in (("small", 2), ("large", 50)):
        share.join(worker)
        share.set_demand(worker, {"a": demand})
    assert lease(share, "small", 2).in_flight == 2
    large = lease(share, "large", 50)
    assert large.in_flight == 8
    assert large.requests_per_s == pytest.approx(RPM / 60 * 0.8)


def test_a_shrunk_lease_counts_at_its_old_size_until_it_is_acknowledged() -> None:
    share = budget(in_flight=4)
    share.join("first")
    assert lease(share, "first", 9).in_flight == 4
    share.join("second")
    assert lease(share, "second", 9) == Lease("a", 0, 0.0, 0.0)
    (shrunk,) = share.allocate("first", {"a": 9})
    assert shrunk.in_flight == 2
    assert lease(share, "second", 9).in_flight == 0
    share.confirm("first", [AccountStats("a", in_flight=3)])
    assert lease(share, "second", 9).in_flight == 1
    share.allocate("first", {"a": 9})
    share.confirm("first", [AccountStats("a", in_flight=2)])
    assert lease(share, "second", 9).in_flight == 2


def test_a_shrunk_rate_counts_at_its_old_size_until_it_is_acknowledged() -> None:
    share = budget(in_flight=4)
    share.join("first")
    lease(share, "first", 9)
    share.join("second")
    share.set_demand("second", {"a": 9})
    (shrunk,) = share.allocate("first", {"a": 9})
    assert shrunk.requests_per_s == pytest.approx(RPM / 60 / 2)
    assert lease(share, "second", 9).requests_per_s == 0.0
    share.confirm("first", [AccountStats("a", in_flight=2)])
    given = lease(share, "second", 9)
    assert given.requests_per_s == pytest.approx(RPM / 60 / 2)
    assert given.tokens_per_s == pytest.approx(TPM / 60 / 2)


def test_an_unacknowledged_rate_counts_even_where_places_are_free() -> None:
    share = budget(in_flight=9)
    share.join("x")
    lease(share, "x", 50)
    share.join("y")
    share.set_demand("y", {"a": 50})
    lease(share, "x", 50, in_flight=8)
    before = RPM / 60 * 4 / 9
    assert lease(share, "y", 50).requests_per_s == pytest.approx(before)
    share.join("z")
    share.set_demand("z", {"a": 50})
    share.allocate("y", {"a": 50})
    lease(share, "x", 50, in_flight=3)
    given = lease(share, "z", 50)
    assert given.in_flight == 3
    assert given.requests_per_s == pytest.approx(RPM / 60 - RPM / 60 / 3 - before)


def test_a_dead_workers_places_are_free_at_once() -> None:
    share = budget(in_flight=4)
    share.join("first")
    lease(share, "first", 9)
    share.leave("first")
    share.join("second")
    assert lease(share, "second", 9).in_flight == 4


def test_fewer_places_than_workers_are_passed_on() -> None:
    share = budget(in_flight=2)
    workers = [f"w{n}" for n in range(5)]
    for worker in workers:
        share.join(worker)
    served: set[str] = set()
    for _ in range(HOLD * 4 * len(workers)):
        given = {worker: lease(share, worker, 9).in_flight for worker in workers}
        assert sum(given.values()) <= 2
        served |= {worker for worker, places in given.items() if places}
    assert served == set(workers)


# ---- money -------------------------------------------------------------------------------------------------------


def money(share: LeaseAllocator, worker: str, demand: int = 5, **news: float) -> float:
    (given,) = share.allocate(worker, {"a": demand})
    share.confirm(worker, [AccountStats("a", **news)])  # type: ignore[arg-type]
    assert given.usd is not None
    return given.usd


def test_money_is_granted_in_parts_of_what_is_left() -> None:
    share = budget(usd=10.0, spent_usd=2.0)
    share.join("w")
    assert money(share, "w") == pytest.approx(4.0)
    assert money(share, "w", spent_usd=0.5, in_flight=1) == pytest.approx(4.0)
    assert money(share, "w", spent_usd=3.9, in_flight=1) < 8.0
    assert money(share, "w", spent_usd=3.9, in_flight=1) > 4.0


def test_a_request_that_needs_more_than_a_part_gets_it() -> None:
    share = budget(usd=10.0)
    share.join("w")
    first = money(share, "w", wants_usd=4.9)
    assert money(share, "w") == pytest.approx(first + 4.9)
    assert not share.exhausted()


def test_exhausted_when_nothing_can_be_paid_and_nothing_is_in_flight() -> None:
    share = budget(usd=1.0)
    share.join("w")
    money(share, "w", wants_usd=2.0, in_flight=1)
    assert not share.exhausted()
    money(share, "w", wants_usd=2.0)
    assert share.exhausted()
    money(share, "w", demand=0)
    assert not share.exhausted()


def test_small_change_of_two_workers_is_put_together() -> None:
    share = budget(usd=1.0)
    for worker in ("x", "y"):
        share.join(worker)
        share.set_demand(worker, {"a": 5})
    granted = {worker: money(share, worker) for worker in ("x", "y")}
    price = 0.9
    for _ in range(6):
        for worker, own in granted.items():
            granted[worker] = money(share, worker, wants_usd=max(0.0, price - own))
        assert sum(granted.values()) <= 1.0
    assert max(granted.values()) >= price


def test_a_grant_counts_before_it_is_acknowledged() -> None:
    share = budget(usd=1.0)
    for worker in ("x", "y"):
        share.join(worker)
    (given,) = share.allocate("x", {"a": 5})
    assert given.usd == pytest.approx(0.5)
    assert money(share, "y") == pytest.approx(0.125)


def test_money_taken_back_stays_counted_while_requests_are_in_flight() -> None:
    share = budget(usd=1.0)
    for worker in ("x", "y"):
        share.join(worker)
    assert money(share, "x") == pytest.approx(0.5)
    # Asked back with the next lease, but by then x had reserved it for a request.
    assert money(share, "x", demand=0, in_flight=1) == 0.0
    assert money(share, "y") == pytest.approx(0.25)
    assert money(share, "x", demand=0, spent_usd=0.4) == 0.0
    assert money(share, "y", wants_usd=0.3, in_flight=1) == pytest.approx(0.25)
    assert money(share, "y") == pytest.approx(0.25 + 0.3)


def test_the_last_money_goes_to_the_cheapest_request() -> None:
    share = budget(usd=1.0)
    needs = {"dear": 3.0, "cheap": 0.95}
    granted = dict.fromkeys(needs, 0.0)
    for worker in needs:
        share.join(worker)
        share.set_demand(worker, {"a": 5})
    for _ in range(8):
        for worker, own in granted.items():
            granted[worker] = money(share, worker, wants_usd=max(0.0, needs[worker] - own))
    assert granted["cheap"] >= 0.95
    assert not share.exhausted()


def test_a_dead_workers_grant_stays_spent_until_the_ledger_says_less() -> None:
    share = budget(usd=8.0)
    share.join("dead")
    assert money(share, "dead") == pytest.approx(4.0)
    share.leave("dead")
    share.join("next")
    assert money(share, "next") == pytest.approx(2.0)
    share.settle("dead", 1.0)
    share.settle("dead", 1.0)
    assert money(share, "next", spent_usd=1.9, in_flight=1) == pytest.approx(2.0)
    assert money(share, "next", spent_usd=1.9, in_flight=1) == pytest.approx(1.9 + 2.5)


# ---- any order of events -----------------------------------------------------------------------------------------


@dataclass
class Model:
    """A worker that uses all it may, as a limiter would let it."""

    lease: Lease = field(default_factory=lambda: Lease("a", 0, 0.0, 0.0, 0.0))
    running: list[float] = field(default_factory=list)
    spent: float = 0.0
    waiting: float = 0.0
    sent: Lease | None = None
    answer: AccountStats | None = None
    served: int = 0

    @property
    def wants(self) -> float:
        if self.lease.usd is None:
            return 0.0
        short = self.spent + sum(self.running) + self.waiting - self.lease.usd
        return short if short > 1e-9 else 0.0

    def start(self, usd: float) -> None:
        self.waiting = usd
        if not self.wants and len(self.running) < self.lease.in_flight:
            self.running.append(usd)
            self.waiting = 0.0
            self.served += 1

    def finish(self, share: float) -> None:
        self.spent += self.running.pop(0) * share

    def news(self) -> AccountStats:
        return AccountStats("a", in_flight=len(self.running), spent_usd=self.spent, wants_usd=self.wants)


class Schedules(RuleBasedStateMachine):
    """Ticks overtake each other, workers come and die; what is really in use never exceeds the limits."""

    cap: float | None = USD

    def __init__(self) -> None:
        super().__init__()
        self.budget = budget(usd=self.cap, spent_usd=0.1)
        self.workers: dict[str, Model] = {}
        self.born = 0
        self.lost = 0.1
        self.unsettled: dict[str, float] = {}

    def pick(self, number: int) -> tuple[str, Model]:
        names = sorted(self.workers)
        name = names[number % len(names)]
        return name, self.workers[name]

    @initialize()
    def begin(self) -> None:
        self.join()

    @rule()
    def join(self) -> None:
        if len(self.workers) < 7:
            self.born += 1
            self.workers[f"w{self.born}"] = Model()
            self.budget.join(f"w{self.born}")

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6), demand=st.sampled_from([0, 1, 2, 40]))
    def send(self, number: int, demand: int) -> None:
        name, worker = self.pick(number)
        if worker.sent is None and worker.answer is None:
            (worker.sent,) = self.budget.allocate(name, {"a": demand})

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6))
    def arrive(self, number: int) -> None:
        _, worker = self.pick(number)
        if worker.sent is not None:
            worker.lease, worker.sent = worker.sent, None
            worker.answer = worker.news()

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6))
    def answer(self, number: int) -> None:
        name, worker = self.pick(number)
        if worker.answer is not None:
            self.budget.confirm(name, [worker.answer])
            worker.answer = None

    @precondition(lambda self: self.workers)
    @rule(
        number=st.integers(0, 6),
        demand=st.sampled_from([0, 2, 40]),
        usd=st.sampled_from([0.01, 0.1, 0.4]),
        when=st.integers(0, 3),
    )
    def tick(self, number: int, demand: int, usd: float, when: int) -> None:
        """A whole tick, and before one of its steps the worker starts what it can."""
        steps: list[Callable[[], object]] = [
            lambda: self.send(number, demand),
            lambda: self.arrive(number),
            lambda: self.answer(number),
        ]
        steps.insert(when, lambda: self.start(number, usd, IN_FLIGHT))
        for step in steps:
            step()

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6), usd=st.sampled_from([0.0, 0.01, 0.1, 0.4]), times=st.integers(1, 4))
    def start(self, number: int, usd: float, times: int) -> None:
        for _ in range(times):
            self.pick(number)[1].start(usd)

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6), share=st.sampled_from([0.0, 0.3, 1.0]))
    def finish(self, number: int, share: float) -> None:
        worker = self.pick(number)[1]
        if worker.running:
            worker.finish(share)

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6))
    def die(self, number: int) -> None:
        name, worker = self.pick(number)
        del self.workers[name]
        self.budget.leave(name)
        self.unsettled[name] = worker.spent + sum(worker.running)

    @precondition(lambda self: self.unsettled)
    @rule()
    def settle(self) -> None:
        name, usd = self.unsettled.popitem()
        self.budget.settle(name, usd)
        self.lost += usd

    @invariant()
    def limits_hold(self) -> None:
        workers = self.workers.values()
        assert sum(len(worker.running) for worker in workers) <= IN_FLIGHT
        assert sum(worker.lease.in_flight for worker in workers) <= IN_FLIGHT
        assert sum(worker.lease.requests_per_s or 0.0 for worker in workers) <= RPM / 60
        assert sum(worker.lease.tokens_per_s or 0.0 for worker in workers) <= TPM / 60
        used = sum(worker.spent + sum(worker.running) for worker in workers)
        assert self.cap is None or self.lost + sum(self.unsettled.values()) + used <= self.cap + 1e-6

    def teardown(self) -> None:
        """Whatever came before: with regular ticks every worker with work is served, and all the money can be spent."""
        while self.unsettled:
            self.settle()
        before = {name: worker.served for name, worker in self.workers.items()}
        price = 0.02
        for _ in range(300):
            for name, worker in self.workers.items():
                if worker.answer is None:
                    worker.lease = worker.sent or self.budget.allocate(name, {"a": 9})[0]
                worker.sent = worker.answer = None
                while worker.running:
                    worker.finish(1.0)
                worker.start(price)
                self.budget.confirm(name, [worker.news()])
            self.limits_hold()
            if self.budget.exhausted():
                break
        if self.cap is not None and self.workers:
            assert self.budget.exhausted()
            assert self.cap - self.lost - sum(worker.spent for worker in self.workers.values()) < price + 1e-6
        else:
            assert all(worker.served > before[name] for name, worker in self.workers.items())


class SchedulesWithoutCap(Schedules):
    """The same where money does not matter."""

    cap = None


TestSchedules = Schedules.TestCase
TestSchedulesWithoutCap = SchedulesWithoutCap.TestCase
TestSchedules.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestSchedulesWithoutCap.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


def test_an_account_on_call_has_places_for_whoever_works_and_money_only_when_it_is_asked() -> None:
    share = LeaseAllocator({"a": Limits(), "copy": Limits(in_flight=4)}, 10.0, 0.0, "copy")
    share.join("w")
    judging, copying = share.allocate("w", {"a": 6})
    assert (judging.in_flight, copying.in_flight) == (256, 4)
    assert judging.usd is not None
    assert judging.usd > 0
    assert copying.usd == 0
    # A copy waits for money: it gets some, and what it does not need goes back.
    share.confirm("w", [AccountStats("a"), AccountStats("copy", queued=1, wants_usd=0.5)])
    _, copying = share.allocate("w", {"a": 6})
    assert copying.usd is not None
    assert copying.usd >= 0.5
    share.confirm("w", [AccountStats("a"), AccountStats("copy", spent_usd=0.4)])
    _, copying = share.allocate("w", {"a": 6})
    assert copying.usd == 0.4
    # Money that lies there keeps no run from its end.
    share.confirm("w", [AccountStats("a", spent_usd=9.6, wants_usd=5.0), AccountStats("copy", spent_usd=0.4)])
    assert share.exhausted()
    _, copying = share.allocate("w", {})
    assert copying.in_flight == 0
