"""From frames of trials to counts that add up.

A frame (see `frames`) is counted by itself with grouped expressions, and the small counts of all frames are
added: a part of a run and a whole run are the same arithmetic, and a million trials never stand in memory together.
Nothing here reads a file or divides anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from judges import STATES

from .rates import BUCKET_BASE

PAIR = ("judge", "model")
CELL = (*PAIR, "repeat", "system", "group", "slice")
_KEYS: dict[str, tuple[str, ...]] = {
    "trials": CELL,
    "scores": (*CELL, "score"),
    "labels": (*PAIR, "system", "label", "judged", "human"),
    "details": (*PAIR, "system", "state", "detail"),
    "latency": (*PAIR, "bucket"),
    "served": (*PAIR, "served_model", "system_fingerprint", "parser_version", "structured"),
}
"""Table → the columns that tell its rows apart; all others are counts or sums."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of some trials. Equal whether trials are counted together, or apart and added."""

    tables: Mapping[str, pl.DataFrame]

    def __getitem__(self, table: str) -> pl.DataFrame:
        return self.tables[table]


def count(frame: pl.DataFrame) -> Counts:
    """Count one frame of trials."""
    cells = frame.with_columns(pl.lit(None, pl.String).alias("slice"))
    sliced = frame.filter(pl.col("slices").list.len() > 0)
    if len(sliced):
        cells = pl.concat([cells, sliced.with_columns(pl.col("slices").alias("slice")).explode("slice")])
    done = frame.filter(pl.col("state").is_not_null())
    scored = done.filter(pl.col("state") == "scored")
    tables = {
        "trials": cells.group_by(CELL).agg(
            pl.len().cast(pl.Int64).alias("planned"),
            *((pl.col("state") == state).sum().cast(pl.Int64).alias(state) for state in STATES),
            pl.col("official_reading").is_not_null().sum().cast(pl.Int64).alias("official_n"),
            pl.col("official_reading").sum().cast(pl.Int64).alias("official_hits"),
            pl.col("attempts").sum().cast(pl.Int64),
        ),
        "scores": _entries(cells.filter(pl.col("state") == "scored"), "scores", "score")
        .group_by(_KEYS["scores"])
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("value").sum().alias("total")),
        "labels": _labels(scored),
        "details": done.group_by(
            *PAIR,
            "system",
            "state",
            pl.when(pl.col("state") == "scored").then(pl.col("stage")).otherwise(pl.col("reason")).alias("detail"),
        ).agg(pl.len().cast(pl.Int64).alias("n")),
        "latency": done.filter(pl.col("latency_s") > 0)
        .group_by(*PAIR, (pl.col("latency_s").log() / math.log(BUCKET_BASE)).ceil().cast(pl.Int64).alias("bucket"))
        .agg(pl.len().cast(pl.Int64).alias("n")),
        "served": done.group_by(_KEYS["served"]).agg(pl.len().cast(pl.Int64).alias("n")),
    }
    return Counts(tables)


def add(parts: Iterable[Counts]) -> Counts | None:
    """The counts of all parts together; None without parts."""
    total: Counts | None = None
    for part in parts:
        if total is None:
            total = part
            continue
        total = Counts(
            {
                name: pl.concat([total[name], part[name]]).group_by(keys).agg(pl.exclude(*keys).sum())
                for name, keys in _KEYS.items()
            }
        )
    return total


def _entries(frame: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """One row per entry of a map column: its name, and its `value`."""
    entry = pl.col(column).struct
    return (
        frame.filter(pl.col(column).list.len() > 0)
        .explode(column)
        .with_columns(entry.field("key").alias(name), entry.field("value").alias("value"))
    )


def _labels(scored: pl.DataFrame) -> pl.DataFrame:
    judged = _entries(scored.filter(pl.col("labels").list.len() > 0), "scores", "label").with_columns(
        (pl.col("value") == 1.0).alias("judged")
    )
    human = pl.col("labels").struct
    return (
        judged.explode("labels")
        .filter(human.field("key") == pl.col("label"), human.field("value").is_in(["true", "false"]))
        .with_columns((human.field("value") == "true").alias("human"))
        .group_by(_KEYS["labels"])
        .agg(pl.len().cast(pl.Int64).alias("n"))
    )


def served(counts: Counts, column: str) -> dict[tuple[str, str], list[str]]:
    """What a provenance column of the table `served` held, per judge × model."""
    found: dict[tuple[str, str], set[str]] = {}
    for judge, model, value in counts["served"].select(*PAIR, column).rows():
        if value is not None:
            found.setdefault((judge, model), set()).add(value)
    return {pair: sorted(values) for pair, values in sorted(found.items())}


def over_limit(counts: Counts, max_unscored: float) -> list[tuple[str, str, int, int]]:
    """(judge, model, unscored, planned) where more than `max_unscored` of the trials were judged without a score."""
    table = counts["trials"].filter(pl.col("slice").is_null()).group_by(PAIR).agg(pl.exclude(*CELL).sum())
    unscored = pl.sum_horizontal(state for state in STATES if state != "scored").alias("unscored")
    over = table.with_columns(unscored).filter(pl.col("unscored") > max_unscored * pl.col("planned")).sort(PAIR)
    return [
        (judge, model, bad, planned) for judge, model, bad, planned in over.select(*PAIR, "unscored", "planned").rows()
    ]
