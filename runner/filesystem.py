"""The file system that a run lives on: files replaced in one step and durably, and what is said when it is full.

Hides temporary names and syncs, which errors of the system mean that there is no room, how much room is too little, and
what kind of file system a path is on.
"""

import ctypes
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from .errors import DiskFull, JuryboxError, StoppedEarly

LEAST_FREE_BYTES = 2**30
LEAST_FREE_SHARE = 0.05
"""A run stops below this much free space: the first, or the second of the whole where that is less."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OVER_THE_NETWORK = {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3"}
_LOCAL_FUSE = {"fuse.fuse-overlayfs"}
_MOUNTS = Path("/proc/self/mountinfo")
_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux's renameat2, RENAME_SWAP of macOS's renamex_np."""


def sync(path: Path) -> None:
    """Makes a file's content, or a directory's names, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_private(path: Path) -> TextIO:
    """A new text file that only its owner reads."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")


@contextmanager
def write_durably(path: Path, *, private: bool = True) -> Iterator[BinaryIO]:
    """A file to be written, durable at the end of the block; an error leaves nothing of it. `private`: mode 0600."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        # On a full disk, half of it is room that something else needs.
        path.unlink(missing_ok=True)
        raise


@contextmanager
def replace_file(path: Path, *, private: bool = True) -> Iterator[BinaryIO]:
    """Like `write_durably`, but at the end of the block it takes the place of what is there, in one step."""
    fresh = temporary_name(path)
    with write_durably(fresh, private=private) as file:
        yield file
    try:
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def replace_directory(path: Path) -> Iterator[Path]:
    """An empty directory that takes the place of `path` at the end of the block; an error leaves that as it was.

    One step where the system can exchange two names (Linux, macOS); elsewhere two, and a crash between them is undone
    by `restore_directory`. The files in it must be durable by then.
    """
    restore_directory(path)
    fresh, old = temporary_name(path), _old_name(path)
    for left in (fresh, old):
        if left.exists():
            shutil.rmtree(left)
    fresh.mkdir(mode=0o700, parents=True)
    try:
        yield fresh
        sync(fresh)
        if not path.exists():
            fresh.rename(path)
        elif not _exchange(fresh, path):
            path.rename(old)
            fresh.rename(path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    sync(path.parent)
    for left in (fresh, old):
        if left.exists():
            shutil.rmtree(left)


def restore_directory(path: Path) -> None:
    """Undoes a `replace_directory` that a crash cut in half."""
    if not path.exists() and _old_name(path).exists():
        _old_name(path).rename(path)


def temporary_name(path: Path) -> Path:
    """Where a file or directory is written before it takes its place."""
    return path.with_name(f".{path.name}.new")


def _old_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two names in one step; False where the system or the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            return bool(libc.renamex_np(os.fsencode(one), os.fsencode(other), _EXCHANGE) == 0)
        here = -100  # AT_FDCWD
        return bool(libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), _EXCHANGE) == 0)
    except AttributeError:
        return False


def disk_full_error(directory: Path, problem: str) -> DiskFull:
    """The error that ends a run when nothing more can be written to a directory."""
    return DiskFull(
        f"{directory}: {problem}. Everything acknowledged is kept there, and jurybox status and report can read it; "
        "free some space and run the same command again to go on"
    )


def is_full(error: BaseException | None) -> bool:
    """Whether an error comes of there being no room: disk, quota, or the largest file allowed.

    Also where what was being cleaned up after that failed in its turn, as a library does that closes half a file.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def translate_full_disk(directory: Path) -> Iterator[None]:
    """Raises DiskFull in the place of an error of the system that means no room in the directory."""
    try:
        yield
    except JuryboxError:
        raise
    except Exception as error:
        if not is_full(error):
            raise
        raise disk_full_error(directory, "nothing more can be written there") from None


def least_free(whole: int) -> int:
    """How many bytes must be free on a file system of this size."""
    return int(min(LEAST_FREE_BYTES, LEAST_FREE_SHARE * whole))


def describe_shortage(directory: Path) -> DiskFull | None:
    """Why a run is not to go on writing here: too little is free."""
    try:
        system = os.statvfs(directory)
    except FileNotFoundError:
        raise StoppedEarly(f"{directory} is gone: somebody removed it while the run was writing there") from None
    free, least = system.f_bavail * system.f_frsize, least_free(system.f_blocks * system.f_frsize)
    if free >= least:
        return None
    return disk_full_error(
        directory, f"only {_size(free)} are free on its file system, and a run stops below {_size(least)}"
    )


def check_free_space(directory: Path) -> None:
    """Raises what `describe_shortage` returns."""
    if (error := describe_shortage(directory)) is not None:
        raise error


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """The kind of a network file system that the path is on; None: a local one, or unknown.

    `mounts`: the text of Linux's mountinfo, where it is not this process's own.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(errors="replace")
        except OSError:
            return None
    where, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if len(before.split()) > 4:
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4])
            # A later mount at the same place covers an earlier one.
            if len(point) >= len(where) and path.absolute().is_relative_to(point):
                where, kind = point, after.split(" ", 1)[0]
    remote = kind in _OVER_THE_NETWORK or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)
    return kind if remote else None


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 // 10 else f"{count / 2**20:.1f} MiB"
