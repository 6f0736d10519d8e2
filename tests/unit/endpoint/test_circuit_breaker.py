"""When an endpoint counts as away, and who probes whether it is back: outages of any length, on their own clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.endpoint.circuit_breaker import (
    FIRST_REQUESTS,
    OPEN_AFTER,
    OPEN_AFTER_AT_MOST,
    STORM,
    CircuitBreaker,
    Evidence,
    Health,
)
from runner.endpoint.health_monitor import LONGEST_PAUSE_S, ProbeScheduler
from runner.endpoint.retry_policy import OUTAGE_ERRORS, EndpointStatus, ErrorKind
from runner.messages import AccountStats

SERVER = ErrorKind.SERVER
WORKING = CircuitBreaker(Health.WORKING)


def failed(breaker: CircuitBreaker, times: int) -> CircuitBreaker:
    for _ in range(times):
        breaker = breaker.after_error(SERVER, answered=False)
    return breaker


def failures_until_open(breaker: CircuitBreaker) -> int:
    count = 0
    while not breaker.is_open:
        breaker, count = failed(breaker, 1), count + 1
    return count


def probe_failed(breaker: CircuitBreaker) -> CircuitBreaker:
    return breaker.after_probe_error(SERVER, answered=False)


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = failed(WORKING, OPEN_AFTER - 1).after_good_reply()
    breaker = failed(breaker, OPEN_AFTER - 1)
    assert breaker.health is Health.WORKING
    breaker = failed(breaker, 1)
    assert (breaker.health, breaker.most_in_flight, breaker.wants_probe) == (Health.SUSPECT, 0, True)
    assert failed(breaker, 1).health is Health.SUSPECT, "it is open already"


def test_an_answer_closes_it_and_tells_whether_the_endpoint_was_away() -> None:
    suspect = failed(WORKING, OPEN_AFTER)
    assert suspect.after_good_reply().health is Health.WORKING, "the first probe got through"
    back = probe_failed(suspect).after_good_reply()
    assert (back.health, back.most_in_flight) == (Health.UNPROVEN, FIRST_REQUESTS)
    assert (back.failures, back.failed_probes) == (0, 0)
    assert back.after_good_reply().health is Health.WORKING
    for was in (suspect, probe_failed(suspect)):
        assert was.after_error(ErrorKind.THROTTLED, answered=True).health is Health.UNPROVEN, "there, and no more"


def test_a_harmless_request_that_fails_opens_it_at_once() -> None:
    breaker = probe_failed(WORKING)
    assert (breaker.health, breaker.failed_probes) == (Health.AWAY, 1)
    assert probe_failed(breaker).failed_probes == 2
    assert not breaker.wants_probe
    assert breaker.with_turn().wants_probe
    assert not probe_failed(breaker.with_turn()).wants_probe, "a turn is for one probe"


def test_requests_that_fail_where_probes_succeed_are_probed_ever_less() -> None:
    breaker, probes = WORKING, 0
    for _ in range(10_000):
        breaker = failed(breaker, 1)
        if breaker.is_open:
            breaker, probes = breaker.after_good_reply(), probes + 1
    assert probes < 10_000 / OPEN_AFTER_AT_MOST + 10
    assert failures_until_open(breaker.after_good_reply()) == OPEN_AFTER, "a success makes it watchful again"


def test_a_second_refusal_in_a_row_holds_up_the_others_until_a_probe_shows_what_it_means() -> None:
    once = WORKING.after_refusal()
    assert once.health is Health.WORKING
    twice = once.after_refusal()
    assert (twice.health, twice.most_in_flight, twice.wants_probe) == (Health.REFUSING, 0, False)
    assert twice.after_check(EndpointStatus.WORKS).after_refusal().health is Health.WORKING, "not in a row any more"
    assert twice.after_check(EndpointStatus.AWAY).health is Health.UNPROVEN
    assert twice.after_good_reply().health is Health.WORKING


def test_a_storm_of_429s_is_paused_for_once() -> None:
    breaker = WORKING
    for number in range(STORM):
        assert not breaker.is_storm(sent_s=1.0), number
        breaker = breaker.after_error(ErrorKind.THROTTLED, answered=True)
    assert breaker.is_storm(sent_s=1.0)
    breaker = breaker.after_storm(now_s=2.0)
    assert breaker.health is Health.UNPROVEN
    assert not breaker.is_storm(sent_s=1.9), "sent before the pause: the same limit"
    assert breaker.is_storm(sent_s=2.1)
    assert not breaker.after_good_reply().is_storm(sent_s=2.1)


def test_the_end_is_the_end_and_what_the_user_must_mend_stays() -> None:
    assert WORKING.stop().after_good_reply().health is Health.STOPPED
    assert WORKING.stop().stop("no credit").health is Health.ACTION_NEEDED
    assert WORKING.stop("no credit").stop().health is Health.ACTION_NEEDED


Step = Callable[[CircuitBreaker], CircuitBreaker]
kinds = st.sampled_from(ErrorKind)
steps = st.one_of(
    st.just(("good", None)),
    st.tuples(st.sampled_from(("request", "probe", "copy")), kinds),
    st.tuples(st.just("request"), st.sampled_from(sorted(OUTAGE_ERRORS))),
    st.just(("refusal", None)),
    st.tuples(st.just("check"), st.sampled_from(EndpointStatus)),
    st.just(("storm", None)),
    st.just(("turn", None)),
)


def after(breaker: CircuitBreaker, what: str, value: ErrorKind | EndpointStatus | None) -> CircuitBreaker:
    if isinstance(value, ErrorKind):
        move = {"request": breaker.after_error, "probe": breaker.after_probe_error, "copy": breaker.after_copy_error}
        return move[what](value, value not in OUTAGE_ERRORS)
    if isinstance(value, EndpointStatus):
        return breaker.after_check(value)
    moves: dict[str, Callable[[], CircuitBreaker]] = {
        "good": breaker.after_good_reply,
        "refusal": breaker.after_refusal,
        "storm": lambda: breaker.after_storm(1.0),
        "turn": breaker.with_turn,
    }
    return moves[what]()


@given(st.lists(steps, max_size=60), st.sampled_from((None, "stop", "action")))
def test_whatever_happens_it_is_open_for_a_reason_and_comes_back(
    events: list[tuple[str, ErrorKind | EndpointStatus | None]], end: str | None
) -> None:
    breaker, in_a_row = CircuitBreaker(), 0
    for what, value in events:
        before, breaker = breaker, after(breaker, what, value)
        is_answer = what == "good" or (what in ("request", "probe") and value not in OUTAGE_ERRORS)
        in_a_row = 0 if is_answer else in_a_row + (what in ("request", "probe") and value in OUTAGE_ERRORS)
        assert breaker.failures == in_a_row
        assert not breaker.has_ended
        if is_answer:
            assert not breaker.is_open, "whoever answers is there"
        if breaker.health is Health.SUSPECT:
            assert in_a_row >= OPEN_AFTER
        if breaker.health is Health.AWAY:
            assert breaker.failed_probes > 0
        if breaker.health is Health.WORKING and before.health is not Health.WORKING:
            assert what == "good" or value is EndpointStatus.WORKS
        if what == "copy":
            assert breaker.health is before.health, "a copy holds nothing up"
        assert breaker.wants_probe <= (breaker.most_in_flight == 0), "probes are for when nothing else goes out"
    assert breaker.after_good_reply().after_good_reply().health is Health.WORKING
    if end is not None:
        ended = breaker.stop("no credit" if end == "action" else None)
        for what, value in events:
            assert (again := after(ended, what, value)).health is ended.health
            assert again.most_in_flight == 0 and not again.wants_probe


@given(st.floats(0, 100), st.floats(0, 100), st.sampled_from([None, *ErrorKind]))
def test_only_what_was_sent_since_shows_something(sent_s: float, since_s: float, error: ErrorKind | None) -> None:
    evidence = Evidence()
    evidence.record_success("m", "j", sent_s)
    later = sent_s > since_s
    assert evidence.endpoint_status("m", since_s) is (EndpointStatus.WORKS if later else None)
    assert evidence.takes_requests("j", "m", since_s) is later
    assert (evidence.has_worked("m"), evidence.has_worked("n")) == (True, False)
    evidence = Evidence()
    evidence.record_probe(sent_s, error)
    status = evidence.endpoint_status("m", since_s)
    assert (status is None) is not later
    if later:
        assert (status is EndpointStatus.WORKS) is (error in (None, ErrorKind.BAD_REQUEST))


@dataclass
class Worker:
    """Sends what it may, as often as it may: each request is answered within a step of the clock."""

    breaker: CircuitBreaker = WORKING
    succeeded: int = 0
    sent: list[float] = field(default_factory=list)
    probed: list[float] = field(default_factory=list)

    def step(self, now: float, places: int, works: bool) -> None:
        if self.breaker.is_open:
            if self.breaker.wants_probe:
                self.probed.append(now)
                self.answer() if works else self.fail_probe()
            return
        for _ in range(places):
            self.sent.append(now)
            if works:
                self.answer()
            else:
                self.breaker = failed(self.breaker, 1)

    def answer(self) -> None:
        self.succeeded += 1
        self.breaker = self.breaker.after_good_reply()

    def fail_probe(self) -> None:
        self.breaker = probe_failed(self.breaker)

    def tick(self, name: str, recovery: ProbeScheduler, now: float) -> None:
        if recovery.assign_turn(name, now):
            self.breaker = self.breaker.with_turn()
        own = self.breaker
        seen = AccountStats("m", self.succeeded, is_open=own.is_open, probes=own.failed_probes, has_turn=own.has_turn)
        recovery.observe(name, seen, now)
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
        recovery.observe(name, AccountStats("m", is_open=True, probes=1), 0.0)
    assert recovery.assign_turn("a", 1.0)
    assert not recovery.assign_turn("b", 9.0), "one at a time"
    recovery.forget("a")
    assert recovery.assign_turn("b", 9.0)


def test_a_turn_is_over_though_the_breaker_closed_and_opened_again_unseen() -> None:
    worker, recovery = Worker(), ProbeScheduler()
    worker.fail_probe()
    worker.tick("w", recovery, 0.0)
    worker.tick("w", recovery, 1.0)
    assert worker.breaker.has_turn
    # Its probe was answered, but not well; then all failed again, the probe at the opening too. All within a tick.
    worker.breaker = failed(worker.breaker.after_error(ErrorKind.THROTTLED, answered=True), OPEN_AFTER)
    assert worker.breaker.health is Health.SUSPECT
    worker.fail_probe()
    for second in range(2, 10):
        worker.tick("w", recovery, second)
    assert worker.breaker.has_turn, "it gets another, and does not wait for ever"
