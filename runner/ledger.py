"""The run's memory: one SQLite file holding every attempt, every judgment, what waits, and what was spent.

It hides SQLite, durability and the file's versions. A batch is one transaction; once `record` has returned, the batch
survives the death of any process and a power cut, and the same batch sent again changes nothing. Calls on one object
must be serialized by the caller (they may come from different threads).
"""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from . import schema
from .errors import InputError, JuryboxError, RunLocked, StoppedEarly
from .plan import Shard
from .protocol import Batch, History, Tally, Usage
from .recording import Counts, JudgeModel, Recorded, Recorder, Spend, history_of, tally_of

__all__ = ["Ledger", "Recorded", "ShardRow", "Spend"]

BUSY_SECONDS = 30.0
CACHE_KIB = 32_768

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ShardRow:
    """A planned shard and how many of its trials have a judgment."""

    shard: Shard
    done: int


class Ledger:
    """The open ledger. One process at a time writes; any number may open it with `read_only` meanwhile."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._db = _Database(path, read_only)
        self._recorder = Recorder(self._db)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; the last one to close folds the write-ahead log into it."""
        self._db.close()

    # --- the plan

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
            self._db.change(schema.CREATE_ASKED)
            self._db.change_many(schema.ADD_ASKED, trials)
            for statement in schema.SORT_ASKED:
                self._db.change(statement)
            for statement in schema.MOVE_JUDGMENTS:
                self._db.change(statement)
            self._db.change(schema.STAMP_RETIRED, time.time())
            self._db.change_many(schema.ADD_SHARD, map(astuple, shards))
            for statement in schema.FINISH_REPLAN:
                self._db.change(statement)
            return int(self._db.value("SELECT coalesce(sum(done), 0) FROM shards"))

    def shards(self) -> list[ShardRow]:
        """The plan, in order of id."""
        return [ShardRow(Shard(*row[:-1]), row[-1]) for row in self._db.rows(schema.SHARDS)]

    # --- recording

    def record(self, batch: Batch) -> Recorded:
        """Commits a batch; one that was committed before is acknowledged and changes nothing."""
        try:
            with self._db.transaction():
                return self._recorder.apply(batch)
        except UnicodeEncodeError:
            # An endpoint can send a lone surrogate, which no UTF-8 file can hold: it is kept as its escape.
            with self._db.transaction():
                return self._recorder.apply(schema.encodable(batch))

    def set_meta(self, key: str, value: str) -> None:
        """Keeps a value with the run."""
        with self._db.transaction():
            self._db.change(schema.PUT_META, key, value)

    # --- reading

    def meta(self, key: str) -> str | None:
        """A value kept with the run."""
        for (value,) in self._db.rows("SELECT value FROM meta WHERE key = ?", key):
            return str(value)
        return None

    def done_positions(self, shard: int) -> set[int]:
        """The trials of a shard that have a judgment."""
        return {position for (position,) in self._db.rows("SELECT position FROM judgments WHERE shard = ?", shard)}

    def pending_positions(self, shard: int) -> set[int]:
        """The trials of a shard that wait to be judged again."""
        return {position for (position,) in self._db.rows("SELECT position FROM pending WHERE shard = ?", shard)}

    def waiting(
        self, model: str, kinds: Sequence[str], limit: int, skip: Collection[tuple[int, int]] = ()
    ) -> list[tuple[int, int, History]]:
        """Up to `limit` trials of a model that wait for a reason in `kinds`, by reason and place, without `skip`."""
        found: list[tuple[int, int, History]] = []
        for why in kinds:
            for shard, position, history in self._db.stream(schema.WAITING, model, why):
                if len(found) == limit:
                    return found
                if (shard, position) not in skip:
                    found.append((shard, position, history_of(history)))
        return found

    def tallies(self) -> dict[JudgeModel, Tally]:
        """Counts of every planned judge × model."""
        counts: Counts = defaultdict(lambda: defaultdict(int))
        for judge, model, trials in self._db.rows("SELECT judge, model, sum(trials) FROM shards GROUP BY judge, model"):
            counts[judge, model]["trials"] = trials
        for judge, model, *states in self._db.rows(schema.TALLIES):
            counts[judge, model].update(zip(schema.TALLY_STATES, states, strict=True))
        for judge, model, why, waiting in self._db.rows(schema.PENDING_COUNTS):
            counts[judge, model][tally_of(why)] += waiting
        spent = self._spend_by_pair()
        return {
            pair: Tally(**count, requests=spent[pair].requests, usage=spent[pair].usage)
            for pair, count in counts.items()
        }

    def spend(self) -> dict[str, Spend]:
        """Everything ever spent in this run, by model, whether the plan still holds it or not."""
        total: dict[str, Spend] = {}
        for (_, model), spend in self._spend_by_pair().items():
            total[model] = total.get(model, Spend()) + spend
        return total

    def earlier(self) -> Spend:
        """What was spent on pairs of judge and model that the plan no longer holds."""
        planned = {(row.shard.judge, row.shard.model) for row in self.shards()}
        return sum((spend for pair, spend in self._spend_by_pair().items() if pair not in planned), Spend())

    def _spend_by_pair(self) -> defaultdict[JudgeModel, Spend]:
        spent: defaultdict[JudgeModel, Spend] = defaultdict(Spend)
        for judge, model, requests, *usage in self._db.rows(schema.SPEND):
            spent[judge, model] = Spend(requests, Usage(*usage))
        return spent

    def judged_keys(self) -> Iterator[bytes]:
        """The keys of all judgments, those set aside by an earlier change of plan too: `replan` takes them back."""
        for (key,) in self._db.stream("SELECT key FROM judgments UNION ALL SELECT key FROM retired"):
            yield key

    def judgment_rows(self, first_shard: int, last_shard: int) -> tuple[list[str], list[Row]]:
        """Column names and the judgments of a range of shards (both ends in), ordered by shard and position."""
        return [*schema.JUDGMENT_COLUMNS, *schema.REPLY_COLUMNS], self._db.rows(
            schema.JUDGMENT_ROWS, first_shard, last_shard
        )

    def attempt_rows(self, after_id: int, limit: int) -> tuple[list[str], list[Row]]:
        """Column names and the next attempts by id; `keys` are 16 bytes each, one after the other."""
        return list(schema.ATTEMPT_COLUMNS), self._db.rows(schema.ATTEMPT_ROWS, after_id, limit)


class _Database:
    """A ledger file of the present version, and SQLite's errors in the run's words."""

    def __init__(self, path: Path, read_only: bool) -> None:
        self._path = path
        if read_only and not path.is_file():
            raise InputError(f"{path}: there is no ledger here")
        if not read_only:
            try:
                # Before SQLite makes it, so that the file and its -wal and -shm never have another mode.
                path.touch(mode=0o600)
            except OSError as error:
                raise RunLocked(f"{path} cannot be written: {error.strerror}") from error
        with self._errors():
            self._sqlite = sqlite3.connect(
                path.absolute().as_uri() + ("?mode=ro" if read_only else "?mode=rw"),
                uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False,
            )  # fmt: skip
        try:
            with self._errors():
                self._require_present_version() if read_only else self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._errors():
            self._sqlite.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._errors():
            self._sqlite.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._sqlite.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself after some errors, such as a full disk.
                if self._sqlite.in_transaction:
                    self._sqlite.execute("ROLLBACK")
                raise

    def value(self, sql: str, *parameters: Any) -> Any:
        row = self._sqlite.execute(sql, parameters).fetchone()
        return None if row is None else row[0]

    def rows(self, sql: str, *parameters: Any) -> list[Row]:
        with self._errors():
            return self._sqlite.execute(sql, parameters).fetchall()

    def stream(self, sql: str, *parameters: Any) -> Iterator[Row]:
        with self._errors():
            yield from self._sqlite.execute(sql, parameters)

    def change(self, sql: str, *parameters: Any) -> int:
        return self._sqlite.execute(sql, parameters).rowcount

    def change_many(self, sql: str, rows: Iterable[Row]) -> None:
        self._sqlite.executemany(sql, rows)

    def _prepare(self) -> None:
        self.change(f"PRAGMA cache_size = -{CACHE_KIB}")
        problem = self.value("PRAGMA quick_check(1)")
        if problem != "ok":
            raise JuryboxError(f"{self._path} is damaged: {problem}")
        if self.value("PRAGMA journal_mode = WAL") != "wal":
            raise RunLocked(
                f"{self._path}: this file system cannot hold a ledger (SQLite has no write-ahead log on it)"
            )
        self.change("PRAGMA synchronous = FULL")
        if self._version() < schema.VERSION:
            with self.transaction():
                for version in range(self._version(), schema.VERSION):
                    for statement in schema.MIGRATIONS[version]:
                        self.change(statement)
                self.change(f"PRAGMA user_version = {schema.VERSION}")

    def _require_present_version(self) -> None:
        version = self._version()
        if version == 0:
            raise InputError(f"{self._path}: there is no ledger in this file yet")
        if version < schema.VERSION:
            raise InputError(f"{self._path} was written by an older jurybox: the run's own command converts it")

    def _version(self) -> int:
        version = int(self.value("PRAGMA user_version"))
        if version > schema.VERSION:
            raise InputError(
                f"{self._path} was written by a newer jurybox"
                f" (ledger version {version}, this one knows {schema.VERSION}): upgrade jurybox"
            )
        return version

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _told(self._path, error) from error


def _told(path: Path, error: sqlite3.Error) -> JuryboxError:
    """What an error of SQLite means for the run."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StoppedEarly(f"{path} cannot grow ({error}): free some space and run the same command again")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return RunLocked(f"{path} is held by another process")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return RunLocked(f"{path} cannot be opened: {error}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return JuryboxError(f"{path} is damaged: {error}")
    return JuryboxError(f"{path}: {error}")
