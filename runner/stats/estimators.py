"""Shares, intervals, agreement and percentiles, each from counts that add up.

Pure arithmetic without a frame in sight. Everything here is made from whole-number counts, so that parts of a run can
be counted apart and added; and where there is nothing to average, the answer is None with a reason, never 0.0.

Graded scores: means with intervals and bounds, and whether several means differ beyond chance.

Pure arithmetic on counts that add up: how many scores there are, their sum and the sum of their squares. Nothing is
clamped to a scale: a score beyond its ends counts as it is.

Whether two groups answer alike: exact and approximate tests of tables of counts, in closed form.

Pure arithmetic. Graded scores are compared by `graded.differ`; here are answers that are one of a few.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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


pass  # MOVED-EMPTY

LEAST_GROUP = 10
"""Smaller groups are left out of the test: their means are too far from normal."""
_SAME = 1e-12
"""Relative to the squares: below this the sums' own rounding is all that is left of a variance."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, sum and sum of squares of some scores. Those of parts add up to those of the whole."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.n + other.n, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float | None:
        """None without scores."""
        return self.total / self.n if self.n else None

    @property
    def deviations(self) -> float:
        """Sum of the squared deviations from the mean."""
        if not self.n:
            return 0.0
        found = self.squares - self.total * self.total / self.n
        return found if found > _SAME * self.squares else 0.0

    @property
    def sd(self) -> float | None:
        """The sample's standard deviation (n - 1); None below two scores."""
        return math.sqrt(self.deviations / (self.n - 1)) if self.n > 1 else None


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean with its standard deviation and its 95 % interval.

    The interval is the normal one, mean ± 1.96 sd/√n: rough below some thirty scores. It is None below two scores, and
    where all scores are the same, which says nothing about how far the mean may be off.
    """

    n: int
    value: float | None
    sd: float | None
    interval_low: float | None
    interval_high: float | None


def spread(moments: Moments) -> Spread:
    """The mean of some scores, and how far it may be off."""
    mean, sd = moments.mean, moments.sd
    if mean is None or not sd:
        return Spread(moments.n, mean, sd, None, None)
    half = Z95 * sd / math.sqrt(moments.n)
    return Spread(moments.n, mean, sd, mean - half, mean + half)


@dataclass(frozen=True, slots=True)
class Reach:
    """How many scores are at least `threshold`: `rate` over the scored, `strict` over all that were judged."""

    threshold: float
    rate: Rate
    strict: Rate


@dataclass(frozen=True, slots=True)
class Mean:
    """A graded score: its mean over the scored trials, and its bounds if every unscored trial were worst or best."""

    n: int
    unscored: int
    value: float | None
    low: float | None
    high: float | None
    sd: float | None
    interval_low: float | None
    interval_high: float | None
    """The 95 % interval of the mean over the scored trials (see `Spread`)."""
    at_least: Reach | None
    """None where the judge names no threshold."""


def mean(
    moments: Moments,
    unscored: int,
    worst: float | None,
    best: float | None,
    threshold: float | None = None,
    reached: int = 0,
) -> Mean:
    """Mean and bounds; the bounds are None where the scale's ends are not known or nothing is there to average."""
    n, total = moments.n, moments.total
    everything = n + unscored
    low = high = None
    if everything and unscored == 0:
        low = high = total / n
    elif everything:
        low = None if worst is None else (total + unscored * worst) / everything
        high = None if best is None else (total + unscored * best) / everything
    found = spread(moments)
    reach = None if threshold is None else Reach(threshold, rate(reached, n), rate(reached, everything))
    return Mean(n, unscored, found.value, low, high, found.sd, found.interval_low, found.interval_high, reach)


@dataclass(frozen=True, slots=True)
class Difference:
    """Whether the means of several groups differ: the F test, and how likely so large an F is if they do not."""

    groups: int
    n: int
    f: float | None
    """None: infinite, for within every group all scores are the same."""
    p: float


def differ(groups: Sequence[Moments]) -> Difference | None:
    """One-way analysis of variance over the groups of at least `LEAST_GROUP` scores; None below two of those.

    It takes scores as independent of each other and their variance as the same in every group; that they are normal
    matters little at these sizes. Scores out of one request are not quite independent, nor are repeats of an item.
    Where each request has one score in every group (places in a batch), what its scores share makes the test miss
    differences rather than invent them; between requests (batch sizes) it can make a difference look surer than it is.
    """
    tested = [group for group in groups if group.n >= LEAST_GROUP]
    if len(tested) < 2:
        return None
    whole = sum(tested, Moments())
    within = sum(group.deviations for group in tested)
    between = max(0.0, whole.deviations - within)
    above, below = len(tested) - 1, whole.n - len(tested)
    if between <= _SAME * whole.squares:
        return Difference(len(tested), whole.n, 0.0, 1.0)
    if within == 0.0:
        return Difference(len(tested), whole.n, None, 0.0)
    f = (between / above) / (within / below)
    return Difference(len(tested), whole.n, f, _f_tail(f, above, below))


def _f_tail(f: float, above: int, below: int) -> float:
    """P(F ≥ f) with so many degrees of freedom above and below the line."""
    return _incomplete_beta(below / (below + above * f), below / 2, above / 2)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction where that converges fast."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1.0 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation of the continued fraction of the incomplete beta function."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1) or tiny)
    value = d
    step = 0
    change = 0.0
    # The number of steps grows with the root of the larger of a and b.
    while abs(change - 1.0) > 1e-12 and step < 1_000_000:
        step += 1
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            d = 1.0 / (1.0 + term * d or tiny)
            c = 1.0 + term / c or tiny
            change = c * d
            value *= change
    return value


LARGEST_EXACT = 20_000
"""Tables with more ways to be filled than this have their chi-square tail taken, which is the same there."""
_EQUAL = 1 + 1e-7
"""Two tables as likely as each other but for rounding."""


def fisher(yes: int, no: int, other_yes: int, other_no: int) -> float:
    """P of a difference as unlikely as this between two shares: Fisher's exact test, two-sided.

    For very large tables the chi-square test with Yates' continuity correction.
    """
    first, second, hits = yes + no, other_yes + other_no, yes + other_yes
    low, high = max(0, hits - second), min(hits, first)
    if high - low > LARGEST_EXACT:
        return _yates(yes, no, other_yes, other_no)

    def log_weight(count: int) -> float:
        return -sum(math.lgamma(cell + 1) for cell in (count, first - count, hits - count, second - hits + count))

    weights = [log_weight(count) for count in range(low, high + 1)]
    largest = max(weights)
    total = math.fsum(math.exp(weight - largest) for weight in weights)
    limit = weights[yes - low] + math.log(_EQUAL)
    return min(1.0, math.fsum(math.exp(weight - largest) for weight in weights if weight <= limit) / total)


def chi_square(first: Sequence[int], second: Sequence[int]) -> float | None:
    """P of a difference as large as this between two distributions over the same answers; None where there is none.

    Answers that nobody gave do not count. It is an approximation, rough where few of an answer are expected.
    """
    given = [(one, other) for one, other in zip(first, second, strict=True) if one + other]
    rows = sum(one for one, _ in given), sum(other for _, other in given)
    if len(given) < 2 or not all(rows):
        return None
    whole = sum(rows)
    statistic = math.fsum(
        (count - row * (one + other) / whole) ** 2 / (row * (one + other) / whole)
        for one, other in given
        for count, row in zip((one, other), rows, strict=True)
    )
    return chi_square_tail(statistic, len(given) - 1)


def chi_square_tail(statistic: float, freedom: int) -> float:
    """P(X ≥ statistic) of the chi-square distribution with so many degrees of freedom."""
    if statistic <= 0:
        return 1.0
    half = statistic / 2
    odd = freedom % 2
    terms = (
        math.exp((k - odd / 2) * math.log(half) - half - math.lgamma(k + 1 - odd / 2))
        for k in range(odd, (freedom + odd) // 2)
    )
    return min(1.0, (math.erfc(math.sqrt(half)) if odd else 0.0) + math.fsum(terms))


def _yates(yes: int, no: int, other_yes: int, other_no: int) -> float:
    n = yes + no + other_yes + other_no
    away = max(0.0, abs(yes * other_no - no * other_yes) - n / 2)
    margins = (yes + no) * (other_yes + other_no) * (yes + other_yes) * (no + other_no)
    return chi_square_tail(n * away * away / margins, 1) if margins else 1.0
