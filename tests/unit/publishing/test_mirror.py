"""Two writers of one run: one of them goes on, and what the other left is whole or empty."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from runner.errors import ConfigError, MeaningChanged
from runner.ledger.ledger import Ledger
from runner.ledger.run_directory import RunDirectory
from runner.ledger.schema import USAGE_COLUMNS
from runner.publishing.destination import open_destination
from runner.publishing.mirror import Entry, LostOwnership, Mirror
from runner.publishing.parquet_writer import parquet
from runner.publishing.restore import RestoredLedger, restore_ledger
from runner.publishing.result_frames import ATTEMPT_COLUMNS, COLUMNS

ATTEMPTS = "attempts/00000001.parquet"
RESULTS = "results/00001-r1/00000001.parquet"
RUN = Path("elsewhere")
"""The directory of the run that is published."""


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    mirror = Mirror(open_destination("mirror", tmp_path, "run", RUN))
    mirror.claim("this run", "run")
    return mirror


def entry(segment: int, writer: str = "old", **changes: Any) -> Entry:
    usual: dict[str, Any] = dict(edition=1, revision=1, after=0, until=2, files=(ATTEMPTS, RESULTS), by="host:old")
    return Entry(segment, writer, **(usual | changes))


def rebuilt(mirror: Mirror, folder: Path) -> RestoredLedger:
    folder.mkdir()
    found = restore_ledger(mirror, RunDirectory(folder), {})
    assert found is not None
    return found


def test_whoever_is_not_in_the_log_first_ends(mirror: Mirror) -> None:
    mirror.begin(entry(1))
    mirror.begin(entry(1, meta={"another": "time"}))
    with pytest.raises(LostOwnership, match="host:old"):
        mirror.begin(entry(1, "new"))
    with pytest.raises(LostOwnership):
        mirror.begin(entry(1, until=3))
    assert mirror.last_entry() == entry(1)


def test_what_a_lost_writer_did_not_put_before_the_run_went_on_is_never_put(mirror: Mirror, tmp_path: Path) -> None:
    mirror.begin(entry(1))
    # It has stopped here: between the log and its files. The run goes on elsewhere.
    assert rebuilt(mirror, tmp_path / "new").attempts == 0
    mirror.place.create(ATTEMPTS, b"what it would have put")
    mirror.place.create(RESULTS, b"what it would have put")
    with pytest.raises(LostOwnership, match="new"):
        mirror.begin(entry(2))
    assert rebuilt(mirror, tmp_path / "newer").attempts == 0
    with Ledger(tmp_path / "newer" / "run.db") as ledger:
        state = ledger.segments.state()
        assert state is not None
        assert (state.segment, state.attempts, state.edition, state.stale) == (3, 0, 1, True)
        assert ledger.segments.run_id() == "this run"


def rows(*states: str, revision: int = 1) -> bytes:
    """Results of the trials 0, 1, … that ended so."""
    judged = [
        {
            "key": f"{number:032x}", "judge": "j", "model": "m", "repeat": 0, "state": state, "template": "t",
            "notes": [], "parser_version": "1", "structured": "off", "batch_size": 1, "batch_position": 1,
            "bisect_depth": 0, "attempts": 1, "judged_at": datetime(2026, 1, 1, tzinfo=UTC), "worker": "w",
            "revision": revision, **dict.fromkeys(USAGE_COLUMNS, 1.0),
        }
        for number, state in enumerate(states)
    ]  # fmt: skip
    given = {name: kind for name, kind in COLUMNS.items() if name in judged[0]}
    empty = [pl.lit(None, kind).alias(name) for name, kind in COLUMNS.items() if name not in given]
    return parquet([pl.DataFrame(judged, given).with_columns(empty).select(*COLUMNS)], COLUMNS)


def test_the_newest_of_a_judgment_counts_wherever_it_is(mirror: Mirror, tmp_path: Path) -> None:
    def states(folder: str) -> list[str]:
        rebuilt(mirror, tmp_path / folder)
        with closing(sqlite3.connect(tmp_path / folder / "run.db")) as db:
            assert db.execute("SELECT number, kind FROM revisions").fetchall() == [(2, "retry")]
            return [state for (state,) in db.execute("SELECT state FROM retired ORDER BY key")]

    mirror.begin(entry(1))
    mirror.place.create("results/00001-r1/_edition.json", b"[]")
    mirror.place.create(RESULTS, rows("malformed", "refused", "malformed", "failed"))
    mirror.place.create("renewed/r00002/00000002.parquet", rows("scored", "scored", revision=2))
    # The retry is not at its end: what it has brought stands.
    assert states("one") == ["scored", "scored", "malformed", "failed"]
    # Its revision was begun, and little of it published.
    made = {"number": 2, "kind": "retry", "made_at": 1.0, "parser_version": "1", "changes": {}}
    mirror.place.create("results/00002-r2/_edition.json", json.dumps([made]).encode())
    assert states("two") == ["scored", "scored", "malformed", "failed"]
    mirror.place.create("results/00002-r2/00000003.parquet", rows("refused", revision=2))
    assert states("three") == ["refused", "scored", "malformed", "failed"]


def test_what_is_left_of_a_lost_ledger_is_not_read(mirror: Mirror, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    for name in ("run.db-wal", "run.db-shm", "run.db.rebuilt", "run.db.rebuilt-wal"):
        (folder / name).write_bytes(b"of another ledger")
    assert restore_ledger(mirror, RunDirectory(folder), {}) is not None
    assert [path.name for path in folder.iterdir()] == ["run.db"]
    with Ledger(folder / "run.db") as ledger:
        assert ledger.shards() == []


def test_a_mirror_of_another_run_or_meaning_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds another run"):
        mirror.claim("another run", "run")
    mirror.claim("this run", "run")
    mirror.write_manifest({"meaning": {"models.m.model": "a"}})
    with pytest.raises(MeaningChanged, match=r"(?s)a run that means something else.*publish to another place"):
        restore_ledger(mirror, RunDirectory(tmp_path), {"models.m.model": "b"})
    assert mirror.last_entry() is None
    assert not (tmp_path / "run.db").exists()


def test_files_that_are_not_of_a_mirror_are_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "mirror" / "run").mkdir(parents=True)
    (tmp_path / "mirror" / "run" / "run.json").write_text("no JSON")
    with pytest.raises(ConfigError, match=r"mirror/run/run.json: is not valid JSON"):
        Mirror(open_destination("mirror", tmp_path, "run", RUN)).claim("x", "run")


def test_an_empty_file_has_the_columns_of_its_kind() -> None:
    for columns in (ATTEMPT_COLUMNS, COLUMNS):
        assert pl.read_parquet(parquet((), columns)).columns == list(columns)
