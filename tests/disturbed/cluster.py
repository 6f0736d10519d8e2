"""A Ray cluster of two nodes on this machine, in a process of its own, whose second node can be lost.

`python cluster.py` is that process: it tells its address on stdout, takes `lose` and `add` from stdin, and ends with
that. The other side is `Cluster`, which knows no Ray. Whoever judges there is a stranger to it, as on any cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

STARTS = 4
T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]


class Cluster:
    """The running cluster; its processes are all children of `pid`."""

    def __init__(self, environment: dict[str, str], words: Path) -> None:
        """`words` takes what Ray has to say."""
        self._words = words
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        with words.open("w") as file:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                text=True, env={**os.environ, **environment, "PYTHONPATH": path},
            )  # fmt: skip
        self.pid = self._process.pid
        self.address = self._answer()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def lose_node(self) -> None:
        """The second node is gone, with every process on it, as if its machine had lost its power."""
        self._ask("lose")

    def add_node(self) -> None:
        """A fresh second node takes the place of the lost one."""
        self._ask("add")

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def close(self) -> None:
        """End all of it."""
        assert self._process.stdin is not None
        if self.alive:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _ask(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Ray has words of its own for stdout.
            if line.startswith('{"cluster"'):
                return str(json.loads(line)["cluster"])
        raise RuntimeError(f"the cluster's process ended: {self._words.read_text(errors='replace')[-2000:]}")


def _serve() -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    import ray.cluster_utils

    def tell(word: str) -> None:
        sys.stdout.write(json.dumps({"cluster": word}) + "\n")
        sys.stdout.flush()

    size: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    head = {**size, "include_dashboard": False}
    cluster = _patiently(lambda: ray.cluster_utils.Cluster(initialize_head=True, head_node_args=head))
    node = _patiently(lambda: cluster.add_node(**size))
    tell(cluster.address)
    for line in sys.stdin:
        if line.strip() == "lose":
            cluster.remove_node(node, allow_graceful=False)
        else:
            node = _patiently(lambda: cluster.add_node(**size))
        tell(line.strip())
    cluster.shutdown()  # type: ignore[no-untyped-call]


def _patiently(start: Callable[[], T]) -> T:
    """Once more where Ray's own patience of half a minute was too short for a busy machine."""
    for _ in range(STARTS - 1):
        with suppress(Exception):
            return start()
    return start()


if __name__ == "__main__":
    _serve()
