"""What requests took, and what they may come to at most: tokens and money, as their endpoint counts and bills them."""

from __future__ import annotations

from dataclasses import dataclass

from .records import Record


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """Tokens and money. Floats, since a batched request is shared out over its trials."""

    input_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0
    reasoning_tokens: float = 0.0
    cost_usd: float = 0.0

    def shared(self, parts: int) -> Usage:
        """An equal share of it."""
        if parts == 1:
            return self
        return Usage(
            self.input_tokens / parts,
            self.cached_tokens / parts,
            self.output_tokens / parts,
            self.reasoning_tokens / parts,
            self.cost_usd / parts,
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True)
class Bound(Record):
    """So many requests, tokens (in and out) and billionths of a dollar at most. A difference may be below zero.

    Whole numbers, so that what was reserved and freed again in any order comes to exactly nothing.
    """

    requests: int = 0
    tokens: int = 0
    nano_usd: int = 0

    def __add__(self, other: Bound) -> Bound:
        return Bound(self.requests + other.requests, self.tokens + other.tokens, self.nano_usd + other.nano_usd)

    def __sub__(self, other: Bound) -> Bound:
        return Bound(self.requests - other.requests, self.tokens - other.tokens, self.nano_usd - other.nano_usd)

    def __bool__(self) -> bool:
        return bool(self.requests or self.tokens or self.nano_usd)

    @property
    def usd(self) -> float:
        """The money."""
        return self.nano_usd / 1e9

    def covers(self, other: Bound) -> bool:
        """Whether the other is in it, in every respect."""
        return self.requests >= other.requests and self.tokens >= other.tokens and self.nano_usd >= other.nano_usd

    def for_requests(self, requests: int) -> Bound:
        """The same for another number of requests, rounded up."""
        if not self.requests:
            return NOTHING
        tokens, nano_usd = (-(-part * requests // self.requests) for part in (self.tokens, self.nano_usd))
        return Bound(requests, tokens, nano_usd)

    def above_zero(self) -> Bound:
        """Without what is below zero."""
        return Bound(max(0, self.requests), max(0, self.tokens), max(0, self.nano_usd))


NOTHING = Bound()
