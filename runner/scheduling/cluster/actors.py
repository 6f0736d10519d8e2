"""The actors on Ray: the handles on the aggregator's and on a worker's, which tells how its end came.

Hides what Ray says of a death. A process that ended and a node that was lost look alike to the calls in flight, and are
not: the one may be the work's fault, the other never is.
"""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any, cast

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, OutOfMemoryError, RayError, RayTaskError

from judges import Judge
from runner.config import RunConfig
from runner.errors import ConfigError, Death, JuryboxError, StoppedEarly, WorkerDied
from runner.ledger.aggregator import AggregatorHandle
from runner.log import configure as configure_log
from runner.messages import LeaseRenewal, Task, TaskReport, WorkerStatus
from runner.worker.worker import Worker

from .connect import alive_nodes
from .preflight import other_source, own_source

WORKER_CPUS = 1
NODE = "ray.io/node-id"
"""The label that Ray gives every node."""
CALLS = 1000
"""Tasks and renewals that a worker may have under way: as many as come."""
CUT_OFF_S = 10.0
"""How long a worker may be out of reach before it is given up. Its node tells of a process that died in less."""
SET_UP_S = 60.0
"""How long a worker may take at least to load the judges, once its process is there."""
RECONNECT_S = 0.5
AGGREGATOR_GONE_S = 120.0
"""How long the aggregator may be away before the run stops, resumable."""
CLOSE_S = 1.0
"""How long the aggregator may take to close the ledger, which is left in order without that too."""


class RayAggregator(AggregatorHandle):
    """The handle on the aggregator's actor, for the driver and for every worker.

    The actor may be away for a while: it restarts by itself, and a call that failed is made again until it is answered.
    That is safe, since a batch that arrives twice is known by its number.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        loop = asyncio.get_running_loop()
        away_since: float | None = None
        while True:
            try:
                return await getattr(self._actor, method).remote(*args, **kwargs)
            except RayTaskError as error:
                raise cause_of(error) from None
            except RayError as error:
                # It does not mean that the call had no effect.
                away_since = away_since or loop.time()
                if loop.time() - away_since > AGGREGATOR_GONE_S:
                    why = str(error).strip().splitlines()[-1]
                    raise StoppedEarly(
                        f"the aggregator did not come back: {why}; run the same command again to go on"
                    ) from None
                await asyncio.sleep(RECONNECT_S)

    async def close(self) -> None:
        """Lets it close the ledger. One that is away has nothing open; all that it acknowledged is on the disk."""
        with contextlib.suppress(RayError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._actor.close.remote()


def cause_of(error: RayTaskError) -> BaseException:
    """Our own error, where the actor raised one; Ray wraps it in an error of both types."""
    cause = error.cause
    return cause if isinstance(cause, JuryboxError) else error


class _WorkerActor:
    """What Ray runs: a `Worker` whose batches go to the aggregator's actor.

    Its process is there once it answers `where`; only then it is given what may take long or fail to load.
    """

    def __init__(self) -> None:
        # Each process has its own logging: without this, events would be written unhidden, and at every level.
        configure_log()

    async def where(self) -> str:
        """The node that it is on."""
        node: str = ray.get_runtime_context().get_node_id()
        return node

    async def set_up(
        self, source: str, name: str, config: RunConfig, judges: Sequence[Judge], aggregator: Any
    ) -> list[str]:
        """Make the worker; what is missing on its machine. `source`: of the driver's jurybox."""
        if other := other_source(source):
            return [other]
        self._worker = Worker(name, config, judges, RayAggregator(aggregator).record)
        return self._worker.check()

    async def call(self, method: str, message: Task | LeaseRenewal) -> Any:
        """Call the worker's method of this name."""
        return await getattr(self._worker, method)(message)


class RayWorker:
    """The driver's handle on a worker actor."""

    def __init__(self, name: str, not_on: Collection[str] = ()) -> None:
        """`not_on`: nodes where it is not to be."""
        self.name = name
        self._actor: Any = ray.remote(_WorkerActor).options(
            num_cpus=WORKER_CPUS, max_restarts=0, max_task_retries=0, max_concurrency=CALLS,
            label_selector={NODE: f"!in({','.join(sorted(not_on))})"} if not_on else None,
        ).remote()  # fmt: skip
        self.node = ""
        """Where it is, once there was room."""

    async def start(self, config: RunConfig, judges: Sequence[Judge], aggregator: Any) -> None:
        """Wait until the cluster has room for it, as long as that takes; ConfigError where it cannot work there."""
        self.node = await self._call(self._actor.where.remote())
        try:
            async with asyncio.timeout(max(SET_UP_S, config.retry.hang_s)):
                set_up = self._actor.set_up.remote(own_source(), self.name, config, judges, aggregator)
                problems = await self._call(set_up)
        except TimeoutError:
            self.kill()
            raise WorkerDied("it came to no end with loading the judges", "hang") from None
        except RayTaskError as error:
            raise ConfigError(f"the judges cannot be loaded: {error.cause} (on the machine of {self.name})") from None
        if problems:
            raise ConfigError(f"{problems[0]} (on the machine of {self.name})")

    async def run(self, task: Task) -> TaskReport:
        return cast(TaskReport, await self._call(self._actor.call.remote("run", task)))

    async def renew(self, renewal: LeaseRenewal) -> WorkerStatus:
        return cast(WorkerStatus, await self._call(self._actor.call.remote("renew", renewal)))

    async def keys(self, task: Task) -> list[bytes]:
        return cast(list[bytes], await self._call(self._actor.call.remote("keys", task)))

    async def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        with contextlib.suppress(RayError):
            ray.kill(self._actor)

    async def _call(self, ref: Any) -> Any:
        try:
            return await ref
        except RayTaskError as error:
            raise cause_of(error) from None
        except RayError as error:
            raise await self._investigate(error) from None

    async def _investigate(self, error: RayError) -> WorkerDied:
        """The death that an error stands for. One that is only out of reach is asked again, and then given up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CUT_OFF_S):
                while isinstance(error, ActorUnavailableError):
                    await asyncio.sleep(RECONNECT_S)
                    try:
                        await self._actor.where.remote()
                    except RayError as later:
                        error = later
                    else:
                        break
        # What it did with the call that failed is not known: from here on, it must do nothing any more.
        self.kill()
        if not isinstance(error, ActorDiedError):
            return describe_death(error)
        lost = error.preempted or "its node has died" in str(error)
        if self.node and not lost:
            lost = self.node not in {node.id for node in await asyncio.to_thread(alive_nodes)}
        death: Death = "node" if lost else "crash"
        return WorkerDied("its node was lost" if lost else _describe_exit(error), death)


def describe_death(error: RayError) -> WorkerDied:
    """The death that Ray tells of by another error than that of an actor which died."""
    if isinstance(error, OutOfMemoryError):
        # To Ray it is the node's trouble. But what a trial takes, it takes anywhere: were nobody to blame, it would be
        # asked, and paid for, without end.
        return WorkerDied("Ray killed it, since the memory of its node ran out", "crash")
    return WorkerDied("the connection to it was lost", "node")


def _describe_exit(error: ActorDiedError) -> str:
    """What Ray knows of the death of a process, in a line."""
    text = str(error).partition("Worker exit detail: ")[2].partition("Some common causes")[0].strip()
    if "End of file" in text:
        return "its process ended unexpectedly"
    return text or str(error).strip().splitlines()[-1]
