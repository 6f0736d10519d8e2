"""A look at items files before anything is decided about them: which columns, of which types, with which values.

Hides that only the first rows are read, and that nested columns are looked at by their dotted paths.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from .config import Items
from .errors import InputError
from .lmevallogs import LIKELIHOODS
from .rows import Fault, Record
from .sources import Source, item_sources, reference_sources

LOOKED_AT = 20_000
"""Rows that are looked at; of longer files the number of rows stays unknown."""
_WORDS = ("true", "false", "yes", "no", "correct", "incorrect")
"""What a label may say for true and false; digits are taken for numbers here."""
_DEPTH = 3
_SHORT = 60
_KEPT = 50
_SHOWN = 2


@dataclass(slots=True)
class Column:
    """What is known of one column, or of one place in nested columns."""

    name: str
    """As `items.fields` names it: nested places by their path with dots."""
    types: Counter[str] = field(default_factory=Counter)
    """text, true/false, whole number, number, list, object, null → rows."""
    values: Counter[str] = field(default_factory=Counter)
    """Short values as text → rows; no more than a few dozen."""
    examples: list[str] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """Row → a hash of its value, where that is a text, a number or true/false."""

    @property
    def given(self) -> int:
        """Rows that have a value."""
        return sum(self.types.values()) - self.types["null"]

    @property
    def distinct(self) -> int:
        """Different values; lists and objects do not count."""
        return len(set(self.places.values()))

    @property
    def kind(self) -> str:
        """`bool`, `number`, `text`, `list`, `object` or `empty`; words for true and false count as bool."""
        found = {name for name, rows in self.types.items() if rows and name != "null"}
        if not found:
            return "empty"
        if found == {"true/false"}:
            return "bool"
        if found <= {"whole number", "number"}:
            return "number"
        if found == {"text"} and self._all(_is_word):
            return "bool"
        if found == {"text"} and self._all(_is_number):
            return "number"
        return "text" if "text" in found else "list" if "list" in found else "object" if "object" in found else "text"

    @property
    def type(self) -> str:
        """The types as a person reads them."""
        return " or ".join(name for name, _ in self.types.most_common() if name != "null") or "null"

    def repeats_within(self, other: Column | None) -> bool:
        """Whether a value stands twice, or twice beside the same value of another column."""
        pairs = self.places.values() if other is None else [(v, other.places.get(r)) for r, v in self.places.items()]
        return len(set(pairs)) < len(self.places)

    def add(self, row: int, value: Any) -> None:
        """A value of one row."""
        self.types[_type(value)] += 1
        if value is None:
            return
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(self.examples) < _SHOWN and text.strip() and text[:_SHORT] not in self.examples:
            self.examples.append(text[:_SHORT])
        if isinstance(value, list | dict):
            return
        self.places[row] = hash(text)
        if len(text) <= _SHORT and (text in self.values or len(self.values) < _KEPT):
            self.values[text] += 1

    def _all(self, test: Any) -> bool:
        return sum(self.values.values()) == self.given and all(test(value) for value in self.values)


@dataclass(slots=True)
class Survey:
    """What the first rows of the items hold."""

    files: list[str]
    rows: int
    complete: bool
    """Whether these are all rows there are."""
    columns: dict[str, Column]
    """By name, in the order of the file; an object's places stand in its stead."""
    joined: set[str]
    """Columns that come from the joined reference."""
    left_out: list[str]
    """Files of lm-evaluation-harness that hold log-likelihoods, and so nothing to judge."""

    @property
    def size(self) -> str:
        """How many rows there are, as far as is known."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return rows if self.complete else f"more than {rows}"

    def has_column(self, name: str) -> bool:
        """Whether a column, or a place in nested ones, has this name."""
        return any(known == name or known.startswith(f"{name}.") for known in self.columns)


def survey(items: Items, base: Path, most: int = LOOKED_AT) -> Survey:
    """Look at the first `most` rows of the items, and of what is joined to them; InputError where there are none."""
    sources = item_sources(items, base)
    columns: dict[str, Column] = {}
    left_out: list[str] = []
    rows, complete = _look(sources, columns, most, left_out, skip=items.on_bad == "skip")
    reference: dict[str, Column] = {}
    _look(reference_sources(items, base), reference, most, left_out)
    joined = {name: column for name, column in reference.items() if name not in columns}
    return Survey([source.name for source in sources], rows, complete, columns | joined, set(joined), left_out)


def common_columns(items: list[Source], reference: list[Source]) -> list[str]:
    """Columns that both have and whose values differ from row to row of the reference."""
    left: dict[str, Column] = {}
    right: dict[str, Column] = {}
    _look(items, left, LOOKED_AT, [])
    _look(reference, right, LOOKED_AT, [])
    return [name for name, column in right.items() if name in left and not column.repeats_within(None)]


def _look(
    sources: list[Source], columns: dict[str, Column], most: int, left_out: list[str], skip: bool = False
) -> tuple[int, bool]:
    """Rows seen, and whether these are all. `skip`: bad rows are passed over, as staging will leave them out."""
    rows = 0
    first: str | None = None
    for source in sources:
        with closing(source.rows()) as found:
            for line, row in islice(found, most - rows + 1):
                if isinstance(row, Fault):
                    first = first or f"{source.name}:{line}: {row.text}"
                    if row.text == LIKELIHOODS:  # a file is of one task: the next row would be the same
                        left_out.append(source.name)
                        break
                    if skip:
                        continue
                    raise InputError(f"{source.name}:{line}: {row.text}")
                if rows == most:
                    return rows, False
                _add(columns, rows, row)
                rows += 1
    if sources and not rows:
        raise InputError(first or f"{', '.join(source.name for source in sources)}: holds no row")
    return rows, True


def _add(columns: dict[str, Column], number: int, row: Record, before: str = "", depth: int = 1) -> None:
    for name, value in row.items():
        path = before + name
        if isinstance(value, dict) and value and depth < _DEPTH:
            _add(columns, number, value, f"{path}.", depth + 1)
        else:
            columns.setdefault(path, Column(path)).add(number, value)


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true/false"
        case int():
            return "whole number"
        case float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


def _is_word(value: str) -> bool:
    return value.strip().lower() in _WORDS


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
