"""Runs on a cluster of several nodes: what its nodes must have, nodes that go and come, and runs beside each other.

Starting a node takes seconds: the tests share a head, on which no worker has room, and a node, and add what they need.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from runs import ROOT, Workspace, ended_with_test, finish, items, model, stats, until

from runner.simulate import Simulation, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

KEY_VARIABLE = "JURYBOX_TESTS_JUDGE"
CANARY = "sk-canary-9Xc4vB6nTq1Lm8"


class Nodes:
    """A Ray cluster on this machine, whose head holds no worker."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster: Any = Cluster()
        _started(lambda: self._cluster.add_node(num_cpus=0, include_dashboard=False))
        self.address: str = self._cluster.address

    @contextmanager
    def node(self, cpus: int = 1, *, key: str | None = CANARY, source: Path = ROOT) -> Iterator[Any]:
        """A node whose processes have the key in their environment and import jurybox from `source`."""
        environment = {"PYTHONPATH": str(source)} | ({KEY_VARIABLE: key} if key else {})
        node = _started(lambda: self._cluster.add_node(num_cpus=cpus, env_vars=environment))
        try:
            yield node
        finally:
            if node in self._cluster.worker_nodes:
                self.lose(node)

    def lose(self, node: Any) -> None:
        """All of its processes die at once."""
        self._cluster.remove_node(node, allow_graceful=False)

    def actors(self, name: str, node: Any = None) -> list[psutil.Process]:
        """The living processes of an actor class: on a node, or on all."""
        found = []
        for each in self._cluster.list_all_nodes() if node is None else [node]:
            [raylet] = each.all_processes["raylet"]
            for process in psutil.Process(raylet.process.pid).children(recursive=True):
                try:
                    if process.cmdline()[:1] and process.cmdline()[0].startswith(f"ray::{name}"):
                        found.append(process)
                except (psutil.NoSuchProcess, psutil.ZombieProcess):
                    continue
        return found

    def shutdown(self) -> None:
        self._cluster.shutdown()


def _started(start: Callable[[], Any]) -> Any:
    """What `start` starts. Ray gives a node half a minute, which a busy machine may not have for it."""
    for tries_left in (2, 1, 0):
        try:
            return start()
        except Exception as error:
            if not tries_left or "timed out during startup" not in str(error):
                raise
    raise AssertionError


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        nodes = Nodes()
        yield nodes
        nodes.shutdown()


@pytest.fixture(scope="module")
def sound(cluster: Nodes) -> Iterator[Any]:
    """A node with room for one worker, where nothing is amiss."""
    with cluster.node() as node:
        yield node


def command(work: Workspace, cluster: Nodes) -> tuple[str, ...]:
    return ("run", str(work.config), "--yes", "--json", "--address", cluster.address)


def copied_source(folder: Path) -> Path:
    """Another jurybox of the same version."""
    for package in ("judges", "runner"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    judge = folder / "judges" / "library" / "yes-no.yaml"
    judge.write_text(judge.read_text(encoding="utf-8") + "\n# another\n", encoding="utf-8")
    return folder


def no_source(folder: Path) -> Path:
    """A place where jurybox cannot be imported, whatever is installed besides."""
    (folder / "runner").mkdir(parents=True)
    (folder / "runner" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'runner'\")\n")
    return folder


def line_of(stderr: str, node: Any) -> str:
    """What is said of the node."""
    [line] = [line for line in stderr.splitlines() if f"Ray node {node.node_id[:8]}" in line]
    return line


def test_nodes_that_lack_something_are_named_before_anything_is_asked(
    cluster: Nodes, sound: Any, tmp_path: Path
) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(4)))
    other, none = copied_source(tmp_path / "other"), no_source(tmp_path / "none")
    with (
        running(Simulation(api_key=CANARY)) as url,
        cluster.node(key=None) as keyless,
        cluster.node(source=other) as outdated,
        cluster.node(source=none) as bare,
    ):
        work.write_config(model(url, api_key_env=KEY_VARIABLE))
        refused = finish(work.start(*command(work, cluster), ray=True))
        assert refused.status == 2, refused.stderr
        assert "3 of the cluster's 5 nodes cannot judge; no request was made" in refused.stderr
        assert sound.node_id[:8] not in refused.stderr
        assert f"the environment variable {KEY_VARIABLE} is not set" in line_of(refused.stderr, keyless)
        assert f"{other} holds jurybox" in line_of(refused.stderr, outdated)
        assert "jurybox cannot be imported: ModuleNotFoundError: No module named 'runner'" in line_of(
            refused.stderr, bare
        )
        assert stats(url)["requests"] == 0
        assert CANARY not in refused.stdout + refused.stderr


@contextmanager
def held() -> Iterator[None]:
    """The endpoint does not answer meanwhile, so that no run ends before what is waited for has come."""
    [endpoint] = [child for child in psutil.Process().children() if "runner.simulate" in child.cmdline()]
    endpoint.suspend()
    try:
        yield
    finally:
        endpoint.resume()


@pytest.mark.long
def test_a_node_is_lost_and_others_join(cluster: Nodes, sound: Any, tmp_path: Path) -> None:
    work, calm = Workspace(tmp_path), Workspace(tmp_path / "calm")
    rows = items(range(100))
    in_flight = 8
    for each in (work, calm):
        each.write_items(rows)
    with (
        running(Simulation(latency_ms=100, api_key=CANARY)) as url,
        cluster.node() as leaving,
        ExitStack() as stack,
    ):
        work.write_config(model(url, api_key_env=KEY_VARIABLE, limits={"in_flight": in_flight}))
        process = stack.enter_context(ended_with_test(work.start(*command(work, cluster), ray=True)))
        until(lambda: stats(url)["requests"] >= 30, process)
        assert [len(cluster.actors("_WorkerActor", node)) for node in (sound, leaving)] == [1, 1]
        with held():
            cluster.lose(leaving)
            unfit = stack.enter_context(cluster.node(key=None))
            joined = stack.enter_context(cluster.node(cpus=2))
            # The place of the lost worker, and one more.
            until(lambda: len(cluster.actors("_WorkerActor", joined)) == 2, process)
            until(lambda: not cluster.actors("_WorkerActor", unfit), process)
        done = finish(process)
        assert done.status == 0, done.stderr
        requests = stats(url)["requests"]
    # The work that it held is none the worse for it. Others may have been placed there before Ray knew it lost.
    assert done.stderr.count(" worker_died ") == done.stderr.count(" cause=node ") >= 1
    work.assert_each_trial_judged_once(len(rows))
    assert len(rows) <= requests <= len(rows) + 2 * in_flight
    assert work.results()["worker"].n_unique() >= 3
    [told] = [line for line in done.stderr.splitlines() if "node_left_out" in line]
    assert unfit.node_id[:8] in told
    assert KEY_VARIABLE in told
    with running() as url:
        calm.write_config(model(url))
        assert calm.run().status == 0
    assert work.verdicts() == calm.verdicts()


@pytest.mark.long
def test_runs_beside_each_other_and_the_death_of_one(cluster: Nodes, sound: Any, tmp_path: Path) -> None:
    works = [Workspace(tmp_path / name) for name in ("dying", "other")]
    rows = items(range(50))
    in_flight = 4

    def count() -> list[int]:
        return [len(cluster.actors(name)) for name in ("_WorkerActor", "Aggregator")]

    with running(Simulation(latency_ms=100, api_key=CANARY)) as url, cluster.node(), ExitStack() as stack:
        processes = []
        with held():
            for number, work in enumerate(works, 1):
                work.write_items(rows)
                limited = model(url, work.folder.name, api_key_env=KEY_VARIABLE, limits={"in_flight": in_flight})
                work.write_config(limited, name=work.folder.name, workers=1)
                processes.append(stack.enter_context(ended_with_test(work.start(*command(work, cluster), ray=True))))
                until(lambda number=number: count() == [number, number], processes[-1])  # type: ignore[misc]
        dying, other = processes
        until(lambda: stats(url)["max_in_flight"].keys() == {"simulated-dying", "simulated-other"}, other)
        with held():
            dying.kill()
            dying.communicate()
            until(lambda: count() == [1, 1], other)
        finished = finish(other)
        assert finished.status == 0, finished.stderr
        done = finish(works[0].start(*command(works[0], cluster), ray=True))
        assert done.status == 0, done.stderr
        # Twice at most: what was in flight, and what was not yet handed over.
        assert stats(url)["requests"] <= 2 * len(rows) + 2 * in_flight
    for work in works:
        work.assert_each_trial_judged_once(len(rows))
