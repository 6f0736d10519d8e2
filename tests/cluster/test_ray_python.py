"""jurybox from Python on Ray: a judge that is a class of the script, and an interrupt."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import ROOT, ended_with_test, items, stats, until

import jurybox
from runner.simulate import Simulation, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SCRIPT = """
import json, sys
import jurybox
from judges import Judge

class Turned(Judge):
    def scores(self, verdict, item):
        return {name: 1 - value for name, value in super().scores(verdict, item).items()}

rows, data, url = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
judge = jurybox.judge(data, Turned)
arguments = {"model": "m", "base_url": url, "local": False, "workers": 1, "limits": {"in_flight": 4}}
try:
    run = jurybox.run(rows, judge=judge, out="turned", **arguments)
    plain = jurybox.run(rows, judge=data, model="m", base_url=url, out="plain")
    assert run.scores()["correct"].to_list() == [1 - score for score in plain.scores()["correct"]]
    sys.stderr.write("as it should be")
except KeyboardInterrupt:
    sys.stderr.write("interrupted")
"""

DATA = {
    "name": "mine",
    "reads": {"kind": "yesno", "verdict": "correct"},
    "route": [{"template": "base"}],
    "templates": {"base": "Question: {question}\nAnswer: {response}\nReference: {reference}\nYes or no?"},
}


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    # Ray's sockets must have short paths.
    sessions = tempfile.mkdtemp(prefix="jb")
    yield {**os.environ, "RAY_TMPDIR": sessions, "PYTHONPATH": str(ROOT)}
    shutil.rmtree(sessions, ignore_errors=True)


@pytest.mark.long
def test_interrupted_and_run_again_with_a_judge_of_the_script(tmp_path: Path, environment: dict[str, str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    rows = items(range(40))

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(script), json.dumps(rows), json.dumps(DATA), url],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with running(Simulation(latency_ms=100)) as url:
        with ended_with_test(start()) as process:
            until(lambda: stats(url)["requests"] >= 8, process)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=100)
        assert (process.returncode, stdout, stderr) == (0, "", "interrupted")
        stopped = stats(url)["requests"]
        run = jurybox.load(tmp_path / "turned")
        assert run.report().done == stopped < len(rows)

        with ended_with_test(start()) as process:
            stdout, stderr = process.communicate(timeout=200)
        assert (process.returncode, stdout, stderr) == (0, "", "as it should be")
        assert stats(url)["requests"] == 2 * len(rows)
    assert run.report().complete
