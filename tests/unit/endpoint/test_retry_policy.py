"""Every kind of failure, and what is decided about it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.endpoint.retry_policy import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    Decision,
    EndpointStatus,
    ErrorKind,
    Fail,
    Park,
    RetryAfter,
    StopAccount,
    decide,
)

COUNTED = [ErrorKind.SERVER, ErrorKind.TIMEOUT, ErrorKind.CONNECTION, ErrorKind.BAD_REPLY]
REFUSED = [ErrorKind.AUTH, ErrorKind.FORBIDDEN, ErrorKind.UNKNOWN_MODEL]
FREE = [ErrorKind.THROTTLED, ErrorKind.UNREACHABLE]


def after(kind: ErrorKind, **changes: float | EndpointStatus | None) -> Decision:
    given_: dict[str, Any] = {"tries": 0, "attempts_allowed": 3, "throttles": 0, "jitter": 0.0, **changes}
    return decide(kind, **given_)


@pytest.mark.parametrize("kind", COUNTED)
def test_own_failures_count_and_the_last_attempt_parks(kind: ErrorKind) -> None:
    assert after(kind, tries=0) == RetryAfter(FIRST_DELAY_S / 2, counts=True)
    assert after(kind, tries=1) == RetryAfter(FIRST_DELAY_S, counts=True)
    assert after(kind, tries=2) == Park()
    assert after(kind, tries=0, attempts_allowed=1) == Park()


@pytest.mark.parametrize("kind", FREE)
def test_an_endpoints_trouble_uses_up_no_attempt(kind: ErrorKind) -> None:
    for throttles in (0, 1, 50, 10_000):
        decision = after(kind, tries=2, throttles=throttles)
        assert isinstance(decision, RetryAfter)
        assert not decision.counts
        assert decision.delay_s <= LONGEST_DELAY_S


@pytest.mark.parametrize("kind", [*REFUSED, ErrorKind.QUOTA])
def test_what_only_the_user_can_mend(kind: ErrorKind) -> None:
    assert after(kind) == StopAccount()
    assert after(kind, endpoint=EndpointStatus.REFUSES) == StopAccount()


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refusal_that_a_harmless_request_does_not_meet_is_of_the_request(kind: ErrorKind) -> None:
    works, away = after(kind, endpoint=EndpointStatus.WORKS), after(kind, endpoint=EndpointStatus.AWAY)
    assert works == (Fail("forbidden") if kind is ErrorKind.FORBIDDEN else RetryAfter(FIRST_DELAY_S / 2, counts=True))
    assert away == RetryAfter(FIRST_DELAY_S / 2, counts=False)


def test_a_used_up_quota_is_beyond_doubt() -> None:
    assert after(ErrorKind.QUOTA, endpoint=EndpointStatus.WORKS) == StopAccount()


@pytest.mark.parametrize("kind", COUNTED)
def test_nothing_counts_while_the_endpoint_is_away(kind: ErrorKind) -> None:
    decision = after(kind, tries=2, endpoint=EndpointStatus.AWAY)
    assert isinstance(decision, RetryAfter)
    assert not decision.counts


def test_a_bad_request_is_never_sent_again_unless_nobody_knows_whose_fault_it_is() -> None:
    def bad(endpoint: EndpointStatus | None) -> Decision:
        return after(ErrorKind.BAD_REQUEST, endpoint=endpoint)

    assert bad(None) == bad(EndpointStatus.WORKS) == Fail("bad_request")
    assert bad(EndpointStatus.REFUSES) == StopAccount()
    assert bad(EndpointStatus.AWAY) == RetryAfter(FIRST_DELAY_S / 2, counts=False)


def test_every_kind_is_decided() -> None:
    assert all(after(kind) is not None for kind in ErrorKind)


@given(
    kind=st.sampled_from(COUNTED + FREE),
    before=st.integers(0, 2000),
    retry_after_s=st.none() | st.floats(0, 3600),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_delays_obey_the_provider_and_stay_bounded(
    kind: ErrorKind, before: int, retry_after_s: float | None, jitter: float
) -> None:
    decision = decide(
        kind, tries=before, attempts_allowed=10**6, throttles=before, retry_after_s=retry_after_s, jitter=jitter
    )
    assert isinstance(decision, RetryAfter)
    assert decision.delay_s >= (retry_after_s or 0.0)
    assert decision.delay_s <= (retry_after_s or 0.0) + LONGEST_DELAY_S
    if retry_after_s is None:
        assert decision.delay_s >= FIRST_DELAY_S / 2


def test_equal_retry_after_does_not_bring_all_back_at_once() -> None:
    delays = {
        decide(ErrorKind.THROTTLED, tries=0, attempts_allowed=1, throttles=0, retry_after_s=1.0, jitter=n / 100).delay_s  # type: ignore[union-attr]
        for n in range(100)
    }
    assert len(delays) == 100
