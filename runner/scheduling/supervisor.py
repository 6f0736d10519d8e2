"""The workers of a run while they live: started, fed with tasks, replaced when they die.

Hides how many workers there are and what becomes of each. It hands out what the dispatch holds until the order to stop
comes, or the run has ended; whether anything is left to do is the driver's business.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from runner.errors import ActionNeeded, ConfigError, StoppedEarly, WorkerDied, single_errors
from runner.messages import Task, TaskReport

from .crash_recovery import CrashRecovery
from .dispatch import Dispatch, Work
from .lease_keeper import LeaseKeeper
from .pool import Pool, WorkerHandle
from .run_control import RunControl
from .task_builder import TaskBuilder

PREFLIGHT_S = 30.0
"""How long the first workers wait for the others to start before they judge."""
ROOM_S = 60.0
"""After so long it is said that a worker waits for room on the cluster; it may do so as long as the run goes on."""

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class WorkerSupervisor:
    """As many workers as the pool has places."""

    run: RunControl
    pool: Pool
    dispatch: Dispatch
    tasks: TaskBuilder
    leases: LeaseKeeper
    recovery: CrashRecovery
    take_report: Callable[[Task, TaskReport], Awaitable[None]]
    """Awaited with the report of each task that was carried out."""
    _starting: set[asyncio.Task[None]] = field(default_factory=set)
    _started: int = 0
    _may_judge: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.run.on_stop = self._stop_waiting

    async def run_slot(self) -> None:
        """Keep one place of the pool filled: when its worker is gone, another takes over."""
        while not self.run.ended and self.run.stopped is None:
            worker: WorkerHandle | None = None
            begun = asyncio.get_running_loop().time()
            try:
                worker = await self._start_worker()
                if worker is None:
                    return
                self.dispatch.join(worker.name)
                self.leases.join(worker.name)
                async with asyncio.TaskGroup() as group:
                    renewing = group.create_task(self.leases.keep(worker))
                    await self._feed(worker, group)
                    renewing.cancel()
                    # At once: from here on nobody is to reckon with it.
                    self._forget(worker)
                if not self.run.ended:
                    await worker.close()
            except* WorkerDied as deaths:
                await self._recover_from_death(worker, begun, _most_telling(deaths))
            self.run.changed.notify()

    def _stop_waiting(self) -> None:
        self.leases.skip_waits.notify()
        if self.run.ended:
            self._may_judge.set()
            # The end of the run does not wait for room on the cluster.
            for starting in self._starting:
                starting.cancel()

    async def _start_worker(self) -> WorkerHandle | None:
        """A new worker, once there is room; None where it cannot work, and the run is stopped because of that."""
        task = asyncio.current_task()
        assert task is not None
        self._starting.add(task)
        no_room = asyncio.get_running_loop().call_later(
            ROOM_S, lambda: log.warning("waiting_for_room", why=f"no worker could be started for {ROOM_S:g} s")
        )
        try:
            worker = await self.pool.add_worker()
        except ConfigError as error:
            if not self._may_judge.is_set():
                raise
            # What the others have in flight is paid for: it has its time to end.
            self.run.stop(StoppedEarly(error.message))
            return None
        finally:
            self._starting.discard(task)
            no_room.cancel()
        log.info("worker_started", worker=worker.name)
        self._started += 1
        if self._started >= self.pool.size:
            self._may_judge.set()
        return worker

    async def _recover_from_death(self, worker: WorkerHandle | None, begun: float, why: WorkerDied) -> None:
        """What a dead worker held goes out again, as far as it is not to blame."""
        joined = worker if worker and worker.name in self.dispatch.workers else None
        held = self.dispatch.holding(joined.name) if joined else []
        name = worker.name if worker else "a new one"
        again = await self.recovery.recover(name, held, begun, asyncio.get_running_loop().time(), why)
        if joined:
            self._forget(joined, again)

    def _forget(self, worker: WorkerHandle, again: Iterable[Work] = ()) -> None:
        self.dispatch.leave(worker.name, again)
        self.leases.leave(worker.name)

    async def _feed(self, worker: WorkerHandle, group: asyncio.TaskGroup) -> None:
        """Hand out work until the run ends, or a fresh worker is wanted in this one's place."""
        # Nothing is paid before every node has shown that it has the keys, or has had its time to.
        with suppress(TimeoutError):
            async with asyncio.timeout(PREFLIGHT_S):
                await self._may_judge.wait()
        self._may_judge.set()
        while not self.run.ended:
            work = None if self.run.stopped else self.dispatch.next(worker.name)
            if work is not None:
                group.create_task(self._carry_out(worker, work))
                continue
            coming = self.pool.size - len(self.dispatch.workers)
            if self.run.stopped is None and self.dispatch.is_worn_out(worker.name, coming):
                return
            await self.run.changed.wait()

    async def _carry_out(self, worker: WorkerHandle, work: Work) -> None:
        try:
            if (task := await self.tasks.build(work)) is not None:
                await self.leases.ensure(worker, work.account)
                await self.recovery.hand_out(work, task, worker)
                report = await worker.run(task)
                self.recovery.finish(work)
                log.debug(
                    "task_done", worker=worker.name, judge=task.judge, model=task.model,
                    judged=report.judged, waiting=report.waiting, left=report.left,
                )  # fmt: skip
                if report.broken is not None:
                    self.run.stop(ActionNeeded(report.broken))
                if report.action_needed is not None:
                    self.leases.refuse(work.account, report.action_needed)
                await self.take_report(task, report)
        except StoppedEarly as error:
            # What the others have in flight is paid for: it has its time to end.
            self.run.stop(error)
        self.tasks.finish(work.id)
        self.dispatch.finish(worker.name, work.id)
        self.run.changed.notify()


def _most_telling(deaths: BaseExceptionGroup[WorkerDied]) -> WorkerDied:
    """Of all the calls that a death has broken, the one that says most of it."""
    return max(single_errors(deaths), key=lambda error: ("crash", "hang", "node").index(error.death))
