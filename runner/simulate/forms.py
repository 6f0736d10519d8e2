"""What kind of reply a piece of a judge's instructions asks for.

Like a model, this has only the words to go by. It knows no judge: only how people ask for a yes, a line, an object, a
number, a list of numbers, or one of several labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

Kind = Literal["yesno", "line", "object", "scores", "choice"]

_YESNO = re.compile(r"\byes\W{0,3}(?:\s?or\s|/)\W{0,3}no\b|\banswer\W{1,3}yes\b")
_OBJECT = re.compile(r"\bjson\b|\{\s*\"\w+\"\s*:", re.I)

_TO = r"\s*(?:\([^)\n]{1,40}\)\s*)?(?:-|–|—|to|through|and|\.\.+)\s*"
_SCALE = re.compile(
    r"\b(?:from|between|scale|range|integers?|numbers?|digits?|scores?|ratings?|grades?|rate)(?:\W{1,3}[a-z]+){0,3}?"
    rf"\W{{1,3}}(\d{{1,3}}){_TO}(\d{{1,3}})\b(?![.\w]*\d)"
    rf"|(?<![\w.])(\d{{1,3}}){_TO}(\d{{1,3}})[ -](?:scale|range|score|rating)\b",
    re.I,
)
_LEVELS = re.compile(r"(?<![\w.])(\d+)((?:,\s*\d+)+),?\s+or\s+(\d+)\b")
_NAMED_LEVEL = re.compile(r"\b(?:score|rating|grade)\W{1,3}(\d{1,3})\b", re.I)
_LIST = re.compile(
    r"comma[- ]separated|separated by commas|list of (?:the )?(?:\w+ )?(?:scores|ratings|numbers|integers|grades)", re.I
)
_SEVERAL = re.compile(
    r"\b(two|three|four|five|[2-9])\s+(?:\w+\s+)?(?:values|scores|numbers|integers|ratings|grades)\b", re.I
)
_ONE = re.compile(r"\b(?:score|rating|grade)\b[^.\n]{0,40}\b(?:only|digit|number|integer)\b", re.I)
_COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5}

_QUOTED = r"[\"'“‘`](?:[^\"'“”‘’`\n]{1,40})[\"'”’`]"
_LABEL = rf"(?:{_QUOTED}|\[\[\w{{1,12}}\]\]|(?:[A-Z]\w{{1,15}} )?\([a-zA-Z]\)|[A-Z]{{2,20}}(?:_[A-Z]+)*\b|[A-Z]\b)"
_LABELS = re.compile(
    r"\b(?i:answer|reply|respond|output|say|write|choose|label|return|verdict|choice|either|exactly|only)\b[^.\n]{0,60}?"
    rf"(?<!\w)({_LABEL}(?:,\s*{_LABEL})*,?(?:\s+or\s+|\s*/\s*){_LABEL})"
)
_FIELD = re.compile(
    r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+[\"'`*]{0,3}([A-Za-z_]\w*)[\"'`*]{0,3}[ \t]*[:(][ \t]*([^\n]+)"
    r"|[\"`]([A-Za-z_]\w*)[\"`][ \t]*(?:[:(,]|is\b|and\b)?[ \t]*([^,;}\n\"`]*)",
    re.M,
)
_OPTION = r"[\"'][^\"'\n]{1,30}[\"']"
_OPTIONS = re.compile(rf"[\"'`](\w+)[\"'`]\s*:\s*({_OPTION}(?:\s*(?:\||/|,|\bor\b)\s*{_OPTION})+)(?!\s*:)")
_BOOLEAN = re.compile(r"\bbool|\btrue\b|\bfalse\b", re.I)
_NUMBER = re.compile(r"\binteger|\bnumber|\bint\b|^\W{0,3}\d+\b", re.I)
_ARRAY = re.compile(r"\barray\b|\blist of\b|^\[", re.I)


@dataclass(frozen=True, slots=True)
class Form:
    """The kind of reply, and what that kind needs to know."""

    kind: Kind
    low: int = 0
    high: int = 5
    scaled: bool = False
    """Whether the words tell the scale; else it is the usual one."""
    count: int = 1
    """Scores asked for on one item."""
    each: bool = False
    """Whether a list is asked for, with a score for each numbered block of the prompt."""
    separator: str = ","
    labels: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the object that is asked for."""


YESNO = Form("yesno")
LINE = Form("line")


@lru_cache(maxsize=128)
def form_in(words: str) -> Form | None:
    """What these words ask for; None where they ask for nothing in particular."""
    if _OBJECT.search(words):
        return Form("object", schema=schema_in(words))
    lower = words.lower()
    if "correct=true" in lower:
        return LINE
    if _YESNO.search(lower):
        return YESNO
    scale = scale_in(words)
    several = _SEVERAL.search(words)
    each = _LIST.search(words) is not None and several is None
    if scale is not None or each or several is not None or _ONE.search(words):
        low, high = scale or (0, 5)
        count = _COUNTS.get(several[1].lower()) or int(several[1]) if several else 1
        separator = " " if re.search(r"separated by (?:a )?(?:space|blank)", lower) else ","
        return Form("scores", low, high, scale is not None, count, each, separator)
    if alternatives := _LABELS.search(words):
        labels = [label.strip("\"'“”‘’`") for label in re.findall(_LABEL, alternatives[1])]
        if len(set(labels)) > 1:
            return Form("choice", labels=tuple(dict.fromkeys(labels)))
    return None


@lru_cache(maxsize=128)
def scale_in(words: str) -> tuple[int, int] | None:
    """The scale of whole numbers that these words tell: `from 0 to 5`, `1, 2 or 3`, or `Score 5: …` line by line."""
    found = [int(number) for span in _SCALE.finditer(words) for number in span.groups() if number]
    found += [int(number) for levels in _LEVELS.finditer(words) for number in re.findall(r"\d+", levels[0])]
    named = {int(number) for number in _NAMED_LEVEL.findall(words)}
    found += named if len(named) > 2 else ()
    return (min(found), max(found)) if len(set(found)) > 1 else None


def schema_in(words: str) -> dict[str, Any]:
    """The object that these words ask for: as their example shows it, as they list its fields, or the usual one."""
    start = words.find("{")
    while start >= 0:
        try:
            example, _ = json.JSONDecoder().raw_decode(words, start)
        except ValueError:
            example = None
        if isinstance(example, dict) and example:
            return _like(example, words)
        start = words.find("{", start + 1)
    fields: dict[str, Any] = {}
    for name, options in _OPTIONS.findall(words):
        fields[name] = {"enum": [option[1:-1] for option in re.findall(_OPTION, options)]}
    words = _OPTIONS.sub("", words)
    fields |= {m[1] or m[3]: _described(m[1] or m[3], m[2] or m[4] or "", words) for m in _FIELD.finditer(words)}
    return {"type": "object", "properties": fields or _usual(words)}


def _like(value: Any, words: str) -> dict[str, Any]:
    """The schema of a value that an example shows."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {name: _like(part, words) for name, part in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _like(value[0], words) if value else {"type": "string"}}
    if isinstance(value, bool):
        return {"type": "boolean"}
    return _scaled(words) if isinstance(value, int | float) else {"type": "string"}


def _described(name: str, words: str, around: str) -> dict[str, Any]:
    """The schema of a field from the words that stand beside its name, or from the name."""
    if _ARRAY.search(words):
        return {"type": "array", "items": {"type": "string"}}
    if _BOOLEAN.search(words) or name == "correct":
        return {"type": "boolean"}
    if _NUMBER.search(words) or name == "score":
        return _scaled(f"score {words}" if scale_in(f"score {words}") else around)
    return {"type": "string"}


def _usual(words: str) -> dict[str, Any]:
    lower = words.lower()
    fields: dict[str, Any] = {"reason" if re.search(r"\breason\b", lower) else "reasoning": {"type": "string"}}
    scored = re.search(r"\bscore\b", lower) is not None
    if not scored or re.search(r"\bcorrect\b", lower):
        fields["correct"] = {"type": "boolean"}
    if scored:
        fields["score"] = _scaled(words)
    return fields


def _scaled(words: str) -> dict[str, Any]:
    low, high = scale_in(words) or (0, 5)
    return {"type": "integer", "minimum": low, "maximum": high}
