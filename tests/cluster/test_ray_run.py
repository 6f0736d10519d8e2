"""A run on Ray: interrupted, resumed, robbed of a worker's and the aggregator's process; its limits and keys.

Each start of Ray takes ten seconds or so; that is why a test here shows several things about the same run.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from runs import Workspace, ended_with_test, finish, items, log_of, model, stats, trial_of, until

from runner.simulate import Simulation, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

KEY_VARIABLE = "JURYBOX_TESTS_JUDGE"
CANARY = "sk-canary-4dK7wQ2pXv9Lr8"
WRONG = "sk-canary-wrong-Zt5hYb3nM1"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    work = Workspace(tmp_path)
    # Ray's sockets must have short paths.
    sessions = Path(tempfile.mkdtemp(prefix="jb"))
    work.environment |= {"RAY_TMPDIR": str(sessions), KEY_VARIABLE: CANARY}
    yield work
    shutil.rmtree(sessions, ignore_errors=True)


def command(work: Workspace) -> tuple[str, ...]:
    return ("run", str(work.config), "--yes", "--json")


def processes(parent: int, name: str) -> list[psutil.Process]:
    """The processes of a Ray actor class under the command's process."""
    found = []
    for process in psutil.Process(parent).children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith(f"ray::{name}"):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


def holding(folders: list[Path], secret: str) -> list[Path]:
    """The files below the folders that hold the secret."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert files
    return [path for path in files if secret.encode() in path.read_bytes()]


def test_nothing_acknowledged_is_lost_by_a_signal_or_a_death(work: Workspace) -> None:
    rows = items(range(160))
    work.write_items(rows)
    in_flight, rpm = 16, 4200
    simulation = Simulation(latency_ms=250, malformed=0.03, rpm=1.2 * rpm, api_key=CANARY, log=work.folder / "log")
    with running(simulation) as url:
        work.write_config(model(url, api_key_env=KEY_VARIABLE, limits={"in_flight": in_flight, "rpm": rpm}), workers=2)

        with ended_with_test(work.start(*command(work), ray=True)) as process:
            until(lambda: stats(url)["requests"] >= 100, process)
            os.kill(process.pid, signal.SIGINT)
            stopped = finish(process)
        assert stopped.status == 130, stopped.stderr
        assert "jurybox: interrupted by SIGINT" in stopped.stderr
        first = stats(url)
        assert first["open"] == 0, "what was in flight was waited for"
        # Two workers, one limit.
        assert first["max_in_flight"]["simulated-judge"] <= in_flight
        assert first["by_limit"].get("requests", 0) <= 5
        judged = {row[0] for row in work.results().filter(state="scored").select("item_id").iter_rows()}
        assert 50 < len(judged) == stopped.report["done"] < len(rows)

        with ended_with_test(work.start(*command(work), ray=True)) as process:
            workers: list[psutil.Process] = []
            until(lambda: stats(url)["requests"] >= first["requests"] + 80, process)
            workers = processes(process.pid, "_WorkerActor")
            assert len(workers) == 2
            workers[0].kill()
            until(_more_than(url, stats(url)["requests"] + 40), process)
            [aggregator] = processes(process.pid, "Aggregator")
            aggregator.kill()
            done = finish(process)
        assert done.status == 0, done.stderr
        total = stats(url)

    work.assert_each_trial_judged_once(len(rows))
    log = log_of(work.folder / "log")
    again = {trial_of(entry["body"]) for entry in log if entry["n"] > first["requests"]}
    assert judged.isdisjoint(again)
    # Bought twice at most: what the dead worker had in flight and what it had not yet handed over when it died.
    faults = sum(total["by_fault"].values()) + sum(total["by_limit"].values())
    assert len(rows) + faults <= total["requests"] <= len(rows) + faults + 2 * in_flight

    secretless = [work.out, Path(work.environment["RAY_TMPDIR"])]
    assert holding(secretless, "_WorkerActor"), "Ray's logs are not where they are looked for"
    assert holding(secretless, CANARY) == []
    assert CANARY not in stopped.stdout + stopped.stderr + done.stdout + done.stderr

    # The simulated judge says what it says for an item's content alone: a run without trouble must agree.
    calm = Workspace(work.folder / "calm")
    calm.write_items(rows)
    with running() as url:
        calm.write_config(model(url))
        assert calm.run().status == 0
    assert work.verdicts() == calm.verdicts()


def _more_than(url: str, requests: int) -> Callable[[], bool]:
    return lambda: bool(stats(url)["requests"] >= requests)


def test_a_wrong_key_is_told_without_the_key(work: Workspace) -> None:
    work.write_items(items(range(600)))
    work.environment[KEY_VARIABLE] = WRONG
    with running(Simulation(api_key=CANARY)) as url:
        work.write_config(model(url, api_key_env=KEY_VARIABLE, limits={"in_flight": 256}), workers=2)
        refused = finish(work.start(*command(work), "--verbose", ray=True))
        # Each worker sees it for itself, with no more than it sends before the first good reply.
        assert stats(url)["requests"] <= 6
    assert refused.status == 5, refused.stderr
    assert "Incorrect API key provided" in refused.stderr
    assert WRONG not in refused.stdout + refused.stderr
    assert holding([work.out, Path(work.environment["RAY_TMPDIR"])], WRONG) == []


@pytest.mark.long
def test_a_sweep_takes_as_long_as_its_slowest_model(work: Workspace) -> None:
    rates = {"slow": 600, "middle": 750, "fast": 900}
    work.write_items(items(range(30), systems=["atlas"]))
    limits = {f"simulated-{name}": {"rpm": 1.2 * rpm} for name, rpm in rates.items()}
    # A bucket of two requests: who is over the rate for a moment is told so.
    simulation = Simulation(latency_ms=30, models=limits, burst_s=0.2, log=work.folder / "log", log_bodies=False)
    with running(simulation) as url:
        models = [model(url, name, limits={"rpm": rpm, "in_flight": 4}) for name, rpm in rates.items()]
        work.write_config(*models, judges=["yes-no", "longmemeval-hindsight"], workers=2)
        done = finish(work.start(*command(work), "--quiet", ray=True))
        assert (done.status, done.stderr) == (0, "")
        seen = stats(url)
    work.assert_each_trial_judged_once(30 * 2 * 3)
    assert {(r["judge"], r["model"], r["scored"]) for r in done.report["results"]} == {
        (judge, name, 30) for judge in ("yes-no", "longmemeval-hindsight") for name in rates
    }

    trials = 30 * 2
    ideal = {name: trials / rpm * 60 for name, rpm in rates.items()}
    log = log_of(work.folder / "log")
    took = max(entry["time"] for entry in log) - min(entry["time"] for entry in log)
    assert took < (max(ideal.values()) + sum(ideal.values())) / 2
    for name, rpm in rates.items():
        times = sorted(entry["time"] for entry in log if entry["model"] == f"simulated-{name}")
        # No window of two seconds holds more than the rate and what may come at once.
        most = max(sum(start <= time < start + 2 for time in times) for start in times)
        assert most <= 1.2 * rpm / 60 * 2 + 4
    assert all(most <= 4 for most in seen["max_in_flight"].values())
    assert sum(seen["by_limit"].values()) <= 0.1 * len(log)
