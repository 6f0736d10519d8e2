"""What is left of a task that was lost with its worker, and that nobody else gets it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from pathlib import Path

from judged_run import jsonl, judged_run, trial_key

from runner.endpoint.judge_model import judge_models
from runner.messages import Batch, PendingTrial, Task, TrialPosition, TrialProgress
from runner.scheduling.dispatch import Work
from runner.scheduling.poison_search import TrialSubset
from runner.scheduling.pool import LocalPool
from runner.scheduling.task_builder import PendingTrials, TaskBuilder

TICKET = PendingTrials("gpt", ("malformed",))


def work(number: int, payload: Hashable) -> Work:
    return Work(number, "gpt", 1, payload)


def waits(position: int, malformed: int) -> PendingTrial:
    return PendingTrial(
        0, position, trial_key(0, position), "malformed", TrialProgress(malformed=malformed, attempts=malformed)
    )


def places(task: Task | None) -> list[TrialPosition]:
    return [trial.place for trial in task.trials] if task else []


def test_only_what_nothing_was_recorded_of_is_left_of_a_lost_task(tmp_path: Path) -> None:
    rows = [{"id": f"i{n}", "question": "?", "reference": "r", "response": "a"} for n in range(6)]
    run = judged_run(tmp_path, {"path": str(jsonl(tmp_path / "i.jsonl", rows))}, lambda trial: None)
    shard = run.ledger.shards()[0].shard
    run.ledger.close()

    async def check() -> None:
        pool = LocalPool(run.config, list(run.judges.values()), run.path / "run.db")
        named = judge_models(run.config, list(run.judges.values()))
        assembler = TaskBuilder({shard.id: shard}, named, 0, run.staged, pool.aggregator, dict.fromkeys(named, "off"))
        try:
            task = await assembler.build(work(1, shard))
            assert places(task) == [(0, n) for n in range(6)] and task is not None
            await pool.aggregator.record(Batch("w1", 1, waiting=(waits(4, 1), waits(5, 1))))
            left = await assembler.remaining_trials(task)
            assert left == [[(0, n)] for n in range(4)]

            # What a dead worker sent is recorded late, and is no suspect for that.
            part = TrialSubset(shard, tuple(place for request in left for place in request))
            await pool.aggregator.record(Batch("w1", 2, waiting=(waits(3, 1),)))
            assert places(await assembler.build(work(2, part))) == [(0, 0), (0, 1), (0, 2)]

            again = await assembler.build(work(3, TICKET))
            assert places(again) == [(0, 3), (0, 4), (0, 5)] and again is not None
            await pool.aggregator.record(Batch("w2", 1, waiting=(waits(5, 2),)))
            left = await assembler.remaining_trials(again)
            assert left == [[(0, 3)], [(0, 4)]]
            suspect = work(4, TrialSubset(TICKET, ((0, 3), (0, 4))))
            assembler.finish(3, [suspect])
            assert assembler.count_out(TICKET) == 2
            assert places(await assembler.build(work(5, TICKET))) == [(0, 5)], "the others are spoken for"
            assert places(await assembler.build(suspect)) == [(0, 3), (0, 4)]
            assembler.finish(4)
            assembler.finish(5)
            assert assembler.count_out(TICKET) == 0
        finally:
            await pool.close()

    asyncio.run(check())
