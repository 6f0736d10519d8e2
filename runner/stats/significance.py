"""Whether groups differ beyond chance: tests on counts and moments that add up, so that no single score is needed.

The distributions are scipy's. It is imported where a test is made: that takes longer than most reports, and few need
it. `scipy.stats` would take two seconds more than `scipy.special`, which has all that these tests look up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .summaries import SAME, Moments

LEAST_GROUP = 10
"""Smaller groups are left out of a test: their means are too far from normal."""
BEYOND_CHANCE = 0.01
"""A difference less likely than this without a cause is reported."""


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
    if between <= SAME * whole.squares:
        return Difference(len(tested), whole.n, 0.0, 1.0)
    if within == 0.0:
        return Difference(len(tested), whole.n, None, 0.0)
    from scipy.special import fdtrc

    f = (between / above) / (within / below)
    return Difference(len(tested), whole.n, f, float(fdtrc(above, below, f)))


def fisher(yes: int, no: int, other_yes: int, other_no: int) -> float:
    """P of a difference as unlikely as this between two shares: Fisher's exact test, two-sided."""
    import numpy as np
    from scipy.special import gammaln

    first, second, hits = yes + no, other_yes + other_no, yes + other_yes
    low = max(0, hits - second)
    counts = np.arange(low, min(hits, first) + 1)
    logs = -sum(gammaln(cells + 1.0) for cells in (counts, first - counts, hits - counts, second - hits + counts))
    weights = np.exp(logs - logs.max())
    # Tables as likely as the one found count too, whatever rounding makes of them.
    unlikely = weights[logs <= logs[yes - low] + 1e-7]
    return min(1.0, float(unlikely.sum() / weights.sum()))


def chi_square(first: Sequence[int], second: Sequence[int]) -> float | None:
    """P of a difference as large as this between two distributions over the same answers; None where there is none.

    Answers that nobody gave do not count. It is an approximation, rough where few of an answer are expected.
    """
    given = [(one, other) for one, other in zip(first, second, strict=True) if one + other]
    rows = sum(one for one, _ in given), sum(other for _, other in given)
    if len(given) < 2 or not all(rows):
        return None
    from scipy.special import chdtrc

    whole = sum(rows)
    statistic = math.fsum(
        (count - row * (one + other) / whole) ** 2 / (row * (one + other) / whole)
        for one, other in given
        for count, row in zip((one, other), rows, strict=True)
    )
    return float(chdtrc(len(given) - 1, statistic))
