"""Shares with their intervals, percentiles and unweighted means, from whole-number counts.

Counts of parts add up to those of the whole. Where there is nothing to average the answer is None, never 0.0.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

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
    if n == 0:
        return Rate(hits, n, None, None, None)
    return Rate(hits, n, hits / n, *wilson(hits / n, n))


def wilson(share: float, n: float) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share of n, which need not be whole."""
    z2 = Z95 * Z95
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At the ends the formula is exact, its floating point is not.
    return 0.0 if share == 0 else max(0.0, centre - half), 1.0 if share == 1 else min(1.0, centre + half)


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
