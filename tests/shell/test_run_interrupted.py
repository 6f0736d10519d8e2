"""Ctrl-C in the middle of a run, once and twice; and a second process on the same directory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import ROOT, Workspace, ended_with_test, finish, items, log_of, model, stats, trial_of, until

from runner.simulate import Simulation, running

IN_FLIGHT = 8


def test_ctrl_c_and_the_same_command_again(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    rows = items(range(150))
    work.write_items(rows)
    command = ("run", str(work.config), "--local", "--yes", "--json")
    with running(Simulation(latency_ms=60, malformed=0.05, server_errors=0.03, log=tmp_path / "log")) as url:
        work.write_config(model(url, limits={"in_flight": IN_FLIGHT}))
        with ended_with_test(work.start(*command)) as process:
            until(lambda: stats(url)["requests"] >= 60, process)

            os.kill(process.pid, signal.SIGINT)
            stopped = finish(process)
        assert stopped.status == 130
        assert "jurybox: interrupted by SIGINT" in stopped.stderr
        assert stopped.report["status"].startswith("INCOMPLETE")
        asked = stats(url)
        assert asked["open"] == 0, "what was in flight was waited for"
        judged = {row[0] for row in work.results().filter(state="scored").select("item_id").iter_rows()}
        assert 30 < len(judged) == stopped.report["done"] < len(rows)
        [(recorded,)] = work.query("SELECT count(*) FROM judgments")
        assert recorded == len(judged)

        status = work.command("status", str(work.out), "--json")
        assert status.status == 0

        done = work.command(*command)
        assert done.status == 0, done.stderr
        total = stats(url)
    work.assert_each_trial_judged_once(len(rows))
    again = [trial_of(entry["body"]) for entry in log_of(tmp_path / "log") if entry["n"] > asked["requests"]]
    assert judged.isdisjoint(again)
    faults = sum(total["by_fault"].values())
    assert len(rows) + faults <= total["requests"] <= len(rows) + faults + IN_FLIGHT


@pytest.mark.parametrize("lost", ["run.db", "."])
def test_what_is_removed_in_mid_run_ends_it_and_does_not_come_back_empty(tmp_path: Path, lost: str) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(300)))
    with running(Simulation(latency_ms=50)) as url:
        work.write_config(model(url, limits={"in_flight": 2}))
        with ended_with_test(work.start("run", str(work.config), "--local", "--yes", "--quiet")) as process:
            until(lambda: stats(url)["requests"] >= 20, process)
            gone = work.out / lost
            # Out of its place at once: what is in a folder goes one by one.
            gone.rename(tmp_path / "gone")
            stopped = finish(process)
        assert stats(url)["requests"] < 300
    assert stopped.status == 4
    assert f"jurybox: {gone} " in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not gone.exists()


def test_a_second_process_and_a_second_ctrl_c(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    rows = items(range(20))
    work.write_items(rows)
    with running(Simulation(hanging=1.0)) as url, running() as sound:
        work.write_config(model(url))
        with ended_with_test(work.start("run", str(work.config), "--local", "--yes")) as process:
            until(lambda: stats(url)["open"] > 0, process)

            intruder = work.run("--set", f"models.0.base_url={sound}")
            assert intruder.status == 2
            assert intruder.stderr.count("\n") == 1
            assert f"another jurybox works here (process {process.pid})" in intruder.stderr
            assert stats(sound)["requests"] == 0

            # Nothing of what is in flight will ever be answered. Whoever will not wait for it asks twice.
            while process.poll() is None:
                os.kill(process.pid, signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
            assert finish(process).status == 130

        assert work.run("--set", f"models.0.base_url={sound}").status == 0
    work.assert_each_trial_judged_once(len(rows))


def test_a_resume_keeps_what_waiting_trials_have_been_through(tmp_path: Path) -> None:
    """No trial of the shard is judged yet when it is interrupted: what waits in it is not asked a first time again."""
    work = Workspace(tmp_path)
    rows = items(range(10))
    work.write_items(rows)
    with running(Simulation(latency_ms=60, malformed=1.0, max_faults_in_a_row=2)) as url:
        work.write_config(model(url, limits={"in_flight": 2}), workers=1)
        with ended_with_test(work.start("run", str(work.config), "--local", "--yes", "--quiet")) as process:
            until(lambda: stats(url)["requests"] >= 5, process)
            process.send_signal(signal.SIGINT)
            assert finish(process).status == 130
        assert work.query("SELECT count(*) FROM judgments") == [(0,)]
        ((waiting,),) = work.query("SELECT count(*) FROM pending")
        assert waiting >= 5
        assert work.run().status == 0
        assert stats(url)["requests"] == 3 * len(rows)
    assert work.query("SELECT DISTINCT attempts FROM judgments") == [(3,)]


def test_closed_streams_and_a_locale_without_umlauts_end_no_run(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    rows = items(range(5))
    work.write_items(rows)
    work.environment |= {"PYTHONIOENCODING": "ascii"}
    with running() as url:
        for number, streams in enumerate((">&- 2>&- <&-", "2>/dev/full", "2> >(true)")):
            work.write_config(model(url), name=f"tested{number}", out=str(tmp_path / str(number)))
            command = f'exec "$0" -m runner run {work.config} --local --yes {streams}'
            done = subprocess.run(
                ["bash", "-c", command, sys.executable],
                env={**os.environ, **work.environment, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, b""), streams
            assert stats(url)["requests"] == len(rows) * (number + 1), streams
    # The table has letters that ASCII has not.
    assert "·" in done.stdout.decode()


def test_a_reader_that_has_had_enough_is_no_bug(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", '"$0" -m runner judges ragbench | head -n 1; exit "${PIPESTATUS[0]}"', sys.executable],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["name", "ragbench"]
