"""Labels, what people or a model said of an answer: what the config says of one, how a raw value is read as one.

Hides the spellings of truth values and numbers in files, and which scores of which judges a label can be compared with.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from judges import Judge

from .errors import ConfigError

Value = bool | int | float | str

# 1.0: what data frames make of whole numbers where one is missing, and write into files.
_TRUE = ("true", "yes", "y", "correct", "right", "pass", "passed", "1", "1.0")
_FALSE = ("false", "no", "n", "incorrect", "wrong", "fail", "failed", "0", "0.0")
TRUTH_WORDS = frozenset(word for word in (*_TRUE, *_FALSE) if word.isalpha())
"""What a label may say for true and false, in any case; digits do as well."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "ordinal": ((int, float), "a number"),
    "choice": ((str,), "a text (in quotes, where YAML would read something else)"),
}


class Label(BaseModel):
    """A label: the column it stands in, its type, and the score that it is held against."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    field: str
    """The column of the file."""
    type: Literal["bool", "ordinal", "choice"] = "bool"
    """Yes or no, a number, or one of several texts."""
    of: str | None = None
    """The judges' score; by default that of the label's own name. Several labels of one score: several annotators."""
    map: dict[str, bool | int | float | str | None] = {}
    """Raw value, as JSON writes it → what it means; null: no label."""
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Whatever side of the comparison is graded counts as yes from here on."""
    by: Literal["people", "model"] | None = None
    """Who gave it; left out, it is a model's where its name or column is called after one, as `gpt4_score`."""

    def score(self, name: str) -> str:
        """The score that a label of this name is held against."""
        return name if self.of is None else self.of

    @field_validator("map", mode="before")
    @classmethod
    def _as_json(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key if isinstance(key, str) else json.dumps(key, default=str): meant for key, meant in value.items()}

    @model_validator(mode="after")
    def _fits_type(self) -> Label:
        if self.type == "choice" and self.threshold is not None:
            raise ValueError("threshold: choices have no order that could be cut")
        kinds, wanted = _KINDS[self.type]
        for raw, meant in self.map.items():
            fits = type(meant) in kinds and meant != "" and not (isinstance(meant, float) and not math.isfinite(meant))
            if meant is not None and not fits:
                raise ValueError(f"map.{raw}: must be {wanted} for the type {self.type}, or null for no label")
        return self


def label_reader(name: str, label: Label) -> Callable[[Any], Value | None]:
    """A function from a raw value to the label: None where there is none, ValueError where the value fits nothing."""
    read, accepted = _READERS[label.type]
    if label.map:
        accepted += f", or one of its map ({', '.join(label.map)})"
    where = f"label {name!r} (column {label.field!r})"

    def value_of(raw: Any) -> Value | None:
        for text in _as_written(raw) if label.map else ():
            if text in label.map:
                return label.map[text]
        if raw is None or raw == "":
            return None
        value = read(raw)
        if value is None:
            raise ValueError(f"{where} must be {accepted}")
        return value

    return value_of


def _as_written(raw: Any) -> Sequence[str]:
    """How a map may write the value: as JSON does, and a whole number without its point as well."""
    if isinstance(raw, str):
        return (raw,)
    if isinstance(raw, float) and raw.is_integer():
        return (json.dumps(raw), str(int(raw)))
    return (json.dumps(raw),) if isinstance(raw, bool | int | float) else ()


def _truth(raw: Any) -> bool | None:
    if isinstance(raw, bool):
        return raw
    text = raw.strip().lower() if isinstance(raw, str) else str(raw) if isinstance(raw, int | float) else ""
    return text in _TRUE if text in _TRUE or text in _FALSE else None


def _number(raw: Any) -> int | float | None:
    value: Any = raw
    if isinstance(raw, str) and _NUMBER.fullmatch(raw.strip()):
        value = float(raw) if re.search(r"[.eE]", raw) else int(raw)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond all floats
        return None


def _text(raw: Any) -> str | None:
    # Whole numbers: columns of numbered options come as numbers out of some files and as text out of others.
    text = raw.strip() if isinstance(raw, str) else str(raw) if type(raw) is int else ""
    return text or None


_READERS: dict[str, tuple[Callable[[Any], Value | None], str]] = {
    "bool": (_truth, "true or false (or yes, no, y, n, correct, incorrect, right, wrong, pass, fail, 1, 0)"),
    "ordinal": (_number, "a number"),
    "choice": (_text, "a text"),
}


def check_labels(labels: Mapping[str, Label], judges: Sequence[Judge]) -> None:
    """ConfigError for a label that no judge of the run can be held against, and for a threshold that cuts nothing."""
    for name, label in labels.items():
        fitting = [judge for judge in judges if _fits(label, label.score(name), judge)]
        if not fitting:
            raise ConfigError(_misfit(name, label, judges))
        if label.threshold is not None and label.type == "bool":
            scales = [judge.scales()[label.score(name)] for judge in fitting]
            if all(scale.binary for scale in scales):
                raise ConfigError(
                    f"items.labels.{name}.threshold: there is nothing to cut: "
                    f"the label and {label.score(name)!r} are both yes or no"
                )


def _fits(label: Label, score: str, judge: Judge) -> bool:
    """A number is held against a score, a choice against what the verdict says in words."""
    if label.type != "choice":
        return score in judge.scales()
    return score in judge.verdict_fields and (bool(judge.choices) or score not in judge.scales())


def _misfit(name: str, label: Label, judges: Sequence[Judge]) -> str:
    score = label.score(name)
    known = sorted({known for judge in judges for known in (*judge.scales(), *judge.verdict_fields)})
    if score in known:
        fact = "no number in any judge of the run; a label of it is a choice"
        if label.type == "choice":
            fact = "a number in every judge of the run that has it; a label of it is bool or ordinal"
        return f"items.labels.{name}.type: {label.type} does not fit: {score!r} is {fact}"
    near = difflib.get_close_matches(score, known, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"they have {', '.join(known)}"
    if label.of is None:
        meant += f" (`of` says which score a label is about, where it is not named {name!r})"
    return f"items.labels.{name}{'' if label.of is None else '.of'}: no judge of the run has a score {score!r}; {meant}"
