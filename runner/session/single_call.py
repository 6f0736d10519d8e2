"""One real call per judge and model, outside of any run: what is sent, what comes back, and how it is read.

Judges as a run does, with the same rendering, the same request, the same sending and the same reading, but keeps
nothing and sends once: an endpoint's trouble is reported instead of waited out.
"""

import json
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from judges import Failed, Item, Judge, Malformed, Outcome, Poisoned, Refused, Scored
from runner.config import RunConfig
from runner.dataset import RowError, item_sources, reference_sources
from runner.dataset.field_mapping import BadRowError
from runner.dataset.item_builder import ItemBuilder, Reference
from runner.dataset.missing_columns import check_missing
from runner.endpoint import structured_output
from runner.endpoint.client import Client
from runner.endpoint.credentials import check_key
from runner.endpoint.judge_model import JudgeModel, Messages, judge_models
from runner.endpoint.response import Completion, EndpointError, action_message
from runner.endpoint.retry_policy import OUTAGE_ERRORS, ErrorKind
from runner.errors import ActionNeeded, ConfigError, InputError, ItemError, JuryboxError, StoppedEarly
from runner.messages import Task
from runner.worker.request import build_probe, outcomes_of
from runner.worker.sending import Answered, GaveUp, SendPolicy, send

from .reply_reader import reading_document

_RESUMABLE = OUTAGE_ERRORS | {ErrorKind.THROTTLED}


@dataclass(frozen=True, slots=True)
class TrialCall:
    """One call. Either `completion` and `reading` are there, or `error`."""

    judge_model: JudgeModel
    item: Item
    template: str
    messages: Messages
    completion: Completion | None = None
    reading: Outcome | None = None
    error: EndpointError | None = None

    @property
    def scores(self) -> dict[str, float]:
        if not isinstance(self.reading, Scored):
            return {}
        return self.judge_model.judge.scores(self.reading.verdict, self.item)

    def document(self) -> dict[str, Any]:
        reading, error = None, self.error
        if self.reading is not None:
            detail = getattr(self.reading, "detail", None)
            reading = {**reading_document(self.reading, self.scores), "detail": detail}
        return {
            "judge": self.judge_model.judge.name,
            "model": self.judge_model.model.name,
            "item_id": self.item.id,
            "system": self.item.system,
            "group": self.item.group,
            "template": self.template,
            "request": self.judge_model.body(self.messages),
            "reply": None if self.completion is None else asdict(self.completion),
            "reading": reading,
            "error": error and {"kind": error.kind.value, "status": error.status, "message": error.message},
        }

    def text(self) -> str:
        judge, model, item = self.judge_model.judge, self.judge_model.model, self.item
        group = "" if item.group is None else f", group {item.group}"
        settings = json.dumps(self.judge_model.settings, ensure_ascii=False)
        lines = [
            f"=== {judge.name} × {model.name}: item {item.id} (system {item.system}{group}), template {self.template}",
            f"--- sent to {model.base_url} as {model.model}, {settings}, "
            f"structured output {self.judge_model.mode}{', with the json_hint' if self.judge_model.json_hint else ''}",
        ]
        lines += [f"[{message['role']}]\n{message['content']}" for message in self.messages]
        if self.error is not None:
            status = "" if self.error.status is None else f" (HTTP {self.error.status})"
            lines.append(f"--- no reply{status}: {self.error.message}")
        if self.completion is not None:
            lines += _describe_reply(self.completion, priced=model.price is not None)
        if self.reading is not None:
            lines.append(f"--- read as {self._words(self.reading)}")
        return "\n".join(lines)

    def _words(self, reading: Outcome) -> str:
        match reading:
            case Scored(verdict, provenance):
                scores = "".join(f", {name} {score:g}" for name, score in self.scores.items())
                notes = f"; notes: {', '.join(provenance.notes)}" if provenance.notes else ""
                fields = json.dumps(dict(verdict), ensure_ascii=False)
                return f"scored: {fields}{scores} (stage {provenance.stage}{notes})"
            case Malformed(reason, detail):
                words = f"malformed: {reason.value}"
            case Refused(by, detail):
                words = f"refused by {by}"
            case Failed(why, detail) | Poisoned(why, detail):
                words = f"failed: {why}"
        return words + (f" ({detail})" if detail else "") + "; this is no score"


async def try_once(
    config: RunConfig,
    judges: Sequence[Judge],
    base: Path,
    *,
    item_id: str | None = None,
    judge: Sequence[str] = (),
    model: Sequence[str] = (),
) -> list[TrialCall]:
    """Ask every model once under every judge, or those named; one after the other, in the order of the config.

    The item is the one with that id, or for each judge the first that it takes.
    """
    selected = _select(judge_models(config, judges), judge, model)
    if problem := next((problem for judge_model in selected if (problem := check_key(judge_model.model))), None):
        raise InputError(problem)
    used = [each for each in judges if any(judge_model.judge is each for judge_model in selected)]
    items = _items(config, used, base, item_id)
    calls = []
    for judge_model in selected:
        if judge_model.judge.name in items:
            item, template = items[judge_model.judge.name]
            calls.append(await _try(judge_model, item, template))
    return calls


def describe_failure(calls: Sequence[TrialCall]) -> JuryboxError | None:
    """What the command has to end with because of the endpoints: what only the user can mend comes first."""
    failed = [(call.judge_model.model, call.error) for call in calls if call.error is not None]
    for model, error in failed:
        if error.kind not in _RESUMABLE:
            return ActionNeeded(action_message(model, error))
    for call in calls:
        if isinstance(call.reading, Failed):
            judge = call.judge_model.judge.name
            return ActionNeeded(f"judge {judge!r}: its code cannot deal with this reply: {call.reading.detail}")
    return next((StoppedEarly(f"{model.name}: {model.base_url}: {error.description}") for model, error in failed), None)


async def _try(judge_model: JudgeModel, item: Item, template: str) -> TrialCall:
    client = Client(judge_model.model)
    try:
        judge_model = replace(judge_model, mode=await _mode(judge_model, client))
        messages = judge_model.judge.render(item, template, json_hint=judge_model.json_hint)
        end = await _send(client, judge_model, judge_model.body(messages), judge_model.required_fields)
    finally:
        await client.aclose()
    if isinstance(end, GaveUp):
        return TrialCall(judge_model, item, template, messages, error=end.error)
    completion = end.completion
    (reading,) = outcomes_of(judge_model.judge, completion.reply, [item])
    return TrialCall(judge_model, item, template, messages, completion, reading)


async def _send(
    client: Client, judge_model: JudgeModel, body: dict[str, Any], keep: tuple[str, ...]
) -> Answered | GaveUp:
    """Send a request outside of any run: once, without limits, kept nowhere."""
    task = Task(0, judge_model.judge.name, judge_model.model.name, 0, ())
    request = build_probe(task, judge_model, body, "try", keep)
    policy = SendPolicy(acquire=lambda request: nullcontext(partial(client.complete, request.body, request.keep)))
    return await send(request, policy)


async def _mode(judge_model: JudgeModel, client: Client) -> str:
    """How structured output is enforced, as one canary each shows; what a canary fails on counts as refused."""
    results: dict[str, structured_output.Support] = {}
    constraint = judge_model.constraint
    for mechanism in structured_output.mechanisms(judge_model.structured, constraint):
        end = await _send(client, judge_model, judge_model.mode_probe(mechanism), structured_output.FIELDS)
        if isinstance(end, GaveUp):
            results[mechanism] = structured_output.Support.REFUSED
            continue
        results[mechanism] = structured_output.judge_support(mechanism, constraint, end.completion.text)
        if results[mechanism] is structured_output.Support.ENFORCED:
            break
    return structured_output.mode_of(results)


def _select(every: dict[tuple[str, str], JudgeModel], judge: Sequence[str], model: Sequence[str]) -> list[JudgeModel]:
    for wanted, place, what in ((judge, 0, "judge"), (model, 1, "model")):
        names = list(dict.fromkeys(key[place] for key in every))
        if wrong := [name for name in wanted if name not in names]:
            raise ConfigError(f"--{what} {wrong[0]}: the config has no {what} of that name; it has {', '.join(names)}")
    return [each for (j, m), each in every.items() if (not judge or j in judge) and (not model or m in model)]


def _items(config: RunConfig, judges: Sequence[Judge], base: Path, item_id: str | None) -> dict[str, tuple[Item, str]]:
    """Judge → its item and template: that with the id, or the first that it takes and that says something."""
    items = config.items
    reference = None if items.join is None else Reference(items.join, reference_sources(items, base))
    builder = ItemBuilder(items, judges, reference)
    first: dict[str, tuple[Item, str]] = {}
    empty: dict[str, tuple[Item, str]] = {}
    sources = item_sources(items, base)
    for source in sources:
        with closing(source.rows()) as rows:
            for line, row in rows:
                try:
                    built = builder.build(row, source.system)
                except BadRowError as error:
                    row_id = builder.fields.known_id(row.record if isinstance(row, RowError) else row)
                    if items.on_bad == "skip" or (item_id is not None and row_id not in (None, item_id)):
                        continue
                    check_missing(items, judges, base)
                    raise ItemError(f"{source.name}:{line}: {error}") from None
                item = built.mapped.item
                if item_id not in (None, item.id):
                    continue
                for judge, template in zip(judges, built.templates, strict=True):
                    if template is not None:
                        (empty if item.response_is_empty else first).setdefault(judge.name, (item, template))
                if item_id is not None or len(first) == len(judges):
                    return {**empty, **first} or _none_takes(judges, item)
    if item_id is not None:
        raise InputError(f"--item {item_id}: no item has this id ({', '.join(source.name for source in sources)})")
    return {**empty, **first} or _none_takes(judges, None)


def _none_takes(judges: Sequence[Judge], item: Item | None) -> dict[str, tuple[Item, str]]:
    which = "any item" if item is None else f"item {item.id} (group {item.group})"
    raise InputError(f"no route of {', '.join(judge.name for judge in judges)} takes {which}")


def _describe_reply(completion: Completion, *, priced: bool) -> list[str]:
    usage = completion.usage
    cost = f"${usage.cost_usd:.6f}" if priced else "no price given"
    thought = f" ({usage.reasoning_tokens:,.0f} of them reasoning)" if usage.reasoning_tokens else ""
    cached = f" ({usage.cached_tokens:,.0f} of them cached)" if usage.cached_tokens else ""
    lines = [
        f"--- reply of {completion.served_model or 'an unnamed model'} in {completion.latency_s:.2f} s: finish_reason "
        f"{completion.finish_reason}, {usage.input_tokens:,.0f} tokens in{cached}, "
        f"{usage.output_tokens:,.0f} out{thought}, {cost}"
    ]
    if completion.reasoning:
        lines.append(f"[reasoning]\n{completion.reasoning}")
    if completion.refusal:
        lines.append(f"[refusal]\n{completion.refusal}")
    lines.append(f"[text]\n{completion.text}" if completion.text is not None else "[no text]")
    return lines
