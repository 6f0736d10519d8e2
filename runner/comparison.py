"""Two sides that were asked the same, compared: which measures their kinds allow, each with an interval or a reason.

A side says yes or no (1 and 0), gives a number, or chooses a text. Whatever is graded can be cut at a threshold;
without one nothing is cut. Of a judge and people the people are right; of two people neither is, so measures that take
one side for the truth are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judges import Scale

from . import association
from .association import Measured, Values, Weights
from .intervals import Interval, intervals
from .rates import Confusion, Metric, rate

LEVELS = 20
"""Up to so many different values are levels, of which two sides can name the same."""

Found = Sequence[tuple[tuple[float | str, float | str], int]]
"""Pairs of values with their counts."""


@dataclass(frozen=True, slots=True)
class Side:
    """What numbers one side gives."""

    graded: bool
    threshold: float | None = None
    scale: Scale | None = None
    """What a judge declares; None of people."""

    @property
    def can_be_cut(self) -> bool:
        """Whether it is yes or no, or can be made so."""
        return not self.graded or self.threshold is not None

    def cut(self, values: Values) -> Values:
        """As ones and zeros."""
        return np.asarray(values >= self.threshold if self.graded else values == 1, dtype=float)


@dataclass(frozen=True, slots=True)
class _Table:
    """Pairs of numbers with their counts, all above zero."""

    left: Values
    right: Values
    counts: Weights
    people: bool

    def share(self) -> Metric:
        """The share of pairs that are the same, with its Wilson interval."""
        same = rate(int(self.counts[self.left == self.right].sum()), int(self.counts.sum()))
        return Metric(same.value, same.low, same.high, None)

    def measured(self, *names: str) -> dict[str, Metric]:
        """Each measure with its bootstrap interval; where it is undefined, why."""
        values = {name: float(_MEASURES[name](self.left, self.right, self.counts[None, :])[0]) for name in names}
        known = {name: (_MEASURES[name], value) for name, value in values.items() if not np.isnan(value)}
        found = intervals(self.left, self.right, self.counts, known)
        metrics = {}
        for name, value in values.items():
            if name in known:
                interval: Interval = found[name]
                metrics[name] = Metric(value, interval.low, interval.high, interval.reason)
            else:
                metrics[name] = Metric(None, None, None, self._why_undefined(name))
        return metrics

    def _why_undefined(self, name: str) -> str:
        if name in ("kappa", "weighted_kappa"):
            who = "both annotators" if self.people else "judge and humans both"
            return f"{who} gave the same one answer throughout"
        if self.people:
            return "an annotator gave one answer throughout"
        truth_varies = len(np.unique(self.right)) > 1
        return "the judge gave one answer throughout" if truth_varies else "the human labels are all of one class"

    def levels(self, scale: Scale | None) -> str | None:
        """Why the two sides cannot name the same level, if so."""
        distinct = np.unique(np.concatenate([self.left, self.right]))
        if len(distinct) > LEVELS:
            return f"there are more than {LEVELS} different values"
        if scale is not None and not all(_has(scale, float(value)) for value in distinct):
            return "the human labels hold values that the judge's scale does not have"
        return None


_MEASURES: Mapping[str, Callable[[Values, Values, Weights], Measured]] = {
    "kappa": association.kappa,
    "balanced_accuracy": association.balanced_accuracy,
    "mcc": association.mcc,
    "auroc": association.auroc,
    "spearman": association.spearman,
    "mae": association.mae,
    "rmse": association.rmse,
    "weighted_kappa": association.weighted_kappa,
}


def compare_choices(found: Found, people: bool) -> dict[str, Metric]:
    """The measures of two sides that choose."""
    names = {name: place for place, name in enumerate(sorted({str(side) for pair, _ in found for side in pair}))}
    table = _table([((float(names[str(x)]), float(names[str(y)])), n) for (x, y), n in found], people)
    return {"accuracy": table.share(), **table.measured("kappa")}


def compare_numbers(found: Found, left: Side, right: Side, people: bool) -> tuple[dict[str, Metric], Confusion | None]:
    """The measures of two sides of numbers, and their 2x2 table where both are or can be made yes or no."""
    table = _table(found, people)
    metrics: dict[str, Metric] = {}
    confusion = None
    cut = left.can_be_cut and right.can_be_cut
    if cut:
        small, confusion = _two_by_two(left.cut(table.left), right.cut(table.right), table.counts, people)
        metrics["accuracy"] = small.share()
        if people:
            metrics |= small.measured("kappa", "mcc")
        else:
            metrics |= small.measured("kappa", "balanced_accuracy", "mcc", *([] if left.graded else ["auroc"]))
    if left.graded and right.graded:
        metrics |= table.measured("spearman", "mae", "rmse")
        if reason := table.levels(left.scale):
            metrics |= dict.fromkeys(("exact", "weighted_kappa"), Metric(None, None, None, reason))
        else:
            metrics |= {"exact": table.share(), **table.measured("weighted_kappa")}
    elif left.graded and not people:
        metrics |= table.measured("auroc")
    elif not cut:
        metrics |= table.measured("spearman")
    return metrics, confusion


def _table(found: Found, people: bool) -> _Table:
    left = np.array([pair[0] for pair, _ in found], dtype=np.float64)
    right = np.array([pair[1] for pair, _ in found], dtype=np.float64)
    return _Table(left, right, np.array([n for _, n in found], dtype=np.float64), people)


def _two_by_two(left: Values, right: Values, counts: Weights, people: bool) -> tuple[_Table, Confusion]:
    cells = [(x, y) for x in (1.0, 0.0) for y in (1.0, 0.0)]
    summed = [int(counts[(left == x) & (right == y)].sum()) for x, y in cells]
    return _table([(cell, n) for cell, n in zip(cells, summed, strict=True) if n], people), Confusion(*summed)


def _has(scale: Scale, value: float) -> bool:
    if (scale.low is not None and value < scale.low) or (scale.high is not None and value > scale.high):
        return False
    if scale.low is None or scale.step is None:
        return True
    steps = (value - scale.low) / scale.step
    return abs(steps - round(steps)) < 1e-9
