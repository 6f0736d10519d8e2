"""Replies that are to be scores on a scale: one, one for each of several items, or one for each of several names.

Strict is the numbers with commas and nothing else. Tolerant is a list (`score_list`) that is the whole reply or stands
in a place of it (`places`). A number is taken as it stands or not at all; a wrong number of scores is `count`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import folded, plain, unfenced
from .places import SCORE_WORDS, Place, ReplyForm, all_places, labelled_values, read_places
from .reply_text import Echoes, ReplyText
from .score_list import ListGrammar, ScoreList
from .score_scale import WORDS, Score, Steps

_LARGEST = 2**53
_OF_NUMBERS = frozenset({Reason.COUNT, Reason.NOT_INT, Reason.OUT_OF_RANGE, Reason.OTHER_SCALE})
"""Reasons for which numbers that stand alone are no verdict: they are told apart from text that holds no scores."""
_BLOCKS = re.compile(r"\n[ \t]*\n")
_OPENING = re.compile(
    rf"(?P<open>[\[(\"“'`]{{0,2}})(?P<score>(?:-?[0-9]{{1,9}}(?:\.[0-9]{{1,6}})?|\b(?:{'|'.join(WORDS)})\b)"
    rf"(?:[ \t]{{0,3}}(?:/|out[ \t]+of)[ \t]{{0,3}}(?:[0-9]{{1,9}}(?:\.[0-9]{{1,6}})?|\b(?:{'|'.join(WORDS)})\b))?)"
    r"(?P<rest>.*)",
    re.I | re.S,
)
_ENDS = re.compile(
    r"(?:\s*\Z|\.(?=\s|\Z)|[,;!。，；！](?!\d)|:(?=\s)"
    r"|\s?[—–](?!\s?\d)|\s+-\s|\s*[(（])"
)
"""What a number must have behind it to be whole."""
_NOTE_SCALE = re.compile(r"[^0-9]*(?:(?P<low>-?[0-9.]+)\s*(?:-|–|—|to)\s*)?(?P<high>[0-9]+(?:\.[0-9]+)?)[^0-9]*")


_CLOSING = {"[": "]", "(": ")", '"': '"', "“": "”", "'": "'", "`": "`"}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ScoresReads(ReplyForm):
    """Read `count` scores of one scale, or one for each of `names`."""

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
    scale_suffix: Annotated[list[str], BeforeValidator(_as_list)] = Field(default=[])
    """What may stand behind a score, such as `points`, `分` or `/5`; a fraction of the scale's end always may."""

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

    @classmethod
    def optional_keys(cls) -> tuple[str, ...]:
        """Keys that are left out of the meaning where they are empty."""
        return (*super().optional_keys(), "scale_suffix")

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
        sound = [value for value in values if value is not None]
        return self._scored(sound, "strict") if len(sound) == len(values) else None

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens: a closed JSON list or object, or a first line."""
        text = text.strip()
        if text.startswith(("[", "{")) and len(text) <= self._list.longest:
            found = self._list.read(text)
            if isinstance(found, ScoreList) and found.shape == "json":
                return self._listed(found)
        if "\n" not in text:
            return Malformed(Reason.TRUNCATED, "a number may go on")
        place = read_places(text, _ScorePlaces(self), self, echoes, cut=True)
        return place if isinstance(place, Malformed) else self._listed(place.value, "lead_cut", "cut")

    def places(self, text: str, echoes: Echoes) -> list[Place]:
        """Where in the reply verdicts stand."""
        return all_places(text, _ScorePlaces(self), echoes)

    def tolerant(self, text: str, echoes: Echoes) -> Reading:
        """The whole text as a list, or a list in a place."""
        body = unfenced(text).strip()
        whole = self._list.read(body)
        if isinstance(whole, ScoreList):
            return self._listed(whole)
        if whole.reason == Reason.COUNT:
            return whole
        place = read_places(text, _ScorePlaces(self), self, echoes)
        if isinstance(place, Place):
            return self._listed(place.value, place.stage)
        # Of a list that is none as a whole its own reason is told, not that of one of its lines.
        is_better = place.reason == Reason.COUNT and whole.reason not in (Reason.NO_VERDICT, Reason.OTHER_VALUE)
        return whole if is_better or place.reason == Reason.NO_VERDICT else place

    @cached_property
    def _steps(self) -> Steps:
        low, high, step = (Decimal(str(end)) for end in (self.low, self.high, self.step))
        return Steps(low, high, step, tuple(self.scale_suffix))

    @property
    def _length(self) -> int:
        return len(self.names) if self.names is not None else self._count

    @property
    def _list(self) -> ListGrammar:
        keys = () if self.names is not None else (self.verdict, *self.verdict_labels)
        return ListGrammar(self._steps, self._length, tuple(self.names or ()), keys)

    def _scored(self, values: Sequence[int | float], stage: str, notes: tuple[str, ...] = ()) -> Scored:
        if self.names is not None:
            return Scored(dict(zip(self.names, values, strict=True)), Provenance(stage, notes))
        return Scored({"scores": list(values)}, Provenance(stage, notes))

    def _listed(self, found: ScoreList, stage: str = "", *notes: str) -> Scored:
        return self._scored(found.values, f"tolerant:{stage or found.shape}", (*found.coercions, *notes))


class _ScorePlaces:
    """What of a reply is a score or a list of scores, wherever one may stand."""

    def __init__(self, reads: ScoresReads) -> None:
        self._reads = reads
        self._list = reads._list
        self._steps = reads._steps
        self._single = self._list.count == 1 and reads.names is None
        own = () if reads.names is not None else (reads.verdict,)
        self.labels = (*SCORE_WORDS, *own, *reads.verdict_labels)

    def whole(self, text: str) -> Any:
        """The list that the text is; a Malformed where it is one of another length or scale."""
        found = self._list.read(plain(text))
        if self._single and isinstance(found, ScoreList) and found.shape == "labelled":
            # `1: 4` among other lines is one of several.
            return None
        return found if isinstance(found, ScoreList) or found.reason in _OF_NUMBERS else None

    def opening(self, text: str, lead: bool) -> tuple[Any, str] | None:
        """A list that is the whole line, or one score that the line opens with."""
        match = _OPENING.match(text) if self._single else None
        if match is None:
            value = self.whole(text)
            return None if value is None else (value, "")
        rest = match["rest"]
        closing = "".join(_CLOSING[mark] for mark in reversed(match["open"]))
        if not rest.startswith(closing):
            return None
        rest = rest[len(closing) :]
        for suffix in self._reads.scale_suffix:
            rest = rest.lstrip(" ").removeprefix(suffix)
        if not _ENDS.match(rest) or (lead and match["score"] == "1" and rest.startswith((".", ")", ":"))):
            # `1. Accuracy: …` opens a list of something else.
            return None
        if lead and rest.lstrip(" .,:;!()—–-")[:1].isdigit():
            return None
        score = self._steps.score(match["score"])
        if isinstance(score, Malformed):
            return score, rest
        return ScoreList((score.value,), "number", (score.coercion,) if score.coercion else ()), rest

    def phrases(self, sentence: str) -> Any:
        """Scores have no phrases."""
        return None

    def scale_fault(self, text: str) -> Malformed | None:
        """A scale in parentheses behind a label must be the one that was asked for."""
        return self._list.scale_fault(text)

    def blocks(self, reply: ReplyText) -> list[Place]:
        """The first or last paragraph where it is a list of several lines, and the scores that stand behind names."""
        places = []
        if not self._single:
            paragraphs = [part for part in _BLOCKS.split(reply.text) if part.strip()]
            for stage, part, line in (("lead", paragraphs[0], 0), ("last", paragraphs[-1], len(reply.lines) - 1)):
                if "\n" in part.strip() and isinstance(found := self._list.read(part.strip()), ScoreList):
                    places.append(Place(stage, found, line, 0, part))
        if names := self._reads.names:
            values = labelled_values(reply, {folded(name): name for name in names}, self._score)
            if isinstance(values, Malformed):
                return [*places, Place("label", values, 0, 0, "")]
            if set(values) == set(names):
                line = max(number for number, _ in values.values())
                scores = tuple(values[name][1] for name in names)
                places.append(Place("label", ScoreList(scores, "names"), line, 0, ""))
        return places

    def _score(self, name: str, text: str) -> Any:
        match = _OPENING.match(text)
        if match is None or not _ENDS.match(match["rest"]):
            return None
        score = self._steps.score(match["score"])
        return score.value if isinstance(score, Score) else score
