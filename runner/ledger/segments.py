"""What of a ledger is published and what is not yet: segments, whose extent is fixed durably before they are written.

A segment is a range of attempts and a set of judgments. A process that writes it may die at any step: the next one
finds the same segment marked, writes the same names with equal content, and removes the mark. An edition is all
judgments of a run under one plan and revision; a changed plan, a new revision or another place begins another, into
which all of them are published anew. Hides the SQL, and that new judgments go first.
"""

import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from runner.failpoints import failpoint

from . import schema
from .database import Database, Row

NEW, RENEWED, ANEW = range(3)
"""Why a trial is to be published: it was judged; a retry has judged it again; its edition has to hold it too."""

_STATE = "publishing"
_RUN = "run_id"
_ADD = "INSERT OR IGNORE INTO unpublished (priority, shard, position) VALUES (?, ?, ?)"
_PUBLISH_ANEW = (
    "INSERT INTO unpublished SELECT ?1, shard, position FROM judgments j WHERE NOT EXISTS (SELECT 1 FROM"
    " unpublished u WHERE u.priority = ?2 AND u.shard = j.shard AND u.position = j.position)"
)
_MARK = (
    "INSERT INTO publishing SELECT * FROM unpublished ORDER BY priority, shard, position LIMIT ?",
    "DELETE FROM unpublished WHERE (priority, shard, position) <="
    " (SELECT priority, shard, position FROM publishing ORDER BY priority DESC, shard DESC, position DESC LIMIT 1)",
)
_ROWS = (
    f"SELECT {', '.join(f'j.{name}' for name in schema.OTHER_COLUMNS)}, ({schema.REVISION}) + ?,"
    f" {', '.join(f'a.{name}' for name in schema.REPLY_COLUMNS)}"
    " FROM publishing p CROSS JOIN {table} j ON j.shard = p.shard AND j.position = p.position"
    " LEFT JOIN attempts a ON a.id = j.attempt WHERE p.priority {priorities} ORDER BY p.priority, p.shard, p.position"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """What is published together. `after` and `until`: ids of attempts, the first exclusive."""

    number: int
    edition: int
    revision: int
    after: int
    until: int
    judgments: int
    renewed: int
    """New outcomes of a retry that is under way."""
    catches_up: bool
    """With this segment the edition holds everything that was judged when it was marked."""


@dataclass(frozen=True, slots=True)
class Published:
    """How far publishing has come. `place`: where to."""

    place: str
    writer: str
    """Tells this ledger from another of the same run, which was rebuilt or is a copy."""
    on: bool = True
    edition: int = 0
    revision: int = 0
    """That the edition holds."""
    stale: bool = True
    """The judgments have moved since: another edition is to begin."""
    whole: bool = False
    """Everything judged before the edition began is in it."""
    segment: int = 0
    """The last that is done."""
    attempts: int = 0
    """The id of the last that is published."""
    open: Segment | None = None


class Segments:
    def __init__(self, db: Database) -> None:
        self._db = db

    def state(self) -> Published | None:
        """How far publishing has come; None where it never began."""
        rows = self._db.rows(schema.META, _STATE)
        if not rows:
            return None
        data = json.loads(rows[0][0])
        return Published(**data | {"open": None if data["open"] is None else Segment(**data["open"])})

    def run_id(self) -> str:
        """The run's own name, given once and for all places."""
        with self._db.transaction():
            run_id = self._db.value(schema.META, _RUN)
            if run_id is None:
                run_id = secrets.token_hex(16)
                self._db.change(schema.PUT_META, _RUN, run_id)
            return str(run_id)

    def meta_values(self) -> dict[str, str]:
        """The values that a restored ledger needs besides attempts and judgments."""
        return dict(self._db.rows("SELECT key, value FROM meta WHERE key LIKE 'structured %' OR key = 'copying_model'"))

    def enable(self, place: str, *, segment: int, edition: int, attempts: int) -> None:
        """Publish to a place that holds so many segments and editions, and the attempts up to that one."""
        before = self.state()
        writer = secrets.token_hex(8) if before is None else before.writer
        with self._db.transaction():
            self._db.change("DELETE FROM publishing")
            self._put(Published(place, writer, segment=segment, edition=edition, attempts=attempts))

    def disable(self) -> None:
        """Publish no more. What is judged meanwhile belongs to the edition that begins when it is turned on again."""
        state = self.state()
        if state is not None and state.on:
            with self._db.transaction():
                self._put(replace(state, on=False, stale=True))
                self._db.change("DELETE FROM unpublished")

    def begin_edition(self, revision: int) -> None:
        """Publish all judgments anew, as they stand under this revision. What was never published comes first."""
        state = self.state()
        assert state is not None
        with self._db.transaction():
            self._db.change("DELETE FROM unpublished WHERE priority <> ?", NEW)
            self._db.change(_PUBLISH_ANEW, ANEW, NEW)
            self._db.change("INSERT INTO unpublished SELECT ?, shard, position FROM renewed", RENEWED)
            # A segment that is marked is finished as it was marked, in its old edition: its name may be taken already.
            edition = state.edition + 1
            self._put(replace(state, on=True, edition=edition, revision=revision, stale=False, whole=False))

    def record_move(self) -> None:
        """Judgments have other places now, or none; inside the transaction that changes the plan."""
        state = self.state()
        if state is not None:
            for table in ("unpublished", "publishing"):
                self._db.change(f"DELETE FROM {table}")
            self._put(replace(state, stale=True))

    def begin_segment(self, rows: int) -> Segment | None:
        """The next segment, of about so many rows, or the one that was begun; None: there is nothing to publish."""
        with self._db.transaction():
            state = self.state()
            if state is None or not state.on or state.stale:
                return None
            if state.open is not None:
                return state.open
            last = self._last_attempt()
            until = min(last, state.attempts + rows)
            if until == last:
                # Judgments go with or after the attempts that they were made of.
                self._db.change(_MARK[0], rows)
                self._db.change(_MARK[1])
            kinds: dict[int, int] = dict(self._db.rows("SELECT priority = 1, count(*) FROM publishing GROUP BY 1"))
            if not kinds and until == state.attempts and state.whole:
                return None
            catches_up = until == last and not self._db.value("SELECT EXISTS (SELECT 1 FROM unpublished)")
            segment = Segment(
                state.segment + 1, state.edition, state.revision, state.attempts, until,
                judgments=kinds.get(0, 0), renewed=kinds.get(1, 0), catches_up=catches_up,
            )  # fmt: skip
            self._put(replace(state, open=segment))
        failpoint("after-mark")
        return segment

    def finish_segment(self, number: int) -> None:
        """A segment is published; a second call changes nothing."""
        failpoint("before-delete")
        with self._db.transaction():
            state = self.state()
            if state is None or state.open is None or state.open.number != number:
                return
            self._db.change("DELETE FROM publishing")
            whole = state.whole or (state.open.catches_up and state.open.edition == state.edition)
            self._put(replace(state, open=None, segment=number, attempts=state.open.until, whole=whole))

    def rows(self, *, renewed: bool) -> tuple[list[str], list[Row]]:
        """Column names and the judgments of the marked segment: those that stand, or the new outcomes of a retry."""
        table, priorities = ("renewed", "= 1") if renewed else ("judgments", "<> 1")
        rows = self._db.rows(_ROWS.format(table=table, priorities=priorities), int(renewed))
        return [*schema.OTHER_COLUMNS, "revision", *schema.REPLY_COLUMNS], rows

    def count_unpublished(self) -> int:
        """How many judgments and attempts are not published yet."""
        state = self.state()
        if state is None:
            return 0
        waiting = sum(self._db.rows(f"SELECT count(*) FROM {table}")[0][0] for table in ("unpublished", "publishing"))
        return int(waiting + max(0, self._last_attempt() - state.attempts))

    def _last_attempt(self) -> int:
        return int(self._db.rows("SELECT coalesce(max(id), 0) FROM attempts")[0][0])

    def _put(self, state: Published) -> None:
        self._db.change(schema.PUT_META, _STATE, json.dumps(asdict(state)))


def published_meta(run_id: str, state: Published) -> dict[str, str]:
    """What a ledger keeps of a run that is published already."""
    return {_RUN: run_id, _STATE: json.dumps(asdict(state))}


def add_unpublished(db: Database, trials: Iterable[tuple[int, int]], *, renewed: bool = False) -> None:
    """Marks judgments to be published, if the run is; inside the transaction that records them."""
    # A lookup a batch: another process turns it on and off.
    state = db.value(schema.META, _STATE)
    if state is not None and json.loads(state)["on"]:
        db.change_many(_ADD, [(RENEWED if renewed else NEW, *place) for place in trials])
