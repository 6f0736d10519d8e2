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

from judges import Scale
from runner.stats.significance import LEAST_GROUP, differ
from runner.stats.summaries import Moments, summarize

halves = st.integers(0, 20).map(lambda n: n / 2)


def moments(scores: Sequence[float]) -> Moments:
    return Moments(len(scores), sum(scores), sum(score * score for score in scores))


GRADED = Scale(False, 0, 5)


def test_bounds_of_a_graded_score() -> None:
    found = summarize(Moments(4, 12.0, 40.0), GRADED, unscored=1)
    assert (found.value, found.worst, found.best) == (3.0, 2.4, 3.4)
    assert summarize(Moments(4, 12.0, 40.0), Scale(False, None, None)).worst == 3.0
    assert summarize(Moments(4, 12.0, 40.0), Scale(False, None, None), 1).worst is None


def test_a_share_of_yes_and_its_bounds() -> None:
    found = summarize(Moments(4, 3.0, 3.0), Scale(True), unscored=1)
    assert (found.value, found.worst, found.best) == (0.75, 0.6, 0.8)
    assert found.share and found.strict and found.lenient
    assert (found.low, found.high) == (found.share.low, found.share.high)
    assert [(rate.hits, rate.n) for rate in (found.share, found.strict, found.lenient)] == [(3, 4), (3, 5), (4, 5)]


def test_nothing_to_average_is_none_not_zero() -> None:
    scale = Scale(False, 0, 5, at_least=4)
    nothing = summarize(Moments(), scale)
    assert (nothing.value, nothing.worst, nothing.best, nothing.sd, nothing.low) == (None,) * 5
    assert nothing.share and nothing.share.value is None
    unread = summarize(Moments(), scale, 3)
    assert (unread.value, unread.worst, unread.best) == (None, 0.0, 5.0)
    assert unread.share and unread.strict
    assert (unread.share.value, unread.strict.value) == (None, 0.0)
    assert summarize(Moments(), Scale(True), 3).worst == 0.0


def test_an_interval_by_hand() -> None:
    # 2, 3, 4: the mean is 3, the deviations -1, 0, 1, so sd = sqrt(2 / 2) = 1, and half = t / sqrt(3).
    found = summarize(Moments(3, 9.0, 29.0, reached=2), Scale(False, 0, 10, at_least=3), 1)
    assert (found.sd, found.value) == (1.0, 3.0)
    assert found.low == pytest.approx(3 - 4.302653 / math.sqrt(3), abs=1e-6)
    assert found.high == pytest.approx(3 + 4.302653 / math.sqrt(3), abs=1e-6)
    assert found.share and found.strict
    assert (found.share.hits, found.share.n, found.strict.n) == (2, 3, 4)


@pytest.mark.parametrize("scores", [[4.0], [0.1] * 7, [3.5] * 2])
def test_one_score_or_the_same_throughout_has_no_interval(scores: list[float]) -> None:
    found = summarize(moments(scores), GRADED)
    assert found.value == pytest.approx(scores[0])
    assert (found.low, found.high) == (None, None)
    assert found.sd in (None, 0.0)


@given(st.lists(halves, min_size=2, max_size=200))
def test_means_are_those_of_the_standard_library(scores: list[float]) -> None:
    found = summarize(moments(scores), Scale(False, None, None))
    assert found.value == pytest.approx(statistics.fmean(scores))
    assert found.sd == pytest.approx(statistics.stdev(scores), abs=1e-6)
    if found.low is not None:
        low, high = stats.t.interval(0.95, len(scores) - 1, statistics.fmean(scores), stats.sem(scores))
        assert found.low == pytest.approx(low)
        assert found.high == pytest.approx(high)


def test_an_interval_ends_where_the_scale_does() -> None:
    found = summarize(moments([5.0, 5.0, 4.0]), GRADED)
    assert found.low is not None and 0 < found.low < 4
    assert found.high == 5.0
    # A score beyond the end counts as it is.
    assert summarize(moments([5.0, 9.0]), GRADED).high == 7.0


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
