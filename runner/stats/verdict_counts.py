"""Counts of what verdicts are made of: single values, choices, notes, and the requests that brought them.

Beside the counts by which results are split (see `counts`), and as those, made of one frame at a time and added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
import polars as pl

from judges import Scale
from runner.messages import BLOCK_MARKER

MAX_VALUES = 21
"""Scales of more values than this have no distribution by value."""

_PAIR = ("judge", "model")
_PLACE = (*_PAIR, "batch_size", "batch_position", "bisect_depth", "marked")
_WAY = (*_PAIR, "parser_version", "way")
KEYS: dict[str, tuple[str, ...]] = {
    "values": (*_PAIR, "system", "score", "value"),
    "chosen": (*_PAIR, "system", "choice"),
    "notes": (*_PAIR, "code"),
    "places": _PLACE,
    "place_scores": (*_PLACE, "score"),
    "ways": _WAY,
    "way_scores": (*_WAY, "score"),
    "way_choices": (*_WAY, "choice"),
}
"""Table → the columns that tell its rows apart; all others are counts or sums."""


def values_of(scale: Scale) -> list[float]:
    """Every value of a graded scale, from low to high; none where it has no steps, or too many."""
    if scale.binary or scale.step is None or scale.low is None or scale.high is None:
        return []
    steps = round((scale.high - scale.low) / scale.step)
    if steps >= MAX_VALUES:
        return []
    # Rounded, for a value that was added up must be the one that a reply spells out.
    return [round(float(scale.low + step * scale.step), 9) for step in range(steps + 1)]


def break_down(
    done: pl.DataFrame, entries: pl.DataFrame, scales: Mapping[str, Mapping[str, Scale]], choosing: Mapping[str, str]
) -> dict[str, pl.DataFrame]:
    """The tables of `KEYS`. `done`: judged trials; `entries`: a row per score of them; `choosing`: judge → field."""
    stepped = [(judge, name) for judge, held in scales.items() for name, scale in held.items() if values_of(scale)]
    asked, choosers = _asked(done), with_choice(done.filter(pl.col("state") == "scored"), choosing)
    return {
        "values": entries.join(_frame(stepped, "score"), on=["judge", "score"]).group_by(KEYS["values"]).agg(_trials()),
        "chosen": choosers.group_by(KEYS["chosen"]).agg(_trials()),
        "notes": _notes(done),
        "places": asked.group_by(_PLACE).agg(_trials()),
        "place_scores": _asked(entries).group_by(KEYS["place_scores"]).agg(*moments()),
        "ways": _read(done).group_by(_WAY).agg(_trials()),
        "way_scores": _read(entries).group_by(KEYS["way_scores"]).agg(*moments()),
        "way_choices": _read(choosers).group_by(KEYS["way_choices"]).agg(_trials()),
    }


def moments() -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """Number, sum and sum of squares of the column `value`."""
    value = pl.col("value")
    return _trials(), value.sum().alias("total"), (value * value).sum().alias("squares")


def thresholds(scales: Mapping[str, Mapping[str, Scale]]) -> pl.DataFrame:
    """judge, score and `at_least`, for every score of which a judge asks how many reach it."""
    rows = [
        (judge, name, float(scale.at_least))
        for judge, held in scales.items()
        for name, scale in held.items()
        if scale.at_least is not None
    ]
    schema = {"judge": pl.String, "score": pl.String, "at_least": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def echoes(frames: Iterable[pl.DataFrame], examples: Mapping[str, str]) -> pl.DataFrame:
    """judge, model, size, n, hits: requests with a reply, and those whose reply was just the prompt's example of one.

    `frames`: requests as made; `examples`: judge → example. Blanks and line breaks do not count.
    """
    schema = {"judge": pl.String, "model": pl.String, "size": pl.Int64, "n": pl.Int64, "hits": pl.Int64}
    total = pl.DataFrame(schema=schema)
    wanted = _frame([(judge, "".join(text.split())) for judge, text in examples.items()], "example")
    for frame in frames:
        replies = frame.filter((pl.col("state") == "ok") & pl.col("answer_text").is_not_null())
        found = (
            replies.with_columns(pl.col("keys").list.len().cast(pl.Int64).alias("size"))
            .filter(pl.col("size") > 0)
            .join(wanted, on="judge")
            .group_by(*_PAIR, "size")
            .agg(
                _trials(),
                (pl.col("answer_text").str.replace_all(r"\s+", "") == pl.col("example"))
                .sum()
                .cast(pl.Int64)
                .alias("hits"),
            )
        )
        total = pl.concat([total, found]).group_by(*_PAIR, "size").agg(pl.col("n").sum(), pl.col("hits").sum())
    return total


def _trials() -> pl.Expr:
    return pl.len().cast(pl.Int64).alias("n")


def _frame(rows: list[tuple[str, str]], second: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"judge": pl.String, second: pl.String}, orient="row")


def _asked(frame: pl.DataFrame) -> pl.DataFrame:
    """Those for which a request was made, and whether they were asked alone for their own text."""
    marked = pl.col("notes").list.contains(BLOCK_MARKER).fill_null(False).alias("marked")
    return frame.filter(pl.col("request_id").is_not_null()).with_columns(marked)


def _read(frame: pl.DataFrame) -> pl.DataFrame:
    """Those whose reply was read, and the `way`: the stage that gave the verdict, or the state without one."""
    read = frame.filter(pl.col("state").is_in(("scored", "malformed", "refused")) & pl.col("request_id").is_not_null())
    # What was put off to the end of the run was read there for the first time.
    first = pl.col("notes").list.join("\n").str.extract(r"(?m)^read:(.+)$")
    stage = pl.when(pl.col("stage") == "last").then(first.fill_null(pl.col("stage"))).otherwise(pl.col("stage"))
    return read.with_columns(pl.when(pl.col("state") == "scored").then(stage).otherwise(pl.col("state")).alias("way"))


def with_choice(scored: pl.DataFrame, choosing: Mapping[str, str]) -> pl.DataFrame:
    """Those of judges that choose, with their `choice`."""
    found = scored.join(_frame(list(choosing.items()), "field"), on="judge")
    # Verdicts of a choice are as many as its labels: each is read once.
    distinct = found.select("verdict", "field").unique().filter(pl.col("verdict").is_not_null())
    choices = [orjson.loads(verdict).get(field) for verdict, field in distinct.rows()]
    return found.join(distinct.with_columns(pl.Series("choice", choices, pl.String)), on=["verdict", "field"])


def _notes(done: pl.DataFrame) -> pl.DataFrame:
    """Notes are `code` or `code:count`: how many judgments have each code, and the sum of its counts."""
    note = pl.col("notes")
    counted = note.str.extract(r"^(?s:.*):([0-9]{1,9})$")
    return (
        done.select(*_PAIR, "notes")
        .with_row_index("trial")
        .explode("notes")
        .filter(note.is_not_null())
        .with_columns(
            note.str.replace(r":[0-9]{1,9}$", "").alias("code"),
            counted.cast(pl.Int64).fill_null(1).alias("total"),
        )
        .group_by(KEYS["notes"])
        .agg(pl.col("trial").n_unique().cast(pl.Int64).alias("n"), pl.col("total").sum())
    )
