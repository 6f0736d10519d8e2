"""A file of bytes wherever it lies: what reading and watching it needs, and the form of it on this machine's disk.

Hides the rules for paths and globs; `remote` has the other form, objects of S3 and Google Cloud Storage.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .errors import ConfigError
from .rows import CHUNK

MAGIC = re.compile(r"[*?\[]")
"""What makes a pattern of a path."""


class Stored(Protocol):
    """A file that items are read from."""

    @property
    def written(self) -> str:
        """Its path relative to the config's folder, or as the config gives it."""

    @property
    def name(self) -> str:
        """What errors call it."""

    def open(self) -> io.BufferedReader[Any]:
        """Its bytes, seekable; ConfigError where they cannot be had."""

    def stamp(self) -> dict[str, Any]:
        """What is another as soon as the content is: without reading the content."""

    def beside(self, name: str) -> Stored | None:
        """The file of that name in the same folder, if there is one."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine's disk."""

    written: str
    path: Path

    @property
    def name(self) -> str:
        """What errors call it."""
        return str(self.path)

    def open(self) -> io.BufferedReader[Any]:
        """Its bytes."""
        try:
            return io.BufferedReader(io.FileIO(self.path), CHUNK)
        except OSError as error:
            raise ConfigError(f"{self.name}: cannot be read: {error.strerror}") from None

    def stamp(self) -> dict[str, Any]:
        """Size and time of the last change."""
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
        raise ConfigError(f"{key}: {path} is a directory; name its files, as in {pattern.rstrip('/')}/*.jsonl")
    if not MAGIC.search(pattern):
        raise ConfigError(f"{key}: there is no file {path}")
    parts = Path(pattern).parts
    fixed = next(index for index, part in enumerate(parts) if MAGIC.search(part))
    folder = Path(*parts[:fixed])
    hidden = parts[-1].startswith(".")
    found = sorted(
        match
        for match in (base / folder).glob("/".join(parts[fixed:]))
        if match.is_file() and (hidden or not match.name.startswith("."))
    )
    if not found:
        raise ConfigError(f"{key}: no file matches {path}")
    return [LocalFile(str(folder / match.relative_to(base / folder)), match) for match in found]
