"""A text that is nothing but a list of scores, in one of the shapes in which judges write lists.

The whole text must fit one shape: a JSON list or object, or scores with one separator, each perhaps behind the number
or the name of what it scores. Numbers are never searched for in a text: what is left over makes it no list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..outcome import Malformed, Reason
from .clean import folded, inner
from .json_text import JsonFault, load
from .score_scale import Score, Steps, bared

_MOST_EACH = 80
_MOST_WRAPPERS = 6
_KEYS = frozenset({"score", "scores", "rating", "ratings", "grade", "grades"})

_EMPHASIS = r"[*_]{0,3}"
_HEADER = re.compile(
    rf"#{{0,6}}[ \t]{{0,3}}{_EMPHASIS}(?:here[ \t]+(?:are|is)[ \t]+|these[ \t]+are[ \t]+)?"
    r"(?:(?:my|the|your|final|overall)[ \t]+){0,3}(?:scores?|ratings?|grades?|verdict)"
    rf"(?:[ \t]{{0,3}}\([ \t]*(?P<scale>[^()\n]{{1,24}})\))?{_EMPHASIS}"
    rf"(?:[ \t]{{0,3}}[:=]{_EMPHASIS}[ \t]*\n?|[ \t]+(?:is|are)(?:[ \t]*:)?(?=[ \t\n])|[ \t]*\n)\s*",
    re.I,
)
_SCALE = re.compile(r"(?:(?P<low>-?[0-9.]+)[ \t]*(?:-|–|—|to)[ \t]*|out[ \t]+of[ \t]+|/[ \t]*)(?P<high>[0-9.]+)", re.I)

_NOUN = r"(?:questions?|q|items?|answers?|responses?|pairs?|blocks?|scores?|no\.?)"
_LABEL = re.compile(
    rf"{_EMPHASIS}(?:(?P<noun>{_NOUN})[ \t]{{0,3}}#?(?P<number>[0-9]{{1,4}})"
    r"(?P<name>[ \t]{0,3}\([^()0-9\n]{1,60}\))?"
    rf"{_EMPHASIS}(?:[ \t]{{0,3}}[:=]{_EMPHASIS}[ \t]*|\)[ \t]*|\.[ \t]+|[ \t]+(?:[-–—]|is)[ \t]+)"
    rf"|#?(?P<plain>[0-9]{{1,4}}){_EMPHASIS}(?:[ \t]{{0,3}}[:=]{_EMPHASIS}|\)|\.(?=[ \t])){_EMPHASIS}[ \t]*"
    r"|\((?P<braced>[0-9]{1,4})\)[ \t]*|\[(?P<bracketed>[0-9]{1,4})\][ \t]*[:=]?[ \t]*)",
    re.I,
)
_OTHER_MEANING = re.compile(
    r"\b(?:max\w*|min\w*|out\s+of|total|average|mean|sum|weight\w*|expected|reference|human|target|example|possible)\b",
    re.I,
)
_NEXT_LABEL = re.compile(rf"[ \t]+(?={_NOUN}[ \t]{{0,3}}#?[0-9]|\(?[0-9]{{1,4}}(?:[:=)]|\.[ \t]))", re.I)
_BULLET = re.compile(r"^[ \t]*(?:[-•‣]|\*(?!\*))[ \t]+(?=\S)")
_SPLITS = (
    ("comma", re.compile(r"\s*,\s*")),
    ("semicolon", re.compile(r"\s*;\s*")),
    ("bar", re.compile(r"\s*\|\s*")),
    ("line", re.compile(r"[ \t]*\r?\n\s*")),
    ("and", re.compile(r"[ \t]+and[ \t]+", re.I)),
)
_BLANK = re.compile(r"[ \t]+")


@dataclass(frozen=True, slots=True)
class ScoreList:
    """The scores of a list in the order of what they score, the shape they came in and the coercions they took."""

    values: tuple[int | float, ...]
    shape: str = field(compare=False)
    coercions: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ListGrammar:
    """What makes a text a list of `count` scores; with `names` each score may stand behind its name."""

    steps: Steps
    count: int
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Names under which an object may hold the list, besides the usual ones."""

    @property
    def longest(self) -> int:
        """A longer text is no list."""
        names = sum(map(len, self.names))
        return 200 + names + _MOST_EACH * self.count

    def read(self, text: str) -> ScoreList | Malformed:
        """The list that the whole text is."""
        text = text.strip()
        if len(text) > self.longest:
            return Malformed(Reason.NO_VERDICT)
        if text.endswith(("].", ").", "}.")):
            text = text[:-1]
        found = self._shapes(text)
        for _ in range(_MOST_WRAPPERS):
            if isinstance(found, ScoreList):
                return found
            below = inner(text)
            if below is None or text.startswith("{"):
                break
            text = below
            found = self._shapes(text)
        return found

    def of_json(self, value: Any, unwrap: bool = True) -> ScoreList | Malformed:
        """The list that a JSON value is; `unwrap` allows an object whose one key says that it holds the scores."""
        if isinstance(value, dict):
            return self._object(value, unwrap)
        if isinstance(value, str):
            return self._pieces(value.strip())
        if not isinstance(value, list):
            return self._counted([self.steps.of_json(value)], "json")
        if len(value) == 1 and isinstance(value[0], list):
            (value,) = value
        return self._counted([self.steps.of_json(each) for each in value], "json")

    def _shapes(self, text: str, headed: bool = False) -> ScoreList | Malformed:
        if text.startswith(("[", "{")):
            try:
                value = load(text)
            except JsonFault as fault:
                if fault.reason != Reason.NO_VERDICT:
                    return Malformed(fault.reason, str(fault))
                if text.startswith("{"):
                    return Malformed(Reason.NO_VERDICT, "braces that hold no JSON object")
            else:
                return self.of_json(value)
        header = None if headed else _HEADER.match(text)
        if header:
            if wrong := self.scale_fault(header["scale"]):
                return wrong
            rest = text[header.end() :]
            found = self._shapes(rest, headed=True)
            below = inner(rest)
            while not isinstance(found, ScoreList) and below is not None:
                found = self._shapes(below, headed=True)
                below = inner(below)
            return ScoreList(found.values, "header", found.coercions) if isinstance(found, ScoreList) else found
        if text.endswith((".", "!", "。")) and not text.endswith(("..", "!!")):
            text = text[:-1].rstrip()
        return self._pieces(text)

    def scale_fault(self, text: str | None) -> Malformed | None:
        """Why what is said in parentheses behind a label names another scale; None where it names none."""
        scale = _SCALE.fullmatch(text.strip()) if text else None
        if scale is None:
            return None
        ends = [(scale["high"], self.steps.high)] + ([(scale["low"], self.steps.low)] if scale["low"] else [])
        if all(re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?", end) and float(end) == own for end, own in ends):
            return None
        return Malformed(Reason.OTHER_SCALE, f"({text}) is another scale")

    def _pieces(self, text: str) -> ScoreList | Malformed:
        """Scores, or labelled scores, with one separator; one more separator may stand at the end."""
        alone = self.steps.score(text)
        if isinstance(alone, Score):
            return self._counted([alone], "number")
        shape, pieces = next(
            ((shape, split.split(text)) for shape, split in _SPLITS if split.search(text)), ("blank", [text])
        )
        if shape == "blank":
            one = self._labelled([text])
            if isinstance(one, ScoreList):
                return one
            return self._labelled(_NEXT_LABEL.split(text)) or self._blank(text, alone)
        if pieces[-1] == "":
            pieces = pieces[:-1]
        if any(not piece.strip() for piece in pieces):
            return Malformed(Reason.OTHER_VALUE, "an empty place: which one has no score?")
        if shape == "line" and all(map(_BULLET.match, pieces)) and len(pieces) > 1:
            pieces = [_BULLET.sub("", piece, count=1) for piece in pieces]
        if labelled := self._labelled(pieces):
            return labelled
        return self._counted([self.steps.score(piece) for piece in pieces], shape)

    def _blank(self, text: str, alone: Malformed) -> ScoreList | Malformed:
        """Bare numbers with blanks between: anything around a number might make it a label."""
        pieces = _BLANK.split(text)
        if len(pieces) == 1:
            return alone
        scores = [self.steps.score(piece, bare=True) for piece in pieces]
        return self._counted(scores, "blank")

    def _labelled(self, pieces: Sequence[str]) -> ScoreList | Malformed | None:
        """The scores behind their numbers or names; None where not every piece has a label."""
        if self.names:
            return self._named(pieces)
        matches = [_LABEL.match(piece) for piece in pieces]
        if not any(matches):
            return None
        if not all(matches):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "a number may be a label or a score")
        found: dict[int, Score | Malformed] = {}
        nouns = set()
        for piece, match in zip(pieces, matches, strict=True):
            assert match is not None
            number = int(match["number"] or match["plain"] or match["braced"] or match["bracketed"])
            if number in found:
                return Malformed(Reason.LABELS, f"the label {number} is given twice")
            if match["name"] and _OTHER_MEANING.search(match["name"]):
                return Malformed(Reason.LABELS, f"{match['name'].strip()[:40]!r} may mean another number")
            if match["noun"] is None and len(pieces) == 1 and not piece[: match.end()].endswith((" ", "\t")):
                return Malformed(Reason.AMBIGUOUS_MULTIPLE, "a number may be a label or a score")
            nouns.add((match["noun"] or "").lower())
            found[number] = self.steps.score(piece[match.end() :])
        if not any(isinstance(score, Score) for score in found.values()):
            return self._counted(list(found.values()), "labelled")
        if len(nouns) > 1 or sorted(found) != list(range(1, len(found) + 1)):
            return Malformed(Reason.LABELS, f"labels {str(sorted(found))[:60]} instead of 1 to {self.count}")
        return self._counted([found[number] for number in sorted(found)], "labelled")

    def _named(self, pieces: Sequence[str]) -> ScoreList | Malformed | None:
        known = {folded(name): name for name in self.names}
        found: dict[str, Score | Malformed] = {}
        strange = None
        for piece in pieces:
            bare = _BULLET.sub("", piece, count=1)
            name, sign, value = re.sub(r"^([*_]{1,3})([^*_:=]+)\1[ \t]*([:=])", r"\2\3", bare).partition(":")
            if not sign:
                name, sign, value = bare.partition("=")
            if not sign:
                return None
            name = folded(bared(name.lstrip("*_")))
            if name not in known or known[name] in found:
                strange = strange or f"{name[:40]!r} is given twice, or is none of the names asked for"
            found[known.get(name, "")] = self.steps.score(re.sub(r"^\*{1,3}(?=[ \t])", "", value))
        if not any(isinstance(score, Score) for score in found.values()):
            return self._counted(list(found.values()), "names")
        if strange:
            return Malformed(Reason.LABELS, strange)
        if len(found) < len(self.names):
            return Malformed(Reason.LABELS, f"{len(found)} of {len(self.names)} names have a score")
        return self._counted([found[name] for name in self.names], "names")

    def _object(self, value: dict[str, Any], unwrap: bool) -> ScoreList | Malformed:
        known = {folded(name): name for name in self.names}
        if self.names:
            keys = [folded(key) for key in value]
            if sorted(keys) == sorted(known):
                by_name = {known[folded(key)]: each for key, each in value.items()}
                return self._counted([self.steps.of_json(by_name[name]) for name in self.names], "json")
        if len(value) == 1 and unwrap:
            key, below = next(iter(value.items()))
            if folded(key) in _KEYS | {folded(name) for name in self.keys} and folded(key) not in known:
                return self.of_json(below, unwrap=False)
        if self.names:
            return Malformed(Reason.LABELS, "an object with other keys than the names asked for")
        numbers = {re.fullmatch(rf"(?:{_NOUN}[ _]?#?)?([0-9]{{1,4}})", folded(key)): key for key in value}
        by_number = {int(match[1]): key for match, key in numbers.items() if match}
        if not value or len(by_number) < len(value) or sorted(by_number) != list(range(1, len(value) + 1)):
            return Malformed(Reason.LABELS, f"an object with other keys than 1 to {self.count}")
        return self._counted([self.steps.of_json(value[by_number[n]]) for n in sorted(by_number)], "json")

    def _counted(self, scores: Sequence[Score | Malformed], shape: str) -> ScoreList | Malformed:
        faults = [score for score in scores if isinstance(score, Malformed)]
        read = [score for score in scores if isinstance(score, Score)]
        if faults:
            others = [fault for fault in faults if fault.reason == Reason.OTHER_VALUE]
            if len(others) == len(scores):
                return Malformed(Reason.NO_VERDICT, others[0].detail)
            return (others or faults)[0]
        if len({score.coercion == "fraction" for score in read}) > 1:
            return Malformed(Reason.OTHER_VALUE, "some scores are fractions and some are not")
        if len(read) != self.count:
            return Malformed(Reason.COUNT, f"{len(read)} scores for {self.count}")
        coercions = tuple(dict.fromkeys(score.coercion for score in read if score.coercion))
        return ScoreList(tuple(score.value for score in read), shape, coercions)
