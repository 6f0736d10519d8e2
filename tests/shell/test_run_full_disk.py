"""A disk that fills up at every stage of a run: it stops in good order, and goes on once there is room.

While judging, with the real command on a small file system (or, where none can be mounted, with a limit on the size of
files); while staging and publishing, in this process.
"""

from __future__ import annotations

import json
import random
import shlex
import sys
from pathlib import Path

import pytest
from runs import ROOT, Finished, Workspace, ended_with_test, finish, items, model, stats, until
from small_disk import can_mount, files_limited_to, needs_mount, small_disk

from runner.config import parse_config
from runner.errors import DiskFull
from runner.ledger.ledger import Ledger
from runner.session.judging import judge_plan, local_pool
from runner.session.planning import plan_run
from runner.session.run_status import open_run, status_of
from runner.session.session import Session
from runner.simulate import Simulation, running

ROWS = items(range(700), systems=["atlas"])
IN_FLIGHT = 16
UNACKNOWLEDGED = 200

LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (250_000, resource.RLIM_INFINITY))
sys.path.insert(0, {str(ROOT)!r})
from runner.cli import main
main()
"""


@pytest.mark.parametrize("way", ["a full file system", "the largest file allowed"])
def test_a_disk_that_fills_up_while_judging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    # One of the two always runs; the second costs seconds, and is for those who cannot have the first.
    if can_mount() != (way == "a full file system"):
        pytest.skip("the other way is the one for this machine")
    work = Workspace(tmp_path)
    work.write_items(ROWS)
    command: tuple[str, ...] = ("run", str(work.config), "--local", "--yes", "--json", "--quiet")
    with running(Simulation(latency_ms=20)) as url:
        work.write_config(model(url, limits={"in_flight": IN_FLIGHT}))
        if way == "the largest file allowed":
            with monkeypatch.context() as patched:
                patched.setattr(sys, "executable", _limited(tmp_path))
                assert_told(finish(work.start(*command)), work)
            goes_on(work, url, command)
            return
        with small_disk(tmp_path / "disk", "8m") as disk:
            work.out = disk.path / "run"
            command = (*command, "--out", str(work.out))
            with ended_with_test(work.start(*command)) as process:
                until(lambda: stats(url)["requests"] >= 200, process)
                disk.fill()
                assert_told(finish(process), work)
            # Not a byte is left, and all that was acknowledged can be read.
            judged = status_of(work.out).done
            with open_run(work.out) as opened:
                assert opened.report().done == judged
            asked = stats(url)["requests"]
            assert judged <= asked <= judged + IN_FLIGHT + UNACKNOWLEDGED, "no more was asked than could be kept"
            assert_told(finish(work.start(*command)), work)
            assert stats(url)["requests"] == asked
            disk.free()
            goes_on(work, url, command)


def assert_told(stopped: Finished, work: Workspace) -> None:
    assert stopped.status == 4, stopped.stderr
    assert f"jurybox: {work.out}: " in stopped.stderr
    assert "free some space and run the same command again to go on" in stopped.stderr
    # A script that reads stdout gets what a finished run would give it.
    assert stopped.report["status"].startswith("INCOMPLETE")
    assert stopped.report["done"] == status_of(work.out).done > 0


def goes_on(work: Workspace, url: str, command: tuple[str, ...]) -> None:
    """With room again, the same command ends the run, and asks again only for what was not acknowledged."""
    [(judged,)] = work.query("SELECT count(*) FROM judgments")
    before = stats(url)["requests"]
    assert 0 < judged < len(ROWS)
    done = finish(work.start(*command))
    assert done.status == 0, done.stderr
    assert stats(url)["requests"] == before + len(ROWS) - judged
    work.assert_each_trial_judged_once(len(ROWS))
    assert work.results().height == len(ROWS)


def _limited(folder: Path) -> str:
    """An interpreter whose `-m runner` may write no large file."""
    script = folder / "limited"
    script.write_text(f'#!/bin/sh\nshift 2\nexec {shlex.quote(sys.executable)} -c {shlex.quote(LIMITED)} "$@"\n')
    script.chmod(0o755)
    return str(script)


def session(folder: Path, url: str, numbers: range) -> Session:
    chance = random.Random(5)
    rows = [row | {"question": chance.randbytes(40).hex()} for row in items(numbers, systems=["atlas"])]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = {"name": "n", "items": {"path": "items.jsonl"}, "judges": ["yes-no"], "models": [model(url)]}
    return Session(parse_config(config), folder, folder / "run")


def test_no_room_while_staging(tmp_path: Path) -> None:
    opened = session(tmp_path, "http://127.0.0.1:9", range(4000))
    with pytest.raises(DiskFull, match="free some space"), files_limited_to(50_000), opened:
        plan_run(opened)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["lock", "run.db"], (
        "what was half made is gone"
    )
    with session(tmp_path, "http://127.0.0.1:9", range(40)) as opened:
        assert plan_run(opened).trials == 40


def test_no_room_for_the_results(tmp_path: Path) -> None:
    with running() as url, session(tmp_path, url, range(500)) as opened:
        judge_plan(opened, plan_run(opened), make_pool=lambda: local_pool(opened))
        judged = status_of(tmp_path / "run").done
        with pytest.raises(DiskFull, match="run"), files_limited_to(33_000):
            opened.finish()
        assert not (tmp_path / "run" / ".results.new").exists(), "half of them take no room"
        report = opened.finish()
    assert report.complete
    assert report.done == judged == 500


@needs_mount
def test_a_ledger_on_a_disk_without_a_byte_left_can_be_read(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "4m") as disk:
        with session(disk.path, "http://127.0.0.1:9", range(40)) as opened:
            plan = plan_run(opened)
            disk.fill()
            with pytest.raises(DiskFull, match="a run stops below"):
                judge_plan(opened, plan, make_pool=lambda: local_pool(opened))
        path = disk.path / "run" / "run.db"
        assert not path.with_name("run.db-shm").exists(), "it was closed in good order: SQLite's index is gone"
        for _ in range(2):
            with Ledger(path, read_only=True) as ledger:
                assert sum(row.shard.trials for row in ledger.shards()) == 40
        with pytest.raises(DiskFull, match=r"run\.db cannot grow"):
            Ledger(path)
        disk.free()
        with Ledger(path) as ledger:
            assert sum(row.shard.trials for row in ledger.shards()) == 40
