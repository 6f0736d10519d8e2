"""What a run's directory may be, and how a run that means something else is told."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import MeaningChanged, RunLocked
from runner.ledger.run_directory import RunDirectory, check_same_meaning, describe_differences, excerpt


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@contextmanager
def powerless() -> Iterator[Path]:
    """A folder that anybody may enter, as a user who is not its owner's superior."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.geteuid():
            yield folder
            return
        os.seteuid(65534)
        try:
            yield folder
        finally:
            os.seteuid(0)


def test_a_directory_is_made_or_taken_and_kept_to_its_user(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "a" / "new").create()
    assert mode(tmp_path / "a" / "new") == 0o700
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o755)
    RunDirectory(empty).create()
    assert (mode(empty), list(empty.iterdir())) == (0o700, [])


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.mkdir(mode=0o755)
    for name in ("a.txt", "b.txt", "c.txt", "items"):
        (junk / name).write_text("mine")
    with pytest.raises(
        RunLocked, match=r"holds other files \(a\.txt, b\.txt, c\.txt and 1 more\) and no run; use --out"
    ):
        RunDirectory(junk).create()
    assert (mode(junk), len(list(junk.iterdir()))) == (0o755, 4)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunLocked, match="is no directory"):
        RunDirectory(tmp_path / "file").create()


@pytest.mark.parametrize("left", ["lock", "given.jsonl", ".items.new", "run.db", "manifest.json", "lost+found"])
def test_what_a_killed_session_leaves_is_gone_on_with(tmp_path: Path, left: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / left).touch()
    if left in ("run.db", "manifest.json"):
        (run / "notes.txt").touch()
    RunDirectory(run).create()


def test_the_mode_of_a_run_that_is_there_stays_its_owners_choice(tmp_path: Path) -> None:
    (tmp_path / "run.db").touch()
    tmp_path.chmod(0o750)
    RunDirectory(tmp_path).create()
    assert mode(tmp_path) == 0o750


def test_what_cannot_be_written_is_told() -> None:
    with powerless() as folder:
        if os.getuid():
            folder.chmod(0o555)
        with pytest.raises(RunLocked, match="cannot be written: Permission denied"):
            RunDirectory(folder).create()
        with pytest.raises(RunLocked, match="cannot be written: Permission denied"):
            RunDirectory(folder / "new").create()
        if os.getuid():
            folder.chmod(0o755)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can hand files to others")
def test_what_is_another_users_is_told() -> None:
    with tempfile.TemporaryDirectory() as name:
        theirs, run = Path(name), Path(name) / "run"
        run.mkdir()
        (run / "run.db").touch(mode=0o600)
        run.chmod(0o777)
        theirs.chmod(0o755)
        (theirs / "empty").mkdir()
        (theirs / "empty").chmod(0o777)
        os.seteuid(65534)
        try:
            with pytest.raises(RunLocked, match="empty: belongs to another user"):
                RunDirectory(theirs / "empty").create()
            with pytest.raises(RunLocked, match=r"run\.db: cannot be read and written by this user"):
                RunDirectory(run).create()
        finally:
            os.seteuid(0)


LONG = "Somebody asked a question. Judge the answer with a number from 1 to 5, where 5 is best." + " More." * 40


def test_a_changed_word_of_a_long_template_is_shown(tmp_path: Path) -> None:
    key = "judges.helpful.templates.base"
    with pytest.raises(MeaningChanged) as caught:
        check_same_meaning(tmp_path, {key: {"user": LONG}}, {key: {"user": LONG.replace("to 5,", "to 7,")}})
    line = caught.value.message.splitlines()[1]
    told = (
        f"  {key}.user: …Judge the answer with a number from 1 to [5,] → [7,] where 5 is best. More. More. More. More…"
    )
    assert line == told


def test_short_values_are_shown_whole_and_mappings_by_what_differs() -> None:
    before = {"a": {"same": 1, "x": None}, "gone": "g"}
    now = {"a": {"same": 1, "x": 2}, "new": [1]}
    assert list(describe_differences("p", before, now)) == [
        "p.a.x: was null, is 2",
        "p.gone: was g, is not set",
        "p.new: was not set, is [1]",
    ]


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_the_first_difference_is_within_what_is_shown(head: str, one: str, other: str, tail: str) -> None:
    before, now = head + one + tail, head + other + tail
    told = excerpt(before, now)
    assert len(told.splitlines()) <= 1
    assert len(told) < 4000
    if before != now and not set("[]→") & {*before, *now}:
        was, is_ = told.split("[", 1)[1].split("] → [")
        assert was != is_.split("]")[0]


def test_a_text_without_blanks_is_told_by_its_difference() -> None:
    before, now = "請判斷" * 100 + "好" + "答案" * 100, "請判斷" * 100 + "壞" + "答案" * 100
    assert "[好] → [壞]" in excerpt(before, now)


@pytest.mark.parametrize("name", ["lock", "run.db", "manifest.json", "items", "results", ".items.new", "anything"])
def test_a_link_in_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    """What would be written under it would land where nobody said that it should."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.db").touch() if name != "run.db" else None
    (run / name).symlink_to(elsewhere)
    with pytest.raises(RunLocked, match=rf"run/{name}: is a symbolic link, and a run directory holds none"):
        RunDirectory(run).create()
    assert elsewhere.read_text() == "mine"


def test_the_directory_itself_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "large-disk")
    run = RunDirectory(tmp_path / "runs")
    run.create()
    with run.lock():
        assert (tmp_path / "large-disk" / "lock").read_text() == str(os.getpid())


def test_an_end_in_good_order_is_told_from_an_abrupt_one(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create()
    log = tmp_path / "run" / "run.db-wal"
    log.touch()
    for _ in range(2):
        with run.lock():
            assert not run.left_abruptly
            with pytest.raises(RunLocked, match=f"process {os.getpid()}"), RunDirectory(run.path).lock():
                pass
            assert (run.path / "lock").read_text() == str(os.getpid()), "who is refused leaves it alone"
    (run.path / "lock").write_text("4711")
    with run.lock():
        assert run.left_abruptly
    (run.path / "lock").write_text("4711")
    log.unlink()
    with run.lock():
        assert not run.left_abruptly


def test_a_lock_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create()
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunLocked, match="run/lock: cannot be opened: "), run.lock():
        pass
    assert not (tmp_path / "elsewhere").exists()
