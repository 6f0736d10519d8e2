"""The results and attempts of a run as frames: a row per planned trial, its item joined with its judgment.

Everything that reads a run (metrics, export, Parquet, Python) reads these frames, so that a column means the same
everywhere. A frame holds some tens of thousands of trials, fewer where their items are long; memory does not grow with
the run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import polars as pl

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged
from runner.ledger.ledger import Ledger
from runner.ledger.schema import ALL_SHARDS, USAGE_COLUMNS
from runner.messages import Shard

from .result_columns import IDENTITY, LABELS, OUTCOME, SCORES, TIME, ResultColumns

_USAGE: dict[str, Any] = dict.fromkeys(USAGE_COLUMNS, pl.Int64) | {"cost_usd": pl.Float64}
COLUMNS: dict[str, Any] = {
    **IDENTITY, **OUTCOME,
    "judge_reply": pl.String, "reasoning_text": pl.String, "finish_reason": pl.String,
    "stage": pl.String, "notes": pl.List(pl.String),
    "verdict": pl.String, "scores": SCORES, "labels": LABELS,
    "key": pl.String, "run": pl.String, "revision": pl.Int64, "judge_fingerprint": pl.String, "template": pl.String,
    "model_id": pl.String, "served_model": pl.String, "system_fingerprint": pl.String, "structured": pl.String,
    "parser_version": pl.String, "request_id": pl.String, "batch_size": pl.Int64, "batch_position": pl.Int64,
    "bisect_depth": pl.Int64, "official_reading": pl.Boolean, "attempts": pl.Int64, **_USAGE, "latency_s": pl.Float64,
    "injection_suspect": pl.Boolean, "is_control": pl.Boolean, "judged_at": TIME, "worker": pl.String,
    "slices": pl.List(pl.String), "injection_signs": pl.List(pl.String), "attempt_id": pl.Int64,
}  # fmt: skip
"""Column → type of every results frame; `state` is null while not judged. `ResultColumns` has what a run adds."""

ATTEMPT_COLUMNS: dict[str, Any] = {
    "request_id": pl.String, "keys": pl.List(pl.String), "judge": pl.String,
    "model": pl.String, "model_id": pl.String, "served_model": pl.String, "system_fingerprint": pl.String,
    "stage": pl.String, "try": pl.Int64, "state": pl.String, "error": pl.String, "status": pl.Int64,
    "finish_reason": pl.String, "judge_reply": pl.String, "reasoning_text": pl.String, "refusal_text": pl.String,
    **_USAGE, "latency_s": pl.Float64, "retry_after_s": pl.Float64, "late_duplicate": pl.Boolean,
    "sent_at": TIME, "worker": pl.String, "reading": pl.String, "parser_version": pl.String,
    "same_verdict": pl.Boolean, "attempt_id": pl.Int64,
}  # fmt: skip
"""Column → type of `attempts/*.parquet`: one row per request as made."""

ROWS_PER_FRAME = 20_000
ALL_ATTEMPTS = 2**62
_ROWS_WITH_FIELDS = 1_000
"""Rows whose fields are in memory at a time."""

_LEDGER_TYPES: dict[str, Any] = {
    **ATTEMPT_COLUMNS, **COLUMNS, "shard": pl.Int64, "position": pl.Int64, "id": pl.Int64, "attempt": pl.Int64,
    "key": pl.Binary, "keys": pl.Binary, "scores": pl.String, "notes": pl.String, "official": pl.Int64,
    "late_duplicate": pl.Int64, "same_verdict": pl.Int64, "judged_at": pl.Float64, "sent_at": pl.Float64,
}  # fmt: skip
"""How the ledger's columns come."""


def result_columns(
    config: RunConfig, judges: Mapping[str, Judge], staged: Staged, *, texts: bool = True
) -> ResultColumns:
    """The columns of a run's published results; `texts=False`: without the long texts."""
    return ResultColumns(COLUMNS, config, judges, staged, texts=texts)


def judgment_frames(
    staged: Staged,
    ledger: Ledger,
    config: RunConfig,
    judges: Mapping[str, Judge],
    rows_per_frame: int = ROWS_PER_FRAME,
    *,
    judge: str | None = None,
    model: str | None = None,
    columns: ResultColumns | None = None,
) -> Iterator[pl.DataFrame]:
    """Every planned trial in the plan's order, or of one judge or model only; `columns`: with the run's own."""
    shards = [
        row.shard for row in ledger.shards() if judge in (None, row.shard.judge) and model in (None, row.shard.model)
    ]
    if columns is not None:
        rows_per_frame = min(rows_per_frame, columns.rows_per_frame)
    for part in _parts(shards, rows_per_frame):
        planned = _planned(part, staged, judges, columns)
        frame = planned.join(_judgments(part, ledger), on=("shard", "position"), how="left", maintain_order="left")
        yield _readable(frame, config, judges, columns)


def segment_frames(
    staged: Staged,
    ledger: Ledger,
    config: RunConfig,
    judges: Mapping[str, Judge],
    *,
    renewed: bool = False,
    columns: ResultColumns | None = None,
) -> Iterator[pl.DataFrame]:
    """The judgments of the ledger's marked segment, as `judgment_frames` has them; or a retry's new outcomes in it."""
    judged = _typed(*ledger.segments.rows(renewed=renewed)).drop("template")
    concerned = set(judged["shard"].unique())
    shards = [row.shard for row in ledger.shards() if row.shard.id in concerned]
    for part in _parts(shards, ROWS_PER_FRAME if columns is None else columns.rows_per_frame):
        planned = _planned(part, staged, judges, columns)
        frame = planned.join(judged, on=("shard", "position"), how="inner", maintain_order="left")
        yield _readable(frame, config, judges, columns)


def _readable(
    frame: pl.DataFrame, config: RunConfig, judges: Mapping[str, Judge], columns: ResultColumns | None
) -> pl.DataFrame:
    """Planned trials joined with their judgments, in the columns of results."""
    models = {entry.name: entry.model for entry in config.models}
    fingerprints = {name: each.fingerprint for name, each in judges.items()}
    frame = _decoded(frame, "scores", SCORES, lambda text: _entries(text, float))
    frame = _decoded(frame, "notes", pl.List(pl.String), orjson.loads)
    frame = frame.with_columns(
        pl.col("key").bin.encode("hex"),
        pl.lit(config.name).alias("run"),
        pl.col("judge").replace_strict(fingerprints, return_dtype=pl.String).alias("judge_fingerprint"),
        pl.col("model").replace_strict(models, return_dtype=pl.String).alias("model_id"),
        pl.col("official").cast(pl.Boolean).alias("official_reading"),
        (pl.col("injection_signs").list.len() > 0).alias("injection_suspect"),
        pl.col("attempt").alias("attempt_id"),
        _cost(config),
        _time("judged_at"),
    )
    return frame.select(*COLUMNS) if columns is None else columns.complete(frame)


def attempt_frames(
    ledger: Ledger,
    rows_per_frame: int = ROWS_PER_FRAME,
    before: int = ALL_SHARDS,
    after: int = 0,
    until: int = ALL_ATTEMPTS,
    config: RunConfig | None = None,
) -> Iterator[pl.DataFrame]:
    """Every request as made, in the order of recording; without those for trials of the shards from `before` on.

    `after` and `until`: of these ids only, the first exclusive. `config`: to leave costs without a price empty.
    """
    while after < until:
        columns, rows = ledger.attempt_rows(after, min(rows_per_frame, until - after), before)
        if not rows:
            return
        after = rows[-1][columns.index("id")]
        yield (
            _typed(columns, rows)
            .with_columns(
                pl.col("keys").bin.encode("hex").str.extract_all(".{32}"),
                pl.col("late_duplicate", "same_verdict").cast(pl.Boolean),
                pl.col("id").alias("attempt_id"),
                _time("sent_at"),
                pl.col("cost_usd") if config is None else _cost(config),
            )
            .filter(pl.col("attempt_id") <= until)
            .select(*ATTEMPT_COLUMNS)
        )


def _cost(config: RunConfig) -> pl.Expr:
    """The cost; null where no price is known, instead of nothing."""
    priced = [model.name for model in config.asked_models if model.price is not None]
    cost = pl.col("cost_usd")
    return pl.when((cost > 0) | pl.col("model").is_in(priced)).then(cost).alias("cost_usd")


def _time(column: str) -> pl.Expr:
    micros = (pl.col(column) * 1e6).round().cast(pl.Int64)
    return micros.cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias(column)


def _parts(shards: Sequence[Shard], rows_per_frame: int) -> Iterator[list[Shard]]:
    """Runs of neighbouring shards that make up a frame; the rows they span are bounded too."""
    part: list[Shard] = []
    low = high = trials = 0
    for shard in shards:
        end = shard.first_row + shard.rows
        if part:
            low, high = min(low, shard.first_row), max(high, end)
            if trials + shard.trials > rows_per_frame or high - low > rows_per_frame:
                yield part
                part = []
        if not part:
            low, high, trials = shard.first_row, end, 0
        part.append(shard)
        trials += shard.trials
    if part:
        yield part


def _planned(
    shards: Sequence[Shard], staged: Staged, judges: Mapping[str, Judge], own: ResultColumns | None
) -> pl.DataFrame:
    """The trials of some shards with their items."""
    first = min(shard.first_row for shard in shards)
    rows = max(shard.first_row + shard.rows for shard in shards) - first
    names = sorted({shard.judge for shard in shards})
    fields = ["fields"] if own is not None and own.needs_fields else []
    columns = ["row", "id", "question_id", "system", "item_group", "labels", *fields]
    columns += [f"{kind}:{name}" for kind in ("template", "suspect") for name in names]
    items = staged.frame(first, rows, columns)
    if own is not None and fields:
        items = own.add_fields(items)
    items = _decoded(items, "labels", LABELS, lambda text: _entries(text, _label_text))
    for name in names:
        slices = _slices(judges[name], first, len(items), staged)
        signs = pl.col(f"suspect:{name}").str.split(",").list.eval(pl.element().filter(pl.element() != ""))
        items = items.with_columns(slices.alias(f"slices:{name}"), signs.alias(f"injection_signs:{name}"))
    place = pl.col("row") - pl.col("first_row")
    end = pl.col("first_row") + pl.col("rows")
    plan = pl.DataFrame(shards).rename({"id": "shard"}).with_columns(row=pl.int_ranges("first_row", end)).explode("row")

    def of_judge(column: str) -> pl.Expr:
        values = [pl.when(pl.col("judge") == name).then(pl.col(f"{column}:{name}")) for name in names]
        return pl.coalesce(values).alias(column)

    return (
        plan.join(items, on="row", how="inner", maintain_order="left")
        .with_columns(
            of_judge("template"),
            of_judge("slices"),
            of_judge("injection_signs"),
            place.alias("position"),
            (pl.col("row") >= staged.rows).alias("is_control"),
        )
        .filter(pl.col("template").is_not_null())
        .rename({"id": "item_id"})
    )


def _slices(judge: Judge, first: int, rows: int, staged: Staged) -> pl.Series:
    """Which of the judge's extra slices each of the rows belongs to."""
    # Each distinct list is made once: making a column of as many lists as there are items takes longer than all else.
    distinct: dict[tuple[str, ...], int] = {(): 0}
    places = [0] * rows
    conditions = judge.slices.also
    needs_fields = any(condition.fields for condition in conditions.values())
    for start in range(first, first + rows if conditions else first, _ROWS_WITH_FIELDS):
        part = min(_ROWS_WITH_FIELDS, first + rows - start)
        for item in staged.items(start, part, judge.name, fields=needs_fields):
            member = tuple(name for name, condition in conditions.items() if condition.matches(item.parse()))
            places[item.row - first] = distinct.setdefault(member, len(distinct))
    return pl.Series([list(member) for member in distinct], dtype=pl.List(pl.String)).gather(places)


def _entries(data: str, convert: Callable[[Any], Any]) -> list[dict[str, Any]]:
    values = orjson.loads(data).items()
    return [{"key": name, "value": convert(value)} for name, value in values if value is not None]


def _judgments(shards: Sequence[Shard], ledger: Ledger) -> pl.DataFrame:
    """The judgments of some shards: asked for in runs of neighbouring ids, so that no other shard's are loaded."""
    columns: list[str] = []
    rows: list[tuple[Any, ...]] = []
    start = 0
    for index, shard in enumerate(shards):
        if index + 1 == len(shards) or shards[index + 1].id != shard.id + 1:
            columns, part = ledger.judgment_rows(shards[start].id, shard.id)
            rows += part
            start = index + 1
    return _typed(columns, rows).drop("template")


def _typed(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """The ledger's rows as a frame."""
    values: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [[]] * len(columns)
    return pl.DataFrame(
        [pl.Series(name, column, _LEDGER_TYPES[name]) for name, column in zip(columns, values, strict=True)]
    )


def _label_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _decoded(frame: pl.DataFrame, column: str, dtype: Any, decode: Callable[[Any], Any]) -> pl.DataFrame:
    """A JSON column decoded. Each distinct text is decoded once: among scores, labels and notes they are few."""
    distinct = frame[column].drop_nulls().unique()
    table = pl.DataFrame({column: distinct, "decoded": pl.Series([decode(text) for text in distinct], dtype=dtype)})
    joined = frame.join(table, on=column, how="left", maintain_order="left")
    return joined.drop(column).rename({"decoded": column})
