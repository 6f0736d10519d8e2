"""The run's memory: one SQLite file holding every attempt, every judgment, what waits, and what was spent.

Hides SQLite and durability. A batch is one transaction; once `commit` has returned, the batch survives the death of any
process and a power cut, and the same batch sent again changes nothing. Calls on one object must be serialized by the
caller (they may come from different threads).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from runner.config import Budget
from runner.errors import JuryboxError
from runner.failpoints import failpoint
from runner.messages import Batch, JudgeModelId, Shard, Tally, TrialProgress
from runner.usage import Usage

from . import schema
from .batch_writer import BatchOutcome, BatchWriter, Counts, Spend, Spent, history_of, tallies_of, tally_of
from .database import Database
from .revisions import Revisions
from .segments import Segments
from .spending import NO_BUDGET, Spending

COPYING_MODEL = "copying_model"
RECENT_S = 60.0

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ShardRow:
    shard: Shard
    done: int


class Ledger:
    """The open ledger. One process at a time writes; any number may open it `read_only` meanwhile."""

    def __init__(
        self, path: Path, *, read_only: bool = False, checked: bool = False, budget: Budget = NO_BUDGET
    ) -> None:
        """A file that is opened to be written to is checked for damage.

        `checked`: this session has done so, and it is done again only where the last writer was killed since.
        """
        self._db = Database(path, read_only, checked)
        self.spending = Spending(self._db, budget)
        """What is reserved and spent, and what is left."""
        self._writer = BatchWriter(self._db, self.spending)
        self.revisions = Revisions(self._db)
        """How all judgments together give way to others."""
        self.segments = Segments(self._db)
        """What of it is published, and what is not yet."""

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; the last one to close folds the write-ahead log into it."""
        self._db.close()

    def set_plan(self, shards: Iterable[Shard]) -> None:
        """The first plan of a new run."""
        with self._db.transaction():
            if self._db.value("SELECT EXISTS (SELECT 1 FROM shards)"):
                raise JuryboxError("the run has a plan already; a changed one needs replan")
            self._db.change_many(schema.ADD_SHARD, map(astuple, shards))

    def replan(self, shards: Iterable[Shard], trials: Iterable[tuple[bytes, int, int]]) -> int:
        """Changes the plan to `shards`, whose (key, shard, position) are `trials`; how many are judged already.

        What is judged or waits under a wanted key moves to its new place; other judgments are set aside, and come back
        when a later plan wants them again.
        """
        with self._db.transaction():
            self._db.change(schema.CREATE_PLANNED)
            self._db.change_many(schema.ADD_PLANNED, trials)
            self._db.change_all((*schema.SORT_PLANNED, *schema.MOVE_JUDGMENTS))
            self._db.change(schema.STAMP_RETIRED, time.time())
            self._db.change_many(schema.ADD_SHARD, map(astuple, shards))
            self._db.change_all(schema.FINISH_REPLAN)
            self.segments.record_move()
            return int(self._db.value("SELECT coalesce(sum(done), 0) FROM shards"))

    def shards(self) -> list[ShardRow]:
        return [ShardRow(Shard(*row[:-1]), row[-1]) for row in self._db.rows(schema.SHARDS)]

    def commit(self, batch: Batch) -> BatchOutcome:
        """Commits a batch; one that was committed before is acknowledged and changes nothing."""
        try:
            outcome = self._apply(batch)
        except UnicodeEncodeError:
            # An endpoint can send a lone surrogate, which no UTF-8 file can hold: it is kept as its escape.
            outcome = self._apply(schema.encodable(batch))
        failpoint("after-commit")
        return outcome

    def _apply(self, batch: Batch) -> BatchOutcome:
        with self._db.transaction():
            outcome = self._writer.apply(batch)
            failpoint("before-commit")
        return outcome

    def set_meta(self, key: str, value: str) -> None:
        with self._db.transaction():
            self._db.change(schema.PUT_META, key, value)

    def meta(self, key: str) -> str | None:
        rows = self._db.rows(schema.META, key)
        return str(rows[0][0]) if rows else None

    def done_positions(self, shard: int) -> set[int]:
        return {position for (position,) in self._db.rows("SELECT position FROM judgments WHERE shard = ?", shard)}

    def pending_positions(self, shard: int) -> set[int]:
        return {position for (position,) in self._db.rows("SELECT position FROM pending WHERE shard = ?", shard)}

    def unfinished_trials(self, trials: Iterable[tuple[int, int]]) -> dict[tuple[int, int], TrialProgress]:
        """(shard, position) → history of those trials that are to be judged: empty where nothing is recorded."""
        unfinished: dict[tuple[int, int], TrialProgress] = {}
        for trial in trials:
            if (history := self._db.value(schema.HISTORY, *trial)) is not None:
                unfinished[trial] = history_of(history)
            elif not self._db.value(schema.IS_JUDGED, *trial):
                unfinished[trial] = TrialProgress()
        return unfinished

    def pending_trials(
        self, model: str, kinds: Sequence[str], limit: int, skip: Collection[tuple[int, int]] = ()
    ) -> list[tuple[int, int, TrialProgress]]:
        """Trials of a model that wait for a reason in `kinds`, by reason and place, without `skip`.

        About `limit` of them: all those of a shard come together, since they may share a request.
        """
        waiting: list[tuple[int, int, TrialProgress]] = []
        for why in kinds:
            for shard, position, history in self._db.stream(schema.WAITING, model, why):
                if len(waiting) >= limit and shard != waiting[-1][0]:
                    return waiting
                if (shard, position) not in skip:
                    waiting.append((shard, position, history_of(history)))
        return waiting

    def tallies(self) -> dict[JudgeModelId, Tally]:
        """Counts of every planned judge × model; a trial that is judged again counts by its new outcome alone."""
        counts: Counts = defaultdict(lambda: defaultdict(int))
        for judge, model, trials in self._db.rows("SELECT judge, model, sum(trials) FROM shards GROUP BY judge, model"):
            counts[judge, model]["trials"] = trials
        for judge, model, *states in self._db.rows(schema.TALLIES):
            counts[judge, model].update(zip(schema.TALLY_STATES, states, strict=True))
        for judge, model, why, waiting in self._db.rows(schema.PENDING_COUNTS):
            counts[judge, model][tally_of(why)] += waiting
        for judge, model, state, more in self._db.rows(schema.AGAIN_TALLIES):
            counts[judge, model][state] += more
        spent = self._spend_by_judge_model()
        copying = spent.keys() & self._copying({judge for judge, _ in counts}) - counts.keys()
        return tallies_of([*counts, *copying], counts, spent)

    def recent_rate(self, now: float) -> float | None:
        """Trials a second that replies came for of late, near enough; None where there were none."""
        began, trials = self._db.rows(schema.RECENT_REPLIES, now - RECENT_S)[0]
        return trials / max(1.0, now - began) if trials else None

    def spend(self) -> dict[str, Spend]:
        """Everything ever spent in this run, by model, whether the plan still holds it or not."""
        total: dict[str, Spend] = {}
        for (_, model), spend in self._spend_by_judge_model().items():
            total[model] = total.get(model, Spend()) + spend
        return total

    def earlier(self) -> Spend:
        """What was spent on judge × models that the plan no longer holds."""
        planned = {(row.shard.judge, row.shard.model) for row in self.shards()}
        planned |= self._copying({judge for judge, _ in planned})
        return sum((spend for key, spend in self._spend_by_judge_model().items() if key not in planned), Spend())

    def _copying(self, judges: Iterable[str]) -> set[JudgeModelId]:
        """Each of the judges with the model that copies verdicts and judges nothing."""
        return {(judge, model) for judge in judges if (model := self.meta(COPYING_MODEL)) is not None}

    def _spend_by_judge_model(self) -> Spent:
        rows = self._db.rows(schema.SPEND)
        return Spent(Spend, {(judge, model): Spend(requests, Usage(*usage)) for judge, model, requests, *usage in rows})

    def judged_keys(self) -> Iterator[bytes]:
        """The keys of all judgments, those set aside by an earlier change of plan too: `replan` takes them back."""
        return (key for (key,) in self._db.stream("SELECT key FROM judgments UNION ALL SELECT key FROM retired"))

    def judgment_rows(self, first_shard: int, last_shard: int) -> tuple[list[str], list[Row]]:
        """Column names and the judgments of a range of shards (both ends in), ordered by shard and position."""
        columns = [*schema.JUDGMENT_COLUMNS, *schema.REPLY_COLUMNS]
        return columns, self._db.rows(schema.JUDGMENT_ROWS, first_shard, last_shard)

    def attempt_rows(self, after_id: int, limit: int, before: int = schema.ALL_SHARDS) -> tuple[list[str], list[Row]]:
        """Column names and the next attempts by id; `keys` are 16 bytes each, one after the other.

        With `before` those for trials that the plan has in the shards below it.
        """
        return list(schema.ATTEMPT_COLUMNS), self._db.rows(schema.ATTEMPT_ROWS, after_id, before, limit)

    def error_of(self, attempt: int) -> str | None:
        """What went wrong with an attempt, by its id; None: nothing, or it is not known."""
        ((error,),) = self._db.rows("SELECT error FROM attempts WHERE id = ?", attempt) or ((None,),)
        return None if error is None else str(error)

    def calls(self, before: int = schema.ALL_SHARDS) -> list[Row]:
        """Requests as made, counted by all that tells how they went (see `parse_stats.Call`); `before` as above."""
        return self._db.rows(schema.CALLS, before)

    def request_spans(self) -> list[tuple[float, float]]:
        """Times in which requests were going on, for each minute in which some were sent."""
        return [(start, end) for start, end in self._db.rows(schema.REQUEST_SPANS)]

    def malformed_replies(self, beginning: int, end: int, before: int) -> Iterator[Row]:
        """Replies that were no verdict: judge, model, reading, so many first and last characters; `before` as above."""
        return self._db.stream(schema.UNREAD, beginning, end, before)
