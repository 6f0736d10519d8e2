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

IN_FLIGHT, RPM, TPM = 5, 600.0, 6000.0


def budget(in_flight: int = IN_FLIGHT) -> LeaseAllocator:
    return LeaseAllocator({"a": Limits(rpm=RPM, tpm=TPM, in_flight=in_flight)})


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


# ---- any order of events -----------------------------------------------------------------------------------------


@dataclass
class Model:
    """A worker that uses all it may, as a limiter would let it."""

    lease: Lease = field(default_factory=lambda: Lease("a", 0, 0.0, 0.0))
    running: int = 0
    sent: Lease | None = None
    answer: AccountStats | None = None
    served: int = 0

    def start(self) -> None:
        if self.running < self.lease.in_flight:
            self.running += 1
            self.served += 1

    def finish(self) -> None:
        self.running -= 1

    def news(self) -> AccountStats:
        return AccountStats("a", in_flight=self.running)


class Schedules(RuleBasedStateMachine):
    """Ticks overtake each other, workers come and die; what is really in use never exceeds the limits."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = budget()
        self.workers: dict[str, Model] = {}
        self.born = 0

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
    @rule(number=st.integers(0, 6), demand=st.sampled_from([0, 2, 40]), when=st.integers(0, 3))
    def renew(self, number: int, demand: int, when: int) -> None:
        """A whole renewal, and before one of its steps the worker starts what it can."""
        steps: list[Callable[[], object]] = [
            lambda: self.send(number, demand),
            lambda: self.arrive(number),
            lambda: self.answer(number),
        ]
        steps.insert(when, lambda: self.start(number, IN_FLIGHT))
        for step in steps:
            step()

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6), times=st.integers(1, 4))
    def start(self, number: int, times: int) -> None:
        for _ in range(times):
            self.pick(number)[1].start()

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6))
    def finish(self, number: int) -> None:
        worker = self.pick(number)[1]
        if worker.running:
            worker.finish()

    @precondition(lambda self: self.workers)
    @rule(number=st.integers(0, 6))
    def die(self, number: int) -> None:
        name, _ = self.pick(number)
        del self.workers[name]
        self.budget.leave(name)

    @invariant()
    def limits_hold(self) -> None:
        workers = self.workers.values()
        assert sum(worker.running for worker in workers) <= IN_FLIGHT
        assert sum(worker.lease.in_flight for worker in workers) <= IN_FLIGHT
        assert sum(worker.lease.requests_per_s or 0.0 for worker in workers) <= RPM / 60
        assert sum(worker.lease.tokens_per_s or 0.0 for worker in workers) <= TPM / 60

    def teardown(self) -> None:
        """Whatever came before: with regular renewals every worker with work is served."""
        before = {name: worker.served for name, worker in self.workers.items()}
        for _ in range(300):
            for name, worker in self.workers.items():
                if worker.answer is None:
                    worker.lease = worker.sent or self.budget.allocate(name, {"a": 9})[0]
                worker.sent = worker.answer = None
                while worker.running:
                    worker.finish()
                worker.start()
                self.budget.confirm(name, [worker.news()])
            self.limits_hold()
        assert all(worker.served > before[name] for name, worker in self.workers.items())


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


def test_an_account_on_call_has_places_for_whoever_works() -> None:
    share = LeaseAllocator({"a": Limits(), "copy": Limits(in_flight=4)}, "copy")
    share.join("w")
    judging, copying = share.allocate("w", {"a": 6})
    assert (judging.in_flight, copying.in_flight) == (256, 4)
    _, copying = share.allocate("w", {})
    assert copying.in_flight == 0
