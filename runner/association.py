"""How two columns of paired values agree: each measure over many weightings of the same pairs at once.

A table of pairs is two arrays of values and one row of weights for each weighting: the counts as they were found, or
those of a resample, so that a value and its interval are the same arithmetic. NaN means that the measure is undefined
under that weighting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Weights = NDArray[np.float64]
"""A row for each weighting, a column for each pair."""
Measured = NDArray[np.float64]
"""One number for each weighting."""


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
    """The mean absolute difference."""
    return _ratio(weights @ np.abs(left - right), weights.sum(axis=1))


def rmse(left: Values, right: Values, weights: Weights) -> Measured:
    """The root of the mean squared difference."""
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


def _cells(left: Values, right: Values, weights: Weights) -> tuple[Measured, Measured, Measured, Measured]:
    def at(x: int, y: int) -> Measured:
        return np.asarray(weights[:, (left == x) & (right == y)].sum(axis=1))

    return at(1, 1), at(1, 0), at(0, 1), at(0, 0)


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
    """Where a side has only one value with any weight."""
    place, levels = _levels(values)
    return np.asarray((_by_level(weights, place, levels) > 0).sum(axis=1) <= 1)
