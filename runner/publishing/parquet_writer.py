"""Writes the published Parquet files of a run, so that a reader always finds exactly one whole revision."""

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged
from runner.errors import StoppedEarly
from runner.filesystem import disk_full_error, is_full, replace_directory, write_durably
from runner.ledger.ledger import Ledger

from .result_frames import ATTEMPT_COLUMNS, attempt_frames, judgment_frames, result_columns

ROWS_PER_PART = 1_000_000
"""A part is closed by the first frame that reaches this."""

_MAPS = {"scores": pa.float64(), "labels": pa.string()}


def publish_results(
    directory: Path, config: RunConfig, judges: Mapping[str, Judge], staged: Staged, ledger: Ledger
) -> None:
    """Write `results/` and `attempts/` of a run directory anew from its ledger."""
    columns = result_columns(config, judges, staged)
    frames = judgment_frames(staged, ledger, config, judges, columns=columns)
    write_parts(directory / "results", frames, columns.schema)
    write_parts(directory / "attempts", attempt_frames(ledger, config=config), ATTEMPT_COLUMNS)


def publish_if_changed(
    directory: Path, config: RunConfig, judges: Mapping[str, Judge], staged: Staged, ledger: Ledger
) -> None:
    """`publish`, where the ledger holds other judgments than what is published."""
    mark = f"{ledger.meta('plan')} {sum(row.done for row in ledger.shards())} {ledger.revisions.current()}"
    if ledger.meta("published") == mark and (directory / "results").is_dir():
        return
    try:
        publish_results(directory, config, judges, staged, ledger)
    except OSError as error:
        if is_full(error):
            problem = f"the results could not be written ({os.strerror(error.errno or 0)})"
            raise disk_full_error(directory, problem) from None
        problem = f"the results could not be written ({error.strerror})"
        way = "every judgment is safe in run.db, and the same command writes them"
        raise StoppedEarly(f"{directory}: {problem}; {way}") from None
    ledger.set_meta("published", mark)


def write_parts(
    target: Path, tables: Iterable[pl.DataFrame], columns: Mapping[str, Any], rows_per_part: int = ROWS_PER_PART
) -> None:
    """Replace the directory `target` by `part-00000.parquet`, … of the frames; one empty part if there are none."""
    with replace_directory(target) as fresh:
        left = iter(tables)
        table: pl.DataFrame | None = next(left, pl.DataFrame(schema=dict(columns)))
        number = 0
        while table is not None:
            with write_durably(fresh / f"part-{number:05d}.parquet") as file:
                write_parquet(file, _part(table, left, rows_per_part), columns)
            table, number = next(left, None), number + 1


def write_parquet(file: BinaryIO, tables: Iterable[pl.DataFrame], columns: Mapping[str, Any]) -> int:
    """Writes frames of these columns as one Parquet file; how many rows."""
    rows = 0
    with pq.ParquetWriter(file, as_arrow(pl.DataFrame(schema=dict(columns))).schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(as_arrow(table))
            rows += len(table)
    return rows


def parquet(frames: Iterable[pl.DataFrame], columns: Mapping[str, Any]) -> bytes:
    """The frames as one Parquet file."""
    buffer = io.BytesIO()
    write_parquet(buffer, frames, columns)
    return buffer.getvalue()


def as_arrow(frame: pl.DataFrame) -> pa.Table:
    """The frame as an Arrow table whose scores and labels are maps."""
    table = frame.to_arrow()
    for index, field in enumerate(table.schema):
        if field.name in _MAPS:
            lists = table.column(index).combine_chunks()
            keys, values = lists.values.field("key").cast(pa.string()), lists.values.field("value")
            offsets = lists.offsets.cast(pa.int32())
            maps = pa.MapArray.from_arrays(offsets, keys, values.cast(_MAPS[field.name]), mask=lists.is_null())
            table = table.set_column(index, field.name, maps)
        elif pa.types.is_large_string(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    return table


def _part(table: pl.DataFrame, left: Iterator[pl.DataFrame], rows_per_part: int) -> Iterator[pl.DataFrame]:
    """A frame, and of those left as many as the part needs."""
    rows = len(table)
    yield table
    while rows < rows_per_part and (more := next(left, None)) is not None:
        rows += len(more)
        yield more
