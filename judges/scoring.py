"""What a verdict is worth: named scores out of its typed fields, and the scale that each is on.

Only what is there becomes a number: true and false are 1 and 0, numbers are themselves, words are no score, unless the
judge gives its labels values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
