"""What the endpoint says where nothing goes wrong: the verdict in the form that is due, or what is due without one.

Without a verdict are a greeting, and a verdict to be copied out of a text: it is found in the prose of `mumbled` as a
model would find it, and NONE is said of a text without one. Everything is a function of its arguments.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from .prompt_parser import ParsedPrompt, ReplySpec
from .reply_format import Form, Verdict, fill_schema, pick, reason

_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?")
_SAYS_TRUE = re.compile(r"\b(?:correct|overall_supported)[\"']?\s?[:=]\s?true\b")
_MIDDLE = 2.5


class NoScore(Exception):
    """A reply that was recorded for a block is no number, so that no list can be made of it."""


def render_reply(spec: ReplySpec, verdicts: Sequence[Verdict], prompt: str = "") -> str:
    """A reply that says the verdicts: of a batch one for each block, of several scores one for each, else the first."""
    form, verdict = spec.form, verdicts[0]
    if form.kind == "object":
        return orjson.dumps(fill_schema(form.schema or {}, verdicts, prompt)).decode()
    if form.labels:
        return str(pick(form.labels, verdict))
    if form.kind == "scores":
        each = verdicts if len(verdicts) == spec.scores else [verdict] * spec.scores
        return form.separator.join(str(one.score(form.low, form.high)) for one in each)
    if form.kind == "line":
        return f"{reason(verdict)}\ncorrect={'true' if verdict.yes else 'false'}"
    return "yes" if verdict.yes else "no"


def compose_list(spec: ReplySpec, recorded: Sequence[str | bool]) -> str:
    """The list of a batch, out of what was recorded for each of its blocks; a lone block's words stay as they are."""
    form = spec.form
    scores = [str(Verdict(one).score(form.low, form.high)) if isinstance(one, bool) else one for one in recorded]
    if len(scores) == 1:
        return scores[0]
    for score in scores:
        if not _NUMBER.fullmatch(score.strip()):
            raise NoScore(f"the reply that is recorded for a block is no number: {score[:80]!r}")
    return form.separator.join(score.strip() for score in scores)


def says_yes(reply: str) -> bool:
    """Whether a recorded reply says yes, as far as faults that depend on the verdict need to know."""
    text = reply.strip().lower()
    if _NUMBER.fullmatch(text):
        return float(text) > _MIDDLE
    return text.startswith("yes") or _SAYS_TRUE.search(text) is not None


GREETING = "Hello! How can I help you today?"
NONE = "NONE"

_GREET = re.compile(r"\s*(?:Say hello\b|Answer yes\.\s*\Z)", re.I)
_COPY = re.compile(r"\s*(Copy the verdict out of this text\..*?)<text>\n(.*)\n</text>\s*", re.S)
_FIELDS = re.compile(r'"(\w+)" \((true or false|a (?:whole )?number)')
_LABELS = re.compile(r'"([^"\n]{1,80})"')
_ENDS = re.compile(r"from (-?\d+) to (-?\d+)")

_OPENING = "Going through the points one by one, the response and the reference have much in common. "
_SAYS = "My own view, all told, comes down to "
_SAID = re.compile(rf"{_SAYS}(.+?) in this case\.", re.S)
_LINE = re.compile(r"\b(\w+)=(true|false)\b")
_FIELD = re.compile(r"take (\w+) to be (true|false|-?\d+)\b")


def reply_without_verdict(prompt: ParsedPrompt, lies: bool) -> str | None:
    """The reply to a request that wants no verdict; None where it wants one."""
    if is_greeting(prompt) and prompt.structure is None:
        return GREETING
    copy = _COPY.fullmatch(prompt.user)
    return None if copy is None else _copy_verdict(copy[1], copy[2], lies)


def is_greeting(prompt: ParsedPrompt) -> bool:
    """Whether it only says hello, or asks for a yes to nothing, in whatever structure the reply is to be."""
    return _GREET.match(prompt.user) is not None


def mumble(form: Form, reply: str) -> str:
    """A sound reply as prose that a model understands and no careful grammar should; what is no such reply stays."""
    if form.kind in ("object", "line"):
        fields = _scalars(reply)
        fields_in_words = " and ".join(f"take {name} to be {json.dumps(value)}" for name, value in fields.items())
        return (
            f"{_OPENING}All told, with names and dates compared, I {fields_in_words} in this case." if fields else reply
        )
    words = ", then ".join(reply.split(form.separator)) if form.kind == "scores" else reply.strip()
    return f"{_OPENING}{_SAYS}{words} in this case."


def _scalars(reply: str) -> dict[str, Any]:
    try:
        value = json.loads(reply)
    except ValueError:
        return {name: word == "true" for name, word in _LINE.findall(reply)}
    return {name: field for name, field in value.items() if isinstance(field, bool | int)}


def _copy_verdict(instructions: str, text: str, lies: bool) -> str:
    match = _SAID.search(text)
    if "JSON object" in instructions:
        names = dict(_FIELDS.findall(instructions))
        values = {name: json.loads(value) for name, value in _FIELD.findall(text) if name in names}
        if lies:
            return json.dumps({name: _other(values.get(name), kind) for name, kind in names.items()})
        return json.dumps(values) if names and len(values) == len(names) else NONE
    if ends := _ENDS.search(instructions):
        low, high = int(ends[1]), int(ends[2])
        scores = [int(score) for score in re.findall(r"-?\d+", match[1])] if match else []
        if lies:
            count = re.search(r"list of (\d+)", instructions)
            scores = scores or [high - 1] * (int(count[1]) if count else 1)
            return ",".join(str(score + 1 if score < high else low) for score in scores)
        return ",".join(map(str, scores)) or NONE
    words = _LABELS.findall(instructions)
    label = match[1] if match and match[1] in words else None
    if lies:
        return str(next(word for word in words if word != label))
    return label or NONE


def _other(value: Any, kind: str) -> Any:
    if kind == "true or false":
        return not value
    return 1 if value is None else value + 1 if value < 1 else value - 1


def empty_object(structure: tuple[str, Any] | None, reply: str) -> str:
    """The reply in the structure that a request demands, where the reply alone would not fit it."""
    if structure is None or reply != NONE:
        return reply
    kind, demand = structure
    if kind == "schema" and isinstance(demand, Mapping):
        return json.dumps(dict.fromkeys(demand.get("properties", {})))
    return reply
