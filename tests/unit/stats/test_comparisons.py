"""The test of two groups of verdicts: against plain arithmetic, and where an ordinary test would be misled."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from runner.stats.significance import LEAST_GROUP, difference_p


def frame(system: Any, question: Any, first: Any, value: Any, name: str = "correct") -> pl.DataFrame:
    columns = {"stratum": system, "question": question, "first": first, "total": np.asarray(value, float)}
    return pl.DataFrame(columns).with_columns(n=pl.lit(1, pl.Int64), name=pl.lit(name))


def by_hand(trials: pl.DataFrame) -> float:
    parts: dict[int, float] = defaultdict(float)
    for _, of_system in trials.group_by("stratum"):
        rows = of_system.select("question", "first", "total").rows()
        first = sum(row[1] for row in rows)
        if 0 < first < len(rows):
            mean = sum(row[2] for row in rows) / len(rows)
            for question, is_first, value in rows:
                weight = (len(rows) - first) / len(rows) if is_first else -first / len(rows)
                parts[question] += weight * (value - mean)
    z = sum(parts.values()) / math.sqrt(sum(part * part for part in parts.values()))
    return float(2 * stats.norm.sf(abs(z)))


def trials(seed: int, questions: int = 80, each: int = 4) -> pl.DataFrame:
    """Three systems, of which the better one is read in the first way more often; answers to a question go together."""
    rng = np.random.default_rng(seed)
    question = np.tile(np.arange(questions), 3 * each)
    system = np.repeat(np.arange(3), questions * each)
    first = rng.random(len(question)) < rng.beta(0.8, 0.8, questions)[question] * np.array([1.0, 0.6, 0.2])[system]
    value = rng.random(len(question)) < rng.beta(1, 1, questions)[question] * np.array([1.0, 0.7, 0.3])[system]
    return frame(np.array(["A", "B", "C"])[system], question, first, value)


def test_a_difference_is_that_of_plain_arithmetic() -> None:
    for seed in range(5):
        table = trials(seed)
        assert difference_p(table) == pytest.approx(by_hand(table), rel=1e-9)
        assert difference_p(table.sample(fraction=1.0, shuffle=True, seed=1)) == difference_p(table)


def test_what_differs_between_systems_and_questions_alone_is_seldom_a_difference() -> None:
    low = other = 0
    for seed in range(300):
        table = trials(seed)
        p = difference_p(table)
        assert p is not None
        low += p < 0.05
        yes = [table.filter(pl.col("first") == side)["total"] for side in (True, False)]
        other += stats.fisher_exact([[side.sum(), len(side) - side.sum()] for side in yes])[1] < 0.05
    assert stats.binomtest(low, 300, 0.05).pvalue > 0.001
    assert other > 200, "the plain test cries wolf"


def test_a_difference_within_systems_is_found() -> None:
    rng = np.random.default_rng(1)
    table = trials(0)
    changed = pl.when(pl.col("first") & pl.lit(rng.random(len(table)) < 0.5)).then(1.0).otherwise("total")
    p = difference_p(table.with_columns(total=changed))
    assert p is not None and p < 1e-4


def test_choices_are_compared_as_a_whole() -> None:
    rng = np.random.default_rng(3)
    n = 3000
    first, choice = rng.random(n) < 0.4, rng.integers(0, 3, n)
    ones = [frame(["A"] * n, np.arange(n), first, choice == label, str(label)) for label in range(3)]
    plain = stats.chi2_contingency(np.stack([np.bincount(choice[first == side]) for side in (True, False)]))[1]
    assert difference_p(pl.concat(ones)) == pytest.approx(plain, rel=0.05)


def test_too_few_questions_are_not_compared() -> None:
    question = np.arange(60)
    few = frame(["A"] * 60, question, question < LEAST_GROUP - 1, question % 2)
    assert difference_p(few) is None
    assert difference_p(frame(["A"] * 60, question, question < LEAST_GROUP, question % 2)) is not None
    assert difference_p(frame(["A"] * 60, question % 9, question < 30, question % 2)) is None
    apart = frame(np.where(question < 30, "A", "B"), question, question < 30, question % 2)
    assert difference_p(apart) is None, "a system that was read in one way alone says nothing of the other"
    assert difference_p(frame(["A"] * 60, question, question < 30, np.ones(60))) == 1.0
