"""A worker: takes a task's trials through render, slot, request, reading, and the next step or an outcome.

Hides everything between "judge these trials" and "each is judged, waits in the ledger, or is left". A trial cannot
raise: its troubles become attempts and outcomes. Only bugs and a ledger that is gone for good leave `run`.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

from judges import Failed, Judge, Outcome, Provenance, Scored
from runner.config import Model, RunConfig
from runner.endpoint import retry_policy
from runner.endpoint.client import Client, EndpointError, check_key
from runner.endpoint.judge_model import JudgeModel, judge_models
from runner.endpoint.rate_limiter import RateLimiter, Stopped
from runner.endpoint.response import Completion, action_message
from runner.errors import JuryboxError, weightiest
from runner.messages import Attempt, LeaseRenewal, Task, TaskReport, Trial, WorkerStatus

from .account import FIRST_REQUESTS, Account
from .admission import Capacity, Reservations
from .ladder import next_step
from .outbox import Outbox, Send
from .probes import NeedsAction, Prober
from .reformat import Reformatter
from .request import JudgeRequest, build_request, item_of
from .reservations import ReservationPool

UNCLEAR_PAUSE_S = 5.0
"""Before a last try is repeated, where its endpoint neither works nor is known to be away."""
CODE_ERRORS = 3
"""Replies that a judge's code may fail on before it deals with one."""


class Worker:
    """Judges tasks on its own event loop. `send` hands a batch to the aggregator and returns its acknowledgement."""

    def __init__(self, name: str, config: RunConfig, judges: Sequence[Judge], send: Send) -> None:
        self.name = name
        self._config = config
        self._pairs = judge_models(config, judges)
        pool = ReservationPool()
        self._outbox = Outbox(f"{name}-{uuid.uuid4().hex[:12]}", send, pool)
        self._reservations = Reservations(pool, self._outbox, self._expects_more)
        self._capacity = Capacity(self._outbox)
        self._clients: dict[str, Client] = {}
        self._accounts: dict[str, Account] = {}
        self._inquiry = Prober(name, self._outbox.note)
        self._reformatter = Reformatter(config, self._outbox.note, self._account_named)
        self._read_by: dict[str, int] = {}
        """Judge in Python → replies that its code could not deal with before it dealt with one; −1 from then on."""
        self._broken: str | None = None
        self._stopping = False
        # Jitter must differ between workers; it decides no outcome.
        self._random = random.Random()

    def check(self) -> list[str]:
        """What is missing on this machine before anything can be paid: a key's variable or file. Empty: nothing."""
        return [problem for model in self._config.asked_models if (problem := check_key(model))]

    async def run(self, task: Task) -> TaskReport:
        """Judge a task's trials; returns when all that was learnt is acknowledged."""
        model = self._config.model(task.model)
        account = self._account(model)
        if task.probe:
            try:
                with self._reservations.in_use():
                    mode = await self._probe(task, self._client(model), account)
            except* JuryboxError as errors:
                raise weightiest(errors) from None
            await self._outbox.drain()
            return TaskReport(task.id, 0, 0, 0, action_needed=account.action_needed, structured=mode)
        pair = replace(self._pairs[task.judge, task.model], mode=task.structured)
        ends: list[str] = []

        async def judge(trials: tuple[Trial, ...]) -> None:
            ends.extend([await self._judge(task, trials, pair, account)] * len(trials))

        try:
            with self._reservations.in_use():
                watching = self._inquiry.probe_while_open(task, pair, self._client(model), account)
                async with watching, asyncio.TaskGroup() as group:
                    for trials in task.requests:
                        group.create_task(judge(trials))
        except* JuryboxError as errors:
            # Naked: a group of them would not be known for what it is beyond this process.
            raise weightiest(errors) from None
        await self._outbox.drain()
        return TaskReport(
            task=task.id,
            judged=ends.count("judged"),
            waiting=ends.count("waiting"),
            left=ends.count("left"),
            action_needed=account.action_needed,
            broken=self._broken,
        )

    async def keys(self, task: Task) -> list[bytes]:
        """The keys of a task's trials, in order."""
        pair = self._pairs[task.judge, task.model]
        return [
            pair.key(trial.system, trial.item_id, pair.judge.render(item_of(trial), trial.template), task.repeat)
            for request in task.requests
            for trial in request
        ]

    async def renew(self, tick: LeaseRenewal) -> WorkerStatus:
        """Take new leases, or the order to stop; tell what was seen since the last tick."""
        for lease in tick.leases:
            self._account_named(lease.account).apply(lease)
        if tick.stop:
            self._stopping = True
            self._capacity.stop_waiting()
        for name, account in self._accounts.items():
            if self._stopping or name in tick.close:
                account.close()
        return WorkerStatus(
            accounts=tuple(account.stats(name) for name, account in self._accounts.items()), sender=self._outbox.sender
        )

    async def close(self) -> None:
        """Close the connections. Tasks have returned before."""
        await self._reformatter.close()
        for client in self._clients.values():
            await client.aclose()

    def _account(self, model: Model) -> Account:
        return self._account_named(model.account_name)

    def _account_named(self, name: str) -> Account:
        if name not in self._accounts:
            self._accounts[name] = account = Account(
                RateLimiter(name, FIRST_REQUESTS), self._reservations, self._capacity
            )
            if self._stopping:
                account.close()
        return self._accounts[name]

    def _places(self) -> int:
        return sum(account.limiter.places for account in self._accounts.values())

    def _expects_more(self) -> bool:
        return any(account.expects_more for account in self._accounts.values())

    def _client(self, model: Model) -> Client:
        if model.name not in self._clients:
            self._clients[model.name] = Client(model)
        return self._clients[model.name]

    async def _probe(self, task: Task, client: Client, account: Account) -> str | None:
        """Find out how structured output is enforced for a judge and a model; None where that came to no end."""
        pair = self._pairs[task.judge, task.model]
        async with self._inquiry.probe_while_open(task, pair, client, account):
            try:
                return await self._inquiry.detect_structured_mode(task, pair, client, account)
            except NeedsAction as needed:
                account.action_needed = str(needed)
                account.close()
            except Stopped:
                pass
        return None

    async def _judge(self, task: Task, trials: tuple[Trial, ...], pair: JudgeModel, account: Account) -> str:
        asked = build_request(task, trials, pair, self.name)
        # Only binary judges may be told so, and those take one item at a time.
        if self._config.items.empty_response == "wrong" and asked.items[0].response_is_empty:
            verdict = Scored(asked.pair.judge.wrong(), Provenance("empty"))
            await self._outbox.record(judgments=asked.judgments([verdict], None, called=False))
            return "judged"
        return await self._ask(asked, self._client(pair.model), account)

    async def _ask(self, asked: JudgeRequest, client: Client, account: Account) -> str:
        """Send the request until it is answered or given up: the only loop of retries in the program."""
        tries = throttles = sends = 0
        loop = asyncio.get_running_loop()
        sent_at, sent_s = 0.0, 0.0
        while True:
            if account.action_needed or self._broken:
                return "left"
            try:
                async with account.acquire(asked) as place:
                    # In its place in flight: what has an answer, and what may yet get one, is bounded together.
                    await self._capacity.wait(self._places)
                    if account.action_needed or self._broken or self._stopping:
                        return "left"
                    if account.limiter.is_held:
                        continue
                    sends, sent_at, sent_s = sends + 1, time.time(), loop.time()
                    completion = await place.complete(client, asked.pair.kept)
            except Stopped:
                return "left"
            except EndpointError as error:
                account.record_error(error)
                asked = asked.with_attempt()
                attempt = asked.failed_attempt(sends, sent_at, error)
                if error.put_otherwise:
                    await self._outbox.note(attempt)
                    continue
                pair = asked.pair
                shown = (
                    retry_policy.EndpointStatus.AWAY
                    if error.kind in retry_policy.OUTAGE_ERRORS and await account.is_away()
                    else None
                )
                rejected = error.kind is retry_policy.ErrorKind.BAD_REQUEST
                if error.kind in retry_policy.AMBIGUOUS_ERRORS and account.needs_probe(error.kind, pair.model.name):
                    find_out = self._inquiry.check_accepts_requests if rejected else self._inquiry.check_endpoint
                    # Since now: what it took before it refused this one shows nothing.
                    shown = await find_out(asked, client, account, loop.time())
                    account.resume(shown is retry_policy.EndpointStatus.WORKS)
                decision = retry_policy.decide(
                    error.kind,
                    tries=tries,
                    # A trial that was put off to the end is tried once more.
                    attempts_allowed=1 if asked.history.parked else self._config.retry.attempts,
                    throttles=throttles,
                    retry_after_s=error.retry_after_s,
                    jitter=self._random.random(),
                    endpoint=shown,
                )
                match decision:
                    case retry_policy.RetryAfter(delay_s, counts):
                        await self._outbox.note(attempt)
                        tries += counts
                        throttles += not counts
                        if error.kind is retry_policy.ErrorKind.THROTTLED:
                            account.pause(sent_s, error.retry_after_s or delay_s)
                        if not account.breaker.is_open:
                            await account.sleep(delay_s)
                    case retry_policy.StopAccount():
                        which = f"every request of {asked.task.judge} is rejected" if rejected else ""
                        account.action_needed = action_message(pair.model, error, which)
                        account.close()
                        await self._outbox.note(attempt)
                        return "left"
                    case retry_policy.Park() if not asked.history.parked:
                        await self._outbox.record(attempt, waiting=asked.park())
                        return "waiting"
                    case retry_policy.Park():
                        if (
                            await self._inquiry.check_endpoint(asked, client, account, sent_s)
                            is retry_policy.EndpointStatus.WORKS
                        ):
                            return await self._end(asked, [Failed("exhausted", error.message)], attempt, None)
                        await self._outbox.note(attempt)
                        throttles += 1
                        if not account.breaker.is_open:
                            await account.sleep(UNCLEAR_PAUSE_S)
                    case retry_policy.Fail(kind):
                        return await self._end(asked, [Failed(kind, error.message)], attempt, None)
            else:
                self._inquiry.record_success(asked, account, sent_s)
                return await self._read(asked, completion, sends, sent_at)

    async def _read(self, asked: JudgeRequest, completion: Completion, try_: int, sent_at: float) -> str:
        """Read the reply: outcomes, or the trials go back to the ledger to be judged afresh."""
        outcomes = asked.outcomes(completion)
        attempt = asked.answered_attempt(try_, sent_at, completion, outcomes)
        asked = asked.with_attempt(completion)
        match outcomes:
            case [Failed(kind, detail), *_]:
                attempt = replace(attempt, error=f"{kind}: {detail}")
                if self._is_at_fault(asked, detail):
                    await self._outbox.record(attempt, waiting=asked.park())
                    return "waiting"
            case _:
                self._read_by[asked.task.judge] = -1
        try:
            asked, found, last = await self._reformatter.reformat(asked, completion, outcomes, attempt)
        except Stopped:
            # The reply is kept as an attempt. That it cannot be read is final only once a copy was tried.
            await self._outbox.record(waiting=asked.repeat())
            return "waiting"
        return await self._end(asked, found, last, completion.latency_s)

    def _is_at_fault(self, asked: JudgeRequest, error: str) -> bool:
        """Whether a judge's own code is to blame for an error in it rather than the reply: it never dealt with one yet.

        Then the trial is put off to the end, and after a few such replies the run stops: no more is paid for it.
        """
        judge = asked.task.judge
        failed = self._read_by.get(judge, 0) + 1
        if failed == 0 or asked.history.parked:
            return False
        self._read_by[judge] = failed
        if failed == CODE_ERRORS:
            self._broken = f"judge {judge!r}: its code could deal with none of {failed} replies; the last: {error}"
        return True

    async def _end(
        self, asked: JudgeRequest, outcomes: Sequence[Outcome], attempt: Attempt | None, latency_s: float | None
    ) -> str:
        """Record what the last attempt said; where that is no score, the ladder may send the trials out again."""
        without_score = next((outcome for outcome in outcomes if not isinstance(outcome, Scored)), None)
        if without_score is not None:
            step = next_step(without_score, asked.history, self._config.retry, asked.batched)
            if step is not None:
                await self._outbox.record(attempt, waiting=asked.retry_step(step))
                return "waiting"
        await self._outbox.record(attempt, judgments=asked.judgments(outcomes, latency_s))
        return "judged"
