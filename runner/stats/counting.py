"""From frames of trials to counts that add up.

A frame (see `publishing.result_frames`) is counted by itself with grouped expressions, and the small counts of all
frames are added: a part of a run and a whole run are the same arithmetic, and a million trials never stand in memory
together. So are sums per question, of a sample of the questions where there are very many. Nothing here reads a file or
divides anything.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import orjson
import polars as pl

from judges import STATES, Scale
from runner.labels import Label
from runner.messages import BLOCK_MARKER

from .estimators import BUCKET_BASE
from .question_sums import QuestionSample, split_contexts
from .summaries import FAMILIES, PAIR, RESULT

MAX_VALUES = 21
"""Scales of more values than this have no distribution by value."""

SUSPECT, OTHER = "suspect", "other"
"""Parts of the run's own trials; any other part is a kind of control item."""

_CONTEXT = (
    *dict.fromkeys(column for family in FAMILIES.values() for column in family if column != "slice"),
    *("slices", "is_control", "requested", "measure", "name"),
)
"""What tells the contexts of sums per question apart: whatever subsets can be told apart by, and what is summed."""
_LABELLED = (*RESULT, "label", "judged", "human")
_SAMPLES = {
    "questions": "contexts",
    "label_values.questions": "label_values.contexts",
    "label_choices.questions": "label_choices.contexts",
}
"""Table of sums per question → that of their contexts."""

_KEYS: dict[str, tuple[str, ...]] = {
    **FAMILIES,
    **{f"{name}.scores": (*keys, "score") for name, keys in FAMILIES.items()},
    **{f"{name}.choices": (*keys, "choice") for name, keys in FAMILIES.items()},
    "label_values": _LABELLED,
    "label_choices": _LABELLED,
    "details": (*RESULT, "state", "detail"),
    "values": (*RESULT, "score", "value"),
    "latency": (*PAIR, "bucket"),
    "notes": (*PAIR, "code"),
    "signs": (*PAIR, "sign"),
}
"""Table → the columns that tell its rows apart; all others are counts or sums."""

_COLUMNS = (
    *(*RESULT, "slices", "state", "reason", "stage", "verdict", "scores", "labels", "notes", "question_id"),
    *("served_model", "system_fingerprint", "parser_version", "structured", "official_reading", "attempts"),
    *("request_id", "batch_size", "batch_position", "latency_s", "injection_signs"),
)


Counts = dict[str, pl.DataFrame]
"""Table → counts of some trials. Equal whether trials are counted together, or apart and added."""


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
    trials = _describe(frame)
    own = trials.filter(~pl.col("is_control"))
    done = own.filter(pl.col("state").is_not_null())
    scored = trials.filter(pl.col("state") == "scored")
    labelled = _explode_labels(done, labels or {})
    entries = explode_map(scored, "scores", "score").join(_scales(scales or {}), on=["judge", "score"], how="left")
    detail = pl.when(pl.col("state") == "scored").then(pl.col("stage")).otherwise(pl.col("reason"))
    bucket = (pl.col("latency_s").log() / math.log(BUCKET_BASE)).ceil().cast(pl.Int64)
    chosen = _with_choices(scored, choosing or {})
    rows = {
        "label_values": _label_values(labelled),
        "label_choices": _label_choices(labelled),
        "details": done.with_columns(detail=detail),
        "values": entries.filter(pl.col("stepped"), ~pl.col("is_control")),
        "latency": done.filter(pl.col("latency_s") > 0).with_columns(bucket=bucket),
        "signs": own.select(*PAIR, sign="injection_signs").explode("sign").filter(pl.col("sign").is_not_null()),
    }
    return {
        **_count_families(trials, "", _STATE_COUNTS),
        **_count_families(entries, "score", _MOMENTS),
        **_count_families(chosen, "choice", (_N,)),
        **{table: part.group_by(_KEYS[table]).agg(_N) for table, part in rows.items()},
        "notes": _count_notes(done),
        **_sum_questions("questions", _described_sums(trials, entries, chosen), _CONTEXT),
        **_sum_questions("label_values.questions", rows["label_values"].with_columns(_ONE), _LABELLED),
        **_sum_questions("label_choices.questions", rows["label_choices"].with_columns(_ONE), _LABELLED),
    }


def add(parts: Iterable[Counts]) -> Counts:
    """The counts of all parts, of which there is one at least, together."""
    samples = {table: QuestionSample() for table in _SAMPLES}
    total: Counts | None = None
    for part in parts:
        for table, sample in samples.items():
            sample.add(part[table], part[_SAMPLES[table]])
        total = part if total is None else _add(total, part)
    assert total is not None, "there is one at least"
    for table, sample in samples.items():
        total[table], total[_SAMPLES[table]] = sample.tables()
    return total


def _add(total: Counts, part: Counts) -> Counts:
    tables = ((name, keys, pl.concat([total[name], part[name]])) for name, keys in _KEYS.items())
    return {name: table.group_by(keys).agg(pl.exclude(*keys).sum()) for name, keys, table in tables}


_N = pl.len().cast(pl.Int64).alias("n")
_ONE = pl.lit(1, pl.Int64).alias("n")

_STATE_COUNTS = (
    _N,
    *((pl.col("state") == state).sum().cast(pl.Int64).alias(state) for state in STATES),
    pl.col("official_reading").is_not_null().sum().cast(pl.Int64).alias("official_n"),
    pl.col("official_reading").sum().cast(pl.Int64).alias("official_hits"),
    pl.col("attempts").sum().cast(pl.Int64),
)
_MOMENTS = (
    _N,
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
        pl.col("item_group").alias("group"),
        pl.col("question_id").hash().alias("question"),
        pl.col("request_id").is_not_null().alias("requested"),
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


def _described_sums(trials: pl.DataFrame, entries: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """What is summed per question: scores, choices, official readings, and trials without a score."""

    def summed(measure: str, rows: pl.DataFrame, name: pl.Expr, total: pl.Expr, reached: pl.Expr) -> pl.DataFrame:
        named = rows.with_columns(name=name.cast(pl.String), measure=pl.lit(measure))
        sums = _ONE, total.cast(pl.Float64).alias("total"), reached.cast(pl.Int64).alias("reached")
        return named.select(*_CONTEXT, "question", *sums)

    none, zero = pl.lit(""), pl.lit(0)
    unscored = trials.filter(pl.col("state").is_not_null() & (pl.col("state") != "scored"))
    official = trials.filter(pl.col("official_reading").is_not_null())
    reached = (pl.col("value") >= pl.col("at_least")).fill_null(False)
    return pl.concat(
        [
            summed("score", entries, pl.col("score"), pl.col("value"), reached),
            summed("choice", chosen, pl.col("choice"), _ONE, zero),
            summed("official", official, none, pl.col("official_reading"), zero),
            summed("unscored", unscored, none, zero, zero),
        ]
    )


def _sum_questions(table: str, rows: pl.DataFrame, context: Sequence[str]) -> Counts:
    held, contexts = split_contexts(rows, context)
    sums = [column for column in ("n", "total", "reached") if column in held.columns]
    return {table: held.select("context", "question", *sums), _SAMPLES[table]: contexts}


def _with_slices(rows: pl.DataFrame) -> pl.DataFrame:
    """Each row without a slice, and once more for each of its slices."""
    whole = rows.with_columns(pl.lit(None, pl.String).alias("slice"))
    sliced = rows.filter(pl.col("slices").list.len() > 0)
    return pl.concat([whole, sliced.with_columns(slice="slices").explode("slice")]) if len(sliced) else whole


def _scales(scales: Mapping[str, Mapping[str, Scale]]) -> pl.DataFrame:
    """For every score of a judge where it is high, if anywhere, and whether it has a distribution by value."""
    known = ((judge, name, scale) for judge, held in scales.items() for name, scale in held.items())
    rows = [(judge, name, scale.at_least, bool(values_of(scale))) for judge, name, scale in known]
    schema = {"judge": pl.String, "score": pl.String, "at_least": pl.Float64, "stepped": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


def over_limit(counts: Counts, max_unscored: float) -> list[tuple[str, str, int, int]]:
    """(judge, model, unscored, planned) where more than `max_unscored` of the trials were judged without a score."""
    table = counts["cells"].filter(pl.col("slice").is_null()).group_by(PAIR).agg(pl.col("n", *STATES).sum())
    unscored = pl.sum_horizontal(state for state in STATES if state != "scored").alias("unscored")
    over = table.with_columns(unscored).filter(pl.col("unscored") > max_unscored * pl.col("n")).sort(PAIR)
    return over.select(*PAIR, "unscored", "n").rows()


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


def _with_choices(scored: pl.DataFrame, choosing: Mapping[str, str]) -> pl.DataFrame:
    """The trials of judges that choose, with their `choice`; `choosing`: judge → the verdict's field that holds it."""
    fields = pl.DataFrame(list(choosing.items()), schema={"judge": pl.String, "field": pl.String}, orient="row")
    return _read_choices(scored.filter(pl.col("verdict").is_not_null()).join(fields, on="judge"), "choice")


def _read_choices(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """With what the verdict says in its `field`, where that is a text."""
    # Verdicts of a choice are as many as its labels: each is read once.
    distinct = rows.select("verdict", "field").unique().filter(pl.col("verdict").is_not_null())
    values = [orjson.loads(verdict).get(field) for verdict, field in distinct.rows()]
    texts = [value if isinstance(value, str) else None for value in values]
    return rows.join(distinct.with_columns(pl.Series(name, texts, pl.String)), on=["verdict", "field"], how="left")


def _label_values(labelled: pl.DataFrame) -> pl.DataFrame:
    """Scores against the labels that are numbers, yes being 1 and no 0; null for what was judged without a score."""
    number = pl.col("human").replace({"true": "1", "false": "0"}).cast(pl.Float64)
    numbers = labelled.filter(~pl.col("chooses")).with_columns(human=number)
    entries = explode_map(numbers, "scores", "score").filter(pl.col("score") == pl.col("field"))
    unscored = numbers.filter(pl.col("state") != "scored").with_columns(judged=pl.lit(None, pl.Float64))
    columns = *_LABELLED, "question"
    return pl.concat([entries.with_columns(judged=pl.col("value")).select(columns), unscored.select(columns)])


def _label_choices(labelled: pl.DataFrame) -> pl.DataFrame:
    """What verdicts say in words against the labels that are choices; null for what was judged without a verdict."""
    choices = _read_choices(labelled.filter(pl.col("chooses")), "judged")
    columns = *_LABELLED, "question"
    return choices.filter(pl.col("judged").is_not_null() | (pl.col("state") != "scored")).select(columns)


def _explode_labels(done: pl.DataFrame, labels: Mapping[str, Label]) -> pl.DataFrame:
    """One row per judged trial and label: the `label`, the `field` it is about, and the `human` value as text."""
    rows = [(name, label.score(name), label.type == "choice") for name, label in labels.items()]
    schema = {"label": pl.String, "field": pl.String, "chooses": pl.Boolean}
    fields = pl.DataFrame(rows, schema=schema, orient="row")
    columns = [*RESULT, "question", "state", "scores", "verdict", "labels"]
    return explode_map(done.select(columns), "labels", "label").rename({"value": "human"}).join(fields, on="label")


def _count_notes(done: pl.DataFrame) -> pl.DataFrame:
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
    echo = pl.col("judge_reply").str.replace_all(r"\s+", "") == pl.col("example")
    for frame in frames:
        counted = (
            frame.filter((pl.col("state") == "ok") & pl.col("judge_reply").is_not_null())
            .with_columns(pl.col("keys").list.len().cast(pl.Int64).alias("size"))
            .filter(pl.col("size") > 0)
            .join(wanted, on="judge")
            .group_by(*PAIR, "size")
            .agg(_N, echo.sum().cast(pl.Int64).alias("hits"))
        )
        total = pl.concat([total, counted]).group_by(*PAIR, "size").agg(pl.col("n").sum(), pl.col("hits").sum())
    return total
