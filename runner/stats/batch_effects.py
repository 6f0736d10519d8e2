"""Whether a batch moves its scores: means by how many items shared the request, by place in it, by halving.

A score given among neighbours is not the same measurement as one given alone. Items are dealt to batches and places at
random, so that places in full batches differ by chance only, unless the judge minds them. Sizes differ for other
reasons too: small batches are what was left over, what was halved after a reply that could not be used, and what had
to be asked alone.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from judges import Scale

from .counting import Counts
from .estimators import Rate, rate
from .significance import BEYOND_CHANCE, Difference, differ
from .summaries import PAIR, ScoreSummary, Subset, subsets


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The judged trials with one batch size, place or depth, and the score of those that have one."""

    at: int
    trials: int
    score: ScoreSummary


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
    sizes: tuple[BatchPart, ...]
    """By items in the deciding request, without the marked ones, which are not like the others."""
    places: tuple[BatchPart, ...]
    """By place in full batches, so that size and place are not mixed up."""
    depths: tuple[BatchPart, ...]
    """By how often the batch was halved before."""
    marked: BatchPart | None
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


def batch_effects(counts: Counts, scales: Mapping[str, Mapping[str, Scale]], echoes: pl.DataFrame) -> list[BatchEffect]:
    """For every score of the batched judges. `scales`: batched judge → its scores; `echoes`: see `count_echoes`."""
    replies: dict[tuple[str, str], list[Echo]] = defaultdict(list)
    for judge, model, size, n, hits in echoes.select(*PAIR, "size", "n", "hits").sort("size").rows():
        replies[judge, model].append(Echo(size, rate(hits, n)))
    largest = counts["places"].group_by(PAIR).agg(pl.col("batch_size").max()).sort(PAIR).rows()
    return [
        _effect(counts, (judge, model, score), scale, full, tuple(replies[judge, model]))
        for judge, model, full in largest
        for score, scale in scales.get(judge, {}).items()
    ]


def _effect(counts: Counts, of: tuple[str, str, str], scale: Scale, full: int, echoes: tuple[Echo, ...]) -> BatchEffect:
    judge, model, score = of
    own = (pl.col("judge") == judge) & (pl.col("model") == model)
    # Where everything is asked alone, a marked item is asked like any other.
    alone = pl.col("marked") if full > 1 else pl.lit(False)
    whole = (pl.col("batch_size") == full) & (pl.col("bisect_depth") == 0) & (full > 1)

    def parted(column: str, where: pl.Expr) -> list[tuple[int, Subset]]:
        groups = subsets(counts, "places", [column], own & where)
        return sorted((int(at), part) for (at,), part in groups.items())

    def parts(groups: list[tuple[int, Subset]]) -> tuple[BatchPart, ...]:
        return tuple(BatchPart(at, part.n, part.score(score, scale)) for at, part in groups)

    sizes, places = parted("batch_size", ~alone), parted("batch_position", whole)
    marked = parts(parted("marked", alone))
    by_size, by_place = (differ([part.of_score(score) for _, part in held]) for held in (sizes, places))
    depths = parts(parted("bisect_depth", pl.col("bisect_depth") > 0))
    return BatchEffect(
        *of, full, parts(sizes), parts(places), depths, marked[0] if marked else None, by_size, by_place, echoes
    )
