"""The joined reference: rows by their key, loaded once and kept in memory, and which of them each system answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ItemError
from .inputs import Join
from .mapping import BadRowError, identifier, lookup
from .rows import Fault, Record
from .sources import Source


@dataclass(frozen=True, slots=True)
class Match:
    """A row of the reference. `place` numbers the distinct keys in the order of the file."""

    place: int
    columns: Record
    where: str


class Reference:
    """Every row of the reference by the value of `join.on`."""

    def __init__(self, join: Join, sources: Sequence[Source]) -> None:
        self._on = join.on
        self._find = lookup(join.on)
        self._rows: dict[str, Match] = {}
        for source in sources:
            for line, row in source.rows():
                where = f"{source.name}:{line}"
                # The reference is no item: one bad row of it would spoil many, so on_bad does not apply.
                if isinstance(row, Fault):
                    raise ItemError(f"{where}: {row.text} (in the reference of items.join)")
                try:
                    self._add(row, where)
                except BadRowError as error:
                    raise ItemError(f"{where}: {error} (in the reference of items.join)") from None
        if not self._rows:
            raise ItemError(f"items.join.path: {', '.join(source.name for source in sources)}: holds no row")

    def __len__(self) -> int:
        return len(self._rows)

    def match(self, row: Record) -> Match:
        """The reference row of an item's row; BadRowError where there is none."""
        key = self._key(row)
        match = self._rows.get(key)
        if match is None:
            raise BadRowError(f"unmatched join: the reference has no row with {self._on} {key!r}")
        return match

    def check_answered(self, answered: dict[str, bytearray]) -> None:
        """`expect: all`: every reference question has an answer from every system."""
        lines = []
        for system, flags in answered.items():
            missing = [key for key, match in self._rows.items() if not flags[match.place]]
            if missing:
                shown = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
                lines.append(f"system {system!r} lacks {len(missing)} of {len(self._rows)} questions: {shown}")
        if lines:
            raise ItemError("items.join.expect: all is not met (rejected rows do not count)\n  " + "\n  ".join(lines))

    def _add(self, row: Record, where: str) -> None:
        key = self._key(row)
        known = self._rows.setdefault(key, Match(len(self._rows), row, where))
        if known.columns is not row and _text(known.columns) != _text(row):
            raise BadRowError(f"{self._on} {key!r} stands at {known.where} with different content")

    def _key(self, row: Record) -> str:
        value: Any = self._find(row)
        if not isinstance(value, str | int):
            name = "null" if value is None else "missing" if not isinstance(value, float | list | dict) else "no text"
            raise BadRowError(f"the column {self._on!r} that items.join.on names is {name}")
        return identifier(value, f"{self._on} (items.join.on)")


def _text(row: Record) -> str:
    return json.dumps(row, sort_keys=True)
