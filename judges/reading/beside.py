"""What stands beside a verdict under another name: keys that nobody asked for, and lines that look like fields.

Such a value never gives a verdict. It only speaks against one: by the opposite under a name that means the same, by
another value of a field at any depth, or by another end of the scale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from judges.outcome import Malformed, Reason

from .coercion import coerced
from .contrary import CALLS
from .strict_json import JsonFault, load

Fields = Mapping[str, Mapping[str, Any]]

_VERDICT_KEYS = frozenset(
    {
        "verdict",
        "answer",
        "decision",
        "judgement",
        "judgment",
        "result",
        "conclusion",
        "assessment",
        "evaluation",
        "final",
    }
    | {"label", "outcome", "overall", "opinion"}
)
_GRADE_KEYS = frozenset({"grade", "rating", "points", "mark", "marks"})
_MOST = re.compile(r"outof|scale|max|(?:score|^)range")
_TEXT_KEYS = re.compile(r"reason|expl|comment|rationale|justif|note|describ|descrip|analys|feedback")
_TRUE = re.compile(r"(?:true|yes|correct|right|accurate|pass(?:es|ed)?|supported|1|y|t)")
_FALSE = re.compile(r"(?:false|no|nope|(?:in|un)\w+|wrong|fail(?:s|ed|ure)?|0|n|f)")
_NOT = re.compile(r"(?:not|isnt|never|non)(?=\w)")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_LINE = re.compile(r"[\s>*_#`•-]{0,12}(?P<key>[A-Za-z][\w '’*`-]{0,60}?)[\s*_`]{0,6}[:=](?P<value>[^\n]{0,120})")
_LINE_END = re.compile(r"\n+|(?<=[.!?])[ \t]+(?=[A-Za-z][\w ]{0,60}[:=])")
_FEW_WORDS = 3


def said_beside(
    value: Mapping[str, Any], known: set[str], fields: Fields, verdict: Mapping[str, Any]
) -> Malformed | None:
    """What the keys of an object besides the `known` ones say against its verdict; keys are compared in letters."""
    own = {_letters(name) for name in known}
    for key, given in value.items():
        if _letters(key) in own:
            continue
        for name, each in _scalars(key, given):
            if wrong := _against(name, each, fields, verdict):
                return wrong
    return None


def said_in_lines(text: str, fields: Fields, verdict: Mapping[str, Any]) -> Malformed | None:
    """What lines such as `verdict=false` say against a verdict. A field without a value makes it a conflict too."""
    own = {_letters(name) for name in fields}
    for line in _LINE_END.split(text):
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        key, given = _letters(found["key"]), found["value"].strip(" \t*_`\"'.!,;")
        if key in own and not given:
            return Malformed(Reason.CONFLICT, f"{line.strip()[:60]!r} gives no value")
        if key not in own and (wrong := _against(found["key"], given, fields, verdict)):
            return wrong
    return None


def _scalars(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every value that is no list or object, at any depth, with the key that it stands under."""
    waiting = [(key, value)]
    while waiting:
        key, part = waiting.pop()
        if isinstance(part, str) and part.strip().startswith(("{", "[")):
            try:
                part = load(part)
            except JsonFault:
                continue
        if isinstance(part, dict):
            waiting += part.items()
        elif isinstance(part, list):
            waiting += [(key, each) for each in part]
        else:
            yield key, part


def _against(key: str, given: Any, fields: Fields, verdict: Mapping[str, Any]) -> Malformed | None:
    letters = _letters(key)
    if _TEXT_KEYS.search(letters):
        return None
    names = _VERDICT_KEYS | _same(fields)
    about = letters in names or letters.removeprefix("final").removeprefix("my").removeprefix("overall") in names
    if isinstance(given, str) and len(given.split()) > _FEW_WORDS:
        truths = [verdict[name] for name, schema in fields.items() if schema["type"] == "boolean"]
        if about and len(truths) == 1 and CALLS[truths[0]].search(given):
            return Malformed(Reason.CONFLICT, f"{key[:60]!r} speaks against the verdict")
        return None
    numbers = {name: schema for name, schema in fields.items() if schema["type"] in ("integer", "number")}
    if numbers and _MOST.search(letters):
        said = _NUMBER.findall(str(given).replace("-", " "))
        if said and not any(float(said[-1]) == schema.get("maximum") for schema in numbers.values()):
            return Malformed(Reason.OTHER_SCALE, f"{key[:60]!r} is {str(given)[:40]}")
        return None
    if numbers and letters.startswith("min"):
        return None
    for name, schema in fields.items():
        own = _letters(name)
        if own == letters and not isinstance(schema.get("items"), Mapping):
            if json.dumps(coerced(schema, given)) != json.dumps(verdict[name]):
                return Malformed(Reason.CONFLICT, f"{key[:60]!r} is given another value")
        elif schema["type"] == "boolean" and (about or own in letters):
            truth = _truth(given)
            if truth is not None and (truth is verdict[name]) is _turned(letters, own):
                return Malformed(Reason.CONFLICT, f"{key[:60]!r} speaks against the verdict")
        elif name in numbers and (own in letters or (letters in _GRADE_KEYS and len(numbers) == 1)):
            number = coerced(schema, given)
            if number != verdict[name] and not isinstance(given, bool) and _NUMBER.search(str(given)):
                return Malformed(Reason.CONFLICT, f"{key[:60]!r} speaks against the verdict")
    return None


def _same(fields: Fields) -> set[str]:
    return {"correct", "correctness"} if any(_letters(name) == "correct" for name in fields) else set()


def _turned(letters: str, name: str) -> bool:
    """Whether a key names the opposite of the field: `incorrect_final`, `not_correct`."""
    before = letters.partition(name)[0] if name in letters else ""
    return before.endswith(("in", "un", "not", "isnt"))


def _truth(given: Any) -> bool | None:
    if isinstance(given, bool):
        return given
    word = _letters(str(given))
    turned = _NOT.match(word)
    word = word[turned.end() :] if turned else word
    for quite in ("entirely", "fully", "quite", "really", "a", "the"):
        word = word.removeprefix(quite)
    truth = True if _TRUE.fullmatch(word) else False if _FALSE.fullmatch(word) else None
    return truth if truth is None or not turned else not truth


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
