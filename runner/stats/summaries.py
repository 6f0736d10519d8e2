"""What the scores of some trials come to: the one summary of a score, over any subset that the counts tell apart.

Sums add up: those of parts are those of the whole. Nothing is clamped to a scale: a score beyond its ends counts as it
is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from judges import STATES, Scale

from .estimators import Clusters, Ends, Rate, rate, student
from .question_sums import Ratios, clusters

SAME = 1e-12
"""Relative to the squares: below this the sums' own rounding is all that is left of a variance."""

PAIR = ("judge", "model")
RESULT = (*PAIR, "system")
FAMILIES: dict[str, tuple[str, ...]] = {
    "cells": (*RESULT, "group", "slice"),
    "served": (*PAIR, "served_model", "system_fingerprint", "parser_version", "structured"),
    "places": (*PAIR, "batch_size", "batch_position", "bisect_depth", "marked"),
    "ways": (*PAIR, "parser_version", "way"),
    "parts": (*PAIR, "part"),
}
"""Family of count tables → the columns that tell its subsets apart. Each has its trials, `.scores` and `.choices`."""

_UNSCORED = tuple(state for state in STATES if state != "scored")


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, sum and sum of squares of some scores, and how many reach the judge's threshold."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    reached: int = 0

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.n + other.n, self.total + other.total, self.squares + other.squares, self.reached + other.reached
        )

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n else None

    @property
    def deviations(self) -> float:
        """Sum of the squared deviations from the mean."""
        if not self.n:
            return 0.0
        deviations = self.squares - self.total * self.total / self.n
        return deviations if deviations > SAME * self.squares else 0.0

    @property
    def sd(self) -> float | None:
        """The sample's standard deviation (n - 1); None below two scores."""
        return math.sqrt(self.deviations / (self.n - 1)) if self.n > 1 else None


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """A score over some judged trials, of which some may have none.

    The interval is Wilson's for a share of yes. For a mean it is Student's, kept within the scale: None below two
    questions, or where all scores are the same, which says nothing about how far it may be off.
    """

    kind: Literal["binary", "graded"]
    n: int
    """Trials that have the score."""
    unscored: int
    """Judged, without a score."""
    value: float | None
    """Share of yes, or mean, over the scored trials."""
    low: float | None
    high: float | None
    """The 95 % interval of the value."""
    sd: float | None
    worst: float | None
    best: float | None
    """The value if every unscored trial were at that end of the scale; None where the end is not known."""
    threshold: float | None
    """From here on a graded score is high; None where the judge says nothing of it."""
    share: Rate | None
    """Of the scored trials: yes, or at least the threshold; None where there is none."""
    strict: Rate | None
    """The same over all judged trials: those without a score are none of them."""
    lenient: Rate | None
    """All of those without a score are."""


def summarize(moments: Moments, scale: Scale, unscored: int = 0, ratios: Ratios | None = None) -> ScoreSummary:
    """The score of so many trials, and `unscored` more without one; `ratios`: how it varies between questions."""
    n, judged = moments.n, moments.n + unscored
    share, strict, lenient = None, None, None
    of = ratios or {}
    if scale.binary or scale.at_least is not None:
        hits = round(moments.total) if scale.binary else moments.reached
        what = "total" if scale.binary else "reached"
        share = rate(hits, n, of.get(what))
        strict = rate(hits, judged, of.get(f"{what}_strict"))
        lenient = rate(hits + unscored, judged, of.get(f"{what}_lenient"))
    if share is not None and scale.binary:
        low, high = share.low, share.high
    else:
        low, high = _mean_interval(moments, scale, of.get("total"))
    worst, best = (0.0, 1.0) if scale.binary else (scale.low, scale.high)
    return ScoreSummary(
        "binary" if scale.binary else "graded", n, unscored, moments.mean, low, high, moments.sd,
        _bound(moments, unscored, worst), _bound(moments, unscored, best), None if scale.binary else scale.at_least,
        share, strict, lenient,
    )  # fmt: skip


def _mean_interval(moments: Moments, scale: Scale, clusters: Clusters | None) -> Ends:
    mean, sd = moments.mean, moments.sd
    if mean is None or not sd:
        return None, None
    questions, variance = float(moments.n), sd * sd / moments.n
    if clusters is not None and not clusters.single:
        questions, variance = clusters.count(moments.n), clusters.variance(sd * sd, moments.n)
    if questions < 2:
        return None, None
    half = student(questions - 1) * math.sqrt(variance)
    # A score beyond the ends counts as it is; the scale then does not say where the mean ends.
    low = mean - half if scale.low is None else min(mean, max(scale.low, mean - half))
    high = mean + half if scale.high is None else max(mean, min(scale.high, mean + half))
    return low, high


def _bound(moments: Moments, unscored: int, end: float | None) -> float | None:
    if not unscored:
        return moments.mean
    return None if end is None else (moments.total + unscored * end) / (moments.n + unscored)


@dataclass(frozen=True, slots=True)
class Subset:
    """Trials that have something in common."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """`n`, the states and whatever else is counted → trials."""
    moments: MutableMapping[str, Moments] = field(default_factory=dict)
    choices: MutableMapping[str, int] = field(default_factory=dict)
    ratios: Mapping[tuple[str, str], Ratios] = field(default_factory=dict)
    """(score, choice or official; its name) → how it varies between questions."""

    @property
    def n(self) -> int:
        return self.counts.get("n", 0)

    @property
    def scored(self) -> int:
        return self.counts.get("scored", 0)

    @property
    def unscored(self) -> int:
        """Judged, without a score."""
        return sum(self.counts.get(state, 0) for state in _UNSCORED)

    def scores(self, scales: Mapping[str, Scale]) -> dict[str, ScoreSummary]:
        """Score → what it comes to: those of the judge in its order, then any others."""
        names, unknown = dict.fromkeys([*scales, *sorted(self.moments)]), Scale(False, None, None)
        return {name: self.score(name, scales.get(name, unknown)) for name in names}

    def score(self, name: str, scale: Scale) -> ScoreSummary:
        ratios = self.ratios.get(("score", name)) or self.ratios.get(("unscored", ""))
        return summarize(self.of_score(name), scale, self.unscored, ratios)

    def of_score(self, name: str) -> Moments:
        return self.moments.get(name, Moments())

    def shares(self, labels: Iterable[str]) -> dict[str, Rate]:
        """Choice → its share of the scored trials."""
        return {
            label: rate(self.choices.get(label, 0), self.scored, self.ratios.get(("choice", label), {}).get("total"))
            for label in labels
        }

    def official(self) -> Rate:
        """The share of the official readings that are yes."""
        ratios = self.ratios.get(("official", ""), {})
        return rate(self.counts["official_hits"], self.counts["official_n"], ratios.get("total"))


def subsets(
    counts: Mapping[str, pl.DataFrame],
    family: str,
    by: Sequence[str],
    where: pl.Expr | None = None,
    **columns: pl.Expr,
) -> dict[tuple[Any, ...], Subset]:
    """The trials of a family of tables, told apart by some of its columns, or by `columns` made of them.

    `where`: which rows count.
    """

    def summed(table: str, *more: str) -> Iterator[tuple[tuple[Any, ...], list[str], dict[str, Any]]]:
        keys = (*FAMILIES[family], *more)
        # Sorted, for sums of the same numbers in another order may differ in their last digit.
        rows = counts[table].sort(keys)
        rows = (rows if where is None else rows.filter(where)).with_columns(**columns)
        sums = rows.group_by(*by, *more, maintain_order=True).agg(pl.exclude(*keys, *columns).sum())
        for row in sums.iter_rows(named=True):
            yield tuple(row.pop(name) for name in by), [row.pop(name) for name in more], row

    ratios = clusters(counts, family, by, where, columns)
    parts = {key: Subset(sums, {}, {}, ratios.get(key, {})) for key, _, sums in summed(family)}
    for key, (score,), sums in summed(f"{family}.scores", "score"):
        parts[key].moments[score] = Moments(**sums)
    for key, (choice,), sums in summed(f"{family}.choices", "choice"):
        parts[key].choices[choice] = sums["n"]
    return parts
