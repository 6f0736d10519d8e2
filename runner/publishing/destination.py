"""Places that results are published to: a directory, or a bucket of S3 or Google Cloud Storage.

Whatever is put there is put whole, and only where nothing of that name is yet: the one operation on which two writers
can rely. Hides how a directory and a bucket do that, temporary names and syncs, and their errors.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.errors import ConfigError
from runner.failpoints import failpoint
from runner.filesystem import sync, write_durably
from runner.object_storage import Bucket, StorageError, is_remote, publish_url

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


class DestinationError(Exception):
    """The place cannot be read or written at present."""


class Destination:
    """A place for files with names such as `results/1.parquet`. DestinationError says where and why it fails."""

    def __init__(self, url: str) -> None:
        self.url = url
        scheme, _, path = url.partition("://")
        bucket, _, prefix = path.partition("/")
        self.directory = None if is_remote(url) else Path(url)
        self._store = Bucket(scheme, bucket, prefix) if self.directory is None else _Directory(self.directory)

    def create(self, name: str, content: bytes) -> bool:
        """Put a file, whole and durably; False: there is one of that name, which stays as it is."""
        with self._translate_errors():
            created = self._store.create(name, content)
        if created:
            failpoint("after-rename")
        return created

    def replace(self, name: str, content: bytes) -> None:
        with self._translate_errors():
            self._store.replace(name, content)

    def read(self, name: str) -> bytes | None:
        """A file's content; None where there is none."""
        with self._translate_errors():
            return self._store.read(name)

    def names(self, folder: str, after: str = "") -> list[str]:
        """All files below a folder, sorted; with `after` those whose names come behind that."""
        with self._translate_errors():
            return sorted(self._store.keys(folder, after))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            raise DestinationError(f"{self.url}: {error}") from None
        except OSError as error:
            raise DestinationError(f"{self.url}: {error.strerror or error}") from None


class _Directory:
    """A directory of this machine or of a shared file system, with a bucket's methods."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, name: str, content: bytes) -> bool:
        target = self._path / name
        if target.exists():
            return False
        _create_folder(target.parent)
        # What a writer that was killed left of it. Should that one live, it fails, tries again, and finds it there.
        for left in target.parent.glob(f".{target.name}.*"):
            left.unlink(missing_ok=True)
        temporary = _write_temporary(target, content)
        failpoint("after-tmp")
        try:
            created = _link(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        sync(target.parent)
        return created

    def replace(self, name: str, content: bytes) -> None:
        target = self._path / name
        _create_folder(target.parent)
        _write_temporary(target, content).replace(target)
        sync(target.parent)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def keys(self, folder: str, after: str = "") -> Iterator[str]:
        files = (path for path in (self._path / folder).rglob("*") if path.is_file())
        names = (str(path.relative_to(self._path)) for path in files if not path.name.startswith("."))
        return (name for name in names if name > after)


def open_destination(publish: str, base: Path, name: str, run: Path) -> Destination:
    """The part for the run of this name of the place that a config's `publish` names.

    ConfigError where it would be lost together with the run's directory.
    """
    place = Destination(publish_url(publish, base, name))
    if place.directory is not None and place.directory.is_relative_to(run.resolve()):
        raise ConfigError(f"publish: {place.url} is inside the run's own directory, and would be lost together with it")
    return place


def _create_folder(folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing:
        sync(path.parent)


def _write_temporary(target: Path, content: bytes) -> Path:
    # A name of its own: a writer that was taken for dead must not write into the same file.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    with write_durably(temporary) as file:
        file.write(content)
    return temporary


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
