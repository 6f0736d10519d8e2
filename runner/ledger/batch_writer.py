"""What one batch does to the ledger: attempts appended, trials judged once, waiting ones kept, money counted.

Hides how a batch that comes twice, a trial that two workers judged, and an attempt that came before its judgment are
told apart. It runs inside a transaction that `ledger` has begun, and holds nothing that matters after a restart.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, field

from runner.errors import JuryboxError
from runner.messages import Ack, Attempt, Batch, JudgeModelId, Judgment, PendingTrial, Tally, TrialProgress
from runner.usage import NOTHING, CostBound, Usage

from . import schema
from .database import Database
from .segments import add_unpublished
from .spending import Spending

UNDECIDED_REQUESTS = 10_000
"""How many requests are remembered (and, after a restart, how far back attempts are searched) for a judgment that
arrives in a later batch than its attempt."""

Counts = defaultdict[JudgeModelId, defaultdict[str, int]]


@dataclass(frozen=True, slots=True)
class Spend:
    requests: int = 0
    usage: Usage = field(default_factory=Usage)

    def __add__(self, other: Spend) -> Spend:
        return Spend(self.requests + other.requests, self.usage + other.usage)


Spent = defaultdict[JudgeModelId, Spend]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a batch changed: the acknowledgement, and differences to the tallies of (judge, model)."""

    ack: Ack
    changes: dict[JudgeModelId, Tally]


class BatchWriter:
    def __init__(self, db: Database, spending: Spending) -> None:
        self._db = db
        self._spending = spending
        self._undecided: OrderedDict[tuple[str, str], int] = OrderedDict()

    def apply(self, batch: Batch) -> BatchOutcome:
        """Writes a batch inside the open transaction."""
        size = len(batch.attempts) + len(batch.judgments) + len(batch.waiting) + bool(batch.reserved)
        for last, records, grant in self._db.rows(schema.LAST_BATCH, batch.sender):
            if batch.seq == last and size != records:
                # To acknowledge it would lose what it holds beyond the one that is stored.
                raise JuryboxError(f"batch {last} of {batch.sender} came again with {size} records, not {records}")
            if batch.seq <= last:
                # What an earlier batch was granted its sender knows: it has sent others since.
                bound = CostBound(*json.loads(grant)) if batch.seq == last else NOTHING
                return BatchOutcome(Ack(batch.seq, 0, bound, self._spending.left()), {})
            if batch.seq != last + 1:
                raise JuryboxError(f"batch {batch.seq} of {batch.sender} came after its batch {last}")
        counts: Counts = defaultdict(lambda: defaultdict(int))
        spent = self._add_spend(batch.attempts)
        granted = self._spending.reserve(batch)
        requests = self._add_attempts(batch.attempts)
        names = self._names({trial.shard for trial in batch.judgments} | {trial.shard for trial in batch.waiting})
        duplicates = self._add_judgments(batch, requests, names, counts)
        self._add_waiting(batch.waiting, names, counts)
        self._db.change(schema.PUT_SENDER, batch.sender, batch.seq, size, json.dumps(astuple(granted)))
        self._remember(batch, requests)
        changes = tallies_of(counts.keys() | spent.keys(), counts, spent)
        return BatchOutcome(Ack(batch.seq, duplicates, granted, self._spending.left()), changes)

    def _add_spend(self, attempts: Sequence[Attempt]) -> Spent:
        spent: Spent = defaultdict(Spend)
        settled: defaultdict[JudgeModelId, int] = defaultdict(int)
        for attempt in attempts:
            spent[attempt.judge, attempt.model] += Spend(1, attempt.usage)
            settled[attempt.judge, attempt.model] += attempt.is_settled
        rows = [(*key, spend.requests, *schema.usage_row(spend.usage), settled[key]) for key, spend in spent.items()]
        self._db.change_many(schema.ADD_SPEND, rows)
        return spent

    def _add_attempts(self, attempts: Sequence[Attempt]) -> dict[str, int]:
        """Request → id of the attempt that answered it (the last that was answered, or else the last)."""
        first = (self._db.value("SELECT max(id) FROM attempts") or 0) + 1
        numbered = list(enumerate(attempts, first))
        self._db.change_many(schema.ADD_ATTEMPT, [schema.attempt_row(id_, attempt) for id_, attempt in numbered])
        answered = {attempt.request_id: id_ for id_, attempt in numbered if attempt.state == "ok"}
        return {attempt.request_id: id_ for id_, attempt in numbered} | answered

    def _names(self, shards: Iterable[int]) -> dict[int, JudgeModelId]:
        names: dict[int, JudgeModelId] = {}
        for shard in shards:
            for judge, model in self._db.rows("SELECT judge, model FROM shards WHERE id = ?", shard):
                names[shard] = judge, model
            if shard not in names:
                raise JuryboxError(f"the plan has no shard {shard}")
        return names

    def _add_judgments(
        self, batch: Batch, requests: dict[str, int], names: dict[int, JudgeModelId], counts: Counts
    ) -> int:
        done: dict[int, int] = defaultdict(int)
        late: list[int | None] = []
        places: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        revision = self._db.value(schema.REVISION) if batch.judgments else 0
        for judgment in batch.judgments:
            attempt = self._attempt_of(batch.sender, judgment, requests)
            row = schema.judgment_row(judgment, attempt, revision)
            is_first = self._db.change(schema.ADD_JUDGMENT, *row) == 1
            why = self._db.value(schema.WHY_PENDING, judgment.shard, judgment.position)
            if is_first:
                done[judgment.shard] += 1
            elif why is not None:
                # Judged, and yet it waited: it is judged again, and its old judgment stands until all are replaced.
                self._db.change(schema.ADD_RENEWED, *row)
            else:
                late.append(attempt)
                continue
            places[not is_first].append((judgment.shard, judgment.position))
            count = counts[names[judgment.shard]]
            count[judgment.state] += 1
            if why is not None:
                self._db.change(schema.DROP_PENDING, judgment.shard, judgment.position)
                count[tally_of(why)] -= 1
        for renewed, trials in places.items():
            if trials:
                add_unpublished(self._db, trials, renewed=renewed)
        self._db.change_many(schema.ADD_DONE, [(more, shard) for shard, more in done.items()])
        self._db.change_many(schema.MARK_LATE, [(id_,) for id_ in late if id_ is not None])
        return len(late)

    def _attempt_of(self, sender: str, judgment: Judgment, requests: dict[str, int]) -> int | None:
        if (request := judgment.request_id) is None:
            return None
        known = requests.get(request) or self._undecided.get((sender, request))
        # Else its attempt came in an earlier batch, before this process started. Attempts have no index by request:
        # that would be a random page per row, for this rare case alone.
        return known or self._db.value(schema.RECENT_ATTEMPT, UNDECIDED_REQUESTS, request)

    def _add_waiting(self, waiting: Sequence[PendingTrial], names: dict[int, JudgeModelId], counts: Counts) -> None:
        for trial in waiting:
            before = self._db.value(schema.WHY_PENDING, trial.shard, trial.position)
            if before is None and self._db.value(schema.IS_JUDGED, trial.shard, trial.position):
                continue
            count = counts[names[trial.shard]]
            if before is not None:
                count[tally_of(before)] -= 1
            count[tally_of(trial.why)] += 1
            row = trial.shard, trial.position, trial.key, *names[trial.shard], trial.why, history_text(trial.history)
            self._db.change(schema.PUT_PENDING, *row)

    def _remember(self, batch: Batch, requests: dict[str, int]) -> None:
        # Before the commit: if that fails, the sender's next batch is this one again, and it overwrites these ids.
        decided = {judgment.request_id for judgment in batch.judgments}
        self._undecided |= {(batch.sender, name): id_ for name, id_ in requests.items() if name not in decided}
        for request in decided:
            self._undecided.pop((batch.sender, request or ""), None)
        while len(self._undecided) > UNDECIDED_REQUESTS:
            self._undecided.popitem(last=False)


def tally_of(why: str) -> str:
    """The field of Tally that counts a trial waiting for this reason."""
    return "parked" if why == "parked" else "waiting"


def history_text(history: TrialProgress) -> str:
    return json.dumps(asdict(history))


def history_of(text: str) -> TrialProgress:
    """The inverse of `history_text`."""
    values = json.loads(text)
    return TrialProgress(**values | {"usage": Usage(**values["usage"])})


def tallies_of(judge_models: Iterable[JudgeModelId], counts: Counts, spent: Spent) -> dict[JudgeModelId, Tally]:
    """Counts and spend, of which either may lack a judge × model, as one."""
    return {key: Tally(**counts[key], requests=spent[key].requests, usage=spent[key].usage) for key in judge_models}
