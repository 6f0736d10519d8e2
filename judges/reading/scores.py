"""Replies that are to be scores on a scale: one, one for each of several items, or one for each of several names.

Strict is the numbers with commas and nothing else. Tolerant is a reply that is a list as a whole (`scorelist`), or in
which one line is the list: the first or the last, with no other number beside it that could be meant. What leaves any
doubt about which number belongs to what is no verdict; a wrong number of scores in an otherwise clean list is `count`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import concluded, folded, introduced, plain, retracted, unfenced, withdrawn
from .qualifiers import keeps_verdict_after, keeps_verdict_before
from .score_list import ListGrammar, ScoreList
from .score_scale import WORDS, Steps

_LARGEST = 2**53
_MOST_LINES = 2000

_NUMBER = r"(?<![\w.])-?[0-9]{1,9}(?:\.[0-9]{1,6})?(?![\w%])(?!\.[0-9])"
_NUMBER_LIST = re.compile(rf"{_NUMBER}[ \t]{{0,3}}(?:[,;|/&]|\band\b|[ \t])[ \t]{{0,3}}{_NUMBER}", re.I)
"""Two numbers side by side: another list, or what could be taken for one."""
_FRACTION = re.compile(rf"({_NUMBER})[ \t]{{0,3}}(?:/|out[ \t]+of)[ \t]{{0,3}}({_NUMBER})", re.I)
_SAID = re.compile(
    r"\b(?:scor(?:es?|ed|ing)|rat(?:es?|ed|ings?)|grad(?:es?|ed|ing)|marks?|verdict|deserves?|awards?|points?)\b"
    rf"[^.\n0-9]{{0,40}}({_NUMBER})",
    re.I,
)
_NAMED = re.compile(
    rf"\W{{0,6}}[A-Za-z][^:=\n]{{0,60}}[:=][\s*_]{{0,6}}({_NUMBER})(?:[ \t]{{0,3}}/[ \t]{{0,3}}[0-9]+)?\W{{0,4}}", re.I
)
"""`Accuracy: 3` on a line of its own."""
_OTHER_LINE = re.compile(
    r"\b(?:total|sum|average|avg|mean|median|example|e\.g|format|template|draft|maximum|minimum)\b[^\n]{0,40}[0-9]",
    re.I,
)
_ANNOUNCES = re.compile(
    r"(?:(?:sure|certainly|okay|ok|of[ \t]+course)[.,!][ \t]+)?(?:here[ \t]+(?:are|is)[ \t]+)?"
    r"(?:my|the|your)[ \t]+(?:final[ \t]+)?(?:scores?|ratings?|grades?)(?:[ \t]+(?:is|are))?[ \t]*:",
    re.I,
)
"""A line that says that the next one is the scores."""
_MARK = re.compile(r"\[\[[^\[\]]{1,40}\]\][.*_]{0,4}$")
_I_GIVE = re.compile(
    rf"\bI\s{{1,3}}(?:would\s|will\s|['’]d\s)?\s{{0,3}}(?:rate|give|score|grade|award)\b[^.\n0-9]{{0,40}}({_NUMBER})",
    re.I,
)
_DIGIT = re.compile(r"[0-9]")
_OTHER_WORD = re.compile(rf"(?!(?:{'|'.join(WORDS)})\b)\b[^\W\d_]+", re.I)
"""A word that is no number."""
_LAST_SENTENCE = re.compile(
    r"(?<=[.!?])[ \t]+(?=[*_]{0,3}(?:(?:my|the|final|overall)[ \t]+){0,2}(?:scores?|ratings?|grades?)[*_]{0,3}[:=])",
    re.I,
)


class ScoresReads(BaseModel):
    """Read scores from `low` to `high`; `verdict` names one item's score, `names` one score each."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["scores"]
    verdict: Annotated[str, Field(min_length=1)] = "score"
    """The verdict's field, and the name of the score, where `names` gives none."""
    names: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = None
    """Names of several scores, all of which a reply has to give."""
    low: int | float
    """The worst score."""
    high: int | float
    """The best score."""
    step: int | float = 1
    """Scores between these steps are not on the scale, and malformed."""

    _count: int = PrivateAttr(default=1)

    @model_validator(mode="after")
    def _sound(self) -> ScoresReads:
        for name in ("low", "high", "step"):
            if not math.isfinite(getattr(self, name)) or abs(getattr(self, name)) > _LARGEST:
                raise ValueError(f"{name}: must be a number that is not too large")
        if self.low >= self.high:
            raise ValueError(f"high: must be above low, which is {self.low}")
        if self.step <= 0:
            raise ValueError("step: must be above 0")
        if (self._steps.high - self._steps.low) % self._steps.step:
            raise ValueError(f"step: {self.step} does not lead from {self.low} to {self.high} in whole steps")
        if self.names is not None:
            if "verdict" in self.model_fields_set:
                raise ValueError("verdict: the names are the verdict's fields; give one of verdict and names")
            if len({folded(name) for name in self.names}) < len(self.names):
                raise ValueError("names: two differ in case or blanks only")
            for name in self.names:
                if not folded(name) or set(name) & set(":=,;|\n"):
                    raise ValueError(f"names: {name!r} is empty or holds one of : = , ; | and line breaks")
        return self

    def counted(self, n: int) -> ScoresReads:
        """The same reading for a reply that is to hold the scores of `n` items."""
        if n < 1:
            raise ValueError(f"a reply cannot be asked for {n} scores")
        if self.names is not None and n != 1:
            raise ValueError("a reading with names is of one item")
        if n == self._count:
            return self
        other = self.model_copy()
        other._count = n
        return other

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return dict.fromkeys(self.names or [self.verdict], "integer" if self._steps.whole else "number")

    def response_schema(self) -> dict[str, Any] | None:
        """Bare numbers are asked for, so there is no object to ask for."""
        return None

    def strict(self, text: str) -> Scored | None:
        """The scores with commas between them and nothing besides: no blanks, no other way to write a number."""
        pieces = text.split(",", self._length)
        if len(pieces) != self._length:
            return None
        values = [self._steps.canonical(piece) for piece in pieces]
        found = [value for value in values if value is not None]
        return self._scored(found, "strict") if len(found) == len(values) else None

    def complete(self, text: str) -> Scored | None:
        """What may be read of a reply that ran out of tokens: a closed JSON list or object; a number may go on."""
        text = text.strip()
        if not text.startswith(("[", "{")) or len(text) > self._grammar.longest:
            return None
        found = self._grammar.read(text)
        return self._listed(found) if isinstance(found, ScoreList) and found.shape == "json" else None

    def tolerant(self, text: str) -> Reading:
        """The whole text as a list, or one line of it."""
        text = unfenced(text).strip()
        whole = self._grammar.read(text)
        if isinstance(whole, ScoreList):
            return self._listed(whole)
        lines = _LAST_SENTENCE.sub("\n", text).split("\n") if len(text) else []
        if len(lines) < 2 or len(lines) > _MOST_LINES:
            return whole
        return self._in_lines([line.strip() for line in lines if line.strip()], whole)

    @cached_property
    def _steps(self) -> Steps:
        return Steps(Decimal(str(self.low)), Decimal(str(self.high)), Decimal(str(self.step)))

    @property
    def _length(self) -> int:
        return len(self.names) if self.names is not None else self._count

    @property
    def _grammar(self) -> ListGrammar:
        keys = () if self.names is not None else (self.verdict,)
        return ListGrammar(self._steps, self._length, tuple(self.names or ()), keys)

    def _scored(self, values: Sequence[int | float], stage: str, notes: tuple[str, ...] = ()) -> Scored:
        if self.names is not None:
            return Scored(dict(zip(self.names, values, strict=True)), Provenance(stage, notes))
        return Scored({"scores": list(values)}, Provenance(stage, notes))

    def _listed(self, found: ScoreList, shape: str = "") -> Scored:
        return self._scored(found.values, f"tolerant:{shape or found.shape}", found.coercions)

    def _in_lines(self, lines: list[str], whole: Malformed) -> Reading:
        """The one line that is a list, where nothing around it speaks of other scores."""
        grammar = self._grammar
        read = [grammar.read(line) if len(line) <= grammar.longest else whole for line in lines]
        lists = {number: found for number, found in enumerate(read) if isinstance(found, ScoreList)}
        if not lists:
            return whole
        if self._marked(lines, lists):
            return self._listed(lists[len(lines) - 1], "mark")
        headed = all(found.shape == "header" for found in lists.values())
        if len(lists) == len(lines) and (self._length > 1 or headed):
            if len({found.values for found in lists.values()}) == 1:
                return self._listed(lists[0], "repeated")
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "lists that differ")
        if len(lists) > 1:
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "more than one line could be the scores")
        (number,) = lists
        if other := next(
            (found for found in read if isinstance(found, Malformed) and found.reason in _OF_NUMBERS), None
        ):
            return Malformed(other.reason, f"a line beside the scores: {other.detail}")
        rest = lines[:number] + lines[number + 1 :]
        if doubt := self._doubt(rest, lists[number].values):
            return doubt
        before, after = "\n".join(lines[:number]), "\n".join(lines[number + 1 :])
        if number and _ANNOUNCES.fullmatch(lines[number - 1]):
            before, headed = "\n".join(lines[: number - 1]), True
        values, most = lists[number].values, float(self.high)
        last = number == len(lines) - 1 and (concluded(before) if headed else introduced(before))
        marked = _MARK.search(lines[number]) is not None
        if last and (marked or keeps_verdict_before(before, values, most)):
            return self._listed(lists[number], "line")
        strictly = number == 0 and lists[0].shape in ("blank", "comma", "number")
        if (
            number == 0
            and not (withdrawn if strictly else retracted)(after)
            and keeps_verdict_after(after, values, most)
        ):
            return self._listed(lists[number], "line")
        return Malformed(Reason.NO_VERDICT, "the only scores may be a quotation, or are withdrawn")

    def _marked(self, lines: list[str], lists: dict[int, ScoreList]) -> bool:
        """Whether the last line is the one score of the reply that stands in `[[…]]`, the judge's own.

        The form is used for nothing else, so that other numbers in the text are no doubt, but for another rating.
        """
        number = len(lines) - 1
        if number not in lists or _MARK.search(lines[-1]) is None or any("[[" in line for line in lines[:-1]):
            return False
        if 0 in lists and lists[0].values != lists[number].values:
            return False
        given = {float(said[1]) for line in lines[:-1] for said in _I_GIVE.finditer(line)}
        if given - set(lists[number].values):
            return False
        ratings = {found.values for found in lists.values() if found.shape == "header"} | {lists[number].values}
        return len(ratings) == 1 and concluded("\n".join(lines[:-1]), marked=True)

    def _doubt(self, rest: list[str], values: tuple[int | float, ...]) -> Malformed | None:
        """Numbers in the other lines that could be meant instead."""
        same = {float(values[0])} if len(set(values)) == 1 else set()
        for line in map(plain, rest):
            if _OTHER_LINE.search(line):
                return Malformed(
                    Reason.AMBIGUOUS_MULTIPLE, "a total, an average or an example stands beside the scores"
                )
            if not _OTHER_WORD.search(line) and (_DIGIT.search(line) or line.strip()[-1:].isalpha()):
                return Malformed(Reason.AMBIGUOUS_MULTIPLE, "another number stands on a line of its own")
            said = [match[1] for match in _SAID.finditer(line)]
            said += [match[1] for match in _FRACTION.finditer(line) if Decimal(match[2]) == self._steps.high]
            if named := _NAMED.fullmatch(line):
                said.append(named[1])
            if any(float(number) not in same for number in said):
                return Malformed(Reason.CONFLICT, "another score may be given beside the scores")
            if _NUMBER_LIST.search(_FRACTION.sub(" ", line)):
                return Malformed(Reason.AMBIGUOUS_MULTIPLE, "other numbers stand side by side")
        return None


_OF_NUMBERS = frozenset({Reason.COUNT, Reason.NOT_INT, Reason.OUT_OF_RANGE, Reason.OTHER_SCALE, Reason.LABELS})
