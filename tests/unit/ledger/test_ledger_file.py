"""The ledger as a file: its mode, its version, a damaged one, a full disk, a reader beside the writer."""

from __future__ import annotations

import os
import pickle
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ledger_batches import judged, judgments, new_ledger, plan

from runner.errors import DiskFull, InputError, JuryboxError, LedgerDamaged, RunLocked, StoppedEarly
from runner.ledger import database, schema
from runner.ledger.aggregator import Aggregator
from runner.ledger.ledger import Ledger
from runner.messages import Ack

ROOT = Path(__file__).parents[3]

FILL = """
import sys, resource
from pathlib import Path
from ledger_batches import new_ledger, judged, plan
from runner.errors import StoppedEarly

ledger = new_ledger(Path(sys.argv[1]), plan(1, 100_000))
size = (Path(sys.argv[1]) / "run.db-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300_000, resource.RLIM_INFINITY))
try:
    for seq in range(1, 1000):
        ledger.commit(judged("w", seq, 0, *range(seq * 100, seq * 100 + 100)))
        sys.stdout.write(f"{seq}\\n")
except StoppedEarly as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ledger.commit(judged("w", seq, 0, *range(seq * 100, seq * 100 + 100)))
    sys.stdout.write(f"{seq}\\n{error}\\n")
"""


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ledger = new_ledger(tmp_path)
    finally:
        os.umask(before)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["run.db", "run.db-shm", "run.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    ledger.close()
    assert [file.name for file in tmp_path.iterdir()] == ["run.db"], "closing leaves one whole file"


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        assert ledger._db.value("PRAGMA journal_mode") == "wal"
        assert ledger._db.value("PRAGMA synchronous") == 2


def test_a_reader_sees_what_is_committed_while_the_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with new_ledger(tmp_path) as writer:
        writer.commit(judged("w", 1, 0, 0))
        with Ledger(path, read_only=True) as reader:
            assert len(judgments(reader)) == 1
            keys = reader.judged_keys()
            next(keys)
            writer.commit(judged("w", 2, 0, 1))
            assert list(keys) == []
            assert len(judgments(reader)) == reader.tallies()[("j0", "m0")].scored == 2
            with pytest.raises(RunLocked, match=r"run\.db cannot be opened: attempt to write a readonly database"):
                reader.commit(judged("w", 3, 0, 2))
        writer.commit(judged("w", 3, 0, 2))
    with Ledger(path, read_only=True) as reader:
        assert len(judgments(reader)) == 3


def test_a_reader_makes_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with pytest.raises(InputError, match=r"run\.db: there is no ledger here"):
        Ledger(path, read_only=True)
    path.touch()
    with pytest.raises(InputError, match=r"run\.db: there is no ledger in this file yet"):
        Ledger(path, read_only=True)


def test_a_file_that_is_no_ledger_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(b"not a database" * 1000)
    for read_only in (False, True):
        with pytest.raises(JuryboxError, match=r"run\.db is damaged: file is not a database"):
            Ledger(path, read_only=read_only)


def test_a_damaged_file_is_found_at_opening(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with new_ledger(tmp_path, plan(1, 5000)) as ledger:
        ledger.commit(judged("w", 1, 0, *range(2000)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + b"\x99" * 40_000 + whole[len(whole) // 2 + 40_000 :])
    with pytest.raises(JuryboxError, match=r"run\.db is damaged"):
        Ledger(path)


def _damage(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + b"\x99" * 40_000 + whole[len(whole) // 2 + 40_000 :])


def test_a_damaged_file_is_an_input_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with new_ledger(tmp_path, plan(1, 5000)) as ledger:
        ledger.commit(judged("w", 1, 0, *range(2000)))
    _damage(path)
    with pytest.raises(LedgerDamaged) as caught:
        Ledger(path)
    assert caught.value.exit_status == 2
    assert caught.value.message.startswith(f"{path} is damaged: ")
    assert "put back a copy of it" in caught.value.message


def test_a_file_that_was_looked_through_is_so_again_only_after_a_death(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with new_ledger(tmp_path, plan(1, 5000)) as ledger:
        ledger.commit(judged("w", 1, 0, *range(2000)))
    _damage(path)
    Ledger(path, checked=True).close()
    # What a writer that is killed leaves behind: SQLite's log.
    path.with_name("run.db-wal").touch()
    with pytest.raises(LedgerDamaged, match="is damaged"):
        Ledger(path, checked=True)


@pytest.mark.parametrize("version", [1, schema.VERSION - 1, schema.VERSION + 1, 99])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_another_version_is_refused_with_the_way_out(tmp_path: Path, version: int, read_only: bool) -> None:
    path = tmp_path / "run.db"
    new_ledger(tmp_path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(InputError) as caught:
        Ledger(path, read_only=read_only)
    assert caught.value.exit_status == 2
    assert caught.value.message == (
        f"{path}: is a ledger of version {version}, and this jurybox reads version {schema.VERSION} only; "
        "use the jurybox that wrote it, or start anew with --out"
    )
    assert path.read_bytes() == before, "nothing was changed in it"


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RunLocked, match=r"run\.db cannot be written: Not a directory"):
        Ledger(Path(__file__) / "run.db")


def test_a_file_that_is_removed_or_replaced_takes_nothing_more(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(1, 10)) as ledger:
        ledger.commit(judged("w", 1, 0, 1))
        (tmp_path / "run.db").rename(tmp_path / "aside")
        for _ in range(2):
            with pytest.raises(StoppedEarly, match=r"run\.db was removed or replaced") as caught:
                ledger.commit(judged("w", 2, 0, 2))
            assert not isinstance(caught.value, DiskFull), "which is waited for"
            (tmp_path / "run.db").write_bytes(b"another")
        (tmp_path / "aside").replace(tmp_path / "run.db")
        assert ledger.commit(judged("w", 2, 0, 2)).ack == Ack(2, 0)


def test_a_file_that_another_process_does_not_let_go_stops_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    new_ledger(tmp_path, plan(1, 10)).close()
    aggregator = Aggregator(tmp_path / "run.db")
    with sqlite3.connect(tmp_path / "run.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoppedEarly, match=r"run\.db is held by another process.*run the same command again"):
            aggregator.record(judged("w", 1, 0, 1))
        other.execute("ROLLBACK")
    other.close()
    assert aggregator.record(judged("w", 1, 0, 1)) == Ack(1, 0)
    aggregator.close()


@pytest.mark.skipif(sys.platform == "win32", reason="RLIMIT_FSIZE")
def test_a_full_disk_stops_early_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parents[2])])},
    )  # fmt: skip
    *acknowledged, message = done.stdout.splitlines()
    assert message.startswith(f"{tmp_path}: run.db cannot grow (")
    assert message.endswith("free some space and run the same command again to go on")
    assert [int(seq) for seq in acknowledged] == list(range(1, len(acknowledged) + 1))
    with Ledger(tmp_path / "run.db") as ledger:
        assert ledger.shards()[0].done == len(judgments(ledger)) == 100 * len(acknowledged)


def test_a_full_database_stops_early_and_goes_on_once_there_is_space(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(1, 5000)) as ledger:
        ledger._db.change(f"PRAGMA max_page_count = {ledger._db.value('PRAGMA page_count') + 3}")
        with pytest.raises(StoppedEarly, match="database or disk is full") as caught:
            ledger.commit(judged("w", 1, 0, *range(1000)))
        assert judgments(ledger) == []
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        ledger._db.change("PRAGMA max_page_count = 1000000")
        assert ledger.commit(judged("w", 1, 0, *range(1000))).ack == Ack(1, 0)
        assert ledger.shards()[0].done == 1000
