"""Which files the items come from: paths, globs and systems of the config turned into a list, and each one opened.

Hides compression (seen by the file's first bytes) and the choice of reader.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import Items, RunConfig
from .errors import ConfigError
from .jsonrows import json_array, json_lines
from .rows import BOM, CHUNK, DAMAGE, Row
from .tables import csv_rows, parquet_rows

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
_MAGIC = re.compile(r"[*?\[]")


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
class Source:
    """One file of rows."""

    written: str
    """Its path relative to the config's folder, or as the config gives it."""
    path: Path
    format: str
    sniff: bool
    """The ending named the format, not the user: a .json file may then as well hold one object a line."""
    system: str | None = None

    @property
    def name(self) -> str:
        """What errors call it."""
        return str(self.path)

    def rows(self) -> Generator[Row, None, None]:
        """Every row with its place, or what is wrong there."""
        if self.format == "parquet":
            yield from parquet_rows(self.path)
            return
        with ExitStack() as stack:
            try:
                raw = stack.enter_context(io.BufferedReader(io.FileIO(self.path), CHUNK))
            except OSError as error:
                raise ConfigError(f"{self.name}: cannot be read: {error.strerror}") from None
            file = raw
            if raw.peek(2)[:2] == b"\x1f\x8b":
                unzipped: Any = _Unzipped(stack.enter_context(gzip.GzipFile(fileobj=raw)))
                file = stack.enter_context(io.BufferedReader(unzipped, CHUNK))
            if self.format == "csv":
                yield from csv_rows(file)
            elif self.format == "jsonl" or (self.sniff and _opens_with_object(file)):
                yield from json_lines(file)
            else:
                yield from json_array(file)


def item_sources(items: Items, base: Path) -> list[Source]:
    """The item files in the order of the config; those of a glob sorted by name."""
    if items.systems is not None:
        if "system" in items.fields:
            raise ConfigError("items: give either systems or fields.system; both say whose answer a row is")
        if not items.systems:
            raise ConfigError("items.systems: names no system")
        named = [(f"items.systems.{system}", pattern, system) for system, pattern in items.systems.items()]
        return [
            source for key, pattern, system in named for source in _sources(key, pattern, base, items.format, system)
        ]
    patterns = items.path if isinstance(items.path, list) else [items.path or ""]
    if not patterns:
        raise ConfigError("items.path: names no file")
    found = [source for pattern in patterns for source in _sources("items.path", pattern, base, items.format, None)]
    # A file that two globs match is read once.
    return list({source.path: source for source in found}.values())


def reference_sources(items: Items, base: Path) -> list[Source]:
    """The files of the joined reference; none without a join."""
    return [] if items.join is None else _sources("items.join.path", items.join.path, base, None, None)


def input_signature(config: RunConfig, base: Path) -> dict[str, Any]:
    """What the staged items depend on besides the judges: equal as long as no input file and no items key changed."""
    files = []
    for source in (*item_sources(config.items, base), *reference_sources(config.items, base)):
        status = source.path.stat()
        files.append({"path": source.written, "size": status.st_size, "mtime_ns": status.st_mtime_ns})
    return {"files": files, "items": config.items.model_dump(mode="json")}


def _sources(key: str, pattern: str, base: Path, format: str | None, system: str | None) -> list[Source]:
    if re.match(r"[a-z0-9]+://|hf:", pattern):
        raise ConfigError(f"{key}: {pattern!r}: only local files are read")
    return [_source(key, path, written, format, system) for path, written in _matches(key, pattern, base)]


def _matches(key: str, pattern: str, base: Path) -> list[tuple[Path, str]]:
    path = base / pattern
    if path.is_file():
        return [(path, pattern)]
    if path.is_dir():
        raise ConfigError(f"{key}: {path} is a directory; name its files, as in {pattern.rstrip('/')}/*.jsonl")
    if not _MAGIC.search(pattern):
        raise ConfigError(f"{key}: there is no file {path}")
    parts = Path(pattern).parts
    fixed = next(index for index, part in enumerate(parts) if _MAGIC.search(part))
    folder = Path(*parts[:fixed])
    hidden = parts[-1].startswith(".")
    found = sorted(
        match
        for match in (base / folder).glob("/".join(parts[fixed:]))
        if match.is_file() and (hidden or not match.name.startswith("."))
    )
    if not found:
        raise ConfigError(f"{key}: no file matches {path}")
    return [(match, str(folder / match.relative_to(base / folder))) for match in found]


def _source(key: str, path: Path, written: str, format: str | None, system: str | None) -> Source:
    bare = path.name.lower().removesuffix(".gz")
    known = format or _ENDINGS.get(Path(bare).suffix)
    if known is None:
        way_out = "rename it" if key.startswith("items.join") else "set items.format"
        raise ConfigError(f"{key}: the ending of {path} tells no format ({', '.join(_ENDINGS)}, also .gz); {way_out}")
    return Source(written=written, path=path, format=known, sniff=format is None, system=system)


def _opens_with_object(file: io.BufferedReader[Any]) -> bool:
    try:
        return file.peek(4096).removeprefix(BOM).lstrip().startswith(b"{")
    except DAMAGE:
        return True  # reading the lines tells the same damage, with its place
