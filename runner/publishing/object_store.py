"""Places that results are published to: a directory, or a bucket of S3 or Google Cloud Storage.

Whatever is put there is put whole, and only where nothing of that name is yet: the one operation on which two writers
can rely. Hides how a directory and a bucket do that, temporary names and syncs, and their errors.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from runner.errors import ConfigError
from runner.failpoints import failpoint
from runner.filesystem import sync, write_durably
from runner.object_storage import Bucket, StorageError, is_remote, publish_url

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class DestinationError(Exception):
    """The place cannot be read or written at present."""


class ObjectStore(Protocol):
    """A place for files with names such as `results/1.parquet`."""

    @property
    def url(self) -> str:
        """What it is called."""

    def create(self, name: str, content: bytes) -> bool:
        """Put a file, whole and durably; False: there is one of that name, which stays as it is."""

    def replace(self, name: str, content: bytes) -> None:
        """Put a file in the place of what is there."""

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
        """Put a file, whole and durably; False: there is one of that name, which stays as it is."""
        with _describe_error(self.url):
            target = self._path / name
            if target.exists():
                return False
            self._folder(target.parent)
            # What a writer that was killed left of it. Should that one live, it fails, tries again, and finds it there.
            for left in target.parent.glob(f".{target.name}.*"):
                left.unlink(missing_ok=True)
            temporary = self._written(target, content)
            failpoint("after-tmp")
            try:
                created = _linked(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
            sync(target.parent)
            failpoint("after-rename")
            return created

    def replace(self, name: str, content: bytes) -> None:
        """Put a file in the place of what is there."""
        with _describe_error(self.url):
            target = self._path / name
            self._folder(target.parent)
            self._written(target, content).replace(target)
            sync(target.parent)

    def read(self, name: str) -> bytes | None:
        """A file's content; None where there is none."""
        with _describe_error(self.url):
            try:
                return (self._path / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def names(self, folder: str, after: str = "") -> list[str]:
        """All files below a folder, sorted; with `after` those whose names come behind that."""
        with _describe_error(self.url):
            files = (path for path in (self._path / folder).rglob("*") if path.is_file())
            found = [str(path.relative_to(self._path)) for path in files if not path.name.startswith(".")]
            return sorted(name for name in found if name > after)

    def _folder(self, folder: Path) -> None:
        made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in made:
            sync(each.parent)

    def _written(self, target: Path, content: bytes) -> Path:
        # A name of its own: a writer that was taken for dead must not write into the same file.
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        with write_durably(temporary) as file:
            file.write(content)
        return temporary


class PublishedBucket:
    """A bucket of an object store, or a part of it."""

    def __init__(self, url: str) -> None:
        self.url = url
        scheme, _, path = url.partition("://")
        bucket, _, prefix = path.partition("/")
        self._bucket = Bucket(scheme, bucket, prefix)

    def create(self, name: str, content: bytes) -> bool:
        """Put a file, whole and durably; False: there is one of that name, which stays as it is."""
        with _describe_error(self.url):
            failpoint("after-tmp")
            created = self._bucket.create(name, content)
        if created:
            failpoint("after-rename")
        return created

    def replace(self, name: str, content: bytes) -> None:
        """Put a file in the place of what is there."""
        with _describe_error(self.url):
            self._bucket.replace(name, content)

    def read(self, name: str) -> bytes | None:
        """A file's content; None where there is none."""
        with _describe_error(self.url):
            return self._bucket.read(name)

    def names(self, folder: str, after: str = "") -> list[str]:
        """All files below a folder, sorted; with `after` those whose names come behind that."""
        with _describe_error(self.url):
            return sorted(self._bucket.keys(folder, after))


def open_store(publish: str, base: Path, name: str) -> ObjectStore:
    """The place that a config's `publish` names, and the part of it for the run of this name."""
    place = publish_url(publish, base, name)
    return PublishedBucket(place) if is_remote(publish) else Directory(Path(place))


def check_outside_run(place: ObjectStore, directory: Path) -> None:
    """ConfigError where the place would be lost together with the run's directory."""
    if isinstance(place, Directory) and Path(place.url).is_relative_to(directory.resolve()):
        raise ConfigError(f"publish: {place.url} is inside the run's own directory, and would be lost together with it")


def _linked(temporary: Path, target: Path) -> bool:
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
def _describe_error(url: str) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise DestinationError(f"{url}: {error}") from None
    except OSError as error:
        raise DestinationError(f"{url}: {error.strerror or error}") from None
