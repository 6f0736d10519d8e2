"""The one writer of a run: takes the workers' batches into the ledger and keeps the live counts.

A plain object, so that `--local` calls it and Ray wraps it alike. It is synchronous and there is one of it on purpose:
a commit is a few milliseconds of one thread's work, batches that queue up before it need no locks, and with one writer
"exactly one judgment" is a matter of a primary key. It keeps nothing that the ledger does not hold, so that it may die
at any moment and be opened again.
"""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from runner.config import Budget
from runner.errors import DiskFull, RunLocked, StoppedEarly
from runner.filesystem import describe_shortage
from runner.messages import Ack, Batch, Snapshot, Tally, TrialProgress

from .ledger import Ledger
from .segments import Segment
from .spending import NO_BUDGET, Starvation

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Aggregator:
    """The open ledger and its tallies. Calls must be serialized (a Ray actor does; in process, one executor thread)."""

    def __init__(self, path: Path | str, budget: Budget = NO_BUDGET) -> None:
        # Its session has checked the file; after a death of this process, SQLite's log is still there.
        self._ledger = Ledger(Path(path), checked=True, budget=budget)
        self._starvation = Starvation(budget)
        # Counted once here and kept by what each commit changed: a snapshot every second must not scan the ledger.
        self._tallies = self._ledger.tallies()
        self._directory = Path(path).parent
        self._unrecorded: str | None = None

    def record(self, batch: Batch) -> Ack:
        """Commits a batch; what is acknowledged is on the disk."""
        try:
            effect = self._ledger.record(batch)
        except DiskFull as error:
            self._unrecorded = error.message
            raise
        except RunLocked as error:
            # What is in flight is paid for: not the error of a command that has not begun.
            raise StoppedEarly(f"{error.message}; once that has ended, run the same command again to go on") from None
        self._unrecorded = None
        for judge_model, change in effect.changes.items():
            self._tallies[judge_model] = _sum(self._tallies.get(judge_model, Tally()), change)
        self._starvation.observe(batch, effect.ack)
        return effect.ack

    def snapshot(self) -> Snapshot:
        """The counts as of the last commit, whether there is room for more, and whether the budget holds it up."""
        shortage = describe_shortage(self._directory)
        return Snapshot(
            dict(self._tallies), self._unrecorded, None if shortage is None else shortage.message,
            self._starvation.senders, self._starvation.describe(),
        )  # fmt: skip

    def pending_trials(
        self, model: str, kinds: Sequence[str], limit: int, skip: Collection[tuple[int, int]] = ()
    ) -> list[tuple[int, int, TrialProgress]]:
        """Trials of a model that are to be judged again: (shard, position, history)."""
        return self._ledger.pending_trials(model, kinds, limit, skip)

    def done_positions(self, shard: int) -> set[int]:
        """The trials of a shard that have a judgment."""
        return self._ledger.done_positions(shard)

    def pending_positions(self, shard: int) -> set[int]:
        """The trials of a shard that wait to be judged again."""
        return self._ledger.pending_positions(shard)

    def unfinished_trials(self, trials: Sequence[tuple[int, int]]) -> dict[tuple[int, int], TrialProgress]:
        """(shard, position) → history of those trials that are still to be judged."""
        return self._ledger.unfinished_trials(trials)

    def begin_segment(self, rows: int) -> Segment | None:
        """The next segment to be published, or the one that was begun; None: there is nothing to publish."""
        return self._ledger.segments.begin_segment(rows)

    def finish_segment(self, number: int) -> None:
        """A segment is published."""
        self._ledger.segments.finish_segment(number)

    def set_meta(self, key: str, value: str) -> None:
        """Keeps a value with the run."""
        self._ledger.set_meta(key, value)

    def close(self) -> None:
        """Closes the ledger."""
        self._ledger.close()


def _sum(left: Tally, right: Tally) -> Tally:
    return Tally(*(getattr(left, name.name) + getattr(right, name.name) for name in fields(Tally)))


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
