"""What an account is asked a second, where the config's limits are far above those that the endpoint keeps to."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from runner.endpoint.adaptive_rate import AdaptiveRate
from runner.messages import AccountStats
from runner.simulate.throttle import Gate

WAVE = 256
"""What one second without any rate comes to: the first wave, until the worker pauses."""


@dataclass
class Second:
    """What was sent in a second, and how much of it was let through."""

    sent: int
    passed: int


def asked(
    lets_through: Callable[[float], bool], seconds: int, *, workers: int = 2, latency_s: float = 0.0
) -> tuple[AdaptiveRate, list[Second]]:
    """Workers that have always something to send, each with its part of the pace; ticks come once a second."""
    pace, seen = AdaptiveRate(), []
    in_flight: list[list[float]] = [[] for _ in range(workers)]
    rates: list[float | None] = [None] * workers
    credit = [n / workers for n in range(workers)]
    for second in range(seconds):
        told = Second(0, 0)
        for n in range(workers):
            rate = rates[n]
            wave = WAVE // workers if rate is None else 0
            credit[n] += 0.0 if rate is None else rate
            sends = wave or int(credit[n])
            credit[n] -= 0 if wave else sends
            passed = 0
            for k in range(sends):
                at = second + n / 100 + (k / sends if not wave else 0.0)
                if lets_through(at):
                    passed += 1
                    in_flight[n].append(at + latency_s)
            told.sent += sends
            told.passed += passed
            ended = [at for at in in_flight[n] if at <= second + 1]
            in_flight[n] = [at for at in in_flight[n] if at > second + 1]
            throttled = sends - passed
            news = AccountStats("a", answered=len(ended) + throttled, throttled=throttled, in_flight=len(in_flight[n]))
            pace.observe(f"w{n}", news, second + 1 + n / 100)
            rates[n] = None if pace.per_s is None else pace.per_s / workers
        seen.append(told)
    return pace, seen


def bucket(per_s: float) -> Callable[[float], bool]:
    gate = Gate(rpm=60 * per_s, tpm=None, in_flight=None, burst_s=1.0, busy_wait_s=0.0, now=0.0)
    last = 0.0

    def lets_through(at: float) -> bool:
        nonlocal last
        last = max(last, at)
        through = gate.enter(1, last) is None
        if through:
            gate.leave()
        return through

    return lets_through


@pytest.mark.parametrize("latency_s", [0.0, 5.0])
@pytest.mark.parametrize("workers", [1, 7])
@pytest.mark.parametrize("per_s", [6.0, 20.0, 120.0])
def test_it_comes_to_within_a_tenth_of_the_limit(per_s: float, workers: int, latency_s: float) -> None:
    pace, seen = asked(bucket(per_s), 240, workers=workers, latency_s=latency_s)
    later = seen[60:]
    sent, passed = sum(second.sent for second in later), sum(second.passed for second in later)
    assert passed >= 0.9 * sent
    assert passed >= 0.9 * per_s * len(later)
    assert pace.per_s == pytest.approx(per_s, rel=0.4)


def test_the_storm_at_the_start_is_short() -> None:
    _, seen = asked(bucket(50.0), 60)
    assert sum(second.sent - second.passed for second in seen[:6]) <= 3 * WAVE
    assert sum(second.sent - second.passed for second in seen[6:]) <= 0.1 * 54 * 50


def test_a_limit_that_is_raised_is_found() -> None:
    limit = [bucket(10.0), bucket(40.0)]
    _, seen = asked(lambda at: limit[at > 100](at), 240)
    assert sum(second.passed for second in seen[-30:]) >= 0.9 * 40 * 30


def test_throttles_that_do_not_go_by_the_rate_slow_nothing_down_for_long() -> None:
    drawn = random.Random(0)
    paces = []
    for _ in range(20):
        pace, _ = asked(lambda at: drawn.random() > 0.1, 60)
        paces.append(pace.per_s)
    assert sum(pace is None or pace > 150 for pace in paces) >= 17


def test_without_throttles_no_limit_is_thought_of() -> None:
    pace, _ = asked(lambda at: True, 30)
    assert pace.per_s is None
    assert pace.cap(600.0) == 600.0
    assert pace.cap(None) is None


def test_the_limits_of_the_config_stand() -> None:
    pace, _ = asked(bucket(50.0), 30)
    assert pace.cap(600.0) == 600.0
    assert pace.cap(60_000.0) == pytest.approx(60 * 50, rel=0.4)


def test_an_account_that_lets_nothing_through_is_asked_little_but_asked() -> None:
    pace, seen = asked(lambda at: False, 120)
    assert pace.per_s is not None
    assert pace.per_s > 0
    assert sum(second.sent for second in seen[-60:]) <= 60
