"""Intervals of scores that stand in clusters: several answers to one question, or several judgments of one answer.

Intervals that take such scores as independent are too narrow. The variance of a share or a mean is linearized here,
with questions as clusters; it never makes an interval narrower. A sum per question is kept, of the systems that need it
only, and up to a limit: beyond that nothing is clustered, and the report says so.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from judges import Scale

from .counting import explode_map
from .estimators import Z95, Rate, wilson
from .metrics import Result
from .summaries import RESULT, ScoreSummary

MOST = 500_000
"""Sums that are kept: one for each question × score × judge × model × system."""

_CELL = (*RESULT, "score")
_KEY = (*_CELL, "question")
_SUMS = ("n", "total", "unscored")
_RATIOS = {
    "share": (pl.col("total"), pl.col("n")),
    "strict": (pl.col("total"), pl.col("n") + pl.col("unscored")),
    "lenient": (pl.col("total") + pl.col("unscored"), pl.col("n") + pl.col("unscored")),
}
"""What is divided by what, summed over the questions."""


class ClusterSums:
    """Sums per question of the trials that pass by."""

    def __init__(self, systems: Collection[str], scales: Mapping[str, Mapping[str, Scale]], most: int = MOST) -> None:
        self._systems = list(systems)
        names = [(judge, score) for judge, held in scales.items() for score in held]
        self._names = pl.DataFrame(names, schema={"judge": pl.String, "score": pl.String}, orient="row")
        self._most = most
        self._whole = pl.DataFrame()
        self._new: list[pl.DataFrame] = []
        self.clustered = bool(self._systems)
        """Whether there is something to cluster, and not too much of it."""

    def watch(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for frame in frames:
            if self.clustered:
                self._add(frame)
            yield frame
        self._merge()

    def apply(self, results: Iterable[Result]) -> list[Result]:
        """After all frames: the results, with clustered intervals of their overall shares and means."""
        if not self.clustered or self._whole.is_empty():
            return list(results)
        cells = {tuple(row[name] for name in _CELL): row for row in self._errors().iter_rows(named=True)}
        clustered = []
        for result in results:
            scores = dict(result.overall.scores)
            for name, entry in scores.items():
                if row := cells.get((result.judge, result.model, result.system, name)):
                    scores[name] = _cluster(entry, row)
            clustered.append(replace(result, overall=replace(result.overall, scores=scores)))
        return clustered

    def _add(self, frame: pl.DataFrame) -> None:
        done = frame.filter(
            ~pl.col("is_control").fill_null(False),
            pl.col("state").is_not_null(),
            pl.col("system").is_in(self._systems),
        ).with_columns(pl.col("question_id").hash().alias("question"))
        zero = pl.lit(0, pl.Int64)
        scored = explode_map(done.filter(pl.col("state") == "scored"), "scores", "score").select(
            *_KEY, pl.lit(1, pl.Int64).alias("n"), pl.col("value").alias("total"), zero.alias("unscored")
        )
        unscored = (
            done.filter(pl.col("state") != "scored")
            .join(self._names, on="judge")
            .select(*_KEY, zero.alias("n"), pl.lit(0.0).alias("total"), pl.lit(1, pl.Int64).alias("unscored"))
        )
        self._new.append(pl.concat([scored, unscored]).group_by(_KEY).agg(pl.col(*_SUMS).sum()))
        # Merged when as much is new as there was: no sum is added up more than a few times.
        if sum(map(len, self._new)) > max(len(self._whole), self._most // 10):
            self._merge()

    def _merge(self) -> None:
        if self._new:
            parts = [self._whole, *self._new] if len(self._whole) else self._new
            self._whole, self._new = pl.concat(parts).group_by(_KEY).agg(pl.col(*_SUMS).sum()), []
        if len(self._whole) > self._most:
            self._whole, self.clustered = pl.DataFrame(), False

    def _errors(self) -> pl.DataFrame:
        """For each ratio of each cell its linearized standard error, and the number of questions in it."""
        columns = []
        for name, (above, below) in _RATIOS.items():
            residual = above - below * (above.sum() / below.sum())
            questions = (below > 0).sum().cast(pl.Int64)
            squares = (residual * residual).sum() * questions / (questions - 1)
            columns += [questions.alias(f"{name}_n"), (squares.sqrt() / below.sum()).alias(f"{name}_error")]
        # Sorted, for sums of the same numbers in another order may differ in their last digit.
        return self._whole.sort(_KEY).group_by(_CELL, maintain_order=True).agg(*columns)


def _cluster(entry: ScoreSummary, errors: Mapping[str, float]) -> ScoreSummary:
    """The summary with clustered intervals; the share of high graded scores keeps its own."""
    if entry.kind == "binary" and entry.share and entry.strict and entry.lenient:
        share, strict, lenient = (
            _cluster_rate(cells, int(errors[f"{name}_n"]), errors[f"{name}_error"])
            for name, cells in (("share", entry.share), ("strict", entry.strict), ("lenient", entry.lenient))
        )
        return replace(entry, low=share.low, high=share.high, share=share, strict=strict, lenient=lenient)
    if entry.value is None or entry.low is None or entry.high is None:
        return entry
    if errors["share_n"] < 2:
        return replace(entry, low=None, high=None)
    half = max(Z95 * errors["share_error"], (entry.high - entry.low) / 2)
    return replace(entry, low=entry.value - half, high=entry.value + half)


def _cluster_rate(share: Rate, questions: int, error: float) -> Rate:
    """With the Wilson interval of as many independent scores as would have this standard error."""
    if share.value is None:
        return share
    if questions < 2:
        return replace(share, low=None, high=None)
    variance = share.value * (1 - share.value)
    # Where all scores are the same they do not tell how far one question's go together: entirely, to be safe.
    effective = float(questions) if variance == 0 else variance / (error * error) if error > 0 else math.inf
    low, high = wilson(share.value, min(effective, share.n))
    return replace(share, low=low, high=high)
