"""What a judge made of control items, and of items whose text may be meant to steer it, beside all others.

Counted as everything else is (see `counts`): one frame at a time, and added. Control items are counted here and nowhere
else; suspects are trials of the run like any other, and stand here once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from judges import Scale

from .estimators import Moments, Rate, Spread, rate, spread
from .verdict_counts import moments, thresholds, with_choice

_PAIR = ("judge", "model")
_PART = (*_PAIR, "part")
KEYS: dict[str, tuple[str, ...]] = {
    "parts": _PART,
    "part_scores": (*_PART, "score"),
    "part_choices": (*_PART, "choice"),
    "signs": (*_PAIR, "sign"),
}
"""Table → the columns that tell its rows apart; all others are counts or sums."""

SUSPECT, OTHER = "suspect", "other"
"""Parts of the run's own trials; any other part is a kind of control item."""


@dataclass(frozen=True, slots=True)
class Graded:
    """Values of a graded score, and the share that reaches the judge's threshold, if it names one."""

    spread: Spread
    threshold: float | None
    reached: Rate | None


@dataclass(frozen=True, slots=True)
class Part:
    """Trials of a judge × model that have something in common."""

    name: str
    planned: int
    scored: int
    unscored: int
    """Judged, without a score."""
    scores: Mapping[str, Rate | Graded]
    """Score → share of yes among the scored; or, where it is graded, its values."""
    choices: Mapping[str, Rate]

    @property
    def not_done(self) -> int:
        """Planned, without a judgment."""
        return self.planned - self.scored - self.unscored


@dataclass(frozen=True, slots=True)
class InjectionStats:
    """One judge × model."""

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
        if not self.controls:
            return {}
        found = self.controls[-1].scores.items()
        rates = {name: entry if isinstance(entry, Rate) else entry.reached for name, entry in found}
        return {name: share for name, share in rates.items() if share is not None and share.n}


def count_tables(
    frame: pl.DataFrame, scales: Mapping[str, Mapping[str, Scale]], choosing: Mapping[str, str]
) -> dict[str, pl.DataFrame]:
    """The tables of `KEYS`. `choosing`: judge → the verdict's field that holds its choice."""
    control = pl.col("is_control").fill_null(False)
    kind = pl.col("item_id").str.extract(r"^control:([a-z_]+):")
    suspect = pl.when(pl.col("injection_suspect").fill_null(False)).then(pl.lit(SUSPECT)).otherwise(pl.lit(OTHER))
    trials = frame.with_columns(pl.when(control).then(kind).otherwise(suspect).alias("part"))
    scored = trials.filter(pl.col("state") == "scored")
    entry = pl.col("scores").struct
    entries = (
        scored.filter(pl.col("scores").list.len() > 0)
        .explode("scores")
        .with_columns(entry.field("key").alias("score"), entry.field("value").alias("value"))
        .join(thresholds(scales), on=["judge", "score"], how="left")
    )
    own = trials.filter(~control)
    return {
        "parts": trials.group_by(_PART).agg(
            pl.len().cast(pl.Int64).alias("planned"),
            (pl.col("state") == "scored").sum().cast(pl.Int64).alias("scored"),
            (pl.col("state") != "scored").sum().cast(pl.Int64).alias("unscored"),
        ),
        "part_scores": entries.group_by(KEYS["part_scores"]).agg(
            *moments(), (pl.col("value") >= pl.col("at_least")).sum().cast(pl.Int64).alias("reached")
        ),
        "part_choices": with_choice(scored, choosing)
        .group_by(KEYS["part_choices"])
        .agg(pl.len().cast(pl.Int64).alias("n")),
        "signs": own.select(*_PAIR, pl.col("injection_signs").alias("sign"))
        .explode("sign")
        .filter(pl.col("sign").is_not_null())
        .group_by(KEYS["signs"])
        .agg(pl.len().cast(pl.Int64).alias("n")),
    }


@dataclass(slots=True)
class _Sums:
    """A part's counts while they are put together."""

    planned: int = 0
    scored: int = 0
    unscored: int = 0
    scores: dict[str, tuple[Moments, int]] = field(default_factory=dict)
    choices: dict[str, int] = field(default_factory=dict)

    def add(self, other: _Sums) -> None:
        self.planned += other.planned
        self.scored += other.scored
        self.unscored += other.unscored
        for name, (found, reached) in other.scores.items():
            before, reached_before = self.scores.get(name, (Moments(), 0))
            self.scores[name] = before + found, reached_before + reached
        for label, n in other.choices.items():
            self.choices[label] = self.choices.get(label, 0) + n

    def part(self, name: str, scales: Mapping[str, Scale], labels: Sequence[str]) -> Part:
        scores: dict[str, Rate | Graded] = {}
        for score, scale in scales.items():
            found, reached = self.scores.get(score, (Moments(), 0))
            if scale.binary:
                scores[score] = rate(round(found.total), found.n)
            else:
                share = None if scale.at_least is None else rate(reached, found.n)
                scores[score] = Graded(spread(found), scale.at_least, share)
        shares = {label: rate(self.choices.get(label, 0), self.scored) for label in labels}
        return Part(name, self.planned, self.scored, self.unscored, scores, shares)


def injection_stats(
    counts: Mapping[str, pl.DataFrame],
    scales: Mapping[str, Mapping[str, Scale]],
    labels: Mapping[str, Sequence[str]],
    order: Sequence[str],
) -> list[InjectionStats]:
    """Of every judge × model. `counts`: the tables of `KEYS`; `labels`: judge → its choices; `order`: of the kinds."""
    sums: dict[tuple[str, str], dict[str, _Sums]] = {}
    for *pair, part, planned, scored, unscored in (
        counts["parts"].select(*_PART, "planned", "scored", "unscored").iter_rows()
    ):
        sums.setdefault((pair[0], pair[1]), {})[part] = _Sums(planned, scored, unscored)
    for judge, model, part, score, n, total, squares, reached in (
        counts["part_scores"].select(*_PART, "score", "n", "total", "squares", "reached").iter_rows()
    ):
        sums[judge, model][part].scores[score] = Moments(n, total, squares), reached
    for judge, model, part, choice, n in counts["part_choices"].select(*_PART, "choice", "n").iter_rows():
        sums[judge, model][part].choices[choice] = n
    signs: dict[tuple[str, str], dict[str, int]] = {}
    for judge, model, sign, n in counts["signs"].sort("n", "sign", descending=[True, False]).iter_rows():
        signs.setdefault((judge, model), {})[sign] = n
    made = []
    for (judge, model), parts in sorted(sums.items()):
        means, choice = scales.get(judge, {}), labels.get(judge, ())
        kinds = sorted(set(parts) - {SUSPECT, OTHER}, key=order.index)
        controls = [parts[kind].part(kind, means, choice) for kind in kinds]
        if controls:
            whole = _Sums()
            for kind in kinds:
                whole.add(parts[kind])
            controls.append(whole.part("all", means, choice))
        suspects, others = (parts.get(name, _Sums()).part(name, means, choice) for name in (SUSPECT, OTHER))
        found = signs.get((judge, model), {})
        made.append(InjectionStats(judge, model, tuple(controls), suspects, others, found))
    return made
