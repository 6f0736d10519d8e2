"""What several annotators said of the same items: pairs of labels of one score, counted over distinct items.

Read from the staged items and not from the trials, of which an item has as many as judges, models and repeats ask about
it, or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import orjson

from .labels import Label
from .staged import Staged

ROWS = 20_000


def people(
    staged: Staged, rows: int, labels: Mapping[str, Label]
) -> dict[tuple[str, str], dict[str, Counter[tuple[float | str, float | str]]]]:
    """(first label, second label) → system → what both said of the first `rows` staged items → items."""
    compared = [
        (first, second)
        for first, second in combinations(labels, 2)
        if labels[first].score(first) == labels[second].score(second)
        # Numbers and texts have nothing in common; yes and no are numbers here.
        and (labels[first].type == "choice") == (labels[second].type == "choice")
    ]
    found: dict[tuple[str, str], dict[str, Counter[tuple[float | str, float | str]]]] = {}
    for start in range(0, rows if compared else 0, ROWS):
        frame = staged.frame(start, min(ROWS, rows - start), ["system", "labels"])
        for system, data, items in frame.group_by("system", "labels").len().iter_rows():
            said: dict[str, Any] = orjson.loads(data)
            for first, second in compared:
                if first in said and second in said:
                    counts = found.setdefault((first, second), {}).setdefault(system, Counter())
                    counts[_value(said[first]), _value(said[second])] += items
    return {pair: found[pair] for pair in compared if pair in found}


def _value(value: Any) -> float | str:
    return value if isinstance(value, str) else float(value)
