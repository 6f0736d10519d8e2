"""Items that a caller holds in memory (dicts, a data frame, a data set) as a file of rows in the run's directory.

Hides what kinds there are and how their values become what JSON can hold. From the file on they are items like any
others, so a run of them can be resumed, reported on and checked; only errors name them by their position.
"""

import hashlib
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from runner.errors import InputError, ItemError, RunLocked
from runner.filesystem import replace_file

from .files import UnsupportedValueError, as_json_value

FILE = "given.jsonl"
_IN_MEMORY = 64 * 2**20
"""More bytes than this wait on disk until the run has a directory."""
_SLICE = 1_000


class InMemoryItems:
    """Items read once, checked and ready to be written, until `close`; ItemError names the first that is no item."""

    def __init__(self, items: object) -> None:
        self._rows = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self.digest = ""
        """Of all rows, whatever their order and that of their columns: a frame may have none that is its own."""
        self._file_digest = ""
        try:
            self._read(items)
        except BaseException:
            self.close()
            raise

    def _read(self, items: object) -> None:
        file_digest = hashlib.blake2b(digest_size=16)
        count = total = 0
        for row in iterate_rows(items):
            line, identity = _serialize(row, f"items[{count}]")
            self._rows.write(line)
            file_digest.update(line)
            # A sum has no order, and holds no row in memory.
            total += int.from_bytes(hashlib.blake2b(identity, digest_size=32).digest())
            count += 1
        if not count:
            raise ItemError("items: there are none")
        self._file_digest = file_digest.hexdigest()
        self.digest = f"{count}-{total % 2**256:064x}"

    def place(self, directory: Path) -> None:
        """Have the rows in the run's directory; a file that holds the same already is left alone."""
        path = directory / FILE
        if path.exists() and _digest(path) == self._file_digest:
            return
        try:
            with replace_file(path) as file:
                self._rows.seek(0)
                shutil.copyfileobj(self._rows, file)
        except OSError as error:
            raise RunLocked(f"{path}: cannot be written: {error.strerror}") from None

    def close(self) -> None:
        self._rows.close()


def restate_errors(error: InputError, directory: Path) -> InputError:
    """The error with `items[3]` where it names the fourth line of the given rows' file."""
    path = re.escape(str(directory / FILE))
    message = re.sub(rf"{path}:(\d+)", lambda match: f"items[{int(match[1]) - 1}]", error.message)
    return type(error)(re.sub(path, "items", message))


def iterate_rows(items: Any) -> Iterator[object]:
    """The rows of whatever holds rows, known by its methods: no library is imported for it."""
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


def _serialize(row: object, place: str) -> tuple[bytes, bytes]:
    """The row as a line of JSON, and the same with its keys in order, which identifies it."""
    if not isinstance(row, Mapping):
        raise ItemError(f"{place}: a dict is wanted, not {type(row).__name__}")
    plain = {}
    for column, value in row.items():
        if not isinstance(column, str):
            raise ItemError(f"{place}: the name of a column must be a text, not {column!r}")
        try:
            plain[column] = as_json_value(value, nan_is_null=True)
        except UnsupportedValueError as error:
            raise ItemError(f"{place}: column {column!a}: {error}") from None
        except RecursionError:
            raise ItemError(f"{place}: column {column!a}: is nested too deeply") from None
    try:
        try:
            return orjson.dumps(plain) + b"\n", orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # whole numbers beyond 64 bits, which orjson does not write; or no UTF-8
            line, identity = (json.dumps(plain, ensure_ascii=False, sort_keys=sort) for sort in (False, True))
            return line.encode() + b"\n", identity.encode()
    except UnicodeEncodeError:
        raise ItemError(f"{place}: holds half of a surrogate pair (as \\ud83d alone)") from None
    except (RecursionError, ValueError) as error:
        raise ItemError(f"{place}: {error}") from None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
