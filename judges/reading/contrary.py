"""What in a reply plainly says the opposite of its verdict: another key, a mention of the field, a sentence.

The grammar is small on purpose: it is for what is stated, not for what a reason implies. What it finds makes a reply a
conflict, never another verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .clean import narrow, without_fences
from .coercion import coerced
from .opinions import speaks_against

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


def folded_key(key: str) -> str:
    """A key without what does not count: case, blanks, quotes and markdown around."""
    return "".join(narrow(key).split()).strip("\"'*_`").casefold()


@dataclass(frozen=True)
class Contraries:
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
