"""The pool on Ray: workers as async actors, the aggregator as one actor on the driver's node.

Ray is transport and placement here: nothing is retried by it, no result is owned by a worker, and none of its errors
leaves this file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from judges import Judge

from ..aggregator import Aggregator
from ..config import RunConfig
from ..errors import ConfigError, InputError, JuryboxError, StoppedEarly, WorkerDied
from ..log import configure as configure_log
from ..pool import AggregatorHandle, WorkerHandle
from ..preflight import other_source, own_source
from ..protocol import Ack, Batch, History, News, Snapshot, Task, TaskReport, Tick
from ..segments import Segment
from ..worker import Worker
from .joining import alive_nodes, join, leave, refuse_unfit

WORKER_CPUS = 1
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

    async def check(self, source: str) -> list[str]:
        other = other_source(source)
        return [other] if other else self._worker.check()

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
        problems: list[str] = await self._call(self._actor.check.remote(own_source()))
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

    async def mark_segment(self, rows: int) -> Segment | None:
        segment: Segment | None = await self._call("mark_segment", rows)
        return segment

    async def segment_done(self, number: int) -> None:
        await self._call("segment_done", number)

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
        # A local Ray promises what the config asks for; the machine shares its cores as it can.
        local_cpus = max(os.cpu_count() or 1, 0 if config.workers == "auto" else config.workers)
        join(local_cpus, address)
        here = ray.get_runtime_context().get_node_id()
        try:
            self.size = self._places(here, address)
        except InputError:
            leave()
            raise
        self._actor = (
            ray.remote(Aggregator)
            .options(
                # None of its own: it must run on this very node, whatever else the node's CPUs are promised to.
                num_cpus=0,
                max_restarts=-1,
                # Safe to run again: a batch that arrives twice is known by its number.
                max_task_retries=3,
                scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
            )
            .remote(ledger)
        )
        self._aggregator = _RayAggregator(self._actor)

    def _places(self, here: str, address: str | None) -> int:
        """How many workers there are to be, once every node that may get one has what it needs."""
        nodes = {node: int(node.cpus / WORKER_CPUS) for node in alive_nodes()}
        room = sum(nodes.values())
        wanted = room if self._config.workers == "auto" else self._config.workers
        if address is None:
            # One node, and it is this machine: what is asked of the nodes of a cluster is true here.
            return wanted
        if not room:
            raise ConfigError("no node of the cluster has a CPU for a worker; start one with `ray start --address`")
        if wanted > room:
            raise ConfigError(f"workers: {wanted} are wanted, the cluster's CPUs hold {room}")
        refuse_unfit(self._config, self._judges, [node for node, places in nodes.items() if places], here)
        return wanted

    @property
    def aggregator(self) -> AggregatorHandle:
        """The aggregator's actor."""
        return self._aggregator

    async def add_worker(self) -> WorkerHandle:
        """Start a worker actor and ask it whether its node, which may have joined only now, has what it needs."""
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
            leave()
