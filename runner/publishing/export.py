"""Writes a run's results in the formats of other tools.

Every format has the columns of the published results, but for `longmemeval`: rows of the official result file, one
system judged by one judge model, in which a row without a verdict has no place; those are left out and counted.
"""

import codecs
import difflib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

import orjson
import polars as pl
import polars.selectors as cs

from judges import STATES, Judge
from runner.config import RunConfig
from runner.dataset import Staged
from runner.errors import InputError
from runner.filesystem import replace_file
from runner.ledger.ledger import Ledger

from .parquet_writer import write_parquet
from .result_frames import judgment_frames, result_columns

Format = Literal["jsonl", "csv", "parquet", "longmemeval"]
Reading = Literal["official", "strict"]

_TIMES = cs.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ")
"""Times as ISO 8601 text: zone names need a database that not every machine has."""
_SPREADSHEET_TIMES = cs.datetime().dt.to_string("%Y-%m-%d %H:%M:%S")
_FORMULA = r"^[=+\-@\t\r]"
"""A spreadsheet would run such a cell."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    rows: int
    left_out: int
    """Rows without a verdict, which the format has no place for."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a run to export; None: all."""

    judge: str | None = None
    model: str | None = None
    system: str | None = None
    states: tuple[str, ...] = ()
    """Trials that ended so; empty: all."""


def export_results(
    config: RunConfig,
    judges: Mapping[str, Judge],
    staged: Staged,
    ledger: Ledger,
    *,
    format: Format,
    to: Path | None = None,
    select: Selection = Selection(),
    reading: Reading = "strict",
    texts: bool = True,
) -> ExportResult:
    """Write the selected results to a file, replaced in one step, or to stdout; `texts=False`: without long texts."""
    if reading == "official" and format != "longmemeval":
        raise InputError("--reading chooses the labels of --format longmemeval; the other formats hold both readings")
    if format == "longmemeval" and not texts:
        raise InputError("--no-texts: rows of --format longmemeval hold the response")
    select = _check(select, ledger, staged, only_one=format == "longmemeval")
    columns = result_columns(config, judges, staged, texts=texts)
    tables = judgment_frames(staged, ledger, config, judges, judge=select.judge, model=select.model, columns=columns)
    conditions = [pl.col("system") == select.system] if select.system else []
    conditions += [pl.col("state").is_in(select.states)] if select.states else []
    selected = (table.filter(conditions) if conditions else table for table in tables)
    if format == "longmemeval":
        assert select.judge is not None
        label = _label(judges[select.judge], reading)
        with _output(to) as file:
            return _write_longmemeval(selected, file, label)
    if to is None and format == "parquet":
        raise InputError("--format parquet needs a file: give --to FILE")
    with _output(to) as file:
        if format == "parquet":
            return ExportResult(write_parquet(file, selected, columns.schema), 0)
        if format == "csv":
            # A spreadsheet takes a file without the mark for one in the machine's own encoding; a pipe wants none.
            file.write(codecs.BOM_UTF8 if to is not None else b"")
            return ExportResult(_write_csv(selected, file, config, columns.schema), 0)
        return ExportResult(_write_jsonl(selected, file, config), 0)


def _check(select: Selection, ledger: Ledger, staged: Staged, only_one: bool) -> Selection:
    judge_models = [(row.shard.judge, row.shard.model) for row in ledger.shards()]
    judges, models = ({names[place] for names in judge_models} for place in (0, 1))
    choices = {"judge": sorted(judges), "model": sorted(models), "system": sorted(staged.coverage)}
    values: dict[str, str | None] = {}
    for name, known in choices.items():
        value = getattr(select, name)
        if value is not None and value not in known:
            near = difflib.get_close_matches(value, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known) or 'none'}"
            raise InputError(f"--{name} {value}: the run has no such {name}; {hint}")
        if value is None and only_one:
            if len(known) != 1:
                way = f"choose one with --{name}: {', '.join(known) or 'there are none'}"
                raise InputError(f"--format longmemeval writes one judge, model and system to a file; {way}")
            value = known[0]
        values[name] = value
    if unknown := [state for state in select.states if state not in STATES]:
        raise InputError(f"--state {unknown[0]}: must be of {', '.join(STATES)}")
    return Selection(**values, states=select.states)


def _write_jsonl(tables: Iterator[pl.DataFrame], file: BinaryIO, config: RunConfig) -> int:
    labels = {name: label.type for name, label in config.items.labels.items()}
    rows = 0
    for table in tables:
        for row in table.with_columns(_TIMES).iter_rows(named=True):
            row["scores"] = _mapping(row["scores"])
            row["labels"] = _labels(row["labels"], labels)
            row["verdict"] = None if row["verdict"] is None else orjson.Fragment(row["verdict"])
            file.write(orjson.dumps(row) + b"\n")
        rows += len(table)
    return rows


def _write_csv(tables: Iterator[pl.DataFrame], file: BinaryIO, config: RunConfig, schema: Mapping[str, Any]) -> int:
    labels = {name: label.type for name, label in config.items.labels.items()}

    def as_json(column: str, convert: Callable[[Any], Any]) -> pl.Expr:
        def text(values: pl.Series) -> pl.Series:
            texts = [None if value is None else orjson.dumps(convert(value)).decode() for value in values.to_list()]
            return pl.Series(texts, dtype=pl.String)

        return pl.col(column).map_batches(text, return_dtype=pl.String)

    maps = as_json("scores", _mapping), as_json("labels", lambda entries: _labels(entries, labels))
    lists = pl.col(pl.List(pl.String)).list.join("; ")
    strings = pl.col(pl.String)
    safe = pl.when(strings.str.contains(_FORMULA)).then("'" + strings).otherwise(strings).name.keep()
    names = {name: f"'{name}" for name in schema if re.match(_FORMULA, name)}
    rows = 0
    # One without rows first, for the header.
    for place, table in enumerate(chain([pl.DataFrame(schema=schema)], tables)):
        plain = table.with_columns(_SPREADSHEET_TIMES, lists, *maps)
        plain.with_columns(safe).rename(names).write_csv(file, include_header=place == 0)
        rows += len(table)
    return rows


def _write_longmemeval(
    tables: Iterator[pl.DataFrame], file: BinaryIO, label: Callable[[Any], bool | None]
) -> ExportResult:
    rows = left_out = 0
    for table in tables:
        # The official file has one row per question: of several repeats the first, and nothing of control items.
        for row in table.filter((pl.col("repeat") == 0) & ~pl.col("is_control")).iter_rows(named=True):
            if (judged := label(row)) is None:
                left_out += 1
                continue
            official = {
                "question_id": row["question_id"],
                "hypothesis": row["response"] or "",
                "autoeval_label": {"model": row["model_id"], "label": judged},
            }
            file.write(orjson.dumps(official) + b"\n")
            rows += 1
    return ExportResult(rows, left_out)


def _label(judge: Judge, reading: Reading) -> Callable[[Any], bool | None]:
    """A row's label: by the official reading of the first reply, or by the verdict."""
    if reading == "official":
        if judge.official("") is None:
            raise InputError(f"--reading official: judge {judge.name!r} declares no official reading")
        return lambda row: row["official_reading"]
    if not judge.binary or len(judge.verdict_fields) != 1:
        raise InputError(f"--format longmemeval needs yes-or-no verdicts; judge {judge.name!r} gives others")
    name = judge.verdict_fields[0]
    return lambda row: None if row["scores"] is None else (_mapping(row["scores"]) or {})[name] == 1.0


def _mapping(entries: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if entries is None else {entry["key"]: entry["value"] for entry in entries}


def _labels(entries: list[dict[str, Any]] | None, types: Mapping[str, str]) -> dict[str, Any] | None:
    """Labels with the type they were declared to have."""
    return {
        name: orjson.loads(value) if types.get(name) in ("bool", "ordinal") else value
        for name, value in (_mapping(entries) or {}).items()
    }


@contextmanager
def _output(to: Path | None) -> Iterator[BinaryIO]:
    if to is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with replace_file(to, private=False) as file:
            yield file
    except OSError as error:
        raise InputError(f"--to {to}: cannot be written: {error.strerror}") from None
