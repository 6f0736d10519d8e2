"""Whether groups differ beyond chance: tests on sums that add up, so that no single score is needed.

The distributions are scipy's. It is imported where a test is made: that takes longer than most reports, and few need
it. `scipy.stats` would take two seconds more than `scipy.special`, which has all that these tests look up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from judges import Scale

from .summaries import SAME, Moments, Subset

LEAST_GROUP = 10
"""Smaller groups, or groups of fewer questions, are left out of a test: their means are too far from normal."""
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one group of a judge's verdicts says, against another: a score, or the choice."""

    of: str
    n: int
    other_n: int
    value: float | None
    other: float | None
    """Share of yes, or mean; None of choices."""
    p: float
    """How likely so large a difference is if there is none within any system, with questions as clusters."""


def compare(
    sums: pl.DataFrame, first: Subset, other: Subset, scales: Mapping[str, Scale], labels: Sequence[str]
) -> Iterator[Comparison]:
    """Two groups of trials by each score, or by their choice; nothing where there are too few questions.

    `sums`: of both, per question: measure, name, question, n and total as `select_questions` has them, the `stratum` (a
    system) and whether they are the `first`.
    """
    for name in scales:
        p = difference_p(sums.filter(measure="score", name=name))
        if p is not None:
            one, two = first.of_score(name), other.of_score(name)
            yield Comparison(name, one.n, two.n, one.mean, two.mean, p)
    if labels and not scales:
        chosen = sums.filter(measure="choice")
        whole = chosen.group_by("stratum", "first", "question").agg(pl.col("n").sum())
        named = chosen.select("stratum", "first", "question", "name", "total")
        keys = ["stratum", "first", "question", "name"]
        crossed = whole.join(named.select("name").unique(), how="cross").join(named, on=keys, how="left")
        p = difference_p(crossed.with_columns(pl.col("total").fill_null(0.0)))
        if p is not None:
            yield Comparison("choice", sum(first.choices.values()), sum(other.choices.values()), None, None, p)


def difference_p(sums: pl.DataFrame) -> float | None:
    """P of a difference as large as this between two groups of trials; None where one has too few questions.

    `sums`: stratum, first, question, name of what is compared, n and total. Within each stratum the difference is that
    of the shares or means, and strata weigh n₁n₂ / (n₁ + n₂), as Mantel and Haenszel have it: what differs between
    systems alone is no difference. Its variance is that of the sums per question of each trial's part in it (a score
    test: deviations are from what both groups have in common).
    """
    keys = ["stratum", "first", "question", "name"]
    wide = sums.group_by(keys).agg(pl.col("n", "total").sum())
    sizes = wide.group_by("stratum", "name").agg(
        whole=pl.col("n").sum(),
        mean=pl.col("total").sum() / pl.col("n").sum(),
        ones=pl.col("n").filter("first").sum(),
    )
    # A system with one of the groups alone says nothing of the difference.
    compared = wide.join(
        sizes.filter((pl.col("ones") > 0) & (pl.col("ones") < pl.col("whole"))), on=["stratum", "name"]
    )
    questions = compared.group_by("first").agg(pl.col("question").n_unique())
    if len(questions) < 2 or min(questions["question"]) < LEAST_GROUP:
        return None
    others = 1 - pl.col("ones") / pl.col("whole")
    weight = pl.when("first").then(others).otherwise(others - 1)
    # Sorted, for sums of the same numbers in another order may differ in their last digit.
    parts = compared.with_columns(part=weight * (pl.col("total") - pl.col("n") * pl.col("mean"))).sort(keys)
    columns = parts.pivot("name", index="question", values="part", aggregate_function="sum").drop("question")
    import numpy as np
    from scipy.special import chdtrc

    matrix = columns.fill_null(0.0).to_numpy()
    difference, spread = matrix.sum(axis=0), matrix.T @ matrix
    scale = float(np.trace(spread))
    if scale <= SAME * len(matrix):
        return 1.0
    # Of choices one follows from the others.
    freedom = int(np.linalg.matrix_rank(spread, tol=1e-9 * scale))
    statistic = float(difference @ np.linalg.pinv(spread, rcond=1e-9, hermitian=True) @ difference)
    return float(chdtrc(freedom, statistic))
