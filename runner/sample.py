"""Which items a sample holds: about N of them, from every group in proportion, whole questions at a time.

A pure decision in two passes over (group, question id), in memory that grows with the sample and the groups, not with
the items. A question's place is a hash of its id and the seed, so that the same command draws the same questions, every
system keeps the same ones, and a larger sample mostly holds the smaller one.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Asked = tuple[str | None, str]
"""An item's group and question id."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was asked for: about so many items, drawn with this seed."""

    items: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """What became of it, as a report says it."""

    items: int
    """Items in the sample."""
    of: int
    """Items there were."""
    asked: int
    seed: int

    def __str__(self) -> str:
        return f"sample of {self.items:,} of {self.of:,} items, seed {self.seed}"


class Draw:
    """The questions of a sample. `sizes`: items by group; `asked`: every item once, in any order."""

    def __init__(self, sample: Sample, sizes: Mapping[str | None, int], asked: Iterable[Asked]) -> None:
        self._seed = sample.seed
        shares = allocate(sample.items, sizes)
        chosen = {group: _Smallest(share) for group, share in shares.items()}
        for group, question in asked:
            chosen[group].add(self._place(question))
        self._last: dict[str | None, bytes | None] = {}
        owed = 0
        for group in _ordered(chosen):
            owed += shares[group]
            self._last[group], taken = chosen[group].end(owed)
            owed -= taken

    def __contains__(self, asked: Asked) -> bool:
        group, question = asked
        last = self._last[group]
        return last is not None and self._place(question) <= last

    def _place(self, question: str) -> bytes:
        return hashlib.blake2b(question.encode(), digest_size=16, key=b"sample %d" % self._seed).digest()


class _Smallest:
    """The smallest places of a group that hold its share of items between them; what comes after is forgotten."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._items: dict[bytes, int] = {}
        self._largest: list[bytes] = []
        """A heap by the complement of the place, so that the largest place is its first."""
        self._held = 0

    def add(self, place: bytes) -> None:
        if place in self._items:
            self._items[place] += 1
        elif self._held < self._share or (self._largest and place < _complement(self._largest[0])):
            self._items[place] = 1
            heapq.heappush(self._largest, _complement(place))
        else:
            return
        self._held += 1
        while self._held - self._items[last := _complement(self._largest[0])] >= self._share:
            heapq.heappop(self._largest)
            self._held -= self._items.pop(last)

    def end(self, owed: int) -> tuple[bytes | None, int]:
        """The last place taken, and the items up to it: as near to `owed` as the last question allows."""
        if not self._largest:
            return None, 0
        last = _complement(heapq.heappop(self._largest))
        without = self._held - self._items[last]
        if self._largest and owed - without < self._held - owed:
            return _complement(self._largest[0]), without
        return last, self._held


def allocate(items: int, sizes: Mapping[str | None, int]) -> dict[str | None, int]:
    """Items per group: in proportion to its size by the largest remainder, and one for each where `items` suffice."""
    total = sum(sizes.values())
    if items >= total:
        return dict(sizes)
    exact = {group: items * sizes[group] / total for group in _ordered(sizes)}
    shares = {group: math.floor(share) for group, share in exact.items()}
    by_remainder = sorted(exact, key=lambda group: shares[group] - exact[group])
    for group in by_remainder[: items - sum(shares.values())]:
        shares[group] += 1
    if items >= len(sizes):
        # What a small group gets comes from those that are furthest above their exact share.
        givers = [(exact[group] - share, number, group) for number, (group, share) in enumerate(shares.items())]
        heapq.heapify(givers)
        for group in [group for group, share in shares.items() if not share]:
            over, number, giver = heapq.heappop(givers)
            while shares[giver] < 2:
                over, number, giver = heapq.heappop(givers)
            shares[giver] -= 1
            shares[group] = 1
            heapq.heappush(givers, (over + 1, number, giver))
    return shares


def _ordered(groups: Iterable[str | None]) -> Iterator[str | None]:
    yield from sorted(groups, key=lambda group: (group is not None, group or ""))


def _complement(place: bytes) -> bytes:
    return bytes(255 - byte for byte in place)
