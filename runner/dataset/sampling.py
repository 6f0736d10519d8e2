"""Which items a sample holds: about N of them, from every group in proportion, whole questions at a time.

A pure decision in two passes over (group, question id), in memory that grows with the sample and the groups, not with
the items. A question's place is a hash of its id and the seed, so that the same command draws the same questions, every
system keeps the same ones, and a larger sample mostly holds the smaller one.
"""

import hashlib
import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Question = tuple[str | None, str]
"""An item's group and question id."""
_SLACK = 100
"""Places held beyond twice those that are wanted, before the larger ones are forgotten."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a user wants: about so many items, drawn with this seed."""

    items: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SampleSummary:
    """The sample that was drawn."""

    items: int
    of: int
    """Items there were."""
    requested: int
    seed: int

    def __str__(self) -> str:
        return f"sample of {self.items:,} of {self.of:,} items, seed {self.seed}"


class ItemSampler:
    """The questions of a sample. `sizes`: items by group; `questions`: of every item once, in any order."""

    def __init__(self, sample: Sample, sizes: Mapping[str | None, int], questions: Iterable[Question]) -> None:
        self._seed = sample.seed
        shares = allocate(sample.items, sizes)
        chosen = {group: _Smallest(share) for group, share in shares.items()}
        for group, question in questions:
            chosen[group].add(self._place(question))
        self._last: dict[str | None, bytes | None] = {}
        owed = 0
        for group in _ordered(chosen):
            owed += shares[group]
            self._last[group], count = chosen[group].end(owed)
            owed -= count

    def __contains__(self, question: Question) -> bool:
        group, question_id = question
        last = self._last[group]
        return last is not None and self._place(question_id) <= last

    def _place(self, question: str) -> bytes:
        return hashlib.blake2b(question.encode(), digest_size=16, key=b"sample %d" % self._seed).digest()


class _Smallest:
    """The smallest places of a group that hold its share of items between them; larger ones are forgotten."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._items: dict[bytes, int] = {}

    def add(self, place: bytes) -> None:
        self._items[place] = self._items.get(place, 0) + 1
        # What is forgotten here is never among the smallest again: ever more items have smaller places.
        if len(self._items) > 2 * self._share + _SLACK:
            self._items = dict(self._smallest())

    def end(self, owed: int) -> tuple[bytes | None, int]:
        """The last place that is in, and the items up to it: as near to `owed` as the last question allows."""
        places = self._smallest()
        if not places:
            return None, 0
        total = sum(items for _, items in places)
        without = total - places[-1][1]
        if len(places) > 1 and owed - without < total - owed:
            return places[-2][0], without
        return places[-1][0], total

    def _smallest(self) -> list[tuple[bytes, int]]:
        total = 0
        places = []
        for place in sorted(self._items):
            if total >= self._share:
                break
            places.append((place, self._items[place]))
            total += self._items[place]
        return places


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
