"""Oracles for the arithmetic: published Wilson values, percentiles against exact ones."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.stats.estimators import BUCKET_BASE, percentile, rate, unweighted


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        # Newcombe 1998 (Statistics in Medicine 17), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0000),
    ],
)
def test_wilson_interval_equals_published_values(hits: int, n: int, low: float, high: float) -> None:
    result = rate(hits, n)
    assert result.low == pytest.approx(low, abs=5e-5)
    assert result.high == pytest.approx(high, abs=5e-5)


def test_nothing_to_average_is_none_not_zero() -> None:
    assert rate(0, 0).value is None
    assert rate(0, 0).low is None
    assert percentile([], 0.5) is None
    assert unweighted([]) is None
    assert unweighted([0.5, None]) is None


@given(st.integers(0, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_holds_the_share(pair: tuple[int, int]) -> None:
    result = rate(*pair)
    if pair[1]:
        assert result.value is not None and result.low is not None and result.high is not None
        assert 0 <= result.low <= result.value <= result.high <= 1


def test_percentiles_are_within_one_percent() -> None:
    rng = random.Random(7)
    values = sorted(rng.lognormvariate(0, 1.2) for _ in range(20_000))
    counts: dict[int, int] = {}
    for value in values:
        bucket = 0
        while BUCKET_BASE**bucket < value:
            bucket += 1
        while BUCKET_BASE ** (bucket - 1) >= value:
            bucket -= 1
        counts[bucket] = counts.get(bucket, 0) + 1
    for share in (0.5, 0.9, 0.99):
        exact = values[max(1, -(-int(share * 100) * len(values) // 100)) - 1]
        assert percentile(counts.items(), share) == pytest.approx(exact, rel=0.01)


def test_macro_counts_every_group_the_same() -> None:
    assert unweighted([1.0, 0.5]) == 0.75
