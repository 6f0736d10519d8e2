"""Objects of S3 and Google Cloud Storage as files: `s3://bucket/key`, `gs://bucket/key`, globs of them.

They are read a range at a time, so that nothing is held or copied to the disk.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from runner.errors import ConfigError, ItemError
from runner.object_storage import Bucket, StorageError, endpoint_note, split_url

from .files import MAGIC, LocalFile

_BLOCK = 8 * 1024 * 1024
"""Bytes of one request, which takes some tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An object, watched by its size and ETag. Its name is its URL; otherwise like `LocalFile`."""

    key: str
    """The config's key that names it."""
    location: str
    bucket: Bucket
    path: str
    """Its key in the bucket."""

    @property
    def name(self) -> str:
        return self.location

    def open(self) -> io.BufferedReader[Any]:
        return io.BufferedReader(_RangeReader(self, self._head()[0]), _BLOCK)

    def stamp(self) -> dict[str, Any]:
        size, etag = self._head()
        return {"size": size, "ETag": etag}

    def beside(self, name: str) -> RemoteFile | None:
        location, path = (f"{text.rpartition('/')[0]}/{name}" for text in (self.location, self.path))
        file = replace(self, location=location, path=path.removeprefix("/"))
        return file if file.head() else None

    def head(self) -> tuple[int, str] | None:
        """Its size and ETag; None where there is no such object."""
        with _name_location(self.key, self.location):
            return self.bucket.head(self.path)

    def _head(self) -> tuple[int, str]:
        if (head := self.head()) is None:
            raise ConfigError(f"{self.key}: {self.location}: there is no such object")
        return head


InputFile = LocalFile | RemoteFile


class _RangeReader(io.RawIOBase):
    """An object's bytes. A service that fails midway ends the command: the file is not damaged."""

    def __init__(self, file: RemoteFile, size: int) -> None:
        self._remote = file
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._position)
        if count <= 0:
            return 0
        with _name_location(self._remote.key, self._remote.location, ItemError):
            data = self._remote.bucket.read_range(self._remote.path, self._position, count)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position


def remote_files(key: str, pattern: str) -> list[RemoteFile]:
    """The objects of a URL or a glob of URLs, sorted by name; ConfigError names the URL."""
    try:
        scheme, name, path = split_url(pattern)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    if MAGIC.search(name):
        raise ConfigError(f"{key}: {pattern}: a bucket's name cannot be a pattern")
    bucket = Bucket(scheme, name)
    file = RemoteFile(key, pattern, bucket, path)
    if not path.endswith("/") and file.head():
        return [file]
    with _name_location(key, pattern):
        if MAGIC.search(path):
            matches = _match_keys(bucket, path.split("/"))
        elif next(bucket.keys(path.rstrip("/")), None) is not None:
            raise ConfigError(f"{key}: {pattern} is a directory; name its objects, as in {pattern.rstrip('/')}/*.jsonl")
        else:
            raise ConfigError(f"{key}: there is no object {pattern}{endpoint_note(scheme)}")
    if not matches:
        raise ConfigError(f"{key}: no object matches {pattern}{endpoint_note(scheme)}")
    return [RemoteFile(key, f"{scheme}://{name}/{match}", bucket, match) for match in matches]


def _match_keys(bucket: Bucket, patterns: list[str]) -> list[str]:
    """The keys that match, part by part; names that begin with a dot only where the last pattern does."""
    fixed = next(index for index, part in enumerate(patterns) if MAGIC.search(part))
    keys = bucket.keys("/".join(patterns[:fixed]), recursive=len(patterns) > fixed + 1)
    hidden = patterns[-1].startswith(".")
    return sorted(
        key
        for key in keys
        if _matches(key.split("/")[fixed:], patterns[fixed:])
        and (hidden or not PurePosixPath(key).name.startswith("."))
    )


def _matches(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether a path matches, part by part; `**` stands for any number of folders."""
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(parts[count:], patterns[1:]) for count in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


@contextmanager
def _name_location(key: str, url: str, kind: type[ConfigError | ItemError] = ConfigError) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise kind(f"{key}: {url}: {error}") from None
