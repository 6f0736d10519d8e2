"""Objects of S3 and Google Cloud Storage as files: `s3://bucket/key`, `gs://bucket/key`, globs of them.

pyarrow reads them, which is a dependency already: with ranges, so that nothing is held or copied to the disk, and with
the credentials that the command-line tools of AWS and Google use. Hides the endpoints (`AWS_ENDPOINT_URL_S3`,
`AWS_ENDPOINT_URL`, `STORAGE_EMULATOR_HOST`), how long a service may be silent, and its errors.
"""

from __future__ import annotations

import datetime
import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from runner.errors import ConfigError, ItemError

from .files import MAGIC

SCHEMES = ("s3", "gs")
CONNECT_S = 5.0
REQUEST_S = 15.0
ATTEMPTS = 3
_BLOCK = 8 * 1024 * 1024
"""Bytes asked for at once: each is a request of some tens of milliseconds."""
_SHOWN = 300

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An object. Its name is its URL."""

    key: str
    """The config's key that names it."""
    location: str

    @property
    def name(self) -> str:
        """What errors call it."""
        return self.location

    def open(self) -> io.BufferedReader[Any]:
        """Its bytes, read a block at a time."""
        return io.BufferedReader(self._bytes(), _BLOCK)

    def stamp(self) -> dict[str, Any]:
        """Size, and the ETag; where the service gives none, the time of the last change."""
        with self._bytes() as file:
            size, headers = file.size(), file.headers()
        known = {name: headers[name] for name in ("ETag", "etag", "Last-Modified", "updated") if name in headers}
        return {"size": size, **dict(list(known.items())[:1])}

    def beside(self, name: str) -> RemoteFile | None:
        """The object of that name under the same prefix, if there is one."""
        url = f"{self.location.rpartition('/')[0]}/{name}"
        return RemoteFile(self.key, url) if _is_object(self.key, url) else None

    def _bytes(self) -> _Bytes:
        scheme, path = _split(self.key, self.location)
        file = _translate_errors(self.key, self.location, lambda: _service(scheme, _bucket(path)).open_input_file(path))
        return _Bytes(file, self.key, self.location)


class _Bytes(io.RawIOBase):
    """An open object. A service that fails midway ends the command: it is no damage of the file."""

    def __init__(self, file: Any, key: str, url: str) -> None:
        self._file = file
        self._key = key
        self._url = url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = _translate_errors(self._key, self._url, lambda: self._file.readinto(buffer), ItemError)
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place: int = self._file.seek(offset, whence)
        return place

    def tell(self) -> int:
        place: int = self._file.tell()
        return place

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def size(self) -> int:
        size: int = self._file.size()
        return size

    def headers(self) -> dict[str, str]:
        """What the service says of the object."""
        return {name: value.decode("utf-8", "replace") for name, value in (self._file.metadata() or {}).items()}


def without_secrets(url: str) -> str:
    """The URL as it may be shown: without what stands before its host, and without its query, which may be a key."""
    scheme, mark, rest = url.partition("://")
    host = rest.partition("/")[0]
    if (":" in host or "@" in host) and "@" in rest:
        rest = f"…@{rest.rpartition('@')[2]}"
    bare, query, _ = rest.partition("?")
    return f"{scheme}{mark}{bare}{'?…' if query else ''}"


def is_remote(pattern: str) -> bool:
    """Whether it is the URL of an object."""
    return pattern.partition("://")[0] in SCHEMES and "://" in pattern


def remote_files(key: str, pattern: str) -> list[RemoteFile]:
    """The objects of a URL or a glob of URLs, sorted by name; ConfigError names the URL."""
    from pyarrow.fs import FileSelector, FileType

    scheme, path = _split(key, pattern)
    service = _translate_errors(key, pattern, lambda: _service(scheme, _bucket(path)))
    info = _translate_errors(key, pattern, lambda: service.get_file_info(path.rstrip("/")))
    if info.type == FileType.File and not path.endswith("/"):
        return [RemoteFile(key, pattern)]
    if info.type == FileType.Directory:
        raise ConfigError(f"{key}: {pattern} is a directory; name its objects, as in {pattern.rstrip('/')}/*.jsonl")
    if not MAGIC.search(path):
        raise ConfigError(f"{key}: there is no object {pattern}{_where(scheme)}")
    parts = path.split("/")
    fixed = next(index for index, part in enumerate(parts) if MAGIC.search(part))
    if fixed == 0:
        raise ConfigError(f"{key}: {pattern}: a bucket's name cannot be a pattern")
    deep = len(parts) > fixed + 1
    selector = FileSelector("/".join(parts[:fixed]), recursive=deep)
    listed = _translate_errors(key, pattern, lambda: _below(service, selector))
    hidden = parts[-1].startswith(".")
    found = sorted(
        entry.path
        for entry in listed
        if entry.type == FileType.File
        and _fits(entry.path.split("/")[fixed:], parts[fixed:])
        and (hidden or not PurePosixPath(entry.path).name.startswith("."))
    )
    if not found:
        raise ConfigError(f"{key}: no object matches {pattern}{_where(scheme)}")
    return [RemoteFile(key, f"{scheme}://{path}") for path in found]


def _below(service: Any, selector: Any) -> list[Any]:
    try:
        return list(service.get_file_info(selector))
    except FileNotFoundError:  # of a folder; a bucket that does not exist is told otherwise
        return []


def _is_object(key: str, url: str) -> bool:
    from pyarrow.fs import FileType

    scheme, path = _split(key, url)
    found: bool = _translate_errors(
        key, url, lambda: _service(scheme, _bucket(path)).get_file_info(path).type == FileType.File
    )
    return found


def _service(scheme: str, bucket: str) -> Any:
    """The client for a bucket. Where neither an endpoint nor a region is set, the bucket's region is looked up."""
    return _client(scheme, endpoint_of(scheme), region_of(scheme, bucket))


def region_of(scheme: str, bucket: str) -> str | None:
    """Where the bucket is; None where that is said by the environment, or is of no concern."""
    known = (
        scheme == "gs" or endpoint_of(scheme) or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    )
    return None if known else _region(bucket)


@cache
def _region(bucket: str) -> str:
    from pyarrow.fs import resolve_s3_region

    region: str = resolve_s3_region(bucket)
    return region


@cache
def _client(scheme: str, endpoint: str | None, region: str | None) -> Any:
    from pyarrow import fs

    if scheme == "s3":
        return fs.S3FileSystem(
            region=region,
            endpoint_override=endpoint,
            connect_timeout=CONNECT_S,
            request_timeout=REQUEST_S,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        )
    patience = datetime.timedelta(seconds=REQUEST_S)
    if endpoint is None:
        return fs.GcsFileSystem(retry_time_limit=patience)
    kind, _, host = endpoint.rpartition("://")
    return fs.GcsFileSystem(
        anonymous=True, scheme=kind or "http", endpoint_override=host.rstrip("/"), retry_time_limit=patience
    )


def endpoint_of(scheme: str) -> str | None:
    """The service's address, where the environment names another than the provider's."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if scheme == "s3" else ("STORAGE_EMULATOR_HOST",)
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _where(scheme: str) -> str:
    endpoint = endpoint_of(scheme)
    return f" at {without_secrets(endpoint)}" if endpoint else ""


def _split(key: str, url: str) -> tuple[str, str]:
    scheme, _, path = url.partition("://")
    bucket, _, rest = path.partition("/")
    # A secret may hold slashes: of `ID:SECRET@bucket` the colon alone is sure to stand before the first. Not repeated.
    if "@" in bucket or ":" in bucket:
        raise ConfigError(f"{key}: a URL must not hold credentials; they come from the environment or a profile")
    if not bucket or not rest:
        raise ConfigError(f"{key}: {url} must name a bucket and an object, as in {scheme}://bucket/folder/items.jsonl")
    return scheme, path


def _bucket(path: str) -> str:
    return path.partition("/")[0]


def _fits(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether a path matches, part by part; `**` stands for any number of folders."""
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_fits(parts[count:], patterns[1:]) for count in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _fits(parts[1:], patterns[1:])


def _translate_errors(
    key: str, url: str, question: Callable[[], _Result], kind: type[ConfigError | ItemError] = ConfigError
) -> _Result:
    """The service's answer, or an error that names the key and the URL."""
    try:
        return question()
    except (OSError, ValueError) as error:
        scheme = url.partition("://")[0]
        raise kind(f"{key}: {url}: {_reason(error, scheme)}") from None


def _reason(error: Exception, scheme: str) -> str:
    told = re.sub(r" ?\(Request ID: [^)]*\)", "", " ".join(str(error).split()))
    told = told if len(told) <= _SHOWN else told[:_SHOWN] + "…"
    place = _where(scheme)
    if isinstance(error, FileNotFoundError):
        return f"there is no such object{place}"
    if re.search(r"ACCESS_DENIED|AccessDenied|Forbidden|\b403\b|PERMISSION_DENIED|UNAUTHENTICATED|\b401\b", told):
        return f"no permission{place} (or, in a bucket that may not be listed, no such object): {told}"
    if re.search(r"INVALID_ACCESS_KEY|SIGNATURE|InvalidAccessKeyId|ExpiredToken", told):
        return f"the credentials are not accepted{place}: {told}"
    if re.search(r"NO_SUCH_BUCKET|NoSuchBucket|Bucket '[^']*' not found", told):
        return f"there is no such bucket{place}: {told}"
    if re.search(r"NETWORK_CONNECTION|curlCode|[Cc]ould not (connect|resolve)|UNAVAILABLE|DEADLINE", told):
        return f"the service cannot be reached{place}: {told}"
    return f"cannot be read{place}: {told}"


def display_url(written: str, base: Path, name: str) -> str:
    """Where a run of this name is published, by its config's `publish`. Directories are relative to `base`."""
    # As any file system and any bucket takes it.
    folder = re.sub(r"[^\w.-]|^\.+", "_", name)
    return f"{written.rstrip('/')}/{folder}" if is_remote(written) else str((base / written).resolve() / folder)
