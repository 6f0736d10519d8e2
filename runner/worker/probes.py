"""Harmless requests that show what an endpoint is like: whether it is back, takes a judge's requests, enforces a form.

Hides when one is needed and how what it shows is kept. They are attempts of the stage `probe`, without keys: they cost
money and say nothing of a trial.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from runner.endpoint import retry_policy, structured_output
from runner.endpoint.client import Client, EndpointError
from runner.endpoint.judge_model import JudgeModel
from runner.endpoint.rate_limiter import Stopped
from runner.endpoint.response import Completion, action_message
from runner.endpoint.retry_policy import EndpointStatus
from runner.endpoint.structured_output import Support
from runner.messages import Attempt, Task

from .account import Account
from .request import JudgeRequest, build_probe

UNCLEAR_TRIES = 5
"""Canaries of one way, where the reply was cut, empty or a failure of the server: it shows nothing of the form."""
_SHOWS_NOTHING = ("length", "max_tokens", "content_filter")


class NeedsAction(Exception):
    """Only the user can go on from here; the provider's words."""


class Prober:
    """What one worker has found out. `note` takes the attempts."""

    def __init__(self, worker: str, note: Callable[[Attempt], Awaitable[None]]) -> None:
        self._worker = worker
        self._note = note
        self._taken_at: dict[tuple[str, str], float] = {}
        """Judge and model → the last moment of the loop's clock at which a request of theirs was sent and answered."""
        self._random = random.Random()

    def record_success(self, asked: JudgeRequest, account: Account, sent_s: float) -> None:
        """A request was answered."""
        account.record_success(asked.task.model, sent_s)
        pair = asked.task.judge, asked.task.model
        self._taken_at[pair] = max(sent_s, self._taken_at.get(pair, sent_s))

    @asynccontextmanager
    async def probe_while_open(
        self, task: Task, pair: JudgeModel, client: Client, account: Account
    ) -> AsyncIterator[None]:
        """Meanwhile, where the breaker is open, probes show whether the endpoint is there: at once, then by turns."""
        ended = asyncio.Event()
        harmless = build_probe(task, pair, pair.body(structured_output.harmless_body(pair.mode)), self._worker)

        async def watch() -> None:
            while True:
                async with account.probing:
                    while account.wants_probe:
                        try:
                            await self._harmless(harmless, client, account)
                        except Stopped:
                            return
                if ended.is_set():
                    return
                await account.wait_for_change()

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            try:
                yield
            finally:
                ended.set()
                account.notify()

    async def check_endpoint(
        self, asked: JudgeRequest, client: Client, account: Account, since: float
    ) -> EndpointStatus:
        """What the endpoint is like since a moment of the loop's clock, so that what failed may be laid to its request.

        Where no trial has shown it meanwhile, a harmless request does: one for all trials that want to know.
        """
        async with account.probing:
            if account.succeeded_at.get(asked.task.model, since) > since:
                return EndpointStatus.WORKS
            probed_at, error = account.probed
            if probed_at <= since:
                try:
                    error = await self._harmless(asked, client, account)
                except Stopped:
                    return EndpointStatus.AWAY
        if error is None or error.kind is retry_policy.ErrorKind.BAD_REQUEST:
            return EndpointStatus.WORKS
        return EndpointStatus.REFUSES if error.kind in retry_policy.ACCOUNT_ERRORS else EndpointStatus.AWAY

    async def check_accepts_requests(
        self, asked: JudgeRequest, client: Client, account: Account, since: float
    ) -> EndpointStatus:
        """Whether the endpoint takes this judge's requests since a moment, so that a rejected one is at fault itself.

        It refuses them all where it does not know a field of every body, and where it says by a 400 what others say by
        a 401 or 402: that the credit is used up, the key not valid, the model no longer served.
        """
        async with account.probing:
            if self._taken_at.get((asked.task.judge, asked.task.model), since) > since:
                return EndpointStatus.WORKS
            if account.action_needed:
                return EndpointStatus.REFUSES
            try:
                error = await self._harmless(asked, client, account)
            except Stopped:
                return EndpointStatus.AWAY
        if error is None:
            return EndpointStatus.WORKS
        rejected = error.kind is retry_policy.ErrorKind.BAD_REQUEST or error.kind in retry_policy.ACCOUNT_ERRORS
        return EndpointStatus.REFUSES if rejected else EndpointStatus.AWAY

    async def detect_structured_mode(self, task: Task, pair: JudgeModel, client: Client, account: Account) -> str:
        """How structured output is enforced for this judge and model. Raises Stopped, and NeedsAction."""
        found: dict[str, Support] = {}
        for way in structured_output.mechanisms(pair.structured, pair.constraint):
            found[way], error = await self._shown(task, pair, way, client, account)
            if found[way] is Support.ENFORCED:
                break
            if error is not None and pair.structured != structured_output.AUTO:
                which = f"every request of {pair.judge.name} is rejected"
                told = action_message(pair.model, error, which)
                raise NeedsAction(
                    f"{told}; this model has structured: {way}, leave that to jurybox with structured: auto"
                )
        mode = structured_output.mode_of(found)
        if pair.judge.structured == "require" and not structured_output.is_enforced(mode):
            tried = ", ".join(f"{way} {result}" for way, result in found.items())
            raise NeedsAction(
                f"{pair.model.name}: the judge {pair.judge.name} requires structured output, and {pair.model.base_url} "
                f"enforces none of it for the model {pair.model.model} ({tried}); nothing was judged"
            )
        return mode

    async def _shown(
        self, task: Task, pair: JudgeModel, way: str, client: Client, account: Account
    ) -> tuple[Support, EndpointError | None]:
        asked = build_probe(task, pair, pair.mode_probe(way), self._worker)
        unclear = throttles = 0
        found, error = Support.IGNORED, None
        while unclear < UNCLEAR_TRIES:
            since = asyncio.get_running_loop().time()
            reply = await self._ask(asked, client, account, keep=structured_output.FIELDS)
            if isinstance(reply, Completion):
                found, error = structured_output.judge_support(way, pair.constraint, reply.text), None
                if found is Support.ENFORCED or (reply.text and reply.finish_reason not in _SHOWS_NOTHING):
                    return found, None
                unclear += 1
                continue
            if reply.put_otherwise:
                continue
            decision = retry_policy.decide(
                reply.kind,
                tries=unclear,
                attempts_allowed=UNCLEAR_TRIES + 1,
                throttles=throttles,
                retry_after_s=reply.retry_after_s,
                jitter=self._random.random(),
            )
            match decision:
                case retry_policy.RetryAfter(delay_s, counts):
                    await account.sleep(delay_s)
                    throttles += not counts
                    # A server may break over what it does not know; one that breaks over everything shows nothing.
                    if counts and await self.check_endpoint(asked, client, account, since) is EndpointStatus.WORKS:
                        found, error = Support.REFUSED, reply
                        unclear += 1
                case retry_policy.StopAccount():
                    raise NeedsAction(action_message(pair.model, reply))
                case _:
                    return Support.REFUSED, reply
        return found, error

    async def _harmless(self, asked: JudgeRequest, client: Client, account: Account) -> EndpointError | None:
        """Send a harmless request of this judge and model; what went wrong with it, or None."""
        pair = asked.pair
        probe = build_probe(asked.task, pair, pair.body(structured_output.harmless_body(pair.mode)), self._worker)
        while True:
            since = asyncio.get_running_loop().time()
            reply = await self._ask(probe, client, account, keep=pair.kept, harmless=True)
            if isinstance(reply, Completion) or not reply.put_otherwise:
                error = reply if isinstance(reply, EndpointError) else None
                account.record_probe_end(since, error)
                return error

    async def _ask(
        self, probe: JudgeRequest, client: Client, account: Account, keep: tuple[str, ...], harmless: bool = False
    ) -> Completion | EndpointError:
        reply: Any
        probe = replace(probe, request_id=uuid.uuid4().hex)
        async with account.acquire(probe, probe=harmless) as place:
            sent_at, sent_s = time.time(), asyncio.get_running_loop().time()
            try:
                reply = await place.complete(client, keep)
            except EndpointError as error:
                account.record_error(error, probe=harmless)
                attempt, reply = probe.failed_attempt(1, sent_at, error), error
            else:
                self.record_success(probe, account, sent_s)
                attempt = probe.answered_attempt(1, sent_at, reply)
        await self._note(attempt)
        assert isinstance(reply, Completion | EndpointError)
        return reply
