"""Of what kind the values of each field are, over all items: what decides the type of its column in the results."""

from collections.abc import Mapping
from typing import Any, Literal

Kind = Literal["boolean", "integer", "number", "text", "json"]
"""`json`: several kinds, lists or mappings."""

MOST_FIELDS = 200
"""Fields that are looked at, the first ones; rows whose keys are data would bring any number."""

_KINDS: dict[type, Kind] = {bool: "boolean", int: "integer", float: "number", str: "text"}
_NUMBERS = {"integer", "number"}
_WIDEST = 2**63


class FieldKinds:
    """Gathers the kinds as items are staged. A value that is left out later may leave a wider kind behind."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind | None] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        """Look at the values of one item."""
        kinds = self._kinds
        for name, value in values.items():
            if name not in kinds:
                if len(kinds) == MOST_FIELDS:
                    continue
                kinds[name] = None
            if value is None or kinds[name] == "json":
                continue
            kind = _KINDS.get(type(value), "json")
            if kind == "integer" and not -_WIDEST <= value < _WIDEST:
                kind = "json"
            before = kinds[name]
            if before != kind:
                kinds[name] = kind if before is None else "number" if {before, kind} == _NUMBERS else "json"

    def kinds(self) -> dict[str, Kind]:
        """Field → kind, in the order in which they came; one that is null throughout counts as text."""
        return {name: kind or "text" for name, kind in self._kinds.items()}
