"""Keys that an endpoint repeats in every kind of failure, at debug level, through deaths and interruptions: they are in
no file and on no terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

import psutil
import pytest
from hostile_server import FOR_GOOD, LATE_S, WAYS, Hostile, hostile
from runs import ROOT, Finished, Workspace, ended_with_test, items, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

KEY, SEARCH, SIGNATURE = "sk-canary-4hT8uXw1LqPz", "canary-9fJd2sRk0YbM", "canary-c7Vn5eGa3QoU"
STARTS = 4
# What may make libraries talk.
LOUD = {"JURYBOX_LOG": "debug", "OPENAI_LOG": "debug", "PYTHONASYNCIODEBUG": "", "RAY_LOG_LEVEL": "debug"}


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    work = Workspace(tmp_path)
    sessions = Path(tempfile.mkdtemp(prefix="jb"))  # Ray's sockets must have short paths
    work.environment |= LOUD | {
        "RAY_TMPDIR": str(sessions), "CANARY_KEY": f" {KEY}\n", "CANARY_SEARCH": SEARCH, "CANARY_SIGNATURE": SIGNATURE,
    }  # fmt: skip
    yield work
    rmtree(sessions, ignore_errors=True)


def test_no_failure_tells_a_key(work: Workspace) -> None:
    rows = items(range(4 * len(WAYS)), ["atlas"])
    work.write_items(rows)
    folder = Path(work.environment["RAY_TMPDIR"])
    command = ("run", str(work.config), "--yes", "--json", "--verbose")
    with hostile() as server:
        extra = {
            "headers": {"X-Search-Token": "${CANARY_SEARCH}"},
            "query": {"sig": "${CANARY_SIGNATURE}"},
            "body": {"data_sources": [{"key": "${CANARY_SEARCH}"}]},
        }
        names = ("sound", *FOR_GOOD)
        models = [
            {
                "name": name, "model": f"m-{name}", "base_url": server.url, "api_key_env": "CANARY_KEY", "extra": extra,
                "limits": {"in_flight": 8}, "timeout_s": LATE_S - 1,
            }
            for name in names
        ]  # fmt: skip
        work.write_config(*models, workers=2, max_unscored=1.0, publish="published", retry={"refused": 2})

        def disturbed(process: subprocess.Popen[str]) -> None:
            until(lambda: server.seen.total() >= 20, process)
            _actors(process.pid)[0].kill()
            until(lambda: server.seen.total() >= 45, process)
            process.send_signal(signal.SIGINT)

        done = [session(work, server, command, disturbed), session(work, server, command)]

    assert [finished.status for finished in done] == [130, 5], done[-1].stderr
    assert server.secrets_sent == {KEY.removeprefix("sk-"), SEARCH, SIGNATURE}, "what is not sent cannot leak"
    assert set(server.seen) == {"answered", *WAYS, *FOR_GOOD}
    [(judged,)] = work.query(
        "SELECT count(*) FROM judgments JOIN shards ON id = shard WHERE model = 'sound' AND state = 'scored'"
    )
    # All but those whose request was called a bad one; where a worker died before it told so, they were asked again.
    assert len(rows) - 4 <= judged <= len(rows)
    assert "you sent" in done[-1].stderr, "the provider's words are told"

    told = "".join(finished.stdout + finished.stderr for finished in done)
    assert "canary-" not in told
    places = {place: [path for path in place.rglob("*") if path.is_file()] for place in (work.folder, folder)}
    assert all(places.values())
    assert any(path.name.startswith("worker-") for path in places[folder]), (
        "Ray's logs are not where they are looked for"
    )
    assert any("published" in path.parts for path in places[work.folder])
    assert [path for paths in places.values() for path in paths if b"canary-" in path.read_bytes()] == []


def session(
    work: Workspace,
    server: Hostile,
    command: tuple[str, ...],
    disturb: Callable[[subprocess.Popen[str]], None] = lambda process: None,
) -> Finished:
    """The command from start to end; again where a busy machine was too slow for Ray. Its words go to files: at debug
    level they are more than a pipe holds."""
    environment = {**os.environ, **work.environment, "PYTHONPATH": str(ROOT)}
    for _ in range(STARTS):
        before = server.seen.total()
        with (work.folder / "stdout").open("w") as out, (work.folder / "stderr").open("w") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "runner", *command], cwd=work.folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True,
            )  # fmt: skip
            with ended_with_test(process):
                while process.poll() is None and server.seen.total() == before:
                    time.sleep(0.05)
                if process.poll() is None:
                    disturb(process)
                status = process.wait(timeout=300)
        finished = Finished(status, (work.folder / "stdout").read_text(), (work.folder / "stderr").read_text())
        if "timed out during startup" not in finished.stderr:
            break
    return finished


def _actors(parent: int) -> list[psutil.Process]:
    found = []
    for process in psutil.Process(parent).children(recursive=True):
        # One may end while it is looked at.
        with suppress(psutil.NoSuchProcess):
            if any("_WorkerActor" in word for word in process.cmdline()[:1]):
                found.append(process)
    return found
