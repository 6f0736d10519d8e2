"""A row of the inputs → an item with the template that each judge gives it, or why the row makes none.

Staging does this to every row, `jurybox try` to one. The reference that rows are joined to is kept in memory.
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from judges import Item, Judge
from judges.injection import InjectionDetector
from runner.errors import ConfigError, ItemError
from runner.items_config import Items, Join

from .compared_responses import compared_fields
from .field_mapping import BadRowError, FieldMap, MappedRow, as_identifier, find_value
from .files import Record, RowError
from .sources import Source

_REMEMBERED = 50


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """A row of the reference. `place` numbers the distinct keys in the order of the file."""

    place: int
    columns: Record
    where: str


class Reference:
    """The rows of the reference by the value of `join.on`."""

    def __init__(self, join: Join, sources: Sequence[Source]) -> None:
        self._on = join.on
        self._find = find_value(join.on)
        self._rows: dict[str, ReferenceRow] = {}
        for source in sources:
            for line, row in source.rows():
                where = f"{source.name}:{line}"
                # The reference is no item: one bad row of it would spoil many, so on_bad does not apply.
                if isinstance(row, RowError):
                    raise ItemError(f"{where}: {row.text} (in the reference of items.join)")
                try:
                    self._add(row, where)
                except BadRowError as error:
                    raise ItemError(f"{where}: {error} (in the reference of items.join)") from None
        if not self._rows:
            raise ItemError(f"items.join.path: {', '.join(source.name for source in sources)}: holds no row")

    def __len__(self) -> int:
        return len(self._rows)

    def match(self, row: Record) -> ReferenceRow:
        """The reference row of an item's row; BadRowError where there is none."""
        key = self._key(row)
        match = self._rows.get(key)
        if match is None:
            raise BadRowError(f"unmatched join: the reference has no row with {self._on} {key!r}")
        return match

    def check_answered(self, answered: dict[str, bytearray]) -> None:
        """`expect: all`: every question, by its place, has an answer from every system."""
        lines = []
        for system, flags in answered.items():
            if missing := [key for key, match in self._rows.items() if not flags[match.place]]:
                some = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
                lines.append(f"system {system!r} lacks {len(missing)} of {len(self._rows)} questions: {some}")
        if lines:
            raise ItemError("items.join.expect: all is not met (rejected rows do not count)\n  " + "\n  ".join(lines))

    def _add(self, row: Record, where: str) -> None:
        key = self._key(row)
        first = self._rows.setdefault(key, ReferenceRow(len(self._rows), row, where))
        if first.columns is not row and json.dumps(first.columns, sort_keys=True) != json.dumps(row, sort_keys=True):
            raise BadRowError(f"{self._on} {key!r} stands at {first.where} with different content")

    def _key(self, row: Record) -> str:
        value: Any = self._find(row)
        if not isinstance(value, str | int):
            name = "null" if value is None else "missing" if not isinstance(value, float | list | dict) else "no text"
            raise BadRowError(f"the column {self._on!r} that items.join.on names is {name}")
        return as_identifier(value, f"{self._on} (items.join.on)")


class BuiltItem(NamedTuple):
    """A row that makes an item."""

    mapped: MappedRow
    match: ReferenceRow | None
    """The reference row that it answers, if items are joined."""
    templates: list[str | None]
    """By judge, in their order; None where the judge leaves the item out."""


class ItemBuilder:
    """Joins, maps and routes the rows of a config's items."""

    def __init__(self, items: Items, judges: Sequence[Judge], reference: Reference | None) -> None:
        self._items = items
        self._judges = judges
        self._reference = reference
        self._detectors = [InjectionDetector(judge) for judge in judges]
        self._compared = {
            (judge.name, template): compared_fields(judge, template) for judge in judges for template in judge.templates
        }
        self.fields = FieldMap(items)
        self._unseen = {name: judge.name for judge in judges for name in sorted(judge.routing_fields)}
        """Fields that a judge's routes look at and no item had so far → the judge."""
        self._names: dict[str, None] = {}
        """Names of the items' fields, for the one that was meant."""

    def build(self, row: Record | RowError, system: str | None) -> BuiltItem:
        """The item of a row; BadRowError where it makes none. `system` is what the file says."""
        if isinstance(row, RowError):
            raise BadRowError(row.text)
        match = None if self._reference is None else self._reference.match(row)
        mapped = self.fields.item(row, None if match is None else match.columns, system)
        if self._unseen:
            self._names.update(dict.fromkeys(list(mapped.item.fields)[:_REMEMBERED]))
            self._unseen = {name: judge for name, judge in self._unseen.items() if name not in mapped.item.fields}
        return BuiltItem(mapped, match, [self._template(judge, mapped.item) for judge in self._judges])

    def check_routes(self) -> None:
        """After the last row: a field that routes look at and no item ever had is a mistake of the judge."""
        for name, judge in self._unseen.items():
            raise ConfigError(f"judge {judge!r}: {self._describe_unseen(name)}")

    def signs(self, item: Item, templates: Sequence[str | None]) -> list[str | None]:
        """By judge, the signs that the item's text may be meant to steer it, with commas; None where it leaves it."""
        return [
            None if template is None else ",".join(detector.detect(item, template))
            for detector, template in zip(self._detectors, templates, strict=True)
        ]

    def _template(self, judge: Judge, item: Item) -> str | None:
        if self._items.empty_response == "error" and item.response_is_empty:
            raise BadRowError("the response is empty (items.empty_response: error)")
        template = judge.route(item)
        if template is None:
            if judge.on_unrouted == "error":
                unseen = [name for name, of in self._unseen.items() if of == judge.name]
                why = "; ".join([f"group {item.group!r}", *map(self._describe_unseen, unseen)])
                raise BadRowError(f"no route of judge {judge.name!r} matches ({why})")
            return None
        if missing := judge.missing(item, template):
            names = ", ".join(f"{name!r} (column {self.fields.column(name)!r})" for name in missing)
            raise BadRowError(f"judge {judge.name!r}, template {template!r}: the row lacks {names}, absent or null")
        if pair := self._compared[judge.name, template]:
            self.fields.check_response(pair[1], item.fields)
        if fault := judge.fault(item, template):
            raise BadRowError(f"judge {judge.name!r}: {fault}")
        return template

    def _describe_unseen(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._names, n=1)
        meant = f"did you mean {near[0]!r}?" if near else f"they have {', '.join(self._names)}"
        return f"its routes look at the field {name!r}, which no item has; {meant}"
