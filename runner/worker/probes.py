"""Harmless requests that show what an endpoint is like: whether it is back, takes a judge's requests, enforces a form.

Hides when one is needed. They are attempts of the stage `probe`, without keys: they cost money and say nothing of a
trial.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from runner.endpoint import structured_output
from runner.endpoint.circuit_breaker import probe_status
from runner.endpoint.client import Client
from runner.endpoint.judge_model import JudgeModel
from runner.endpoint.rate_limiter import Stopped
from runner.endpoint.response import EndpointError, action_message
from runner.endpoint.retry_policy import OUTAGE_ERRORS, Decision, EndpointStatus, ErrorKind, StopAccount
from runner.endpoint.structured_output import Support
from runner.messages import Task

from .account import Account, Sender
from .request import JudgeRequest, build_probe
from .sending import Answered, GaveUp, Send, decide, send

UNCLEAR_TRIES = 5
"""Canaries of one way, where the reply was cut, empty or a failure of the server: it shows nothing of the form."""
_SHOWS_NOTHING = ("length", "max_tokens", "content_filter")


class NeedsAction(Exception):
    """Only the user can go on from here; the provider's words."""


@dataclass(slots=True, eq=False)
class Prober:
    """One model's endpoint, in one worker: how it is reached, and what is known of it."""

    worker: str
    client: Client
    account: Account

    @asynccontextmanager
    async def probe_while_open(self, task: Task, judge_model: JudgeModel) -> AsyncIterator[None]:
        """Meanwhile, where the breaker is open, probes show whether the endpoint is there: at once, then by turns."""
        ended = asyncio.Event()

        async def watch() -> None:
            while True:
                async with self.account.probing:
                    while self.account.breaker.wants_probe:
                        try:
                            await self._probe(task, judge_model)
                        except Stopped:
                            return
                if ended.is_set():
                    return
                await self.account.changed.wait()

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            try:
                yield
            finally:
                ended.set()
                self.account.changed.notify()

    async def check_endpoint(self, request: JudgeRequest, since_s: float) -> EndpointStatus:
        """What the endpoint is like since a moment of the loop's clock, so that what failed may be laid to its request.

        Where no trial has shown it meanwhile, a harmless request does: one for all trials that want to know.
        """
        known = partial(self.account.evidence.endpoint_status, request.task.model, since_s)
        return await self._show_status(request, known, rejected=EndpointStatus.WORKS)

    async def check_accepts_requests(self, request: JudgeRequest, since_s: float) -> EndpointStatus:
        """Whether the endpoint takes this judge's requests since a moment, so that a rejected one is at fault itself.

        It refuses them all where it does not know a field of every body, and where it says by a 400 what others say by
        a 401 or 402: that the credit is used up, the key not valid, the model no longer served.
        """

        def known() -> EndpointStatus | None:
            if self.account.evidence.takes_requests(request.task.judge, request.task.model, since_s):
                return EndpointStatus.WORKS
            return EndpointStatus.REFUSES if self.account.breaker.action_needed else None

        return await self._show_status(request, known, rejected=EndpointStatus.REFUSES)

    async def _show_status(
        self, request: JudgeRequest, known: Callable[[], EndpointStatus | None], rejected: EndpointStatus
    ) -> EndpointStatus:
        """What is `known` by the time that no other probe is under way, or a probe's end shows."""
        async with self.account.probing:
            if (status := known()) is not None:
                return status
            try:
                error = await self._probe(request.task, request.judge_model)
            except Stopped:
                return EndpointStatus.AWAY
        return probe_status(error, rejected=rejected)

    async def detect_structured_mode(self, task: Task, judge_model: JudgeModel) -> str:
        """How structured output is enforced for this judge and model. Raises Stopped, and NeedsAction."""
        judge, model = judge_model.judge, judge_model.model
        results: dict[str, Support] = {}
        for mechanism in structured_output.mechanisms(judge_model.structured, judge_model.constraint):
            results[mechanism], error = await self._show_support(task, judge_model, mechanism)
            if results[mechanism] is Support.ENFORCED:
                break
            if error is not None and judge_model.structured != structured_output.AUTO:
                refusal = action_message(model, error, f"every request of {judge.name} is rejected")
                raise NeedsAction(
                    f"{refusal}; this model has structured: {mechanism}, leave that to jurybox with structured: auto"
                )
        mode = structured_output.mode_of(results)
        if judge.structured == "require" and not structured_output.is_enforced(mode):
            tried = ", ".join(f"{mechanism} {result}" for mechanism, result in results.items())
            raise NeedsAction(
                f"{model.name}: the judge {judge.name} requires structured output, and {model.base_url} "
                f"enforces none of it for the model {model.model} ({tried}); nothing was judged"
            )
        return mode

    async def _show_support(
        self, task: Task, judge_model: JudgeModel, mechanism: str
    ) -> tuple[Support, EndpointError | None]:
        """What the endpoint makes of one way to ask for the form, and with which error it refuses that."""
        support, body = Support.IGNORED, judge_model.mode_probe(mechanism)
        for attempts in range(UNCLEAR_TRIES, 0, -1):
            request = build_probe(task, judge_model, body, self.worker, keep=structured_output.FIELDS)
            policy = self.account.policy(self.client, Sender.TRIAL, partial(self._decide, request, attempts))
            end = await send(request, policy)
            await self.account.admission.outbox.note(end.attempt)
            match end:
                case Answered(reply):
                    support = structured_output.judge_support(mechanism, judge_model.constraint, reply.text)
                    if support is Support.ENFORCED or (reply.text and reply.finish_reason not in _SHOWS_NOTHING):
                        return support, None
                case GaveUp(StopAccount(), error):
                    raise NeedsAction(action_message(judge_model.model, error))
                case GaveUp(_, error):
                    return Support.REFUSED, error
        return support, None

    async def _decide(self, request: JudgeRequest, attempts: int, error: EndpointError, this: Send) -> Decision:
        """A server may break over what it does not know; one that breaks over everything shows nothing."""
        breaks = error.kind in OUTAGE_ERRORS - {ErrorKind.UNREACHABLE}
        breaks_over_all = breaks and await self.check_endpoint(request, this.sent_s) is not EndpointStatus.WORKS
        return decide(error, this, attempts, EndpointStatus.AWAY if breaks_over_all else None)

    async def _probe(self, task: Task, judge_model: JudgeModel) -> ErrorKind | None:
        """Send a harmless request of this judge and model; what went wrong with it, or None."""
        body = judge_model.body(structured_output.harmless_body(judge_model.mode))
        probe = build_probe(task, judge_model, body, self.worker, keep=judge_model.required_fields)
        end = await send(probe, self.account.policy(self.client, Sender.PROBE))
        error = end.error.kind if isinstance(end, GaveUp) else None
        self.account.evidence.record_probe(end.send.sent_s, error)
        await self.account.admission.outbox.note(end.attempt)
        return error
