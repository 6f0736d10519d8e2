"""What a verdict is worth: named scores out of its typed fields.

Only what is there becomes a number: true and false are 1 and 0, numbers are themselves, words are no score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def scores_of(verdict: Mapping[str, Any]) -> dict[str, float]:
    """Score name → value, for every field of the verdict that is a truth value or a number."""
    return {name: float(value) for name, value in verdict.items() if isinstance(value, bool | int | float)}
