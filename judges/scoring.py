"""What a verdict is worth: named scores out of its typed fields, and the scale that each is on.

Only what is there becomes a number: true and false are 1 and 0, numbers are themselves, words are no score, unless the
judge gives its labels values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .reply_forms import AnyReads, ChoiceReads, ObjectReads, ScoresReads

Value = bool | int | float


@dataclass(frozen=True, slots=True)
class Scale:
    """What a score can be: yes or no (1 or 0), or a number between two ends, where they are known."""

    binary: bool
    low: float | None = 0.0
    high: float | None = 1.0
    step: float | None = None
    """Distance of neighbouring values; None: any value between the ends."""
    at_least: float | None = None
    """The judge asks how many scores reach this."""


def scores_of(verdict: Mapping[str, Any]) -> dict[str, float]:
    """Score name → value, for every field of the verdict that is a truth value or a number."""
    return {name: float(value) for name, value in verdict.items() if isinstance(value, bool | int | float)}


def scales_of(reads: AnyReads, reach: Mapping[str, float]) -> dict[str, Scale]:
    """Score name → what it can be. `reach`: score name → the value that the judge asks how many scores reach."""
    if isinstance(reads, ChoiceReads):
        values = [value for value in reads.values().values() if value is not None]
        if not values:
            return {}
        if all(isinstance(value, bool) for value in values):
            return {reads.verdict: Scale(binary=True)}
        return {reads.verdict: Scale(False, min(values), max(values), None, reach.get(reads.verdict))}
    scales: dict[str, Scale] = {}
    for name, kind in reads.verdict_types.items():
        if kind == "boolean":
            scales[name] = Scale(binary=True)
        elif isinstance(reads, ScoresReads):
            scales[name] = Scale(False, reads.low, reads.high, reads.step, reach.get(name))
        elif kind in ("integer", "number") and isinstance(reads, ObjectReads):
            field = reads.properties[name]
            step = 1 if kind == "integer" else None
            scales[name] = Scale(False, field.get("minimum"), field.get("maximum"), step, reach.get(name))
    return scales
