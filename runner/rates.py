"""Shares, intervals, agreement and percentiles, each from counts that add up.

Pure arithmetic without a frame in sight. Everything here is made from whole-number counts, so that parts of a run can
be counted apart and added; and where there is nothing to average, the answer is None with a reason, never 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

BUCKET_BASE = 1.02
"""Width of a histogram bucket: a percentile read from it is off by at most (base - 1) / (base + 1), below 1 %."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`hits` of `n`, with a 95 % Wilson interval; all None where n is 0."""

    hits: int
    n: int
    value: float | None
    low: float | None
    high: float | None


def rate(hits: int, n: int) -> Rate:
    """The share of hits, with its Wilson score interval."""
    if n == 0:
        return Rate(hits, n, None, None, None)
    share = hits / n
    z2 = Z95 * Z95
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At the ends the formula is exact, its floating point is not.
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    high = 1.0 if hits == n else min(1.0, centre + half)
    return Rate(hits, n, share, low, high)


@dataclass(frozen=True, slots=True)
class Mean:
    """A graded score: its mean over the scored trials, and its bounds if every unscored trial were worst or best."""

    n: int
    unscored: int
    value: float | None
    low: float | None
    high: float | None


def mean(total: float, n: int, unscored: int, worst: float | None, best: float | None) -> Mean:
    """Mean and bounds; the bounds are None where the scale's ends are not known or nothing is there to average."""
    everything = n + unscored
    low = high = None
    if everything and unscored == 0:
        low = high = total / n
    elif everything:
        low = None if worst is None else (total + unscored * worst) / everything
        high = None if best is None else (total + unscored * best) / everything
    return Mean(n, unscored, total / n if n else None, low, high)


@dataclass(frozen=True, slots=True)
class Confusion:
    """Judge against human, as a 2x2 table of counts (`judge_human`)."""

    yes_yes: int
    yes_no: int
    no_yes: int
    no_no: int

    @property
    def n(self) -> int:
        """Pairs in all."""
        return self.yes_yes + self.yes_no + self.no_yes + self.no_no

    @property
    def accuracy(self) -> Rate:
        """Share of pairs in which both say the same."""
        return rate(self.yes_yes + self.no_no, self.n)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa; None where it is undefined (see `undefined`)."""
        if self.undefined:
            return None
        judge_yes, human_yes = self.yes_yes + self.yes_no, self.yes_yes + self.no_yes
        observed = (self.yes_yes + self.no_no) / self.n
        chance = (judge_yes * human_yes + (self.n - judge_yes) * (self.n - human_yes)) / (self.n * self.n)
        return (observed - chance) / (1 - chance)

    @property
    def undefined(self) -> str | None:
        """Why kappa cannot be computed, if so: without variation on both sides agreement by chance is certain."""
        if self.n == 0:
            return "no item has both a verdict and a label"
        if self.yes_yes == self.n or self.no_no == self.n:
            return "judge and humans both gave the same one answer throughout"
        return None


def percentile(buckets: Iterable[tuple[int, int]], share: float) -> float | None:
    """The percentile of a histogram of (bucket, count), where bucket b holds values in (base**(b-1), base**b]."""
    ordered = sorted(buckets)
    total = sum(count for _, count in ordered)
    if total == 0:
        return None
    rank = max(1, math.ceil(share * total))
    seen = 0
    for bucket, count in ordered:
        seen += count
        if seen >= rank:
            # The point with the same relative distance to both ends of the bucket.
            return float(2 * BUCKET_BASE**bucket / (BUCKET_BASE + 1))
    raise AssertionError("rank lies beyond the total")


def unweighted(values: Mapping[str | None, float | None]) -> float | None:
    """The mean over groups, each counting the same; None where there is none, or one of them has no value yet."""
    known = [value for value in values.values() if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known) / len(known)
