"""One request under way with the trials that it carries, and the records that are made of it: attempts, judgments,
notes that trials wait.

Pure, but for the clock that stamps a record. Hides how records are filled in and how a request's tokens and money are
shared out over its trials, so that the worker's loop shows only what happens.

Makes the requests that trials are asked in: rendered, sampled as their history wants it, with what it costs at most.

Hides how a fresh request differs from the first one: by its seed, by what a reply may take, by its name in the ladder.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from judges import PARSER_VERSION, Failed, Item, Judge, Outcome, Provenance, Reply, Scored, reason_of
from runner.config import Model
from runner.endpoint.client import EndpointError
from runner.endpoint.judge_model import JudgeModel, Messages, estimate_tokens, prompt_bytes
from runner.endpoint.response import MESSAGE_CHARS, Completion
from runner.endpoint.structured_output import FIELDS
from runner.messages import (
    BLOCK_MARKER,
    NOTHING,
    Attempt,
    CostBound,
    Judgment,
    PendingTrial,
    Task,
    Trial,
    TrialProgress,
    Usage,
)

from .ladder import NextStep, next_sampling


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A rendered request. `tokens` is what it may take at most, by estimate.

    `trials`, `items`, `keys` and `histories` are in the order of the request; `histories` as of now.
    """

    task: Task
    trials: tuple[Trial, ...]
    histories: tuple[TrialProgress, ...]
    items: tuple[Item, ...]
    keys: tuple[bytes, ...]
    pair: JudgeModel
    body: dict[str, Any]
    tokens: int
    bound: CostBound
    """What it can come to, whatever the tokenizer: reserved before it is sent."""
    request_id: str
    worker: str
    stage: str
    """Which call of the ladder this is, by what the trials have been through."""
    notes: tuple[str, ...] = ()
    """How it differs from what is asked first and everywhere."""

    @property
    def history(self) -> TrialProgress:
        """What its trials have been through together; attempts and usage are the first one's."""
        return self.histories[0]

    @property
    def batched(self) -> bool:
        """Whether it asks about several trials."""
        return len(self.trials) > 1

    def with_attempt(self, completion: Completion | None = None) -> JudgeRequest:
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
            return replace(self, histories=tuple(histories), notes=self.notes + completion.notes)
        return replace(self, histories=tuple(histories))

    def with_copy(self, completion: Completion) -> JudgeRequest:
        """The same after a request to the reformat model, which is paid like any other."""
        share = completion.usage.shared(len(self.trials))
        histories = (replace(h, attempts=h.attempts + 1, usage=h.usage + share) for h in self.histories)
        return replace(self, histories=tuple(histories))

    def without_copy(self, skipped: str | None = None) -> JudgeRequest:
        """The same after the reformat model gave none; `skipped`: why it was not asked at all."""
        histories = (
            replace(h, attempts=h.attempts + (skipped is None), reformat_failed=h.reformat_failed + 1)
            for h in self.histories
        )
        notes = () if skipped is None else (f"reformat_skipped:{skipped}",)
        return replace(self, histories=tuple(histories), notes=self.notes + notes)

    def outcomes(self, completion: Completion) -> list[Outcome]:
        """What the completion says of each trial."""
        reply = Reply(completion.text, completion.finish_reason, completion.refusal, completion.reasoning)
        return outcomes_of(self.pair.judge, reply, self.items, in_loop=True)

    def judgments(
        self, outcomes: Sequence[Outcome], latency_s: float | None, *, called: bool = True
    ) -> tuple[Judgment, ...]:
        """The trials' outcomes as recorded. `called`: whether an attempt decided them."""
        return tuple(self._judgment(place, outcome, latency_s, called) for place, outcome in enumerate(outcomes))

    def _judgment(self, place: int, outcome: Outcome, latency_s: float | None, called: bool) -> Judgment:
        trial, history, item = self.trials[place], self.histories[place], self.items[place]
        judge = self.pair.judge
        verdict: Mapping[str, Any] | None = None
        stage = self.stage
        notes = (("json_hint",) if self.pair.json_hint else ()) + self.notes
        if history.reformat_failed:
            notes += (f"reformat_failed:{history.reformat_failed}",)
        if not self.batched and judge.has_block_marker(item, trial.template):
            notes += (BLOCK_MARKER,)
        if isinstance(outcome, Scored):
            verdict = outcome.verdict
            stage, of_reading = verdict_stage(stage, outcome.provenance)
            notes += of_reading
        return Judgment(
            shard=trial.shard,
            position=trial.position,
            key=self.keys[place],
            state=outcome.state,
            reason=reason_of(outcome),
            verdict=None if verdict is None else json.dumps(dict(verdict), ensure_ascii=False),
            scores=None if verdict is None else json.dumps(judge.scores(verdict, item)),
            template=trial.template,
            stage=stage,
            notes=notes,
            parser_version=PARSER_VERSION,
            structured="refused" if any(f"not_sent:{name}" in notes for name in FIELDS) else self.pair.mode,
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

    def retry_step(self, step: NextStep) -> tuple[PendingTrial, ...]:
        """The notes that its trials are to go out again, by a step of the ladder."""
        return self._waiting(step.why, [step.after(history) for history in self.histories])

    def repeat(self) -> tuple[PendingTrial, ...]:
        """The notes that its trials wait to be asked the same again: what their reply comes to was never found out."""
        return self._waiting("malformed", self.histories)

    def park(self) -> tuple[PendingTrial, ...]:
        """The notes that its trials are put off to the end of the run, and tried once more there."""
        return self._waiting("parked", [replace(history, parked=1) for history in self.histories])

    def _waiting(self, why: str, histories: Sequence[TrialProgress]) -> tuple[PendingTrial, ...]:
        return tuple(
            PendingTrial(trial.shard, trial.position, key, why, history)
            for trial, key, history in zip(self.trials, self.keys, histories, strict=True)
        )

    def failed_attempt(self, try_: int, sent_at: float, error: EndpointError) -> Attempt:
        """The attempt that ended in an error."""
        return replace(
            self._attempt(try_, sent_at),
            state="error",
            status=error.status,
            error=f"{error.kind.value}: {error.message}",
            retry_after_s=error.retry_after_s,
            freed=NOTHING if error.may_be_billed else self.bound,
        )

    def answered_attempt(
        self, try_: int, sent_at: float, completion: Completion, outcomes: Sequence[Outcome] = ()
    ) -> Attempt:
        """The attempt that brought a reply, read as `outcomes`."""
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
            reading=reading_of(outcomes),
            parser_version=PARSER_VERSION if outcomes else None,
            freed=self.bound if completion.counted else NOTHING,
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


def outcomes_of(judge: Judge, reply: Reply, items: Sequence[Item], in_loop: bool = False) -> list[Outcome]:
    """What a judge's reply about some items says of each, whatever its code does.

    `in_loop`: no signal is raised here, so that a KeyboardInterrupt is the code's own too.
    """
    reply = replace(reply, judged=judge.judged_texts(items))
    if not judge.code:
        return list(judge.outcomes(judge.read(reply, len(items)), items))
    try:
        outcomes: list[Outcome] = list(judge.outcomes(judge.read(reply, len(items)), items))
        for outcome, item in zip(outcomes, items, strict=True):
            if isinstance(outcome, Scored):
                judge.check(outcome.verdict, item)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not in_loop:
            raise
        # The user's own code, which one reply in a million may surprise: its trial ends without a score, the reply is
        # kept, and the others go on. A SystemExit or CancelledError would end the run, or its task, without a word.
        return [Failed("judge_code", _words(error))] * len(items)
    return outcomes


def _words(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception as mute:
        said = f"says nothing: {type(mute).__name__}"
    return f"{type(error).__name__}: {said[:MESSAGE_CHARS]}"


def reading_of(outcomes: Sequence[Outcome]) -> str | None:
    """What a reply was read as, in a word: the first trial without a score stands for all of its request."""
    for outcome in outcomes:
        if not isinstance(outcome, Scored):
            return f"{outcome.state}:{reason_of(outcome)}"
    return next((outcome.provenance.stage for outcome in outcomes if isinstance(outcome, Scored)), None)


def verdict_stage(asked: str, provenance: Provenance) -> tuple[str, tuple[str, ...]]:
    """The stage that a verdict's judgment names, of how it was asked for and how it was read; and notes, which name the
    other of the two."""
    if asked == "first":
        return provenance.stage, provenance.notes
    if provenance.stage == "reformat":
        return provenance.stage, (*provenance.notes, f"asked:{asked}")
    return asked, (*provenance.notes, f"read:{provenance.stage}")


def item_of(trial: Trial) -> Item:
    """The item of a trial, without its labels: those stay with the driver."""
    return Item(trial.item_id, trial.question_id, trial.system, trial.group, json.loads(trial.fields))


pass  # MOVED-EMPTY

DEFAULT_REPLY_TOKENS = 512
"""What a reply is taken to need where the sampling sets no max_tokens."""
LONGEST_REPLY_TOKENS = 16_384
"""What a reply is taken to need at most where no max_tokens is sent."""
TEMPLATE_TOKENS = 256
"""What an endpoint may put around the messages: the chat template's own words."""
REPLY_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def build_request(task: Task, trials: tuple[Trial, ...], pair: JudgeModel, worker: str) -> JudgeRequest:
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
    stage = stage_of(trials[0].history)
    sampling = next_sampling(pair.sampling, trials[0].history)
    body = pair.body(messages, len(trials), sampling)
    return JudgeRequest(
        task=task,
        trials=trials,
        histories=tuple(trial.history for trial in trials),
        items=items,
        keys=keys,
        pair=pair,
        body=body,
        tokens=estimate_request_tokens(messages, sampling.get("max_tokens", pair.sampling.max_tokens)),
        bound=cost_bound(body, pair.model),
        # Not from the keys: whatever a trial has been through, and a crash that left no trace of its request, the next
        # request is another. Its records are sent again as they are.
        request_id=uuid.uuid4().hex,
        worker=worker,
        stage=stage,
        notes=tuple(f"{name}:{value}" for name, value in sampling.items()),
    )


def build_probe(task: Task, pair: JudgeModel, body: dict[str, Any], worker: str) -> JudgeRequest:
    """A request that no trial is in."""
    return JudgeRequest(
        task=task,
        trials=(),
        histories=(),
        items=(),
        keys=(),
        pair=pair,
        body=body,
        tokens=estimate_request_tokens(body["messages"], body.get("max_tokens")),
        bound=cost_bound(body, pair.model),
        request_id="",
        worker=worker,
        stage="probe",
    )


def estimate_request_tokens(messages: Messages, max_tokens: int | None) -> int:
    """Tokens that a request may take at most, by estimate: what the limits of tokens are kept by."""
    return estimate_tokens(prompt_bytes(messages)) + (max_tokens or DEFAULT_REPLY_TOKENS)


def cost_bound(body: Mapping[str, Any], model: Model) -> CostBound:
    """What a request can come to: no tokenizer makes more tokens of a text than it has bytes.

    The body as it is sent stands for the messages: its other fields, of which an endpoint may count the demanded form
    too, and its syntax are on the safe side.
    """
    sent = {**body, **model.extra.body}
    try:
        given = len(orjson.dumps(sent)) + TEMPLATE_TOKENS
    except orjson.JSONEncodeError:
        # It will not be sent: the client finds the same.
        given = TEMPLATE_TOKENS
    limits = [limit for name in REPLY_LIMITS if isinstance(limit := sent.get(name), int)]
    taken = max(limits, default=LONGEST_REPLY_TOKENS)
    usd = 0.0
    if (price := model.price) is not None:
        usd = given * max(price.input, price.cached_input or 0.0) + taken * price.output
    # Prices are per million tokens.
    return CostBound(1, given + taken, math.ceil(usd * 1e3))


def stage_of(history: TrialProgress) -> str:
    """The ladder's name for a request about trials with this history."""
    if history.malformed:
        return f"rejudge:{history.malformed}"
    if history.refused:
        return f"refused:{history.refused}"
    if history.depth:
        return f"bisect:{history.depth}"
    if history.retry:
        # Also when put off: its trial had its first reply before.
        return f"retry:{history.retry}"
    return "last" if history.parked else "first"
