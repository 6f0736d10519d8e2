"""The pool on Ray: workers as async actors, the aggregator as one actor on the driver's node.

Ray is transport and placement here: nothing is retried by it, no result is owned by a worker, and none of its errors
leaves this file.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import ray
import structlog
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from judges import Judge
from runner.config import RunConfig
from runner.errors import ConfigError, InputError, WorkerDied
from runner.ledger.aggregator import Aggregator, AggregatorHandle
from runner.scheduling.pool import WorkerHandle

from .actors import RayAggregator, RayWorker
from .connect import NO_ANSWER, alive_nodes, join, leave, missing_resources
from .preflight import describe_problems

log = structlog.get_logger()


class RayPool:
    """Workers on a Ray cluster: one started here, or the one at `address`."""

    def __init__(self, config: RunConfig, judges: Sequence[Judge], ledger: Path, *, address: str | None = None) -> None:
        self._config = config
        self._judges = list(judges)
        self._started = 0
        self._workers: list[RayWorker] = []
        self._address = address
        self._first: set[str] = set()
        """Nodes that were asked before anything was paid."""
        self._known: set[str] = set()
        self._unfit: set[str] = set()
        """Nodes that joined without what they need: no worker is put there."""
        # A local Ray promises what the config asks for; the machine shares its cores as it can.
        local_cpus = max(os.cpu_count() or 1, 0 if config.workers == "auto" else config.workers)
        join(local_cpus, address)
        here = ray.get_runtime_context().get_node_id()
        try:
            self.size = self._plan_places(here)
        except InputError:
            leave()
            raise
        actor = ray.remote(Aggregator).options(
            # None of its own: it must run on this very node, whatever else the node's CPUs are promised to.
            num_cpus=0,
            max_restarts=-1,
            # Safe to run again: a batch that arrives twice is known by its number.
            max_task_retries=3,
            scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
        )
        self._actor = actor.remote(ledger, config.budget)
        self.aggregator: AggregatorHandle = RayAggregator(self._actor)

    def _plan_places(self, here: str) -> int:
        """How many workers there are to be, once every node that may get one has what it needs."""
        nodes = alive_nodes()
        room = sum(int(node.cpus) for node in nodes)
        wanted = room if self._config.workers == "auto" else self._config.workers
        if self._address is None:
            # One node, and it is this machine: what is asked of the nodes of a cluster is true here.
            return wanted
        if not room:
            raise ConfigError("no node of the cluster has a CPU for a worker; start one with `ray start --address`")
        if wanted > room:
            raise ConfigError(f"workers: {wanted} are wanted, the cluster's CPUs hold {room}")
        used = [node for node in nodes if node.cpus >= 1 or node.id == here]
        if problems := missing_resources(self._config, self._judges, used):
            raise ConfigError(describe_problems({node.name: words for node, words in problems.items()}, len(used)))
        self._first = {node.id for node in used}
        self._known = set(self._first)
        return wanted

    async def count_new_places(self) -> int:
        """Places on nodes that joined; as many workers as a config names stay as many."""
        if self._address is None or self._config.workers != "auto":
            return 0
        try:
            more = max(0, await asyncio.to_thread(self._count_places) - self.size)
        except RayError:
            # Not the moment to look for more.
            return 0
        self.size += more
        return more

    def _count_places(self) -> int:
        """Places on the nodes that are fit for a worker, after a look at those that are new."""
        nodes = {node.id: node for node in alive_nodes() if node.cpus >= 1}
        new = [node for node in nodes.values() if node.id not in self._known]
        for node, problems in (missing_resources(self._config, self._judges, new) if new else {}).items():
            if problems[0].startswith(NO_ANSWER):
                del nodes[node.id]
            else:
                self._leave_out(node.id, problems)
        self._known |= nodes.keys()
        return sum(int(node.cpus) for node in nodes.values() if node.id not in self._unfit)

    def _leave_out(self, node: str, problems: Sequence[str]) -> None:
        if node not in self._unfit:
            self._unfit.add(node)
            log.warning("node_left_out", node=node[:8], why="; ".join(problems))

    async def add_worker(self) -> WorkerHandle:
        """Start a worker actor on a node that has what it needs, which one that has just joined may not have."""
        while True:
            worker = RayWorker(f"worker-{self._started}", self._unfit)
            self._started += 1
            self._workers.append(worker)
            try:
                await worker.start(self._config, self._judges, self._actor)
            except ConfigError as error:
                worker.kill()
                if self._address is None or worker.node in self._first:
                    raise
                self._leave_out(worker.node, [error.message])
            except WorkerDied:
                # Perhaps of where it was: a node that joined without jurybox.
                if self._address is not None:
                    await asyncio.to_thread(self._count_places)
                raise
            else:
                return worker

    async def close(self) -> None:
        """End the workers, then the aggregator, then Ray as this process holds it."""
        try:
            for worker in self._workers:
                worker.kill()
            await self.aggregator.close()
        finally:
            leave()
