"""One row of the inputs → an item with the template that each judge gives it, or why the row makes none.

What staging does to every row, and what `jurybox try` does to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from judges import Item, Judge
from judges.injection import Injections

from .config import Items
from .mapping import BadRowError, FieldMap, Mapped
from .reference import Match, Reference
from .rows import Fault, Record


class Taken(NamedTuple):
    """A row that makes an item."""

    mapped: Mapped
    match: Match | None
    """The reference row that it answers, if items are joined."""
    templates: list[str | None]
    """By judge, in their order; None where the judge leaves the item out."""


class Intake:
    """Rows of a config's items, joined, mapped and routed."""

    def __init__(self, items: Items, judges: Sequence[Judge], reference: Reference | None) -> None:
        self._items = items
        self._judges = judges
        self._reference = reference
        self._injections = [Injections(judge) for judge in judges]
        self.fields = FieldMap(items)

    def take(self, row: Record | Fault, system: str | None) -> Taken:
        """The item of a row; BadRowError where it makes none. `system` is what the file says."""
        if isinstance(row, Fault):
            raise BadRowError(row.text)
        match = None if self._reference is None else self._reference.match(row)
        mapped = self.fields.item(row, None if match is None else match.columns, system)
        return Taken(mapped, match, [self._template(judge, mapped.item) for judge in self._judges])

    def signs(self, item: Item, templates: Sequence[str | None]) -> list[str | None]:
        """By judge, the signs that the item's text may be meant to steer it, with commas; None where it leaves it."""
        return [
            None if template is None else ",".join(injections.found(item, template))
            for injections, template in zip(self._injections, templates, strict=True)
        ]

    def _template(self, judge: Judge, item: Item) -> str | None:
        if self._items.empty_response == "error" and item.response_is_empty:
            raise BadRowError("the response is empty (items.empty_response: error)")
        template = judge.route(item)
        if template is None:
            if judge.on_unrouted == "error":
                raise BadRowError(f"no route of judge {judge.name!r} matches (group {item.group!r})")
            return None
        if missing := judge.missing(item, template):
            names = ", ".join(f"{name!r} (column {self.fields.column(name)!r})" for name in missing)
            raise BadRowError(f"judge {judge.name!r}, template {template!r}: the row lacks {names}, absent or null")
        if fault := judge.fault(item, template):
            raise BadRowError(f"judge {judge.name!r}: {fault}")
        return template
