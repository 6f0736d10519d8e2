"""The pool on Ray: workers as async actors, the aggregator as one actor on the driver's node.

Ray is transport and placement here: nothing is retried by it, no result is owned by a worker, and none of its errors
leaves this file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
import ray._private.worker
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from judges import Judge

from ..aggregator import Aggregator
from ..config import RunConfig
from ..errors import ConfigError, InputError, Interrupted, JuryboxError, StoppedEarly, WorkerDied
from ..log import configure as configure_log
from ..pool import AggregatorHandle, WorkerHandle
from ..protocol import Ack, Batch, History, News, Snapshot, Task, TaskReport, Tick
from ..worker import Worker

AGGREGATOR_CPUS = 0.1
WORKER_CPUS = 0.9
OBJECT_STORE_BYTES = 256 * 2**20
"""Shards pass through it a few at a time; outcomes do not. Ray's default is 30 % of the machine's memory."""
RECONNECT_S = 0.5
AGGREGATOR_GONE_S = 120.0
"""How long the aggregator may be away (it restarts by itself) before the run stops, resumable."""


def _cause(error: RayTaskError) -> BaseException:
    """Our own error, where the actor raised one; Ray wraps it in an error of both types."""
    cause = error.cause
    return cause if isinstance(cause, JuryboxError) else error


class _WorkerActor:
    """What Ray runs: a `Worker` whose batches go to the aggregator's actor."""

    def __init__(self, name: str, config: RunConfig, judges: Sequence[Judge], aggregator: Any) -> None:
        # Each process has its own logging: without this, events would be written unhidden, and at every level.
        configure_log()

        async def send(batch: Batch) -> Ack:
            loop = asyncio.get_running_loop()
            away_since: float | None = None
            while True:
                try:
                    ack: Ack = await aggregator.record.remote(batch)
                except RayTaskError as error:
                    raise _cause(error) from None
                except RayError:
                    # An error never means "not recorded": the same batch again, told apart by its number.
                    away_since = away_since or loop.time()
                    if loop.time() - away_since > AGGREGATOR_GONE_S:
                        raise StoppedEarly("the aggregator did not come back; run the same command again") from None
                    await asyncio.sleep(RECONNECT_S)
                else:
                    return ack

        self._worker = Worker(name, config, judges, send)

    async def check(self) -> list[str]:
        return self._worker.check()

    async def run(self, task: Task) -> TaskReport:
        return await self._worker.run(task)

    async def tick(self, tick: Tick) -> News:
        return await self._worker.tick(tick)


class _RayWorker:
    """The driver's handle on a worker actor."""

    def __init__(self, name: str, actor: Any) -> None:
        self.name = name
        self._actor = actor

    async def run(self, task: Task) -> TaskReport:
        report: TaskReport = await self._call(self._actor.run.remote(task))
        return report

    async def tick(self, tick: Tick) -> News:
        news: News = await self._call(self._actor.tick.remote(tick))
        return news

    async def check(self) -> list[str]:
        problems: list[str] = await self._call(self._actor.check.remote())
        return problems

    def kill(self) -> None:
        with contextlib.suppress(RayError):
            ray.kill(self._actor)

    async def _call(self, ref: Any) -> Any:
        try:
            return await ref
        except RayTaskError as error:
            raise _cause(error) from None
        except RayError as error:
            # Unavailable is not dead to Ray, but a worker that lost its connection cannot be told from one that did.
            self.kill()
            raise WorkerDied(f"{self.name}: {str(error).splitlines()[0]}") from None


class _RayAggregator:
    """The driver's handle on the aggregator actor; it waits while the actor restarts."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def snapshot(self) -> Snapshot:
        snapshot: Snapshot = await self._call("snapshot")
        return snapshot

    async def waiting(
        self, model: str, kinds: tuple[str, ...], limit: int, skip: frozenset[tuple[int, int]]
    ) -> list[tuple[int, int, History]]:
        found: list[tuple[int, int, History]] = await self._call("waiting", model, kinds, limit, skip)
        return found

    async def done_positions(self, shard: int) -> set[int]:
        positions: set[int] = await self._call("done_positions", shard)
        return positions

    async def pending_positions(self, shard: int) -> set[int]:
        positions: set[int] = await self._call("pending_positions", shard)
        return positions

    async def spent_by(self, sender: str) -> float:
        usd: float = await self._call("spent_by", sender)
        return usd

    async def keep(self, key: str, value: str) -> None:
        await self._call("keep", key, value)

    async def close(self) -> None:
        await self._call("close")

    async def _call(self, method: str, *args: object) -> Any:
        loop = asyncio.get_running_loop()
        until = loop.time() + AGGREGATOR_GONE_S
        while True:
            try:
                return await getattr(self._actor, method).remote(*args)
            except RayTaskError as error:
                raise _cause(error) from None
            except RayError as error:
                if loop.time() > until:
                    raise StoppedEarly(f"the aggregator did not come back: {error}") from None
                await asyncio.sleep(RECONNECT_S)


class RayPool:
    """Workers on a Ray cluster: one started here, or the one at `address`."""

    def __init__(
        self,
        config: RunConfig,
        judges: Sequence[Judge],
        ledger: Path,
        *,
        address: str | None = None,
    ) -> None:
        self._config = config
        self._judges = list(judges)
        self._started = 0
        self._workers: list[_RayWorker] = []
        self._connect(address)
        node = ray.get_runtime_context().get_node_id()
        alive = [entry for entry in ray.nodes() if entry["Alive"]]  # type: ignore[no-untyped-call]
        nodes = {entry["NodeID"]: entry["Resources"].get("CPU", 0.0) for entry in alive}
        cpus = sum(nodes.values())
        nodes[node] = nodes.get(node, 0.0) - AGGREGATOR_CPUS
        # Node by node: a worker does not span two of them.
        fitting = max(1, sum(int(free / WORKER_CPUS + 1e-9) for free in nodes.values()))
        if config.workers == "auto":
            self.size = fitting
        elif config.workers > fitting and address is not None:
            ray.shutdown()
            raise ConfigError(f"workers: {config.workers} are wanted, the cluster's {cpus:g} CPUs hold {fitting}")
        else:
            self.size = config.workers
        self._actor = (
            ray.remote(Aggregator)
            .options(
                num_cpus=AGGREGATOR_CPUS,
                max_restarts=-1,
                # Safe to run again: a batch that arrives twice is known by its number.
                max_task_retries=3,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(ledger)
        )
        self._aggregator = _RayAggregator(self._actor)

    def _connect(self, address: str | None) -> None:
        # Ray takes SIGTERM for itself; what it meant before stands again.
        before = signal.getsignal(signal.SIGTERM)
        try:
            self._init(address)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"Ray could not be started: {error}") from None
        except SystemExit as left:
            if left.code != signal.SIGTERM:
                raise
            # Its handler for the time of its start.
            raise Interrupted("interrupted by SIGTERM; nothing was started") from None
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)

    def _init(self, address: str | None) -> None:
        # Ray tells of workers that died on stdout, where only the result belongs, whatever `log_to_driver` says.
        ray._private.worker._worker_logs_enabled = False
        if address is not None:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
            return
        cpus = os.cpu_count() or 1
        if self._config.workers != "auto":
            # A local Ray promises what the config asks for; the machine shares its cores as it can.
            cpus = max(cpus, math.ceil(self._config.workers * WORKER_CPUS + AGGREGATOR_CPUS))
        ray.init(
            address="local",
            num_cpus=cpus,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )

    @property
    def aggregator(self) -> AggregatorHandle:
        """The aggregator's actor."""
        return self._aggregator

    async def add_worker(self) -> WorkerHandle:
        """Start a worker actor and ask it whether its machine has the keys."""
        name = f"worker-{self._started}"
        self._started += 1
        actor = (
            ray.remote(_WorkerActor)
            .options(num_cpus=WORKER_CPUS, max_restarts=0, max_task_retries=0, max_concurrency=1000)
            .remote(name, self._config, self._judges, self._actor)
        )
        worker = _RayWorker(name, actor)
        self._workers.append(worker)
        if problems := await worker.check():
            raise ConfigError(f"{problems[0]} (on the machine of {name})")
        return worker

    async def close(self) -> None:
        """End the workers, then the aggregator, then Ray as this process holds it."""
        try:
            for worker in self._workers:
                worker.kill()
            with contextlib.suppress(StoppedEarly):
                await self._aggregator.close()
        finally:
            ray.shutdown()
            ray._private.worker._worker_logs_enabled = True
