"""What `jurybox judges` prints: all judges in a line each, or one of them whole, for people and as data."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from judges import Judge, Malformed, Reply, Scale, Scored, reason_of

_WIDTH = 110
_INDENT = 14
_STRUCTURED = {
    "off": "free text",
    "auto": "the schema is enforced where the endpoint can",
    "require": "the schema is enforced",
}


def list_judges(judges: Sequence[Judge]) -> str:
    """A line per judge: name, how its reply is read, what it is for."""
    width = max((len(judge.name) for judge in judges), default=0)
    lines = []
    for judge in judges:
        first = textwrap.shorten(judge.description.split(". ")[0].rstrip("."), _WIDTH, placeholder=" …")
        lines.append(f"{judge.name:<{width}}  {judge.meaning['reads']['kind']:<6}  {first}")
    return "\n".join([*lines, "", "jurybox judges NAME prints one of them; a judge of your own is named by its path."])


def summarize_judge(judge: Judge) -> dict[str, Any]:
    return {
        "name": judge.name,
        "kind": judge.meaning["reads"]["kind"],
        "description": judge.description,
        "scores": sorted(judge.scales()),
        "batch": judge.batch,
        "fingerprint": judge.fingerprint,
    }


def judge_document(judge: Judge) -> dict[str, Any]:
    """One judge whole, as data."""
    return {
        "name": judge.name,
        "description": judge.description,
        "fingerprint": judge.fingerprint,
        **{name: value for name, value in judge.meaning.items() if name not in ("templates", "batch")},
        "batch": judge.batch,
        "scores": {
            name: {part: getattr(scale, part) for part in ("binary", "low", "high", "step")}
            for name, scale in judge.scales().items()
        },
        "choices": list(judge.choices),
        "sampling": judge.sampling.body(),
        "schema": judge.response_schema(),
        "protocol_notes": judge.protocol_notes,
        "cautions": [{"when": when.source, "say": text} for when, text in judge.cautions],
        "templates": judge.templates,
    }


def describe_judge(judge: Judge) -> str:
    """One judge whole: its reading, scores, routes, sampling, schema, notes and prompts, and its fingerprint."""
    meaning = judge.meaning
    lines = [
        _line("name", judge.name),
        _line("about", judge.description),
        _line("fingerprint", judge.fingerprint),
        _line("reads", _reads(meaning["reads"])),
        *(_line("score", f"{name}: {_range(scale)}") for name, scale in judge.scales().items()),
    ]
    if judge.batch is not None:
        lines.append(_line("batch", f"{judge.batch} items a request, unless a config says otherwise"))
    if official := meaning["official"]:
        lines.append(_line("official", f"beside ours: is {official['contains']!r} in the lower-cased reply?"))
    lines += [_line("item field", f"{{{name}}} is {_bound(to)}") for name, to in meaning["bind"].items()]
    lines += [_line("route", _route(route)) for route in meaning["route"]]
    if all(route["when"] is not None for route in meaning["route"]):
        fate = "is an error" if judge.on_unrouted == "error" else "is left out, and counted"
        lines.append(_line("unrouted", f"an item that no route takes {fate}"))
    lines.append(_line("sampling", json.dumps(judge.sampling.body(), ensure_ascii=False)))
    lines.append(_line("structured", f"{judge.structured}: {_STRUCTURED[judge.structured]}"))
    if judge.json_hint is not None:
        lines.append(_line("json_hint", judge.json_hint))
    lines += [_line("caution", text) for _, text in judge.cautions]
    lines += [_line("note", note) for note in judge.protocol_notes]
    if (schema := judge.response_schema()) is not None:
        lines.append(f"\n--- response schema\n{json.dumps(schema, ensure_ascii=False, indent=2)}")
    for name, roles in judge.templates.items():
        lines.append(f"\n--- template {name}")
        lines += [f"[{role}]\n{text}" for role, text in roles.items()]
    return "\n".join(lines)


def reply_places(judge: Judge, text: str) -> dict[str, Any]:
    """Where verdicts stand in a reply, and what is read, as data."""
    reply = Reply(text)
    reading, read = judge.read(reply), None
    if isinstance(reading, Scored):
        read = {"verdict": dict(reading.verdict), "stage": reading.provenance.stage}
    places = [
        {"place": place.stage, "line": place.line + 1, "text": place.text, "verdict": None, "reason": None}
        | ({"reason": str(place.value.reason)} if isinstance(place.value, Malformed) else {"verdict": place.shown})
        for place in judge.places(reply)
    ]
    return {"places": places, "read": read, "state": reading.state, "reason": reason_of(reading)}


def describe_reply(data: Mapping[str, Any]) -> str:
    """Where verdicts stand in a reply, for people."""
    lines = [
        f"line {place['line']}, {place['place']}: "
        + (f"no verdict ({place['reason']})" if place["reason"] else json.dumps(place["verdict"], ensure_ascii=False))
        + f"   {textwrap.shorten(place['text'], _WIDTH - 40, placeholder=' …')}"
        for place in data["places"]
    ]
    read = data["read"]
    last = f"read as {json.dumps(read['verdict'], ensure_ascii=False)} ({read['stage']})" if read else None
    return "\n".join([*(lines or ["no place in which a verdict could stand"]), last or f"not read: {data['reason']}"])


def _reads(reads: Mapping[str, Any]) -> str:
    match reads["kind"]:
        case "yesno":
            return f"yesno: yes or no; yes is {reads['verdict']}"
        case "choice":
            labels = [_label(name, entry) for name, entry in reads["labels"].items()]
            return f"choice: {reads['verdict']} is one of {'; '.join(labels)}"
        case "scores":
            names = ", ".join(reads["names"]) if reads["names"] else reads["verdict"]
            step = f" in steps of {reads['step']:g}" if reads["step"] is not None else ""
            return f"scores: {names}, from {reads['low']:g} to {reads['high']:g}{step}"
        case _:
            lines = "; lines of field=value are read too" if reads.get("lines") else ""
            return f"object: JSON, of which the verdict is {', '.join(reads['verdict'])}{lines}"


def _label(name: str, entry: Mapping[str, Any]) -> str:
    aliases = f" (also {', '.join(entry['aliases'])})" if entry["aliases"] else ""
    return f"{name}{aliases}" + ("" if entry["value"] is None else f" = {json.dumps(entry['value'])}")


def _range(scale: Scale) -> str:
    if scale.binary:
        return "yes or no"
    low, high = ("any" if end is None else f"{end:g}" for end in (scale.low, scale.high))
    step = f" in steps of {scale.step:g}" if scale.step is not None else ""
    good = f"; the share of at least {scale.at_least:g} is reported" if scale.at_least is not None else ""
    return f"{low} to {high}{step}{good}"


def _bound(to: Any) -> str:
    return f"the item's {to}" if isinstance(to, str) else f"the item's {to['field']}, as keyed sentences"


def _route(route: Mapping[str, Any]) -> str:
    when = "every item that is left" if route["when"] is None else json.dumps(route["when"], ensure_ascii=False)
    return f"{when} → {route['template']}"


def _line(name: str, text: str) -> str:
    wrapped = textwrap.wrap(text, _WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False) or [""]
    return f"{name:<{_INDENT}}" + f"\n{'':<{_INDENT}}".join(wrapped)
