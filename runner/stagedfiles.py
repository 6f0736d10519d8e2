"""The Parquet files of staged items: rows appended in their order, and read back by row number.

Hides the files and their row groups. Files are bounded in rows, row groups in rows and bytes, so that neither writing
nor reading a slice holds more than a few row groups in memory.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import pyarrow
import pyarrow.parquet

GROUP_ROWS = 2_000
GROUP_BYTES = 16 * 1024 * 1024
FILE_ROWS = 1_000_000
_CACHED_GROUPS = 4


class StagedWriter:
    """Appends rows to the Parquet files of a directory. Columns: those of design.md, in the order of `columns`."""

    def __init__(self, directory: Path, judges: Sequence[str], after: StagedWriter | None = None) -> None:
        """`after`: a closed writer of the same directory, whose rows these follow."""
        texts = ("id", "question_id", "system", "group")
        templates = [f"template:{name}" for name in judges]
        signs = [f"suspect:{name}" for name in judges]
        self._schema = pyarrow.schema(
            [
                ("row", pyarrow.int64()),
                *((name, pyarrow.string()) for name in texts),
                ("fields", pyarrow.binary()),
                ("labels", pyarrow.binary()),
                *((name, pyarrow.string()) for name in (*templates, *signs)),
            ]
        )
        self._directory = directory
        self._repetitive = ["system", "group", "labels", *templates, *signs]
        self._pending: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._writer: Any = None
        self.rows: int = after.rows if after else 0
        self.files: list[int] = list(after.files) if after else []

    def add(self, values: tuple[Any, ...], size: int) -> None:
        """A row: id, question_id, system, group, fields, labels, a template and the signs per judge.

        `size` is about its bytes.
        """
        self._pending.append((self.rows, *values))
        self.rows += 1
        self._bytes += size
        if len(self._pending) >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left, and make all files durable."""
        self._flush()
        self._end_file()

    def _flush(self) -> None:
        if not self._pending:
            return
        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(
                self._path(),
                self._schema,
                compression="zstd",
                use_dictionary=self._repetitive,
                write_statistics=["row"],
            )
            self.files.append(0)
        columns = [
            pyarrow.array(values, type=column.type)
            for values, column in zip(zip(*self._pending, strict=True), self._schema, strict=True)
        ]
        self._writer.write_batch(pyarrow.record_batch(columns, schema=self._schema))
        self.files[-1] += len(self._pending)
        self._pending.clear()
        self._bytes = 0
        if self.files[-1] >= FILE_ROWS:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is not None:
            path = self._path(-1)
            self._writer.close()
            self._writer = None
            path.chmod(0o600)
            sync(path)

    def _path(self, shift: int = 0) -> Path:
        return self._directory / _file_name(len(self.files) + shift)


class RowGroups:
    """Row numbers → files and row groups."""

    def __init__(self, directory: Path, rows: Sequence[int]) -> None:
        self._directory = directory
        self._starts = [sum(rows[:number]) for number in range(len(rows))]
        self._open: tuple[int, Any, list[int]] | None = None
        self._groups: OrderedDict[tuple[int, int, tuple[str, ...] | None], pyarrow.Table] = OrderedDict()

    def slices(self, first: int, rows: int, columns: list[str] | None) -> list[pyarrow.Table]:
        """Tables that hold these rows, in order; one empty table where there are none."""
        number = max(0, bisect_right(self._starts, first) - 1)
        if rows == 0:
            return [self._group(0, 0, columns).slice(0, 0)]
        found = []
        while rows > 0:
            _, starts = self._file(number)
            at = first - self._starts[number]
            group = bisect_right(starts, at) - 1
            if group == len(starts) - 1:  # the last start is the file's end
                number += 1
                continue
            part = self._group(number, group, columns).slice(at - starts[group], rows)
            found.append(part)
            first += part.num_rows
            rows -= part.num_rows
        return found

    def _file(self, number: int) -> tuple[Any, list[int]]:
        if self._open is None or self._open[0] != number:
            file = pyarrow.parquet.ParquetFile(self._directory / _file_name(number))
            starts = [0]
            for group in range(file.metadata.num_row_groups):
                starts.append(starts[-1] + file.metadata.row_group(group).num_rows)
            if self._open is not None:
                self._open[1].close()
            self._open = number, file, starts
        return self._open[1], self._open[2]

    def _group(self, number: int, group: int, columns: list[str] | None) -> pyarrow.Table:
        key = number, group, None if columns is None else tuple(columns)
        table = self._groups.get(key)
        if table is None:
            table = self._file(number)[0].read_row_group(group, columns=columns, use_threads=False)
            if columns is not None:
                table = table.select(columns)
            self._groups[key] = table
            if len(self._groups) > _CACHED_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return table


def written_rows(directory: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Every row of a directory as it was added, with its number."""
    for path in _paths(directory):
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=GROUP_ROWS, use_threads=False):
                for row, *values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield row, tuple(values)


def written_columns(directory: Path, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    """A few columns of every row of a directory, in the order of `columns`."""
    for path in _paths(directory):
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=GROUP_ROWS, columns=columns, use_threads=False):
                yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def written_ids(directory: Path, rows: Sequence[int]) -> list[str]:
    """The ids of a few rows."""
    lengths = [pyarrow.parquet.read_metadata(path).num_rows for path in _paths(directory)]
    groups = RowGroups(directory, lengths)
    return [str(groups.slices(row, 1, ["id"])[0].column("id")[0]) for row in rows]


def replace_rows(directory: Path, kept: Path) -> None:
    """Put the files of `kept`, a folder of `directory`, in the place of the directory's own."""
    for path in _paths(directory):
        path.unlink()
    for path in _paths(kept):
        path.rename(directory / path.name)
    kept.rmdir()


def open_private(path: Path) -> TextIO:
    """A new text file that only its owner reads."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")


def sync(path: Path) -> None:
    """Make a file's content, or a directory's names, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _paths(directory: Path) -> list[Path]:
    return sorted(directory.glob("part-*.parquet"))


def _file_name(number: int) -> str:
    return f"part-{number:05d}.parquet"
