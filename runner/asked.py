"""One trial under way, and the records that are made of it: attempts, the judgment, a note that it waits.

Pure, but for the clock that stamps a record. Hides how records are filled in, so that the worker's loop shows only what
happens.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from judges import PARSER_VERSION, Failed, Item, Malformed, Outcome, Refused, Scored

from .client import EndpointError
from .completion import Completion
from .plan import Pair, estimate_tokens, prompt_bytes
from .protocol import Attempt, History, Judgment, Task, Trial, Usage, Waiting

DEFAULT_REPLY_TOKENS = 512
"""Reserved for a reply where the sampling sets no max_tokens."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A trial with its rendered request. `tokens` and `usd` are what one request may take at most, by estimate."""

    task: Task
    trial: Trial
    pair: Pair
    item: Item
    key: bytes
    body: dict[str, Any]
    tokens: int
    usd: float
    request_id: str
    worker: str

    @property
    def stage(self) -> str:
        """Which call of the ladder this is, by what the trial has been through."""
        history = self.trial.history
        if history.malformed:
            return f"rejudge:{history.malformed}"
        if history.refused:
            return f"refused:{history.refused}"
        return "last" if history.parked else "first"

    def judgment(self, outcome: Outcome, history: History, latency_s: float | None, *, called: bool = True) -> Judgment:
        """The trial's outcome as recorded. `history` includes the deciding attempt; `called`: whether there is one."""
        reason: str | None = None
        verdict: Mapping[str, Any] | None = None
        stage = self.stage
        notes: tuple[str, ...] = ("json_hint",) if self.pair.json_hint else ()
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
            shard=self.trial.shard,
            position=self.trial.position,
            key=self.key,
            state=outcome.state,
            reason=reason,
            verdict=None if verdict is None else json.dumps(dict(verdict), ensure_ascii=False),
            scores=None if verdict is None else json.dumps(self.pair.judge.scores(verdict)),
            template=self.trial.template,
            stage=stage,
            notes=notes,
            parser_version=PARSER_VERSION,
            structured=self.pair.structured,
            request_id=self.request_id if called else None,
            official=history.official,
            attempts=history.attempts,
            usage=history.usage,
            latency_s=latency_s,
            judged_at=time.time(),
            worker=self.worker,
        )

    def waiting(self, why: str, history: History) -> Waiting:
        """The note that the trial is to go out again."""
        return Waiting(self.trial.shard, self.trial.position, self.key, why, history)

    def failed(self, try_: int, sent_at: float, error: EndpointError) -> Attempt:
        """The attempt that ended in an error."""
        return replace(
            self._attempt(try_, sent_at),
            state="error",
            status=error.status,
            error=f"{error.kind.value}: {error.message}",
            retry_after_s=error.retry_after_s,
        )

    def answered(self, try_: int, sent_at: float, completion: Completion) -> Attempt:
        """The attempt that brought a reply."""
        return replace(
            self._attempt(try_, sent_at),
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

    def _attempt(self, try_: int, sent_at: float) -> Attempt:
        return Attempt(
            request_id=self.request_id,
            keys=(self.key,),
            judge=self.task.judge,
            model=self.task.model,
            model_id=self.pair.model.model,
            stage=self.stage,
            try_=try_,
            state="ok",
            sent_at=sent_at,
            worker=self.worker,
            usage=Usage(),
        )


def ask(task: Task, trial: Trial, pair: Pair, worker: str) -> Asked:
    """Render a trial's request, under the key that its own prompt gives it."""
    item = Item(trial.item_id, trial.question_id, trial.system, trial.group, json.loads(trial.fields))
    messages = pair.judge.render(item, trial.template)
    key = pair.key(trial.system, trial.item_id, messages, task.repeat)
    if pair.json_hint:
        messages = pair.judge.render(item, trial.template, json_hint=True)
    tokens_in = estimate_tokens(prompt_bytes(messages))
    tokens_out = pair.sampling.max_tokens or DEFAULT_REPLY_TOKENS
    price = pair.model.price
    return Asked(
        task=task,
        trial=trial,
        pair=pair,
        item=item,
        key=key,
        body=pair.body(messages),
        tokens=tokens_in + tokens_out,
        usd=0.0 if price is None else (tokens_in * price.input + tokens_out * price.output) / 1e6,
        request_id=uuid.uuid4().hex,
        worker=worker,
    )
