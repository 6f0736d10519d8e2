"""Intervals of measures over pairs of values, by drawing questions again with all their pairs.

Intervals without a formula are a percentile bootstrap of questions, each with all its pairs, with a fixed seed, so that
a report says the same each time; the percentiles are those of Student's t, for a few questions vary less among
themselves than in truth. Questions with the same pairs are drawn together: up to `CELLS` such kinds a resample is a
multinomial draw of them; above that one of so many questions as have `PICKS` rows, whose deviations from the value are
shrunk by the root of their share (the m-out-of-n bootstrap).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .estimators import Clusters, student

Values = NDArray[Any]
Weights = NDArray[np.float64]
"""A row for each weighting, a column for each pair."""
Measured = NDArray[np.float64]
"""One number for each weighting."""
Measure = Callable[[Values, Values, Weights], Measured]

DRAWS = 1_000
CELLS = 2_000
PICKS = 2_000
LEAST_PICKS = 200
"""Questions that a resample has at least, if there are so many."""
SEED = 0
DEFINED = 0.9
"""Least share of the resamples under which a measure must be defined to have an interval."""
_CHUNK = 100


class Interval(NamedTuple):
    """Its ends, or why there is none."""

    low: float | None
    high: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Joint:
    """How often each question has each pair: a row for both, of all questions or a sample of them."""

    question: NDArray[np.intp]
    """Its number, in order."""
    pair: NDArray[np.intp]
    """Its place in the table."""
    n: NDArray[np.float64]
    questions: int
    """As many numbers as there are; some may have no pair."""

    @classmethod
    def of(cls, question: Values, pair: Values, n: Values, questions: int) -> Joint:
        """Rows of one question and pair are added up."""
        pairs = int(pair.max(initial=0)) + 1
        keys, place = np.unique(question.astype(np.intp) * pairs + pair, return_inverse=True)
        return cls(keys // pairs, keys % pairs, sum_by(place, n, len(keys)), questions)

    def with_pairs(self) -> Joint:
        """Without the questions that have none."""
        numbers, question = np.unique(self.question, return_inverse=True)
        return Joint(question, self.pair, self.n, len(numbers))

    def put(self, places: NDArray[np.intp]) -> Joint:
        """With another place for each pair, which several may share."""
        return Joint.of(self.question, places[self.pair], self.n, self.questions)

    def clusters(self, hits: Values, unscored: Values | None = None) -> Clusters | None:
        """Of the share of `hits` among the pairs, and what is `unscored` of each of these questions."""
        above = sum_by(self.question, self.n * hits[self.pair], self.questions)
        below = sum_by(self.question, self.n, self.questions) + (0 if unscored is None else unscored)
        asked = below > 0
        questions, n = int(asked.sum()), float(below.sum())
        if not n:
            return None
        residual = above - below * (above.sum() / n)
        spread = float(residual @ residual)
        error = math.sqrt(spread * questions / (questions - 1)) / n if questions > 1 else None
        return Clusters(questions, round(n), error)

    def rows_of(self, questions: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Every row of each of these questions, and whose it is, by place among them."""
        ends = np.searchsorted(self.question, questions, side="right")
        starts = np.searchsorted(self.question, questions)
        sizes = ends - starts
        owner = np.repeat(np.arange(len(questions)), sizes)
        return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[owner], owner

    def kinds(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """A question of each kind that has the same pairs equally often, and how many are of it."""
        mixed = (self.pair.astype(np.uint64) << np.uint64(32)) + self.n.astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        sums = np.add.reduceat(mixed, np.searchsorted(self.question, np.arange(self.questions)))
        _, first, counts = np.unique(sums, return_index=True, return_counts=True)
        return first, counts.astype(np.float64)


def sum_by(place: NDArray[np.intp], values: Values, places: int) -> Measured:
    return np.asarray(np.bincount(place, values, places), dtype=np.float64)


def intervals(
    left: Values, right: Values, counts: Weights, joint: Joint, measures: Mapping[str, tuple[Measure, float, int]]
) -> dict[str, Interval]:
    """The interval of each measure.

    `measures`: name → the measure, its value over all pairs, and from how many questions it is known.
    """
    joint = joint.with_pairs()
    questions = joint.questions
    if questions < 2:
        return dict.fromkeys(measures, Interval(None, None, "there is only one question"))
    drawn: dict[str, list[Measured]] = {name: [] for name in measures}
    kinds, repeats = joint.kinds()
    if max(len(kinds), len(counts)) <= CELLS:
        picks, draws = questions, _multinomial(left, right, joint, kinds, repeats)
    else:
        picks = min(questions, max(LEAST_PICKS, round(PICKS * questions / len(joint.pair))))
        draws = (_picks_whole if len(counts) <= CELLS else _picks)(left, right, joint, picks)
    for x, y, weights in draws if measures else ():
        for name, (measure, _, _) in measures.items():
            drawn[name].append(measure(x, y, weights))
    sample = sum_by(joint.pair, joint.n, len(counts))
    shrink = math.sqrt(picks / questions * sample.sum() / counts.sum())
    found = {}
    for name, (measure, value, few) in measures.items():
        ends = student(few - 1) * math.sqrt(few / (few - 1))
        centre = float(measure(left, right, sample[None, :])[0])
        found[name] = _interval(value + (np.concatenate(drawn[name]) - centre) * shrink, ends)
    return found


def _interval(values: Measured, ends: float) -> Interval:
    """`ends`: how many standard errors away they would be of a normal distribution."""
    known = values[~np.isnan(values)]
    if len(known) < DEFINED * len(values):
        return Interval(None, None, "it is undefined in many resamples")
    if np.ptp(known) < 1e-12:
        return Interval(None, None, "every resample gives the same value")
    below = math.erfc(ends / math.sqrt(2)) / 2
    low, high = np.quantile(known, (below, 1 - below))
    return Interval(float(low), float(high))


Draws = Iterator[tuple[Values, Values, Weights]]


def _multinomial(left: Values, right: Values, joint: Joint, kinds: NDArray[np.intp], repeats: Measured) -> Draws:
    """All questions, a few resamples at a time."""
    rng = np.random.default_rng(SEED)
    rows, owner = joint.rows_of(kinds)
    held = np.zeros((len(kinds), len(left)))
    held[owner, joint.pair[rows]] = joint.n[rows]
    for start in range(0, DRAWS, _CHUNK):
        drawn = rng.multinomial(joint.questions, repeats / repeats.sum(), size=min(_CHUNK, DRAWS - start))
        yield left, right, drawn.astype(np.float64) @ held


def _picks_whole(left: Values, right: Values, joint: Joint, picks: int) -> Draws:
    """So many questions a resample, a few resamples at a time, as weights of the whole table."""
    rng = np.random.default_rng(SEED)
    for start in range(0, DRAWS, _CHUNK):
        size = min(_CHUNK, DRAWS - start)
        rows, owner = joint.rows_of(rng.integers(0, joint.questions, size * picks))
        places = owner // picks * len(left) + joint.pair[rows]
        yield left, right, sum_by(places, joint.n[rows], size * len(left)).reshape(size, len(left))


def _picks(left: Values, right: Values, joint: Joint, picks: int) -> Draws:
    """So many questions a resample, one at a time, with their own rows alone."""
    rng = np.random.default_rng(SEED)
    for _ in range(DRAWS):
        # Sorted, since looking up neighbours is much faster.
        rows, _owner = joint.rows_of(np.sort(rng.integers(0, joint.questions, picks)))
        pair, n = joint.pair[rows], joint.n[rows]
        yield left[pair], right[pair], n[None, :]
