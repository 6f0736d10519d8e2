"""Whether a batch moves its scores: means by how many items shared the request, by place in it, by halving.

A score given among neighbours is not the same measurement as one given alone. Items are dealt to batches and places at
random, so that places in full batches differ by chance only, unless the judge minds them. Sizes differ for other
reasons too: small batches are what was left over, what was halved after a reply that could not be used, and what had
to be asked alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from .counting import PAIR, Counts
from .estimators import Difference, Moments, Rate, Spread, differ, rate, spread

BEYOND_CHANCE = 0.01
"""A difference of means less likely than this is told."""


@dataclass(frozen=True, slots=True)
class Part:
    """The judged trials with one batch size, place or depth, and the mean score of those that have one."""

    at: int
    trials: int
    score: Spread


@dataclass(frozen=True, slots=True)
class Echo:
    """How many replies to requests about `size` items were just the example that the prompt gives of a reply."""

    size: int
    replies: Rate


@dataclass(frozen=True, slots=True)
class BatchEffect:
    """A score of a batched judge × model, by the company in which it was given."""

    judge: str
    model: str
    score: str
    full: int
    """Items in the largest batch that was judged."""
    sizes: tuple[Part, ...]
    """By items in the deciding request, without the marked ones, which are not like the others."""
    places: tuple[Part, ...]
    """By place in full batches, so that size and place are not mixed up."""
    depths: tuple[Part, ...]
    """By how often the batch was halved before."""
    marked: Part | None
    """Asked alone because their own text holds what opens a block."""
    by_size: Difference | None
    """None: too few to compare."""
    by_place: Difference | None
    echoes: tuple[Echo, ...]
    """By items in the request; none where the prompt gives no example."""

    @property
    def size_matters(self) -> bool:
        """Means differ by size beyond chance."""
        return self.by_size is not None and self.by_size.p < BEYOND_CHANCE

    @property
    def place_matters(self) -> bool:
        """Means differ by place beyond chance."""
        return self.by_place is not None and self.by_place.p < BEYOND_CHANCE


@dataclass(frozen=True, slots=True)
class _Cell:
    size: int
    place: int
    depth: int
    marked: bool
    trials: int
    found: Moments


def batch_effects(counts: Counts, batched: Mapping[str, Sequence[str]], echoed: pl.DataFrame) -> list[BatchEffect]:
    """For every score of the batched judges. `batched`: judge → its scores; `echoed`: see `breakdown.echoes`."""
    keys = (*PAIR, "batch_size", "batch_position", "bisect_depth", "marked")
    scores = {
        tuple(key): Moments(n, total, squares)
        for *key, n, total, squares in counts["place_scores"].select(*keys, "score", "n", "total", "squares").rows()
    }
    places = counts["places"].select(*keys, "n").sort(keys).rows()
    pairs = dict.fromkeys(row[:2] for row in places)
    replies: dict[tuple[str, str], list[Echo]] = defaultdict(list)
    for judge, model, size, n, hits in echoed.select(*PAIR, "size", "n", "hits").sort("size").rows():
        replies[judge, model].append(Echo(size, rate(hits, n)))
    made = []
    for judge, model in pairs:
        for score in batched.get(judge, ()):
            cells = [
                _Cell(size, at, depth, marked, n, scores.get((judge, model, size, at, depth, marked, score), Moments()))
                for *pair, size, at, depth, marked, n in places
                if pair == [judge, model]
            ]
            made.append(_neighbours((judge, model, score), cells, tuple(replies[judge, model])))
    return made


def _neighbours(of: tuple[str, str, str], cells: Sequence[_Cell], echoed: tuple[Echo, ...]) -> BatchEffect:
    full = max(cell.size for cell in cells)
    whole = [cell for cell in cells if cell.size == full > 1 and not cell.depth]
    # Where everything is asked alone, a marked item is asked like any other.
    marked = [cell for cell in cells if cell.marked and full > 1]
    others = [cell for cell in cells if not (cell.marked and full > 1)]
    judge, model, score = of
    return BatchEffect(
        judge,
        model,
        score,
        full,
        sizes=_parts(others, lambda cell: cell.size),
        places=_parts(whole, lambda cell: cell.place),
        depths=_parts([cell for cell in cells if cell.depth], lambda cell: cell.depth),
        marked=_part(1, marked) if marked else None,
        by_size=_differ(others, lambda cell: cell.size),
        by_place=_differ(whole, lambda cell: cell.place),
        echoes=echoed,
    )


def _grouped(cells: Sequence[_Cell], at: Callable[[_Cell], int]) -> dict[int, list[_Cell]]:
    groups: dict[int, list[_Cell]] = {}
    for cell in sorted(cells, key=at):
        groups.setdefault(at(cell), []).append(cell)
    return groups


def _parts(cells: Sequence[_Cell], at: Callable[[_Cell], int]) -> tuple[Part, ...]:
    return tuple(_part(key, held) for key, held in _grouped(cells, at).items())


def _part(at: int, cells: Sequence[_Cell]) -> Part:
    return Part(at, sum(cell.trials for cell in cells), spread(_sum(cells)))


def _differ(cells: Sequence[_Cell], at: Callable[[_Cell], int]) -> Difference | None:
    return differ([_sum(held) for held in _grouped(cells, at).values()])


def _sum(cells: Sequence[_Cell]) -> Moments:
    return sum((cell.found for cell in cells), Moments())
