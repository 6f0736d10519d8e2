"""The command as a user runs it: a config in a folder of its own, a real process, and what the two leave behind.

Hides how the process is started, where its files are, and how the ledger, the published rows and the endpoint's log are
read. Nothing here imports what is tested, except the simulated endpoint's address.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from polars.testing import assert_frame_equal

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 180.0

_TRIAL = re.compile(r"Answer ([0-9]+) of ([a-z]+)")


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict[str, Any]:
        """What `run --json` and `report --json` print."""
        document: dict[str, Any] = json.loads(self.stdout)
        return document


class Workspace:
    """A folder with items, a config and a run directory, and the command that works there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config.yaml"
        self.items = folder / "items.jsonl"
        self.out = folder / "run"
        self.environment: dict[str, str] = {}
        self.path: list[Path] = []
        """Where Python looks for modules first."""
        self._without_ray = folder / "without-ray"
        shadow = self._without_ray / "ray" / "__init__.py"
        shadow.parent.mkdir(parents=True)
        shadow.write_text("raise AssertionError('ray was imported')\n")

    def write_items(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.items.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")

    def write_config(self, *models: Mapping[str, Any], **keys: Any) -> None:
        config = {
            "name": "tested",
            "items": {"path": self.items.name},
            "judges": ["yes-no"],
            "models": list(models),
            "out": str(self.out),
        }
        self.config.write_text(yaml.safe_dump(config | keys, sort_keys=False), encoding="utf-8")

    def start(self, *arguments: str, ray: bool = False) -> subprocess.Popen[str]:
        """Start the command. Without `ray`, importing it is an error there."""
        path = [*map(str, self.path), *([] if ray else [str(self._without_ray)]), str(ROOT)]
        return subprocess.Popen(
            [sys.executable, "-m", "runner", *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment, "PYTHONPATH": os.pathsep.join(path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def publish_often(self) -> None:
        """Let the command publish many times a second."""
        self.sets("runner.publishing.publisher.PERIOD_S", 0.05)

    def sets(self, constant: str, value: float) -> None:
        """Let the command have another constant of a module: Python imports this by itself."""
        site = self.folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(f"import {constant.rpartition('.')[0]}\n{constant} = {value}\n")
        self.path.append(site)

    def command(self, *arguments: str, ray: bool = False) -> Finished:
        """Carry out a command to its end."""
        return finish(self.start(*arguments, ray=ray))

    def run(self, *arguments: str) -> Finished:
        """`jurybox run` of the config, in one process, with the report as JSON on stdout."""
        return self.command("run", str(self.config), "--local", "--yes", "--json", "--quiet", *arguments)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the ledger."""
        with closing(sqlite3.connect(f"file:{self.out}/run.db?mode=ro", uri=True)) as ledger:
            return ledger.execute(sql).fetchall()

    def assert_each_trial_judged_once(self, trials: int) -> None:
        """The ledger holds exactly one judgment for each of so many trials, and nothing waits."""
        assert self.query("SELECT sum(trials), sum(done) FROM shards") == [(trials, trials)]
        assert self.query("SELECT count(*), count(DISTINCT key) FROM judgments") == [(trials, trials)]
        assert self.query("SELECT count(*) FROM pending") == [(0,)]

    def results(self) -> pl.DataFrame:
        """The published rows, one for each planned trial."""
        return pl.read_parquet(self.out / "results" / "*.parquet")

    def mirrored(self, what: str = "results") -> pl.DataFrame:
        """What stands in a mirror that is a directory: of results, the last edition that is complete."""
        folder = self.folder / "mirror" / "tested" / what
        if what == "results":
            folder = max(path.parent for path in folder.glob("*/_complete"))
        return pl.concat(pl.read_parquet(path) for path in sorted(folder.glob("*.parquet")))

    def assert_mirrored(self) -> None:
        """The mirror holds what the run directory holds, and no row twice."""
        assert_frame_equal(self.mirrored().sort("key"), self.results().sort("key"))
        attempts = pl.read_parquet(self.out / "attempts" / "*.parquet")
        assert_frame_equal(self.mirrored("attempts").sort("attempt_id"), attempts.sort("attempt_id"))
        assert not list(self.folder.glob("mirror/**/.*"))

    def verdicts(self) -> dict[tuple[str, ...], str | None]:
        """(system, item, judge, model) → verdict as JSON, None where there is none."""
        frame = self.results().select("system", "item_id", "judge", "model", "verdict")
        found: dict[tuple[str, ...], str | None] = {tuple(row[:4]): row[4] for row in frame.iter_rows()}
        assert len(found) == frame.height, "a trial is published twice"
        return found


def finish(process: subprocess.Popen[str]) -> Finished:
    """Wait for a command's end."""
    try:
        stdout, stderr = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        raise AssertionError(f"the command did not end\n{stdout}\n{stderr}") from None
    assert "Traceback" not in stderr, stderr
    return Finished(process.returncode, stdout, stderr)


@contextmanager
def ended_with_test(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """However the test ends, so does the process, in good order."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Poll until the condition holds, while the process lives."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if process.poll() is not None:
            stdout, stderr = process.communicate()
            raise AssertionError(f"the command ended too early, status {process.returncode}\n{stdout}\n{stderr}")
        assert time.monotonic() < deadline, "what is waited for did not come"
        time.sleep(0.02)


def items(numbers: Iterable[int], systems: Iterable[str] = ("atlas", "brook")) -> list[dict[str, Any]]:
    """Answers of each system to questions of these numbers; each answer's text is its own."""
    return [
        {
            "id": f"q{number}-{system}",
            "question_id": f"q{number}",
            "question": f"What is the name of harbour {number}?",
            "reference": f"Port {number}",
            "response": f"Answer {number} of {system}: {{it}} is Port {number + len(system) % 2}.",
            "system": system,
            "group": ("north", "south", "west")[number % 3],
        }
        for number in numbers
        for system in systems
    ]


def trial_of(body: str) -> str:
    """The id of the item that a request body of `items` asks about."""
    found = _TRIAL.search(body)
    assert found is not None, body
    return f"q{found[1]}-{found[2]}"


def stats(url: str) -> dict[str, Any]:
    """The endpoint's counts; also flushes its log."""
    with urllib.request.urlopen(f"{url}/stats", timeout=30) as reply:
        counts: dict[str, Any] = json.load(reply)
    return counts


def log_of(path: Path) -> list[dict[str, Any]]:
    """The endpoint's log: one entry for each request that has ended."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judging(log: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a log that ask for a verdict: without the greetings that show what an endpoint enforces."""
    return [entry for entry in log if not json.loads(entry["body"])["messages"][-1]["content"].startswith("Say hello")]


def model(url: str, name: str = "judge", **keys: Any) -> dict[str, Any]:
    """A model of a config."""
    return {"name": name, "model": f"simulated-{name}", "base_url": url, "limits": {"in_flight": 32}} | keys
