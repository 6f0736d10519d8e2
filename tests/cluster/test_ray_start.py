"""A cluster as people make it: `ray start` on each machine, a token, the key on each node, `jurybox run --address`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import DEADLINE_S, ROOT, Workspace, finish, items, model, stats

from runner.simulate import Simulation, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

RAY = Path(sys.executable).with_name("ray")
KEY_VARIABLE = "JURYBOX_TESTS_JUDGE"
CANARY = "sk-canary-3Hn8sD5kZw7Fj2"
TOKEN = "5f2b8c1d9e4a47068d3c6b7a9f0e1d2c"
# On one machine two nodes must not want the same ports.
PORTS = ("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0")


@pytest.fixture
def folder() -> Iterator[Path]:
    # Ray's sockets must have short paths.
    path = Path(tempfile.mkdtemp(prefix="jb"))
    (path / "home" / ".ray").mkdir(parents=True)
    (path / "home" / ".ray" / "auth_token").write_text(TOKEN)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def started(*arguments: str, environment: Mapping[str, str], says: Path) -> Iterator[str]:
    """A node by `ray start`, for as long as the block lasts; yields what it says."""
    command = [str(RAY), "start", "--block", "--disable-usage-stats", *PORTS, *arguments]
    with (
        says.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            # What it starts is of its group, by which all of it is ended.
            start_new_session=True,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + DEADLINE_S
            # The last that it says once it is there.
            while "ray stop" not in (said := says.read_text(encoding="utf-8")):
                assert process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.05)
            yield said
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.long
def test_a_cluster_made_by_ray_start(folder: Path, tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(10)))
    user = {"HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    node = user | {"RAY_AUTH_MODE": "token"}
    keyed = node | {KEY_VARIABLE: CANARY}
    head = ("--head", "--port=0", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}/ray")
    with (
        running(Simulation(api_key=CANARY)) as url,
        started(*head, environment=node, says=folder / "head") as said,
    ):
        found = re.search(r"ray start --address='([^']+)'", said)
        assert found is not None, said
        address = found[1]
        work.write_config(model(url, api_key_env=KEY_VARIABLE))
        command = ("run", str(work.config), "--yes", "--json", "--address", address)

        work.environment = dict(user)
        stranger = finish(work.start(*command, ray=True))
        assert stranger.status == 2, stranger.stderr
        assert "the cluster asks for a token; set RAY_AUTH_MODE=token" in stranger.stderr

        work.environment = dict(node)
        with started("--address", address, "--num-cpus=1", environment=node, says=folder / "keyless"):
            refused = finish(work.start(*command, ray=True))
        assert refused.status == 2, refused.stderr
        assert "1 of the cluster's 2 nodes cannot judge; no request was made" in refused.stderr
        assert f"the environment variable {KEY_VARIABLE} is not set" in refused.stderr
        assert stats(url)["requests"] == 0

        with started("--address", address, "--num-cpus=1", environment=keyed, says=folder / "keyed"):
            done = finish(work.start(*command, ray=True))
        assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(20)
    logs = [path for path in (folder / "ray").rglob("*") if path.is_file() and not path.is_symlink()]
    assert logs
    assert [path for path in [*logs, *work.out.rglob("*.*")] if CANARY.encode() in path.read_bytes()] == []
    assert CANARY not in done.stdout + done.stderr
