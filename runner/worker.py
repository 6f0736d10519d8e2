"""A worker: takes a task's trials through render, slot, request, reading, and the next step or an outcome.

Hides everything between "judge these trials" and "each is judged, waits in the ledger, or is left". A trial cannot
raise: its troubles become attempts and outcomes. Only bugs and a ledger that is gone for good leave `run`.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judges import Failed, Item, Judge, Malformed, Outcome, Provenance, Refused, Reply, Scored

from . import policy
from .client import Client, Completion, EndpointError, check_key
from .config import Model, RunConfig
from .limiter import Limiter, Stopped
from .outbox import Outbox, Send
from .plan import Pair, estimate_tokens, pairs, prompt_bytes
from .protocol import (
    AccountNews,
    Attempt,
    History,
    Judgment,
    News,
    Task,
    TaskReport,
    Tick,
    Trial,
    Usage,
    Waiting,
)

DEFAULT_REPLY_TOKENS = 512
"""Reserved for a reply where the sampling sets no max_tokens."""
OUTAGE_AFTER = 20
"""Failures in a row, with no success between them, after which they are the endpoint's and use up no attempts."""


@dataclass(slots=True)
class _Account:
    """One account as this worker sees it, between two ticks."""

    limiter: Limiter
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    succeeded: int = 0
    answered: int = 0
    throttled: int = 0
    failing: int = 0
    unreachable: int = 0
    last_error: str | None = None
    action_needed: str | None = None

    def close(self) -> None:
        """Start no request of this account any more."""
        self.closed.set()
        self.limiter.stop()

    @property
    def is_down(self) -> bool:
        """The endpoint itself is in trouble: what fails now says nothing about the trial that met it."""
        return self.failing >= OUTAGE_AFTER


@dataclass(frozen=True, slots=True)
class _Asked:
    """A trial under way: what is asked, of whom, and under which name."""

    task: Task
    trial: Trial
    pair: Pair
    key: bytes
    body: dict[str, Any]
    tokens: int
    usd: float
    stage: str
    request_id: str


class Worker:
    """Judges tasks on its own event loop. `send` hands a batch to the aggregator and returns its acknowledgement."""

    def __init__(self, name: str, config: RunConfig, judges: Sequence[Judge], send: Send) -> None:
        self.name = name
        self._config = config
        self._pairs = pairs(config, judges)
        self._outbox = Outbox(f"{name}-{uuid.uuid4().hex[:12]}", send)
        self._clients: dict[str, Client] = {}
        self._accounts: dict[str, _Account] = {}
        self._stopping = False
        # Jitter must differ between workers; it decides no outcome.
        self._random = random.Random()

    def check(self) -> list[str]:
        """What is missing on this machine before anything can be paid: a key's variable or file. Empty: nothing."""
        return [problem for model in self._config.models if (problem := check_key(model))]

    async def run(self, task: Task) -> TaskReport:
        """Judge a task's trials; returns when all that was learnt is acknowledged."""
        model = self._config.model(task.model)
        account = self._account(model)
        ends: list[str] = []

        async def judge(trial: Trial) -> None:
            ends.append(await self._judge(task, trial, model, account))

        async with asyncio.TaskGroup() as group:
            for trial in task.trials:
                group.create_task(judge(trial))
        await self._outbox.drain()
        return TaskReport(
            task=task.id,
            judged=ends.count("judged"),
            waiting=ends.count("waiting"),
            left=ends.count("left"),
            action_needed=account.action_needed,
        )

    async def tick(self, tick: Tick) -> News:
        """Take new leases, or the order to stop; tell what was seen since the last tick."""
        for lease in tick.leases:
            self._account_named(lease.account).limiter.apply(lease)
        self._stopping = self._stopping or tick.stop
        for name, account in self._accounts.items():
            if self._stopping or name in tick.close:
                account.close()
        news = []
        for name, account in self._accounts.items():
            limiter = account.limiter
            news.append(
                AccountNews(
                    account=name,
                    succeeded=account.succeeded,
                    answered=account.answered,
                    throttled=account.throttled,
                    failing=account.failing,
                    unreachable=account.unreachable,
                    last_error=account.last_error,
                    in_flight=limiter.in_flight,
                    queued=limiter.queued,
                    spent_usd=limiter.spent_usd,
                    wants_usd=limiter.wants_usd,
                )
            )
            account.succeeded = account.answered = account.throttled = 0
        return News(accounts=tuple(news))

    async def close(self) -> None:
        """Close the connections. Tasks have returned before."""
        for client in self._clients.values():
            await client.aclose()

    def _account(self, model: Model) -> _Account:
        return self._account_named(model.account_name)

    def _account_named(self, name: str) -> _Account:
        if name not in self._accounts:
            self._accounts[name] = account = _Account(Limiter(name))
            if self._stopping:
                account.close()
        return self._accounts[name]

    def _client(self, model: Model) -> Client:
        if model.name not in self._clients:
            self._clients[model.name] = Client(model)
        return self._clients[model.name]

    async def _judge(self, task: Task, trial: Trial, model: Model, account: _Account) -> str:
        pair = self._pairs[task.judge, task.model]
        item = Item(trial.item_id, trial.question_id, trial.system, trial.group, json.loads(trial.fields))
        messages = pair.judge.render(item, trial.template)
        key = pair.key(trial.system, trial.item_id, messages, task.repeat)
        if self._config.items.empty_response == "wrong" and item.response_is_empty:
            verdict = Scored(pair.judge.wrong(), Provenance("empty"))
            await self._outbox.record(judgment=self._judgment(task, trial, pair, key, verdict, None, trial.history, None))
            return "judged"
        if pair.json_hint:
            messages = pair.judge.render(item, trial.template, json_hint=True)
        tokens_in = estimate_tokens(prompt_bytes(messages))
        tokens_out = pair.sampling.max_tokens or DEFAULT_REPLY_TOKENS
        price = model.price
        asked = _Asked(
            task=task,
            trial=trial,
            pair=pair,
            key=key,
            body=pair.body(messages),
            tokens=tokens_in + tokens_out,
            usd=0.0 if price is None else (tokens_in * price.input + tokens_out * price.output) / 1e6,
            stage=_stage(trial.history),
            request_id=uuid.uuid4().hex,
        )
        return await self._ask(asked, self._client(model), account)

    async def _ask(self, asked: _Asked, client: Client, account: _Account) -> str:
        """Send the request until it is answered or given up: the only loop of retries in the program."""
        history = asked.trial.history
        tries = throttles = 0
        while True:
            if account.action_needed:
                return "left"
            sent_at = time.time()
            try:
                async with account.limiter.slot(asked.tokens, asked.usd) as slot:
                    if account.action_needed:
                        return "left"
                    sent_at = time.time()
                    completion = await client.complete(asked.body)
                    slot.settle(completion.usage.cost_usd)
            except Stopped:
                return "left"
            except EndpointError as error:
                self._saw_error(account, error)
                history = replace(history, attempts=history.attempts + 1)
                failed = self._failed_attempt(asked, tries + throttles + 1, sent_at, error)
                decision = policy.decide(
                    error.kind,
                    tries=tries,
                    # A trial that was put off to the end is tried once more.
                    attempts_allowed=1 if history.parked else self._config.retry.attempts,
                    throttles=throttles,
                    retry_after_s=error.retry_after_s,
                    jitter=self._random.random(),
                    endpoint_down=account.is_down,
                )
                match decision:
                    case policy.Retry(delay_s, counts):
                        self._outbox.note(failed)
                        tries += counts
                        throttles += not counts
                        if not counts:
                            account.limiter.pause(delay_s)
                        await _wait(account, delay_s)
                    case policy.ActionNeeded():
                        self._outbox.note(failed)
                        account.action_needed = f"{asked.pair.model.name}: {error.message}"
                        return "left"
                    case policy.Park() if not history.parked:
                        parked = replace(history, parked=1)
                        await self._outbox.record(failed, waiting=self._waiting(asked, "parked", parked))
                        return "waiting"
                    case policy.Park():
                        return await self._end(asked, Failed("exhausted", error.message), failed, history, None)
                    case policy.Fail(kind):
                        return await self._end(asked, Failed(kind, error.message), failed, history, None)
            else:
                account.succeeded += 1
                account.answered += 1
                account.failing = account.unreachable = 0
                return await self._read(asked, completion, tries + throttles + 1, sent_at, history)

    async def _read(self, asked: _Asked, completion: Completion, try_: int, sent_at: float, history: History) -> str:
        """Read the reply: an outcome, or the trial goes back to the ledger to be judged afresh."""
        judge = asked.pair.judge
        reading = judge.read(
            Reply(completion.text, completion.finish_reason, completion.refusal, completion.reasoning),
        )
        official = history.official if history.official is not None else judge.official(completion.text or "")
        history = replace(
            history,
            attempts=history.attempts + 1,
            usage=history.usage + completion.usage,
            official=official,
        )
        attempt = self._answered_attempt(asked, try_, sent_at, completion)
        retry = self._config.retry
        if isinstance(reading, Malformed) and history.malformed < retry.rejudge:
            again = replace(history, malformed=history.malformed + 1)
            await self._outbox.record(attempt, waiting=self._waiting(asked, "malformed", again))
            return "waiting"
        # A content filter would stop the same text again: it is not bought twice.
        if isinstance(reading, Refused) and reading.by != "content_filter" and history.refused < retry.refused:
            again = replace(history, refused=history.refused + 1)
            await self._outbox.record(attempt, waiting=self._waiting(asked, "refused", again))
            return "waiting"
        return await self._end(asked, reading, attempt, history, completion.latency_s)

    async def _end(
        self, asked: _Asked, outcome: Outcome, attempt: Attempt, history: History, latency_s: float | None
    ) -> str:
        judgment = self._judgment(
            asked.task, asked.trial, asked.pair, asked.key, outcome, asked.request_id, history, latency_s
        )
        await self._outbox.record(attempt, judgment=judgment)
        return "judged"

    def _saw_error(self, account: _Account, error: EndpointError) -> None:
        account.last_error = f"{error.kind.value}: {error.message}"
        if error.status is not None:
            account.answered += 1
            account.unreachable = 0
        if error.kind is policy.ErrorKind.THROTTLED:
            account.throttled += 1
        elif error.kind is policy.ErrorKind.UNREACHABLE:
            account.unreachable += 1
            account.failing += 1
        elif error.kind is not policy.ErrorKind.BAD_REQUEST:
            account.failing += 1

    def _judgment(
        self,
        task: Task,
        trial: Trial,
        pair: Pair,
        key: bytes,
        outcome: Outcome,
        request_id: str | None,
        history: History,
        latency_s: float | None,
    ) -> Judgment:
        reason: str | None = None
        verdict: Mapping[str, Any] | None = None
        stage = _stage(trial.history)
        notes: tuple[str, ...] = ("json_hint",) if pair.json_hint else ()
        match outcome:
            case Scored(verdict, provenance):
                notes += provenance.notes
                if stage == "first":
                    stage = provenance.stage
                else:
                    notes += (f"read:{provenance.stage}",)
            case Malformed(code, _):
                reason = code.value
            case Refused(by, _):
                reason = by
            case Failed(kind, _):
                reason = kind
        return Judgment(
            shard=trial.shard,
            position=trial.position,
            key=key,
            state=outcome.state,
            reason=reason,
            verdict=None if verdict is None else json.dumps(dict(verdict), ensure_ascii=False),
            scores=None if verdict is None else json.dumps(pair.judge.scores(verdict)),
            template=trial.template,
            stage=stage,
            notes=notes,
            parser_version=Provenance("").parser_version,
            structured=pair.structured,
            request_id=request_id,
            official=history.official,
            attempts=history.attempts,
            usage=history.usage,
            latency_s=latency_s,
            judged_at=time.time(),
            worker=self.name,
        )

    def _waiting(self, asked: _Asked, why: str, history: History) -> Waiting:
        return Waiting(asked.trial.shard, asked.trial.position, asked.key, why, history)

    def _failed_attempt(self, asked: _Asked, try_: int, sent_at: float, error: EndpointError) -> Attempt:
        return replace(
            self._attempt(asked, try_, sent_at),
            state="error",
            status=error.status,
            error=f"{error.kind.value}: {error.message}",
            retry_after_s=error.retry_after_s,
        )

    def _answered_attempt(self, asked: _Asked, try_: int, sent_at: float, completion: Completion) -> Attempt:
        return replace(
            self._attempt(asked, try_, sent_at),
            status=200,
            served_model=completion.served_model,
            system_fingerprint=completion.system_fingerprint,
            finish_reason=completion.finish_reason,
            answer_text=completion.text,
            reasoning_text=completion.reasoning,
            refusal_text=completion.refusal,
            usage=completion.usage,
            latency_s=completion.latency_s,
        )

    def _attempt(self, asked: _Asked, try_: int, sent_at: float) -> Attempt:
        return Attempt(
            request_id=asked.request_id,
            keys=(asked.key,),
            judge=asked.task.judge,
            model=asked.task.model,
            model_id=asked.pair.model.model,
            stage=asked.stage,
            try_=try_,
            state="ok",
            sent_at=sent_at,
            worker=self.name,
            usage=Usage(),
        )


def _stage(history: History) -> str:
    """Which call of the ladder comes now, by what the trial has been through."""
    if history.malformed:
        return f"rejudge:{history.malformed}"
    if history.refused:
        return f"refused:{history.refused}"
    return "last" if history.parked else "first"


async def _wait(account: _Account, delay_s: float) -> None:
    """Sleep without holding a slot; the order to stop ends it."""
    try:
        async with asyncio.timeout(delay_s):
            await account.closed.wait()
    except TimeoutError:
        return
