"""From frames of trials to counts that add up.

A frame (see `publishing.result_frames`) is counted by itself with grouped expressions, and the small counts of all
frames are added: a part of a run and a whole run are the same arithmetic, and a million trials never stand in memory
together. Nothing here reads a file or divides anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from judges import STATES, Scale
from runner.labels import Label
from runner.messages import BLOCK_MARKER

from .estimators import BUCKET_BASE
from .summaries import FAMILIES, PAIR, RESULT
from .verdict_counts import (
    count_label_choices,
    count_label_values,
    count_notes,
    explode_map,
    number_of_trials,
    values_of,
    with_choices,
)

SUSPECT, OTHER = "suspect", "other"
"""Parts of the run's own trials; any other part is a kind of control item."""

_KEYS: dict[str, tuple[str, ...]] = {
    **FAMILIES,
    **{f"{name}.scores": (*keys, "score") for name, keys in FAMILIES.items()},
    **{f"{name}.choices": (*keys, "choice") for name, keys in FAMILIES.items()},
    "label_values": (*RESULT, "label", "judged", "human"),
    "label_choices": (*RESULT, "label", "judged", "human"),
    "details": (*RESULT, "state", "detail"),
    "values": (*RESULT, "score", "value"),
    "latency": (*PAIR, "bucket"),
    "notes": (*PAIR, "code"),
    "signs": (*PAIR, "sign"),
}
"""Table → the columns that tell its rows apart; all others are counts or sums."""

_COLUMNS = (
    *(*RESULT, "group", "slices", "state", "reason", "stage", "verdict", "scores", "labels", "notes", "item_id"),
    *("served_model", "system_fingerprint", "parser_version", "structured", "official_reading", "attempts"),
    *("request_id", "batch_size", "batch_position", "latency_s", "injection_signs"),
)


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
    """Count one frame of trials. Control items are in the tables of the family `parts` and in no other.

    `labels`: those of the config, to be held against the verdicts; `scales`: judge → score → scale; `choosing`: judge
    → the verdict's field that holds its choice.
    """
    labels, scales = labels or {}, scales or {}
    trials = _describe(frame)
    own = trials.filter(~pl.col("is_control"))
    done = own.filter(pl.col("state").is_not_null())
    scored = trials.filter(pl.col("state") == "scored")
    own_scored = scored.filter(~pl.col("is_control"))
    entries = explode_map(scored, "scores", "score").join(_thresholds(scales), on=["judge", "score"], how="left")
    stepped = [(judge, name) for judge, held in scales.items() for name, scale in held.items() if values_of(scale)]
    stepped_scores = pl.DataFrame(stepped, schema={"judge": pl.String, "score": pl.String}, orient="row")
    own_entries = entries.filter(~pl.col("is_control"))
    return Counts(
        {
            **_count_families(trials, "", _STATE_COUNTS),
            **_count_families(entries, "score", _MOMENTS),
            **_count_families(with_choices(scored, choosing or {}), "choice", (number_of_trials(),)),
            "label_values": count_label_values(own_scored, labels),
            "label_choices": count_label_choices(own_scored, labels),
            "details": done.with_columns(
                detail=pl.when(pl.col("state") == "scored").then(pl.col("stage")).otherwise(pl.col("reason"))
            )
            .group_by(_KEYS["details"])
            .agg(number_of_trials()),
            "values": own_entries.join(stepped_scores, on=["judge", "score"])
            .group_by(_KEYS["values"])
            .agg(number_of_trials()),
            "latency": done.filter(pl.col("latency_s") > 0)
            .with_columns(bucket=(pl.col("latency_s").log() / math.log(BUCKET_BASE)).ceil().cast(pl.Int64))
            .group_by(_KEYS["latency"])
            .agg(number_of_trials()),
            "notes": count_notes(done),
            "signs": own.select(*PAIR, sign="injection_signs")
            .explode("sign")
            .filter(pl.col("sign").is_not_null())
            .group_by(_KEYS["signs"])
            .agg(number_of_trials()),
        }
    )


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


_STATE_COUNTS = (
    number_of_trials(),
    *((pl.col("state") == state).sum().cast(pl.Int64).alias(state) for state in STATES),
    pl.col("official_reading").is_not_null().sum().cast(pl.Int64).alias("official_n"),
    pl.col("official_reading").sum().cast(pl.Int64).alias("official_hits"),
    pl.col("attempts").sum().cast(pl.Int64),
)
_MOMENTS = (
    number_of_trials(),
    pl.col("value").sum().alias("total"),
    (pl.col("value") * pl.col("value")).sum().alias("squares"),
    (pl.col("value") >= pl.col("at_least")).sum().cast(pl.Int64).alias("reached"),
)


def _describe(frame: pl.DataFrame) -> pl.DataFrame:
    """The trials with the columns of the families that frames do not have.

    `part`: the kind of control item, or whether the text is suspect. `marked`: asked alone for its own text. `way`:
    the stage that gave the verdict, or the state of a reply without one; null where no reply was read.
    """
    control = pl.col("is_control").fill_null(False)
    kind = pl.col("item_id").str.extract(r"^control:([a-z_]+):")
    suspect = pl.when(pl.col("injection_suspect").fill_null(False)).then(pl.lit(SUSPECT)).otherwise(pl.lit(OTHER))
    # What was put off to the end of the run was read there for the first time.
    first = pl.col("notes").list.join("\n").str.extract(r"(?m)^read:(.+)$")
    stage = pl.when(pl.col("stage") == "last").then(first.fill_null(pl.col("stage"))).otherwise(pl.col("stage"))
    read = pl.col("state").is_in(("scored", "malformed", "refused")) & pl.col("request_id").is_not_null()
    return frame.select(
        *_COLUMNS,
        control.alias("is_control"),
        pl.col("bisect_depth").fill_null(0),
        pl.when(control).then(kind).otherwise(suspect).alias("part"),
        pl.col("notes").list.contains(BLOCK_MARKER).fill_null(False).alias("marked"),
        pl.when(read).then(pl.when(pl.col("state") == "scored").then(stage).otherwise(pl.col("state"))).alias("way"),
    )


def _count_families(rows: pl.DataFrame, name: str, sums: Iterable[pl.Expr]) -> dict[str, pl.DataFrame]:
    """A table for each family; `rows`: trials, or several of each told apart by the column `name`."""
    own = rows.filter(~pl.col("is_control"))
    done = own.filter(pl.col("state").is_not_null())
    members = {
        "cells": _with_slices(own),
        "served": done,
        "places": done.filter(pl.col("request_id").is_not_null()),
        "ways": done.filter(pl.col("way").is_not_null()),
        "parts": rows,
    }
    sums = tuple(sums)
    more = (name,) if name else ()
    ending = f".{name}s" if name else ""
    return {f"{key}{ending}": part.group_by(*FAMILIES[key], *more).agg(*sums) for key, part in members.items()}


def _with_slices(rows: pl.DataFrame) -> pl.DataFrame:
    """Each row without a slice, and once more for each of its slices."""
    whole = rows.with_columns(pl.lit(None, pl.String).alias("slice"))
    sliced = rows.filter(pl.col("slices").list.len() > 0)
    return pl.concat([whole, sliced.with_columns(slice="slices").explode("slice")]) if len(sliced) else whole


def _thresholds(scales: Mapping[str, Mapping[str, Scale]]) -> pl.DataFrame:
    """judge, score and `at_least`, for every score of which a judge asks how many reach it."""
    rows = [
        (judge, name, float(scale.at_least))
        for judge, held in scales.items()
        for name, scale in held.items()
        if scale.at_least is not None
    ]
    schema = {"judge": pl.String, "score": pl.String, "at_least": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def over_limit(counts: Counts, max_unscored: float) -> list[tuple[str, str, int, int]]:
    """(judge, model, unscored, planned) where more than `max_unscored` of the trials were judged without a score."""
    table = counts["cells"].filter(pl.col("slice").is_null()).group_by(PAIR).agg(pl.col("n", *STATES).sum())
    unscored = pl.sum_horizontal(state for state in STATES if state != "scored").alias("unscored")
    over = table.with_columns(unscored).filter(pl.col("unscored") > max_unscored * pl.col("n")).sort(PAIR)
    return over.select(*PAIR, "unscored", "n").rows()
