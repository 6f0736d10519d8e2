"""Counts of what verdicts are made of: single values, choices, labels held against them, notes, echoed examples.

Made of one frame at a time, as all counts (see `counting`), and added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
import polars as pl

from judges import Scale
from runner.labels import Label

from .summaries import PAIR, RESULT

MAX_VALUES = 21
"""Scales of more values than this have no distribution by value."""


def number_of_trials() -> pl.Expr:
    """How many rows, as `n`."""
    return pl.len().cast(pl.Int64).alias("n")


def values_of(scale: Scale) -> list[float]:
    """Every value of a graded scale, from low to high; none where it has no steps, or too many."""
    if scale.binary or scale.step is None or scale.low is None or scale.high is None:
        return []
    steps = round((scale.high - scale.low) / scale.step)
    if steps >= MAX_VALUES:
        return []
    # Rounded, for a value that was added up must be the one that a reply spells out.
    return [round(float(scale.low + step * scale.step), 9) for step in range(steps + 1)]


def explode_map(frame: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """One row per entry of a map column: its name, and its `value`."""
    entry = pl.col(column).struct
    return (
        frame.filter(pl.col(column).list.len() > 0)
        .explode(column)
        .with_columns(entry.field("key").alias(name), entry.field("value").alias("value"))
    )


def with_choices(scored: pl.DataFrame, choosing: Mapping[str, str]) -> pl.DataFrame:
    """The trials of judges that choose, with their `choice`; `choosing`: judge → the verdict's field that holds it."""
    fields = pl.DataFrame(list(choosing.items()), schema={"judge": pl.String, "field": pl.String}, orient="row")
    return _read_choices(scored.join(fields, on="judge"), "choice")


def _read_choices(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """With what the verdict says in its `field`, where that is a text."""
    # Verdicts of a choice are as many as its labels: each is read once.
    distinct = rows.select("verdict", "field").unique().filter(pl.col("verdict").is_not_null())
    values = [orjson.loads(verdict).get(field) for verdict, field in distinct.rows()]
    texts = [value if isinstance(value, str) else None for value in values]
    return rows.join(distinct.with_columns(pl.Series(name, texts, pl.String)), on=["verdict", "field"])


def count_label_values(scored: pl.DataFrame, labels: Mapping[str, Label]) -> pl.DataFrame:
    """Scores against the labels that are numbers; yes is 1 and no is 0."""
    labelled = _explode_labels(scored, {name: label for name, label in labels.items() if label.type != "choice"})
    number = pl.col("human").replace({"true": "1", "false": "0"}).cast(pl.Float64)
    return (
        explode_map(labelled, "scores", "score")
        .filter(pl.col("score") == pl.col("field"))
        .with_columns(pl.col("value").alias("judged"), number.alias("human"))
        .group_by(*RESULT, "label", "judged", "human")
        .agg(number_of_trials())
    )


def count_label_choices(scored: pl.DataFrame, labels: Mapping[str, Label]) -> pl.DataFrame:
    """What verdicts say in words against the labels that are choices."""
    labelled = _explode_labels(scored, {name: label for name, label in labels.items() if label.type == "choice"})
    return (
        _read_choices(labelled, "judged")
        .filter(pl.col("judged").is_not_null())
        .group_by(*RESULT, "label", "judged", "human")
        .agg(number_of_trials())
    )


def _explode_labels(scored: pl.DataFrame, labels: Mapping[str, Label]) -> pl.DataFrame:
    """One row per scored trial and label: the `label`, the `field` it is about, and the `human` value as text."""
    fields = pl.DataFrame(
        {"label": list(labels), "field": [label.score(name) for name, label in labels.items()]},
        schema={"label": pl.String, "field": pl.String},
    )
    columns = [*RESULT, "scores", "verdict", "labels"]
    return explode_map(scored.select(columns), "labels", "label").rename({"value": "human"}).join(fields, on="label")


def count_notes(done: pl.DataFrame) -> pl.DataFrame:
    """Notes are `code` or `code:count`: how many judgments have each code, and the sum of its counts."""
    note = pl.col("notes")
    counted = note.str.extract(r"^(?s:.*):([0-9]{1,9})$")
    return (
        done.select(*PAIR, "notes")
        .with_row_index("trial")
        .explode("notes")
        .filter(note.is_not_null())
        .with_columns(
            note.str.replace(r":[0-9]{1,9}$", "").alias("code"),
            counted.cast(pl.Int64).fill_null(1).alias("total"),
        )
        .group_by(*PAIR, "code")
        .agg(pl.col("trial").n_unique().cast(pl.Int64).alias("n"), pl.col("total").sum())
    )


def count_echoes(frames: Iterable[pl.DataFrame], examples: Mapping[str, str]) -> pl.DataFrame:
    """judge, model, size, n, hits: requests with a reply, and those whose reply was just the prompt's example of one.

    `frames`: requests as made; `examples`: judge → example. Blanks and line breaks do not count.
    """
    schema = {"judge": pl.String, "model": pl.String, "size": pl.Int64, "n": pl.Int64, "hits": pl.Int64}
    total = pl.DataFrame(schema=schema)
    texts = [(judge, "".join(text.split())) for judge, text in examples.items()]
    wanted = pl.DataFrame(texts, schema={"judge": pl.String, "example": pl.String}, orient="row")
    echo = pl.col("answer_text").str.replace_all(r"\s+", "") == pl.col("example")
    for frame in frames:
        counted = (
            frame.filter((pl.col("state") == "ok") & pl.col("answer_text").is_not_null())
            .with_columns(pl.col("keys").list.len().cast(pl.Int64).alias("size"))
            .filter(pl.col("size") > 0)
            .join(wanted, on="judge")
            .group_by(*PAIR, "size")
            .agg(number_of_trials(), echo.sum().cast(pl.Int64).alias("hits"))
        )
        total = pl.concat([total, counted]).group_by(*PAIR, "size").agg(pl.col("n").sum(), pl.col("hits").sum())
    return total
