"""The groups of items that one system, by one judge and model, does best and worst on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from .estimators import Z95
from .metrics import Result
from .significance import LEAST_GROUP
from .summaries import ScoreSummary


@dataclass(frozen=True, slots=True)
class GroupGap:
    judge: str
    model: str
    system: str
    score: str
    high_group: str | None
    high: ScoreSummary
    low_group: str | None
    low: ScoreSummary
    gap: float
    compared: int
    """Pairs of groups of which this is the widest, over all systems, judges and models."""
    beyond_chance: bool
    """Whether groups that are alike would seldom differ so far, with as many to choose from."""


def widest_gap(results: Iterable[Result]) -> GroupGap | None:
    """Of groups with at least `LEAST_GROUP` scored trials; None where no result has two, or all are alike."""
    entries = list(_gaps(results))
    if not entries:
        return None
    compared = sum(entry.compared for entry in entries)
    # Gaps of other scales than 0 to 1 are no measure for these.
    widest = max(entries, key=lambda entry: (entry.high.kind == "binary", entry.gap))
    return replace(widest, compared=compared, beyond_chance=_is_beyond_chance(widest, compared))


def _gaps(results: Iterable[Result]) -> Iterator[GroupGap]:
    """The widest of each result and score, with the number of pairs that it was chosen from."""
    for result in results:
        for name in result.overall.scores:
            lines = ((group, line.scores[name]) for group, line in result.groups.items() if name in line.scores)
            held = [(entry.value, group, entry) for group, entry in lines if entry.n >= LEAST_GROUP]
            known = [(value, group, entry) for value, group, entry in held if value is not None]
            if len(known) < 2:
                continue
            high, low = max(known, key=lambda each: each[0]), min(known, key=lambda each: each[0])
            if high[0] > low[0]:
                pairs = len(list(combinations(known, 2)))
                yield GroupGap(
                    result.judge, result.model, result.system, name, high[1], high[2], low[1], low[2],
                    high[0] - low[0], pairs, False,
                )  # fmt: skip


def _is_beyond_chance(gap: GroupGap, compared: int) -> bool:
    """By the lower end of the difference's interval (MOVER), as wide as for so many comparisons (Bonferroni)."""
    high, low = gap.high, gap.low
    if high.value is None or high.low is None or low.value is None or low.high is None:
        return False
    from scipy.special import ndtri

    half = math.hypot(high.value - high.low, low.high - low.value) / Z95
    return gap.gap > half * float(ndtri(1 - 0.025 / compared))
