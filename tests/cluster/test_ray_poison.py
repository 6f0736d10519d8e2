"""Workers that die on Ray: by the trial that they judge, by somebody's hand, or with their node."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from runs import Workspace, ended_with_test, finish, items, log_of, model, stats, trial_of, until

from runner.simulate import Simulation, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

EXITS, KILLS, HANGS = "q52-brook", "q53-atlas", "q53-brook"
"""Next to each other in the last task: the search for one is the search for the others."""
JUDGE = """
import os
import signal
import time
from pathlib import Path

from judges import Judge, load_judge, parse_judge

DEADLY = Path({deadly!r})


class Deadly(Judge):
    def scores(self, verdict, item):
        if DEADLY.exists():
            if item.id == {exits!r}:
                os._exit(3)
            if item.id == {kills!r}:
                os.kill(os.getpid(), signal.SIGKILL)
            while item.id == {hangs!r}:
                time.sleep(1)
        return super().scores(verdict, item)


judge = parse_judge(load_judge("yes-no", Path()).source.replace("name: yes-no", "name: deadly"), "deadly", Deadly)
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    work = Workspace(tmp_path)
    # Ray's sockets must have short paths.
    sessions = Path(tempfile.mkdtemp(prefix="jb"))
    work.environment |= {"RAY_TMPDIR": str(sessions)}
    yield work
    shutil.rmtree(sessions, ignore_errors=True)


def test_exactly_the_trials_that_kill_their_workers_are_poisoned(work: Workspace) -> None:
    rows = items(range(60))
    work.write_items(rows)
    deadly = work.folder / "deadly"
    deadly.touch()
    code = JUDGE.format(deadly=str(deadly), exits=EXITS, kills=KILLS, hangs=HANGS)
    (work.folder / "mine.py").write_text(code)
    in_flight = 8
    with running(Simulation(latency_ms=150, log=work.folder / "log")) as url:
        work.write_config(
            model(url, limits={"in_flight": in_flight}),
            judges=["./mine.py:judge"], workers=2, retry={"hang": "4s"},
        )  # fmt: skip
        command = ("run", str(work.config), "--yes", "--json", "--verbose")
        with ended_with_test(work.start(*command, ray=True)) as process:
            # First from outside, which is nobody's fault: the poison comes with the last rows.
            for number in range(3):
                until(_asked(url, 10 + 15 * number), process)
                _a_worker_of(process.pid).kill()
            until(_poisoned(work, 2), process)
            done = finish(process)
        requests = stats(url)["requests"]

        assert done.status == 3, done.stderr
        assert done.report["complete"]
        work.assert_each_trial_judged_once(len(rows))
        frame = work.results()
        found = {row["item_id"]: row for row in frame.filter(frame["state"] != "scored").to_dicts()}
        assert {(name, row["state"], row["reason"]) for name, row in found.items()} == {
            (EXITS, "poisoned", "crash"), (KILLS, "poisoned", "crash"), (HANGS, "poisoned", "hang"),
        }  # fmt: skip
        told = [re.search(r"item=(\S+)", line) for line in done.stderr.splitlines() if "trial_poisoned" in line]
        assert sorted(match[1] for match in told if match) == sorted(found)
        assert " trials_suspected " in done.stderr
        assert done.stderr.count(" trial_died_alone ") == len(found)
        assert {row["system"] for row in found.values()} == {"atlas", "brook"}
        deaths = done.stderr.count(" worker_died ")
        # Bought twice at most: what a dead worker had in flight, and what it had not yet handed over.
        assert len(rows) < requests <= len(rows) + deaths * 2 * in_flight
        # From outside; of each trial two as usual, then one for each halving of a task of 15, and one more.
        assert deaths <= 3 + 3 * (2 + 1 + 4 + 1)

        deadly.unlink()
        healed = work.command("retry", str(work.out), "--state", "poisoned", "--local", "--yes", "--json")
    assert healed.status == 0, healed.stderr
    work.assert_each_trial_judged_once(len(rows))
    assert set(work.results()["state"]) == {"scored"}
    # Known by the same keys as if they had never killed anybody.
    again = log_of(work.folder / "log")[requests:]
    assert {trial_of(entry["body"]) for entry in again} == set(found)
    keys = dict(work.results().select("item_id", "key").iter_rows())
    assert {name: keys[name] for name in found} == {name: row["key"] for name, row in found.items()}


def _asked(url: str, requests: int) -> Callable[[], bool]:
    return lambda: bool(stats(url)["requests"] >= requests)


def _poisoned(work: Workspace, trials: int) -> Callable[[], bool]:
    return lambda: work.query("SELECT count(*) FROM judgments WHERE state = 'poisoned'") >= [(trials,)]


def _a_worker_of(parent: int) -> psutil.Process:
    for process in psutil.Process(parent).children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::_WorkerActor"):
                return process
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    raise AssertionError("no worker lives")
