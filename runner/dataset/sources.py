"""Which files or dataset the items come from: what the config names turned into a list, and each one opened.

Hides compression (seen by the file's first bytes) and the choice of reader.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from runner.config import Items, RunConfig
from runner.errors import ConfigError
from runner.object_storage import is_remote, without_secrets

from .eval_logs import inspect_rows, lm_eval_rows, named_as_lm_eval, opens_as_inspect, opens_as_lm_eval
from .files import BOM, CHUNK, DAMAGE, InputFile, LocalFile, Row, local_files
from .huggingface import dataset_source
from .json_reader import json_array, json_lines
from .remote_files import remote_files
from .table_reader import csv_rows, parquet_rows

_ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".eval": "inspect",
}
_AT_ONCE = 16
_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]*://|hf:")
_FORMS = "local files, s3:// and gs:// URLs are read; a dataset of the Hugging Face Hub is named by items.hf"


class Source(Protocol):
    """Something that rows come from."""

    @property
    def location(self) -> str:
        """As the config names it, a glob's match relative to the config's folder."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def system(self) -> str | None:
        """Whose answers its rows are, where the config says so."""

    def rows(self) -> Generator[Row, None, None]:
        """Every row with its place, or what is wrong there."""

    def stamp(self) -> dict[str, Any]:
        """What is another as soon as the rows are."""


class _Unzipped(io.RawIOBase):
    """Gives out all that was unzipped before damage is met; a buffer right over GzipFile would swallow some of it."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True, slots=True)
class FileSource:
    """One file of rows."""

    stored: InputFile
    format: str
    sniff: bool
    """The ending named the format, not the user: a .json file may then hold one object a line or a log of inspect_ai,
    and a .jsonl file samples of lm-evaluation-harness."""
    system: str | None = None
    columns: frozenset[str] = frozenset()
    """Columns that the config names: logs of evaluations leave out the bulky ones that it does not."""

    @property
    def location(self) -> str:
        """Its path relative to the config's folder, or as the config gives it."""
        return self.stored.location

    @property
    def name(self) -> str:
        """What errors call it."""
        return self.stored.name

    def stamp(self) -> dict[str, Any]:
        """Size, and the time of the last change or the ETag."""
        return self.stored.stamp()

    def rows(self) -> Generator[Row, None, None]:
        """Every row with its place, or what is wrong there."""
        if self.format == "parquet" and isinstance(self.stored, LocalFile):
            yield from parquet_rows(self.stored.path)
            return
        with ExitStack() as stack:
            raw = stack.enter_context(self.stored.open())
            if self.format == "parquet":
                yield from parquet_rows(raw)
                return
            file = raw
            if raw.peek(2)[:2] == b"\x1f\x8b":
                unzipped: Any = _Unzipped(stack.enter_context(gzip.GzipFile(fileobj=raw)))
                file = stack.enter_context(io.BufferedReader(unzipped, CHUNK))
            yield from self._read(file, self._seen_format(file) if self.sniff else self.format)

    def _read(self, file: io.BufferedReader[Any], format: str) -> Iterator[Row]:
        if format == "csv":
            return csv_rows(file)
        if format == "jsonl":
            return json_lines(file)
        if format == "inspect":
            return inspect_rows(file, self.columns)
        if format == "lm-eval":
            return lm_eval_rows(file, self.stored, self.columns)
        return json_array(file)

    def _seen_format(self, file: io.BufferedReader[Any]) -> str:
        """What the file's start says beyond its ending."""
        try:
            head = file.peek(4096).removeprefix(BOM).lstrip()
        except DAMAGE:
            return "jsonl" if self.format == "json" else self.format  # reading the lines tells the damage's place
        if self.format == "json" and opens_as_inspect(head):
            return "inspect"
        if self.format == "jsonl" and named_as_lm_eval(_last_name(self.stored)) and opens_as_lm_eval(head):
            return "lm-eval"
        return "jsonl" if self.format == "json" and head.startswith(b"{") else self.format


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
        named = [(f"items.systems.{system}", pattern, system) for system, pattern in items.systems.items()]
        return [
            _source(key, stored, items.format, system, columns)
            for key, pattern, system in named
            for stored in _stored(key, pattern, base)
        ]
    patterns = items.path if isinstance(items.path, list) else [items.path or ""]
    if not patterns:
        raise ConfigError("items.path: names no file")
    found = [stored for pattern in patterns for stored in _stored("items.path", pattern, base)]
    # A file that two globs match is read once.
    once = {stored.name: stored for stored in found}.values()
    return [_source("items.path", stored, items.format, None, columns) for stored in once]


def reference_sources(items: Items, base: Path) -> list[Source]:
    """The files of the joined reference; none without a join."""
    if items.join is None:
        return []
    key = "items.join.path"
    return [
        _source(key, stored, None, None, frozenset([items.join.on])) for stored in _stored(key, items.join.path, base)
    ]


def input_signature(config: RunConfig, base: Path) -> dict[str, Any]:
    """What the staged items depend on besides the judges: equal as long as no input and no items key changed."""
    return signature_of(config.items, [*item_sources(config.items, base), *reference_sources(config.items, base)])


def signature_of(items: Items, sources: Sequence[Source]) -> dict[str, Any]:
    """The signature of inputs that are already found."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # a request for each object of S3 or Google Cloud Storage
        stamps = pool.map(lambda source: source.stamp(), sources)
        files = [{"path": source.location, **stamp} for source, stamp in zip(sources, stamps, strict=True)]
    return {"files": files, "items": items.model_dump(mode="json")}


def _stored(key: str, pattern: str, base: Path) -> Sequence[InputFile]:
    if is_remote(pattern):
        return remote_files(key, pattern)
    if _URL.match(pattern):
        raise ConfigError(f"{key}: {without_secrets(pattern)!r} cannot be read: {_FORMS}")
    return local_files(key, pattern, base)


def _source(key: str, stored: InputFile, format: str | None, system: str | None, columns: frozenset[str]) -> FileSource:
    bare = _last_name(stored).lower().removesuffix(".gz")
    known = format or _ENDINGS.get(PurePosixPath(bare).suffix)
    if known is None:
        way_out = "rename it" if key.startswith("items.join") else "set items.format"
        raise ConfigError(
            f"{key}: the ending of {stored.name} tells no format ({', '.join(_ENDINGS)}, also .gz); {way_out}"
        )
    return FileSource(stored, known, sniff=format is None, system=system, columns=columns)


def _last_name(stored: InputFile) -> str:
    return re.split(r"[/\\]", stored.name)[-1]
