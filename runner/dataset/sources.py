"""Which files or dataset the items come from: what the config names turned into a list, and each one opened.

Hides compression (seen by the file's first bytes) and the choice of reader.
"""

from __future__ import annotations

import gzip
import io
import re
import shlex
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from runner.config import RunConfig
from runner.errors import ConfigError
from runner.items_config import Items
from runner.object_storage import is_remote, without_secrets

from .eval_logs import inspect_rows, lm_eval_rows, named_as_lm_eval, opens_as_inspect, opens_as_lm_eval
from .files import BOM, CHUNK, COMPRESSED, DAMAGE, FORMATS, LocalFile, Row, check_encoding, format_of, local_files
from .huggingface import DatasetSource, dataset_source
from .json_reader import json_array, json_lines
from .remote_files import InputFile, remote_files
from .table_reader import arrow_file_rows, csv_rows, parquet_rows

_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_ZSTD = b"\x28\xb5\x2f\xfd"
_ARRAY = re.compile(rb"\[\s*(\{|$)")
_MAX_REQUESTS = 16
_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]*://|hf:")
_FORMS = "local files, s3:// and gs:// URLs are read; a dataset of the Hugging Face Hub is named by items.hf"


class _GzipReader(io.RawIOBase):
    """Gives out all that was unzipped before damage is met; a buffer right over GzipFile would swallow some of it."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _ZstdReader(io.RawIOBase):
    """Unpacks by Arrow, which every installation has."""

    def __init__(self, file: io.BufferedReader[Any]) -> None:
        import pyarrow

        self._stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True, slots=True)
class FileSource:
    """One file of rows."""

    file: InputFile
    format: str
    sniff: bool
    """The ending named the format, not the user: a .json file may then hold one object a line or a log of inspect_ai,
    and a .jsonl file samples of lm-evaluation-harness."""
    system: str | None = None
    columns: frozenset[str] = frozenset()
    """Columns that the config names: logs of evaluations leave out the bulky ones that it does not."""

    @property
    def name(self) -> str:
        return self.file.name

    def stamp(self) -> dict[str, Any]:
        """Its path as the config names it, and what differs as soon as the rows do."""
        return {"path": self.file.location, **self.file.stamp()}

    def rows(self) -> Generator[Row, None, None]:
        """Every row with its line or number, or what is wrong there."""
        if self.format == "parquet" and isinstance(self.file, LocalFile):
            yield from parquet_rows(self.file.path)
            return
        if self.format == "arrow" and isinstance(self.file, LocalFile):
            yield from arrow_file_rows(self.file.path)
            return
        with ExitStack() as stack:
            file = raw = stack.enter_context(self.file.open())
            if self.format == "parquet":
                yield from parquet_rows(raw)
                return
            if self.format == "arrow":
                yield from arrow_file_rows(raw)
                return
            if raw.peek(2)[:2] == b"\x1f\x8b":
                reader: Any = _GzipReader(stack.enter_context(gzip.GzipFile(fileobj=raw)))
                file = stack.enter_context(io.BufferedReader(reader, CHUNK))
            elif raw.peek(4)[:4] == _ZSTD:
                file = stack.enter_context(io.BufferedReader(_ZstdReader(raw), CHUNK))
            if self.format != "inspect":
                with suppress(*DAMAGE):  # told where the rows are read, with its place
                    check_encoding(file.peek(4)[:4], self.name)
            yield from self._read(file, self._detect_format(file) if self.sniff else self.format)

    def _read(self, file: io.BufferedReader[Any], format: str) -> Iterator[Row]:
        match format:
            case "inspect":
                return inspect_rows(file, self.columns)
            case "lm-eval":
                return lm_eval_rows(file, self.file, self.columns)
        return {"csv": csv_rows, "jsonl": json_lines}.get(format, json_array)(file)

    def _detect_format(self, file: io.BufferedReader[Any]) -> str:
        """What the file's start says beyond its ending."""
        try:
            head = file.peek(4096).removeprefix(BOM).lstrip()
        except DAMAGE:
            return "jsonl" if self.format == "json" else self.format  # reading the lines tells the damage's place
        if self.format == "json" and opens_as_inspect(head):
            return "inspect"
        if self.format == "jsonl" and named_as_lm_eval(_last_name(self.file)) and opens_as_lm_eval(head):
            return "lm-eval"
        if self.format == "jsonl" and _ARRAY.match(head):
            return "json"
        return "jsonl" if self.format == "json" and head.startswith(b"{") else self.format


Source = FileSource | DatasetSource
"""What rows come from: its `name` for errors, whose answers they are, its rows, and a stamp to see changes by."""


def item_sources(items: Items, base: Path) -> list[Source]:
    """Where the items come from, in the order of the config; the files of a glob sorted by name."""
    columns = frozenset([*items.fields.values(), *(label.field for label in items.labels.values())])
    columns = columns | {column.split(".")[0] for column in columns}
    if items.hf is not None:
        return [dataset_source(items.hf, base)]
    if items.systems is not None:
        if "system" in items.fields:
            raise ConfigError("items: give either systems or fields.system; both say whose answer a row is")
        if not items.systems:
            raise ConfigError("items.systems: names no system")
        return [
            _source(f"items.systems.{system}", file, items.format, system, columns)
            for system, pattern in items.systems.items()
            for file in _input_files(f"items.systems.{system}", pattern, base)
        ]
    patterns = items.path if isinstance(items.path, list) else [items.path or ""]
    if not patterns:
        raise ConfigError("items.path: names no file")
    # By name: a file that two globs match is read once.
    files = {file.name: file for pattern in patterns for file in _input_files("items.path", pattern, base)}
    return [_source("items.path", file, items.format, None, columns) for file in files.values()]


def reference_sources(items: Items, base: Path) -> list[Source]:
    """The files of the joined reference; none without a join."""
    if items.join is None:
        return []
    key = "items.join.path"
    columns = frozenset([items.join.on])
    return [_source(key, file, None, None, columns) for file in _input_files(key, items.join.path, base)]


def input_signature(config: RunConfig, base: Path) -> dict[str, Any]:
    """What the staged items depend on besides the judges: equal as long as no input and no items key changed."""
    return signature_of(config.items, [*item_sources(config.items, base), *reference_sources(config.items, base)])


def signature_of(items: Items, sources: Sequence[Source]) -> dict[str, Any]:
    """The signature of inputs that are already found."""
    with ThreadPoolExecutor(_MAX_REQUESTS) as pool:  # a request for each object of S3 or Google Cloud Storage
        stamps = list(pool.map(lambda source: source.stamp(), sources))
    return {"files": stamps, "items": items.model_dump(mode="json")}


def _input_files(key: str, pattern: str, base: Path) -> Sequence[InputFile]:
    if is_remote(pattern):
        return remote_files(key, pattern)
    if _URL.match(pattern):
        raise ConfigError(f"{key}: {without_secrets(pattern)!r} cannot be read: {_FORMS}")
    return local_files(key, pattern, base)


def _source(key: str, file: InputFile, format: str | None, system: str | None, columns: frozenset[str]) -> FileSource:
    kind = format or format_of(_last_name(file))
    if kind is None and PurePosixPath(_last_name(file).lower()).suffix in _SPREADSHEETS:
        command = shlex.join(["libreoffice", "--headless", "--convert-to", "csv", file.name])
        raise ConfigError(f"{key}: {file.name} is a spreadsheet; save it as CSV (UTF-8), or: {command}")
    if kind is None:
        way_out = "rename it" if key.startswith("items.join") else "set items.format"
        known = f"{', '.join(FORMATS)}, also with {' or '.join(COMPRESSED)}"
        raise ConfigError(f"{key}: the ending of {file.name} tells no format ({known}); {way_out}")
    return FileSource(file, kind, sniff=format is None, system=system, columns=columns)


def _last_name(file: InputFile) -> str:
    return re.split(r"[/\\]", file.name)[-1]
