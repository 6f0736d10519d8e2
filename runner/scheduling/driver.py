"""The loop of a run: queues what is to be judged, takes up what waits in the ledger, and ends in good order.

It knows a Pool and no Ray. Decisions are made elsewhere (dispatch: who gets what; leases: how much of each limit;
health monitor: whether an account is worth going on with; retry policy: retry or not; ledger: what is finished), and
the supervisor carries them out; here they meet.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from itertools import count

import structlog

from runner.config import RunConfig
from runner.dataset import Staged
from runner.endpoint.health_monitor import HealthMonitor
from runner.endpoint.judge_model import JudgeModel, StructuredModes
from runner.endpoint.leases import LeaseAllocator
from runner.errors import ActionNeeded, DiskFull, Interrupted, JuryboxError, StoppedEarly, weightiest
from runner.messages import JudgeModelId, Shard, Snapshot, Task, TaskReport

from .crash_recovery import CrashRecovery
from .dispatch import Dispatch, Work
from .lease_keeper import LeaseKeeper
from .pool import Pool
from .run_control import RunControl
from .supervisor import WorkerSupervisor
from .task_builder import TASK_TRIALS, ModeProbe, PendingTrials, TaskBuilder

WATCH_S = 0.5
GROW_S = 5.0
JUDGE_AGAIN = ("malformed", "refused", "halved", "retry")
LAST_TRY = ("parked",)

log = structlog.get_logger()
Stopping = tuple[int, float]
"""After the order to stop: requests in flight, and the seconds that they still have."""
Watch = Callable[[Snapshot, Mapping[str, int], Mapping[str, str], Mapping[JudgeModelId, int], "Stopping | None"], None]


class Driver:
    """Carries out one plan on one pool.

    `watch` is called twice a second with the live counts, the 429s by account, a word on each account that takes no
    requests now, the number of trials by judge and model that are suspected of killing workers, and how far a stop is.

    `done` holds the judged trials of each shard, by shard id, as the ledger has them at the start.
    """

    def __init__(
        self,
        config: RunConfig,
        shards: Mapping[int, Shard],
        done: Mapping[int, int],
        judge_models: Mapping[JudgeModelId, JudgeModel],
        staged: Staged,
        pool: Pool,
        *,
        watch: Watch,
        modes: StructuredModes,
        settled: Callable[[StructuredModes], None],
    ) -> None:
        """`settled` is called whenever the mode of a judge and a model was found out; `modes` are known before."""
        self._modes = modes
        self._settled = settled
        self._config = config
        self._pool = pool
        self._watch = watch
        fill = {account: 2 * math.ceil(limits.in_flight / pool.size) for account, limits in config.accounts().items()}
        self._dispatch = Dispatch(fill=fill)
        allocator = LeaseAllocator(config.accounts(), config.reformatter.account_name if config.reformatter else None)
        self._health = HealthMonitor(config)
        self._tasks = TaskBuilder(shards, judge_models, config.seed, staged, pool.aggregator, self._modes)
        self._work_ids = count(1)
        self._run = RunControl()
        self._recovery = CrashRecovery(self._run, self._tasks, self._work_ids.__next__)
        self._leases = LeaseKeeper(self._run, config.retry, allocator, self._health, self._dispatch)
        self._supervisor = WorkerSupervisor(
            self._run, pool, self._dispatch, self._tasks, self._leases, self._recovery, self._take_report
        )
        self._waiting_for_mode: dict[JudgeModelId, list[Work]] = {}
        """Work that waits until it is known how structured output is enforced."""
        for shard in shards.values():
            if left := shard.trials - done.get(shard.id, 0):
                # What is left alone counts: else two shards with a trial each would be all that a worker is given.
                requests = min(left, judge_models[shard.judge_model_id].count_requests(shard.trials))
                work = self._make_work(shard.model, requests, shard)
                if self._mode_is_unknown(shard.judge_model_id):
                    self._waiting_for_mode[shard.judge_model_id].append(work)
                else:
                    self._dispatch.add([work])

    def stop(self, why: JuryboxError) -> None:
        """Start nothing more, let what is in flight end, and raise `why` from `run`. The first reason stands."""
        self._run.stop(why)

    async def run(self) -> None:
        """Judge until every trial has a judgment; raises why it could not."""
        given_up_on, left = "", 0
        try:
            # Around everything: after an order to stop nothing is waited for any longer, whatever it is that is away.
            async with self._run.limit_grace() as grace:
                left = await self._judge()
        except TimeoutError:
            if not grace.expired():
                raise
            given_up_on = f"; what was not recorded within {self._run.grace_s:g} s is asked again"
        needed = self._health.action_needed
        if needed and not isinstance(self._run.stopped, Interrupted):
            raise ActionNeeded("; ".join(needed.values()))
        if self._run.stopped is not None:
            raise type(self._run.stopped)(self._run.stopped.message + given_up_on)
        if given_up := self._health.given_up:
            raise StoppedEarly("; ".join(given_up.values()))
        if left:
            raise StoppedEarly(f"{left:,} trials were left without a judgment; run the same command to go on")

    async def _judge(self) -> int:
        """Judge until nothing is left to do; how many trials have no judgment then."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._pool.size):
                    group.create_task(self._supervisor.run_slot())
                growing = group.create_task(self._keep_growing(group))
                left = await self._keep_watch()
                growing.cancel()
        except* JuryboxError as errors:
            raise weightiest(errors) from None
        return left

    async def _take_report(self, task: Task, report: TaskReport) -> None:
        """Of a probe: what it found holds from now on, and what waited for that goes out."""
        if task.probe and report.structured is not None:
            await self._pool.aggregator.set_meta(*self._modes.record((task.judge, task.model), report.structured))
            log.info("structured", judge=task.judge, model=task.model, mode=report.structured)
            self._settled(self._modes)
            self._dispatch.add(self._waiting_for_mode.pop((task.judge, task.model)))

    async def _keep_growing(self, group: asyncio.TaskGroup) -> None:
        """Use the machines that join."""
        while True:
            await asyncio.sleep(GROW_S)
            for _ in range(await self._pool.count_new_places()):
                group.create_task(self._supervisor.run_slot())

    async def _keep_watch(self) -> int:
        """Report progress, take up what waits in the ledger, and see the end: how many trials have no judgment then."""
        while True:
            # Before the snapshot: what a task left waiting is recorded before the task ends.
            was_idle = self._dispatch.idle
            snapshot = await self._pool.aggregator.snapshot()
            left_s = self._run.grace_left_s
            stopping = None if left_s is None else (self._health.in_flight, left_s)
            self._watch(snapshot, self._health.throttled, self._health.states, self._recovery.suspected, stopping)
            if (no_room := snapshot.unrecorded or snapshot.shortage) is not None:
                self.stop(DiskFull(no_room))
            if snapshot.over_budget is not None and self._leases.is_starved(snapshot.starved):
                self.stop(StoppedEarly(snapshot.over_budget))
            if self._run.stopped is None:
                open_work = [self._queue_pending(account, snapshot) for account in self._config.accounts()]
                ended = not any(open_work) and was_idle and self._dispatch.idle
                # Tickets may have been added: whoever has room is to take them.
                self._run.changed.notify()
            else:
                ended = self._dispatch.none_held
                self._run.hurry(snapshot.unrecorded is not None)
            if ended:
                self._run.end()
                return sum(tally.trials - tally.done for tally in snapshot.tallies.values())
            await self._run.changed.wait(WATCH_S)

    def _queue_pending(self, account: str, snapshot: Snapshot) -> bool:
        """Queue tickets for trials that wait in the ledger, once the account's queue runs dry; False: none is left.

        Trials put off to the end come last, when nothing else of their account is under way.
        """
        if account in self._health.closed:
            return False
        queued, held = self._dispatch.queued(account), self._dispatch.held(account)
        suspected = self._dispatch.suspected(account)
        models = [model.name for model in self._config.models if model.account_name == account]
        waiting = {m: sum(t.waiting for (_, name), t in snapshot.tallies.items() if name == m) for m in models}
        parked = {m: sum(t.parked for (_, name), t in snapshot.tallies.items() if name == m) for m in models}
        if not queued:
            for model in models:
                own = [judge_model for judge_model in self._tasks.judge_models if judge_model[1] == model]
                if not waiting[model] + parked[model] or any([self._mode_is_unknown(each) for each in own]):
                    continue
                again, last_try = PendingTrials(model, JUDGE_AGAIN), PendingTrials(model, LAST_TRY)
                if waiting[model] > self._tasks.count_out(again):
                    self._dispatch.add([self._make_work(model, TASK_TRIALS, again)])
                elif parked[model] and not (held or suspected) and not any(waiting.values()):
                    self._dispatch.add([self._make_work(model, TASK_TRIALS, last_try)])
        return bool(queued or held or suspected or any(waiting.values()) or any(parked.values()))

    def _mode_is_unknown(self, judge_model: JudgeModelId) -> bool:
        """Whether it is not known how structured output is enforced there; then that is found out."""
        if judge_model in self._modes:
            return False
        if judge_model not in self._waiting_for_mode:
            self._waiting_for_mode[judge_model] = []
            self._dispatch.add([self._make_work(judge_model[1], 1, ModeProbe(*judge_model))])
        return True

    def _make_work(self, model: str, requests: int, payload: Shard | PendingTrials | ModeProbe) -> Work:
        return Work(next(self._work_ids), self._config.model(model).account_name, requests, payload)
