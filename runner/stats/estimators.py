"""Shares, means and unweighted means with their 95 % intervals, and percentiles.

Counts of parts add up to those of the whole. Where there is nothing to average the answer is None, never 0.0. Several
answers to one question, and several judgments of an answer, are no independent evidence: where there are such, an
interval is that of as many independent trials as would vary as the sums per question do (`Clusters`).
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

BUCKET_BASE = 1.02
"""Width of a histogram bucket: a percentile read from it is off by at most (base - 1) / (base + 1), below 1 %."""


LEAST_QUESTIONS = 10
"""From fewer questions of a sample nothing is made of how alike answers to one question are."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`hits` of `n`, with a 95 % Wilson interval; all None where n is 0."""

    hits: int
    n: int
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Clusters:
    """How a share or a mean varies from question to question, in all its trials or a sample of the questions."""

    questions: int
    n: int
    """Trials of these questions."""
    error: float | None
    """The linearized standard error with questions as clusters, of these trials; None below two questions."""

    @property
    def single(self) -> bool:
        """Whether every question has one trial: they are independent."""
        return self.questions == self.n

    def variance(self, of_one: float, n: int) -> float:
        """Of the share or mean over all `n` trials; `of_one`: that of a single trial. Never below that of n alone."""
        sampled = self.n < n
        if self.error is None or of_one == 0 or (sampled and self.questions < LEAST_QUESTIONS):
            # They do not tell how far one question's trials go together: entirely, to be safe.
            return of_one / self.count(n)
        return max(of_one / n, self.error * self.error * self.n / n)

    def count(self, n: int) -> float:
        """The questions of all `n` trials."""
        return self.questions * n / self.n


def rate(hits: int, n: int, clusters: Clusters | None = None) -> Rate:
    if n == 0:
        return Rate(hits, n, None, None, None)
    share = hits / n
    if clusters is None or clusters.single:
        return Rate(hits, n, share, *wilson(share, n))
    questions = clusters.count(n)
    if questions < 2:
        return Rate(hits, n, share, None, None)
    one = share * (1 - share)
    effective = one / clusters.variance(one, n) if one else questions
    # The variance is itself estimated, from so many questions.
    return Rate(hits, n, share, *wilson(share, effective * (Z95 / student(questions - 1)) ** 2))


def wilson(share: float, n: float) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share of n, which need not be whole."""
    z2 = Z95 * Z95
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At the ends the formula is exact, its floating point is not.
    return 0.0 if share == 0 else max(0.0, centre - half), 1.0 if share == 1 else min(1.0, centre + half)


def student(freedom: float) -> float:
    """Two-sided 95 % quantile of Student's t."""
    # Half a second less to import than the whole; and only where it is needed.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


Ends = tuple[float | None, float | None]


def unweighted_interval(parts: Sequence[tuple[float | None, float | None, float | None]]) -> Ends:
    """Of the mean over groups that have no question in common, from the value and the interval of each (MOVER)."""
    below = above = 0.0
    for value, low, high in parts:
        if value is None or low is None or high is None:
            return None, None
        below, above = below + (value - low) ** 2, above + (high - value) ** 2
    mean = unweighted(value for value, _, _ in parts)
    if mean is None:
        return None, None
    return mean - math.sqrt(below) / len(parts), mean + math.sqrt(above) / len(parts)


@dataclass(frozen=True, slots=True)
class Metric:
    """A measure of agreement with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None
    reason: str | None
    """Why the value, or where there is one the interval, is None."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """One side against the other, as a 2x2 table of counts: judge and human, or the first and the second annotator."""

    yes_yes: int
    yes_no: int
    no_yes: int
    no_no: int


def percentile(buckets: Iterable[tuple[int, int]], share: float) -> float | None:
    """The percentile of a histogram of (bucket, count), where bucket b holds values in (base**(b-1), base**b]."""
    ordered = sorted(buckets)
    seen = list(accumulate(count for _, count in ordered))
    if not seen or not seen[-1]:
        return None
    bucket, _ = ordered[bisect_left(seen, max(1, math.ceil(share * seen[-1])))]
    # The point with the same relative distance to both ends of the bucket.
    return float(2 * BUCKET_BASE**bucket / (BUCKET_BASE + 1))


def unweighted(values: Iterable[float | None]) -> float | None:
    """The mean over groups, each counting the same; None where there is none, or one of them has no value yet."""
    held = list(values)
    known = [value for value in held if value is not None]
    return sum(known) / len(known) if known and len(known) == len(held) else None
