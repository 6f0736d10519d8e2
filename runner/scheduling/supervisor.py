"""The workers of a run while they live: started, fed with tasks, given leases once a second, replaced when they die.

Hides how many workers there are and what becomes of each. It hands out what the dispatch holds until it is told to
stop, or that the run has ended; whether anything is left to do is the driver's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress

import structlog

from runner.config import RunConfig
from runner.endpoint.health_monitor import HealthMonitor
from runner.endpoint.judge_model import JudgeModel
from runner.endpoint.leases import LeaseAllocator
from runner.errors import ActionNeeded, ConfigError, JuryboxError, StoppedEarly, WorkerDied
from runner.messages import LeaseRenewal, Task, TaskReport, WorkerStatus

from .crash_recovery import BEAT_S, CrashRecovery, HeartbeatTimer
from .dispatch import Dispatch, Work
from .pool import Pool, WorkerHandle
from .task_builder import TaskBuilder

TICK_S = 1.0
STOPPING_TICK_S = 0.5
PREFLIGHT_S = 30.0
"""How long the first workers wait for the others to start before they judge."""
ROOM_S = 60.0
"""After so long it is said that a worker waits for room on the cluster; it may do so as long as the run goes on."""

log = structlog.get_logger()
Reported = Callable[[Task, TaskReport], Awaitable[None]]


class WorkerSupervisor:
    """As many workers as the pool has places.

    `reported` is awaited with the report of each task carried out, `stopping` called when the order to stop has come.
    """

    def __init__(
        self,
        config: RunConfig,
        pairs: Mapping[tuple[str, str], JudgeModel],
        pool: Pool,
        dispatch: Dispatch,
        allocator: LeaseAllocator,
        outlook: HealthMonitor,
        assembler: TaskBuilder,
        *,
        reported: Reported,
        stopping: Callable[[], None],
        new_id: Callable[[], int],
    ) -> None:
        self._config = config
        self._pool = pool
        self._dispatch = dispatch
        self._allocator = allocator
        self._outlook = outlook
        self._assembler = assembler
        self._reported = reported
        self._stopping = stopping
        self._ticking: dict[str, asyncio.Lock] = {}
        self._senders: dict[str, str] = {}
        """Worker → its name in the ledger."""
        self._changed = asyncio.Condition()
        self._hurry = asyncio.Event()
        self._ended = False
        self._losses = CrashRecovery(assembler, pool.aggregator, pairs, new_id, self.stop)
        self._starting: set[asyncio.Task[None]] = set()
        self._ready = 0
        self._go = asyncio.Event()
        self.stopped: JuryboxError | None = None
        """Why nothing more is started."""
        self.stopped_at = 0.0

    @property
    def suspected(self) -> Mapping[tuple[str, str], int]:
        """How many trials of a judge and a model are suspected of killing workers, where any are."""
        return self._losses.suspected

    def is_starved(self, senders: Collection[str]) -> bool:
        """Whether all workers that hold work are among these."""
        holding = [name for name in self._dispatch.workers if self._dispatch.holding(name)]
        return bool(holding) and all(self._senders.get(name) in senders for name in holding)

    def stop(self, why: JuryboxError) -> None:
        """Start nothing more and let what is in flight end. The first reason stands."""
        if self.stopped is None:
            log.info("stopping", why=why.message)
            self.stopped = why
            self.stopped_at = asyncio.get_running_loop().time()
            self._skip_waits()
            self._stopping()

    async def end(self) -> None:
        """Nothing is left to do: the places are given up."""
        self._ended = True
        self._go.set()
        for starting in self._starting:
            starting.cancel()
        self._skip_waits()
        await self.notify()

    async def notify(self) -> None:
        """Let everybody look again at what there is to do."""
        async with self._changed:
            self._changed.notify_all()

    async def wait_for_change(self, timeout_s: float) -> None:
        """Return when there may be news, at the latest after `timeout_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait()

    async def run_slot(self) -> None:
        """Keep one place of the pool filled: when its worker is gone, another takes over."""
        while not self._ended and self.stopped is None:
            worker: WorkerHandle | None = None
            begun = asyncio.get_running_loop().time()
            try:
                worker = await self._start_worker()
                if worker is None:
                    return
                self._dispatch.join(worker.name)
                self._allocator.join(worker.name)
                self._ticking[worker.name] = asyncio.Lock()
                async with asyncio.TaskGroup() as group:
                    ticking = group.create_task(self._keep_ticking(worker))
                    await self._feed(worker, group)
                    ticking.cancel()
                    # At once: from here on nobody is to reckon with it.
                    self._forget(worker)
                if not self._ended:
                    await worker.close()
            except* WorkerDied as deaths:
                await self._recover_from_death(worker, begun, _plainest(deaths))
            await self.notify()

    async def _start_worker(self) -> WorkerHandle | None:
        """A new worker, once there is room for it; None where it cannot work, and the run is stopped because of that.

        The end of the run does not wait for room.
        """
        task = asyncio.current_task()
        assert task is not None
        self._starting.add(task)
        no_room = asyncio.get_running_loop().call_later(
            ROOM_S, lambda: log.warning("waiting_for_room", why=f"no worker could be started for {ROOM_S:g} s")
        )
        try:
            worker = await self._pool.add_worker()
        except ConfigError as error:
            if not self._go.is_set():
                raise
            # What the others have in flight is paid for: it has its time to end.
            self.stop(StoppedEarly(error.message))
            return None
        finally:
            self._starting.discard(task)
            no_room.cancel()
        log.info("worker_started", worker=worker.name)
        self._ready += 1
        if self._ready >= self._pool.size:
            self._go.set()
        return worker

    async def _recover_from_death(self, worker: WorkerHandle | None, begun: float, why: WorkerDied) -> None:
        """What a dead worker held goes out again, as far as it is not to blame."""
        name = worker.name if worker else None
        joined = name in self._dispatch.workers
        held = self._dispatch.holding(name) if name and joined else []
        again = await self._losses.recover(name, held, begun, asyncio.get_running_loop().time(), why)
        if worker and joined:
            self._forget(worker, again)

    def _forget(self, worker: WorkerHandle, again: Iterable[Work] = ()) -> None:
        self._dispatch.leave(worker.name, again)
        self._allocator.leave(worker.name)
        self._outlook.forget(worker.name)
        self._senders.pop(worker.name, None)
        del self._ticking[worker.name]

    async def _feed(self, worker: WorkerHandle, group: asyncio.TaskGroup) -> None:
        """Hand out work until the run ends, or a fresh worker is wanted in this one's place."""
        # Nothing is paid before every node has shown that it has the keys, or has had its time to.
        with suppress(TimeoutError):
            async with asyncio.timeout(PREFLIGHT_S):
                await self._go.wait()
        self._go.set()
        while not self._ended:
            work = None if self.stopped else self._dispatch.next(worker.name)
            if work is not None:
                group.create_task(self._carry_out(worker, work))
                continue
            coming = self._pool.size - len(self._dispatch.workers)
            if self.stopped is None and self._dispatch.is_spent(worker.name, coming):
                return
            async with self._changed:
                await self._changed.wait()

    async def _carry_out(self, worker: WorkerHandle, work: Work) -> None:
        try:
            await self._carried_out(worker, work)
        except StoppedEarly as error:
            # What the others have in flight is paid for: it has its time to end.
            self.stop(error)
        self._assembler.finish(work.id)
        self._dispatch.finish(worker.name, work.id)
        await self.notify()

    async def _carried_out(self, worker: WorkerHandle, work: Work) -> None:
        task = await self._assembler.build(work)
        if task is not None:
            if not self._allocator.holds(worker.name, work.account):
                await self._tick(worker)
            await self._losses.hand_out(work, task, worker)
            report = await worker.run(task)
            self._losses.finish(work)
            log.debug(
                "task_done", worker=worker.name, judge=task.judge, model=task.model,
                judged=report.judged, waiting=report.waiting, left=report.left,
            )  # fmt: skip
            if report.broken is not None:
                self.stop(ActionNeeded(report.broken))
            if report.action_needed is not None and work.account not in self._outlook.closed:
                self._outlook.close_account(work.account, report.action_needed)
                self._close(work.account)
            await self._reported(task, report)

    # ---- leases ------------------------------------------------------------------------------------------------

    async def _keep_ticking(self, worker: WorkerHandle) -> None:
        while not self._ended:
            await self._tick(worker)
            await self._pause(TICK_S if self.stopped is None else STOPPING_TICK_S)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    def _skip_waits(self) -> None:
        """End all pauses that are under way; later ones are not affected."""
        self._hurry.set()
        self._hurry = asyncio.Event()

    async def _tick(self, worker: WorkerHandle) -> None:
        """Renew the worker's leases and hear its news. One at a time, so that each answer belongs to its leases."""
        async with self._ticking[worker.name]:
            demand = self._outlook.limit_demand({name: self._dispatch.demand(name) for name in self._dispatch.workers})
            for name, held in demand.items():
                self._allocator.set_demand(name, held)
            leases = self._allocator.allocate(worker.name, demand[worker.name])
            leases = self._outlook.assign_probes(worker.name, leases, asyncio.get_running_loop().time())
            news = await self._answer(
                worker, LeaseRenewal(leases, stop=self.stopped is not None, close=self._outlook.closed)
            )
        self._senders[worker.name] = news.sender
        self._allocator.confirm(worker.name, news.accounts)
        now = asyncio.get_running_loop().time()
        self._allocator.observe(worker.name, news.accounts, now)
        working = self._outlook.working
        for account in self._outlook.observe(worker.name, news.accounts, now):
            self._close(account)
        if self._outlook.working > working:
            # Workers that were held back may begin.
            self._skip_waits()

    async def _answer(self, worker: WorkerHandle, tick: LeaseRenewal) -> WorkerStatus:
        """The worker's answer. One that gives none for `retry.hang` is stuck for good, and is killed."""
        loop = asyncio.get_running_loop()
        answer = asyncio.ensure_future(worker.renew(tick))
        silence = HeartbeatTimer(self._config.retry.hang_s)
        try:
            while not silence.is_death:
                begun = loop.time()
                done, _ = await asyncio.wait({answer}, timeout=BEAT_S)
                if done:
                    return answer.result()
                silence.beat(loop.time() - begun)
        finally:
            answer.cancel()
        await worker.close()
        raise WorkerDied(f"no sign of life for {self._config.retry.hang}", "hang")

    def _close(self, account: str) -> None:
        """Go on without this account: its tasks return, nothing more of it is handed out."""
        log.info("account_closed", account=account)
        self._dispatch.close(account)
        self._skip_waits()


def _plainest(deaths: BaseExceptionGroup[WorkerDied]) -> WorkerDied:
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
