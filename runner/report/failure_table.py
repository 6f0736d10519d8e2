"""The report's table of trials that ended in an error."""

from __future__ import annotations

import shlex
from operator import attrgetter

from runner.unreadable import shown

from .failures import STATES, spread
from .record import Report
from .table import JUDGE, MODEL, NONE, SYSTEM, Column, Table

MOST = 10


def failures(report: Report) -> Table:
    """Some of each kind, with the error's words, and how to see all of them and judge them again."""
    found = report.failures
    several = report.repeats > 1
    rows = [
        (
            entry.judge, entry.model, entry.system, shown(entry.item_id, entry.item_id) or entry.item_id,
            *([str(entry.repeat)] if several else []), f"{entry.state}: {entry.reason or NONE}", entry.error or NONE,
        )
        for entry in spread(found, MOST, attrgetter("state", "judge", "model", "reason"))
    ]  # fmt: skip
    columns = [JUDGE, MODEL, SYSTEM, Column("item", name=True, text=True), *([Column("repeat")] if several else [])]
    columns += [Column("state", text=True), Column("error", text=True)]
    of = f"{shlex.quote(report.directory)} --state {','.join(state for state in STATES if _has(report, state))}"
    more = report.failed - len(rows)
    listed = f"and {more:,} more: `jurybox export {of} --format jsonl` lists all" if more > 0 else ""
    notes = [listed, f"`jurybox retry {of}` judges them again"]
    return Table("Trials that failed", tuple(columns), tuple(rows), " · ".join(filter(None, notes)))


def _has(report: Report, state: str) -> bool:
    return any(getattr(result.overall, state) for result in report.results)
