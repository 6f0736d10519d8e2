"""One request under way with the trials that it carries, and the records that are made of it: attempts, judgments,
notes that trials wait.

Pure, but for the clock that stamps a record. Hides how records are filled in and how a request's tokens and money are
shared out over its trials, so that the worker's loop shows only what happens.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judges import PARSER_VERSION, Failed, Item, Malformed, Outcome, Refused, Reply, Scored

from .batches import BLOCK_MARKER
from .client import EndpointError
from .completion import Completion
from .ladder import Again
from .plan import Pair, estimate_tokens, prompt_bytes
from .protocol import Attempt, History, Judgment, Task, Trial, Usage, Waiting

DEFAULT_REPLY_TOKENS = 512
"""Reserved for a reply where the sampling sets no max_tokens."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A rendered request. `tokens` and `usd` are what it may take at most, by estimate.

    `trials`, `items`, `keys` and `histories` are in the order of the request; `histories` as of now.
    """

    task: Task
    trials: tuple[Trial, ...]
    histories: tuple[History, ...]
    items: tuple[Item, ...]
    keys: tuple[bytes, ...]
    pair: Pair
    body: dict[str, Any]
    tokens: int
    usd: float
    request_id: str
    worker: str
    stage: str
    """Which call of the ladder this is, by what the trials have been through."""

    @property
    def history(self) -> History:
        """What its trials have been through together; attempts and usage are the first one's."""
        return self.histories[0]

    @property
    def batched(self) -> bool:
        """Whether it asks about several trials."""
        return len(self.trials) > 1

    def with_attempt(self, completion: Completion | None = None) -> Asked:
        """The same after one more attempt, which brought a completion or failed."""
        histories = [replace(history, attempts=history.attempts + 1) for history in self.histories]
        if completion is not None:
            share = completion.usage.shared(len(self.trials))
            official = self.pair.judge.official(completion.text or "")
            histories = [
                replace(
                    history,
                    usage=history.usage + share,
                    official=official if history.official is None else history.official,
                )
                for history in histories
            ]
        return replace(self, histories=tuple(histories))

    def outcomes(self, completion: Completion) -> list[Outcome]:
        """What the completion says of each trial."""
        judge = self.pair.judge
        reply = Reply(completion.text, completion.finish_reason, completion.refusal, completion.reasoning)
        if not judge.code:
            return list(judge.outcomes(judge.read(reply, len(self.trials)), self.items))
        try:
            outcomes: list[Outcome] = list(judge.outcomes(judge.read(reply, len(self.trials)), self.items))
            for outcome, item in zip(outcomes, self.items, strict=True):
                if isinstance(outcome, Scored):
                    judge.scores(outcome.verdict, item)
        except Exception as error:
            # The user's own code, which one reply in a million may surprise: its trial ends without a score, the reply
            # is kept, and the others go on.
            return [Failed("judge_code", f"{type(error).__name__}: {error}")] * len(self.trials)
        return outcomes

    def judgments(
        self, outcomes: Sequence[Outcome], latency_s: float | None, *, called: bool = True
    ) -> tuple[Judgment, ...]:
        """The trials' outcomes as recorded. `called`: whether an attempt decided them."""
        return tuple(self._judgment(place, outcome, latency_s, called) for place, outcome in enumerate(outcomes))

    def _judgment(self, place: int, outcome: Outcome, latency_s: float | None, called: bool) -> Judgment:
        trial, history, item = self.trials[place], self.histories[place], self.items[place]
        judge = self.pair.judge
        reason: str | None = None
        verdict: Mapping[str, Any] | None = None
        stage = self.stage
        notes: tuple[str, ...] = ("json_hint",) if self.pair.json_hint else ()
        if not self.batched and judge.marked(item, trial.template):
            notes += (BLOCK_MARKER,)
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
            key=self.keys[place],
            state=outcome.state,
            reason=reason,
            verdict=None if verdict is None else json.dumps(dict(verdict), ensure_ascii=False),
            scores=None if verdict is None else json.dumps(judge.scores(verdict, item)),
            template=trial.template,
            stage=stage,
            notes=notes,
            parser_version=PARSER_VERSION,
            structured=self.pair.structured,
            batch_size=len(self.trials),
            batch_position=place + 1,
            bisect_depth=history.depth,
            request_id=self.request_id if called else None,
            official=history.official,
            attempts=history.attempts,
            usage=history.usage,
            latency_s=latency_s,
            judged_at=time.time(),
            worker=self.worker,
        )

    def again(self, step: Again) -> tuple[Waiting, ...]:
        """The notes that its trials are to go out again, by a step of the ladder."""
        return self._waiting(step.why, [step.after(history) for history in self.histories])

    def parked(self, last_try: bool) -> tuple[Waiting, ...]:
        """The notes that its trials are put off to the end of the run; `last_try`: they are tried once more there."""
        return self._waiting(
            "parked", [replace(history, parked=1) if last_try else history for history in self.histories]
        )

    def _waiting(self, why: str, histories: Sequence[History]) -> tuple[Waiting, ...]:
        return tuple(
            Waiting(trial.shard, trial.position, key, why, history)
            for trial, key, history in zip(self.trials, self.keys, histories, strict=True)
        )

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
            keys=self.keys,
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


def ask(task: Task, trials: tuple[Trial, ...], pair: Pair, worker: str) -> Asked:
    """Render the request of some trials, each under the key that its own prompt gives it."""
    judge = pair.judge
    items = tuple(item_of(trial) for trial in trials)
    rendered = [judge.render(item, trial.template) for item, trial in zip(items, trials, strict=True)]
    keys = tuple(
        pair.key(trial.system, trial.item_id, messages, task.repeat)
        for trial, messages in zip(trials, rendered, strict=True)
    )
    template = trials[0].template
    if len(trials) > 1:
        messages = judge.render_batch(items, template)
    elif pair.json_hint:
        messages = judge.render(items[0], template, json_hint=True)
    else:
        messages = rendered[0]
    stage = _stage(trials[0].history)
    tokens_in = estimate_tokens(prompt_bytes(messages))
    tokens_out = pair.sampling.max_tokens or DEFAULT_REPLY_TOKENS
    price = pair.model.price
    return Asked(
        task=task,
        trials=trials,
        histories=tuple(trial.history for trial in trials),
        items=items,
        keys=keys,
        pair=pair,
        body=pair.body(messages),
        tokens=tokens_in + tokens_out,
        usd=0.0 if price is None else (tokens_in * price.input + tokens_out * price.output) / 1e6,
        request_id=_request_id(stage, keys),
        worker=worker,
        stage=stage,
    )


def item_of(trial: Trial) -> Item:
    """The item of a trial, without its labels: those stay with the driver."""
    return Item(trial.item_id, trial.question_id, trial.system, trial.group, json.loads(trial.fields))


def _stage(history: History) -> str:
    if history.malformed:
        return f"rejudge:{history.malformed}"
    if history.refused:
        return f"refused:{history.refused}"
    if history.depth:
        return f"bisect:{history.depth}"
    return "last" if history.parked else "first"


def _request_id(stage: str, keys: Sequence[bytes]) -> str:
    """An id over the ordered keys: the same request asked again after a loss has the same id."""
    return hashlib.blake2b(b"".join(keys), digest_size=16, person=stage.encode()[:16]).hexdigest()
