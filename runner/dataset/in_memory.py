"""Items that a caller holds in memory (dicts, a data frame, a data set) as a file of rows in the run's directory.

Hides what kinds there are and how their values become what JSON can hold. From the file on they are items like any
others, so a run of them can be resumed, reported on and checked; only errors name them by their position.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from runner.errors import InputError, ItemError, RunLocked

from .files import UnsupportedValueError, as_scalar

FILE = "given.jsonl"
_IN_MEMORY = 64 * 2**20
"""More bytes than this wait on disk until the run has a directory."""
_SLICE = 1_000
_MISSING = ("NAType", "NaTType")


class InMemoryItems:
    """Items read once, checked and ready to be written, until `close`; ItemError names the first that is no item."""

    def __init__(self, items: object) -> None:
        self._rows = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self.digest = ""
        """Of all rows, whatever their order and that of their columns: a frame may have none that is its own."""
        self._written = ""
        try:
            self._read(items)
        except BaseException:
            self.close()
            raise

    def _read(self, items: object) -> None:
        written = hashlib.blake2b(digest_size=16)
        count = total = 0
        for row in read_rows(items):
            line, known_by = _line(row, f"items[{count}]")
            self._rows.write(line)
            written.update(line)
            # A sum has no order, and holds no row in memory.
            total += int.from_bytes(hashlib.blake2b(known_by, digest_size=32).digest())
            count += 1
        if not count:
            raise ItemError("items: there are none")
        self._written = written.hexdigest()
        self.digest = f"{count}-{total % 2**256:064x}"

    def place(self, directory: Path) -> None:
        """Have the rows in the run's directory; a file that holds the same already is left alone."""
        path = directory / FILE
        if path.exists() and _digest(path) == self._written:
            return
        fresh = path.with_suffix(".new")
        try:
            with open(fresh, "wb", opener=_private) as file:
                self._rows.seek(0)
                shutil.copyfileobj(self._rows, file)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except OSError as error:
            raise RunLocked(f"{path}: cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Forget the rows."""
        self._rows.close()


def restate_errors(error: InputError, directory: Path) -> InputError:
    """The error with `items[3]` where it names the fourth line of the given rows' file."""
    path = re.escape(str(directory / FILE))
    told = re.sub(rf"{path}:(\d+)", lambda found: f"items[{int(found[1]) - 1}]", error.message)
    return type(error)(re.sub(path, "items", told))


def read_rows(items: Any) -> Iterator[object]:
    """The rows of whatever holds rows, told by what it can do: no library is imported for it."""
    if hasattr(items, "collect_schema") and hasattr(items, "collect"):  # a lazy frame of Polars
        items = items.collect()
    if hasattr(items, "iter_rows") and hasattr(items, "to_dicts"):  # Polars
        yield from items.iter_rows(named=True)
    elif hasattr(items, "iloc") and hasattr(items, "columns"):  # pandas
        if not items.columns.is_unique:
            raise ItemError("items: the data frame names a column twice")
        for start in range(0, len(items), _SLICE):
            yield from items.iloc[start : start + _SLICE].to_dict("records")
    elif hasattr(items, "to_batches") and hasattr(items, "schema"):  # Arrow
        yield from itertools.chain.from_iterable(batch.to_pylist() for batch in items.to_batches(_SLICE))
    elif isinstance(items, Mapping):
        parts = ", ".join(repr(name) for name in list(items)[:5])
        raise ItemError(f"items: a list of dicts or a data frame is wanted, not one mapping (of {parts})")
    elif isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ItemError(f"items: a path, a list of dicts or a data frame is wanted, not {type(items).__name__}")
    else:
        yield from items  # dicts, also those of datasets.Dataset


def _line(row: object, place: str) -> tuple[bytes, bytes]:
    """The row as a line of JSON; and as what it is known by, the same with its keys in order."""
    if not isinstance(row, Mapping):
        raise ItemError(f"{place}: a dict is wanted, not {type(row).__name__}")
    plain = {}
    for column, value in row.items():
        if not isinstance(column, str):
            raise ItemError(f"{place}: the name of a column must be a text, not {column!r}")
        try:
            plain[column] = _plain(value)
        except UnsupportedValueError as error:
            raise ItemError(f"{place}: column {column!a}: {error}") from None
        except RecursionError:
            raise ItemError(f"{place}: column {column!a}: is nested too deeply") from None
    try:
        try:
            return orjson.dumps(plain) + b"\n", orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # whole numbers beyond 64 bits, which orjson does not write; or no UTF-8
            line, known_by = (json.dumps(plain, ensure_ascii=False, sort_keys=sort) for sort in (False, True))
            return line.encode() + b"\n", known_by.encode()
    except UnicodeEncodeError:
        raise ItemError(f"{place}: holds half of a surrogate pair (as \\ud83d alone)") from None
    except (RecursionError, ValueError) as error:
        raise ItemError(f"{place}: {error}") from None


def _plain(value: Any) -> Any:
    """The value as JSON has it. What is not a number to pandas is missing."""
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if kind.__name__ in _MISSING:
        return None
    if isinstance(value, float):
        if math.isinf(value):
            raise UnsupportedValueError(f"{float(value)} is not a value of JSON")
        return None if math.isnan(value) else float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        if strangers := [key for key in value if not isinstance(key, str)]:
            raise UnsupportedValueError(f"a key must be a text, not {strangers[0]!r}")
        return {str.__str__(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    for name in ("tolist", "to_list"):  # an array, a series, a number of NumPy
        if callable(convert := getattr(value, name, None)) and type(plain := convert()) is not kind:
            return _plain(plain)
    return as_scalar(value)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.blake2b(digest_size=16)
        while part := file.read(2**20):
            digest.update(part)
    return digest.hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
