"""Revisions of a run's judgments in the ledger: all of them stand together, and one transaction leads to the next.

Two things make one: `retry`, whose new outcomes are kept beside the judgments until they replace them together, and
`rescore`, which writes the judgments anew from the stored replies. Attempts stay. It hides the SQL of both, and how
each trial's replies are found among all attempts without an index that every run would pay for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from runner.messages import Judgment, TrialProgress
from runner.usage import Usage

from . import schema
from .batch_writer import history_of, history_text
from .database import Database
from .revision_diff import JudgmentState, Place, RevisionDiff, as_text

RETRY = "retry"
"""Why a judged trial waits."""

JUDGED = ("state", "reason", "verdict", "scores")
REPLY = (
    "id", "request_id", "stage", "model", "finish_reason", "judge_reply", "reasoning_text", "refusal_text", "latency_s",
    "worker", "late_duplicate", "reading", "parser_version", "same_verdict", "keys",
)  # fmt: skip

_OLD_AND_NEW = (
    f"SELECT r.shard, r.position, r.key, s.judge, s.model, {', '.join(f'j.{name}' for name in JUDGED)},"
    f" {', '.join(f'r.{name}' for name in JUDGED)} FROM renewed r CROSS JOIN judgments j"
    " ON j.shard = r.shard AND j.position = r.position JOIN shards s ON s.id = r.shard"
)
_OTHER_COLUMNS = ", ".join(schema.OTHER_COLUMNS)
_REPLACE = (
    f"INSERT OR REPLACE INTO judgments ({_OTHER_COLUMNS}, revision) SELECT {_OTHER_COLUMNS}, ? FROM renewed"
    " ORDER BY shard, position"
)
_TO_RETRY = (
    f"SELECT position, key, attempts, {', '.join(schema.USAGE_COLUMNS)}, official FROM judgments j"
    " WHERE shard = ? AND revision <= ? AND instr(?, ',' || state || ',') AND NOT EXISTS"
    " (SELECT 1 FROM pending p WHERE p.shard = j.shard AND p.position = j.position)"
)
_WAITING_AGAIN = (
    "SELECT p.shard, count(*) FROM pending p CROSS JOIN judgments j"
    " ON j.shard = p.shard AND j.position = p.position GROUP BY p.shard"
)

# Replies and trials are both sorted by key before they are joined, as for a changed plan; what comes out is sorted by
# place, so that shard after shard finds its replies in the order they were recorded.
_INDEX = (
    "CREATE TEMP TABLE found_replies (key BLOB, attempt INTEGER, place INTEGER, size INTEGER)",
    "CREATE TEMP TABLE trials (key BLOB PRIMARY KEY, shard INTEGER, position INTEGER) WITHOUT ROWID",
    """
    INSERT OR IGNORE INTO trials SELECT key, shard, position FROM (
        SELECT key, shard, position FROM judgments UNION ALL SELECT key, shard, position FROM pending
    ) ORDER BY key
    """,
)
_ADD_REPLY = "INSERT INTO found_replies (key, attempt, place, size) VALUES (?, ?, ?, ?)"
_SORT = (
    "CREATE TEMP TABLE sorted AS SELECT * FROM found_replies ORDER BY key, attempt",
    "DROP TABLE found_replies",
    """
    CREATE TEMP TABLE replies (
        shard INTEGER, position INTEGER, attempt INTEGER, place INTEGER, size INTEGER,
        PRIMARY KEY (shard, position, attempt)
    ) WITHOUT ROWID
    """,
    """
    INSERT OR IGNORE INTO replies
        SELECT t.shard, t.position, f.attempt, f.place, f.size FROM sorted f CROSS JOIN trials t ON t.key = f.key
        ORDER BY t.shard, t.position, f.attempt
    """,
    "DROP TABLE sorted",
    "DROP TABLE trials",
)
_REPLIES = (
    f"SELECT q.position, q.place, q.size, {', '.join(f'a.{name}' for name in REPLY)}"
    " FROM replies q CROSS JOIN attempts a ON a.id = q.attempt WHERE q.shard = ? ORDER BY q.position, q.attempt"
)
_UNJUDGED = (
    "SELECT position, key, history FROM pending p WHERE shard = ? AND NOT EXISTS (SELECT 1 FROM judgments j"
    " WHERE j.shard = p.shard AND j.position = p.position) ORDER BY position"
)
_PUT = schema.ADD_JUDGMENT.replace("INSERT", "INSERT OR REPLACE", 1).replace(" ON CONFLICT DO NOTHING", "")
_ADD = "INSERT INTO revisions (number, kind, made_at, parser_version, changes) VALUES (?, ?, ?, ?, ?)"
_SET_READING = "UPDATE attempts SET reading = ?, parser_version = ?, same_verdict = ? WHERE id = ?"


@dataclass(frozen=True, slots=True)
class Revision:
    """One step from all judgments to all judgments."""

    number: int
    kind: str
    """`rescore` or `retry`."""
    made_at: float
    parser_version: str
    """Of the reader that made it."""
    changes: dict[str, Any]
    """The document of `RevisionDiff`."""

    def document(self) -> dict[str, Any]:
        names = ("kind", "made_at", "parser_version")
        return {"revision": self.number, **{name: getattr(self, name) for name in names}, **self.changes}

    def text(self) -> str:
        how = "judged again"
        if self.kind == "rescore":
            others = [version for version in self.changes["parser_versions_before"] if version != self.parser_version]
            before = f" (before: {' and '.join(others)})" if others else ""
            how = f"all replies read again, by parser {self.parser_version}{before}"
        return f"revision {self.number}: {how}\n{as_text(self.changes)}"


class Revisions:
    def __init__(self, db: Database) -> None:
        self._db = db

    def current(self) -> int:
        """The number of the revision that stands; 1 is the run itself."""
        return int(self._db.rows(schema.REVISION)[0][0])

    def all(self) -> list[Revision]:
        """All revisions after the first, in order."""
        rows = self._db.rows("SELECT number, kind, made_at, parser_version, changes FROM revisions ORDER BY number")
        return [Revision(number, kind, at, by, json.loads(changes)) for number, kind, at, by, changes in rows]

    def waiting_again(self) -> dict[int, int]:
        """Shard → judged trials in it that wait to be judged again."""
        return dict(self._db.rows(_WAITING_AGAIN))

    def count_renewed(self) -> int:
        """New outcomes that have not replaced their judgments yet."""
        return int(self._db.rows("SELECT count(*) FROM renewed")[0][0])

    def parser_versions(self) -> list[str]:
        return [version for (version,) in self._db.rows("SELECT DISTINCT parser_version FROM judgments ORDER BY 1")]

    def retriable(self, states: Sequence[str], judge: str | None = None, model: str | None = None) -> dict[int, int]:
        """Shard → trials judged as one of `states` that `begin_retry` would let wait again."""
        from_revision = self._from_revision()
        return {shard: len(trials) for shard, _, _, trials in self._to_retry(from_revision, states, judge, model)}

    def begin_retry(self, states: Sequence[str], judge: str | None = None, model: str | None = None) -> None:
        """Let the trials judged as one of `states` wait again, with new budgets.

        Those that wait already stay as they are, and those that an unfinished retry has judged again are left out: the
        same call goes on where it was stopped.
        """
        with self._db.transaction():
            from_revision = self._from_revision()
            for shard, *names, trials in self._to_retry(from_revision, states, judge, model):
                rows = [
                    (shard, position, key, *names, RETRY, history_text(_history_for_retry(from_revision, *old)))
                    for position, key, *old in trials
                ]
                self._db.change_many(schema.PUT_PENDING, rows)
            self._db.change(schema.PUT_META, RETRY, str(from_revision))

    def _from_revision(self) -> int:
        """The revision at which the retry under way began; without one, that which stands."""
        begun = self._db.rows(schema.META, RETRY)
        return int(begun[0][0]) if begun else self.current()

    def _to_retry(
        self, from_revision: int, states: Sequence[str], judge: str | None, model: str | None
    ) -> Iterator[tuple[int, str, str, list[tuple[Any, ...]]]]:
        for shard, judge_name, model_name in self._db.rows("SELECT id, judge, model FROM shards ORDER BY id"):
            if judge not in (None, judge_name) or model not in (None, model_name):
                continue
            if trials := self._db.rows(_TO_RETRY, shard, from_revision, f",{','.join(states)},"):
                yield shard, judge_name, model_name, trials

    def settle(self, name: Callable[[Place], tuple[str, str] | None], parser_version: str) -> Revision | None:
        """Put the new outcomes of a retry in the place of the old judgments, as one revision; None: there are none."""
        with self._db.transaction():
            revision = None
            if self._db.value("SELECT EXISTS (SELECT 1 FROM renewed)"):
                changes = RevisionDiff(name)
                for shard, position, key, judge, model, *states in self._db.stream(_OLD_AND_NEW):
                    old, new = JudgmentState(*states[: len(JUDGED)]), JudgmentState(*states[len(JUDGED) :])
                    changes.add((judge, model), old, new, (shard, position), key)
                revision = self.begin(RETRY, parser_version, changes.document())
                self._db.change(_REPLACE, revision.number)
                self._db.change("DELETE FROM renewed")
            if not self.waiting_again():
                self._db.change("DELETE FROM meta WHERE key = 'retry'")
            return revision

    @contextmanager
    def rescoring(self) -> Iterator[Rescoring]:
        """The transaction in which all judgments are read again."""
        with self._db.transaction():
            self._db.change_all(_INDEX)
            self._db.change_many(_ADD_REPLY, self._places())
            self._db.change_all(_SORT)
            yield Rescoring(self._db, self)
            self._db.change("DROP TABLE replies")

    def _places(self) -> Iterator[tuple[bytes, int, int, int]]:
        """Every trial of every reply: key, attempt, place in the request, size of the request."""
        for attempt, keys in self._db.stream("SELECT id, keys FROM attempts WHERE state = 'ok' AND length(keys) > 0"):
            size = len(keys) // 16
            yield from ((keys[at * 16 : at * 16 + 16], attempt, at, size) for at in range(size))

    def begin(self, kind: str, parser_version: str, changes: dict[str, Any]) -> Revision:
        """The next revision, from now on; inside a transaction."""
        revision = Revision(self.current() + 1, kind, time.time(), parser_version, changes)
        add_revision(self._db, revision)
        return revision


@dataclass(frozen=True, slots=True)
class StoredJudgment:
    judgment: Judgment
    attempt: int | None
    """Id of the one that decided."""
    revision: int
    """That brought it."""


class Rescoring:
    """All judgments while they are read again. `number` is the revision that this will be, if anything changes."""

    def __init__(self, db: Database, revisions: Revisions) -> None:
        self.number = revisions.current() + 1
        self._db = db
        self._revisions = revisions
        self._versions_before = revisions.parser_versions()

    def judgments(self, shard: int) -> list[StoredJudgment]:
        columns = ", ".join(schema.JUDGMENT_COLUMNS)
        rows = self._db.rows(f"SELECT {columns} FROM judgments WHERE shard = ? ORDER BY position", shard)
        return [StoredJudgment(*schema.judgment_from_row(row)) for row in rows]

    def waiting(self, shard: int) -> list[tuple[int, bytes, TrialProgress]]:
        """The trials of a shard that wait and have no judgment: position, key, history."""
        return [(position, key, history_of(history)) for position, key, history in self._db.rows(_UNJUDGED, shard)]

    def replies(self, shard: int) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
        """All replies to the trials of a shard, by position and in their order: position, place, size, the attempt."""
        for position, place, size, *reply in self._db.stream(_REPLIES, shard):
            yield position, place, size, dict(zip(REPLY, reply, strict=True))

    def write(self, shard: int, judgments: Iterable[StoredJudgment], added: int) -> None:
        """Writes judgments of a shard, `added` of them of trials that had none; what has a score waits no longer."""
        for stored in judgments:
            self._db.change(_PUT, *schema.judgment_row(stored.judgment, stored.attempt, stored.revision))
            if stored.judgment.state == "scored":
                self._db.change(schema.DROP_PENDING, shard, stored.judgment.position)
        if added:
            self._db.change(schema.ADD_DONE, added, shard)

    def set_readings(self, readings: Iterable[tuple[str | None, str | None, bool | None, int]]) -> None:
        """Say what attempts were read as: reading, parser version, whether it is the trial's verdict, id."""
        self._db.change_many(_SET_READING, readings)

    def finish(self, parser_version: str, changes: RevisionDiff) -> Revision:
        document = {"parser_versions_before": self._versions_before} | changes.document()
        return self._revisions.begin("rescore", parser_version, document)


def add_revision(db: Database, revision: Revision) -> None:
    """Inside a transaction."""
    changes = json.dumps(revision.changes, ensure_ascii=False)
    db.change(_ADD, revision.number, revision.kind, revision.made_at, revision.parser_version, changes)


def _history_for_retry(from_revision: int, attempts: int, *rest: Any) -> TrialProgress:
    """The history of a judged trial whose retry budgets begin anew."""
    *usage, official = rest
    official = None if official is None else bool(official)
    return TrialProgress(retry=from_revision + 1, attempts=attempts, usage=Usage(*usage), official=official)
