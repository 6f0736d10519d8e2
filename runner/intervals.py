"""95 % intervals of measures that have no formula for one: a percentile bootstrap over the table of joint counts.

The pairs are resampled with replacement, 1,000 times with a fixed seed, so that a report says the same each time. Pairs
are taken as independent of each other: repeats of a trial, and many answers to one question, make the true interval
wider.

The cost is bounded. Up to `CELLS` distinct pairs, a resample is a multinomial draw of the counts. Above that (scores
without levels) it is a draw of `PICKS` pairs, and the deviations from the value are shrunk by the root of `PICKS` / n
(the m-out-of-n bootstrap): the same width for every measure whose error falls with the root of n, as it does for all of
`association`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from .association import Measured, Values, Weights

DRAWS = 1_000
CELLS = 2_000
PICKS = 2_000
SEED = 0
DEFINED = 0.9
"""Least share of the resamples under which a measure must be defined to have an interval."""
_CHUNK = 100

Measure = Callable[[Values, Values, Weights], Measured]


class Interval(NamedTuple):
    """Its ends, or why there is none."""

    low: float | None
    high: float | None
    reason: str | None = None


def intervals(
    left: Values, right: Values, counts: Weights, measures: Mapping[str, tuple[Measure, float]]
) -> dict[str, Interval]:
    """The interval of each measure. `measures`: name → the measure and its value over all pairs."""
    if not measures:
        return {}
    draw = _multinomial if len(counts) <= CELLS else _picks
    drawn: dict[str, list[Measured]] = {name: [] for name in measures}
    total = float(counts.sum())
    for x, y, weights in draw(left, right, counts):
        for name, (measure, _) in measures.items():
            drawn[name].append(measure(x, y, weights))
    shrink = 1.0 if len(counts) <= CELLS else float(np.sqrt(PICKS / total))
    return {
        name: _interval(value + (np.concatenate(drawn[name]) - value) * shrink) for name, (_, value) in measures.items()
    }


def _interval(values: Measured) -> Interval:
    known = values[~np.isnan(values)]
    if len(known) < DEFINED * len(values):
        return Interval(None, None, "it is undefined in many resamples")
    if np.ptp(known) < 1e-12:
        return Interval(None, None, "every resample gives the same value")
    low, high = np.quantile(known, (0.025, 0.975))
    return Interval(float(low), float(high))


Draws = Iterator[tuple[Values, Values, Weights]]


def _multinomial(left: Values, right: Values, counts: Weights) -> Draws:
    """All pairs, a few resamples at a time."""
    rng = np.random.default_rng(SEED)
    n = int(counts.sum())
    for start in range(0, DRAWS, _CHUNK):
        size = min(_CHUNK, DRAWS - start)
        yield left, right, rng.multinomial(n, counts / n, size=size).astype(np.float64)


def _picks(left: Values, right: Values, counts: Weights) -> Draws:
    """One resample at a time: `PICKS` pairs of weight one each."""
    rng = np.random.default_rng(SEED)
    ends = np.cumsum(counts)
    once = np.ones((1, PICKS))
    for _ in range(DRAWS):
        # Sorted, since looking up neighbours is much faster.
        picked = np.searchsorted(ends, np.sort(rng.random(PICKS)) * ends[-1], side="right")
        yield left[picked], right[picked], once
