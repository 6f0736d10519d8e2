"""What is odd about the items, counted in the one pass of staging: facts, of which the report makes sentences.

Nothing is refused here. Counts are of the rows that are left in the end; a place is that of the first row read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from judges import Item, Judge
from runner.items_config import Items

from .column_profile import COLUMN_NAMES, plain_name

_MISSING_WORDS = frozenset({"nan", "none", "null", "na", "n/a", "<na>"})
_LONGEST_WORD = max(map(len, _MISSING_WORDS)) + 2
_SYSTEM_COLUMNS = frozenset(COLUMN_NAMES["system"].split())
_OTHER_RESPONSES = frozenset(COLUMN_NAMES["other_response"].split())
_MOST_SYSTEMS = 50
_MOST_CHARACTERS = 100
_REMEMBERED = 2_000
"""Questions, and comparisons, of which it is remembered who answered them first."""


@dataclass
class ItemFacts:
    """Counts of rows; what has none is left out."""

    blank: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Field → rows where it is blank and stands in a judge's prompt, rows whose prompts it stands in, first place."""
    missing_words: dict[str, int] = field(default_factory=dict)
    """System → responses that are what programs write for nothing: nan, None, NA."""
    references_repeated: int = 0
    """Responses that are the reference word for word."""
    referenced: int = 0
    """Responses with something in them that have a reference."""
    system_columns: dict[str, dict[str, int]] = field(default_factory=dict)
    """Columns that seem to say whose answer it is, where the config names none → value → rows."""
    stripped_systems: dict[str, int] = field(default_factory=dict)
    """Names of systems that had blanks around them → rows; they count without."""
    unnamed_questions: int = 0
    """Rows that were read with neither an id nor a question: answers to one question cannot be told."""
    one_order: dict[str, int] = field(default_factory=dict)
    """Judges of two responses → rows, where most comparisons are not there with the two exchanged."""


class ItemProfile:
    """Counts items as they are staged; one that is left out later is subtracted with `times=-1`."""

    def __init__(self, items: Items, judges: Sequence[Judge]) -> None:
        self._judges = judges
        self._named = {"id", "question_id", "group", *items.fields.values()}
        self._system_known = items.systems is not None or "system" in items.fields
        self._fields: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        """Templates of the judges → the fields besides the response that stand in them."""
        self._routed: Counter[tuple[str | None, ...]] = Counter()
        self._blank: Counter[str] = Counter()
        self._blank_at: dict[str, str] = {}
        self._missing_words: Counter[str] = Counter()
        self._alike = self._comparable = 0
        self._columns: dict[str, _SystemColumn] | None = None
        self._orders = {judge.name: order for judge in judges if (order := _Order.of(judge))}

    def add(self, item: Item, templates: Sequence[str | None], place: str = "", times: int = 1) -> None:
        fields, key = item.fields, tuple(templates)
        self._routed[key] += times
        for name in self._fields.get(key) or self._fields_of(key):
            value = fields.get(name)
            if type(value) is str and (not value or value.isspace()):
                self._blank[name] += times
                self._blank_at.setdefault(name, place)
        response = fields.get("response")
        if type(response) is str:
            if len(response) <= _LONGEST_WORD and response.strip().lower() in _MISSING_WORDS:
                self._missing_words[item.system] += times
            if type(reference := fields.get("reference")) is str and response:
                self._comparable += times
                self._alike += times * (response == reference)
        if not self._system_known:
            if self._columns is None:
                self._columns = self._candidates(fields)
            for name, column in self._columns.items():
                column.add(fields.get(name), fields.get("question", item.question_id), times)
        for judge, template in zip(self._judges, templates, strict=True):
            if template is not None and judge.name in self._orders:
                self._orders[judge.name].add(item, times)

    def facts(self, stripped_systems: dict[str, int]) -> ItemFacts:
        """After the last row."""
        uses: Counter[str] = Counter()
        for key, rows in self._routed.items():
            uses.update(dict.fromkeys(self._fields_of(key), rows))
        columns = {} if self._columns is None else self._columns
        return ItemFacts(
            blank={name: (rows, uses[name], self._blank_at[name]) for name, rows in self._blank.items() if rows},
            missing_words={system: rows for system, rows in self._missing_words.items() if rows},
            references_repeated=self._alike,
            referenced=self._comparable,
            system_columns={name: dict(column.values) for name, column in columns.items() if column.tells_systems},
            stripped_systems=stripped_systems,
            one_order={name: order.rows for name, order in self._orders.items() if order.is_one and order.rows},
        )

    def system_columns(self) -> list[str]:
        """Columns that seem to say whose answer a row is, as far as rows were read."""
        return list(self.facts({}).system_columns)

    def _fields_of(self, key: tuple[str | None, ...]) -> tuple[str, ...]:
        used = [
            name
            for judge, template in zip(self._judges, key, strict=True)
            if template is not None
            for name in judge.fields(template)
            if name != "response"
        ]
        return self._fields.setdefault(key, tuple(dict.fromkeys(used)))

    def _candidates(self, fields: Any) -> dict[str, _SystemColumn]:
        """The columns of the first row whose names are those of systems; `system` itself is one without being named."""
        if "system" in fields:
            return {}
        names = (name for name in fields if name not in self._named and plain_name(name) in _SYSTEM_COLUMNS)
        return {name: _SystemColumn() for name in names}


class _SystemColumn:
    """A column that may say whose answer a row is: few texts, and one question stands with several of them."""

    def __init__(self) -> None:
        self.values: Counter[str] = Counter()
        self._first: dict[int, str] = {}
        self._paired = False
        self._fits = True

    @property
    def tells_systems(self) -> bool:
        return self._fits and self._paired and 2 * len(self.values) <= max(4, self.values.total())

    def add(self, value: Any, question: Any, times: int) -> None:
        if not self._fits:
            return
        if type(value) is not str or len(value) > _MOST_CHARACTERS:
            self._fits = value is None
            return
        self.values[value] += times
        self._fits = len(self.values) <= _MOST_SYSTEMS
        if not self._paired and type(question) is str:
            if (key := hash(question)) in self._first:
                self._paired = self._first[key] != value
            elif len(self._first) < _REMEMBERED:
                self._first[key] = value


class _Order:
    """In which order a judge of two responses sees them."""

    def __init__(self, first: str, second: str) -> None:
        self._names = first, second
        self.rows = 0
        self._seen: dict[tuple[int, int], bool] = {}
        """Question and responses → whether the other order was seen as well."""

    @staticmethod
    def of(judge: Judge) -> _Order | None:
        """None for a judge of one response."""
        for template in judge.templates:
            fields = judge.fields(template)
            other = next((name for name in fields if plain_name(name) in _OTHER_RESPONSES), None)
            if "response" in fields and other is not None:
                return _Order("response", other)
        return None

    @property
    def is_one(self) -> bool:
        return 2 * sum(self._seen.values()) < len(self._seen)

    def add(self, item: Item, times: int) -> None:
        self.rows += times
        first, second = (hash(str(item.fields.get(name))) for name in self._names)
        question = hash(str(item.fields.get("question")))
        if (back := (question ^ second, first)) in self._seen:
            self._seen[back] = True
        elif len(self._seen) < _REMEMBERED:
            self._seen.setdefault((question ^ first, second), False)
