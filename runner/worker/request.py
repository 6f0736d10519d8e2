"""One request with the trials that it carries: how it is built, and the records that are made of it.

Pure, but for the clock that stamps a record. Hides how a fresh request differs from the first one (its seed, what a
reply may take, its name in the ladder), how records are filled in, and how a request's tokens and money are shared out
over its trials.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from judges import Failed, Item, Judge, Outcome, Reply, Scored, reason_of
from runner.config import Model
from runner.endpoint.judge_model import JudgeModel, Messages, prompt_bytes
from runner.endpoint.response import MESSAGE_CHARS, Completion, EndpointError
from runner.endpoint.structured_output import FIELDS
from runner.messages import Attempt, Judgment, PendingTrial, Task, Trial, TrialProgress
from runner.usage import NO_USAGE, NOTHING, CostBound, Usage

from .judgment import build_judgment, request_notes
from .ladder import NextStep, next_sampling

REFORMAT = "reformat"
"""The stage in which another model copies the verdict out of a reply that could not be read."""
DEFAULT_REPLY_TOKENS = 512
"""What a reply is taken to need where the sampling sets no max_tokens."""
LONGEST_REPLY_TOKENS = 16_384
"""What a reply is taken to need at most where no max_tokens is sent."""
TEMPLATE_TOKENS = 256
"""What an endpoint may put around the messages: the chat template's own words."""
REPLY_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A rendered request. `tokens` is what it may take at most, by estimate.

    `trials`, `items`, `keys` and `histories` are in the order of the request; `histories` as of now.
    """

    task: Task
    judge_model: JudgeModel
    body: dict[str, Any]
    tokens: int
    bound: CostBound
    """What it can come to, whatever the tokenizer: reserved before it is sent."""
    request_id: str
    worker: str
    stage: str = "probe"
    """Which call of the ladder this is, by what the trials have been through."""
    trials: tuple[Trial, ...] = ()
    histories: tuple[TrialProgress, ...] = ()
    items: tuple[Item, ...] = ()
    keys: tuple[bytes, ...] = ()
    notes: tuple[str, ...] = ()
    """How it differs from the first request, and from what goes to other endpoints."""
    keep: tuple[str, ...] = ()
    """Fields without which it would not mean what it is to mean: they are sent though the endpoint rejects them."""

    @property
    def history(self) -> TrialProgress:
        """What its trials have been through together; attempts and usage are the first one's."""
        return self.histories[0]

    def with_attempts(self, count: int, usage: Usage = NO_USAGE) -> JudgeRequest:
        """The same after so many more attempts, be they of the reformat model, which took `usage`."""
        histories = (
            replace(h, attempts=h.attempts + count, usage=h.usage + usage.share(place, len(self.trials)))
            for place, h in enumerate(self.histories)
        )
        return replace(self, histories=tuple(histories))

    def with_reply(self, attempts: int, completion: Completion) -> JudgeRequest:
        """The same after so many more attempts, the last of which brought a reply."""
        official = self.judge_model.judge.official(completion.text or "")
        histories = (
            replace(
                h, attempts=h.attempts + attempts, usage=h.usage + completion.usage.share(place, len(self.trials)),
                official=official if h.official is None else h.official,
            )
            for place, h in enumerate(self.histories)
        )  # fmt: skip
        return replace(self, histories=tuple(histories), notes=self.notes + completion.notes)

    def without_copy(self, skipped: str | None = None) -> JudgeRequest:
        """The same after the reformat model gave none; `skipped`: why nothing was sent to it."""
        histories = (
            replace(h, attempts=h.attempts + (skipped is None), reformat_failed=h.reformat_failed + 1)
            for h in self.histories
        )
        notes = () if skipped is None else (f"reformat_skipped:{skipped}",)
        return replace(self, histories=tuple(histories), notes=self.notes + notes)

    def judgments(
        self, outcomes: Sequence[Outcome], latency_s: float | None, *, called: bool = True
    ) -> tuple[Judgment, ...]:
        """The trials' outcomes as recorded. `called`: whether an attempt decided them."""
        return tuple(self._judgment(place, outcome, latency_s, called) for place, outcome in enumerate(outcomes))

    def _judgment(self, place: int, outcome: Outcome, latency_s: float | None, called: bool) -> Judgment:
        trial, history, own = self.trials[place], self.histories[place], self.judge_model
        notes = request_notes(own.json_hint, history, self.notes)
        structured = "refused" if any(f"not_sent:{name}" in notes for name in FIELDS) else own.mode
        return build_judgment(
            outcome, own.judge, self.items[place], history,
            shard=trial.shard, position=trial.position, key=self.keys[place], template=trial.template,
            structured=structured, stage=self.stage, worker=self.worker,
            request_id=self.request_id if called else None, latency_s=latency_s,
            batch_size=len(self.trials), batch_position=place + 1, bisect_depth=history.depth, notes=notes,
        )  # fmt: skip

    def retry_step(self, step: NextStep) -> tuple[PendingTrial, ...]:
        """The notes that its trials are to go out again, by a step of the ladder."""
        return self._waiting(step.why, [step.after(history) for history in self.histories])

    def repeat(self) -> tuple[PendingTrial, ...]:
        """The notes that its trials wait for the same request: what their reply comes to is not known."""
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
            self._attempt(try_, sent_at, "error"),
            status=error.status, error=f"{error.kind.value}: {error.message}", retry_after_s=error.retry_after_s,
            freed=NOTHING if error.may_be_billed else self.bound,
        )  # fmt: skip

    def answered_attempt(self, try_: int, sent_at: float, completion: Completion) -> Attempt:
        """The attempt that brought a reply, which is not read yet."""
        return replace(
            self._attempt(try_, sent_at, "ok"),
            status=200, served_model=completion.served_model, system_fingerprint=completion.system_fingerprint,
            finish_reason=completion.finish_reason, judge_reply=completion.text, reasoning_text=completion.reasoning,
            refusal_text=completion.refusal, usage=completion.usage, latency_s=completion.latency_s,
            freed=self.bound if completion.counted else NOTHING,
        )  # fmt: skip

    def _attempt(self, try_: int, sent_at: float, state: str) -> Attempt:
        task, model_id = self.task, self.judge_model.model.model
        return Attempt(
            self.request_id, self.keys, task.judge, task.model, model_id, self.stage, try_, state, sent_at, self.worker
        )


def outcomes_of(judge: Judge, reply: Reply, items: Sequence[Item], in_loop: bool = False) -> list[Outcome]:
    """What a judge's reply about some items says of each, whatever its code does.

    `in_loop`: no signal is raised here, so that a KeyboardInterrupt is the code's own too.
    """
    reply = replace(reply, judged=judge.judged_texts(items))
    try:
        outcomes: list[Outcome] = list(judge.outcomes(judge.read(reply, len(items)), items))
        for outcome, item in zip(outcomes, items, strict=True) if judge.code else ():
            if isinstance(outcome, Scored):
                judge.check(outcome.verdict, item)
    except BaseException as error:
        if not judge.code or (isinstance(error, KeyboardInterrupt) and not in_loop):
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


def item_of(trial: Trial) -> Item:
    """The item of a trial, without its labels: those stay with the driver."""
    return Item(trial.item_id, trial.question_id, trial.system, trial.group, json.loads(trial.fields))


def build_request(task: Task, trials: tuple[Trial, ...], judge_model: JudgeModel, worker: str) -> JudgeRequest:
    """Render the request of some trials, each under the key that its own prompt gives it."""
    judge = judge_model.judge
    items = tuple(item_of(trial) for trial in trials)
    rendered = [judge.render(item, trial.template) for item, trial in zip(items, trials, strict=True)]
    keys = tuple(
        judge_model.key(trial.system, trial.item_id, messages, task.repeat)
        for trial, messages in zip(trials, rendered, strict=True)
    )
    template = trials[0].template
    messages = judge.render_batch(items, template) if len(trials) > 1 else rendered[0]
    if len(trials) == 1 and judge_model.json_hint:
        messages = judge.render(items[0], template, json_hint=True)
    sampling = next_sampling(judge_model.sampling, trials[0].history)
    body = judge_model.body(messages, len(trials), sampling)
    return replace(
        build_probe(task, judge_model, body, worker, judge_model.required_fields),
        trials=trials,
        histories=tuple(trial.history for trial in trials),
        items=items,
        keys=keys,
        stage=stage_of(trials[0].history),
        notes=tuple(f"{name}:{value}" for name, value in sampling.items()),
    )


def build_probe(
    task: Task, judge_model: JudgeModel, body: dict[str, Any], worker: str, keep: tuple[str, ...] = ()
) -> JudgeRequest:
    """A request that no trial is in."""
    # The id is not from the keys: whatever a trial has been through, and a crash that left no trace of its request, the
    # next request is another. Its records are sent again as they are.
    return JudgeRequest(
        task, judge_model, body,
        tokens=estimate_request_tokens(body["messages"], body.get("max_tokens")),
        bound=cost_bound(body, judge_model.model), request_id=uuid.uuid4().hex, worker=worker, keep=keep,
    )  # fmt: skip


def estimate_request_tokens(messages: Messages, max_tokens: int | None) -> int:
    """Tokens that a request may take at most, by the rule of thumb of four bytes each: what limits of tokens go by."""
    return math.ceil(prompt_bytes(messages) / 4) + (max_tokens or DEFAULT_REPLY_TOKENS)


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


def copy_request_id(request_id: str, keys: Sequence[bytes]) -> str:
    """The id of the request for a copy of what a reply says: over the request which that answers, and its keys."""
    return hashlib.blake2b(b"".join((request_id.encode(), *keys)), digest_size=16, person=REFORMAT.encode()).hexdigest()
