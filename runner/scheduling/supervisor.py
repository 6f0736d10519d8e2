"""The workers of a run while they live: started, fed with tasks, replaced when they die.

Hides how many workers there are and what becomes of each. It hands out what the dispatch holds until the order to stop
comes, or the run has ended; whether anything is left to do is the driver's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import structlog

from runner.errors import ActionNeeded, ConfigError, StoppedEarly, WorkerDied
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
TakeReport = Callable[[Task, TaskReport], Awaitable[None]]


class WorkerSupervisor:
    """As many workers as the pool has places. `take_report` is awaited with the report of each task carried out."""

    def __init__(
        self,
        run: RunControl,
        pool: Pool,
        dispatch: Dispatch,
        tasks: TaskBuilder,
        leases: LeaseKeeper,
        recovery: CrashRecovery,
        take_report: TakeReport,
    ) -> None:
        self._run = run
        self._pool = pool
        self._dispatch = dispatch
        self._tasks = tasks
        self._leases = leases
        self._recovery = recovery
        self._take_report = take_report
        self._starting: set[asyncio.Task[None]] = set()
        self._started = 0
        self._may_judge = asyncio.Event()
        run.on_stop(self._stop_waiting)

    async def run_slot(self) -> None:
        """Keep one place of the pool filled: when its worker is gone, another takes over."""
        while not self._run.ended and self._run.stopped is None:
            worker: WorkerHandle | None = None
            begun = asyncio.get_running_loop().time()
            try:
                worker = await self._start_worker()
                if worker is None:
                    return
                self._dispatch.join(worker.name)
                self._leases.join(worker.name)
                async with asyncio.TaskGroup() as group:
                    renewing = group.create_task(self._leases.keep(worker))
                    await self._feed(worker, group)
                    renewing.cancel()
                    # At once: from here on nobody is to reckon with it.
                    self._forget(worker)
                if not self._run.ended:
                    await worker.close()
            except* WorkerDied as deaths:
                await self._recover_from_death(worker, begun, _most_telling(deaths))
            await self._run.notify()

    def _stop_waiting(self) -> None:
        self._leases.skip_waits()
        if self._run.ended:
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
            worker = await self._pool.add_worker()
        except ConfigError as error:
            if not self._may_judge.is_set():
                raise
            # What the others have in flight is paid for: it has its time to end.
            self._run.stop(StoppedEarly(error.message))
            return None
        finally:
            self._starting.discard(task)
            no_room.cancel()
        log.info("worker_started", worker=worker.name)
        self._started += 1
        if self._started >= self._pool.size:
            self._may_judge.set()
        return worker

    async def _recover_from_death(self, worker: WorkerHandle | None, begun: float, why: WorkerDied) -> None:
        """What a dead worker held goes out again, as far as it is not to blame."""
        name = worker.name if worker else None
        joined = name in self._dispatch.workers
        held = self._dispatch.holding(name) if name and joined else []
        again = await self._recovery.recover(name, held, begun, asyncio.get_running_loop().time(), why)
        if worker and joined:
            self._forget(worker, again)

    def _forget(self, worker: WorkerHandle, again: Iterable[Work] = ()) -> None:
        self._dispatch.leave(worker.name, again)
        self._leases.leave(worker.name)

    async def _feed(self, worker: WorkerHandle, group: asyncio.TaskGroup) -> None:
        """Hand out work until the run ends, or a fresh worker is wanted in this one's place."""
        # Nothing is paid before every node has shown that it has the keys, or has had its time to.
        with suppress(TimeoutError):
            async with asyncio.timeout(PREFLIGHT_S):
                await self._may_judge.wait()
        self._may_judge.set()
        while not self._run.ended:
            work = None if self._run.stopped else self._dispatch.next(worker.name)
            if work is not None:
                group.create_task(self._carry_out(worker, work))
                continue
            coming = self._pool.size - len(self._dispatch.workers)
            if self._run.stopped is None and self._dispatch.is_worn_out(worker.name, coming):
                return
            await self._run.wait_for_change()

    async def _carry_out(self, worker: WorkerHandle, work: Work) -> None:
        try:
            if (task := await self._tasks.build(work)) is not None:
                await self._leases.ensure(worker, work.account)
                await self._recovery.hand_out(work, task, worker)
                report = await worker.run(task)
                self._recovery.finish(work)
                await self._take(work, task, report, worker.name)
        except StoppedEarly as error:
            # What the others have in flight is paid for: it has its time to end.
            self._run.stop(error)
        self._tasks.finish(work.id)
        self._dispatch.finish(worker.name, work.id)
        await self._run.notify()

    async def _take(self, work: Work, task: Task, report: TaskReport, worker: str) -> None:
        log.debug(
            "task_done", worker=worker, judge=task.judge, model=task.model,
            judged=report.judged, waiting=report.waiting, left=report.left,
        )  # fmt: skip
        if report.broken is not None:
            self._run.stop(ActionNeeded(report.broken))
        if report.action_needed is not None:
            self._leases.refuse(work.account, report.action_needed)
        await self._take_report(task, report)


def _most_telling(deaths: BaseExceptionGroup[WorkerDied]) -> WorkerDied:
    """Of all the calls that a death has broken, the one that says most of it."""
    found: list[WorkerDied] = []
    pending: list[BaseException] = [deaths]
    while pending:
        error = pending.pop()
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        elif isinstance(error, WorkerDied):
            found.append(error)
    return max(found, key=lambda error: ("crash", "hang", "node").index(error.death))
