"""An open ledger file: a connection to SQLite, and SQLite's errors in the run's words.

It hides the one library that knows the file: durability, transactions, and the check of its version.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.errors import InputError, JuryboxError, LedgerDamaged, RunLocked, StoppedEarly
from runner.filesystem import disk_full_error, translate_full_disk

from . import schema

BUSY_SECONDS = 30.0
CACHE_KIB = 32_768

_CANNOT_GROW = {
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
}
"""What a quota, a limit on the size of files, or a full disk is to SQLite beside SQLITE_FULL."""

Row = tuple[Any, ...]


class Database:
    """The open file. Statements are executed where they are called; a transaction is a block."""

    def __init__(self, path: Path, read_only: bool, checked: bool = False) -> None:
        """`checked`: it is known to be whole, unless whoever wrote to it last left without closing it."""
        self._path = path
        # SQLite takes it away when the last connection is closed.
        self._check = not checked or wal_path(path).exists()
        if read_only and not path.is_file():
            raise InputError(f"{path}: there is no ledger here")
        if not read_only:
            try:
                # Before SQLite makes it, so that the file and its -wal and -shm never have another mode.
                with translate_full_disk(path.parent):
                    path.touch(mode=0o600)
            except OSError as error:
                raise RunLocked(f"{path} cannot be written: {error.strerror}") from error
        self._connect("ro" if read_only else "rw")
        self._file = _identity(path)
        try:
            with self._errors():
                self._open_for_reading() if read_only else self._prepare()
        except BaseException:
            self.close()
            raise

    def _connect(self, mode: str) -> None:
        with self._errors():
            self._sqlite = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode={mode}",
                uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False,
            )  # fmt: skip

    def close(self) -> None:
        with self._errors():
            self._sqlite.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits at its end; an error takes everything back."""
        if _identity(self._path) != self._file:
            # SQLite goes on writing to a file that has no name any more, and at its end all of it is gone.
            problem = "was removed or replaced while jurybox was writing to it: nothing more can be recorded"
            raise StoppedEarly(f"{self._path} {problem}")
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
        """The first column of the first row, or None. Inside a transaction, as what changes something."""
        row = self._sqlite.execute(sql, parameters).fetchone()
        return None if row is None else row[0]

    def rows(self, sql: str, *parameters: Any) -> list[Row]:
        with self._errors():
            return self._sqlite.execute(sql, parameters).fetchall()

    def stream(self, sql: str, *parameters: Any) -> Iterator[Row]:
        """The rows, one after the other."""
        with self._errors():
            yield from self._sqlite.execute(sql, parameters)

    def change(self, sql: str, *parameters: Any) -> int:
        """Executes, and says how many rows that changed."""
        return self._sqlite.execute(sql, parameters).rowcount

    def change_all(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self._sqlite.execute(statement)

    def change_many(self, sql: str, rows: Iterable[Row]) -> None:
        self._sqlite.executemany(sql, rows)

    def _prepare(self) -> None:
        self.change(f"PRAGMA cache_size = -{CACHE_KIB}")
        version = self._require_version(0, schema.VERSION)
        if self._check and (problem := self.value("PRAGMA quick_check(1)")) != "ok":
            raise _damaged(self._path, problem)
        if self.value("PRAGMA journal_mode = WAL") != "wal":
            problem = "this file system cannot hold a ledger (SQLite has no write-ahead log on it)"
            raise RunLocked(f"{self._path}: {problem}")
        self.change("PRAGMA synchronous = FULL")
        if version == 0:
            with self.transaction():
                self.change_all(schema.TABLES)
                self.change(f"PRAGMA user_version = {schema.VERSION}")

    def _open_for_reading(self) -> None:
        try:
            self._require_version(schema.VERSION)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_IOERR_SHMSIZE:
                raise
            # A disk so full that not even the index of the write-ahead log has room on it: held alone, SQLite keeps it
            # in memory. Whoever writes has that file already, so there is nobody to be kept out.
            self._sqlite.close()
            self._connect("rw")
            self.change("PRAGMA query_only = 1")
            self.value("PRAGMA locking_mode = EXCLUSIVE")
            self._require_version(schema.VERSION)

    def _require_version(self, *known: int) -> int:
        """The version of the file, which must be one of `known`; a file without a ledger has version 0."""
        version = int(self.value("PRAGMA user_version"))
        if version in known:
            return version
        if version == 0:
            raise InputError(f"{self._path}: there is no ledger in this file yet")
        problem = f"is a ledger of version {version}, and this jurybox reads version {schema.VERSION} only"
        raise InputError(f"{self._path}: {problem}; use the jurybox that wrote it, or start anew with --out")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _run_error(self._path, error) from error


def _run_error(path: Path, error: sqlite3.Error) -> JuryboxError:
    """What an error of SQLite means for the run."""
    whole_code = getattr(error, "sqlite_errorcode", 0)
    code = whole_code & 0xFF
    if code == sqlite3.SQLITE_FULL or whole_code in _CANNOT_GROW:
        return disk_full_error(path.parent, f"{path.name} cannot grow ({error})")
    if code == sqlite3.SQLITE_IOERR:
        name = getattr(error, "sqlite_errorname", "")
        return StoppedEarly(f"{path}: {error} ({name}): look at the disk, then run the same command again to go on")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return RunLocked(f"{path} is held by another process")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return RunLocked(f"{path} cannot be opened: {error}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path, str(error))
    return JuryboxError(f"{path}: {error}")


def _damaged(path: Path, problem: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"{path} is damaged: {problem}. Nothing was changed in it. Put it aside; then put back a copy of it, or let "
        "the run's own command make it anew from where the run is published (publish:), or start anew with --out"
    )


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None: none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def wal_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
