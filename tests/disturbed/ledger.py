"""What stands in a run's ledger at a moment, read by SQL of our own while others may be writing or dying."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Outcome = tuple[Any, ...]
"""State, verdict and scores of a trial."""

_ATTEMPTS = "SELECT id, request_id, stage, try, state, judge_reply FROM attempts"


@dataclass(frozen=True, slots=True)
class Seen:
    """One reading of a ledger: all of it was committed, so all of it must be there from then on."""

    judged: dict[bytes, Outcome] = field(default_factory=dict)
    attempts: frozenset[tuple[Any, ...]] = frozenset()
    senders: dict[str, int] = field(default_factory=dict)
    """Sender → number of its last batch."""

    def lost(self, later: Seen) -> list[str]:
        """What a later reading lacks of this one, or has otherwise."""
        complaints = []
        gone = self.judged.keys() - later.judged.keys()
        if gone:
            complaints.append(f"{len(gone)} judgments that were committed are gone")
        changed = [key for key, outcome in self.judged.items() if later.judged.get(key, outcome) != outcome]
        if changed:
            complaints.append(f"{len(changed)} judgments that were committed have changed")
        if missing := self.attempts - later.attempts:
            complaints.append(f"{len(missing)} attempts that were committed are gone or changed")
        if any(later.senders.get(sender, 0) < seq for sender, seq in self.senders.items()):
            complaints.append("a sender's last batch has gone back")
        return complaints


def query(out: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of the run's ledger; none where there is no ledger, or not that table, yet."""
    if not (out / "run.db").exists():
        return []
    with closing(sqlite3.connect(f"file:{out}/run.db?mode=ro", uri=True, timeout=30)) as ledger:
        try:
            return ledger.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise


def seen(out: Path) -> Seen:
    """The ledger of the run in `out`, as it stands."""
    if not (out / "run.db").exists():
        return Seen()
    with closing(sqlite3.connect(f"file:{out}/run.db?mode=ro", uri=True, timeout=30)) as ledger:
        ledger.execute("BEGIN")  # one moment for all three
        try:
            return Seen(
                {row[0]: row[1:] for row in ledger.execute("SELECT key, state, verdict, scores FROM judgments")},
                frozenset(ledger.execute(_ATTEMPTS)),
                dict(ledger.execute("SELECT sender, seq FROM senders")),
            )
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return Seen()
            raise


def judged(out: Path) -> int:
    """How many trials have a judgment."""
    rows = query(out, "SELECT coalesce(sum(done), 0) FROM shards")
    return int(rows[0][0]) if rows else 0
