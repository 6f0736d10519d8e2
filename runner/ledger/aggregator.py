"""The one writer of a run: takes the workers' batches into the ledger and keeps the live counts.

A plain object, so that `--local` calls it and Ray wraps it alike. It is synchronous and alone on purpose: batches that
queue up before it need no locks, and "exactly one judgment" is a matter of a primary key. It keeps nothing that the
ledger does not hold, so that it may die at any moment and be opened again.
"""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from runner.config import Budget
from runner.errors import DiskFull, RunLocked, StoppedEarly
from runner.filesystem import describe_shortage
from runner.messages import Ack, Batch, Snapshot, Tally

from .ledger import Ledger
from .segments import Segment
from .spending import NO_BUDGET, Starvation

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Aggregator(Ledger):
    """The open ledger with its tallies. Calls are serialized: by a Ray actor, or in process by one executor thread."""

    def __init__(self, path: Path | str, budget: Budget = NO_BUDGET) -> None:
        # Its session has checked the file; after a death of this process, SQLite's log is still there.
        super().__init__(Path(path), checked=True, budget=budget)
        self._starvation = Starvation(budget)
        # Counted once here and kept by what each commit changed: a snapshot every second must not scan the ledger.
        self._tallies = self.tallies()
        self._directory = Path(path).parent
        self._unrecorded: str | None = None

    def record(self, batch: Batch) -> Ack:
        """Commits a batch; what is acknowledged is on the disk."""
        try:
            outcome = self.commit(batch)
        except DiskFull as error:
            self._unrecorded = error.message
            raise
        except RunLocked as error:
            # What is in flight is paid for: not the error of a command that has not begun.
            raise StoppedEarly(f"{error.message}; once that has ended, run the same command again to go on") from None
        self._unrecorded = None
        for judge_model, change in outcome.changes.items():
            tally = self._tallies.get(judge_model, Tally())
            sums = {name.name: getattr(tally, name.name) + getattr(change, name.name) for name in fields(Tally)}
            self._tallies[judge_model] = Tally(**sums)
        self._starvation.observe(batch, outcome.ack)
        return outcome.ack

    def snapshot(self) -> Snapshot:
        """The counts as of the last commit, whether there is room for more, and whether the budget holds it up."""
        shortage = describe_shortage(self._directory)
        return Snapshot(
            dict(self._tallies), self._unrecorded, None if shortage is None else shortage.message,
            self._starvation.senders, self._starvation.describe(),
        )  # fmt: skip

    def begin_segment(self, rows: int) -> Segment | None:
        """The next segment to be published, or the one that was begun; None: there is nothing to publish."""
        return self.segments.begin_segment(rows)

    def finish_segment(self, number: int) -> None:
        self.segments.finish_segment(number)


def _remote(
    method: Callable[Concatenate[Aggregator, _Parameters], _Result],
) -> Callable[Concatenate[AggregatorHandle, _Parameters], Awaitable[_Result]]:
    @functools.wraps(method)
    async def call(self: AggregatorHandle, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        result: _Result = await self._call(method.__name__, *args, **kwargs)
        return result

    return call


class AggregatorHandle(ABC):
    """The aggregator, wherever it runs: its methods as coroutines. `_call` hides how a call gets there and back."""

    record = _remote(Aggregator.record)
    snapshot = _remote(Aggregator.snapshot)
    pending_trials = _remote(Aggregator.pending_trials)
    done_positions = _remote(Aggregator.done_positions)
    pending_positions = _remote(Aggregator.pending_positions)
    unfinished_trials = _remote(Aggregator.unfinished_trials)
    begin_segment = _remote(Aggregator.begin_segment)
    finish_segment = _remote(Aggregator.finish_segment)
    set_meta = _remote(Aggregator.set_meta)

    @abstractmethod
    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Calls the aggregator's method of this name, however long it takes to reach it."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the ledger."""


class LocalAggregator(AggregatorHandle):
    """Runs the aggregator's calls one after another on a thread of its own, so that no commit blocks the loop."""

    def __init__(self, path: Path, budget: Budget) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aggregator")
        self._aggregator = self._thread.submit(Aggregator, path, budget).result()

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = functools.partial(getattr(self._aggregator, method), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def close(self) -> None:
        await self._call("close")
        self._thread.shutdown()
