"""The reformat stage of the ladder: another model copies the verdict out of a reply that could not be read.

Hides the calls of that model. None of its failures is a trial's: without a copy the trial goes on to the ladder's next
step, and where the endpoint is away or rejects everything the stage is left out, for a while or for good. Only a stop
leaves a reply open: its trials are asked again in the next session.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import structlog

from judges import Outcome, Provenance, Reformat, Reply, Sampling, Scored, reformat_of, text_to_copy_from
from runner.config import SAME, Model, RunConfig
from runner.endpoint import retry_policy, structured_output
from runner.endpoint.client import Client, EndpointError, ErrorKind
from runner.endpoint.rate_limiter import Stopped
from runner.endpoint.response import Completion
from runner.messages import Attempt

from .account import Account
from .request import JudgeRequest, cost_bound, estimate_request_tokens

STAGE = "reformat"
SAMPLING = Sampling(temperature=0, max_tokens=512)
SENDS = 3
"""Of one request, where each failed."""
SLOT_WAIT_S = 60.0
"""A place that does not come free in this time is not waited for: judging afresh needs none here."""
AWAY_S = 30.0
"""How long an endpoint that failed is left alone."""

log = structlog.get_logger()


class Reformatter:
    """The stage in one worker. `note` takes the attempts; `account` finds the account of a name."""

    def __init__(
        self, config: RunConfig, note: Callable[[Attempt], Awaitable[None]], account: Callable[[str], Account]
    ) -> None:
        self._config = config
        self._note = note
        self._account = account
        self._clients: dict[str, Client] = {}
        """Of its own: what these requests teach of an endpoint must not change how a judge is asked."""
        self._unguided: set[str] = set()
        self._off: set[str] = set()
        self._away_until: dict[str, float] = {}
        self._random = random.Random()

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()

    async def reformat(
        self, asked: JudgeRequest, completion: Completion, outcomes: Sequence[Outcome], attempt: Attempt
    ) -> tuple[JudgeRequest, Sequence[Outcome], Attempt | None]:
        """What a reply comes to that was read as `outcomes`: these, or what was copied out of it.

        `attempt` brought the reply; it is noted where others follow. Returned is the one that is left to record.
        Raises Stopped, with `attempt` noted, where the run stops before a copy was made.
        """
        model, judge = self._model(asked), asked.pair.judge
        if model is None or judge.code or isinstance(outcomes[0], Scored):
            return asked, outcomes, attempt
        reply = Reply(completion.text, completion.finish_reason, completion.refusal, completion.reasoning)
        how, text = reformat_of(judge.reads, len(asked.trials)), text_to_copy_from(outcomes[0], reply)
        if how is None or text is None:
            return asked, outcomes, attempt
        if self._is_away(model):
            return asked.without_copy(skipped="away"), outcomes, attempt
        await self._note(attempt)
        try:
            copied, last = await self._copied(asked, model, how, text)
        except TimeoutError:
            log.info("reformat_skipped", model=model.name, why="no place in time")
            return asked.without_copy(skipped="no_place"), outcomes, None
        except Stopped:
            if self._account(asked.pair.model.account_name).limiter.stopped:
                raise
            # Its account alone is closed: judged afresh, the trial would come to this again.
            return asked.without_copy(skipped="closed"), outcomes, None
        if copied is None:
            return asked.without_copy(), outcomes, last
        asked = asked.with_copy(copied)
        verdict = how.accept(copied.text, text)
        if verdict is None:
            return asked, outcomes, last
        put = tuple(f"{STAGE}_{note}" for note in copied.notes)
        scored = Scored(verdict, Provenance(STAGE, (f"{STAGE}:{model.name}", f"prompt:{how.digest}", *put)))
        assert last is not None
        return asked, judge.outcomes(scored, asked.items), replace(last, reading=STAGE)

    async def _copied(
        self, asked: JudgeRequest, model: Model, how: Reformat, text: str
    ) -> tuple[Completion | None, Attempt | None]:
        """The reply to the request for a copy, and the last attempt at it, which is not noted yet.

        Raises Stopped, and TimeoutError where no place came free; then all attempts are noted.
        """
        account, client = self._account(model.account_name), self._client(model)
        copying, last, sends, put_otherwise = self._request(asked, model, how, text), None, 0, 0
        while sends < SENDS + put_otherwise:
            sends += 1
            if last is not None:
                await self._note(last)
                last = None
            try:
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout(SLOT_WAIT_S):
                        place = await stack.enter_async_context(account.acquire(copying))
                    sent_at, sent_s = time.time(), asyncio.get_running_loop().time()
                    completion = await place.complete(client)
            except EndpointError as error:
                account.record_copy_failure(error)
                last = copying.failed_attempt(sends, sent_at, error)
                if error.put_otherwise:
                    put_otherwise += 1
                elif not await self._is_worth_a_try(model, error, account, sends - put_otherwise, sent_s):
                    return None, last
                elif error.kind is ErrorKind.BAD_REQUEST:
                    copying = self._request(asked, model, how, text)
            else:
                account.record_success(model.name, sent_s)
                return completion, copying.answered_attempt(sends, sent_at, completion)
        self._leave_alone(model, "it kept failing")
        return None, last

    async def _is_worth_a_try(
        self, model: Model, error: EndpointError, account: Account, sends: int, sent_s: float
    ) -> bool:
        """Whether the same request may succeed if it is sent again; waits for as long as that takes."""
        if error.kind is ErrorKind.BAD_REQUEST and model.name not in self._unguided:
            # It may be the form that is rejected, in words that say so to people only.
            self._unguided.add(model.name)
            return True
        decision = retry_policy.decide(
            error.kind,
            tries=sends - 1,
            attempts_allowed=SENDS,
            throttles=sends - 1,
            retry_after_s=error.retry_after_s,
            jitter=self._random.random(),
            endpoint=retry_policy.EndpointStatus.WORKS if model.name in account.succeeded_at else None,
        )
        match decision:
            case retry_policy.RetryAfter(delay_s) if error.kind is not ErrorKind.UNREACHABLE:
                if error.kind is ErrorKind.THROTTLED:
                    account.pause(sent_s, error.retry_after_s or delay_s)
                await account.sleep(delay_s)
                return True
            case retry_policy.StopAccount():
                self._off.add(model.name)
                log.warning("reformat_off", model=model.name, why=error.message)
            case retry_policy.RetryAfter() | retry_policy.Park() | retry_policy.Fail():
                self._leave_alone(model, error.message)
        return False

    def _leave_alone(self, model: Model, why: str) -> None:
        log.warning("reformat_paused", model=model.name, why=why, seconds=AWAY_S)
        self._away_until[model.name] = asyncio.get_running_loop().time() + AWAY_S

    def _is_away(self, model: Model) -> bool:
        away_until = self._away_until.get(model.name, 0.0)
        return model.name in self._off or asyncio.get_running_loop().time() < away_until

    def _model(self, asked: JudgeRequest) -> Model | None:
        return asked.pair.model if self._config.retry.reformat == SAME else self._config.reformatter

    def _client(self, model: Model) -> Client:
        if model.name not in self._clients:
            self._clients[model.name] = Client(model)
        return self._clients[model.name]

    def _request(self, asked: JudgeRequest, model: Model, how: Reformat, text: str) -> JudgeRequest:
        messages = how.messages(text)
        sampling = model.sampling.over(SAMPLING)
        way = None if model.name in self._unguided else self._way(asked, model, how)
        body = {"model": model.model, "messages": messages, **sampling.body()}
        body |= structured_output.request_fields(way, how.constraint, STAGE)
        return replace(
            asked,
            pair=replace(asked.pair, model=model),
            task=replace(asked.task, model=model.name),
            body=body,
            tokens=estimate_request_tokens(messages, sampling.max_tokens),
            bound=cost_bound(body, model),
            request_id=copy_request_id(asked.request_id, asked.keys),
            stage=STAGE,
        )

    def _way(self, asked: JudgeRequest, model: Model, how: Reformat) -> str | None:
        """How the form of a copy is asked for: as it is enforced there, or, where that is not known, as is usual."""
        if model == asked.pair.model:
            return structured_output.mechanism_of(asked.pair.mode)
        if model.structured == structured_output.AUTO:
            return structured_output.SCHEMA if how.constraint.schema is not None else None
        return None if model.structured == structured_output.OFF else model.structured


def copy_request_id(request_id: str, keys: Sequence[bytes]) -> str:
    """The id of the request for a copy of what a reply says: over the request which that answers, and its keys."""
    return hashlib.blake2b(b"".join((request_id.encode(), *keys)), digest_size=16, person=STAGE.encode()).hexdigest()
