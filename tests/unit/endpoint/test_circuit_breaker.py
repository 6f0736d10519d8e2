"""When an endpoint counts as away, and who asks whether it is back: outages of any length, on a clock of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from runner.endpoint.circuit_breaker import (
    LONGEST_PAUSE_S,
    OPEN_AFTER,
    OPEN_AFTER_AT_MOST,
    CircuitBreaker,
    ProbeScheduler,
)


def broken() -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(OPEN_AFTER):
        breaker.record_failure()
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = CircuitBreaker()
    assert not any(breaker.record_failure() for _ in range(OPEN_AFTER - 1))
    breaker.record_success()
    assert not any(breaker.record_failure() for _ in range(OPEN_AFTER - 1))
    assert not breaker.is_open
    assert breaker.record_failure()
    assert breaker.is_open
    assert not breaker.record_failure(), "it is open already"


def test_an_answer_closes_it_and_tells_whether_the_endpoint_was_away() -> None:
    breaker = broken()
    assert not breaker.record_success(), "the first probe got through"
    breaker = broken()
    breaker.record_probe_failure()
    assert breaker.record_success()
    assert (breaker.is_open, breaker.failures, breaker.probes) == (False, 0, 0)


def test_a_harmless_request_that_fails_opens_it_at_once() -> None:
    breaker = CircuitBreaker()
    assert breaker.record_probe_failure()
    assert (breaker.is_open, breaker.probes) == (True, 1)
    assert not breaker.record_probe_failure()


def test_requests_that_fail_where_probes_succeed_are_probed_ever_less() -> None:
    breaker, probes = CircuitBreaker(), 0
    for _ in range(10_000):
        if breaker.record_failure():
            probes += 1
            breaker.record_success()
    assert probes < 10_000 / OPEN_AFTER_AT_MOST + 10
    breaker.record_success()
    assert [breaker.record_failure() for _ in range(OPEN_AFTER)][-1], "a real success makes it as watchful as before"


@dataclass
class Worker:
    """Sends what it may, as often as it may: each request is answered within a step of the clock."""

    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    turn: bool = False
    succeeded: int = 0
    sent: list[float] = field(default_factory=list)
    probed: list[float] = field(default_factory=list)

    def step(self, now: float, places: int, works: bool) -> None:
        if self.breaker.is_open:
            if self.turn or not self.breaker.probes:
                self.turn = False
                self.probed.append(now)
                self.answered() if works else self.breaker.record_probe_failure()
            return
        for _ in range(places):
            self.sent.append(now)
            self.answered() if works else self.breaker.record_failure()

    def answered(self) -> None:
        self.succeeded += 1
        self.breaker.record_success()

    def tick(self, name: str, recovery: ProbeScheduler, now: float) -> None:
        self.turn = self.turn or recovery.assign_turn(name, now)
        open_, probes = self.breaker.is_open, self.breaker.probes
        recovery.observe(name, open_, probes, self.succeeded > 0, now, has_turn=self.turn)
        self.succeeded = 0


def outage(size: int, begins: float, ends: float, until: float, places: int = 16) -> dict[str, Worker]:
    """Workers that ask an endpoint all the time, which is away for a while. Ticks come once a second to each."""
    workers = {f"w{n}": Worker() for n in range(size)}
    recovery = ProbeScheduler()
    for step in range(int(until * 20)):
        now = step / 20
        for n, (name, worker) in enumerate(workers.items()):
            worker.step(now, places, not begins <= now < ends)
            if (step + 7 * n) % 20 == 0:
                worker.tick(name, recovery, now)
    return workers


@pytest.mark.parametrize("size", [1, 2, 9])
def test_an_outage_of_ten_minutes_is_waited_out_with_a_few_probes(size: int) -> None:
    begins, ends = 10.0, 610.0
    workers = outage(size, begins, ends, until=700.0)
    probes = sorted(at for worker in workers.values() for at in worker.probed if begins <= at < ends)
    for worker in workers.values():
        # What was in flight when it opened, and nothing else until it closed.
        assert sum(begins <= at < ends for at in worker.sent) == 16
        assert not worker.breaker.is_open
        assert sum(at >= ends for at in worker.sent) > 0
    # One each to see whose fault it is; then 1, 2, 4, …, 60 s apart.
    assert probes[:size] == pytest.approx([begins] * size, abs=0.1)
    assert 13 <= len(probes) - size <= 16
    gaps = [later - earlier for earlier, later in zip(probes[size - 1 :], probes[size:], strict=False)]
    assert gaps[:6] == pytest.approx([1, 2, 4, 8, 16, 32], abs=2.5)
    assert max(gaps) <= LONGEST_PAUSE_S + 3
    back = [min(at for at in worker.sent if at >= ends) for worker in workers.values()]
    assert max(back) <= ends + LONGEST_PAUSE_S + 3
    assert max(back) - min(back) <= 2, "the first to get through lets the others ask"


def test_turns_go_round() -> None:
    workers = outage(3, 5.0, 400.0, until=400.0)
    later = [len(worker.probed) for worker in workers.values()]
    assert min(later) >= 3


def test_one_worker_that_cannot_reach_it_asks_again_and_again_while_the_others_work() -> None:
    cut_off, fine, recovery = Worker(), Worker(), ProbeScheduler()
    for second in range(300):
        for name, worker in (("cut", cut_off), ("fine", fine)):
            worker.step(second, 4, worker is fine or second > 200)
            worker.tick(name, recovery, second)
    assert fine.sent[-1] == 299
    assert cut_off.sent[-1] == 299
    assert len(cut_off.probed) <= 205


def test_a_worker_that_died_with_the_turn_is_not_waited_for() -> None:
    recovery = ProbeScheduler()
    for name in ("a", "b"):
        recovery.observe(name, True, 1, False, 0.0)
    assert recovery.assign_turn("a", 1.0)
    assert not recovery.assign_turn("b", 9.0), "one at a time"
    recovery.forget("a")
    assert recovery.assign_turn("b", 9.0)


def test_a_turn_is_over_though_the_breaker_closed_and_opened_again_unseen() -> None:
    worker, recovery = Worker(), ProbeScheduler()
    worker.breaker.record_probe_failure()
    worker.tick("w", recovery, 0.0)
    worker.tick("w", recovery, 1.0)
    assert worker.turn
    # Its probe was answered, but not well; then all failed again, the probe at the opening too. All within a tick.
    worker.turn = False
    worker.breaker.record_success()
    while not worker.breaker.record_failure():
        pass
    worker.breaker.record_probe_failure()
    for second in range(2, 10):
        worker.tick("w", recovery, second)
    assert worker.turn, "it is asked again, and does not wait for ever"
