"""Means and their differences against the standard library and scipy, and against numbers worked out by hand."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from runner.stats.estimators import LEAST_GROUP, Moments, differ, mean, spread

halves = st.integers(0, 20).map(lambda n: n / 2)


def moments(scores: Sequence[float]) -> Moments:
    return Moments(len(scores), sum(scores), sum(score * score for score in scores))


def test_bounds_of_a_graded_score() -> None:
    result = mean(Moments(4, 12.0, 40.0), unscored=1, worst=0.0, best=5.0)
    assert (result.value, result.low, result.high) == (3.0, 2.4, 3.4)
    assert mean(Moments(4, 12.0, 40.0), 0, None, None).low == 3.0
    assert mean(Moments(4, 12.0, 40.0), 1, None, None).low is None


def test_nothing_to_average_is_none_not_zero() -> None:
    nothing = mean(Moments(), 0, 0, 5, threshold=4)
    assert (nothing.value, nothing.low, nothing.high, nothing.sd, nothing.interval_low) == (None,) * 5
    assert nothing.at_least is not None
    assert nothing.at_least.rate.value is None
    unread = mean(Moments(), 3, 0, 5, threshold=4)
    assert (unread.value, unread.low, unread.high) == (None, 0.0, 5.0)
    assert unread.at_least is not None
    assert (unread.at_least.rate.value, unread.at_least.strict.value) == (None, 0.0)


def test_an_interval_by_hand() -> None:
    # 2, 3, 4: the mean is 3, the deviations -1, 0, 1, so sd = sqrt(2 / 2) = 1, and half = 1.96 / sqrt(3).
    found = mean(Moments(3, 9.0, 29.0), 1, 0, 5, threshold=3, reached=2)
    assert (found.sd, found.value) == (1.0, 3.0)
    assert found.interval_low == pytest.approx(3 - 1.959964 / math.sqrt(3), abs=1e-6)
    assert found.interval_high == pytest.approx(3 + 1.959964 / math.sqrt(3), abs=1e-6)
    assert found.at_least is not None
    assert (found.at_least.rate.hits, found.at_least.rate.n, found.at_least.strict.n) == (2, 3, 4)


@pytest.mark.parametrize("scores", [[4.0], [0.1] * 7, [3.5] * 2])
def test_one_score_or_the_same_throughout_has_no_interval(scores: list[float]) -> None:
    found = spread(moments(scores))
    assert found.value == pytest.approx(scores[0])
    assert (found.interval_low, found.interval_high) == (None, None)
    assert found.sd in (None, 0.0)


@given(st.lists(halves, min_size=2, max_size=200))
def test_spread_is_that_of_the_standard_library(scores: list[float]) -> None:
    found = spread(moments(scores))
    assert found.value == pytest.approx(statistics.fmean(scores))
    assert found.sd == pytest.approx(statistics.stdev(scores), abs=1e-6)
    if found.interval_low is not None:
        low, high = stats.norm.interval(0.95, statistics.fmean(scores), stats.sem(scores))
        assert found.interval_low == pytest.approx(low)
        assert found.interval_high == pytest.approx(high)


@given(st.lists(halves, max_size=60), st.lists(halves, max_size=60))
def test_moments_of_parts_add_up(left: list[float], right: list[float]) -> None:
    assert moments(left) + moments(right) == moments([*left, *right])


@pytest.mark.parametrize("groups", [2, 3, 10, 50])
@pytest.mark.parametrize("shift", [0.0, 0.3, 3.0])
def test_a_difference_is_that_of_scipy(groups: int, shift: float) -> None:
    rng = random.Random(groups)
    samples = [
        [min(5, max(0, round(rng.gauss(2.5 + shift * (place == 0), 1.5)))) for _ in range(rng.randint(10, 200))]
        for place in range(groups)
    ]
    expected = stats.f_oneway(*samples)
    found = differ([moments(sample) for sample in samples])
    assert found is not None
    assert (found.groups, found.n) == (groups, sum(map(len, samples)))
    assert found.f == pytest.approx(float(expected.statistic))
    assert found.p == pytest.approx(float(expected.pvalue), rel=1e-9, abs=1e-300)


@given(f=st.floats(0.01, 60.0), above=st.integers(1, 60), n=st.integers(100, 10_000_000))
def test_the_tail_of_f_is_that_of_scipy(f: float, above: int, n: int) -> None:
    # Groups of one variance whose means give the F asked for: two values each, half of the scores at either.
    groups = above + 1
    size = max(LEAST_GROUP, n // groups) // 2 * 2
    below = groups * size - groups
    within = 1.0 * size * groups / below
    step = math.sqrt(f * within * above / (size * sum((place - above / 2) ** 2 for place in range(groups))))
    means = [step * (place - above / 2) for place in range(groups)]
    found = differ([Moments(size, size * at, size * (at * at + 1.0)) for at in means])
    assert found is not None
    if found.f:
        assert found.p == pytest.approx(float(stats.f.sf(found.f, above, below)), rel=1e-6, abs=1e-250)


def test_small_groups_are_not_compared() -> None:
    large = moments([1.0, 2.0] * LEAST_GROUP)
    small = moments([5.0] * (LEAST_GROUP - 1))
    assert differ([large, small]) is None
    assert differ([]) is None
    found = differ([large, large, small])
    assert found is not None
    assert (found.groups, found.f, found.p) == (2, 0.0, 1.0)


def test_groups_that_do_not_vary_within() -> None:
    ones, twos = moments([1.0] * 20), moments([2.0] * 20)
    found = differ([ones, twos])
    assert found is not None
    assert (found.f, found.p) == (None, 0.0)
    same = differ([ones, ones])
    assert same is not None
    assert same.p == 1.0


def test_chance_alone_is_called_a_difference_as_often_as_said() -> None:
    rng = random.Random(5)
    trials = 400
    low = 0
    for _ in range(trials):
        groups = [moments([rng.randint(0, 5) for _ in range(30)]) for _ in range(10)]
        found = differ(groups)
        assert found is not None
        low += found.p < 0.05
    assert stats.binomtest(low, trials, 0.05).pvalue > 0.001
