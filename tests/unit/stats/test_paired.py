"""Paired differences: against other programs' arithmetic, and how often their intervals and tests are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from judges import Scale
from runner.stats.paired import (
    PairedDifference,
    compare_two,
    flip_interval,
    mcnemar_p,
    paired_differences,
    questions_to_settle,
)

YES = {"j": {"correct": Scale(binary=True)}}
GRADES = {"j": {"correct": Scale(False, 0.0, 5.0)}}


def sums(values: Mapping[str, Sequence[Any]], n: int = 1) -> pl.DataFrame:
    """System → its value of each question; None where it has no score."""
    rows = [
        ("j", "m", system, "correct", question, n, float(value) * n)
        for system, held in values.items()
        for question, value in enumerate(held)
        if value is not None
    ]
    return pl.DataFrame(rows, schema=["judge", "model", "system", "name", "question", "n", "total"], orient="row")


def compare(table: pl.DataFrame, scales: Any = YES) -> PairedDifference:
    [pair] = compare_two(table, scales, "a", "b")
    return pair


def counts_of(table: pl.DataFrame, scored: int | None = None) -> dict[str, pl.DataFrame]:
    """What `count` makes of trials with these sums: a context of each system."""
    context = pl.struct("judge", "model", "system").rank("dense")
    rows = table.with_columns(context=context, question=pl.col("question").cast(pl.UInt64), reached=pl.lit(0))
    contexts = (
        rows.select("context", "judge", "model", "system", "name")
        .unique()
        .with_columns(is_control=pl.lit(False), measure=pl.lit("score"), slices=pl.lit([], pl.List(pl.String)))
    )
    whole = table.group_by("judge", "model", "system", "name").agg(pl.col("n").sum())
    cells = whole.rename({"name": "score"}).with_columns(slice=pl.lit(None, pl.String))
    if scored is not None:
        cells = cells.with_columns(n=pl.lit(scored))
    return {
        "questions": rows.select("context", "question", "n", "total", "reached"),
        "contexts": contexts,
        "cells.scores": cells,
    }


def test_one_yes_or_no_a_question_is_mcnemars_test() -> None:
    first, second = [1] * 30 + [1] * 14 + [0] * 5 + [0] * 21, [1] * 30 + [0] * 14 + [1] * 5 + [0] * 21
    pair = compare(sums({"a": first, "b": second}))
    assert (pair.questions, pair.won, pair.lost, pair.test) == (70, 14, 5, "McNemar")
    assert pair.difference == pytest.approx(9 / 70)
    assert [pair.first_value, pair.second_value] == pytest.approx([44 / 70, 35 / 70])
    assert pair.p == pytest.approx(stats.binomtest(5, 19, 0.5).pvalue)
    assert pair.low is not None and pair.high is not None
    assert pair.low < 9 / 70 < pair.high


def test_no_flip_is_no_difference() -> None:
    pair = compare(sums({"a": [1, 0] * 20, "b": [1, 0] * 20}))
    assert (pair.p, pair.won, pair.lost, pair.difference, pair.questions_to_settle) == (1.0, 0, 0, 0.0, None)
    assert pair.low is not None and pair.high is not None and pair.low == -pair.high < 0


def test_grades_and_several_answers_are_students_test_of_the_questions() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 6, 50), rng.integers(0, 6, 50)
    pair = compare(sums({"a": list(first), "b": list(second)}), GRADES)
    own = stats.ttest_rel(first, second)
    ends = own.confidence_interval()
    assert pair.test == "t"
    assert [pair.p, pair.low, pair.high] == pytest.approx([own.pvalue, ends.low, ends.high])
    shares = compare(sums({"a": list(first / 5), "b": list(second / 5)}, n=5))
    assert shares.test == "t" and shares.p == pytest.approx(own.pvalue)


def test_only_questions_that_both_were_scored_on_count() -> None:
    pair = compare(sums({"a": [1] * 20 + [None] * 5, "b": [None] * 5 + [0] * 20}))
    assert (pair.questions, pair.won, pair.difference) == (15, 15, 1.0)
    none = compare(sums({"a": [1, 1, None], "b": [None, None, 1]}))
    assert (none.questions, none.difference, none.p, none.low) == (0, None, None, None)


def test_few_grades_are_not_tested() -> None:
    pair = compare(sums({"a": [1, 2, 3, 4], "b": [2, 2, 4, 0]}), GRADES)
    assert (pair.p, pair.test) == (None, None)
    assert not pair.settled


def test_so_many_questions_do_settle_it() -> None:
    """With as many questions as it says the test tells the difference about four times in five."""
    needed = questions_to_settle(0.05, 0.25, 1, True)
    assert needed is not None
    rng = np.random.default_rng(2)
    flips = (rng.multinomial(needed, [0.15125, 0.10125, 0.7475]) for _ in range(400))
    settled = sum(mcnemar_p(int(won), int(lost)) < 0.05 for won, lost, _ in flips)
    assert 0.75 < settled / 400 < 0.88
    large = questions_to_settle(0.4, 0.3, 1, True)
    assert large is not None
    flips = (rng.multinomial(large, [0.43, 0.03, 0.54]) for _ in range(400))
    assert sum(mcnemar_p(int(won), int(lost)) < 0.05 for won, lost, _ in flips) / 400 > 0.72
    assert questions_to_settle(0.0, 0.25, 1, True) is None
    assert questions_to_settle(0.05, 0.25, 10, True) > needed  # type: ignore[operator]


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.2, 0.1), (0.05, 0.0)])
def test_the_interval_of_flips_holds_the_truth(n: int, shares: tuple[float, float]) -> None:
    rng = np.random.default_rng(3)
    drawn = rng.multinomial(n, [*shares, 1 - sum(shares)], size=2_000)
    ends = [flip_interval(int(won), int(lost), n) for won, lost, _ in drawn]
    held = sum(low <= shares[0] - shares[1] <= high for low, high in ends)
    assert held / 2_000 > 0.93


def test_systems_that_are_alike_are_seldom_settled_however_many_there_are() -> None:
    rng = np.random.default_rng(4)
    settled = 0
    for _ in range(150):
        table = sums({name: list(rng.random(60) < 0.6) for name in "abcdef"})
        pairs = paired_differences(counts_of(table), YES)
        assert len(pairs) == 5, "the highest with every other"
        assert {pair.compared for pair in pairs} == {15}
        settled += any(pair.settled for pair in pairs)
    assert settled / 150 < 0.1


def test_every_two_systems_with_the_highest_first() -> None:
    table = sums({"low": [0] * 40, "high": [1] * 40, "mid": [1, 0] * 20})
    pairs = paired_differences(counts_of(table), YES)
    assert [(pair.first, pair.second) for pair in pairs] == [("high", "mid"), ("high", "low"), ("mid", "low")]
    assert all(pair.settled and pair.questions_to_settle is None and not pair.sampled for pair in pairs)
    assert all(pair.sampled for pair in paired_differences(counts_of(table, scored=41), YES))
