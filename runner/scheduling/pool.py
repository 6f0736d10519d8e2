"""Where workers and the aggregator live: the protocol that the driver knows, and its form inside this process.

The in-process form runs the same `Worker` and `Aggregator` as the cluster does, without Ray: for `--local`, for small
runs, and as the twin that the driver's tests use.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from judges import Judge
from runner.config import RunConfig
from runner.errors import ConfigError
from runner.ledger.aggregator import AggregatorHandle, LocalAggregator
from runner.messages import LeaseRenewal, Task, TaskReport, WorkerStatus
from runner.worker.worker import Worker


class WorkerHandle(Protocol):
    """A worker, wherever it runs. Every call raises WorkerDied once its process is gone."""

    name: str
    """Unique in the pool, also over replacements."""

    async def run(self, task: Task) -> TaskReport:
        """Judge a task; several may be under way."""

    async def renew(self, renewal: LeaseRenewal) -> WorkerStatus:
        """Renew its leases; what it saw since the last time."""

    async def keys(self, task: Task) -> list[bytes]:
        """The keys of a task's trials, in order: made there, since a judge's code may take a part in it."""

    async def close(self) -> None:
        """End it, whatever it is doing."""


class Pool(Protocol):
    """A place for workers. `size` of them are wanted."""

    size: int
    aggregator: AggregatorHandle

    async def add_worker(self) -> WorkerHandle:
        """Start one worker, once there is room. ConfigError where its machine lacks a key; WorkerDied."""

    async def count_new_places(self) -> int:
        """How many more places there are since this was last asked: machines that joined. `size` counts them too."""

    async def close(self) -> None:
        """End all workers, then the aggregator. What was acknowledged is in the ledger."""


class LocalPool:
    """One worker and the aggregator in this process.

    Nothing stands between the two: what kills the worker, as code of a judge may, takes this process with it.
    """

    size = 1

    def __init__(self, config: RunConfig, judges: Sequence[Judge], ledger: Path) -> None:
        self._config = config
        self._judges = judges
        self.aggregator: AggregatorHandle = LocalAggregator(ledger, config.budget)
        """On a thread of its own."""
        self._workers: list[Worker] = []

    async def add_worker(self) -> WorkerHandle:
        """The worker on the running loop."""
        worker = Worker(f"local-{len(self._workers)}", self._config, self._judges, self.aggregator.record)
        self._workers.append(worker)
        if problems := worker.check():
            raise ConfigError(problems[0])
        return worker

    async def count_new_places(self) -> int:
        """One process stays one."""
        return 0

    async def close(self) -> None:
        """Close connections and the ledger."""
        for worker in self._workers:
            await worker.close()
        await self.aggregator.close()
