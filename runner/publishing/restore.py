"""Restores a lost ledger from what was published of its run: attempts, judgments, revisions, spend.

Judgments come back as those that a changed plan has set aside: the plan that follows takes them to their places by
their keys, so that nothing published is bought again. What no file holds cannot come back: which trials waited to be
judged again (they begin anew), and what was spent and not yet published.

The ledger is written beside its place and put there in one step. The mirror is taken over before it is read, so that
what is read is all there will ever be of the old writer.
"""

import io
import json
import platform
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from judges import PARSER_VERSION
from runner.errors import MeaningChanged
from runner.filesystem import sync
from runner.ledger import schema, segments
from runner.ledger.database import Database
from runner.ledger.revision_diff import WAITING, JudgmentState, RevisionDiff
from runner.ledger.revisions import JUDGED, RETRY, Revision, add_revision
from runner.ledger.run_directory import REBUILT, RunDirectory, check_same_meaning
from runner.ledger.segments import Published

from .destination import DestinationError
from .mirror import ATTEMPTS, EDITION, RENEWED, RESULTS, Entry, LostOwnership, Mirror
from .result_frames import ATTEMPT_COLUMNS, COLUMNS

_RETIRED = ("shard", "position", "key", *schema.OUTCOME_COLUMNS, "judge", "model", "repeat", "retired_at")
_ADD_RETIRED = f"INSERT OR REPLACE INTO retired ({', '.join(_RETIRED)}) VALUES ({', '.join('?' * len(_RETIRED))})"
_ADD_ATTEMPT = schema.ADD_ATTEMPT.replace("INSERT", "INSERT OR IGNORE", 1)
_OLD = "SELECT state, reason, verdict, scores FROM retired WHERE key = ?"
_SPEND = (
    f"INSERT INTO spend (judge, model, requests, {', '.join(schema.USAGE_COLUMNS)}, settled)"
    f" SELECT judge, model, count(*), {', '.join(f'sum({name})' for name in schema.USAGE_COLUMNS)}, count(status)"
    " FROM attempts GROUP BY judge, model"
)
ROWS_AT_ONCE = 5_000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RestoredLedger:
    url: str
    attempts: int
    lacking: int
    """Requests that were published and are not there any more."""
    judgments: int

    @property
    def text(self) -> str:
        counts = f"{self.judgments:,} judgments and {self.attempts:,} requests"
        lacking = f"; {self.lacking:,} requests are not there any more" if self.lacking else ""
        return f"there was no run.db here: rebuilt from {self.url}, {counts}{lacking}"


def restore_ledger(mirror: Mirror, run: RunDirectory, meaning: Mapping[str, Any]) -> RestoredLedger | None:
    """Make the ledger of the mirror's run, which must mean the same; None where nothing was published yet.

    DestinationError where the mirror cannot be read: the run is not to begin anew then.
    """
    run_id = mirror.run_id()
    if run_id is None:
        return None
    url = mirror.place.url
    manifest = mirror.manifest()
    if manifest is not None:
        try:
            check_same_meaning(Path(url), manifest["meaning"], meaning)
        except MeaningChanged as error:
            raise MeaningChanged(f"publish: {error.message}\nOr publish to another place.") from None
    writer = secrets.token_hex(8)
    claimed = _take_over(mirror, writer, run)
    file = run.path / REBUILT
    for lost in (file, run.ledger):
        # A log that is left of a lost ledger would be taken for one of the new.
        for end in ("", "-wal", "-shm"):
            lost.with_name(lost.name + end).unlink(missing_ok=True)
    db = Database(file, read_only=False)
    try:
        filler = _LedgerFiller(db, mirror)
        filler.add_attempts()
        edition, revision = filler.add_judgments()
        # One that was begun in the log alone has its folder too: what was lacking there has just been put empty.
        edition = max(edition, claimed.edition)
        attempts, last = db.rows("SELECT count(*), coalesce(max(id), 0) FROM attempts")[0]
        ((judgments,),) = db.rows("SELECT count(*) FROM retired")
        state = Published(url, writer, edition=edition, revision=revision, segment=claimed.segment, attempts=last)
        with db.transaction():
            db.change(_SPEND)
            for key, value in {**claimed.meta, **segments.published_meta(run_id, state)}.items():
                db.change(schema.PUT_META, key, value)
    finally:
        db.close()
    file.rename(run.ledger)
    sync(run.path)
    return RestoredLedger(url, attempts, last - attempts, judgments)


def _take_over(mirror: Mirror, writer: str, run: RunDirectory) -> Entry:
    """From the entry that this puts into the log on, no other writer goes on; and nothing is added to those before."""
    while True:
        last = mirror.last_entry()
        before = last or Entry(0, writer, 0, 0, 0, 0)
        by = f"{platform.node()}:{run.path.resolve()}"
        claim = replace(before, segment=before.segment + 1, writer=writer, after=before.until, files=(), by=by)
        try:
            mirror.begin(claim)
        except LostOwnership:
            # It wrote in this very moment.
            continue
        if last is not None:
            mirror.seal(last)
        return claim


class _LedgerFiller:
    def __init__(self, db: Database, mirror: Mirror) -> None:
        self._db = db
        self._mirror = mirror

    def add_attempts(self) -> None:
        for name in self._mirror.place.names(ATTEMPTS):
            with self._db.transaction():
                self._db.change_many(_ADD_ATTEMPT, (_attempt(row) for row in self._rows(name, ATTEMPT_COLUMNS)))

    def add_judgments(self) -> tuple[int, int]:
        """The judgment of each trial, the newest; the last edition and revision that were begun."""
        place = self._mirror.place
        names = place.names(RESULTS)
        revisions: list[Row] = []
        edition = revision = 0
        for name in names:
            if name.endswith(EDITION):
                edition, revision = _edition(name)
                revisions = json.loads(place.read(name) or b"[]")
        with self._db.transaction():
            for each in revisions:
                add_revision(self._db, Revision(**each))
        renewed = place.names(RENEWED)
        # By revision; what a retry brought of one came before all of it.
        files = [(_edition(name)[1], 1, name) for name in names if name.endswith(".parquet")]
        files += [(_renewed(name), 0, name) for name in renewed if _renewed(name) <= revision]
        for *_, name in sorted(files):
            with self._db.transaction():
                self._db.change_many(_ADD_RETIRED, (_judgment(row) for row in self._rows(name, COLUMNS)))
        if unfinished := [name for name in renewed if _renewed(name) > revision]:
            revision = max(map(_renewed, unfinished))
            self._settle(revision, unfinished)
        return edition, revision

    def _settle(self, revision: int, names: Sequence[str]) -> None:
        """Let what a retry has brought that is not at its end stand as a revision."""
        changes = RevisionDiff(lambda place: None)
        with self._db.transaction():
            for name in names:
                for row in self._rows(name, COLUMNS):
                    judgment = _judgment(row)
                    key = bytes.fromhex(row["key"])
                    old = self._db.rows(_OLD, key)
                    before = JudgmentState(*old[0]) if old else WAITING
                    after = JudgmentState(*(judgment[_RETIRED.index(column)] for column in JUDGED))
                    changes.add((row["judge"], row["model"]), before, after, (0, 0), key)
                    self._db.change(_ADD_RETIRED, *judgment)
            add_revision(self._db, Revision(revision, RETRY, time.time(), PARSER_VERSION, changes.document()))

    def _rows(self, name: str, columns: Iterable[str]) -> Iterator[Row]:
        content = self._mirror.place.read(name)
        if content is None:
            raise DestinationError(f"{self._mirror.place.url}/{name}: has just been taken away")
        with pq.ParquetFile(io.BytesIO(content)) as file:
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=list(columns)):
                yield from batch.to_pylist()


def _edition(name: str) -> tuple[int, int]:
    """Edition and revision that a file of results belongs to."""
    edition, _, revision = name.split("/")[1].partition("-r")
    return int(edition), int(revision)


def _renewed(name: str) -> int:
    """The revision that an outcome of a retry is for."""
    return int(name.split("/")[1].removeprefix("r"))


def _attempt(row: Row) -> tuple[Any, ...]:
    """In the order of the ledger's columns."""
    own = {
        "id": row["attempt_id"],
        "keys": bytes.fromhex("".join(row["keys"])),
        "late_duplicate": int(row["late_duplicate"]),
        "sent_at": row["sent_at"].timestamp(),
        "cost_usd": row["cost_usd"] or 0.0,
    }
    return tuple(own[name] if name in own else row[name] for name in schema.ATTEMPT_COLUMNS)


def _judgment(row: Row) -> tuple[Any, ...]:
    """In the order of _RETIRED."""
    own = {
        "shard": 0,
        "position": 0,
        "key": bytes.fromhex(row["key"]),
        "scores": None if row["scores"] is None else json.dumps(dict(row["scores"])),
        "notes": json.dumps(row["notes"]),
        "attempt": row["attempt_id"],
        "official": row["official_reading"],
        "judged_at": row["judged_at"].timestamp(),
        "cost_usd": row["cost_usd"] or 0.0,
        "retired_at": time.time(),
    }
    return tuple(own[name] if name in own else row[name] for name in _RETIRED)
