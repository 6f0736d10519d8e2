"""Money as people read it: bounds are not exceeded, and what has no price is no zero."""

import pytest

from runner.usage import describe_cost, usd, usd_at_most


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
