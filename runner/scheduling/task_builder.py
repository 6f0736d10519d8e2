"""Makes the tasks that workers get: from a shard's staged rows, or from trials that wait in the ledger.

Hides which trials are left out (judged already, waiting, or handed to somebody else), which ones share a request, where
an item's row is, and what is left of a task that was lost with its worker.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from runner.dataset import Staged
from runner.dataset.staged_items import StagedItem
from runner.endpoint.judge_model import JudgeModel
from runner.ledger.aggregator import AggregatorHandle
from runner.messages import JudgeModelId, Shard, Task, Trial, TrialPosition, TrialProgress
from runner.worker.request import item_of

from .batching import Member, compose_batches, split
from .dispatch import Work
from .poison_search import Requests, TrialSubset

TASK_TRIALS = 500


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


@dataclass(slots=True, eq=False)
class TaskBuilder:
    """Turns work into tasks, and knows which waiting trials are out.

    Work is made from a shard, as far as nothing of it is in the ledger yet; from the other records of this module; or
    from a part of what was lost.
    """

    shards: Mapping[int, Shard]
    judge_models: Mapping[JudgeModelId, JudgeModel]
    seed: int
    staged: Staged
    aggregator: AggregatorHandle
    modes: Mapping[JudgeModelId, str]
    """How structured output is enforced for each judge and model, as far as it is known by now."""
    _out: dict[int, tuple[PendingTrials, frozenset[TrialPosition]]] = field(default_factory=dict)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

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
        now = await self.aggregator.unfinished_trials([trial.place for trial in task.trials])
        by_request = (
            [trial.place for trial in request if now.get(trial.place) == trial.history] for request in task.requests
        )
        return [places for places in by_request if places]

    async def build(self, work: Work) -> Task | None:
        """The task for this work as things stand now; None where nothing of it is left to do."""
        payload = work.payload
        if isinstance(payload, ModeProbe):
            return Task(work.id, payload.judge, payload.model, 0, (), probe=True)
        if isinstance(payload, Shard):
            return await self._build_from_shard(work.id, payload)
        if isinstance(payload, TrialSubset):
            return await self._build_from_subset(work.id, payload)
        assert isinstance(payload, PendingTrials)
        return await self._build_from_pending(work.id, payload)

    async def _build_from_shard(self, work_id: int, shard: Shard) -> Task | None:
        # In this order: a trial that is judged in between is found in one of the two.
        skip = await self.aggregator.pending_positions(shard.id)
        skip |= await self.aggregator.done_positions(shard.id)
        histories = dict.fromkeys((p for p in range(shard.rows) if p not in skip), TrialProgress())
        return await self._assemble(work_id, {shard.id: histories})

    async def _build_from_subset(self, work_id: int, part: TrialSubset) -> Task | None:
        is_new = isinstance(part.of, Shard)
        histories: dict[int, dict[int, TrialProgress]] = {}
        for (shard_id, position), history in (await self.aggregator.unfinished_trials(part.trials)).items():
            # What waits by now has been answered since, and is none of this.
            if (history == TrialProgress()) == is_new:
                histories.setdefault(shard_id, {})[position] = history
        return await self._assemble(work_id, histories) if histories else None

    async def _build_from_pending(self, work_id: int, again: PendingTrials) -> Task | None:
        pending = await self.aggregator.pending_trials(again.model, again.kinds, TASK_TRIALS, self._all_out())
        # Another ticket may have been handed out while this one waited for its answer.
        out = self._all_out()
        by_kind: dict[tuple[str, int], dict[int, dict[int, TrialProgress]]] = {}
        for shard_id, position, history in pending:
            if (shard_id, position) not in out:
                shard = self.shards[shard_id]
                by_kind.setdefault((shard.judge, shard.repeat), {}).setdefault(shard_id, {})[position] = history
        if not by_kind:
            return None
        # A task holds one judge and repeat: the commonest now, the others with the next ticket.
        histories = max(by_kind.values(), key=lambda held: sum(map(len, held.values())))
        self._out[work_id] = (again, frozenset((s, p) for s, held in histories.items() for p in held))
        return await self._assemble(work_id, histories)

    def _all_out(self) -> frozenset[TrialPosition]:
        return frozenset().union(*(trials for _, trials in self._out.values()))

    async def _assemble(self, work_id: int, histories: Mapping[int, Mapping[int, TrialProgress]]) -> Task | None:
        def read_requests() -> tuple[tuple[Trial, ...], ...]:
            parts = (self._requests(self.shards[shard_id], held) for shard_id, held in histories.items())
            return tuple(chain.from_iterable(parts))

        # Waiting trials may lie far apart: reading their rows must not hold up the renewals of leases.
        async with self._reading:
            requests = await asyncio.to_thread(read_requests)
        shard = self.shards[next(iter(histories))]
        mode = self.modes[shard.judge_model_id]
        return Task(work_id, shard.judge, shard.model, shard.repeat, requests, structured=mode) if requests else None

    def _requests(self, shard: Shard, histories: Mapping[int, TrialProgress]) -> Iterator[tuple[Trial, ...]]:
        """The trials that are to be judged, by the request that carries them."""
        judge_model = self.judge_models[shard.judge_model_id]
        if judge_model.batch is None:
            yield from ((trial,) for trial in self._trials(shard, histories))
            return
        # The composition goes by all trials of the shard, whatever is done of them.
        all_new = dict.fromkeys(range(shard.rows), TrialProgress())
        trials = {trial.position: trial for trial in self._trials(shard, all_new)}
        members = [
            Member(
                position=trial.position,
                identity=f"{len(trial.system)}:{trial.system}{trial.item_id}",
                question_id=trial.question_id,
                template=trial.template,
                # What a control says is meant to be told to nobody else.
                alone=self.staged.is_control(shard.first_row)
                or judge_model.judge.has_block_marker(item_of(trial), trial.template),
            )
            for trial in trials.values()
        ]
        salt = f"{self.seed} {shard.first_row} {shard.repeat} {shard.judge}"
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
        items = self.staged.items(shard.first_row, shard.rows, shard.judge, only=only)
        is_control = self.staged.is_control(shard.first_row)
        return [_trial(shard, item, histories[item.row - shard.first_row], is_control) for item in items]


def _trial(shard: Shard, item: StagedItem, history: TrialProgress, is_control: bool) -> Trial:
    position, names = item.row - shard.first_row, (item.id, item.question_id, item.system, item.group)
    return Trial(shard.id, position, *names, item.template, item.fields, history, is_control)
