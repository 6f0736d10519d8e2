"""Replies that are to be scores on a scale: one, one for each of several items, or one for each of several names.

Strict is the numbers with commas and nothing else. Tolerant is a list (`score_list`) that is the whole reply or stands
in a place of it (`places`). A number is taken as it stands or not at all; a wrong number of scores is `count`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import folded, plain, unfenced
from .places import PlacedReads, label_pattern
from .reply_text import SCORE_WORDS, Echoes
from .score_list import ScoreGrammar, ScoreList, Steps

_LARGEST = 2**53


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ScoresReads(PlacedReads):
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
        other.__dict__.pop("grammar", None)
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

    def strict(self, text: str) -> Scored | None:
        """The scores with commas between them and nothing besides: no blanks, no other way to write a number."""
        pieces = text.split(",", self._length)
        if len(pieces) != self._length:
            return None
        values = [self._steps.canonical(piece) for piece in pieces]
        sound = [value for value in values if value is not None]
        return self._scored(sound, "strict") if len(sound) == len(values) else None

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens; the number at its end may have been going on."""
        if "\n" in text.strip() or text.startswith(("[", "{")):
            return super().read_cut(text, echoes)
        return Malformed(Reason.TRUNCATED, "a number may go on")

    def whole(self, text: str) -> Reading | None:
        """The list that the whole text is, or why it is one of another length."""
        whole = self.grammar.read(text)
        if isinstance(whole, ScoreList):
            is_labelled = label_pattern(self.grammar.labels).match(plain(text))
            return self.scored(whole, "tolerant:label" if is_labelled else "tolerant:whole")
        return whole if whole.reason == Reason.COUNT else None

    def tolerant(self, text: str, echoes: Echoes) -> Reading:
        """The whole text as a list, or a list in a place."""
        found = super().tolerant(text, echoes)
        whole = found if isinstance(found, Scored) else self.grammar.read(unfenced(text))
        # Of a list that is none as a whole its own reason is told, not that of one of its lines.
        if isinstance(found, Malformed) and isinstance(whole, Malformed):
            of_line = found.reason in (Reason.COUNT, Reason.OTHER_VALUE)
            is_better = of_line and whole.reason not in (Reason.NO_VERDICT, Reason.OTHER_VALUE)
            return whole if is_better or found.reason == Reason.NO_VERDICT else found
        return found

    def scored(self, value: ScoreList, stage: str, *notes: str) -> Scored:
        """The outcome of a list."""
        return self._scored(value.scores, stage, *value.coercions, *notes)

    @cached_property
    def grammar(self) -> ScoreGrammar:
        """What of a reply is a score or a list of scores."""
        own = () if self.names is not None else (self.verdict,)
        labels = (*SCORE_WORDS, *own, *self.verdict_labels)
        return ScoreGrammar(self._steps, self._length, tuple(self.names or ()), labels)

    @cached_property
    def _steps(self) -> Steps:
        low, high, step = (Decimal(str(end)) for end in (self.low, self.high, self.step))
        return Steps(low, high, step, tuple(self.scale_suffix))

    @property
    def _length(self) -> int:
        return len(self.names) if self.names is not None else self._count

    def _scored(self, values: Sequence[int | float], stage: str, *notes: str) -> Scored:
        verdict = {"scores": list(values)} if self.names is None else dict(zip(self.names, values, strict=True))
        return Scored(verdict, Provenance(stage, notes))
