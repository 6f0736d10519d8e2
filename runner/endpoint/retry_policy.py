"""Retry or give up: a value computed from what went wrong and how often, so that every rule can be tested as a table.

Hides what each kind of failure says. A 429 and a connection that cannot be made are the endpoint's trouble and use up
no attempt of the trial that met them; a 5xx, a timeout, a broken connection or an unreadable body may be the request's
own doing and do, unless the endpoint is away. What only the user can mend stops the account, unless a harmless request
fares better; what can never work ends the trial.
"""

from dataclasses import dataclass
from enum import StrEnum

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0


class ErrorKind(StrEnum):
    """What went wrong with a request, as far as it decides what to do next."""

    THROTTLED = "throttled"
    """429, or the provider says that it is overloaded."""
    SERVER = "server"
    TIMEOUT = "timeout"
    """No whole reply within the model's `timeout_s`."""
    UNREACHABLE = "unreachable"
    """The connection could not be made: refused, no such host, no TLS."""
    CONNECTION = "connection"
    """The connection broke before the reply was whole."""
    BAD_REPLY = "bad_reply"
    """A reply that is no chat completion: unreadable, without choices, too large."""
    BAD_REQUEST = "bad_request"
    """400, 413, 422: this request can never work, unless the endpoint says the same of all."""
    AUTH = "auth"
    FORBIDDEN = "forbidden"
    """403 without further word: of the key, or a firewall's that takes offence at what the request holds."""
    QUOTA = "quota"
    UNKNOWN_MODEL = "unknown_model"
    """404, 410, a redirect or `model_not_found`: nothing of that name is served under this address."""


OUTAGE_ERRORS = frozenset(
    {ErrorKind.SERVER, ErrorKind.TIMEOUT, ErrorKind.UNREACHABLE, ErrorKind.CONNECTION, ErrorKind.BAD_REPLY}
)
"""As all requests fail while an endpoint is away."""
ACCOUNT_ERRORS = frozenset({ErrorKind.AUTH, ErrorKind.FORBIDDEN, ErrorKind.QUOTA, ErrorKind.UNKNOWN_MODEL})
"""As all requests fail until the user mends something."""
AMBIGUOUS_ERRORS = ACCOUNT_ERRORS - {ErrorKind.QUOTA} | {ErrorKind.BAD_REQUEST}
"""May be said of all requests or of this one alone: some providers say by a 400 that the credit is used up."""


class EndpointStatus(StrEnum):
    """What harmless requests show of an endpoint."""

    WORKS = "works"
    REFUSES = "refuses"
    """Only the user can mend it."""
    AWAY = "away"
    """It gives no good reply just now."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Send it again after `delay_s`, without a slot held meanwhile. `counts`: this failure used up an attempt."""

    delay_s: float
    counts: bool


@dataclass(frozen=True, slots=True)
class Park:
    """The attempts are used up: put the trial off to the end of the run."""


@dataclass(frozen=True, slots=True)
class Fail:
    """This request can never work."""

    kind: str


@dataclass(frozen=True, slots=True)
class StopAccount:
    """Only the user can mend this; no request to the account makes sense until then."""


Decision = RetryAfter | Park | Fail | StopAccount


def decide(
    kind: ErrorKind,
    *,
    tries: int,
    attempts_allowed: int,
    throttles: int,
    retry_after_s: float | None = None,
    jitter: float = 0.0,
    endpoint: EndpointStatus | None = None,
) -> Decision:
    """What to do after a failure.

    `tries` and `throttles` are the failures of this request before this one, those that counted and those that did not.
    `jitter` in [0, 1) is drawn by the caller. A Retry-After is waited out in full, the jitter on top.
    `endpoint`: what it shows since the request was sent, where that is known.
    """
    if kind in AMBIGUOUS_ERRORS and endpoint is not None:
        if endpoint is EndpointStatus.WORKS and kind in (ErrorKind.FORBIDDEN, ErrorKind.BAD_REQUEST):
            return Fail(kind.value)
        if endpoint is not EndpointStatus.REFUSES:
            kind = ErrorKind.SERVER
    is_away = kind in OUTAGE_ERRORS and endpoint is EndpointStatus.AWAY
    if is_away or kind in (ErrorKind.THROTTLED, ErrorKind.UNREACHABLE):
        return RetryAfter(_delay_s(throttles, retry_after_s, jitter), counts=False)
    if kind in OUTAGE_ERRORS:
        return Park() if tries + 1 >= attempts_allowed else RetryAfter(_delay_s(tries, retry_after_s, jitter), True)
    return Fail(kind.value) if kind is ErrorKind.BAD_REQUEST and endpoint is None else StopAccount()


def _delay_s(before: int, retry_after_s: float | None, jitter: float) -> float:
    # The exponent is bounded because 2.0 ** 1024 overflows, and an outage can fail that often.
    window = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(before, 10))
    if retry_after_s is not None:
        return max(0.0, retry_after_s) + jitter * window
    return window * (1 + jitter) / 2
