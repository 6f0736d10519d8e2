"""What a judge made of control items, and of items whose text may be meant to steer it, beside all others.

Control items are counted in these parts and nowhere else; suspects are trials of the run like any other, and stand here
once more.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from judges import Scale

from .counting import OTHER, SUSPECT, Counts
from .estimators import Rate
from .question_sums import select_questions
from .significance import Comparison, compare
from .summaries import PAIR, ScoreSummary, Subset, subsets


@dataclass(frozen=True, slots=True)
class TrialGroup:
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
        return self.planned - self.scored - self.unscored


@dataclass(frozen=True, slots=True)
class InjectionStats:
    judge: str
    model: str
    controls: tuple[TrialGroup, ...]
    """By kind, and all together last; empty where the run has none."""
    suspects: TrialGroup
    others: TrialGroup
    signs: Mapping[str, int]
    """Sign → trials that show it, the commonest first."""
    differences: tuple[Comparison, ...]
    """The verdicts on suspects against those on all others."""

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
    parts: defaultdict[tuple[str, str], dict[str, Subset]] = defaultdict(dict)
    for (judge, model, name), part in subsets(counts, "parts", [*PAIR, "part"]).items():
        parts[judge, model][name] = part
    controls = subsets(counts, "parts", PAIR, ~pl.col("part").is_in([SUSPECT, OTHER]))
    signs: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for judge, model, sign, n in counts["signs"].sort("n", "sign", descending=[True, False]).iter_rows():
        signs[judge, model][sign] = n

    sums = select_questions(counts, "parts", [*PAIR, "system", "part"], pl.col("part").is_in([SUSPECT, OTHER]))
    sums = sums.rename({"system": "stratum"}).with_columns(first=pl.col("part") == SUSPECT)
    of_pair = sums.partition_by(PAIR, as_dict=True, include_key=False)

    def group(judge: str, name: str, subset: Subset) -> TrialGroup:
        scores, choices = subset.scores(scales.get(judge, {})), subset.shares(labels.get(judge, ()))
        return TrialGroup(name, subset.n, subset.scored, subset.unscored, scores, choices)

    entries = []
    for (judge, model), held in sorted(parts.items()):
        kinds = {name: held[name] for name in sorted(held.keys() - {SUSPECT, OTHER}, key=order.index)}
        if whole := controls.get((judge, model)):
            kinds["all"] = whole
        of_suspects, of_others = held.get(SUSPECT, Subset()), held.get(OTHER, Subset())
        suspects, others = group(judge, SUSPECT, of_suspects), group(judge, OTHER, of_others)
        control_groups = tuple(group(judge, name, part) for name, part in kinds.items())
        both = of_pair.get((judge, model), sums.clear())
        differences = tuple(compare(both, of_suspects, of_others, scales.get(judge, {}), labels.get(judge, ())))
        entries.append(InjectionStats(judge, model, control_groups, suspects, others, signs[judge, model], differences))
    return entries
