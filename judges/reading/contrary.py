"""What in a reply plainly says the opposite of its verdict: another key, a mention of the field, a sentence.

The grammar is small on purpose: it is for what is stated, not for what a reason implies. What it finds makes a reply a
conflict, never another verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .clean import narrow
from .coercion import coerced

BOOLEANS = {"true": True, "false": False, "yes": True, "no": False}

# Words that together show a line to be the instruction again, not its answer.
_ECHO_IF = re.compile(r"\b(?:if|otherwise|should|unless|whether)\b", re.I)
_ECHO_SET = re.compile(r"\b(?:set|answer)\b", re.I)
_ECHO_OPTIONS = re.compile(r"\btrue\s{0,3}(?:or|\||/)\s{0,3}false\b", re.I)

_SAME = ("is", "final", "overall", "actual", "actually")
_OPPOSITE = ("in", "not", "un", "isnot", "isin", "isnt")
_WRONG = {"correct": ("wrong", "iswrong")}
_QUOTED = re.compile(r"\"[^\"\n]{0,500}\"|“[^”\n]{0,500}”")


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
