"""Places that results are published to: a directory, or a bucket of S3 or Google Cloud Storage.

A file is put there whole, and only where nothing of that name is yet: the one operation on which two writers can rely.
Hides how a directory and a bucket do that, temporary names and syncs, endpoints, credentials and errors.
"""

from __future__ import annotations

import datetime
import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from runner.dataset.remote_files import display_url, endpoint_of, is_remote, region_of, without_secrets
from runner.errors import ConfigError
from runner.failpoints import failpoint
from runner.filesystem import sync, write_durably

CONNECT_S = 5
REQUEST_S = 30
RETRIES = 3
RETRY_S = 15
_LONGEST_REASON = 300
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class DestinationError(Exception):
    """The place cannot be read or written at present."""


class ObjectStore(Protocol):
    """A place for files with names such as `results/1.parquet`."""

    @property
    def url(self) -> str:
        """What it is called."""

    def create(self, name: str, content: bytes) -> bool:
        """Puts a file, whole and durably; False: there is one of that name, which stays as it is."""

    def replace(self, name: str, content: bytes) -> None:
        """Puts a file in the place of what is there."""

    def read(self, name: str) -> bytes | None:
        """A file's content; None where there is none."""

    def names(self, folder: str, after: str = "") -> list[str]:
        """All files below a folder, sorted; with `after` those whose names come behind that."""


class Directory:
    """A directory of this machine or of a shared file system."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = str(path)

    def create(self, name: str, content: bytes) -> bool:
        with _translate_errors(self.url):
            target = self._path / name
            if target.exists():
                return False
            self._make_folder(target.parent)
            # Of a writer that was killed. Should that one live, it fails, tries again, and finds the file there.
            for leftover in target.parent.glob(f".{target.name}.*"):
                leftover.unlink(missing_ok=True)
            temporary = self._write(target, content)
            failpoint("after-tmp")
            try:
                created = _link(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
            sync(target.parent)
            failpoint("after-rename")
            return created

    def replace(self, name: str, content: bytes) -> None:
        with _translate_errors(self.url):
            target = self._path / name
            self._make_folder(target.parent)
            self._write(target, content).replace(target)
            sync(target.parent)

    def read(self, name: str) -> bytes | None:
        with _translate_errors(self.url):
            try:
                return (self._path / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def names(self, folder: str, after: str = "") -> list[str]:
        with _translate_errors(self.url):
            files = (path for path in (self._path / folder).rglob("*") if path.is_file())
            names = (str(path.relative_to(self._path)) for path in files if not path.name.startswith("."))
            return sorted(name for name in names if name > after)

    def _make_folder(self, folder: Path) -> None:
        new = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in new:
            sync(each.parent)

    def _write(self, target: Path, content: bytes) -> Path:
        # A name of its own: a writer that was taken for dead must not write into the same file.
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        with write_durably(temporary) as file:
            file.write(content)
        return temporary


class Bucket:
    """A bucket of an object store, or a part of it. obstore's client has the conditional put, pyarrow's has not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._scheme, _, path = url.partition("://")
        self._bucket, _, self._prefix = path.partition("/")
        self._opened: Any = None

    def create(self, name: str, content: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        with _translate_bucket_errors(self.url):
            failpoint("after-tmp")
            try:
                self._store().put(name, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            failpoint("after-rename")
            return True

    def replace(self, name: str, content: bytes) -> None:
        with _translate_bucket_errors(self.url):
            self._store().put(name, content)

    def read(self, name: str) -> bytes | None:
        with _translate_bucket_errors(self.url):
            try:
                return bytes(self._store().get(name).bytes())
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

    def names(self, folder: str, after: str = "") -> list[str]:
        with _translate_bucket_errors(self.url):
            pages = self._store().list(folder, offset=after or None)
            return sorted(str(entry["path"]) for page in pages for entry in page)

    def _store(self) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Any:
        from obstore.store import GCSStore, S3Store

        endpoint = endpoint_of(self._scheme)
        how: dict[str, Any] = {
            "prefix": self._prefix or None,
            "client_options": {
                "connect_timeout": f"{CONNECT_S}s",
                "timeout": f"{REQUEST_S}s",
                "allow_http": endpoint is not None and not endpoint.startswith("https://"),
            },
            "retry_config": {"max_retries": RETRIES, "retry_timeout": datetime.timedelta(seconds=RETRY_S)},
        }
        if self._scheme == "gs":
            if endpoint is not None:
                address = endpoint if "://" in endpoint else f"http://{endpoint}"
                # An emulator asks for no credentials. With skip_signature some are looked for all the same.
                how["config"] = {"base_url": address.rstrip("/"), "bearer_token": "emulated"}
            return GCSStore(self._bucket, **how)
        if endpoint is not None:
            how["endpoint"] = endpoint
        if region := region_of(self._scheme, self._bucket):
            how["region"] = region
        if (credentials := _profile()) is not None:
            how["credential_provider"] = credentials
        return S3Store(self._bucket, **how)


def open_store(written: str, base: Path, name: str) -> ObjectStore:
    """The place that a config's `publish` names, and the part of it for the run of this name."""
    place = display_url(written, base, name)
    return Bucket(place) if is_remote(written) else Directory(Path(place))


def check_outside_run(place: ObjectStore, directory: Path) -> None:
    """ConfigError where the place would be lost together with the run's directory."""
    if isinstance(place, Directory) and Path(place.url).is_relative_to(directory.resolve()):
        raise ConfigError(f"publish: {place.url} is inside the run's own directory, and would be lost together with it")


def _link(temporary: Path, target: Path) -> bool:
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: as good as it gets, should two writers meet there in this very moment.
        if target.exists():
            return False
        temporary.rename(target)
    return True


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DestinationError(f"{url}: {error.strerror or error}") from None


@contextmanager
def _translate_bucket_errors(url: str) -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise DestinationError(f"{url}: {_reason(error)}") from None


def _profile() -> Any:
    """Credentials of a profile, which only Amazon's own library can read, where that is installed."""
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return None
    try:
        return Boto3CredentialProvider()
    except ValueError:  # it has none
        return None
    except Exception as error:  # it has no common root of its errors
        raise DestinationError(f"the credentials of Amazon's profile: {error}") from None


def _reason(error: Exception) -> str:
    text = str(error).partition("\n\nDebug source")[0]
    text = without_secrets(re.sub(r"\s+", " ", re.sub(r"<\?xml[^>]*>", "", text)).strip())
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"
