"""SIGINT at random moments of a run, and SIGINT twice: the same command goes on, and ends as if nothing had happened.

The moments are drawn from a seed, and measured in time of the processor, so that they fall into every part of a run on
a machine of any speed: while it reads its config, stages, judges, publishes and reports.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from runs import ROOT, Workspace, items, model

from runner.simulate import Simulation, running

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

IN_FLIGHT = 8
ROWS = items(range(40))

# Imports once, and forks for each run: what is to be interrupted is the run.
RUNNER = """
import json, os, resource, signal, sys
import runner.cli, runner.report, runner.scheduling.driver, runner.scheduling.pool
import runner.session.judging, runner.session.planning, runner.session.progress, runner.session.run_request
import rich.console, pyarrow.parquet, polars
from runner.signals import install_handlers

def run(order):
    for number, name in ((0, os.devnull), (1, order["stdout"]), (2, order["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    fired = os.open(order["fired"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    install_handlers()
    def again(*_):
        signal.raise_signal(signal.SIGINT)
    def first(*_):
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            return
        os.write(fired, b"x")
        if order["again_after_s"] is not None:
            signal.setitimer(signal.ITIMER_REAL, order["again_after_s"])
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGALRM, again)
    signal.signal(signal.SIGPROF, first)
    signal.setitimer(signal.ITIMER_PROF, order["after_cpu_s"])
    sys.argv = ["jurybox", *order["arguments"]]
    try:
        runner.cli.main()
    except SystemExit as left:
        sys.stdout.flush()
        os._exit(left.code or 0)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
        os._exit(99)
    _, status, used = os.wait4(child, 0)
    sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]) + "\\n")
    sys.stdout.flush()
"""


class Runs:
    """Carries out runs one after the other, each interrupted after so much time of the processor."""

    def __init__(self, process: subprocess.Popen[str], work: Workspace) -> None:
        self._process = process
        self._work = work
        self.stderr = ""
        self.report: dict[str, Any] | None = None
        """What stood on stdout, if anything did."""

    def run(self, out: Path, after_cpu_s: float = 0.0, again_after_s: float | None = None) -> tuple[int, float]:
        """Exit status, and how much time of the processor it took. 0 s: undisturbed."""
        told, fired = self._work.folder / "stderr", self._work.folder / "fired"
        arguments = ["run", str(self._work.config), "--out", str(out), "--local", "--yes", "--json"]
        order = {
            "arguments": arguments, "after_cpu_s": after_cpu_s, "again_after_s": again_after_s,
            "stdout": str(self._work.folder / "stdout"), "stderr": str(told), "fired": str(fired),
        }  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        status, used = json.loads(self._process.stdout.readline())
        self.stderr = told.read_text()
        stdout = (self._work.folder / "stdout").read_text()
        self.report = json.loads(stdout) if stdout else None
        assert status == (130 if fired.read_text() else 0), self.stderr
        assert "Traceback" not in self.stderr, self.stderr
        return status, used


@contextmanager
def runs(work: Workspace) -> Iterator[Runs]:
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Runs(process, work)
    finally:
        process.kill()
        process.communicate()


def rows(out: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Key → state, verdict, scores of every judgment in a run's ledger."""
    with closing(sqlite3.connect(f"file:{out}/run.db?mode=ro", uri=True)) as ledger:
        assert ledger.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        found = ledger.execute("SELECT key, state, verdict, scores FROM judgments").fetchall()
    assert len({row[0] for row in found}) == len(found)
    return {row[:1]: row[1:] for row in found}


@pytest.mark.parametrize(("twice", "signals"), [(False, 20), (True, 10)], ids=["once", "twice within 0.2 s"])
def test_sigint_at_random_points(tmp_path: Path, twice: bool, signals: int) -> None:
    chance = random.Random(11 + twice)
    work = Workspace(tmp_path)
    work.write_items(ROWS)
    with running(Simulation(latency_ms=10, malformed=0.05, server_errors=0.03, log=tmp_path / "log")) as url:
        work.write_config(model(url, limits={"in_flight": IN_FLIGHT}))
        with runs(work) as started:
            _, whole_s = started.run(tmp_path / "calm")
            calm = rows(tmp_path / "calm")
            assert len(calm) == len(ROWS)

            hits = told = 0
            number = 0
            out = tmp_path / "run-0"
            before: dict[tuple[Any, ...], tuple[Any, ...]] = {}
            for _ in range(8 * signals):
                again_after_s = chance.uniform(1e-4, 0.2) if twice else None
                status, _ = started.run(out, chance.uniform(1e-3, whole_s), again_after_s)
                hits += status == 130
                judged = rows(out) if (out / "run.db").exists() and (out / "manifest.json").exists() else {}
                assert judged.items() >= before.items(), "what was acknowledged is there"
                if started.report is not None and status == 130:
                    told += 1
                    assert started.report["done"] == len(judged)
                before = judged
                if hits == signals:
                    break
                if status == 0:
                    assert judged == calm
                    number += 1
                    out, before = tmp_path / f"run-{number}", {}
            assert hits == signals
            assert told or twice, "the report so far, also of what was interrupted"
            started.run(out)
            assert rows(out) == calm
