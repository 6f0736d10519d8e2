"""The simulated endpoint's limits, with the clock in the test's hand."""

from __future__ import annotations

import pytest

from runner.simulate.throttle import Gate, retry_after


def gate(*, rpm: float | None = None, tpm: float | None = None, in_flight: int | None = None) -> Gate:
    return Gate(rpm=rpm, tpm=tpm, in_flight=in_flight, burst_s=1.0, busy_wait_s=0.0, now=0.0)


def test_requests_are_let_in_at_their_rate_and_never_faster() -> None:
    """Whatever the client tries, ten seconds let in ten seconds' worth and one burst."""
    limited = gate(rpm=600)
    let_in = sum(limited.enter(1, step / 1000) is None for step in range(10_000))
    assert 108 <= let_in <= 110


def test_coming_back_after_retry_after_is_let_in() -> None:
    limited = gate(rpm=7)
    assert limited.enter(1, 0.0) is None
    over = limited.enter(1, 0.1)
    assert over is not None
    assert over.limit == "requests"
    told = float(retry_after(over.retry_after_s)[1])
    assert limited.enter(1, 0.1 + told - 0.01) is not None
    assert limited.enter(1, 0.1 + told) is None


def test_tokens_are_limited_beside_requests() -> None:
    limited = gate(rpm=60_000, tpm=60_000)
    assert limited.enter(900, 0.0) is None
    over = limited.enter(200, 0.0)
    assert over is not None
    assert over.limit == "tokens"
    assert over.retry_after_s == pytest.approx(0.1)


def test_a_request_above_the_whole_bucket_is_let_in_and_paid_for() -> None:
    limited = gate(tpm=60_000)
    assert limited.enter(3_000, 0.0) is None
    assert limited.enter(1, 1.9) is not None
    assert limited.enter(1, 2.1) is None


def test_a_refused_request_is_not_charged() -> None:
    limited = gate(rpm=60, tpm=60_000)
    assert limited.enter(1, 0.0) is None
    before = dict(limited.headers())
    assert limited.enter(1, 0.0) is not None
    assert dict(limited.headers()) == before


def test_in_flight_counts_those_that_have_not_left() -> None:
    limited = gate(in_flight=2)
    assert [limited.enter(1, 0.0) is None for _ in range(3)] == [True, True, False]
    limited.leave()
    assert limited.enter(1, 0.0) is None
    assert limited.max_in_flight == 2


def test_headers_tell_limit_rest_and_reset() -> None:
    limited = gate(rpm=600)
    assert limited.enter(1, 0.0) is None
    assert dict(limited.headers()) == {
        b"x-ratelimit-limit-requests": b"600",
        b"x-ratelimit-remaining-requests": b"9",
        b"x-ratelimit-reset-requests": b"0.100s",
    }
    assert gate().headers() == []
