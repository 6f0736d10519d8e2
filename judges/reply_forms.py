"""What a judge's file may say of its replies: which of four kinds a verdict is of, and in which words it may stand.

A reply is a yes or no, one of a few labels, scores on a scale, or a JSON object. Each model checks what its author
wrote and is, with the grammar that it gives, the reader of such replies (`reading`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from .outcome import Reading, Scored
from .reading.clean import folded, unwrap
from .reading.objects import ObjectReader
from .reading.reply_text import RESERVED, SCORE_WORDS, Echoes
from .reading.score_list import ScoreGrammar, Steps
from .reading.scores import ScoresReader
from .reading.words import WordReader, Words
from .response_schema import check_schema, closed

Value = bool | int | float

_YES_NO = {"yes": True, "no": False}
_LONGEST = 150
_LARGEST = 2**53


class ReplyForm(BaseModel):
    """What every kind of reading may say of the look of a reply, besides its own."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    verdict_labels: Annotated[list[str], Field(alias="labels")] = []
    """Words that a verdict stands behind, in any script, besides the reserved ones."""
    retractions: list[str] = []
    """How a sentence opens that takes a verdict back, in the language of the replies."""

    def response_schema(self) -> dict[str, Any] | None:
        """The object to have enforced; None where bare words or numbers are asked for."""
        return None

    @model_serializer(mode="wrap")
    def _dump(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What is not set is left out: a judge without it means what it meant before there was such a thing.
        unset = set(type(self).optional_keys())
        return {key: value for key, value in dump(self).items() if value or key not in unset}

    @classmethod
    def optional_keys(cls) -> tuple[str, ...]:
        """Keys that are left out of the meaning where they are empty."""
        return ("labels", "verdict_labels", "retractions")


def _of_yaml(value: Any) -> Any:
    """YAML reads a bare yes or no as true or false, which as a key can mean nothing else."""
    if not isinstance(value, Mapping):
        return value
    if any(isinstance(word, bool) for words in value.values() if isinstance(words, list) for word in words):
        raise ValueError("an alias is read as true or false; quote it")
    return {("yes" if key else "no") if isinstance(key, bool) else key: words for key, words in value.items()}


class YesnoReads(ReplyForm, WordReader):
    """Read a yes or no; `verdict` names the boolean field that yes makes true."""

    kind: Literal["yesno"]
    verdict: Annotated[str, Field(min_length=1)] = "correct"
    """The verdict's field, and the name of the score: true for yes."""
    aliases: Annotated[dict[Literal["yes", "no"], list[str]], BeforeValidator(_of_yaml)] = Field(default={})
    """Other words for yes and no, which count wherever the whole word is asked for."""
    bare_cut: bool = False
    """Whether a bare word counts although the endpoint says that the reply was cut: for a `max_tokens` of a few."""

    @model_validator(mode="after")
    def _sound(self) -> YesnoReads:
        seen = dict(_YES_NO)
        for meaning, words in self.aliases.items():
            for word in words:
                text = word.strip().lower()
                if not any(map(str.isalnum, text)) or [*unwrap(text)] != [text] or len(text) > _LONGEST:
                    raise ValueError(f"aliases.{meaning}: {word!r} is empty, too long, or of more than words")
                if seen.setdefault(text, meaning == "yes") != (meaning == "yes"):
                    raise ValueError(f"aliases: {word!r} stands for yes and for no")
        return self

    @classmethod
    def optional_keys(cls) -> tuple[str, ...]:
        """Keys that are left out of the meaning where they are empty."""
        return (*super().optional_keys(), "aliases", "bare_cut")

    @cached_property
    def grammar(self) -> Words:
        """The literals, and the labels that they may stand behind."""
        aliases = {word: _YES_NO[meaning] for meaning, words in self.aliases.items() for word in words}
        return Words(_YES_NO | aliases, (*RESERVED, *SCORE_WORDS, self.verdict, *self.verdict_labels))

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {self.verdict: "boolean"}

    def strict(self, text: str) -> Scored | None:
        """The bare word; its case and the blanks around it are not asked for and do not matter."""
        word = text.strip().lower()
        return self.scored(_YES_NO[word], "strict") if word in _YES_NO else None

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens: a closed object, a lead, or, if declared, a bare word."""
        if self.bare_cut and (found := self.strict(text)):
            return self.scored(found.verdict[self.verdict], "bare_cut")
        return super().read_cut(text, echoes)


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


class ChoiceReads(ReplyForm, WordReader):
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


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ScoresReads(ReplyForm, ScoresReader):
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

    @cached_property
    def grammar(self) -> ScoreGrammar:
        """What of a reply is a score or a list of scores."""
        own = () if self.names is not None else (self.verdict,)
        count = len(self.names) if self.names is not None else self._count
        return ScoreGrammar(self._steps, count, tuple(self.names or ()), (*SCORE_WORDS, *own, *self.verdict_labels))

    @cached_property
    def _steps(self) -> Steps:
        low, high, step = (Decimal(str(end)) for end in (self.low, self.high, self.step))
        return Steps(low, high, step, tuple(self.scale_suffix))


class ObjectReads(ReplyForm, ObjectReader):
    """Read a JSON object; `verdict` names the fields of `schema` that are the verdict.

    A schema that is an array is read too: the verdict then has one field, the array.
    """

    kind: Literal["object"]
    json_schema: Annotated[dict[str, Any], Field(alias="schema")]
    """The object's JSON Schema."""
    verdict: Annotated[list[str], Field(min_length=1)]
    """The required fields that count; true or false and numbers become scores."""
    lines: bool = False
    """Whether `field = value` lines are a verdict too."""

    @model_validator(mode="after")
    def _sound(self) -> ObjectReads:
        check_schema(self.json_schema)
        if self.is_array:
            if len(self.verdict) > 1:
                raise ValueError("verdict: of a schema that is an array there is one field, the array")
            if self.lines:
                raise ValueError("lines: an array stands on no line")
        elif self.json_schema["type"] != "object":
            raise ValueError("schema.type: must be object or array")
        properties = self.properties
        for name in self.verdict:
            if name not in properties:
                raise ValueError(f"verdict: {name!r} is no property of the schema")
            if not self.is_array and name not in self.json_schema.get("required", []):
                raise ValueError(f"verdict: {name!r} must be among the schema's required properties")
            if self.lines and not (properties[name]["type"] in ("boolean", "integer") or "enum" in properties[name]):
                raise ValueError(f"lines: {name!r} is no boolean, integer or enum, which is all that a line can hold")
        if len(set(map(folded, properties))) < len(properties):
            raise ValueError("schema.properties: two names differ in case only")
        return self

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {name: self.properties[name]["type"] for name in self.verdict}

    def response_schema(self) -> dict[str, Any] | None:
        """The schema to have enforced."""
        return closed(self.json_schema)


AnyReads = YesnoReads | ObjectReads | ScoresReads | ChoiceReads
Reads = Annotated[AnyReads, Field(discriminator="kind")]
