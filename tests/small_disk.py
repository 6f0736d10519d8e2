"""A place with no room: a small file system of its own where that may be mounted, else a limit on the size of files.

One of the two always runs. Hides how a disk is filled to its last byte, and given room again.
"""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@functools.cache
def can_mount() -> bool:
    """Whether this process may mount file systems."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "jurybox-tests", folder], check=False)
        if mounted.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return mounted.returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="mounting a small file system needs root")


class Disk:
    """A mounted file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filling = path / "filling"

    def fill(self) -> None:
        """Take every byte that is left."""
        with self._filling.open("ab", buffering=0) as file:
            for piece in (65_536, 4_096, 1):
                try:
                    while True:
                        file.write(b"x" * piece)
                except OSError:
                    continue

    def free(self) -> None:
        """Give it back."""
        self._filling.unlink()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Disk]:
    """A file system of this size on a new folder."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "jurybox-tests", folder], check=True)
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file of this process can grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
