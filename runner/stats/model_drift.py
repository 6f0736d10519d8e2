"""What an endpoint served under one model id, where that changed within a run: each part with its own scores.

A provider may put another model behind a name, or change its settings, at any moment; a mean over both is a mean of two
things. Told by what replies say of themselves, which is all there is to go by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from judges import Scale

from .counting import PAIR, Counts
from .estimators import Moments, Rate, Spread, rate, spread


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """The judged trials of a judge × model whose reply named one model and one fingerprint."""

    judge: str
    model: str
    served_model: str | None
    system_fingerprint: str | None
    trials: int
    scores: Mapping[str, Rate | Spread]
    """Share of yes, or mean, of these alone."""

    @property
    def name(self) -> str:
        """As the endpoint called it."""
        named = self.served_model or "an unnamed model"
        return f"{named} ({self.system_fingerprint})" if self.system_fingerprint else named


def served_versions(counts: Counts, scales: Mapping[str, Mapping[str, Scale]]) -> list[ServedVersion]:
    """The parts of every judge × model that was served as more than one thing, largest first.

    Trials without a reply say nothing of it, and are left out.
    """
    keys = (*PAIR, "served_model", "system_fingerprint")
    replied = pl.col("served_model").is_not_null() | pl.col("system_fingerprint").is_not_null()
    parts = counts["served"].filter(replied).group_by(keys).agg(pl.col("n").sum())
    several = parts.group_by(PAIR).len().filter(pl.col("len") > 1).select(PAIR)
    if several.is_empty():
        return []
    moments: dict[tuple[object, ...], dict[str, Moments]] = {}
    for row in counts["served_scores"].iter_rows(named=True):
        found = Moments(row["n"], row["total"], row["squares"])
        moments.setdefault(tuple(row[key] for key in keys), {})[row["score"]] = found
    ranked = parts.join(several, on=PAIR).sort(*keys, nulls_last=True).sort("n", descending=True, maintain_order=True)
    rows = ranked.sort(*PAIR, maintain_order=True).select(*keys, "n").rows()
    return [
        ServedVersion(
            judge, model, named, print_, n, _scores(moments.get((judge, model, named, print_), {}), scales[judge])
        )
        for judge, model, named, print_, n in rows
    ]


def _scores(found: Mapping[str, Moments], scales: Mapping[str, Scale]) -> dict[str, Rate | Spread]:
    return {
        name: rate(round(found[name].total), found[name].n) if scale.binary else spread(found[name])
        for name, scale in scales.items()
        if name in found
    }
