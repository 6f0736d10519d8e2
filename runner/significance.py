"""Whether two groups answer alike: exact and approximate tests of tables of counts, in closed form.

Pure arithmetic. Graded scores are compared by `graded.differ`; here are answers that are one of a few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

LARGEST_EXACT = 20_000
"""Tables with more ways to be filled than this have their chi-square tail taken, which is the same there."""
_EQUAL = 1 + 1e-7
"""Two tables as likely as each other but for rounding."""


def fisher(yes: int, no: int, other_yes: int, other_no: int) -> float:
    """P of a difference as unlikely as this between two shares: Fisher's exact test, two-sided.

    For very large tables the chi-square test with Yates' continuity correction.
    """
    first, second, hits = yes + no, other_yes + other_no, yes + other_yes
    low, high = max(0, hits - second), min(hits, first)
    if high - low > LARGEST_EXACT:
        return _yates(yes, no, other_yes, other_no)

    def log_weight(count: int) -> float:
        return -sum(math.lgamma(cell + 1) for cell in (count, first - count, hits - count, second - hits + count))

    weights = [log_weight(count) for count in range(low, high + 1)]
    largest = max(weights)
    total = math.fsum(math.exp(weight - largest) for weight in weights)
    limit = weights[yes - low] + math.log(_EQUAL)
    return min(1.0, math.fsum(math.exp(weight - largest) for weight in weights if weight <= limit) / total)


def chi_square(first: Sequence[int], second: Sequence[int]) -> float | None:
    """P of a difference as large as this between two distributions over the same answers; None where there is none.

    Answers that nobody gave do not count. It is an approximation, rough where few of an answer are expected.
    """
    given = [(one, other) for one, other in zip(first, second, strict=True) if one + other]
    rows = sum(one for one, _ in given), sum(other for _, other in given)
    if len(given) < 2 or not all(rows):
        return None
    whole = sum(rows)
    statistic = math.fsum(
        (count - row * (one + other) / whole) ** 2 / (row * (one + other) / whole)
        for one, other in given
        for count, row in zip((one, other), rows, strict=True)
    )
    return chi_square_tail(statistic, len(given) - 1)


def chi_square_tail(statistic: float, freedom: int) -> float:
    """P(X ≥ statistic) of the chi-square distribution with so many degrees of freedom."""
    if statistic <= 0:
        return 1.0
    half = statistic / 2
    odd = freedom % 2
    terms = (
        math.exp((k - odd / 2) * math.log(half) - half - math.lgamma(k + 1 - odd / 2))
        for k in range(odd, (freedom + odd) // 2)
    )
    return min(1.0, (math.erfc(math.sqrt(half)) if odd else 0.0) + math.fsum(terms))


def _yates(yes: int, no: int, other_yes: int, other_no: int) -> float:
    n = yes + no + other_yes + other_no
    away = max(0.0, abs(yes * other_no - no * other_yes) - n / 2)
    margins = (yes + no) * (other_yes + other_no) * (yes + other_yes) * (no + other_no)
    return chi_square_tail(n * away * away / margins, 1) if margins else 1.0
