"""Rows of tables: CSV, where all values are strings, and Parquet, whose values become what JSON can hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from .files import (
    BOM,
    CHUNK,
    DAMAGE,
    MAX_ROW_BYTES,
    REST_LOST,
    Record,
    Row,
    RowError,
    UnsupportedValueError,
    as_json_value,
    describe_damage,
    describe_encoding_error,
)

_SLICE = 512


def csv_rows(file: io.BufferedReader[Any]) -> Iterator[Row]:
    """CSV with a header line; all values are strings. The header tells what parts the cells."""
    csv.field_size_limit(MAX_ROW_BYTES)
    delimiter = ","
    with suppress(*DAMAGE):  # told where the rows are read
        delimiter = _delimiter(file.peek(1).split(b"\n")[0].decode(errors="replace"))
    lines = _TextLines(file)
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    header: list[str] | None = None
    while True:
        start = lines.count + 1
        problem = None
        cells: list[str] = []
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = RowError(f"not CSV: {error}")
        except DAMAGE as error:
            yield start, describe_damage(error)
            return
        if lines.bad is not None:
            problem, lines.bad = describe_encoding_error(lines.bad), None
        if header is None:
            if problem is None and (len(set(cells)) != len(cells) or not cells):
                problem = RowError("the header line is empty or names a column twice")
            if problem is not None:
                yield start, RowError(f"{problem.text}; {REST_LOST}")
                return
            header = cells
        elif problem is not None:
            yield start, problem
        elif cells:
            row = dict(zip(header, cells, strict=False))
            same = len(cells) == len(header)
            yield start, row if same else RowError(f"{len(cells)} columns where the header has {len(header)}", row)


def _delimiter(header: str) -> str:
    """A comma, unless a tab parts as many names, or there is no comma and a semicolon parts some."""

    def count(delimiter: str) -> int:
        return len(next(csv.reader([header], delimiter=delimiter), []))

    if count("\t") > 1 and count("\t") >= count(","):
        return "\t"
    return ";" if count(",") == 1 < count(";") else ","


class _TextLines:
    """Lines as text for the csv module. Bad bytes are noted, and decoded so that the row's shape is kept."""

    def __init__(self, file: io.BufferedReader[Any]) -> None:
        self._file = file
        self._offset = 0
        self.count = 0
        self.bad: int | None = None

    def __iter__(self) -> _TextLines:
        return self

    def __next__(self) -> str:
        raw = self._file.readline(MAX_ROW_BYTES + 1)
        if not raw:
            raise StopIteration
        if len(raw) > MAX_ROW_BYTES:
            raise EOFError(f"a line is longer than {MAX_ROW_BYTES:,} bytes")
        self.count += 1
        start, self._offset = self._offset, self._offset + len(raw)
        if self.count == 1 and raw.startswith(BOM):
            raw, start = raw[3:], start + 3
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self.bad = start + error.start if self.bad is None else self.bad
            return raw.decode("utf-8", "surrogateescape")


def parquet_rows(file: Path | io.BufferedReader[Any]) -> Iterator[Row]:
    """Rows of a Parquet file; dates and times become ISO text, exact decimals their digits."""
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(file, buffer_size=CHUNK, pre_buffer=False) as table:
            names = table.schema_arrow.names
            if len(set(names)) != len(names):
                yield 1, RowError(f"the file names a column twice; {REST_LOST}")
                return
            for batch in table.iter_batches(batch_size=_SLICE):
                for row in arrow_rows(batch):
                    number += 1
                    yield number, row
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        yield number + 1, RowError(f"damaged Parquet file: {' '.join(str(error).split())}; {REST_LOST}")


def arrow_file_rows(file: Path | io.BufferedReader[Any]) -> Iterator[Row]:
    """Rows of an Arrow file or stream, or of Feather."""
    import pyarrow

    number = 0
    try:
        with pyarrow.OSFile(str(file)) if isinstance(file, Path) else pyarrow.PythonFile(file, mode="r") as opened:
            is_file = opened.read(6) == b"ARROW1"
            opened.seek(0)
            with (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(opened) as table:
                names = table.schema.names
                if len(set(names)) != len(names):
                    yield 1, RowError(f"the file names a column twice; {REST_LOST}")
                    return
                batches = map(table.get_batch, range(table.num_record_batches)) if is_file else table
                for batch in batches:
                    for start in range(0, batch.num_rows, _SLICE):
                        for row in arrow_rows(batch.slice(start, _SLICE)):
                            number += 1
                            yield number, row
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        yield number + 1, RowError(f"damaged Arrow file: {' '.join(str(error).split())}; {REST_LOST}")


def arrow_rows(batch: Any) -> Iterator[Record | RowError]:
    """The rows of a record batch or table of Arrow, with values that JSON can hold."""
    for record in batch.to_pylist():
        try:
            row: Record | RowError = {name: as_json_value(value) for name, value in record.items()}
        except UnsupportedValueError as error:
            row = RowError(str(error), record)
        yield row
