"""What workers hold, so that nothing of it is lost with one that dies, and nobody but the guilty is blamed for it.

Hides what of a dead worker's tasks is in the ledger, what goes out again and to whom, and how a trial that kills its
workers is recorded. The decisions are `poison_search`'s. That record is made by the driver, the one process that must
not die of it: so none of the judge's code runs here, not even to render the prompt that the trial's key goes by.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from judges import Poisoned
from runner.errors import StoppedEarly, WorkerDied
from runner.messages import JudgeModelId, Task
from runner.worker.judgment import build_judgment
from runner.worker.outbox import Outbox
from runner.worker.request import stage_of

from .dispatch import Work
from .poison_search import DEATHS_ALONE, CrashLoopDetector, RecoveryAction, TrialSubset, decide_after_death
from .pool import WorkerHandle
from .run_control import RunControl
from .task_builder import TaskBuilder

RECORDER = "driver"
log = structlog.get_logger()


@dataclass(slots=True)
class _HandedOut:
    task: Task
    key: bytes | None = None
    """Of the only trial of a suspect, once its worker has told it."""


class CrashRecovery:
    """Told of every task that a worker is handed and of every death; stops the run where it is no use to go on."""

    def __init__(self, run: RunControl, tasks: TaskBuilder, new_id: Callable[[], int]) -> None:
        self._run = run
        self._tasks = tasks
        self._outbox = Outbox(f"{RECORDER}-{uuid.uuid4().hex[:12]}", tasks.aggregator.record)
        self._new_id = new_id
        self._crash_loop = CrashLoopDetector()
        self._handed: dict[int, _HandedOut] = {}
        self._suspects: dict[int, tuple[JudgeModelId, int]] = {}
        """Suspected work by id, wherever it is: its judge and model, and its trials."""

    @property
    def suspected(self) -> dict[JudgeModelId, int]:
        """How many trials of a judge and a model are suspected of killing workers, where any are."""
        trials: Counter[JudgeModelId] = Counter()
        for judge_model, count in self._suspects.values():
            trials[judge_model] += count
        return dict(trials)

    async def hand_out(self, work: Work, task: Task, worker: WorkerHandle) -> None:
        """The worker is about to get this task: from now on, its death tells something of it."""
        handed = self._handed[work.id] = _HandedOut(task)
        if work.isolated and len(task.trials) == 1:
            # Should it be poisoned, its record needs its key; to make that here might kill this process.
            [handed.key] = await worker.keys(task)

    def finish(self, work: Work) -> None:
        """The task was carried out."""
        del self._handed[work.id]
        self._suspects.pop(work.id, None)
        self._crash_loop.record_progress()

    async def recover(self, name: str, held: Sequence[Work], begun: float, now: float, why: WorkerDied) -> list[Work]:
        """What is to go out again of what a worker held that was started at `begun`. Its trials are free or claimed."""
        again: list[Work] = []
        for work in held:
            parts = await self._recover_work(work, why)
            self._tasks.finish(work.id, parts)
            again += parts
        tell = log.info if any(work.isolated for work in held) else log.warning
        tell(
            "worker_died", worker=name, cause=why.death, why=why.message,
            tasks=len(held), again=len(again), isolated=sum(work.isolated for work in again),
        )  # fmt: skip
        if not held and why.death != "node":
            self._crash_loop.record_idle_death(begun, now)
        if (verdict := self._crash_loop.verdict) is not None:
            self._run.stop(StoppedEarly(f"{verdict}; of the last is known: {why.message}"))
        return again

    async def _recover_work(self, work: Work, why: WorkerDied) -> tuple[Work, ...]:
        handed = self._handed.pop(work.id, None)
        if handed is None:
            # The worker never saw it.
            return (work,)
        task = handed.task
        left = await self._tasks.remaining_trials(task)
        action = decide_after_death(work, why.death, len(task.trials), left, self._new_id)
        self._track_suspects(work, task, action, why)
        if action.poisoned is not None:
            await self._record_poisoned(handed, why)
        if action.hopeless:
            first = f"{task.judge} × {task.model}: its first question kills the workers"
            self._run.stop(StoppedEarly(f"{first}; {why.message}"))
        return action.again

    def _track_suspects(self, work: Work, task: Task, action: RecoveryAction, why: WorkerDied) -> None:
        """Note what is suspected now, and tell how the search for what kills the workers goes on."""
        if why.death == "node":
            return
        self._suspects.pop(work.id, None)
        judge_model = task.judge, task.model
        for part in action.again:
            if part.isolated and isinstance(part.payload, TrialSubset):
                self._suspects[part.id] = judge_model, len(part.payload.trials)
        names = {"judge": task.judge, "model": task.model}
        match action.again:
            case [Work(isolated=True, deaths=deaths, payload=TrialSubset(trials=[_]))] if deaths:
                [trial] = task.trials
                log.warning(
                    "trial_died_alone", item=trial.item_id, system=trial.system, **names, deaths=deaths,
                    of=DEATHS_ALONE, cause=why.death,
                )  # fmt: skip
            case [Work(isolated=True), *_] if judge_model in self.suspected:
                tell = log.info if work.isolated else log.warning
                search = "their workers died; fresh ones that get nothing else judge them, in halves where they die too"
                tell("trials_suspected", trials=self.suspected[judge_model], **names, why=search)

    async def _record_poisoned(self, handed: _HandedOut, why: WorkerDied) -> None:
        """Record the judgment on a trial that killed every worker it was alone with."""
        task, [trial], key = handed.task, handed.task.trials, handed.key
        own, history = self._tasks.judge_models[task.judge, task.model], trial.history
        if key is None:
            # It dies when it is rendered: its key holds no prompt, and a later change of the plan has it judged afresh.
            key = own.key(trial.system, trial.item_id, (), task.repeat)
        judgment = build_judgment(
            Poisoned(why.death), own.judge, None, history,
            shard=trial.shard, position=trial.position, key=key, template=trial.template, structured=task.structured,
            stage=stage_of(history), worker=RECORDER, bisect_depth=history.depth, notes=(f"died:{why.message}",),
        )  # fmt: skip
        await self._outbox.record(judgments=[judgment])
        self._crash_loop.record_poisoned()
        log.warning(
            "trial_poisoned", item=trial.item_id, system=trial.system, judge=task.judge, model=task.model,
            cause=why.death, why=why.message,
        )  # fmt: skip
