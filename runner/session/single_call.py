"""One real call per judge and model, outside of any run: what is sent, what comes back, and how it is read.

Judges as a run does, with the same rendering, the same request and the same reading, but keeps nothing and asks once:
an endpoint's trouble is told instead of waited out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from judges import Item, Judge, Malformed, Reading, Refused, Reply, Scored
from runner.config import RunConfig
from runner.dataset.field_mapping import BadRowError
from runner.dataset.files import RowError
from runner.dataset.item_builder import ItemBuilder, Reference
from runner.dataset.sources import item_sources, reference_sources
from runner.endpoint import structured_output
from runner.endpoint.client import Client, EndpointError, ErrorKind, check_key
from runner.endpoint.judge_model import JudgeModel, Messages, judge_models
from runner.endpoint.response import Completion, action_message
from runner.errors import ActionNeeded, ConfigError, InputError, ItemError, JuryboxError, StoppedEarly

_RESUMABLE = {
    ErrorKind.UNREACHABLE,
    ErrorKind.SERVER,
    ErrorKind.TIMEOUT,
    ErrorKind.CONNECTION,
    ErrorKind.THROTTLED,
    ErrorKind.BAD_REPLY,
}


@dataclass(frozen=True, slots=True)
class TrialCall:
    """One call. Either `completion` and `reading` are there, or `error`."""

    pair: JudgeModel
    item: Item
    template: str
    messages: Messages
    completion: Completion | None = None
    reading: Reading | None = None
    error: EndpointError | None = None

    @property
    def scores(self) -> dict[str, float]:
        """What the verdict is worth; empty where there is none."""
        return self.pair.judge.scores(self.reading.verdict, self.item) if isinstance(self.reading, Scored) else {}

    def document(self) -> dict[str, Any]:
        """As JSON-able data."""
        return {
            "judge": self.pair.judge.name,
            "model": self.pair.model.name,
            "item_id": self.item.id,
            "system": self.item.system,
            "group": self.item.group,
            "template": self.template,
            "request": self.pair.body(self.messages),
            "reply": None if self.completion is None else asdict(self.completion),
            "reading": None if self.reading is None else self._reading(self.reading),
            "error": None if self.error is None else self._error(self.error),
        }

    def text(self) -> str:
        """As a person reads it."""
        judge, model, item = self.pair.judge, self.pair.model, self.item
        group = "" if item.group is None else f", group {item.group}"
        lines = [
            f"=== {judge.name} × {model.name}: item {item.id} (system {item.system}{group}), template {self.template}",
            f"--- sent to {model.base_url} as {model.model}, {json.dumps(self.pair.settings, ensure_ascii=False)}, "
            f"structured output {self.pair.mode}{', with the json_hint' if self.pair.json_hint else ''}",
        ]
        lines += [f"[{message['role']}]\n{message['content']}" for message in self.messages]
        if self.error is not None:
            status = "" if self.error.status is None else f" (HTTP {self.error.status})"
            lines.append(f"--- no reply{status}: {self.error.message}")
        if self.completion is not None:
            lines += _reply(self.completion, priced=model.price is not None)
        if self.reading is not None:
            lines.append(f"--- read as {self._words(self.reading)}")
        return "\n".join(lines)

    def _reading(self, reading: Reading) -> dict[str, Any]:
        said: dict[str, Any] = {"state": reading.state, "reason": None, "detail": None, "verdict": None}
        said |= {"scores": self.scores, "stage": None, "notes": []}
        match reading:
            case Scored(verdict, provenance):
                said |= {"verdict": dict(verdict), "stage": provenance.stage, "notes": list(provenance.notes)}
            case Malformed(reason, detail):
                said |= {"reason": reason.value, "detail": detail}
            case Refused(by, detail):
                said |= {"reason": by, "detail": detail}
        return said

    def _words(self, reading: Reading) -> str:
        match reading:
            case Scored(verdict, provenance):
                scores = "".join(f", {name} {score:g}" for name, score in self.scores.items())
                notes = f"; notes: {', '.join(provenance.notes)}" if provenance.notes else ""
                shown = json.dumps(dict(verdict), ensure_ascii=False)
                return f"scored: {shown}{scores} (stage {provenance.stage}{notes})"
            case Malformed(reason, detail):
                return f"malformed: {reason.value}" + (f" ({detail})" if detail else "") + "; this is no score"
            case Refused(by, detail):
                return f"refused by {by}" + (f" ({detail})" if detail else "") + "; this is no score"

    def _error(self, error: EndpointError) -> dict[str, Any]:
        return {"kind": error.kind.value, "status": error.status, "message": error.message}


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
    asked = _selected(judge_models(config, judges), judge, model)
    if problem := next((problem for pair in asked if (problem := check_key(pair.model))), None):
        raise InputError(problem)
    wanted = [known for known in judges if any(pair.judge is known for pair in asked)]
    found = _items(config, wanted, base, item_id)
    tried = []
    for pair in asked:
        if pair.judge.name in found:
            item, template = found[pair.judge.name]
            tried.append(await _try(pair, item, template))
    return tried


def describe_failure(tried: Sequence[TrialCall]) -> JuryboxError | None:
    """What the command has to end with because of the endpoints: what only the user can mend comes first."""
    failed = [each for each in tried if each.error is not None]
    for each in failed:
        if each.error is not None and each.error.kind not in _RESUMABLE:
            return ActionNeeded(action_message(each.pair.model, each.error))
    for each in failed:
        if each.error is not None:
            return StoppedEarly(f"{each.pair.model.name}: {each.pair.model.base_url}: {each.error.told}")
    return None


async def _try(pair: JudgeModel, item: Item, template: str) -> TrialCall:
    client = Client(pair.model)
    try:
        pair = replace(pair, mode=await _mode(pair, client))
        messages = pair.judge.render(item, template, json_hint=pair.json_hint)
        completion = await _complete(client, pair.body(messages), pair.kept)
        if isinstance(completion, EndpointError):
            return TrialCall(pair, item, template, messages, error=completion)
    finally:
        await client.aclose()
    reply = Reply(completion.text, completion.finish_reason, completion.refusal, completion.reasoning)
    reply = replace(reply, judged=pair.judge.judged_texts([item]))
    (reading,) = pair.judge.outcomes(pair.judge.read(reply), [item])
    return TrialCall(pair, item, template, messages, completion, reading)


async def _complete(client: Client, body: dict[str, Any], keep: tuple[str, ...]) -> Completion | EndpointError:
    while True:
        try:
            return await client.complete(body, keep)
        except EndpointError as error:
            if not error.put_otherwise:
                return error


async def _mode(pair: JudgeModel, client: Client) -> str:
    """How structured output is enforced, as one canary each shows; what a canary fails on counts as refused."""
    found: dict[str, structured_output.Support] = {}
    for way in structured_output.mechanisms(pair.structured, pair.constraint):
        reply = await _complete(client, pair.mode_probe(way), structured_output.FIELDS)
        if isinstance(reply, EndpointError):
            found[way] = structured_output.Support.REFUSED
            continue
        found[way] = structured_output.judge_support(way, pair.constraint, reply.text)
        if found[way] is structured_output.Support.ENFORCED:
            break
    return structured_output.mode_of(found)


def _selected(known: dict[tuple[str, str], JudgeModel], judge: Sequence[str], model: Sequence[str]) -> list[JudgeModel]:
    for given, place, what in ((judge, 0, "judge"), (model, 1, "model")):
        names = list(dict.fromkeys(pair[place] for pair in known))
        if wrong := [name for name in given if name not in names]:
            raise ConfigError(f"--{what} {wrong[0]}: the config has no {what} of that name; it has {', '.join(names)}")
    return [pair for (j, m), pair in known.items() if (not judge or j in judge) and (not model or m in model)]


def _items(config: RunConfig, judges: Sequence[Judge], base: Path, item_id: str | None) -> dict[str, tuple[Item, str]]:
    """Judge → its item and template: that with the id, or the first that it takes and that says something."""
    items = config.items
    reference = None if items.join is None else Reference(items.join, reference_sources(items, base))
    intake = ItemBuilder(items, judges, reference)
    found: dict[str, tuple[Item, str]] = {}
    empty: dict[str, tuple[Item, str]] = {}
    sources = item_sources(items, base)
    for source in sources:
        with closing(source.rows()) as rows:
            for line, row in rows:
                try:
                    taken = intake.build(row, source.system)
                except BadRowError as error:
                    known = intake.fields.known_id(row.record if isinstance(row, RowError) else row)
                    if items.on_bad == "skip" or (item_id is not None and known not in (None, item_id)):
                        continue
                    raise ItemError(f"{source.name}:{line}: {error}") from None
                item = taken.mapped.item
                if item_id not in (None, item.id):
                    continue
                for judge, template in zip(judges, taken.templates, strict=True):
                    if template is not None:
                        (empty if item.response_is_empty else found).setdefault(judge.name, (item, template))
                if item_id is not None or len(found) == len(judges):
                    return {**empty, **found} or _none_takes(judges, item)
    if item_id is not None:
        raise InputError(f"--item {item_id}: no item has this id ({', '.join(source.name for source in sources)})")
    return {**empty, **found} or _none_takes(judges, None)


def _none_takes(judges: Sequence[Judge], item: Item | None) -> dict[str, tuple[Item, str]]:
    which = "any item" if item is None else f"item {item.id} (group {item.group})"
    raise InputError(f"no route of {', '.join(judge.name for judge in judges)} takes {which}")


def _reply(completion: Completion, *, priced: bool) -> list[str]:
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
