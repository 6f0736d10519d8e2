"""A worker that was taken for dead and was not: its trials are judged twice, and stand once, as first told.

And how often a session looks its ledger through for damage.
"""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest
from runs import Workspace, items, model, stats

from runner.config import load_config
from runner.errors import WorkerDied
from runner.ledger.database import Database
from runner.messages import LeaseRenewal, Task, TaskReport, WorkerStatus
from runner.scheduling.pool import LocalPool, WorkerHandle
from runner.session.judging import judge_plan, local_pool
from runner.session.planning import plan_run
from runner.session.session import Session
from runner.simulate import Simulation, running

ROWS = items(range(60))


class Doubted:
    """A real worker that goes on with its first task, though its first caller is told that it has died."""

    def __init__(self, worker: WorkerHandle, unseen: list[asyncio.Task[TaskReport]]) -> None:
        self.name = worker.name
        self._worker = worker
        self._unseen = unseen

    async def run(self, task: Task) -> TaskReport:
        if self._unseen:
            return await self._worker.run(task)
        self._unseen.append(asyncio.create_task(self._worker.run(task)))
        raise WorkerDied(f"{self.name}: not heard of any more")

    async def renew(self, tick: LeaseRenewal) -> WorkerStatus:
        return await self._worker.renew(tick)

    async def keys(self, task: Task) -> list[bytes]:
        return await self._worker.keys(task)

    async def close(self) -> None:
        """The order to end does not reach it either: the pool ends it with the others."""


class DoubtingPool(LocalPool):
    """Takes its first worker for dead too early."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.config, session.judges, session.run.ledger)
        self._unseen: list[asyncio.Task[TaskReport]] = []

    async def add_worker(self) -> WorkerHandle:
        return Doubted(await super().add_worker(), self._unseen)

    async def close(self) -> None:
        await asyncio.gather(*self._unseen)
        await super().close()


def test_the_first_outcome_stands_and_the_late_one_is_an_attempt_marked_so(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(ROWS)
    # The same prompt is answered otherwise when it comes again, and what cannot be read is final: outcomes differ.
    with running(Simulation(latency_ms=20, malformed=0.4, max_faults_in_a_row=None)) as url:
        work.write_config(model(url, limits={"in_flight": 8}), retry={"rejudge": 0})
        with Session(load_config(work.config), tmp_path, work.out) as session:
            judge_plan(session, plan_run(session), make_pool=lambda: DoubtingPool(session))
            report = session.finish()
        requests = stats(url)["requests"]
    work.assert_each_trial_judged_once(len(ROWS))
    attempts = work.query("SELECT id, keys, late_duplicate, reading FROM attempts ORDER BY id")
    assert len(attempts) == requests > len(ROWS)
    judged = dict(work.query("SELECT key, attempt FROM judgments"))
    first: dict[bytes, tuple[int, str]] = {}
    others = 0
    for id_, key, late, reading in attempts:
        assert late == (key in first), "late is whatever is told after the first"
        if late:
            others += (reading == "strict") != (first[key][1] == "strict")
        else:
            first[key] = id_, reading
    assert judged == {key: id_ for key, (id_, _) in first.items()}
    assert others > 0, "some were told otherwise the second time"
    # All that was paid counts, and every answer counts once.
    assert report.requests == requests
    assert report.done == report.planned == work.results().height == len(ROWS)
    published = sum(result.overall.scored for result in report.results)
    assert published == sum(reading == "strict" for _, reading in first.values())


def test_the_ledger_is_looked_through_once_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    value = Database.value

    def seen(self: Database, sql: str, *parameters: Any) -> Any:
        looked.extend([sql] if "quick_check" in sql else [])
        return value(self, sql, *parameters)

    monkeypatch.setattr(Database, "value", seen)
    work = Workspace(tmp_path)
    work.write_items(ROWS[:5])
    with running() as url:
        work.write_config(model(url))
        for number in (1, 2):
            with Session(load_config(work.config), tmp_path, work.out) as session:
                plan = plan_run(session)
                if not plan.complete:
                    judge_plan(session, plan, make_pool=functools.partial(local_pool, session))
                session.finish()
            assert len(looked) == number
