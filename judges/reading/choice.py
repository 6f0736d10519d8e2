"""Replies that are to be one of a few labels, such as `A`, `CORRECT` or `Output (a)`.

A label is read in a place of the reply (`places`), or in a phrase that the judge declares for it. It is never looked
for inside of a sentence, where `CORRECT` is in `INCORRECT` and `A` is an article.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ..outcome import Scored
from .clean import folded
from .reply_text import RESERVED, SCORE_WORDS
from .words import WordReads, Words

Value = bool | int | float

_LONGEST = 150


def _of_words(value: Any) -> Any:
    """YAML writes a label without aliases or value as nothing at all, and reads an unquoted 1 as a number.

    Labels that have neither may also be a list.
    """
    if isinstance(value, list):
        if any(isinstance(label, Mapping) for label in value):
            raise ValueError("a list holds labels alone; with aliases or values write {A: {value: 1}, B: {value: 0}}")
        if twice := [label for label in value if value.count(label) > 1]:
            raise ValueError(f"the label {twice[0]!r} is given twice")
        value = dict.fromkeys(value)
    if isinstance(value, Mapping):
        for label in value:
            if not isinstance(label, str):
                raise ValueError(f"the label {label!r} is no text; quote it")
        return {label: {} if each is None else each for label, each in value.items()}
    return value


class ChoiceLabel(BaseModel):
    """One choice: other ways to write it, and what it scores."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    aliases: list[str] = []
    """Other ways to write the label."""
    value: Value | None = None
    """What the label scores; without values the labels are only counted."""


class ChoiceReads(WordReads):
    """Read one of the labels; `verdict` names the field that holds it."""

    kind: Literal["choice"]
    verdict: Annotated[str, Field(min_length=1)] = "choice"
    """The verdict's field, and the name of the score."""
    labels: Annotated[
        dict[str, ChoiceLabel],
        BeforeValidator(_of_words, json_schema_input_type=dict[str, ChoiceLabel | None] | list[str]),
        Field(min_length=2),
    ]
    """Label → how else it is written, and what it scores; or a list of labels that have neither."""
    verdict_labels: list[str] = Field(default=[])
    """Words that a verdict stands behind, in any script, besides the reserved ones."""
    phrases: dict[str, list[str]] = Field(default={})
    """Label → what says it at the start or the end of a sentence, such as `Output (a) is better`."""

    @model_validator(mode="after")
    def _sound(self) -> ChoiceReads:
        seen: dict[str, str] = {}
        for label, about in self.labels.items():
            for text in (label, *about.aliases):
                if not folded(text) or len(text) > _LONGEST or "\n" in text:
                    raise ValueError(f"labels: {text[:60]!r} is empty, too long, or of more than one line")
                if folded(text) in seen:
                    raise ValueError(f"labels: {seen[folded(text)]!r} and {text!r} differ in case and blanks at most")
                seen[folded(text)] = text
            if about.value is not None and not math.isfinite(about.value):
                raise ValueError(f"labels.{label}.value: must be a finite number")
        without = [label for label, about in self.labels.items() if about.value is None]
        if without and len(without) < len(self.labels):
            raise ValueError(f"labels.{without[0]}: has no value, but others have; give all labels one, or none")
        for label, phrases in self.phrases.items():
            if label not in self.labels:
                raise ValueError(f"phrases.{label}: is none of the labels {', '.join(self.labels)}")
            if short := [phrase for phrase in phrases if len(phrase.split()) < 2 and len(phrase) < 4]:
                raise ValueError(f"phrases.{label}: {short[0]!r} is no phrase; other ways to write a label are aliases")
        said = [folded(phrase) for phrases in self.phrases.values() for phrase in phrases]
        if twice := [phrase for phrase in said if said.count(phrase) > 1]:
            raise ValueError(f"phrases: {twice[0]!r} is given twice")
        return self

    @classmethod
    def optional_keys(cls) -> tuple[str, ...]:
        """Keys that are left out of the meaning where they are empty."""
        return ("verdict_labels", "retractions", "phrases")

    @cached_property
    def grammar(self) -> Words:
        """The literals and phrases, and the labels that they may stand behind."""
        return Words(
            {text: label for label, about in self.labels.items() for text in (label, *about.aliases)},
            (*RESERVED, *SCORE_WORDS, "choice", "winner", self.verdict, *self.verdict_labels),
            {phrase: label for label, phrases in self.phrases.items() for phrase in phrases},
            lead_colon=False,
        )

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {self.verdict: "string"}

    def values(self) -> dict[str, Value | None]:
        """Label → what it scores."""
        return {label: about.value for label, about in self.labels.items()}

    def strict(self, text: str) -> Scored | None:
        """The label as it was asked for; blanks around it do not matter, its case does."""
        return self.scored(text.strip(), "strict") if text.strip() in self.labels else None
