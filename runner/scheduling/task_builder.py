"""Makes the tasks that workers get: from a shard's staged rows, or from trials that wait in the ledger.

Hides which trials are left out (judged already, waiting, or handed to somebody else), which ones share a request, where
an item's row is, and what is left of a task that was lost with its worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from runner.dataset import Staged
from runner.endpoint.judge_model import JudgeModel
from runner.ledger.aggregator import AggregatorHandle
from runner.messages import Shard, Task, Trial, TrialProgress
from runner.worker.request import item_of

from .batching import Member, compose_batches, split
from .dispatch import Work
from .poison_search import Requests, TrialPosition, TrialSubset

TASK_TRIALS = 500


@dataclass(frozen=True, slots=True)
class NewShard:
    """A shard to be judged, as far as nothing of it is in the ledger yet."""

    shard: Shard


@dataclass(frozen=True, slots=True)
class PendingTrials:
    """A ticket for trials of a model that wait in the ledger; which ones is settled when it is handed out."""

    model: str
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModeProbe:
    """How structured output is enforced for a judge and a model is to be found out."""

    judge: str
    model: str


def trial_position(trial: Trial) -> TrialPosition:
    """Where the trial is in the plan."""
    return trial.shard, trial.position


class TaskBuilder:
    """Turns work into tasks, and knows which waiting trials are out."""

    def __init__(
        self,
        shards: Mapping[int, Shard],
        judge_models: Mapping[tuple[str, str], JudgeModel],
        seed: int,
        staged: Staged,
        aggregator: AggregatorHandle,
        modes: Mapping[tuple[str, str], str],
    ) -> None:
        """`modes`: how structured output is enforced for each judge and model, as far as it is known by now."""
        self._modes = modes
        self._shards = shards
        self._judge_models = judge_models
        self._seed = seed
        self._staged = staged
        self._aggregator = aggregator
        self._out: dict[int, tuple[PendingTrials, frozenset[TrialPosition]]] = {}
        self._reading = asyncio.Lock()

    def count_out(self, ticket: PendingTrials) -> int:
        """How many waiting trials are out on tickets like this one."""
        return sum(len(trials) for other, trials in self._out.values() if other == ticket)

    def finish(self, work_id: int, again: Iterable[Work] = ()) -> None:
        """The work is over: its trials are recorded or left, or were lost and come `again` as other work."""
        self._out.pop(work_id, None)
        for work in again:
            if isinstance(work.payload, TrialSubset) and isinstance(work.payload.of, PendingTrials):
                self._out[work.id] = (work.payload.of, frozenset(work.payload.trials))

    async def remaining_trials(self, task: Task) -> Requests:
        """The trials of a task of which nothing was recorded since it was made, by request."""
        now = await self._aggregator.unfinished_trials(
            [trial_position(trial) for request in task.requests for trial in request]
        )
        by_request = (
            [trial_position(trial) for trial in request if now.get(trial_position(trial)) == trial.history]
            for request in task.requests
        )
        return [places for places in by_request if places]

    async def build(self, work: Work) -> Task | None:
        """The task for this work as things stand now; None where nothing of it is left to do."""
        payload = work.payload
        if isinstance(payload, ModeProbe):
            return Task(work.id, payload.judge, payload.model, 0, (), probe=True)
        if isinstance(payload, NewShard):
            return await self._build_from_shard(work.id, payload)
        if isinstance(payload, TrialSubset):
            return await self._build_from_subset(work.id, payload)
        assert isinstance(payload, PendingTrials)
        return await self._build_from_pending(work.id, payload)

    async def _build_from_shard(self, work_id: int, fresh: NewShard) -> Task | None:
        shard = fresh.shard
        # In this order: a trial that is judged in between is found in one of the two.
        skip = await self._aggregator.pending_positions(shard.id)
        skip |= await self._aggregator.done_positions(shard.id)
        histories = dict.fromkeys((p for p in range(shard.rows) if p not in skip), TrialProgress())
        return await self._assemble(work_id, {shard.id: histories})

    async def _build_from_subset(self, work_id: int, part: TrialSubset) -> Task | None:
        is_new = isinstance(part.of, NewShard)
        histories: dict[int, dict[int, TrialProgress]] = {}
        for (shard_id, position), history in (await self._aggregator.unfinished_trials(part.trials)).items():
            # What waits by now has been answered since, and is none of this.
            if (history == TrialProgress()) == is_new:
                histories.setdefault(shard_id, {})[position] = history
        return await self._assemble(work_id, histories) if histories else None

    async def _build_from_pending(self, work_id: int, again: PendingTrials) -> Task | None:
        out = frozenset().union(*(trials for _, trials in self._out.values()))
        found = await self._aggregator.pending_trials(again.model, again.kinds, TASK_TRIALS, out)
        # Another ticket may have been handed out while this one waited for its answer.
        taken = frozenset().union(*(trials for _, trials in self._out.values()))
        by_kind: Counter[tuple[str, int]] = Counter()
        for shard_id, position, _ in found:
            if (shard_id, position) not in taken:
                shard = self._shards[shard_id]
                by_kind[shard.judge, shard.repeat] += 1
        if not by_kind:
            return None
        # A task holds one judge and repeat: the commonest now, the others with the next ticket.
        kind = by_kind.most_common(1)[0][0]
        histories: dict[int, dict[int, TrialProgress]] = {}
        for shard_id, position, history in found:
            shard = self._shards[shard_id]
            if (shard.judge, shard.repeat) == kind and (shard_id, position) not in taken:
                histories.setdefault(shard_id, {})[position] = history
        self._out[work_id] = (again, frozenset((s, p) for s, held in histories.items() for p in held))
        return await self._assemble(work_id, histories)

    async def _assemble(self, work_id: int, histories: Mapping[int, Mapping[int, TrialProgress]]) -> Task | None:
        def requests() -> tuple[tuple[Trial, ...], ...]:
            return tuple(
                request
                for shard_id, held in histories.items()
                for request in self._requests(self._shards[shard_id], held)
            )

        # Waiting trials may lie far apart: reading their rows must not hold up the ticks.
        async with self._reading:
            made = await asyncio.to_thread(requests)
        shard = self._shards[next(iter(histories))]
        mode = self._modes[shard.judge, shard.model]
        return Task(work_id, shard.judge, shard.model, shard.repeat, made, structured=mode) if made else None

    def _requests(self, shard: Shard, histories: Mapping[int, TrialProgress]) -> Iterator[tuple[Trial, ...]]:
        """The trials that are to be judged, by the request that carries them."""
        judge_model = self._judge_models[shard.judge, shard.model]
        if judge_model.batch is None:
            yield from ((trial,) for trial in self._trials(shard, histories))
            return
        # The composition goes by all trials of the shard, whatever is done of them.
        trials = {
            trial.position: trial for trial in self._trials(shard, dict.fromkeys(range(shard.rows), TrialProgress()))
        }
        members = [
            Member(
                position=trial.position,
                identity=f"{len(trial.system)}:{trial.system}{trial.item_id}",
                question_id=trial.question_id,
                template=trial.template,
                # What a control says is meant to be told to nobody else.
                alone=self._staged.is_control(shard.first_row)
                or judge_model.judge.has_block_marker(item_of(trial), trial.template),
            )
            for trial in trials.values()
        ]
        salt = f"{self._seed} {shard.first_row} {shard.repeat} {shard.judge}"
        for batch in compose_batches(members, judge_model.batch, salt):
            together: dict[tuple[object, ...], list[Trial]] = {}
            for position in batch:
                history = histories.get(position)
                if history is not None:
                    part = next(part for part in split(batch, history.depth) if position in part)
                    same = (part, history.depth, history.malformed, history.refused, history.parked, history.cut)
                    together.setdefault(same, []).append(replace(trials[position], history=history))
            yield from map(tuple, together.values())

    def _trials(self, shard: Shard, histories: Mapping[int, TrialProgress]) -> list[Trial]:
        only = None if len(histories) == shard.rows else [shard.first_row + position for position in histories]
        return [
            Trial(
                shard=shard.id,
                position=item.row - shard.first_row,
                item_id=item.id,
                question_id=item.question_id,
                system=item.system,
                group=item.group,
                template=item.template,
                fields=item.fields,
                history=histories[item.row - shard.first_row],
            )
            for item in self._staged.items(shard.first_row, shard.rows, shard.judge, only=only)
        ]
