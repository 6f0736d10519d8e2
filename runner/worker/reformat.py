"""The reformat stage of the ladder: another model copies the verdict out of a reply that could not be read.

Hides the calls of that model. None of its failures is a trial's: without a copy the trial goes on to the ladder's next
step, and where the endpoint is away or rejects everything the stage is left out, for a while or for good. Only a stop
leaves a reply open: its trials are judged in the next session.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from judges import Outcome, Provenance, Reformat, Sampling, Scored, reformat_of, text_to_copy_from
from runner.config import SAME, Model, RunConfig
from runner.endpoint import structured_output
from runner.endpoint.client import Client
from runner.endpoint.rate_limiter import Stopped
from runner.endpoint.response import Completion, EndpointError
from runner.endpoint.retry_policy import Decision, EndpointStatus, ErrorKind, Park, RetryAfter, StopAccount
from runner.messages import Attempt

from .account import Account, Sender
from .request import REFORMAT, JudgeRequest, copy_request_id, cost_bound, estimate_request_tokens
from .sending import Answered, GaveUp, Send, SendOnce, decide, send

SAMPLING = Sampling(temperature=0, max_tokens=512)
SENDS = 3
"""Of one request, where each failed."""
PLACE_WAIT_S = 60.0
"""A place in flight that does not come free in this time is not waited for: judging afresh needs none here."""
AWAY_S = 30.0
"""How long an endpoint that failed is left alone."""

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class Reformatter:
    """The stage in one worker."""

    config: RunConfig
    account: Callable[[str], Account]
    """Finds the account of a name."""
    _clients: dict[str, Client] = field(default_factory=dict)
    """Of its own: what these requests show of an endpoint must not change how a judge's are put."""
    _without_form: set[str] = field(default_factory=set)
    """Models that reject a request which asks for a form, in words that say so to people only."""
    _away_until_s: dict[str, float] = field(default_factory=dict)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()

    async def reformat(
        self, request: JudgeRequest, completion: Completion, outcomes: Sequence[Outcome], attempt: Attempt
    ) -> tuple[JudgeRequest, Sequence[Outcome], Attempt | None]:
        """What a reply comes to that was read as `outcomes`: these, or what was copied out of it.

        `attempt` brought the reply; it is noted where others follow. Returned is the one that is left to record.
        Raises Stopped, with `attempt` noted, where the run stops before a copy was made.
        """
        own = request.judge_model
        model = own.model if self.config.retry.reformat == SAME else self.config.reformatter
        if model is None or own.judge.code or isinstance(outcomes[0], Scored):
            return request, outcomes, attempt
        how, text = reformat_of(own.judge.reads, len(request.trials)), text_to_copy_from(outcomes[0], completion.reply)
        if how is None or text is None:
            return request, outcomes, attempt
        if self._is_away(model):
            return request.without_copy(skipped="away"), outcomes, attempt
        account = self.account(model.account_name)
        await account.admission.outbox.note(attempt)
        try:
            end = await self._copy(request, model, account, how, text)
        except TimeoutError:
            log.info("reformat_skipped", model=model.name, why="no place in time")
            return request.without_copy(skipped="no_place"), outcomes, None
        except Stopped:
            if self.account(own.model.account_name).breaker.has_ended:
                raise
            # Its account alone is closed: judged afresh, the trial would come to this again.
            return request.without_copy(skipped="closed"), outcomes, None
        if isinstance(end, GaveUp):
            self._leave_out(model, end)
            return request.without_copy(), outcomes, end.attempt
        request = request.with_attempts(1, end.completion.usage)
        verdict = how.accept(end.completion.text, text)
        if verdict is None:
            return request, outcomes, end.attempt
        notes = (f"{REFORMAT}:{model.name}", f"prompt:{how.digest}", *(f"{REFORMAT}_{n}" for n in end.completion.notes))
        scored = Scored(verdict, Provenance(REFORMAT, notes))
        return request, own.judge.outcomes(scored, request.items), replace(end.attempt, reading=REFORMAT)

    async def _copy(
        self, request: JudgeRequest, model: Model, account: Account, how: Reformat, text: str
    ) -> Answered | GaveUp:
        """Send the request for a copy; once more without the form, where that may be what is rejected.

        Raises Stopped, and TimeoutError where no place came free; then all attempts are noted.
        """
        if model.name not in self._clients:
            self._clients[model.name] = Client(model)
        client = self._clients[model.name]
        acquire = partial(_acquire_soon, account, client)
        policy = account.policy(client, Sender.COPY, partial(self._decide, model, account), acquire)
        mechanism = None if model.name in self._without_form else self._mechanism(request, model, how)
        end = await send(self._request(request, model, how, text, mechanism), policy)
        if mechanism and isinstance(end, GaveUp) and end.error.kind is ErrorKind.BAD_REQUEST:
            self._without_form.add(model.name)
            await account.admission.outbox.note(end.attempt)
            end = await send(self._request(request, model, how, text, None), policy, after=end.send)
        return end

    async def _decide(self, model: Model, account: Account, error: EndpointError, this: Send) -> Decision:
        """Send it a few times at most, and not where nothing can be reached: the trial can go on without a copy."""
        failed = this.tries + this.throttles
        endpoint = EndpointStatus.WORKS if account.evidence.has_worked(model.name) else None
        decision = decide(error, replace(this, tries=failed, throttles=failed), SENDS, endpoint)
        is_vain = error.kind is ErrorKind.UNREACHABLE or failed + 1 >= SENDS
        return Park() if is_vain and isinstance(decision, RetryAfter) else decision

    def _leave_out(self, model: Model, end: GaveUp) -> None:
        why = end.error.message
        if isinstance(end.decision, StopAccount):
            self._away_until_s[model.name] = math.inf
            log.warning("reformat_off", model=model.name, why=why)
        else:
            log.warning("reformat_paused", model=model.name, why=why, seconds=AWAY_S)
            self._away_until_s[model.name] = asyncio.get_running_loop().time() + AWAY_S

    def _is_away(self, model: Model) -> bool:
        return asyncio.get_running_loop().time() < self._away_until_s.get(model.name, 0.0)

    def _request(
        self, request: JudgeRequest, model: Model, how: Reformat, text: str, mechanism: str | None
    ) -> JudgeRequest:
        messages = how.messages(text)
        sampling = model.sampling.over(SAMPLING)
        body = {"model": model.model, "messages": messages, **sampling.body()}
        body |= structured_output.request_fields(mechanism, how.constraint, REFORMAT)
        return replace(
            request,
            judge_model=replace(request.judge_model, model=model), task=replace(request.task, model=model.name),
            body=body, keep=(), tokens=estimate_request_tokens(messages, sampling.max_tokens),
            bound=cost_bound(body, model), request_id=copy_request_id(request.request_id, request.keys), stage=REFORMAT,
        )  # fmt: skip

    def _mechanism(self, request: JudgeRequest, model: Model, how: Reformat) -> str | None:
        """How the form of a copy is requested: as it is enforced there, or, where that is not known, as is usual."""
        if model == request.judge_model.model:
            return structured_output.mechanism_of(request.judge_model.mode)
        if model.structured == structured_output.AUTO:
            return structured_output.SCHEMA if how.constraint.schema is not None else None
        return None if model.structured == structured_output.OFF else model.structured


@asynccontextmanager
async def _acquire_soon(account: Account, client: Client, request: JudgeRequest) -> AsyncIterator[SendOnce]:
    """A place in flight, if one comes free in time. Raises TimeoutError, and Stopped."""
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(PLACE_WAIT_S):
            complete = await stack.enter_async_context(account.acquire(request, client, Sender.COPY))
        yield complete
