"""What workers hold, so that nothing of it is lost with one that dies, and nobody but the guilty is blamed for it.

Hides what of a dead worker's tasks is in the ledger, what goes out again and to whom, and how a trial that kills its
workers is recorded. The decisions are `poison_search`'s.

The record of a trial that kills its workers.

It is made by the driver, the one process that must not die of it: so none of the judge's code runs here, not even to
render the prompt that the trial's key goes by.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from judges import Poisoned
from runner.endpoint.judge_model import JudgeModel
from runner.errors import StoppedEarly, WorkerDied
from runner.ledger.aggregator import AggregatorHandle
from runner.messages import Judgment, Task, Trial
from runner.worker.judgment import build_judgment
from runner.worker.outbox import Outbox
from runner.worker.request import stage_of

from .dispatch import Work
from .poison_search import DEATHS_ALONE, CrashLoopDetector, RecoveryAction, TrialSubset, decide_after_death
from .pool import WorkerHandle
from .run_control import RunControl
from .task_builder import TaskBuilder, trial_position

RECORDER = "driver"


def poisoned_judgment(
    task: Task, trial: Trial, judge_model: JudgeModel, key: bytes | None, by: str, why: str
) -> Judgment:
    """The judgment on a trial that killed every worker it was alone with. `key`: as its worker told it before it died.

    `by`: crash or hang; `why`: what is known of the last death.
    """
    if key is None:
        # It dies when it is rendered: its key holds no prompt, and a later change of the plan has it judged afresh.
        key = judge_model.key(trial.system, trial.item_id, (), task.repeat)
    history = trial.history
    return build_judgment(
        Poisoned(by), judge_model.judge, None, history,
        shard=trial.shard, position=trial.position, key=key, template=trial.template, structured=task.structured,
        stage=stage_of(history), worker=RECORDER, bisect_depth=history.depth, notes=(f"died:{why}",),
    )  # fmt: skip


log = structlog.get_logger()


@dataclass(slots=True)
class _HandedOut:
    task: Task
    key: bytes | None = None
    """Of the only trial of a suspect, once its worker has told it."""

    @property
    def trials(self) -> list[Trial]:
        return [trial for request in self.task.requests for trial in request]


class CrashRecovery:
    """Told of every task that a worker is handed and of every death; stops the run where it is no use to go on."""

    def __init__(
        self,
        run: RunControl,
        tasks: TaskBuilder,
        aggregator: AggregatorHandle,
        judge_models: Mapping[tuple[str, str], JudgeModel],
        new_id: Callable[[], int],
    ) -> None:
        self._run = run
        self._tasks = tasks
        self._outbox = Outbox(f"{RECORDER}-{uuid.uuid4().hex[:12]}", aggregator.record)
        self._judge_models = judge_models
        self._new_id = new_id
        self._crash_loop = CrashLoopDetector()
        self._handed: dict[int, _HandedOut] = {}
        self._suspects: dict[int, tuple[tuple[str, str], int]] = {}
        """Suspected work by id, wherever it is: its judge and model, and its trials."""

    @property
    def suspected(self) -> dict[tuple[str, str], int]:
        """How many trials of a judge and a model are suspected of killing workers, where any are."""
        found: Counter[tuple[str, str]] = Counter()
        for pair, trials in self._suspects.values():
            found[pair] += trials
        return dict(found)

    async def hand_out(self, work: Work, task: Task, worker: WorkerHandle) -> None:
        """The worker is about to get this task: from now on, its death tells something of it."""
        handed = self._handed[work.id] = _HandedOut(task)
        if work.isolated and len(handed.trials) == 1:
            # Should it be poisoned, its record needs its key; to make that here might kill this process.
            [handed.key] = await worker.keys(task)

    def finish(self, work: Work) -> None:
        """The task was carried out."""
        del self._handed[work.id]
        self._suspects.pop(work.id, None)
        self._crash_loop.record_progress()

    async def recover(
        self, name: str | None, held: Sequence[Work], begun: float, now: float, why: WorkerDied
    ) -> list[Work]:
        """What is to go out again of what a worker held that was started at `begun`. Its trials are free or claimed."""
        again: list[Work] = []
        for work in held:
            parts = await self._recover_work(work, why)
            self._tasks.finish(work.id, parts)
            again += parts
        tell = log.info if any(work.isolated for work in held) else log.warning
        tell(
            "worker_died", worker=name or "a new one", cause=why.death, why=why.message,
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
        sent = [[trial_position(trial) for trial in request] for request in handed.task.requests]
        left = await self._tasks.remaining_trials(handed.task)
        action = decide_after_death(work, why.death, sent, left, self._new_id)
        self._track_suspects(work, handed.task, action, why)
        if action.poisoned is not None:
            await self._record_poisoned(handed, why)
        if action.hopeless:
            task = handed.task
            self._run.stop(
                StoppedEarly(f"{task.judge} × {task.model}: its first question kills the workers; {why.message}")
            )
        return action.again

    def _track_suspects(self, work: Work, task: Task, action: RecoveryAction, why: WorkerDied) -> None:
        """Note what is suspected now, and tell how the search for what kills the workers goes on."""
        if why.death == "node":
            return
        self._suspects.pop(work.id, None)
        pair = task.judge, task.model
        for part in action.again:
            if part.isolated and isinstance(part.payload, TrialSubset):
                self._suspects[part.id] = pair, len(part.payload.trials)
        names = {"judge": task.judge, "model": task.model}
        match action.again:
            case [Work(isolated=True, deaths=deaths, payload=TrialSubset(trials=[_]))] if deaths:
                [trial] = [trial for request in task.requests for trial in request]
                log.warning(
                    "trial_died_alone", item=trial.item_id, system=trial.system, **names, deaths=deaths,
                    of=DEATHS_ALONE, cause=why.death,
                )  # fmt: skip
            case [Work(isolated=True), *_] if pair in self.suspected:
                tell = log.info if work.isolated else log.warning
                search = "their workers died; fresh ones that get nothing else judge them, in halves where they die too"
                tell("trials_suspected", trials=self.suspected[pair], **names, why=search)

    async def _record_poisoned(self, handed: _HandedOut, why: WorkerDied) -> None:
        task, [trial] = handed.task, handed.trials
        judge_model = self._judge_models[task.judge, task.model]
        await self._outbox.record(
            judgments=[poisoned_judgment(task, trial, judge_model, handed.key, why.death, why.message)]
        )
        self._crash_loop.record_poisoned()
        log.warning(
            "trial_poisoned", item=trial.item_id, system=trial.system, judge=task.judge, model=task.model,
            cause=why.death, why=why.message,
        )  # fmt: skip
