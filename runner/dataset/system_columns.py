"""Columns that seem to say whose answer a row is, where the config names none: by name and by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from .column_profile import plain_name
from .field_mapping import find_value

_SYSTEMS = (
    "system model llm lm slm engine generator submission answerer responder assistant method agent bot chatbot "
    "checkpoint pipeline deployment contestant"
)
_ENDINGS = "id name key version tag slug used"
_OTHERS = (
    "judge judging grader grading evaluator evaluation eval scorer rater annotator label labels reference gold golden "
    "teacher embedding embedder reranker retriever retrieval reward user question prompt operating"
)
"""Words of columns that name another model than the one that answered."""
_IS_SYSTEM, _IS_ENDING, _IS_OTHER = (frozenset(words.split()) for words in (_SYSTEMS, _ENDINGS, _OTHERS))
_MAX_DEPTH = 3
_SEARCHED = 1_000
"""Rows that are searched for such columns."""
_MOST_SYSTEMS = 50
_MOST_CHARACTERS = 100
_REMEMBERED = 2_000
"""Questions of which it is remembered who answered them first."""


@lru_cache(maxsize=10_000)
def names_system(path: str) -> bool:
    """Whether a column of this name, nested ones with dots, would say whose answer a row is."""
    words = plain_name(path).split("_")
    while len(words) > 1 and words[-1] in _IS_ENDING:
        words.pop()
    return words[-1] in _IS_SYSTEM and _IS_OTHER.isdisjoint(words)


class SystemColumns:
    """Watches the rows for such columns. `named`: columns of which the config says what they are."""

    def __init__(self, named: Collection[str]) -> None:
        self._named = named
        self._columns: dict[str, _Column] = {}
        self._rows = 0

    def add(self, fields: Mapping[str, Any], question: Any, times: int) -> None:
        """`system` itself needs no mapping."""
        if "system" in fields:
            return
        if self._rows < _SEARCHED:
            self._rows += 1
            for path in _paths(fields):
                if path not in self._columns and path not in self._named and names_system(path):
                    self._columns[path] = _Column(path)
        for column in self._columns.values():
            column.add(fields, question, times)

    def found(self) -> dict[str, dict[str, int]]:
        """Column → value → rows."""
        return {name: dict(column.values) for name, column in self._columns.items() if column.tells_systems}


def _paths(fields: Mapping[str, Any], before: str = "", depth: int = 1) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            yield from _paths(value, f"{before}{name}.", depth + 1)
        else:
            yield before + name


class _Column:
    """A column that may say whose answer a row is: few short texts, and one question stands with several of them."""

    def __init__(self, path: str) -> None:
        self.values: Counter[str] = Counter()
        self._find = find_value(path)
        self._first: dict[int, str] = {}
        self._paired = False
        self._fits = True

    @property
    def tells_systems(self) -> bool:
        return self._fits and self._paired and 2 * len(self.values) <= max(4, self.values.total())

    def add(self, fields: Mapping[str, Any], question: Any, times: int) -> None:
        if not self._fits:
            return
        value = self._find(fields)
        if type(value) is int:
            value = str(value)
        if type(value) is not str or len(value) > _MOST_CHARACTERS:
            # Absent or null: some rows may lack it.
            self._fits = value is None or not isinstance(value, str | bool | float | list | dict)
            return
        self.values[value] += times
        self._fits = len(self.values) <= _MOST_SYSTEMS
        if not self._paired and type(question) is str:
            if (key := hash(question)) in self._first:
                self._paired = self._first[key] != value
            elif len(self._first) < _REMEMBERED:
                self._first[key] = value
