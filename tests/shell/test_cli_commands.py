"""The command itself: what it is called, how it shows itself, and how it names runs and what to do next."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from runs import ROOT, Workspace, ended_with_test, items, model, until

from runner.simulate import Simulation, running

IN_ORDER = ["init", "plan", "try", "run", "status", "report", "export", "retry", "rescore", "judges", "schema"]


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(items(range(4)))
    return work


def as_module(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    command = [sys.executable, "-m", "jurybox", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_module_is_the_command(tmp_path: Path) -> None:
    done = as_module(tmp_path, "status", "nowhere")
    assert (done.returncode, done.stderr) == (2, "jurybox: nowhere: there is no such directory\n")
    done = as_module(tmp_path, "read", "--jsonl", "-h")
    assert (done.returncode, "Example:" in done.stdout) == (0, True)


def test_the_help_shows_the_commands_in_the_order_of_work_and_how_they_end(work: Workspace) -> None:
    shown = work.command("-h").stdout
    assert shown == work.command("--help").stdout
    places = [shown.index(f"│ {name} ") for name in IN_ORDER]
    assert places == sorted(places)
    for status in (0, 2, 3, 4, 5, 130):
        assert f"\n {status:>3}  " in shown
    assert "jurybox run answers.yaml" in shown
    assert work.command("--version").stdout.startswith("jurybox ")
    assert "--install-completion" in shown


def test_a_shell_completes_commands(work: Workspace) -> None:
    work.environment = {"_JURYBOX_COMPLETE": "complete_bash", "COMP_WORDS": "jurybox re", "COMP_CWORD": "1"}
    assert {"report", "retry", "rescore", "read"} <= set(work.command().stdout.split())


def test_a_run_can_be_named_by_its_config(work: Workspace) -> None:
    with running() as url:
        work.write_config(model(url))
        early = work.command("status", str(work.config))
        assert early.status == 2
        assert f"its run would be in {work.out}, and is not begun; `jurybox run" in early.stderr
        assert work.run().status == 0
    for command in (("status",), ("report", "--json"), ("export", "--format", "jsonl"), ("rescore", "--json")):
        name, *options = command
        by_config = work.command(name, str(work.config), *options)
        assert by_config.status == 0, by_config.stderr
        assert by_config.stdout == work.command(name, str(work.out), *options).stdout
    for name, said in (("items.jsonl", "is a file; name a run's directory"), ("other", f"the runs in {work.folder}")):
        done = work.command("report", str(work.folder / name))
        assert (done.status, done.stdout) == (2, "")
        assert said in done.stderr


def test_what_is_suggested_can_be_typed_where_a_name_has_blanks(work: Workspace) -> None:
    answers = work.folder / "my answers.jsonl"
    work.items.rename(answers)
    done = work.command("init", answers.name)
    assert done.status == 0, done.stderr
    suggested = shlex.split(done.stderr.partition("next: ")[2])
    assert suggested == ["jurybox", "plan", "my answers.yaml"]
    assert work.command(*suggested[1:]).status == 0


def test_where_nothing_was_judged_the_end_is_short(work: Workspace) -> None:
    work.write_config(model("http://127.0.0.1:1/v1"))
    ended = work.command("run", str(work.config), "--local", "--quiet", "--yes")
    assert (ended.status, ended.stdout) == (4, "")
    assert "was never reached" in ended.stderr.splitlines()[-1]


def replies(work: Workspace) -> int:
    """Requests that the ledger holds, once there is one."""
    with suppress(sqlite3.OperationalError):
        return int(work.query("SELECT count(*) FROM attempts")[0][0])
    return 0


def test_status_tells_who_works_how_fast_and_how_long_yet(work: Workspace) -> None:
    work.write_items(items(range(200)))
    with running(Simulation(latency_ms=400)) as url:
        work.write_config(model(url, limits={"in_flight": 8}))
        with ended_with_test(work.start("run", str(work.config), "--local", "--yes", "--quiet")) as process:
            until(lambda: replies(work) > 9, process)
            shown = work.command("status", str(work.out))
            as_json = json.loads(work.command("status", str(work.out), "--json").stdout)
    assert re.search(
        rf"  process {process.pid} is at work, [0-9.]+ trials/s of late, about \w+( \w+)? left", shown.stdout
    )
    assert (as_json["pid"], as_json["rate_per_s"] > 0, as_json["left_s"] > 0) == (process.pid, True, True)
    stopped = work.command("status", str(work.out)).stdout
    assert "no process of this machine is at work on it" in stopped
