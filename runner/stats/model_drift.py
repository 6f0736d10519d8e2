"""What an endpoint served under one model id, where that changed within a run: each part with its own scores.

A provider may put another model behind a name, or change its settings, at any moment; a mean over both is a mean of two
things. Replies say of themselves what served them, which is all there is to go by.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from judges import Scale

from .counting import Counts
from .summaries import PAIR, ScoreSummary, subsets


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """The judged trials of a judge × model whose reply named one model and one fingerprint."""

    judge: str
    model: str
    served_model: str | None
    system_fingerprint: str | None
    trials: int
    scores: Mapping[str, ScoreSummary]

    @property
    def name(self) -> str:
        """As the endpoint called it."""
        named = self.served_model or "an unnamed model"
        return f"{named} ({self.system_fingerprint})" if self.system_fingerprint else named


def served_versions(counts: Counts, scales: Mapping[str, Mapping[str, Scale]]) -> list[ServedVersion]:
    """The parts of every judge × model that has several, the largest first. `scales`: judge → score → scale.

    Trials without a reply say nothing of it, and are left out.
    """
    replied = pl.col("served_model").is_not_null() | pl.col("system_fingerprint").is_not_null()
    parts = subsets(counts, "served", [*PAIR, "served_model", "system_fingerprint"], replied)
    versions = Counter((judge, model) for judge, model, _, _ in parts)
    served = []
    for (judge, model, named, fingerprint), part in parts.items():
        if versions[judge, model] > 1:
            scores = {name: score for name, score in part.scores(scales[judge]).items() if score.n}
            served.append(ServedVersion(judge, model, named, fingerprint, part.n, scores))
    return sorted(served, key=lambda each: (each.judge, each.model, -each.trials, each.name))
