"""Two systems on the questions that both were scored on: how far apart they are, and which questions flip.

What a system makes of a question is the mean of its scored trials there, so that a question counts once whatever stands
behind it. Where every question has one yes or no of either side, only the flips tell them apart: the test is McNemar's,
exact, and the interval that of Bonett and Price (2012), which holds its level for few flips too. Everything else is
Student's, over the differences of the questions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from judges import Scale

from .estimators import Z95, Ends, student
from .question_sums import select_questions
from .significance import LEAST_GROUP
from .summaries import PAIR, RESULT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SETTLED_BELOW = 0.05
"""From this p on nothing is said to be settled."""
POWER = 0.8
"""Of the test with as many questions as are said to settle a difference."""
MOST_CROSSED = 5
"""Of so many systems every two are listed; of more, the highest with every other."""

SUMS = (*RESULT, "name", "question", "n", "total")
"""Columns of what is compared: the score, the question, and number and sum of its scored trials."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A score of two systems by one judge and model; `first` is the one with the higher value over all its trials."""

    judge: str
    model: str
    score: str
    kind: Literal["binary", "graded"]
    first: str
    second: str
    questions: int
    """Those with a score of both: all that follows is over these."""
    sampled: bool
    """There are more: these are a sample of them, for there are very many."""
    first_value: float | None
    second_value: float | None
    difference: float | None
    """First − second; None without a common question."""
    low: float | None
    high: float | None
    """The 95 % interval of the difference."""
    test: Literal["McNemar", "t"] | None
    """None: too few questions to test."""
    p: float | None
    """Adjusted for `compared` (Holm)."""
    compared: int
    """Pairs of systems that were held against each other together: every two of them."""
    won: int
    lost: int
    """Questions where the first, and where the second, has the higher value."""
    questions_to_settle: int | None
    """About so many would tell a difference of this size from none, four times in five; None where this one is told
    already, or nothing can be said."""

    @property
    def settled(self) -> bool:
        return self.p is not None and self.p < SETTLED_BELOW


def paired_differences(
    counts: Mapping[str, pl.DataFrame], scales: Mapping[str, Mapping[str, Scale]]
) -> list[PairedDifference]:
    """Of every judge × model and score: its systems in pairs, those with the highest system first."""
    whole = pl.col("slice").is_null() & (pl.col("measure") == "score")
    sums = select_questions(counts, "cells", RESULT, whole).select(SUMS)
    scored = counts["cells.scores"].filter(pl.col("slice").is_null())
    cell = [*PAIR, "score"]
    all_scored = {tuple(key): int(part["n"].sum()) for key, part in scored.group_by(cell)}
    entries = []
    for (judge, model, score), held in _by_score(sums):
        scale = scales.get(judge, {}).get(score, Scale(False, None, None))
        sampled = int(held["n"].sum()) < all_scored.get((judge, model, score), 0)
        pairs = list(_compare_all(held, scale))
        entries += [replace(each, judge=judge, model=model, score=score, sampled=sampled) for each in pairs]
    return entries


def compare_two(
    sums: pl.DataFrame, scales: Mapping[str, Mapping[str, Scale]], first: str, second: str
) -> Iterator[PairedDifference]:
    """These two systems alone, in this order, by every judge × model and score; `sums` has the columns of `SUMS`."""
    for (judge, model, score), held in _by_score(sums):
        scale = scales.get(judge, {}).get(score, Scale(False, None, None))
        values = _values(held, [first, second])
        (pair,) = _adjust([_compare((first, second), values[0], values[1], scale, 1)])
        yield replace(pair, judge=judge, model=model, score=score)


def _by_score(sums: pl.DataFrame) -> Iterator[tuple[tuple[str, str, str], pl.DataFrame]]:
    keys = [*PAIR, "name"]
    summed = sums.group_by(*keys, "system", "question").agg(pl.col("n", "total").sum())
    # Sorted, for sums of the same numbers in another order may differ in their last digit.
    for key, held in summed.sort(*keys, "system", "question").group_by(keys, maintain_order=True):
        yield (str(key[0]), str(key[1]), str(key[2])), held


def _compare_all(sums: pl.DataFrame, scale: Scale) -> Iterator[PairedDifference]:
    means = sums.group_by("system", maintain_order=True).agg(pl.col("total").sum() / pl.col("n").sum())
    systems = [name for name, _ in sorted(means.rows(), key=lambda row: (-row[1], row[0]))]
    values = _values(sums, systems)
    places = list(combinations(range(len(systems)), 2))
    pairs = [
        _compare((systems[one], systems[two]), values[one], values[two], scale, len(places)) for one, two in places
    ]
    return (pair for pair in _adjust(pairs) if len(systems) <= MOST_CROSSED or pair.first == systems[0])


def _values(sums: pl.DataFrame, systems: Sequence[str]) -> NDArray[np.float64]:
    """A row for each system with its value of every question, NaN where it has none."""
    import numpy as np

    questions = sums["question"].unique().sort()
    place = pl.DataFrame({"question": questions}).with_row_index("place")
    held = sums.join(place, on="question")
    values = np.full((len(systems), len(questions)), np.nan)
    for number, system in enumerate(systems):
        own = held.filter(pl.col("system") == system)
        values[number, own["place"].to_numpy()] = (own["total"] / own["n"]).to_numpy()
    return values


def _compare(
    systems: tuple[str, str],
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    scale: Scale,
    compared: int,
) -> PairedDifference:
    import numpy as np

    both = ~(np.isnan(first) | np.isnan(second))
    first, second = first[both], second[both]
    differences = first - second
    n, won, lost = len(differences), int((differences > 0).sum()), int((differences < 0).sum())
    kind: Literal["binary", "graded"] = "binary" if scale.binary else "graded"
    facts: dict[str, Any] = dict(
        judge="", model="", score="", kind=kind, first=systems[0], second=systems[1], questions=n, sampled=False,
        first_value=None, second_value=None, difference=None, low=None, high=None, test=None, p=None, compared=compared,
        won=won, lost=lost, questions_to_settle=None,
    )  # fmt: skip
    if n:
        difference = float(differences.mean())
        facts |= {"first_value": float(first.mean()), "second_value": float(second.mean()), "difference": difference}
        variance = float(differences.var(ddof=1)) if n > 1 else 0.0
        if scale.binary and bool(np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all()):
            facts |= _ends(flip_interval(won, lost, n)) | {"test": "McNemar", "p": mcnemar_p(won, lost)}
        else:
            p = _student_p(difference, variance, n)
            ends = _ends(_mean_interval(difference, variance, n, scale))
            facts |= ends | {"test": None if p is None else "t", "p": p}
        if n >= LEAST_GROUP:
            exact = facts["test"] == "McNemar"
            facts["questions_to_settle"] = questions_to_settle(difference, variance, compared, exact)
    return PairedDifference(**facts)


def _ends(ends: Ends) -> dict[str, float | None]:
    return {"low": ends[0], "high": ends[1]}


def mcnemar_p(won: int, lost: int) -> float:
    """McNemar's exact test: how likely so uneven flips, or more so, are if either side is as likely."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(won, lost), won + lost, 0.5))) if won + lost else 1.0


def flip_interval(won: int, lost: int, n: int) -> tuple[float, float]:
    """The 95 % interval of (won − lost) / n: Bonett and Price's, with one flip more on either side."""
    above, below = (won + 1) / (n + 2), (lost + 1) / (n + 2)
    centre = above - below
    half = Z95 * math.sqrt((above + below - centre * centre) / (n + 2))
    return max(-1.0, centre - half), min(1.0, centre + half)


def _mean_interval(difference: float, variance: float, n: int, scale: Scale) -> Ends:
    if not variance:
        return None, None
    half = student(n - 1) * math.sqrt(variance / n)
    most = 1.0 if scale.binary else math.inf
    if scale.low is not None and scale.high is not None:
        most = scale.high - scale.low
    return max(-most, difference - half), min(most, difference + half)


def _student_p(difference: float, variance: float, n: int) -> float | None:
    if n < LEAST_GROUP:
        return None
    if not variance:
        return None if difference else 1.0
    from scipy.special import stdtr

    return 2 * float(stdtr(n - 1, -abs(difference) / math.sqrt(variance / n)))


def questions_to_settle(difference: float, variance: float, compared: int, exact: bool) -> int | None:
    """So many questions that a difference of this size is told from none with `POWER`, in two digits, rounded up.

    `exact`: by McNemar's exact test, which takes somewhat more (the correction for continuity says how many).
    """
    if not variance or not difference:
        return None
    from scipy.special import ndtri

    ends = float(ndtri(1 - SETTLED_BELOW / 2 / compared) + ndtri(POWER))
    plain = ends * ends * variance / (difference * difference)
    more = ((1 + math.sqrt(1 + 4 / (plain * abs(difference)))) / 2) ** 2 if exact else 1.0
    needed = math.ceil(plain * more)
    step: int = 10 ** max(0, len(str(needed)) - 2)
    return -(-needed // step) * step


def _adjust(pairs: Sequence[PairedDifference]) -> list[PairedDifference]:
    """With Holm's p for as many tests; what is settled by it needs no more questions."""
    tested = sorted((pair.p, place) for place, pair in enumerate(pairs) if pair.p is not None)
    adjusted, least = list(pairs), 0.0
    for number, (p, place) in enumerate(tested):
        least = max(least, min(1.0, p * (len(tested) - number)))
        adjusted[place] = replace(pairs[place], p=least)
    return [replace(pair, questions_to_settle=None) if pair.settled else pair for pair in adjusted]
