"""What in a reply plainly says the opposite of its verdict: another key, a mention of the field, a sentence.

The grammar is small on purpose: it is for what is stated, not for what a reason implies. What it finds makes a reply a
conflict, never another verdict.

What stands beside a verdict under another name: keys that nobody asked for, and lines that look like fields.

Such a value never gives a verdict. It only speaks against one: by the opposite under a name that means the same, by
another value of a field at any depth, or by another end of the scale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..outcome import Malformed, Reason
from .clean import without_fences
from .json_schema import coerced
from .json_text import JsonFault, load
from .stance import speaks_against

BOOLEANS = {"true": True, "false": False, "yes": True, "no": False}

# Words that together show a line to be the instruction again, not its answer.
_ECHO_IF = re.compile(r"\b(?:if|otherwise|should|unless|whether)\b", re.I)
_ECHO_SET = re.compile(r"\b(?:set|answer)\b", re.I)
_ECHO_OPTIONS = re.compile(r"\btrue\s{0,3}(?:or|\||/)\s{0,3}false\b", re.I)

_SAME = ("is", "final", "overall", "actual", "actually")
_OPPOSITE = ("in", "not", "un", "isnot", "isin", "isnt")
_WRONG = {"correct": ("wrong", "iswrong")}
_QUOTED = re.compile(r"\"[^\"\n]{0,500}\"|“[^”\n]{0,500}”")


_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+|\n+")
_DENIED = r"(?<!not )(?<!n't )(?<!n’t )(?<!nothing )(?<!nothing is )(?<!not a )(?<!no )(?<!not any )(?<!never )"
_NOT_MINE = r"\bnot\s+(?:my|the|a|our)\s+(?:\w+\s+)?(?:verdict|answer|judge?ment|decision|evaluation)\b|\bnot\s+mine\b"
CALLS = {
    True: re.compile(
        rf"{_DENIED}\b(?:incorrect\w*|wrong\w*|false|inaccurate)\b|(?:\bnot|n['’]t)\s+(?:\w+\s+)?(?:correct|right|true|accurate)\b"
        rf"|{_NOT_MINE}|^\W*(?:no|nope|not)\W*$",
        re.I,
    ),
    False: re.compile(
        rf"^\W*(?:yes|yep|correct|right|true|accurate|it\s+is)\W*$|(?:\bnot|n['’]t|\bnothing(?:\s+is)?|\bno\w*)\s+(?:incorrect|wrong|false)\b|{_NOT_MINE}",
        re.I,
    ),
}
"""What a sentence says that cannot go with a true verdict, and with a false one."""


def _between(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The text behind the first span, without the spans."""
    ends = [*(start for start, _ in spans[1:]), len(text)]
    return [text[stop:end] for (_, stop), end in zip(spans, ends, strict=True)]


def echoes(line: str) -> bool:
    """Whether a line repeats the instruction (`set correct=true if …`) instead of following it."""
    return bool((_ECHO_IF.search(line) and _ECHO_SET.search(line)) or _ECHO_OPTIONS.search(line))


@dataclass(frozen=True)
class Contradictions:
    """What would speak against the verdict fields of a schema's `properties`."""

    fields: Mapping[str, Mapping[str, Any]]

    def in_keys(self, keyed: Mapping[str, Any], verdict: Mapping[str, Any]) -> str | None:
        """A key besides the verdict's, such as `incorrect` beside `correct`, whose value says otherwise."""
        if len(keyed) == len(verdict):
            return None
        for key, given in keyed.items():
            letters = "".join(filter(str.isalnum, key.casefold()))
            for name, turned in self._other_keys.get(letters, ()):
                if key == name:
                    continue
                value = coerced(self.fields[name], given)
                if type(value) is type(verdict[name]) and (value == verdict[name]) is turned:
                    return f"{key[:60]!r} speaks against the verdict"
        return None

    def in_text(self, text: str, verdict: Mapping[str, Any]) -> str | None:
        """A mention of a verdict field, or a sentence, that does not say what the verdict says."""
        for line in text.splitlines():
            if echoes(line):
                continue
            for mention in self._mention.finditer(line):
                name = next(name for name in self.fields if name.lower() == mention[1].lower())
                if isinstance(verdict[name], list | dict):
                    # Words about a list (`…_keys: see above`) are no list, so they cannot be another one.
                    continue
                said = mention[2].rstrip(".").lower()
                value = BOOLEANS.get(said, said) if isinstance(verdict[name], bool) else said
                ours = verdict[name] if isinstance(verdict[name], bool) else str(verdict[name]).lower()
                if value != ours:
                    return f"{mention[0][:60]!r} speaks against the verdict"
        unquoted = _QUOTED.sub(" ", text)
        for name, pattern in self._sentences.items():
            for sentence in pattern.finditer(unquoted):
                if ((sentence["not"] is None) == (sentence["wrong"] is None)) is not verdict[name]:
                    return f"{sentence[0][:60]!r} speaks against the verdict"
        return None

    def in_remarks(self, text: str, objects: Sequence[tuple[int, int]], verdict: Mapping[str, Any]) -> str | None:
        """A sentence behind a verdict, or right before it, that calls the opposite of its one boolean field.

        The verdict is the objects, or else the lines that are a field and its value.
        """
        truths = [verdict[name] for name, schema in self.fields.items() if schema["type"] == "boolean"]
        places = list(objects) or [found.span() for found in self._line.finditer(text)]
        if len(truths) != 1 or not places:
            return None
        start, end = places[0][0], places[0][1]
        ahead = [
            part for part in _SENTENCE.split(_QUOTED.sub(" ", without_fences(text[:start]))) if part.strip("*_#`> \t\n")
        ]
        behind = _QUOTED.sub(" ", "\n".join([text[end:]] if not objects else _between(text, objects)))
        behind = "\n".join(line for line in behind.splitlines() if not echoes(line))
        for part in [*ahead[-1:], *_SENTENCE.split(behind)]:
            if said := CALLS[truths[0]].search(part):
                return f"{said[0].strip()[:60]!r} speaks against the verdict"
        if speaks_against(str(truths[0]), behind, {"True": ["true"], "False": ["false"]}):
            return "a sentence speaks against the verdict"
        return None

    @cached_property
    def _line(self) -> re.Pattern[str]:
        names = "|".join(re.escape(name) for name in sorted(self.fields, key=len, reverse=True))
        return re.compile(rf"(?<![\w-])(?:{names})[\s*_`\"']{{0,6}}[:=][^\n]{{0,40}}", re.I)

    @cached_property
    def _other_keys(self) -> dict[str, list[tuple[str, bool]]]:
        """Another key, in letters → the verdict fields that it speaks of, and whether it says the opposite of each."""
        found: dict[str, list[tuple[str, bool]]] = {}
        for name, schema in self.fields.items():
            letters = "".join(filter(str.isalnum, name.casefold()))
            for prefix in _SAME:
                found.setdefault(prefix + letters, []).append((name, False))
            if schema["type"] == "boolean":
                for other in [*(prefix + letters for prefix in _OPPOSITE), *_WRONG.get(name, ())]:
                    found.setdefault(other, []).append((name, True))
        return found

    @cached_property
    def _mention(self) -> re.Pattern[str]:
        names = "|".join(re.escape(name) for name in sorted(self.fields, key=len, reverse=True))
        return re.compile(rf"(?<![\w-])({names})[\s*_`\"']{{0,6}}[:=][\s*_`\"']{{0,6}}(-?\w[\w./%-]{{0,30}})", re.I)

    @cached_property
    def _sentences(self) -> dict[str, re.Pattern[str]]:
        """Field → `The response is (not) <field>.`, for the fields that are true or false."""
        return {
            name: re.compile(
                r"(?<!reference )(?<!gold )(?<!correct )(?<!expected )\b(?:response|answer|prediction|reply)\s{1,3}"
                r"(?:is|was)(?P<not>\s{0,3}n['’]t|\s{1,3}not)?\s{1,3}(?:(?:therefore|thus|clearly|indeed|actually)\s{1,3})?"
                rf"(?:(?P<wrong>(?:in|un){re.escape(name)}{''.join('|' + word for word in _WRONG.get(name, ())[:1])})"
                rf"|{re.escape(name)})\b(?=[ \t*_]{{0,4}}(?:[.!;\n]|\Z))",
                re.I,
            )
            for name, schema in self.fields.items()
            if schema["type"] == "boolean"
        }


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


def contradicting_keys(
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
