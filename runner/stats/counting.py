"""From frames of trials to counts that add up.

A frame (see `frames`) is counted by itself with grouped expressions, and the small counts of all frames are
added: a part of a run and a whole run are the same arithmetic, and a million trials never stand in memory together.
Nothing here reads a file or divides anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson
import polars as pl

from judges import STATES, Scale
from runner.labels import Label

from . import injection_stats, verdict_counts
from .estimators import BUCKET_BASE
from .verdict_counts import break_down, moments, thresholds

PAIR = ("judge", "model")
CELL = (*PAIR, "repeat", "system", "group", "slice")
_KEYS: dict[str, tuple[str, ...]] = {
    "trials": CELL,
    "scores": (*CELL, "score"),
    "labels": (*PAIR, "system", "label", "judged", "human"),
    "choices": (*PAIR, "system", "label", "judged", "human"),
    "details": (*PAIR, "system", "state", "detail"),
    "latency": (*PAIR, "bucket"),
    "served": (*PAIR, "served_model", "system_fingerprint", "parser_version", "structured"),
    "served_scores": (*PAIR, "served_model", "system_fingerprint", "score"),
    **verdict_counts.KEYS,
    **injection_stats.KEYS,
}
"""Table → the columns that tell its rows apart; all others are counts or sums."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of some trials. Equal whether trials are counted together, or apart and added."""

    tables: Mapping[str, pl.DataFrame]

    def __getitem__(self, table: str) -> pl.DataFrame:
        return self.tables[table]


def count(
    frame: pl.DataFrame,
    labels: Mapping[str, Label] | None = None,
    scales: Mapping[str, Mapping[str, Scale]] | None = None,
    choosing: Mapping[str, str] | None = None,
) -> Counts:
    """Count one frame of trials. Control items are in the tables of `susceptibility` and in no other.

    `labels`: those of the config, to be held against the verdicts; `scales`: judge → score → scale; `choosing`: judge
    → the verdict's field that holds its choice.
    """
    apart = injection_stats.count_tables(frame, scales or {}, choosing or {})
    frame = frame.filter(~pl.col("is_control").fill_null(False))
    cells = frame.with_columns(pl.lit(None, pl.String).alias("slice"))
    sliced = frame.filter(pl.col("slices").list.len() > 0)
    if len(sliced):
        cells = pl.concat([cells, sliced.with_columns(pl.col("slices").alias("slice")).explode("slice")])
    done = frame.filter(pl.col("state").is_not_null())
    scored = done.filter(pl.col("state") == "scored")
    entries = _entries(cells.filter(pl.col("state") == "scored"), "scores", "score").join(
        thresholds(scales or {}), on=["judge", "score"], how="left"
    )
    own = entries.filter(pl.col("slice").is_null())
    tables = {
        "trials": cells.group_by(CELL).agg(
            pl.len().cast(pl.Int64).alias("planned"),
            *((pl.col("state") == state).sum().cast(pl.Int64).alias(state) for state in STATES),
            pl.col("official_reading").is_not_null().sum().cast(pl.Int64).alias("official_n"),
            pl.col("official_reading").sum().cast(pl.Int64).alias("official_hits"),
            pl.col("attempts").sum().cast(pl.Int64),
        ),
        "scores": entries.group_by(_KEYS["scores"]).agg(
            *moments(), (pl.col("value") >= pl.col("at_least")).sum().cast(pl.Int64).alias("reached")
        ),
        "labels": _labels(scored, labels or {}),
        "choices": _choices(scored, labels or {}),
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
        "served_scores": own.group_by(_KEYS["served_scores"]).agg(*moments()),
        **apart,
        **break_down(done, own, scales or {}, choosing or {}),
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


def _labels(scored: pl.DataFrame, labels: Mapping[str, Label]) -> pl.DataFrame:
    """Scores against the labels that are numbers; yes is 1 and no is 0."""
    said = _said(scored, {name: label for name, label in labels.items() if label.type != "choice"})
    text = pl.col("human")
    number = text.replace({"true": "1", "false": "0"}).cast(pl.Float64)
    return (
        _entries(said, "scores", "score")
        .filter(pl.col("score") == pl.col("of"))
        .with_columns(pl.col("value").alias("judged"), number.alias("human"))
        .group_by(_KEYS["labels"])
        .agg(pl.len().cast(pl.Int64).alias("n"))
    )


def _choices(scored: pl.DataFrame, labels: Mapping[str, Label]) -> pl.DataFrame:
    """What verdicts say in words against the labels that are choices."""
    said = _said(scored, {name: label for name, label in labels.items() if label.type == "choice"})
    distinct = said.select("verdict", "of").unique()
    chosen = [orjson.loads(verdict).get(of) if verdict else None for verdict, of in distinct.rows()]
    words = [choice if isinstance(choice, str) else None for choice in chosen]
    return (
        said.join(distinct.with_columns(pl.Series("judged", words, pl.String)), on=["verdict", "of"])
        .filter(pl.col("judged").is_not_null())
        .group_by(_KEYS["choices"])
        .agg(pl.len().cast(pl.Int64).alias("n"))
    )


def _said(scored: pl.DataFrame, labels: Mapping[str, Label]) -> pl.DataFrame:
    """One row per scored trial and label: the `label`, what it is `of`, and the `human` value as text."""
    scores = pl.DataFrame(
        {"label": list(labels), "of": [label.score(name) for name, label in labels.items()]},
        schema={"label": pl.String, "of": pl.String},
    )
    columns = [*PAIR, "system", "scores", "verdict", "labels"]
    said = _entries(scored.select(columns), "labels", "label").rename({"value": "human"})
    return said.join(scores, on="label")


def served_values(counts: Counts, column: str) -> dict[tuple[str, str], list[str]]:
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
