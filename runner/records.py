"""How the records of `protocol` pickle. Hides that what `dataclass` does by itself takes twice the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any


class Record:
    """Base of frozen dataclasses with slots: they pickle as their class and their values.

    Every trial's records are pickled several times on their way, and so this is felt.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        kind: Any = type(self)
        return kind, _values(kind)(self)


@cache
def _values(record: type[Any]) -> Callable[[Record], tuple[Any, ...]]:
    """What takes the values out of a record of this class."""
    names: tuple[str, ...] = record.__match_args__
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda record: (values(record),)
