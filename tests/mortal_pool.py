"""A pool in this process whose workers can die: what a death does to the rest of a run, without a process to kill.

Worker, aggregator and ledger are the real ones. A judge's code that raises `Death` stands for code that ends its
process: every call to that worker is broken off then, and what it had not handed over is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from runner.errors import WorkerDied
from runner.messages import LeaseRenewal, Task, TaskReport, WorkerStatus
from runner.scheduling.pool import LocalPool, WorkerHandle
from runner.session.session import Session


class Death(BaseException):
    """No error that a judge's code may have: the end of its process."""

    def __str__(self) -> str:
        # Whoever deals with what a judge's code raises, of whatever kind, asks what it says.
        raise self


class MortalWorker:
    """A worker until its death."""

    def __init__(self, worker: WorkerHandle) -> None:
        self.name = worker.name
        self._worker = worker
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, task: Task) -> TaskReport:
        report: TaskReport = await self._call(self._worker.run(task))
        return report

    async def renew(self, tick: LeaseRenewal) -> WorkerStatus:
        news: WorkerStatus = await self._call(self._worker.renew(tick))
        return news

    async def keys(self, task: Task) -> list[bytes]:
        keys: list[bytes] = await self._call(self._worker.keys(task))
        return keys

    async def close(self) -> None:
        self._die()

    def _die(self) -> None:
        if not self._dead.done():
            self._dead.set_result(None)

    async def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        call = asyncio.ensure_future(work)
        # Looked at in any case: Python tells of an error that nobody has looked at later, in the midst of another test.
        call.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait({call, self._dead}, return_when=asyncio.FIRST_COMPLETED)
            if not self._dead.done():
                return call.result()
        except (Death, BaseExceptionGroup):
            self._die()
        finally:
            call.cancel()
        raise WorkerDied("it is said to have died")


class MortalPool(LocalPool):
    """As many workers as wanted, and others in their places when they die."""

    def __init__(self, session: Session, size: int) -> None:
        super().__init__(session.config, session.judges, session.run.ledger)
        self.size = size
        self.started = 0

    async def add_worker(self) -> WorkerHandle:
        self.started += 1
        return MortalWorker(await super().add_worker())
