"""Conditions on an item: what a judge's routes, cautions and slices are chosen by.

    {any: [CONDITION, …]}   at least one holds         {all: [CONDITION, …]}   each holds
    {not: CONDITION}        it does not hold           {NAME: TEST, …}         each test holds

NAME is `id`, `question_id`, `system`, `group` or one of the item's fields. TEST is a value (equal to it), a list of
values (one of them), or a mapping of `equals`, `in`, `contains`, `ends_with`. Values compare as their prompt text; a
test on what the item lacks does not hold. Several keys in one mapping must all hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .item import Item, text_of
from .strict_yaml import did_you_mean

_IDENTITY = ("id", "question_id", "system", "group")
_TESTS = ("equals", "in", "contains", "ends_with")


@dataclass(frozen=True, slots=True)
class _Test:
    name: str
    one_of: tuple[str, ...]
    contains: str | None = None
    ends_with: str | None = None

    @property
    def fields(self) -> frozenset[str]:
        return frozenset() if self.name in _IDENTITY else frozenset({self.name})

    def matches(self, item: Item) -> bool:
        value = getattr(item, self.name) if self.name in _IDENTITY else item.fields.get(self.name)
        if value is None:
            return False
        text = text_of(value)
        if self.ends_with is not None:
            return text.endswith(self.ends_with)
        return text in self.one_of if self.contains is None else self.contains in text


@dataclass(frozen=True, slots=True)
class _Any:
    parts: tuple[Condition, ...]

    @property
    def fields(self) -> frozenset[str]:
        return frozenset().union(*(part.fields for part in self.parts))

    def matches(self, item: Item) -> bool:
        return any(part.matches(item) for part in self.parts)


@dataclass(frozen=True, slots=True)
class _Not:
    part: Condition

    @property
    def fields(self) -> frozenset[str]:
        return self.part.fields

    def matches(self, item: Item) -> bool:
        return not self.part.matches(item)


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition. `source` is the plain data it was written as."""

    source: Any
    _clauses: tuple[_Test | _Any | _Not | Condition, ...]

    @property
    def fields(self) -> frozenset[str]:
        """The item's fields that it looks at, besides what identifies the item."""
        return frozenset().union(*(clause.fields for clause in self._clauses))

    def matches(self, item: Item) -> bool:
        """Whether the condition holds for the item."""
        return all(clause.matches(item) for clause in self._clauses)


def parse_condition(data: Any) -> Condition:
    """Check a condition; ValueError says what is wrong with it."""
    if not isinstance(data, Mapping) or not data:
        raise ValueError(f"a condition is a mapping such as {{group: [a, b]}}, not {_describe(data)}")
    clauses: list[_Test | _Any | _Not | Condition] = []
    for name, value in data.items():
        if not isinstance(name, str):
            raise ValueError(f"{_describe(name)} is no name" + _boolean_note(name))
        if name in ("any", "all"):
            if not isinstance(value, list) or not value:
                raise ValueError(f"{name}: must be a list of conditions")
            parts = tuple(parse_condition(part) for part in value)
            clauses += [_Any(parts)] if name == "any" else parts
        elif name == "not":
            clauses.append(_Not(parse_condition(value)))
        else:
            clauses += _tests(name, value)
    return Condition(data, tuple(clauses))


def _tests(name: str, value: Any) -> list[_Test]:
    if not isinstance(value, Mapping):
        return [_Test(name, _texts(name, value))]
    tests = []
    for operator, operand in value.items():
        if operator in ("contains", "ends_with"):
            if not isinstance(operand, str) or not operand:
                raise ValueError(f"{name}.{operator}: must be a text" + _boolean_note(operand))
            tests.append(_Test(name, (), **{operator: operand}))
        elif operator in ("equals", "in"):
            if isinstance(operand, list) != (operator == "in"):
                raise ValueError(f"{name}.{operator}: must be a {'list' if operator == 'in' else 'value'}")
            tests.append(_Test(name, _texts(f"{name}.{operator}", operand)))
        else:
            hint = did_you_mean(str(operator), _TESTS) or f"; use {_TESTS}"
            raise ValueError(f"{name}: unknown test {operator!r}{hint}")
    if not tests:
        raise ValueError(f"{name}: says nothing")
    return tests


def _texts(name: str, value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError(f"{name}: the list is empty")
    plain = name.split(".")[0] in _IDENTITY
    for entry in values:
        if not isinstance(entry, str if plain else str | bool | int | float):
            raise ValueError(f"{name}: {_describe(entry)} is no text" + _boolean_note(entry))
    return tuple(text_of(entry) for entry in values)


def _describe(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:60]


def _boolean_note(value: Any) -> str:
    if isinstance(value, bool):
        return " (in YAML 1.1 yes, no, on and off are booleans; quote the word)"
    return ""
