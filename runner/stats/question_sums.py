"""What there is to each question, in bounded memory: several trials of one question are no independent evidence.

Rows that add up are kept for every question of every context (whatever tells subsets of the trials apart). Beyond a
limit they are kept for a sample of the questions, taken by their hash, so that the same questions stay whichever way
the trials come: half of them, a quarter, and so on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from .estimators import Clusters

MOST = 200_000
"""Rows that are kept of a table."""

SUMS = ("n", "total", "reached")
_ALL = 2**64 - 1

Ratios = Mapping[str, Clusters]
"""`total` or `reached` over the scored trials; with `_strict` or `_lenient`, over all judged ones."""


class QuestionSample:
    """Rows of (context, question, sums), of as many questions as there is room for."""

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST if most is None else most
        self._limit = _ALL
        self._rows = pl.DataFrame()
        self._contexts = pl.DataFrame()
        self._new: list[tuple[pl.DataFrame, pl.DataFrame]] = []

    def add(self, rows: pl.DataFrame, contexts: pl.DataFrame) -> None:
        """`rows`: context, question and whatever adds up; `contexts`: context and what it stands for, each once."""
        if self._limit < _ALL:
            rows = rows.filter(pl.col("question") <= pl.lit(self._limit, pl.UInt64))
        self._new.append((rows, contexts))
        # Merged when as much is new as there was: no sum is added up more than a few times.
        if sum(len(new) for new, _ in self._new) > max(len(self._rows), self._most // 2):
            self._merge()

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        self._merge()
        return self._rows, self._contexts

    def _merge(self) -> None:
        if not self._new:
            return
        old = [(self._rows, self._contexts)] if self._contexts.width else []
        rows, contexts = (pl.concat(parts) for parts in zip(*old, *self._new, strict=True))
        rows = rows.group_by("context", "question", maintain_order=True).agg(pl.exclude("context", "question").sum())
        while len(rows) > self._most:
            self._limit //= 2
            rows = rows.filter(pl.col("question") <= pl.lit(self._limit, pl.UInt64))
        self._rows, self._new = rows, []
        self._contexts = contexts.unique("context", maintain_order=True).join(rows, on="context", how="semi")


def split_contexts(rows: pl.DataFrame, context: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows with a number in place of the columns of their context, and what the numbers stand for."""
    rows = rows.with_columns(context=pl.struct(context).hash())
    return rows.drop(context), rows.select("context", *context).unique("context", maintain_order=True)


_OWN = ~pl.col("is_control")
_MEMBERS = {
    "cells": _OWN,
    "served": _OWN,
    "places": _OWN & pl.col("requested"),
    "ways": _OWN & pl.col("way").is_not_null(),
    "parts": pl.lit(True),
}
"""Family of subsets → which contexts belong to it."""


def select_questions(
    counts: Mapping[str, pl.DataFrame],
    family: str,
    by: Sequence[str],
    where: pl.Expr | None = None,
    columns: Mapping[str, pl.Expr] | None = None,
) -> pl.DataFrame:
    """Rows of (by, measure, name, question, sums) of a family's trials. For the other arguments see `subsets`."""
    contexts = counts["contexts"].filter(_MEMBERS[family])
    if family == "cells":
        sliced = contexts.filter(pl.col("slices").list.len() > 0).explode("slices")
        whole = contexts.with_columns(pl.lit(None, pl.String).alias("slices"))
        contexts = pl.concat([whole, sliced]).rename({"slices": "slice"})
    contexts = (contexts if where is None else contexts.filter(where)).with_columns(**(columns or {}))
    return counts["questions"].join(contexts.select("context", *by, "measure", "name"), on="context").drop("context")


def clusters(
    counts: Mapping[str, pl.DataFrame],
    family: str,
    by: Sequence[str],
    where: pl.Expr | None,
    columns: Mapping[str, pl.Expr],
) -> dict[tuple[Any, ...], dict[tuple[str, str], Ratios]]:
    """Subset → what is measured in it → how that varies between questions."""
    rows = select_questions(counts, family, by, where, columns)
    cells = rows.select(by).unique(maintain_order=True).with_row_index("cell")
    rows = rows.join(cells, on=by, nulls_equal=True).drop(by)
    sums = rows.group_by("cell", "measure", "name", "question", maintain_order=True).agg(pl.col(*SUMS).sum())
    scores = sums.filter(pl.col("measure") == "score")
    without = sums.filter(pl.col("measure") == "unscored").select("cell", "question", unscored="n")
    # By itself too: where nothing is scored there is no score that they could stand beside.
    unscored = pl.concat(
        [_for_all(scores, without), without.with_columns(measure=pl.lit("unscored"), name=pl.lit(""))],
        how="diagonal_relaxed",
    )
    choices = sums.filter(pl.col("measure") == "choice")
    chosen = choices.group_by("cell", "question", maintain_order=True).agg(pl.col("n").sum())
    # Every choice has all scored trials of the subset below it.
    choices = _for_all(choices, chosen).join(
        choices.select("cell", "name", "question", total="n"), on=["cell", "name", "question"], how="left"
    )
    sums = pl.concat([scores, unscored, choices, sums.filter(pl.col("measure") == "official")], how="diagonal_relaxed")
    sums = sums.with_columns(pl.col(*SUMS, "unscored").fill_null(0))
    cell = "cell", "measure", "name"
    sums = sums.group_by(*cell, "question", maintain_order=True).agg(pl.col(*SUMS, "unscored").sum())
    errors = sums.group_by(cell, maintain_order=True).agg(*_errors())
    found: dict[tuple[Any, ...], dict[tuple[str, str], Ratios]] = {}
    keys = dict(enumerate(cells.drop("cell").rows()))
    for number, measure, name, *ends in errors.iter_rows():
        parts = zip(_RATIOS, ends[::3], ends[1::3], ends[2::3], strict=True)
        ratios = {of: Clusters(questions, int(n), error) for of, questions, n, error in parts if n}
        found.setdefault(keys[number], {})[measure, name] = ratios
    return found


def _for_all(named: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of each cell once for every measure and name that the cell has."""
    return rows.join(named.select("cell", "measure", "name").unique(maintain_order=True), on="cell")


_ABOVE = {"total": pl.col("total"), "reached": pl.col("reached").cast(pl.Float64)}
_RATIOS = {
    **{of: (above, pl.col("n")) for of, above in _ABOVE.items()},
    **{f"{of}_strict": (above, pl.col("n") + pl.col("unscored")) for of, above in _ABOVE.items()},
    **{f"{of}_lenient": (above + pl.col("unscored"), pl.col("n") + pl.col("unscored")) for of, above in _ABOVE.items()},
}
"""What is divided by what, summed over the questions."""


def _errors() -> list[pl.Expr]:
    """For each ratio its questions, its trials, and its linearized standard error."""
    columns = []
    for name, (above, below) in _RATIOS.items():
        residual = above - below * (above.sum() / below.sum())
        questions = (below > 0).sum().cast(pl.Int64)
        squares = (residual * residual).sum() * questions / (questions - 1)
        error = pl.when(questions > 1).then(squares.sqrt() / below.sum())
        columns += [questions.alias(f"{name}_m"), below.sum().alias(f"{name}_n"), error.alias(f"{name}_error")]
    return columns
