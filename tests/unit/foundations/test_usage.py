"""Money as people read it: bounds hold, no price is no zero; what requests take, shared out over their trials."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.usage import NO_USAGE, Usage, describe_cost, usd, usd_at_most

COUNTS = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("value", "near", "most"),
    [
        *((0.0, "$0.00", "$0.00"), (0.00101, "$0.00101", "$0.00101"), (0.0010101, "$0.00101", "$0.00102")),
        *((12.341, "$12.34", "$12.35"), (0.1, "$0.10", "$0.10"), (0.1 + 0.2, "$0.30", "$0.30")),
    ],
)
def test_a_bound_is_rounded_up(value: float, near: str, most: str) -> None:
    assert (usd(value), usd_at_most(value)) == (near, most)


def test_a_model_without_a_price_is_no_zero() -> None:
    assert describe_cost(0.178, []) == "$0.18"
    assert describe_cost(0.178, ["local-judge"]) == "≥ $0.17; no price for local-judge"
    assert describe_cost(0.0, ["a", "b", "c", "d"]) == "no price for a, b, c and 1 more"


@given(st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, st.floats(0, 10)), st.integers(1, 20))
def test_shares_are_whole_tokens_as_even_as_can_be_and_come_to_all_of_it(usage: Usage, parts: int) -> None:
    shares = [usage.share(part, parts) for part in range(parts)]
    whole = sum(shares, NO_USAGE)
    assert abs(whole.cost_usd - usage.cost_usd) < 1e-9
    for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
        counts = [getattr(share, name) for share in shares]
        assert all(type(count) is int for count in counts)
        assert (sum(counts), max(counts) - min(counts) <= 1) == (getattr(usage, name), True)
