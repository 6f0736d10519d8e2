"""What in an item's text passes for the judge's own: a reply as it is asked for, or a line of the prompt.

An ordinary answer is neither: `Yes.` or `4` as a whole says yes or 4, and a verdict has a label, a key or company.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .template import Template

_MARK = r"[\"'*_`”“]{0,4}"
_LEAD = r"[ \t>*_`\"'#(\[{-]{0,8}"
_SAYS = rf"{_MARK}[ \t]{{0,3}}[:=]{_MARK}[ \t]{{0,3}}{_MARK}"
_CLOSED = rf"{_MARK}[ \t]{{0,3}}(?:[.!,;)}}\]\n]|$)"
_LABELS = ("answer", "verdict", "decision", "judgment", "judgement")
_CHOICES = (*_LABELS, "choice", "winner", "result", "preference")
_SCORES = ("score", "scores", "rating", "ratings", "grade")
_CHOOSING = ("choose", "select", "pick", "prefer", "answer", "output", "reply", "respond")
_SHORT = 4
"""Shorter labels of a choice are no sign on a line of their own."""
_NUMBER = r"-?[0-9]{1,3}(?:\.[0-9]{1,3})?"
_FEW = 3
"""So many scores in a row are a list even where nothing else is said; two may be an answer."""

_WORD = re.compile(r"\w+")
_RULED = re.compile(r"[-=#*~]{3,}")
_TAG = re.compile(r"</?[a-z][\w-]{0,30}>")
_PHRASE = 5
"""So many words of the prompt in a row are a sign wherever they stand."""
_OPENS = re.compile(r"[\w][\w '’/()-]{0,40}:[ \t]*\Z")


class ReplyFormat:
    """A judge's reply format, as text that is not a reply may imitate it. Takes `reads` as `Judge.meaning` has it."""

    def __init__(self, reads: Mapping[str, Any]) -> None:
        kinds = {"yesno": _yesno, "object": _object, "scores": _scores, "choice": _choice}
        names, pattern = kinds[reads["kind"]](reads)
        self._names = tuple(names)
        self._pattern = re.compile(pattern, re.MULTILINE)
        self._alone = _alone(reads)
        self._listed = None
        if reads["kind"] == "scores" and not reads["names"]:
            self._listed = (float(reads["low"]), float(reads["high"]))

    def stands_in(self, lowered: str) -> bool:
        """Whether the text, in lower case, holds what would be read as a reply."""
        if any(name in lowered for name in self._names) and self._pattern.search(lowered):
            return True
        if self._listed is not None and "," in lowered and _has_list(lowered, *self._listed):
            return True
        if self._alone and any(label in lowered for label in self._alone):
            whole = _bare(lowered)
            return any(
                (line := _bare(each)) in self._alone and (line != whole or not line.isalnum())
                for each in lowered.splitlines()
            )
        return False


def _yesno(reads: Mapping[str, Any]) -> tuple[Iterable[str], str]:
    aliases = [word.lower() for words in reads.get("aliases", {}).values() for word in words]
    names = (*_LABELS, reads["verdict"].lower())
    values = _any(["yes", "no", "true", "false", *aliases])
    return names, rf"{_start()}{_any(names)}{_SAYS}{values}{_CLOSED}|{_set(names, values)}"


def _object(reads: Mapping[str, Any]) -> tuple[Iterable[str], str]:
    properties = (reads.get("schema") or reads["json_schema"])["properties"]
    kinds = {name.lower(): properties[name].get("type") for name in reads["verdict"]}
    truths = [name for name, kind in kinds.items() if kind == "boolean"]
    others = [name for name, kind in kinds.items() if kind != "boolean"]
    numbers = [name for name in others if kinds[name] in ("integer", "number")]
    values = r"(?:true|false|yes|no)"
    found = []
    if truths:
        found += [rf"{_start()}{_any(truths)}{_SAYS}{values}\b", _set(truths, values)]
    if others:
        found.append(rf"[\"'`]{_any(others)}[\"'`][ \t]{{0,3}}:")
    if numbers:
        found.append(_line(numbers, _NUMBER))
    return kinds, "|".join(found)


def _scores(reads: Mapping[str, Any]) -> tuple[Iterable[str], str]:
    named = [reads["verdict"], *(reads["names"] or ())]
    names = tuple(dict.fromkeys([*_SCORES, *(name.lower() for name in named)]))
    listed = rf"\[{{0,2}}{_NUMBER}(?:[ \t]?[,;][ \t]?{_NUMBER}){{0,60}}\]{{0,2}}"
    marked = rf"\[\[[ \t]?{_NUMBER}[ \t]?\]\]"
    keyed = rf"[\"'`]{_any(names)}[\"'`][ \t]{{0,3}}:[ \t]{{0,3}}[\[0-9\"-]"
    return (*names, "[["), rf"{_line(names, listed)}|{keyed}|{marked}"


def _choice(reads: Mapping[str, Any]) -> tuple[Iterable[str], str]:
    labels = _any(_labels(reads))
    names = (*_CHOICES, reads["verdict"].lower())
    orders = (
        rf"(?:^|[.!?:])[ \t]{{0,3}}(?:please[ \t])?{_any(_CHOOSING)}[ \t]{{1,3}}(?:with[ \t])?{_MARK}{labels}{_CLOSED}"
    )
    marked = rf"\[\[[ \t]?{labels}[ \t]?\]\]"
    return (*names, *_CHOOSING, "[["), rf"{_line(names, labels)}|{orders}|{marked}"


def _labels(reads: Mapping[str, Any]) -> list[str]:
    return [word.lower() for label, about in reads["labels"].items() for word in (label, *about["aliases"])]


def _alone(reads: Mapping[str, Any]) -> frozenset[str]:
    if reads["kind"] != "choice":
        return frozenset()
    return frozenset(label for label in map(_bare, _labels(reads)) if len(label) >= _SHORT)


def _start() -> str:
    return r"(?<![\w-])"


def _any(words: Iterable[str]) -> str:
    longest = sorted(set(words), key=lambda word: (-len(word), word))
    return "(?:" + "|".join(re.escape(word) for word in longest) + ")"


def _set(names: Iterable[str], values: str) -> str:
    return rf"\bset[ \t]{{1,3}}{_MARK}{_any(names)}{_MARK}[ \t]{{1,3}}to[ \t]{{1,3}}{_MARK}{values}\b"


def _line(names: Iterable[str], value: str) -> str:
    """A line that is a label with its value and nothing else."""
    out_of = r"(?:[ \t]?(?:/|out[ \t]of)[ \t]?[0-9]{1,3})?"
    head = rf"^{_LEAD}(?:(?:final|overall|my|the)[ \t]){{0,2}}{_any(names)}"
    return rf"{head}{_SAYS}{value}{out_of}{_MARK}[ \t.!,)}}\]]{{0,4}}$"


def _bare(line: str) -> str:
    return line.strip(" \t\r\n>*_`\"'#.!")


def _has_list(text: str, low: float, high: float) -> bool:
    """Whether a line is a list of scores: any of several lines, or a long one that stands alone."""
    lines = [line.strip(" \t\r>*_`.[]") for line in text.splitlines()]
    lines = [line for line in lines if line]
    for line in lines:
        # Longer than any batch has scores: no list, and not looked at number by number.
        if len(line) > 600 or not (line[0].isdigit() and "," in line):
            continue
        parts = [part.strip() for part in line.split(",")]
        if len(parts) < (2 if len(lines) > 1 else _FEW) or not all(re.fullmatch(_NUMBER, part) for part in parts):
            continue
        if all(low <= float(part) <= high for part in parts):
            return True
    return False


class Delimiters:
    """The literal lines of a template: what stands alone on a line, what opens one before a value, long phrases."""

    def __init__(self, parts: Sequence[Template]) -> None:
        self._lines: set[str] = set()
        self._openings: set[str] = set()
        phrases: set[str] = set()
        self._tags: set[str] = set()
        for part in parts:
            for place, literal in enumerate(part.literals):
                pieces = literal.lower().split("\n")
                self._tags.update(_TAG.findall(literal.lower()))
                phrases.update(_key(piece) for piece in pieces if len(_WORD.findall(piece)) >= _PHRASE)
                # The first piece goes on after a value, the last one before the next: neither is a whole line.
                whole = pieces[place > 0 : len(pieces) - (place < len(part.names))]
                self._lines.update(_key(piece) for piece in whole if _is_telling(piece))
                if place < len(part.names) and (place == 0 or len(pieces) > 1) and _OPENS.match(pieces[-1]):
                    self._openings.add(_key(pieces[-1]))
        self._phrases = tuple(sorted(phrases))
        signs = (*phrases, *self._lines, *self._openings, *self._tags)
        self._shortest = min(map(len, signs), default=0)
        self._shortest_phrase = min(map(len, phrases), default=0)

    def stand_in(self, lowered: str) -> bool:
        """Whether the text, in lower case, holds one of them; of openings of one word it takes two."""
        if len(lowered) < self._shortest:
            return False
        if self._tags and any(tag in lowered for tag in self._tags):
            return True
        lines = {_key(line) for line in lowered.splitlines()}
        if not self._lines.isdisjoint(lines):
            return True
        if len(lowered) >= self._shortest_phrase:
            together = " ".join(lowered.split())
            if any(phrase in together for phrase in self._phrases):
                return True
        opened = {opening for opening in self._openings if any(line.startswith(opening) for line in lines)}
        return len(opened) > 1 or any(len(_WORD.findall(opening)) > 1 for opening in opened)


def _is_telling(line: str) -> bool:
    """Whether a line of the prompt is one that hardly anything else has."""
    words = len(_WORD.findall(line))
    framed = line.strip().startswith("[") and line.strip().endswith("]")
    return words >= 3 or (words >= 2 and framed) or (words >= 1 and _RULED.search(line) is not None)


def _key(line: str) -> str:
    return " ".join(line.split()).strip("> *_`")
