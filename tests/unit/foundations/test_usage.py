"""What requests take, shared out over the trials that they carry."""

from hypothesis import given
from hypothesis import strategies as st

from runner.usage import NO_USAGE, Usage

COUNTS = st.integers(0, 10_000)


@given(st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, st.floats(0, 10)), st.integers(1, 20))
def test_shares_are_whole_tokens_as_even_as_can_be_and_come_to_all_of_it(usage: Usage, parts: int) -> None:
    shares = [usage.share(part, parts) for part in range(parts)]
    whole = sum(shares, NO_USAGE)
    assert abs(whole.cost_usd - usage.cost_usd) < 1e-9
    for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
        counts = [getattr(share, name) for share in shares]
        assert all(type(count) is int for count in counts)
        assert (sum(counts), max(counts) - min(counts) <= 1) == (getattr(usage, name), True)
