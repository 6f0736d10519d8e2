"""The one writer dies around its commit, in a run on Ray: before it, after it, and nothing is lost or double. And it is
away when the run is to stop.

Also what a signal does while Ray starts: one start of Ray takes seconds, so both stand in one test.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from runs import Workspace, ended_with_test, finish, items, log_of, model, stats, trial_of, until

from runner.simulate import Simulation, running

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(300)]

ROWS = items(range(150))


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    work = Workspace(tmp_path)
    # Ray's sockets must have short paths.
    sessions = Path(tempfile.mkdtemp(prefix="jb"))
    armed = tmp_path / "armed"
    armed.mkdir()
    work.environment |= {"RAY_TMPDIR": str(sessions), "JURYBOX_FAILPOINTS": str(armed)}
    yield work
    shutil.rmtree(sessions, ignore_errors=True)


def _ray_is_starting(process: psutil.Process) -> bool:
    return any("gcs_server" in "".join(child.cmdline()[:1]) for child in process.children())


def test_the_aggregator_dies_at_each_failpoint(work: Workspace) -> None:
    work.write_items(ROWS)
    command = ("run", str(work.config), "--yes", "--json", "--quiet")
    armed = Path(work.environment["JURYBOX_FAILPOINTS"])
    with running(Simulation(latency_ms=150, malformed=0.05)) as url:
        work.write_config(model(url, limits={"in_flight": 16}), workers=1)

        # Nothing is in flight while Ray starts, so there is nothing to wait for.
        with ended_with_test(work.start(*command, ray=True)) as process:
            started = psutil.Process(process.pid)
            until(lambda: _ray_is_starting(started), process)
            children = started.children(recursive=True)
            process.send_signal(signal.SIGINT)
            stopped = finish(process)
        assert stopped.status == 130, stopped.stderr
        assert stats(url)["requests"] == 0
        assert psutil.wait_procs(children, timeout=60)[1] == [], "Ray's processes have ended with it"

        with ended_with_test(work.start(*command, ray=True)) as process:
            for name in ("before-commit", "after-commit"):
                # The text is how often to pass: it dies among other batches.
                (armed / name).write_text("1")
                until(lambda file=armed / name: not file.exists(), process)  # type: ignore[misc]
            done = finish(process)
        assert done.status == 0, done.stderr
        requests = stats(url)["requests"]
    work.assert_each_trial_judged_once(len(ROWS))
    # What a worker keeps until it is acknowledged is neither asked again nor recorded twice.
    assert work.query("SELECT count(*), count(DISTINCT request_id || stage || try) FROM attempts") == [(requests,) * 2]
    assert work.query("SELECT sum(late_duplicate) FROM attempts") == [(0,)]
    assert sum(row[0] for row in work.query("SELECT requests FROM spend")) == requests

    calm = Workspace(work.folder / "calm")
    calm.write_items(ROWS)
    with running(Simulation(malformed=0.05)) as url:
        calm.write_config(model(url))
        assert calm.run().status == 0
        assert stats(url)["requests"] == requests
    assert work.verdicts() == calm.verdicts()


@pytest.mark.long
def test_a_stop_does_not_wait_for_an_aggregator_that_is_away(work: Workspace) -> None:
    work.write_items(ROWS)
    work.sets("runner.scheduling.run_control.SHORT_GRACE_S", 2.0)
    with running(Simulation(latency_ms=150, log=work.folder / "log")) as url:
        work.write_config(model(url, limits={"in_flight": 8}), workers=1)
        with ended_with_test(work.start("run", str(work.config), "--yes", "--json", "--quiet", ray=True)) as process:
            until(lambda: stats(url)["requests"] >= 40, process)
            [aggregator] = [
                child
                for child in psutil.Process(process.pid).children(recursive=True)
                if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::Aggregator")
            ]
            # Neither dead nor alive: Ray waits for it without end.
            aggregator.suspend()
            process.send_signal(signal.SIGTERM)
            stopped = finish(process)
        assert stopped.status == 130, stopped.stderr
        assert "interrupted by SIGTERM; what was not recorded within 2 s is asked again" in stopped.stderr
        recorded = {item for (item,) in work.results().filter(state="scored").select("item_id").iter_rows()}
        assert 0 < len(recorded) == stopped.report["done"]
        asked = stats(url)["requests"]

        done = work.run()
        assert done.status == 0, done.stderr
        assert stats(url)["requests"] == asked + len(ROWS) - len(recorded)
    work.assert_each_trial_judged_once(len(ROWS))
    again = {trial_of(entry["body"]) for entry in log_of(work.folder / "log") if entry["n"] > asked}
    assert recorded.isdisjoint(again)
