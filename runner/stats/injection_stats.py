"""What a judge made of control items, and of items whose text may be meant to steer it, beside all others.

Control items are counted in these parts and nowhere else; suspects are trials of the run like any other, and stand here
once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from judges import Scale

from .counting import OTHER, SUSPECT, Counts
from .estimators import Rate
from .summaries import PAIR, ScoreSummary, Subset, subsets


@dataclass(frozen=True, slots=True)
class Part:
    """Trials of a judge × model that have something in common."""

    name: str
    planned: int
    scored: int
    unscored: int
    """Judged, without a score."""
    scores: Mapping[str, ScoreSummary]
    choices: Mapping[str, Rate]

    @property
    def not_done(self) -> int:
        """Planned, without a judgment."""
        return self.planned - self.scored - self.unscored


@dataclass(frozen=True, slots=True)
class InjectionStats:
    judge: str
    model: str
    controls: tuple[Part, ...]
    """By kind, and all together last; empty where the run has none."""
    suspects: Part
    others: Part
    signs: Mapping[str, int]
    """Sign → trials that show it, the commonest first."""

    @property
    def passed(self) -> Mapping[str, Rate]:
        """Score → share of all control items that were judged right; only where a score says what is right."""
        scores = self.controls[-1].scores if self.controls else {}
        return {name: score.share for name, score in scores.items() if score.share is not None and score.n}


def injection_stats(
    counts: Counts,
    scales: Mapping[str, Mapping[str, Scale]],
    labels: Mapping[str, Sequence[str]],
    order: Sequence[str],
) -> list[InjectionStats]:
    """Of every judge × model. `labels`: judge → its choices; `order`: of the kinds of control items."""
    parts: dict[tuple[str, str], dict[str, Subset]] = {}
    for (judge, model, name), part in subsets(counts.tables, "parts", [*PAIR, "part"]).items():
        parts.setdefault((judge, model), {})[name] = part
    controls = subsets(counts.tables, "parts", PAIR, ~pl.col("part").is_in([SUSPECT, OTHER]))
    signs: dict[tuple[str, str], dict[str, int]] = {}
    for judge, model, sign, n in counts["signs"].sort("n", "sign", descending=[True, False]).iter_rows():
        signs.setdefault((judge, model), {})[sign] = n

    def part_of(judge: str, name: str, subset: Subset) -> Part:
        scores, choices = subset.scores(scales.get(judge, {})), subset.shares(labels.get(judge, ()))
        return Part(name, subset.n, subset.scored, subset.unscored, scores, choices)

    entries = []
    for (judge, model), held in sorted(parts.items()):
        kinds = {name: held[name] for name in sorted(held.keys() - {SUSPECT, OTHER}, key=order.index)}
        if whole := controls.get((judge, model)):
            kinds["all"] = whole
        suspects, others = (part_of(judge, name, held.get(name, Subset())) for name in (SUSPECT, OTHER))
        parts_of_controls = tuple(part_of(judge, name, part) for name, part in kinds.items())
        of_signs = signs.get((judge, model), {})
        entries.append(InjectionStats(judge, model, parts_of_controls, suspects, others, of_signs))
    return entries
