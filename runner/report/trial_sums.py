"""Sums over the trials that notices need and no table has: scores of empty answers, sentence keys that judges named."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from judges import Judge
from judges.item import INVISIBLE
from runner.dataset import Staged

_ROWS = 20_000


class TrialSums:
    """Watches the frames of a report go by."""

    def __init__(self, staged: Staged, judges: Mapping[str, Judge]) -> None:
        self._empty = _empty_items(staged) if staged.empty else None
        self._citing = {name: judge.citing_fields for name, judge in judges.items() if judge.citing_fields}
        self.empty_scores: defaultdict[tuple[str, str, str], dict[str, tuple[int, float]]] = defaultdict(dict)
        """Judge, model and system → score → how many of its empty answers have it, and their sum."""
        self.named_keys: Counter[tuple[str, str]] = Counter()
        """Judge and model → sentence keys that its verdicts name."""

    def watch(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for frame in frames:
            own = frame.filter(~pl.col("is_control").fill_null(False))
            if self._empty is not None:
                self._add_scores(own.join(self._empty, on=["system", "item_id"], how="semi"))
            for judge, fields in self._citing.items():
                self._add_keys(own.filter((pl.col("judge") == judge) & pl.col("verdict").is_not_null()), fields)
            yield frame

    def _add_scores(self, frame: pl.DataFrame) -> None:
        flat = frame.select("judge", "model", "system", "scores").explode("scores").unnest("scores").drop_nulls()
        sums = flat.group_by("judge", "model", "system", "key").agg(pl.len(), pl.col("value").sum())
        for judge, model, system, score, n, total in sums.iter_rows():
            scores = self.empty_scores[judge, model, system]
            before = scores.get(score, (0, 0.0))
            scores[score] = before[0] + n, before[1] + total

    def _add_keys(self, frame: pl.DataFrame, fields: Iterable[str]) -> None:
        shape = pl.Struct({name: pl.List(pl.String) for name in fields})
        verdict = pl.col("verdict").str.json_decode(shape).struct
        named = frame.select("judge", "model", n=pl.sum_horizontal(verdict.field(name).list.len() for name in fields))
        for judge, model, n in named.group_by("judge", "model").agg(pl.col("n").sum()).iter_rows():
            self.named_keys[judge, model] += n


def _empty_items(staged: Staged) -> pl.DataFrame:
    """System and id of the items without an answer."""
    response = pl.col("fields").str.json_path_match("$.response").fill_null("")
    return pl.concat(
        staged.frame(first, _ROWS, ["system", "id", "fields"])
        .filter(~response.str.contains(f"[^\\s{INVISIBLE}]"))
        .select("system", item_id="id")
        for first in range(0, staged.rows, _ROWS)
    )
