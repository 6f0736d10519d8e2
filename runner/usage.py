"""What requests take: tokens and money as counted, bounds of what they can come to; and the base of all records."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any


class Record:
    """Base of frozen dataclasses with slots: they pickle as class and values, in half the time of `dataclass`'s way."""

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


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """Tokens and money."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0

    def share(self, part: int, parts: int) -> Usage:
        """The share of one of so many parts, counted from 0: of whole tokens, the first parts have one more."""
        counts = (self.input_tokens, self.cached_tokens, self.output_tokens, self.reasoning_tokens)
        given, cached, produced, reasoning = (count // parts + (part < count % parts) for count in counts)
        return Usage(given, cached, produced, reasoning, self.cost_usd / parts)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True)
class CostBound(Record):
    """So many requests, tokens (in and out) and billionths of a dollar at most. A difference may be below zero.

    Whole numbers, so that what was reserved and freed again in any order comes to exactly nothing.
    """

    requests: int = 0
    tokens: int = 0
    nano_usd: int = 0

    def __add__(self, other: CostBound) -> CostBound:
        return CostBound(self.requests + other.requests, self.tokens + other.tokens, self.nano_usd + other.nano_usd)

    def __sub__(self, other: CostBound) -> CostBound:
        return CostBound(self.requests - other.requests, self.tokens - other.tokens, self.nano_usd - other.nano_usd)

    def __bool__(self) -> bool:
        return bool(self.requests or self.tokens or self.nano_usd)

    @property
    def usd(self) -> float:
        """The money."""
        return self.nano_usd / 1e9

    def covers(self, other: CostBound) -> bool:
        """Whether the other is in it, in every unit."""
        return self.requests >= other.requests and self.tokens >= other.tokens and self.nano_usd >= other.nano_usd

    def for_requests(self, requests: int) -> CostBound:
        """The same for another number of requests, rounded up."""
        if not self.requests:
            return NOTHING
        tokens, nano_usd = (-(-part * requests // self.requests) for part in (self.tokens, self.nano_usd))
        return CostBound(requests, tokens, nano_usd)

    def holds(self, other: CostBound) -> int:
        """How often the other is in it, whole; the other is of a request or more."""
        units = ((self.requests, other.requests), (self.tokens, other.tokens), (self.nano_usd, other.nano_usd))
        return max(0, min(part // needed for part, needed in units if needed))

    def above_zero(self) -> CostBound:
        """Without what is below zero."""
        return CostBound(max(0, self.requests), max(0, self.tokens), max(0, self.nano_usd))

    @property
    def price(self) -> tuple[int, int]:
        """Sorts bounds, the cheapest first."""
        return self.nano_usd, self.tokens


NO_USAGE = Usage()
NOTHING = CostBound()


def cost_of(requests: int, tokens: float, usd: float) -> CostBound:
    """What was taken, in whole numbers, rounded up."""
    return CostBound(requests, math.ceil(tokens), math.ceil(round(usd * 1e9, 3)))


def usd(value: float) -> str:
    """An amount of money: whole cents, or finer where it is below ten of them."""
    return f"${value:,.{_decimals(value)}f}"


def usd_at_most(value: float) -> str:
    """An amount that is not exceeded: rounded up."""
    return usd(_rounded(value, math.ceil))


def describe_cost(known: float, unpriced: Collection[str]) -> str:
    """What requests came to, where these models have no price: as much at least, which is rounded down."""
    if not unpriced:
        return usd(known)
    names = [*unpriced][:_MOST_NAMED]
    more = f" and {len(unpriced) - len(names)} more" if len(unpriced) > len(names) else ""
    without = f"no price for {', '.join(names)}{more}"
    return f"≥ {usd(_rounded(known, math.floor))}; {without}" if known else without


_MOST_NAMED = 3


def _decimals(value: float) -> int:
    return 2 if value >= 0.1 or value == 0 else 5


def _rounded(value: float, way: Callable[[float], int]) -> float:
    factor: int = 10 ** _decimals(value)
    # What is whole already must stay as it is, whatever its floating point.
    return way(round(value * factor, 6)) / factor
