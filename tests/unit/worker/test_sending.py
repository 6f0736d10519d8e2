"""The loop in which requests are sent: what is counted, what is noted, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from judges import load_judge
from runner.config import parse_config
from runner.endpoint.judge_model import judge_models
from runner.endpoint.rate_limiter import Stopped
from runner.endpoint.response import Completion, EndpointError
from runner.endpoint.retry_policy import Decision, ErrorKind, Fail, Park, RetryAfter
from runner.messages import Attempt, Task
from runner.usage import Usage
from runner.worker.request import JudgeRequest, build_probe
from runner.worker.sending import Answered, GaveUp, Send, SendOnce, SendPolicy, send

MODEL = {"name": "m", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
CONFIG = parse_config({"name": "t", "items": {"path": "x"}, "judges": ["yes-no"], "models": [MODEL]})
OWN = judge_models(CONFIG, [load_judge("yes-no", Path())])["yes-no", "m"]
REQUEST = build_probe(Task(1, "yes-no", "m", 0, ()), OWN, OWN.body([{"role": "user", "content": "x"}]), "w")
REPLY = Completion("yes", None, None, "stop", "m", None, Usage(), 0.1)
BROKEN = EndpointError(ErrorKind.SERVER, "broken", 500)
THROTTLED = EndpointError(ErrorKind.THROTTLED, "too fast", 429)
ADAPTS = EndpointError(ErrorKind.BAD_REQUEST, "unknown parameter: seed", 400)
ADAPTS.will_adapt = True


@dataclass
class Script:
    """An endpoint that replies as it is told to, and a policy that retries three times."""

    replies: Sequence[Completion | EndpointError | type[Stopped]]
    in_flight: int = 0
    noted: list[Attempt] = field(default_factory=list)
    failures: list[Send] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    def policy(self) -> SendPolicy:
        left = iter(self.replies)

        @asynccontextmanager
        async def acquire(request: JudgeRequest) -> AsyncIterator[SendOnce]:
            reply = next(left)
            if isinstance(reply, type):
                raise reply("m")

            async def complete() -> Completion:
                if isinstance(reply, EndpointError):
                    raise reply
                assert isinstance(reply, Completion)
                return reply

            self.in_flight += 1
            try:
                yield complete
            finally:
                self.in_flight -= 1

        async def decide(error: EndpointError, this: Send) -> Decision:
            assert self.in_flight == 0, "nothing is held while it is decided"
            self.failures.append(this)
            if this.tries == 3:
                return Park()
            return RetryAfter(0.5 * this.number, counts=error.kind is not ErrorKind.THROTTLED)

        async def note(attempt: Attempt) -> None:
            self.noted.append(attempt)

        async def back_off(error: EndpointError, delay_s: float, this: Send) -> None:
            self.waited.append(delay_s)

        return SendPolicy(acquire, decide, note, back_off)


async def test_it_is_sent_until_it_is_answered_and_only_the_last_attempt_is_left_to_record() -> None:
    script = Script([BROKEN, THROTTLED, BROKEN, REPLY])
    end = await send(REQUEST, script.policy())
    assert isinstance(end, Answered)
    assert (end.send.number, end.send.tries, end.send.throttles) == (4, 2, 1)
    assert (end.attempt.try_, end.attempt.state) == (4, "ok")
    assert [attempt.try_ for attempt in script.noted] == [1, 2, 3]
    assert script.waited == [0.5, 1.0, 1.5]


async def test_a_request_that_the_endpoint_wants_put_otherwise_is_sent_at_once_and_counts_as_no_failure() -> None:
    script = Script([ADAPTS, BROKEN, ADAPTS, REPLY])
    end = await send(REQUEST, script.policy())
    assert (end.send.number, end.send.tries) == (4, 1)
    assert len(script.failures) == len(script.waited) == 1
    assert [attempt.try_ for attempt in script.noted] == [1, 2, 3]


async def test_the_policys_decision_ends_it() -> None:
    script = Script([BROKEN] * 9)
    end = await send(REQUEST, script.policy())
    assert isinstance(end, GaveUp)
    assert (end.decision, end.error, end.attempt.try_) == (Park(), BROKEN, 4)
    assert [attempt.try_ for attempt in script.noted] == [1, 2, 3], "the last is the caller's"


async def test_who_says_nothing_else_sends_once() -> None:
    end = await send(REQUEST, SendPolicy(Script([THROTTLED]).policy().acquire))
    assert isinstance(end, GaveUp)
    assert end.decision == Fail("throttled")


async def test_another_form_of_it_goes_on_with_the_count() -> None:
    first = await send(REQUEST, SendPolicy(Script([BROKEN]).policy().acquire))
    script = Script([BROKEN, REPLY])
    end = await send(REQUEST, script.policy(), after=first.send)
    assert [(this.number, this.tries) for this in script.failures] == [(2, 1)]
    assert (end.send.number, end.send.tries) == (3, 2)


async def test_the_order_to_stop_leaves_it_with_all_attempts_noted() -> None:
    script = Script([BROKEN, Stopped])
    with pytest.raises(Stopped):
        await send(REQUEST, script.policy())
    assert [attempt.try_ for attempt in script.noted] == [1]
