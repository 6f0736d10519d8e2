"""The trials that ended in an error: which they are, and the error's words; a few of any number of them.

They are picked out of the frames that the report is counted from, so that nothing is looked through a second time, and
only what was picked is looked up. The words come from outside: they are short, without secrets and without anything
that a terminal would obey.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from typing import Any, TypeVar

import polars as pl

from runner.ledger.ledger import Ledger
from runner.log import redact
from runner.stats.malformed_examples import abridge

MOST = 100
"""So many stand in the document."""
STATES = ("poisoned", "failed")
"""The rarest and most alarming first."""

_KIND = ("state", "judge", "model", "reason")
_KNOWN = (*_KIND, "system", "item_id", "repeat", "attempts")
_DIED = "died:"

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    state: str
    judge: str
    model: str
    reason: str | None
    system: str
    item_id: str
    repeat: int
    attempts: int
    """Requests that it took."""
    error: str | None
    """In so many words; None: nothing was kept of it."""


class Failures:
    """Keeps the first of each kind of those that pass by."""

    def __init__(self) -> None:
        self._kept: defaultdict[Hashable, list[Row]] = defaultdict(list)

    def watch(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The frames, as they come."""
        for frame in frames:
            failed = frame.filter(pl.col("state").is_in(STATES), ~pl.col("is_control").fill_null(False))
            if len(failed):
                rows = failed.select(*_KNOWN, "notes", "attempt_id")
                for kind, alike in rows.group_by(_KIND, maintain_order=True):
                    kept = self._kept[kind]
                    kept += alike.head(MOST - len(kept)).rows(named=True)
            yield frame

    def listed(self, ledger: Ledger, place: Callable[[str, str], tuple[int, int]]) -> tuple[Failure, ...]:
        """After all frames: up to `MOST`, some of every kind. `place`: where a judge × model stands in the report."""
        picked = pick_by_kind([row for rows in self._kept.values() for row in rows], MOST, itemgetter(*_KIND))
        failures = (Failure(**{name: row[name] for name in _KNOWN}, error=_words(ledger, row)) for row in picked)
        return tuple(sorted(failures, key=lambda each: (STATES.index(each.state), *place(each.judge, each.model))))


def pick_by_kind(entries: Sequence[T], most: int, kind: Callable[[T], Hashable]) -> list[T]:
    """Up to `most` of them, in their order: the first of every kind, then the second, and so on."""
    ranks: defaultdict[Hashable, count[int]] = defaultdict(count)
    ranked = sorted((next(ranks[kind(entry)]), at) for at, entry in enumerate(entries))
    return [entries[at] for at in sorted(at for _, at in ranked[:most])]


def _words(ledger: Ledger, row: Row) -> str | None:
    if row["state"] == "poisoned":
        words = next((note.removeprefix(_DIED) for note in row["notes"] or () if note.startswith(_DIED)), None)
    else:
        words = None if row["attempt_id"] is None else ledger.error_of(row["attempt_id"])
    if words is None:
        return None
    line = " ".join(redact(words.removeprefix(f"{row['reason']}: ")).split())
    return abridge(line, line)
