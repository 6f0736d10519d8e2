"""Input files, and what every reader of a file format yields: a line number with a row or with what is wrong there.

Hides the rules for paths and globs on this machine's disk; `remote_files` has the objects of S3 and Google Cloud
Storage. A bad row is a value (RowError): whether it stops the run is for the caller to say.
"""

from __future__ import annotations

import datetime
import decimal
import io
import math
import re
import shlex
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import ConfigError, ItemError

MAX_ROW_BYTES = 64 * 1024 * 1024
"""Longest line, field or array element that is read as an item: no model takes a tenth of it."""
MAX_RECORD_BYTES = 256 * 1024 * 1024
"""The same where an item is a small part of it: logs of evaluations."""

CHUNK = 1 << 20
BOM = b"\xef\xbb\xbf"
DAMAGE = (EOFError, OSError, zlib.error)
"""What reading a damaged file raises, a cut or corrupt gzip above all."""
REST_LOST = "the rest of the file cannot be read"
MAGIC = re.compile(r"[*?\[]")
"""What makes a path a pattern."""
FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".eval": "inspect",
}
"""Ending of a file's name → what it holds."""
COMPRESSED = (".gz", ".zst")
_LISTED = 10
_NOT_UTF8 = "not UTF-8"
_MISSING = ("NAType", "NaTType")
"""Types by which pandas says that a value is missing."""

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowError:
    """What is wrong with a row; `record` is the row itself where it could be read all the same, to name its id."""

    text: str
    record: Record | None = None


Row = tuple[int, Record | RowError]
"""Line of the file (JSON, CSV: counted from 1, where the row starts) or number of the row (Parquet), and the row."""


class UnsupportedValueError(ValueError):
    """A value that has no place in an item, though the format would allow it."""


def as_json_value(value: Any, nan_is_null: bool = False) -> Any:
    """A value of a table or of Python as JSON has it; UnsupportedValueError where there is none.

    Dates and times become ISO text, exact decimals their digits. `nan_is_null`: as pandas writes what is missing.
    """
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        if nan_is_null and math.isnan(value):
            return None
        raise UnsupportedValueError(f"{float(value)} is not a value of JSON")
    if isinstance(value, list | tuple):
        return [as_json_value(entry, nan_is_null) for entry in value]
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise UnsupportedValueError(f"a key must be a text, not {wrong[0]!r}")
        return {str.__str__(key): as_json_value(entry, nan_is_null) for key, entry in value.items()}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if kind.__name__ in _MISSING:
        return None
    for name in ("tolist", "to_list"):  # an array, a series, a number of NumPy
        if callable(convert := getattr(value, name, None)) and type(plain := convert()) is not kind:
            return as_json_value(plain, nan_is_null)
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID | datetime.timedelta):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise UnsupportedValueError(f"a binary value is not UTF-8 at its byte {error.start}") from None
    raise UnsupportedValueError(f"a value of type {type(value).__name__} has no place in an item")


def describe_encoding_error(byte: int) -> RowError:
    """Bytes that are no text; `byte` counts from the file's start, unzipped."""
    return RowError(f"{_NOT_UTF8} at byte {byte} of the file (counted from 0)")


def conversion_advice(problem: str, name: str, encoding: str = "WINDOWS-1252") -> str:
    """How a file is converted whose bytes are no UTF-8; empty for other problems."""
    if not problem.startswith(_NOT_UTF8):
        return ""
    stem, dot, ending = name.rpartition(".")
    converted = f"{stem}.utf8.{ending}" if dot else f"{name}.utf8"
    if_so = "this converts it" if encoding.startswith("UTF") else "if all of it is Latin-1 (Windows-1252)"
    return f"; {if_so}: {shlex.join(['iconv', '-f', encoding, '-t', 'UTF-8', name])} > {shlex.quote(converted)}"


def check_encoding(head: bytes, name: str) -> None:
    """ItemError for a file that begins as UTF-16 does."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or (len(head) > 3 and (head[:4:2] == b"\0\0" or head[1:4:2] == b"\0\0")):
        problem = f"{_NOT_UTF8} but UTF-16"
        raise ItemError(f"{name}: {problem}{conversion_advice(problem, name, 'UTF-16')}")


def format_of(name: str) -> str | None:
    """What a file of this name holds, by its ending; None where that tells nothing."""
    bare = name.lower()
    for ending in COMPRESSED:
        bare = bare.removesuffix(ending)
    return FORMATS.get(Path(bare).suffix)


def describe_damage(error: BaseException) -> RowError:
    """The file breaks off, or cannot be unzipped any further."""
    return RowError(f"damaged file: {error}; {REST_LOST}")


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine's disk, watched by its size and time of the last change."""

    location: str
    """Its path relative to the config's folder, or as the config gives it."""
    path: Path

    @property
    def name(self) -> str:
        """What errors call it."""
        return str(self.path)

    def open(self) -> io.BufferedReader[Any]:
        """Its bytes, seekable; ConfigError where they cannot be had."""
        try:
            return io.BufferedReader(io.FileIO(self.path), CHUNK)
        except OSError as error:
            raise ConfigError(f"{self.name}: cannot be read: {error.strerror}") from None

    def stamp(self) -> dict[str, Any]:
        """What differs as soon as the content does, without reading the content."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise ConfigError(f"{self.name}: cannot be read: {error.strerror}") from None
        return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}

    def beside(self, name: str) -> LocalFile | None:
        """The file of that name in the same folder, if there is one."""
        path = self.path.with_name(name)
        return LocalFile(name, path) if path.is_file() else None


def local_files(key: str, pattern: str, base: Path) -> list[LocalFile]:
    """The files of a path or glob, sorted by name. `key` is the config's, for errors."""
    path = base / pattern
    if path.is_file():
        return [LocalFile(pattern, path)]
    if path.is_dir():
        raise ConfigError(f"{key}: {path} is a directory; {_describe_directory(path, pattern)}")
    if not MAGIC.search(pattern):
        raise ConfigError(f"{key}: there is no file {path}")
    parts = Path(pattern).parts
    fixed = next(index for index, part in enumerate(parts) if MAGIC.search(part))
    folder = Path(*parts[:fixed])
    hidden = parts[-1].startswith(".")
    matches = sorted(
        match
        for match in (base / folder).glob("/".join(parts[fixed:]))
        if match.is_file() and (hidden or not match.name.startswith("."))
    )
    if not matches:
        raise ConfigError(f"{key}: no file matches {path}")
    return [LocalFile(str(folder / match.relative_to(base / folder)), match) for match in matches]


def _describe_directory(path: Path, pattern: str) -> str:
    """What of a directory can be read, and how it is named."""
    names = sorted(file.name for file in path.iterdir() if file.is_file() and format_of(file.name))
    ending = "".join(Path(names[0]).suffixes[-1:]) if names else ".jsonl"
    held = ", ".join(names[:_LISTED]) + ", …" * (len(names) > _LISTED) if names else "nothing that can be read"
    return f"it holds {held}; name its files, as in {pattern.rstrip('/')}/*{ending}"
