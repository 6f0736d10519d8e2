"""What becomes of a request's trials: sent, read, copied out, recorded as judgments or as waiting for another request.

A trial cannot raise: its troubles become attempts and outcomes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from judges import PARSER_VERSION, Failed, Outcome, Provenance, Scored
from runner.config import RunConfig
from runner.endpoint import retry_policy
from runner.endpoint.judge_model import JudgeModel
from runner.endpoint.rate_limiter import Stopped
from runner.endpoint.response import EndpointError, action_message
from runner.endpoint.retry_policy import Decision, EndpointStatus, ErrorKind, Fail, Park, RetryAfter, StopAccount
from runner.messages import Attempt, Task, Trial

from .account import Sender
from .ladder import next_step
from .outbox import Outbox
from .probes import Prober
from .reformat import Reformatter
from .request import JudgeRequest, build_request, outcomes_of, reading_of
from .reread import build_reread, is_same_verdict
from .sending import Answered, GaveUp, Send, SendOnce, decide, send

UNCLEAR_PAUSE_S = 5.0
"""Before a last try is repeated, where its endpoint neither works nor is known to be away."""
PLACE_WAIT_S = 60.0
"""How long a check of a verdict waits for a place in flight before it looks whether the endpoint is away."""
CODE_ERRORS = 3
"""Replies that a judge's code may fail on before it deals with one."""


class TrialEnd(Enum):
    """How a request's trials leave a worker."""

    JUDGED = "judged"
    WAITING = "waiting"
    """In the ledger, to go out again."""
    LEFT = "left"
    """Neither: no request may start any more."""


@dataclass(slots=True, eq=False)
class TrialJudge:
    """Judges requests in one worker."""

    worker: str
    config: RunConfig
    outbox: Outbox
    reformatter: Reformatter
    places: Callable[[], int]
    """How many requests the worker may have in flight, over all accounts."""
    broken: str | None = None
    """What the code of a judge says that could deal with no reply: nothing more is sent."""
    _code_errors: dict[str, int] = field(default_factory=dict)
    """Judge in Python → replies that its code could not deal with before it dealt with one; −1 from then on."""

    async def judge(self, task: Task, trials: tuple[Trial, ...], judge_model: JudgeModel, prober: Prober) -> TrialEnd:
        """Judge the trials of one request."""
        request = build_request(task, trials, judge_model, self.worker)
        # The config allows it for binary judges alone, and those take one item at a time.
        if self.config.items.empty_response == "wrong" and request.items[0].response_is_empty:
            verdict = Scored(judge_model.judge.wrong(), Provenance("empty"))
            await self.outbox.record(judgments=request.judgments([verdict], None, called=False))
            return TrialEnd.JUDGED
        policy = prober.account.policy(
            prober.client, Sender.TRIAL, partial(self._decide, request, prober), partial(self._acquire, prober)
        )
        try:
            end = await send(request, policy)
        except Stopped:
            return TrialEnd.LEFT
        if isinstance(end, Answered):
            return await self._read(request, end, prober)
        return await self._fail(request.with_attempts(end.send.number), end, prober)

    @asynccontextmanager
    async def _acquire(
        self, prober: Prober, request: JudgeRequest, sender: Sender = Sender.TRIAL
    ) -> AsyncIterator[SendOnce]:
        """Leave to send a request about a trial. Raises Stopped."""
        account = prober.account
        while True:
            self._check_goes_on(prober)
            async with account.acquire(request, prober.client, sender) as complete:
                # In its place in flight: what has an answer, and what may yet get one, is bounded together.
                await account.admission.wait_for_capacity(self.places)
                self._check_goes_on(prober)
                if account.breaker.most_in_flight != 0:
                    yield complete
                    return

    def _check_goes_on(self, prober: Prober) -> None:
        if prober.account.breaker.has_ended or self.broken:
            raise Stopped(prober.account.limiter.account)

    async def _decide(self, request: JudgeRequest, prober: Prober, error: EndpointError, this: Send) -> Decision:
        """What a failure means for the trials."""
        parked = request.history.parked
        # A trial that was put off to the end is tried once more.
        attempts = 1 if parked else self.config.retry.attempts
        decision = decide(error, this, attempts, await self._endpoint_status(request, prober, error))
        if not (parked and isinstance(decision, Park)):
            return decision
        works = await prober.check_endpoint(request, this.sent_s) is EndpointStatus.WORKS
        return decision if works else RetryAfter(UNCLEAR_PAUSE_S, counts=False)

    async def _endpoint_status(
        self, request: JudgeRequest, prober: Prober, error: EndpointError
    ) -> EndpointStatus | None:
        """What the endpoint shows after a failure that may be its own or the request's."""
        account, kind = prober.account, error.kind
        if kind in retry_policy.OUTAGE_ERRORS:
            return EndpointStatus.AWAY if await account.is_away() else None
        if kind not in retry_policy.AMBIGUOUS_ERRORS or not account.begin_check(kind, request.task.model):
            return None
        check = prober.check_accepts_requests if kind is ErrorKind.BAD_REQUEST else prober.check_endpoint
        # Since now: what it took before it refused this one shows nothing.
        status = await check(request, asyncio.get_running_loop().time())
        account.end_check(status)
        return status

    async def _fail(self, request: JudgeRequest, end: GaveUp, prober: Prober) -> TrialEnd:
        """Record that a request was given up."""
        error = end.error
        match end.decision:
            case StopAccount():
                rejected = error.kind is ErrorKind.BAD_REQUEST
                which = f"every request of {request.task.judge} is rejected" if rejected else ""
                prober.account.stop(action_message(request.judge_model.model, error, which))
                await self.outbox.note(end.attempt)
                return TrialEnd.LEFT
            case Park() if not request.history.parked:
                await self.outbox.record(end.attempt, waiting=request.park())
                return TrialEnd.WAITING
            case Park():
                return await self._finish(request, [Failed("exhausted", error.message)], end.attempt, None)
            case Fail(kind):
                return await self._finish(request, [Failed(kind, error.message)], end.attempt, None)

    async def _read(self, request: JudgeRequest, end: Answered, prober: Prober) -> TrialEnd:
        """Read the reply: outcomes, or the trials go back to the ledger to be judged afresh."""
        completion = end.completion
        outcomes: Sequence[Outcome] = outcomes_of(
            request.judge_model.judge, completion.reply, request.items, in_loop=True
        )
        attempt = replace(end.attempt, reading=reading_of(outcomes), parser_version=PARSER_VERSION)
        request = request.with_reply(end.send.number, completion)
        match outcomes:
            case [Failed(kind, detail), *_]:
                attempt = replace(attempt, error=f"{kind}: {detail}")
                if self._is_at_fault(request, detail):
                    await self.outbox.record(attempt, waiting=request.park())
                    return TrialEnd.WAITING
            case _:
                self._code_errors[request.task.judge] = -1
        try:
            request, outcomes, last = await self.reformatter.reformat(request, completion, outcomes, attempt)
        except Stopped:
            # The reply is kept as an attempt. That it cannot be read is final only once a copy was tried.
            await self.outbox.record(waiting=request.repeat())
            return TrialEnd.WAITING
        trial_end = await self._finish(request, outcomes, last, completion.latency_s)
        # Judged they are: a death or a stop from here on loses the check of a verdict alone.
        with suppress(Stopped):
            await self._reread(request, outcomes[0], prober)
        return trial_end

    async def _reread(self, judged: JudgeRequest, outcome: Outcome, prober: Prober) -> None:
        """Check a verdict that is recorded already, if it is to be. Raises Stopped where nothing may be sent."""
        request = build_reread(judged, outcome, self.config.retry.reread, self.config.seed)
        if request is None or not isinstance(outcome, Scored):
            return
        acquire = partial(self._acquire_reread, prober)
        end = await send(request, prober.account.policy(prober.client, Sender.REREAD, self._decide_reread, acquire))
        attempt = end.attempt
        if isinstance(end, Answered):
            again = outcomes_of(request.judge_model.judge, end.completion.reply, request.items, in_loop=True)
            same = is_same_verdict(again[0], outcome.verdict)
            attempt = replace(attempt, reading=reading_of(again), parser_version=PARSER_VERSION, same_verdict=same)
        await self.outbox.record(attempt)

    @asynccontextmanager
    async def _acquire_reread(self, prober: Prober, request: JudgeRequest) -> AsyncIterator[SendOnce]:
        """Leave to send a check, for which no return of the endpoint is waited. Raises Stopped."""
        while not prober.account.breaker.is_open:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(PLACE_WAIT_S):
                        complete = await stack.enter_async_context(self._acquire(prober, request, Sender.REREAD))
                except TimeoutError:
                    continue
                yield complete
                return
        raise Stopped(prober.account.limiter.account)

    async def _decide_reread(self, error: EndpointError, this: Send) -> Decision:
        """As often as any request, whatever fails: it can be done without."""
        failed = this.tries + this.throttles
        decision = decide(error, replace(this, tries=failed, throttles=failed), self.config.retry.attempts, None)
        return Park() if failed + 1 >= self.config.retry.attempts and isinstance(decision, RetryAfter) else decision

    def _is_at_fault(self, request: JudgeRequest, error: str) -> bool:
        """Whether a judge's own code is to blame for an error in it rather than the reply: it never dealt with one yet.

        Then the trial is put off to the end, and after a few such replies the run stops: no more is paid for it.
        """
        judge = request.task.judge
        failed = self._code_errors.get(judge, 0) + 1
        if failed == 0 or request.history.parked:
            return False
        self._code_errors[judge] = failed
        if failed == CODE_ERRORS:
            self.broken = f"judge {judge!r}: its code could deal with none of {failed} replies; the last: {error}"
        return True

    async def _finish(
        self, request: JudgeRequest, outcomes: Sequence[Outcome], attempt: Attempt | None, latency_s: float | None
    ) -> TrialEnd:
        """Record what the last attempt said; where that is no score, the ladder may send the trials out again."""
        without_score = next((outcome for outcome in outcomes if not isinstance(outcome, Scored)), None)
        if without_score is not None:
            step = next_step(without_score, request.history, self.config.retry, len(request.trials) > 1)
            if step is not None:
                await self.outbox.record(attempt, waiting=request.retry_step(step))
                return TrialEnd.WAITING
        await self.outbox.record(attempt, judgments=request.judgments(outcomes, latency_s))
        return TrialEnd.JUDGED
