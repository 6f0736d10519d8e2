"""How two columns of paired values agree: the measures that their kinds allow, each with an interval or a reason.

A table of pairs is two arrays of values and one row of weights for each weighting: the counts as they are, or those of
a resample. NaN means that the measure is undefined under that weighting.

A side says yes or no (1 and 0), gives a number, or chooses a text. What is graded can be cut at a threshold. Of a judge
and people the people are right; of two people neither is: measures that take one side for the truth are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judges import Scale

from .estimators import Confusion, Metric, rate, unweighted_interval
from .question_bootstrap import Interval, Joint, Measure, Measured, Values, Weights, intervals, sum_by


def kappa(left: Values, right: Values, weights: Weights) -> Measured:
    """Cohen's kappa of two sides that name classes, however many there are."""
    classes = np.unique(np.concatenate([left, right]))
    total = weights.sum(axis=1)
    same = weights[:, left == right].sum(axis=1) * total
    chance = np.zeros(len(weights))
    for name in classes:
        chance += weights[:, left == name].sum(axis=1) * weights[:, right == name].sum(axis=1)
    return _ratio(same - chance, total * total - chance)


def mcc(left: Values, right: Values, weights: Weights) -> Measured:
    """Matthews' correlation coefficient of two sides of 1 and 0."""
    yes_yes, yes_no, no_yes, no_no = _cells(left, right, weights)
    covariance = yes_yes * no_no - yes_no * no_yes
    sides = (yes_yes + yes_no) * (no_yes + no_no), (yes_yes + no_yes) * (yes_no + no_no)
    return _correlation(covariance, np.sqrt(sides[0]) * np.sqrt(sides[1]))


def balanced_accuracy(left: Values, right: Values, weights: Weights) -> Measured:
    """The mean of the shares of right's ones and of right's zeros that left says too."""
    yes_yes, yes_no, no_yes, no_no = _cells(left, right, weights)
    return (_ratio(yes_yes, yes_yes + no_yes) + _ratio(no_no, no_no + yes_no)) / 2


def auroc(left: Values, right: Values, weights: Weights) -> Measured:
    """How often left is higher for a one of right than for a zero (Mann–Whitney; equal counts half)."""
    yes, place, levels = right == 1, *_levels(left)
    ones = _by_level(weights[:, yes], place[yes], levels)
    zeros = _by_level(weights[:, ~yes], place[~yes], levels)
    below = np.cumsum(zeros, axis=1) - zeros / 2
    return _ratio((ones * below).sum(axis=1), ones.sum(axis=1) * zeros.sum(axis=1))


def spearman(left: Values, right: Values, weights: Weights) -> Measured:
    """Spearman's rank correlation; equal values share the mean of their ranks."""
    (x, x_constant), (y, y_constant) = _ranks(left, weights), _ranks(right, weights)
    total = weights.sum(axis=1, keepdims=True)
    x -= (weights * x).sum(axis=1, keepdims=True) / total
    y -= (weights * y).sum(axis=1, keepdims=True) / total
    spread = (weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1)
    # A side that does not vary has ranks that differ by rounding alone.
    spread[x_constant | y_constant] = 0.0
    return _correlation((weights * x * y).sum(axis=1), np.sqrt(spread))


def mae(left: Values, right: Values, weights: Weights) -> Measured:
    return _ratio(weights @ np.abs(left - right), weights.sum(axis=1))


def rmse(left: Values, right: Values, weights: Weights) -> Measured:
    return np.sqrt(_ratio(weights @ (left - right) ** 2, weights.sum(axis=1)))


def weighted_kappa(left: Values, right: Values, weights: Weights) -> Measured:
    """Cohen's kappa with quadratic weights.

    The weights are the squared differences of the values themselves, so no list of levels is needed: the squared
    difference that is expected by chance follows from the means and the mean squares of the two sides.
    """
    # Around a common middle, so that large values lose no digits.
    middle = (left.mean() + right.mean()) / 2
    x, y = left - middle, right - middle
    total = weights.sum(axis=1)
    observed = weights @ (x - y) ** 2 / total
    chance = weights @ (x * x + y * y) / total - 2 * (weights @ x) * (weights @ y) / (total * total)
    chance[_constant(left, weights) & _constant(right, weights) & (observed == 0)] = 0.0
    return 1 - _ratio(observed, chance)


def _cells(left: Values, right: Values, weights: Weights) -> Iterator[Measured]:
    for x, y in ((1, 1), (1, 0), (0, 1), (0, 0)):
        yield np.asarray(weights[:, (left == x) & (right == y)].sum(axis=1))


def _ratio(part: Measured, whole: Measured) -> Measured:
    """NaN where there is nothing to divide by."""
    return np.asarray(np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole != 0))


def _correlation(part: Measured, whole: Measured) -> Measured:
    # Rounding may carry it past its ends.
    return np.minimum(1.0, np.maximum(-1.0, _ratio(part, whole)))


def _levels(values: Values) -> tuple[NDArray[np.intp], int]:
    """Each value's place among the distinct ones, and how many those are."""
    distinct, place = np.unique(values, return_inverse=True)
    return place, len(distinct)


def _by_level(weights: Weights, place: NDArray[np.intp], levels: int) -> Weights:
    """The weights of each distinct value."""
    summed = np.zeros((len(weights), levels))
    order = np.argsort(place, kind="stable")
    if len(order):
        starts = np.flatnonzero(np.r_[True, np.diff(place[order]) > 0])
        summed[:, place[order][starts]] = np.add.reduceat(weights[:, order], starts, axis=1)
    return summed


def _ranks(values: Values, weights: Weights) -> tuple[Weights, NDArray[np.bool_]]:
    """The middle of the ranks that each value's weight takes up, and where only one value has any weight."""
    place, levels = _levels(values)
    sums = _by_level(weights, place, levels)
    return (np.cumsum(sums, axis=1) - sums / 2)[:, place], (sums > 0).sum(axis=1) <= 1


def _constant(values: Values, weights: Weights) -> NDArray[np.bool_]:
    place, levels = _levels(values)
    return np.asarray((_by_level(weights, place, levels) > 0).sum(axis=1) <= 1)


LEAST_OF_CLASS = 10
"""With fewer questions of one class of the labels no resample shows how much more they could differ."""
CLASSES = {"auroc", "balanced_accuracy"}
LEVELS = 20
"""Up to so many different values are levels, of which two sides can name the same."""

CountedPairs = Sequence[tuple[tuple[float | str, float | str], int]]
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
        return np.asarray(values >= self.threshold if self.graded else values == 1, dtype=float)


@dataclass(frozen=True, slots=True)
class _Table:
    """Pairs of numbers with their counts, all above zero."""

    left: Values
    right: Values
    counts: Weights
    joint: Joint
    people: bool

    def share(self, unscored: Unscored | None = None) -> Metric:
        """The share of pairs that are the same, with its Wilson interval; `unscored` ones are not."""
        same = self.left == self.right
        n = int(self.counts.sum()) + (unscored.n if unscored else 0)
        clusters = self.joint.clusters(same, unscored.by_question if unscored else None)
        found = rate(int(self.counts[same].sum()), n, clusters)
        return Metric(found.value, found.low, found.high, None)

    def measured(self, *names: str) -> dict[str, Metric]:
        """Each measure with its bootstrap interval; where it is undefined, why."""
        values = {name: float(_MEASURES[name](self.left, self.right, self.counts[None, :])[0]) for name in names}
        rare, questions = self._rarest_class(), len(np.unique(self.joint.question))
        known = {
            name: (_MEASURES[name], value, rare if name in CLASSES else questions)
            for name, value in values.items()
            if not np.isnan(value)
        }
        too_rare = CLASSES & known.keys() if rare < LEAST_OF_CLASS else set()
        reason = f"fewer than {LEAST_OF_CLASS} questions have a label of one class"
        drawn = {name: known[name] for name in known if name not in too_rare}
        ends = intervals(self.left, self.right, self.counts, self.joint, drawn)
        ends |= dict.fromkeys(too_rare, Interval(None, None, reason))
        if not too_rare and not self.people and set(self.left) <= {0.0, 1.0}:
            ends |= {name: self._at_least_wilson(ends[name]) for name in CLASSES & known.keys()}
        return {
            name: Metric(value, *ends[name]) if name in known else Metric(None, None, None, self._why_undefined(name))
            for name, value in values.items()
        }

    def _rarest_class(self) -> int:
        """Questions with a yes on the right side, or with a no, whichever are fewer."""
        yes = (self.right == 1)[self.joint.pair]
        return min(len(np.unique(self.joint.question[side])) for side in (yes, ~yes))

    def _at_least_wilson(self, ends: Interval) -> Interval:
        """Not narrower than follows from the share right of each class: few errors make resamples too much alike."""
        shares = []
        for value in (0, 1):
            of_class = self.right == value
            same = of_class & (self.left == value)
            held = Joint(
                self.joint.question, self.joint.pair, self.joint.n * of_class[self.joint.pair], self.joint.questions
            )
            share = rate(int(self.counts[same].sum()), int(self.counts[of_class].sum()), held.clusters(same))
            shares.append((share.value, share.low, share.high))
        low, high = unweighted_interval(shares)
        if ends.low is None or ends.high is None or low is None or high is None:
            return ends
        return Interval(min(low, ends.low), max(high, ends.high))

    def _why_undefined(self, name: str) -> str:
        if name in ("kappa", "weighted_kappa"):
            who = "both annotators" if self.people else "judge and labels both"
            return f"{who} gave the same one answer throughout"
        if self.people:
            return "an annotator gave one answer throughout"
        truth_varies = len(np.unique(self.right)) > 1
        return "the judge gave one answer throughout" if truth_varies else "the labels are all of one class"

    def levels(self, scale: Scale | None) -> str | None:
        """Why the two sides cannot name the same level, if so."""
        distinct = np.unique(np.concatenate([self.left, self.right]))
        if len(distinct) > LEVELS:
            return f"there are more than {LEVELS} different values"
        if scale is not None and not all(_has(scale, float(value)) for value in distinct):
            return "the labels hold values that the judge's scale does not have"
        return None


_ALL_MEASURES: tuple[Any, ...] = (kappa, balanced_accuracy, mcc, auroc, spearman, mae, rmse, weighted_kappa)
_MEASURES: Mapping[str, Measure] = {measure.__name__: measure for measure in _ALL_MEASURES}


@dataclass(frozen=True, slots=True)
class Unscored:
    """Trials with a label that were judged without a score."""

    n: int
    by_question: Weights
    """Of each question of the joint counts."""


def compare_choices(
    pairs: CountedPairs, people: bool, joint: Joint | None = None, unscored: Unscored | None = None
) -> dict[str, Metric]:
    """The measures of two sides that choose."""
    names = {name: place for place, name in enumerate(sorted({str(side) for pair, _ in pairs for side in pair}))}
    table = _table([((float(names[str(x)]), float(names[str(y)])), n) for (x, y), n in pairs], people, joint)
    return {**_accuracy(table, unscored), **table.measured("kappa")}


def compare_numbers(
    pairs: CountedPairs,
    left: Side,
    right: Side,
    people: bool,
    joint: Joint | None = None,
    unscored: Unscored | None = None,
) -> tuple[dict[str, Metric], Confusion | None]:
    """The measures of two sides of numbers, and their 2x2 table where both are or can be made yes or no.

    `joint`: the pairs by question; without it each is of a question of its own.
    """
    table = _table(pairs, people, joint)
    metrics: dict[str, Metric] = {}
    confusion = None
    cut = left.can_be_cut and right.can_be_cut
    if cut:
        small, confusion = _two_by_two(left.cut(table.left), right.cut(table.right), table)
        metrics |= _accuracy(small, unscored)
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


def _accuracy(table: _Table, unscored: Unscored | None) -> dict[str, Metric]:
    """Over the scored trials; and strictly, where trials without a score count as disagreement."""
    metrics = {"accuracy": table.share()}
    return metrics | {"strict_accuracy": table.share(unscored)} if unscored and unscored.n else metrics


def _table(pairs: CountedPairs, people: bool, joint: Joint | None = None) -> _Table:
    left = np.array([pair[0] for pair, _ in pairs], dtype=np.float64)
    right = np.array([pair[1] for pair, _ in pairs], dtype=np.float64)
    counts = np.array([n for _, n in pairs], dtype=np.float64)
    if joint is None:
        n = int(counts.sum())
        places = np.repeat(np.arange(len(counts)), counts.astype(np.intp))
        joint = Joint(np.arange(n), places, np.ones(n), n)
    return _Table(left, right, counts, joint, people)


def _two_by_two(left: Values, right: Values, table: _Table) -> tuple[_Table, Confusion]:
    places = (2 * (left == 0) + (right == 0)).astype(np.intp)
    counts = sum_by(places, table.counts, 4)
    held = np.flatnonzero(counts)
    joint = table.joint.put(np.searchsorted(held, places))
    sides = 1.0 - held // 2, 1.0 - held % 2
    return _Table(*sides, counts[held], joint, table.people), Confusion(*(int(n) for n in counts))


def _has(scale: Scale, value: float) -> bool:
    if (scale.low is not None and value < scale.low) or (scale.high is not None and value > scale.high):
        return False
    if scale.low is None or scale.step is None:
        return True
    steps = (value - scale.low) / scale.step
    return abs(steps - round(steps)) < 1e-9
