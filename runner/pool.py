"""Where workers and the aggregator live: the protocol that the driver knows, and its form inside this process.

The in-process form runs the same `Worker` and `Aggregator` as the cluster does, without Ray: for `--local`, for small
runs, and as the twin that the driver's tests use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from judges import Judge

from .aggregator import Aggregator
from .config import RunConfig
from .errors import ConfigError
from .protocol import Ack, Batch, History, News, Snapshot, Task, TaskReport, Tick
from .segments import Segment
from .worker import Worker

T = TypeVar("T")


class WorkerHandle(Protocol):
    """A worker, wherever it runs. Every call raises WorkerDied once its process is gone."""

    @property
    def name(self) -> str:
        """Unique in the pool, also over replacements."""

    async def run(self, task: Task) -> TaskReport:
        """Judge a task; several may be under way."""

    async def tick(self, tick: Tick) -> News:
        """Renew leases and hear the news."""

    async def keys(self, task: Task) -> list[bytes]:
        """The keys of a task's trials, in order: made there, since a judge's code may take a part in it."""

    async def close(self) -> None:
        """End it, whatever it is doing."""


class AggregatorHandle(Protocol):
    """The aggregator, wherever it runs."""

    async def record(self, batch: Batch) -> Ack:
        """Commit a batch, however often it has to be sent."""

    async def snapshot(self) -> Snapshot:
        """Live counts."""

    async def waiting(
        self, model: str, kinds: tuple[str, ...], limit: int, skip: frozenset[tuple[int, int]]
    ) -> list[tuple[int, int, History]]:
        """Trials that wait to be judged again, in order, without those in `skip`."""

    async def done_positions(self, shard: int) -> set[int]:
        """Positions of a shard that have a judgment."""

    async def pending_positions(self, shard: int) -> set[int]:
        """Positions of a shard that wait to be judged again."""

    async def spent_by(self, sender: str) -> float:
        """What a sender of batches may have spent at most, in USD."""

    async def mark_segment(self, rows: int) -> Segment | None:
        """The next segment to be published, or the one that was begun; None: there is nothing to publish."""

    async def segment_done(self, number: int) -> None:
        """A segment is published."""

    async def standing(self, trials: Sequence[tuple[int, int]]) -> dict[tuple[int, int], History]:
        """(shard, position) → history of those trials that are still to be judged."""

    async def keep(self, key: str, value: str) -> None:
        """Keep a value with the run."""


class Pool(Protocol):
    """A place for workers. `size` of them are wanted."""

    @property
    def size(self) -> int:
        """How many workers the pool is meant to hold."""

    @property
    def aggregator(self) -> AggregatorHandle:
        """The run's aggregator."""

    async def add_worker(self) -> WorkerHandle:
        """Start one worker, once there is room. ConfigError where its machine lacks a key; WorkerDied."""

    async def grown(self) -> int:
        """How many more places there are since this was last asked: machines that joined. `size` counts them too."""

    async def close(self) -> None:
        """End all workers, then the aggregator. What was acknowledged is in the ledger."""


class _LocalAggregator:
    """Runs the aggregator's calls one after another on a thread of its own, so that no commit blocks the loop."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aggregator")
        self._aggregator = self._thread.submit(Aggregator, path).result()

    async def _call(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    async def record(self, batch: Batch) -> Ack:
        return await self._call(self._aggregator.record, batch)

    async def snapshot(self) -> Snapshot:
        return await self._call(self._aggregator.snapshot)

    async def waiting(
        self, model: str, kinds: tuple[str, ...], limit: int, skip: frozenset[tuple[int, int]]
    ) -> list[tuple[int, int, History]]:
        return await self._call(self._aggregator.waiting, model, kinds, limit, skip)

    async def done_positions(self, shard: int) -> set[int]:
        return await self._call(self._aggregator.done_positions, shard)

    async def pending_positions(self, shard: int) -> set[int]:
        return await self._call(self._aggregator.pending_positions, shard)

    async def spent_by(self, sender: str) -> float:
        return await self._call(self._aggregator.spent_by, sender)

    async def mark_segment(self, rows: int) -> Segment | None:
        return await self._call(self._aggregator.mark_segment, rows)

    async def segment_done(self, number: int) -> None:
        await self._call(self._aggregator.segment_done, number)

    async def standing(self, trials: Sequence[tuple[int, int]]) -> dict[tuple[int, int], History]:
        return await self._call(self._aggregator.standing, trials)

    async def keep(self, key: str, value: str) -> None:
        await self._call(self._aggregator.keep, key, value)

    async def close(self) -> None:
        await self._call(self._aggregator.close)
        self._thread.shutdown()


class LocalPool:
    """One worker and the aggregator in this process.

    Nothing stands between the two: what kills the worker, as code of a judge may, takes this process with it.
    """

    size = 1

    def __init__(self, config: RunConfig, judges: Sequence[Judge], ledger: Path) -> None:
        self._config = config
        self._judges = judges
        self._ledger = _LocalAggregator(ledger)
        self._workers: list[Worker] = []

    @property
    def aggregator(self) -> AggregatorHandle:
        """The aggregator, on a thread of its own."""
        return self._ledger

    async def add_worker(self) -> WorkerHandle:
        """The worker on the running loop."""
        worker = Worker(f"local-{len(self._workers)}", self._config, self._judges, self._ledger.record)
        if problems := worker.check():
            raise ConfigError(problems[0])
        self._workers.append(worker)
        return worker

    async def grown(self) -> int:
        """One process stays one."""
        return 0

    async def close(self) -> None:
        """Close connections and the ledger."""
        for worker in self._workers:
            await worker.close()
        await self._ledger.close()
