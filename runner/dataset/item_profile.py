"""What is odd about the items, counted in the one pass of staging: facts, of which the report makes sentences.

Nothing is refused here. Counts are of the rows that are left in the end; a place is that of the first row read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from judges import Item, Judge
from judges.item import is_blank_text, text_of
from runner.items_config import Items

from .compared_responses import ResponseOrder
from .missing_values import is_blank, is_missing_word, is_written_list
from .system_columns import SystemColumns

_STOPS = " \t\r\n.!?;,。！？．"


@dataclass
class ItemFacts:
    """Counts of rows; what has none is left out."""

    blank: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Field → rows where it is blank and stands in a judge's prompt, rows whose prompts it stands in, first place."""
    missing_words: dict[str, int] = field(default_factory=dict)
    """System → responses that are what programs write for nothing: nan, None, NA."""
    missing_fields: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Field, but for the response → rows where it is such a word; the rest as in `blank`."""
    written_lists: int = 0
    """Responses that are the text of a list or an object."""
    texts: int = 0
    """Responses that are texts with something in them."""
    references_repeated: int = 0
    """Responses that are the reference, but for case, blanks around it and its last stop."""
    referenced: int = 0
    """Responses with something in them that have a reference."""
    system_columns: dict[str, dict[str, int]] = field(default_factory=dict)
    """Columns that seem to say whose answer it is, where the config names none → value → rows."""
    stripped_systems: dict[str, int] = field(default_factory=dict)
    """Names of systems that had blanks around them → rows; they count without."""
    labels: dict[str, int] = field(default_factory=dict)
    """Label → rows that have it."""
    unnamed_questions: int = 0
    """Rows that were read with neither an id nor a question: answers to one question cannot be told."""
    one_order: dict[str, int] = field(default_factory=dict)
    """Judges of two responses → rows, where most comparisons are not there with the two exchanged."""


class ItemProfile:
    """Counts items as they are staged; one that is left out later is subtracted with `times=-1`."""

    def __init__(self, items: Items, judges: Sequence[Judge]) -> None:
        self._items = items
        self._judges = judges
        self._system_known = items.systems is not None or "system" in items.fields
        self._routed: Counter[tuple[str | None, ...]] = Counter()
        self._blank: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()
        self._places: dict[tuple[str, bool], str] = {}
        """Field, and whether it is blank there or such a word → the first row."""
        self._missing_words: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()
        self._alike = self._comparable = self._texts = self._written_lists = 0
        self._columns = SystemColumns({"id", "question_id", "group", *items.fields.values()})
        self._orders = {judge.name: order for judge in judges if (order := ResponseOrder.of(judge))}

    def add(self, item: Item, templates: Sequence[str | None], place: str = "", times: int = 1) -> None:
        fields, key = item.fields, tuple(templates)
        self._routed[key] += times
        for name, value in self._sent_values(item, templates).items():
            counts = self._blank if is_blank(value) else self._missing if is_missing_word(value) else None
            if counts is not None and name != "response":
                counts[name] += times
                self._places.setdefault((name, counts is self._blank), place)
        for name in item.labels:
            self._labels[name] += times
        response = fields.get("response")
        if type(response) is str and not is_blank_text(response):
            self._texts += times
            if is_blank(response) or is_missing_word(response):
                self._missing_words[item.system] += times
            elif is_written_list(response):
                self._written_lists += times
            if (reference := _only_text(fields.get("reference"))) is not None:
                self._comparable += times
                self._alike += times * _says_the_same(response, reference)
        if not self._system_known:
            self._columns.add(fields, fields.get("question", item.question_id), times)
        for judge, template in zip(self._judges, templates, strict=True):
            if template is not None and judge.name in self._orders:
                self._orders[judge.name].add(item, times)

    def restart(self) -> ItemProfile:
        """One without a count, which still knows where each field was first blank."""
        fresh = ItemProfile(self._items, self._judges)
        fresh._places = self._places
        return fresh

    def facts(self, stripped_systems: dict[str, int]) -> ItemFacts:
        """After the last row."""
        uses: Counter[str] = Counter()
        for key, rows in self._routed.items():
            uses.update(dict.fromkeys(self._fields_of(key), rows))

        def counted(counts: Counter[str]) -> dict[str, tuple[int, int, str]]:
            return {
                name: (rows, uses[name], self._places[name, counts is self._blank])
                for name, rows in counts.items()
                if rows
            }

        return ItemFacts(
            blank=counted(self._blank),
            missing_fields=counted(self._missing),
            written_lists=self._written_lists,
            texts=self._texts,
            missing_words={system: rows for system, rows in self._missing_words.items() if rows},
            references_repeated=self._alike,
            referenced=self._comparable,
            system_columns=self._columns.found(),
            stripped_systems=stripped_systems,
            labels=dict(self._labels),
            one_order={name: order.rows for name, order in self._orders.items() if order.is_one and order.rows},
        )

    def system_columns(self) -> list[str]:
        """Columns that seem to say whose answer a row is, as far as rows were read."""
        return list(self._columns.found())

    def _sent_values(self, item: Item, templates: Sequence[str | None]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for judge, template in zip(self._judges, templates, strict=True):
            if template is not None:
                values |= judge.sent_values(item, template)
        return values

    def _fields_of(self, key: tuple[str | None, ...]) -> tuple[str, ...]:
        used = [
            name
            for judge, template in zip(self._judges, key, strict=True)
            if template is not None
            for name in judge.fields(template)
            if name != "response"
        ]
        return tuple(dict.fromkeys(used))


def _only_text(reference: Any) -> str | None:
    """A reference as the text that a response might repeat: itself, or the only one of its list."""
    if isinstance(reference, list) and len(reference) == 1:
        reference = reference[0]
    return None if reference is None or isinstance(reference, list | dict) else text_of(reference)


def _says_the_same(response: str, reference: str) -> bool:
    ours, theirs = (text.strip().rstrip(_STOPS) for text in (response, reference))
    return len(ours) == len(theirs) and ours.casefold() == theirs.casefold()
