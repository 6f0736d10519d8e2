"""The one loop in which requests are sent: those of trials, probes and copies, and those of `jurybox try`.

Hides how often a request goes out and which of its failures count. What a failure means is for the sender to say, in a
SendPolicy; how it ended is a value. An error that says how the endpoint wants the request put has it sent again so.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from runner.endpoint import retry_policy
from runner.endpoint.response import Completion, EndpointError
from runner.endpoint.retry_policy import Decision, EndpointStatus, Fail, Park, RetryAfter, StopAccount
from runner.messages import Attempt

from .request import JudgeRequest


@dataclass(frozen=True, slots=True)
class Send:
    """One time that a request went out."""

    number: int
    """1 for the first send of the request."""
    sent_at: float
    """By the wall clock."""
    sent_s: float
    """By the loop's clock."""
    tries: int
    """Failures before this send that count against the request's attempts."""
    throttles: int
    """Those that do not."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The loop's end: a reply came. `attempt` brought it, and is not noted yet."""

    completion: Completion
    attempt: Attempt
    send: Send


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The loop's end: the policy decided against another send. `attempt` is the last, and is not noted yet."""

    decision: Park | Fail | StopAccount
    error: EndpointError
    attempt: Attempt
    send: Send


SendOnce = Callable[[], Awaitable[Completion]]
"""Sends a request, now. Raises EndpointError."""


_RANDOM = random.Random()
"""Of its own, since jitter must differ between workers, whatever a judge's code seeds. It decides no outcome."""


def decide(error: EndpointError, this: Send, attempts_allowed: int, endpoint: EndpointStatus | None) -> Decision:
    """What the retry policy says of a failure."""
    return retry_policy.decide(
        error.kind, tries=this.tries, attempts_allowed=attempts_allowed, throttles=this.throttles,
        retry_after_s=error.retry_after_s, jitter=_RANDOM.random(), endpoint=endpoint,
    )  # fmt: skip


async def give_up(error: EndpointError, send: Send) -> Decision:
    """The decision of those who send once."""
    return Fail(error.kind.value)


async def _do_nothing(*_: Any) -> None:
    return


@dataclass(frozen=True, slots=True)
class SendPolicy:
    """What differs between those who send."""

    acquire: Callable[[JudgeRequest], AbstractAsyncContextManager[SendOnce]]
    """Leave to send the request once, held while it runs. What it raises (Stopped) ends the loop."""
    decide: Callable[[EndpointError, Send], Awaitable[Decision]] = give_up
    note: Callable[[Attempt], Awaitable[None]] = _do_nothing
    """Take an attempt that another follows."""
    back_off: Callable[[EndpointError, float, Send], Awaitable[None]] = _do_nothing
    """Wait for so many seconds because of an error."""


async def send(request: JudgeRequest, policy: SendPolicy, after: Send | None = None) -> Answered | GaveUp:
    """Send a request until it is answered or given up. `after`: its last send, which failed in another form."""
    sends, tries, throttles = (0, 0, 0) if after is None else (after.number, after.tries + 1, after.throttles)
    while True:
        async with policy.acquire(request) as complete:
            sends += 1
            this = Send(sends, time.time(), asyncio.get_running_loop().time(), tries, throttles)
            try:
                completion = await complete()
            except EndpointError as failure:
                error = failure
            else:
                return Answered(completion, request.answered_attempt(sends, this.sent_at, completion), this)
        attempt = request.failed_attempt(sends, this.sent_at, error)
        if error.will_adapt:
            await policy.note(attempt)
            continue
        decision = await policy.decide(error, this)
        if not isinstance(decision, RetryAfter):
            return GaveUp(decision, error, attempt, this)
        await policy.note(attempt)
        tries += decision.counts
        throttles += not decision.counts
        await policy.back_off(error, decision.delay_s, this)
