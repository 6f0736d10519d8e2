"""Judges of two responses: which two fields of an item they compare, and in which order they see them."""

from __future__ import annotations

from judges import Item, Judge
from judges.item import CANONICAL_FIELDS

from .column_profile import COLUMN_NAMES, plain_name

_OTHER_RESPONSES = frozenset(COLUMN_NAMES["other_response"].split())
_OPPOSITES = ({"first", "second"}, {"left", "right"}, {"ours", "theirs"}, {"one", "two"}, {"candidate", "baseline"})
_NEIGHBOURS = ("ab", "ba", "12", "21", "01", "10", "xy", "yx")
_BESIDE = {"rubric", "criteria", "context", "history", "instructions", "guidelines", "category", "evidence", "passage"}
"""What a judge of one response is shown beside it."""
_REMEMBERED = 2_000
"""Comparisons of which it is remembered whether the other order is there."""


def compared_fields(judge: Judge, template: str) -> tuple[str, str] | None:
    """The item's fields that are the two responses; None for a judge of one.

    The second one has a name that other people give it, in the items or in the template; or fills a place that is the
    counterpart of the response's (`output_1` and `output_2`); or is what else there is, where the labels are opposites.
    """
    bound = judge.bound_fields(template)
    ours = [place for place, field in bound.items() if field == "response"]
    others = {place: field for place, field in bound.items() if field not in CANONICAL_FIELDS}
    if not ours:
        return None
    for place, field in others.items():
        if not _OTHER_RESPONSES.isdisjoint((plain_name(place), plain_name(field))):
            return "response", field
    for place, field in others.items():
        if any(_are_opposites(place, own) for own in ours):
            return "response", field
    rest = {field for field in others.values() if _BESIDE.isdisjoint(plain_name(field).split("_"))}
    if len(rest) == 1 and any(_are_opposites(*pair) for pair in zip(judge.choices, judge.choices[1:], strict=False)):
        return "response", next(iter(rest))
    return None


def _are_opposites(one: str, other: str) -> bool:
    """Whether two names differ as A and B, 1 and 2, first and second do."""
    first, second = ([word for word in plain_name(name).split("_") if word] for name in (one, other))
    if len(first) != len(second):
        return False
    different = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    if len(different) != 1:
        return False
    ((a, b),) = different
    return {a, b} in _OPPOSITES or (a[:-1] == b[:-1] and a[-1] + b[-1] in _NEIGHBOURS)


class ResponseOrder:
    """In which order a judge of two responses sees them."""

    def __init__(self, first: str, second: str) -> None:
        self._names = first, second
        self.rows = 0
        self._seen: dict[tuple[int, int], bool] = {}
        """Question and responses → whether the other order was seen as well."""

    @staticmethod
    def of(judge: Judge) -> ResponseOrder | None:
        """None for a judge of one response."""
        for template in judge.templates:
            if pair := compared_fields(judge, template):
                return ResponseOrder(*pair)
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
