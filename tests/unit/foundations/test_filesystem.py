"""The run's file system: how little room is too little, what is said of it, and which ones are on the network."""

from __future__ import annotations

import ctypes
import errno
import pickle
from pathlib import Path

import pytest
from small_disk import needs_mount, small_disk

from runner import filesystem as disk
from runner.errors import DiskFull

MOUNTS = r"""
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 21 0:25 / /home rw,relatime shared:7 - nfs4 server:/home rw,vers=4.2
31 30 8:2 / /home/me/local\040disk rw - xfs /dev/sdb1 rw
32 21 0:31 / /mnt/bucket rw,nosuid - fuse.s3fs s3fs rw
33 21 0:32 / /mnt/windows rw - fuseblk /dev/sdc1 rw
34 21 0:33 / /var/lib/containers rw - fuse.fuse-overlayfs fuse-overlayfs rw
35 21 0:34 / /mnt/bucket/covered rw - tmpfs tmpfs rw
36 21 0:35 / /mnt/bucket/covered rw - cifs //server/share rw
"""


def test_a_small_file_system_needs_less_free_space() -> None:
    assert disk.least_free(10 * 2**40) == disk.least_free(21 * 2**30) == 2**30
    assert disk.least_free(2**30) == int(0.05 * 2**30)
    assert disk.least_free(0) == 0


@needs_mount
def test_too_little_room_is_told_with_the_directory_and_the_way_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "2m") as small:
        disk.check_free_space(small.path)
        small.fill()
        with pytest.raises(DiskFull) as caught:
            disk.check_free_space(small.path)
    error = caught.value
    assert error.exit_status == 4
    assert error.message.startswith(f"{tmp_path / 'small'}: only 0.0 MiB are free on its file system, and a run stops")
    assert "free some space and run the same command again" in error.message
    assert str(pickle.loads(pickle.dumps(error))) == error.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_errors_that_mean_no_room(tmp_path: Path, number: int) -> None:
    with pytest.raises(DiskFull, match="nothing more can be written"), disk.translate_full_disk(tmp_path):
        raise OSError(number, "no room")
    with pytest.raises(DiskFull), disk.translate_full_disk(tmp_path):
        try:
            raise OSError(number, "no room")
        finally:
            raise ValueError("a file that was closed already")
    with pytest.raises(PermissionError), disk.translate_full_disk(tmp_path):
        raise PermissionError(errno.EACCES, "not yours")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/runs/a", None),
        ("/home/me/runs", "nfs4"),
        ("/homes/me", None),
        ("/home/me/local disk/runs", None),
        ("/mnt/bucket/runs", "fuse.s3fs"),
        ("/mnt/windows/runs", None),
        ("/var/lib/containers/runs", None),
        ("/mnt/bucket/covered/runs", "cifs"),
    ],
)
def test_network_file_systems_are_known_by_the_mount_that_holds_the_path(path: str, kind: str | None) -> None:
    assert disk.network_file_system(Path(path), MOUNTS) == kind


def test_where_mounts_are_not_told_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_MOUNTS", tmp_path / "mountinfo")
    assert disk.network_file_system(tmp_path) is None
    (tmp_path / "mountinfo").write_text(f"21 1 0:5 / {tmp_path} rw - nfs server:/ rw\n")
    assert disk.network_file_system(tmp_path) == "nfs"


# --- replaced in one step


def _content(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    for text in ("old", "new"):
        with disk.replace_file(file) as opened:
            opened.write(text.encode())
    assert (_content(tmp_path), file.stat().st_mode & 0o777) == ({"a.json": "new"}, 0o600)
    with pytest.raises(KeyError), disk.replace_file(file) as opened:
        opened.write(b"half")
        raise KeyError
    # What a process that was killed left of it is no hindrance.
    disk.temporary_name(file).write_text("left")
    with disk.replace_file(file, private=False) as opened:
        opened.write(b"newest")
    assert _content(tmp_path) == {"a.json": "newest"}


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_directory_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    directory = tmp_path / "parts"
    for name in ("old", "new"):
        with disk.replace_directory(directory) as fresh:
            (fresh / name).write_text(name)
    with pytest.raises(KeyError), disk.replace_directory(directory) as fresh:
        (fresh / "half").touch()
        raise KeyError
    assert _content(directory) == {"new": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]
