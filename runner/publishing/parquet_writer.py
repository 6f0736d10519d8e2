"""Writes the published Parquet files of a run, so that a reader always finds exactly one whole revision.

A directory of parts is written beside the old one, synced, and exchanged with it in one step where the system can
(Linux, macOS); elsewhere by two renames, between which the directory is absent for a moment but never mixed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged
from runner.errors import StoppedEarly
from runner.filesystem import disk_full_error, is_full
from runner.ledger.ledger import Ledger

from .result_frames import ATTEMPT_COLUMNS, COLUMNS, attempt_frames, judgment_frames

__all__ = [
    "as_arrow",
    "attempt_frames",
    "judgment_frames",
    "publish",
    "publish_changes",
    "sync_directory",
    "write_parts",
]

ROWS_PER_PART = 1_000_000
"""A part is closed by the first frame that reaches this."""

_MAPS = {"scores": pa.float64(), "labels": pa.string()}
_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux's renameat2, RENAME_SWAP of macOS's renamex_np."""


def publish(directory: Path, config: RunConfig, judges: Mapping[str, Judge], staged: Staged, ledger: Ledger) -> None:
    """Write `results/` and `attempts/` of a run directory anew from its ledger."""
    write_parts(directory / "results", judgment_frames(staged, ledger, config, judges), COLUMNS)
    write_parts(directory / "attempts", attempt_frames(ledger), ATTEMPT_COLUMNS)


def publish_changes(
    directory: Path, config: RunConfig, judges: Mapping[str, Judge], staged: Staged, ledger: Ledger
) -> None:
    """`publish`, where the ledger holds other judgments than what is published."""
    mark = f"{ledger.meta('plan')} {sum(row.done for row in ledger.shards())} {ledger.revisions.present()}"
    if ledger.meta("published") == mark and (directory / "results").is_dir():
        return
    try:
        publish(directory, config, judges, staged, ledger)
    except OSError as error:
        if is_full(error):
            raise disk_full_error(
                directory, f"the results could not be written ({os.strerror(error.errno or 0)})"
            ) from None
        raise StoppedEarly(
            f"{directory}: the results could not be written ({error.strerror}); every judgment is safe in "
            "run.db, and the same command writes them"
        ) from None
    ledger.set_meta("published", mark)


def write_parts(
    target: Path, tables: Iterable[pl.DataFrame], columns: Mapping[str, Any], rows_per_part: int = ROWS_PER_PART
) -> None:
    """Replace the directory `target` by `part-00000.parquet`, … of the frames; one empty part if there are none."""
    fresh = target.with_name(f".{target.name}.new")
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.mkdir(mode=0o700)
    try:
        schema = as_arrow(pl.DataFrame(schema=dict(columns))).schema
        for number, part in enumerate(_parts(iter(tables), rows_per_part)):
            with _part(fresh / f"part-{number:05d}.parquet", schema) as writer:
                for table in part:
                    writer.write_table(as_arrow(table))
        if not any(fresh.iterdir()):
            with _part(fresh / "part-00000.parquet", schema):
                pass
        sync_directory(fresh)
    except BaseException:
        # On a full disk, half of it is room that the ledger needs.
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _switch(fresh, target)


def as_arrow(frame: pl.DataFrame) -> pa.Table:
    """The frame as an Arrow table whose scores and labels are maps."""
    table = frame.to_arrow()
    for index, field in enumerate(table.schema):
        if field.name in _MAPS:
            entries = table.column(index).combine_chunks()
            entries = entries.combine_chunks() if isinstance(entries, pa.ChunkedArray) else entries
            table = table.set_column(index, field.name, _map(entries, _MAPS[field.name]))
        elif pa.types.is_large_string(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    return table


def sync_directory(directory: Path) -> None:
    """Make the directory's entries durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _map(entries: Any, value: Any) -> Any:
    pairs = entries.values
    offsets = entries.offsets.cast(pa.int32())
    keys = pairs.field("key").cast(pa.string())
    return pa.MapArray.from_arrays(offsets, keys, pairs.field("value").cast(value), mask=entries.is_null())


def _parts(tables: Iterator[pl.DataFrame], rows_per_part: int) -> Iterator[Iterator[pl.DataFrame]]:
    """The frames in runs of at least `rows_per_part` rows. Each run must be used up before the next is taken."""
    for first in tables:

        def run(table: pl.DataFrame | None = first) -> Iterator[pl.DataFrame]:
            rows = 0
            while table is not None:
                yield table
                rows += len(table)
                table = next(tables, None) if rows < rows_per_part else None

        yield run()


@contextmanager
def _part(path: Path, schema: Any) -> Iterator[Any]:
    with path.open("wb") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            yield writer
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o600)


def _switch(fresh: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.old")
    if old.exists():
        shutil.rmtree(old)
    if not target.exists():
        fresh.rename(target)
    elif _exchange(fresh, target):
        shutil.rmtree(fresh)
    else:
        target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old)
    sync_directory(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories in one step; False where the system or the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            return bool(libc.renamex_np(os.fsencode(one), os.fsencode(other), _EXCHANGE) == 0)
        here = -100  # AT_FDCWD
        return bool(libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), _EXCHANGE) == 0)
    except AttributeError:
        return False
