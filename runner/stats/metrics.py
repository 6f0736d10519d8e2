"""From counts to results with explicit denominators.

Scores over the scored trials with their bounds over all, slices, percentiles; agreement with human labels is made in
`agreement`. Trials of all repeats are pooled. How a judge works is not known here; what its numbers mean comes in as
`Scale`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from judges import STATES, Scale

from .counting import Counts, values_of
from .estimators import Rate, percentile, unweighted, unweighted_interval, wilson
from .summaries import PAIR, RESULT, ScoreSummary, Subset, subsets

Key = tuple[str, str, str]
"""judge, model, system."""


@dataclass(frozen=True, slots=True)
class Line:
    """Everything counted over one set of trials. The bounds of scores leave out what is not done yet."""

    planned: int
    scored: int
    malformed: int
    refused: int
    failed: int
    poisoned: int
    scores: Mapping[str, ScoreSummary]
    official: Rate | None
    """The official reading over all trials with a reply; None where the judge declares none."""

    @property
    def unscored(self) -> int:
        return self.malformed + self.refused + self.failed + self.poisoned

    @property
    def done(self) -> int:
        return self.scored + self.unscored

    @property
    def not_done(self) -> int:
        return self.planned - self.done


@dataclass(frozen=True, slots=True)
class Macro:
    """Unweighted means over the groups; None until every group has a value."""

    value: float | None
    low: float | None
    high: float | None
    """The 95 % interval of the value, for groups that have no question in common."""
    strict: float | None
    worst: float | None
    best: float | None
    """The value if every unscored trial were at that end of the scale."""


@dataclass(frozen=True, slots=True)
class Result:
    judge: str
    model: str
    system: str
    overall: Line
    groups: Mapping[str | None, Line]
    slices: Mapping[str, Line]
    macro: Mapping[str, Macro]
    """Score → its unweighted mean over the groups, for judges that ask for it."""
    macro_official: float | None
    reasons: Mapping[str, Mapping[str, int]]
    """State → reason → trials."""
    stages: Mapping[str, int]
    """How the scored trials were read → trials."""
    attempts_per_trial: float | None
    values: Mapping[str, Mapping[float, int]]
    """Score → value → scored trials that have it; scores on a scale of few steps only."""
    choices: Mapping[str, Rate]
    """Label → its share of the scored trials, in the judge's order; only of judges that choose."""


@dataclass(frozen=True, slots=True)
class UnscoredEffect:
    """A result that the trials without a score could move by more than its interval is wide."""

    judge: str
    model: str
    system: str
    of: str
    """The score, its mean over the groups, or the choice."""
    value: float | None
    worst: float
    best: float
    """The value if every trial without a score were at that end."""
    unscored: int
    judged: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of the deciding requests, within 1 %."""

    p50: float | None
    p90: float | None
    p99: float | None


def results(
    counts: Counts,
    scales: Mapping[str, Mapping[str, Scale]],
    macro: Mapping[str, bool],
    choices: Mapping[str, Sequence[str]] | None = None,
) -> list[Result]:
    """A result per judge × model × system, in that order.

    `scales`: judge → score → scale; `macro`: judge → wanted; `choices`: judge → its labels.
    """
    whole = pl.col("slice").is_null()
    overall = subsets(counts, "cells", RESULT, whole)
    groups = _by_result(subsets(counts, "cells", [*RESULT, "group"], whole))
    slices = _by_result(subsets(counts, "cells", [*RESULT, "slice"], ~whole))
    details, values = _details(counts), _values(counts)
    official = {key[:2] for key, subset in overall.items() if subset.counts["official_n"]}
    entries = []
    for key, subset in sorted(overall.items()):
        judge, model, system = key
        own_scales, has_official = scales.get(judge, {}), (judge, model) in official
        line = _line(subset, own_scales, has_official)
        of_groups, of_slices = (
            {name: _line(part, own_scales, has_official) for name, part in parts.get(key, {}).items()}
            for parts in (groups, slices)
        )
        wanted, states = macro.get(judge, False), details.get(key, {})
        rates = (part.official.value if part.official else None for part in of_groups.values())
        possible = {name: dict.fromkeys(values_of(scale), 0) for name, scale in own_scales.items()}
        entries.append(
            Result(
                judge, model, system, line, of_groups, of_slices,
                {name: _macro(name, of_groups) for name in line.scores} if wanted else {},
                unweighted(rates) if wanted and has_official else None,
                {state: states[state] for state in STATES if state != "scored" and state in states},
                states.get("scored", {}),
                subset.counts["attempts"] / line.done if line.done else None,
                {name: none | values.get((*key, name), {}) for name, none in possible.items() if none},
                subset.shares((choices or {}).get(judge, ())),
            )
        )  # fmt: skip
    return entries


def unscored_effects(results: Iterable[Result]) -> Iterator[UnscoredEffect]:
    """Of all trials of each judge × model × system, and of its mean over the groups."""
    for result in results:
        whole = result.overall
        for of, n, (value, low, high, worst, best) in _bounded(result):
            if worst is None or best is None or worst == best:
                continue
            if value is not None:
                if low is None or high is None:
                    # All scores are the same, or of too few questions: as sure as a share of so many that none has.
                    width = wilson(0.0, n)[1] * (best - worst) * whole.done / whole.unscored
                else:
                    width = high - low
                if max(value - worst, best - value) <= width:
                    continue
            yield UnscoredEffect(
                result.judge, result.model, result.system, of, value, worst, best, whole.unscored, whole.done
            )


_Bounded = tuple[float | None, float | None, float | None, float | None, float | None]


def _bounded(result: Result) -> Iterator[tuple[str, int, _Bounded]]:
    """Score or choice, n, and value, low, high, worst and best."""
    whole = result.overall
    for name, score in whole.scores.items():
        yield name, score.n, (score.value, score.low, score.high, score.worst, score.best)
    for name, mean in result.macro.items():
        # Without an interval, or before every group has a value, nothing is known of its own.
        if mean.low is not None:
            yield f"task-averaged {name}", whole.scored, (mean.value, mean.low, mean.high, mean.worst, mean.best)
    for label, share in result.choices.items() if not whole.scores and whole.done else ():
        worst, best = share.hits / whole.done, (share.hits + whole.unscored) / whole.done
        yield label, share.n, (share.value, share.low, share.high, worst, best)


def _by_result(parts: Mapping[tuple[Any, ...], Subset]) -> dict[Key, dict[Any, Subset]]:
    """judge, model, system → name → its part, by name."""
    entries: defaultdict[Key, dict[Any, Subset]] = defaultdict(dict)
    for (judge, model, system, name), part in sorted(parts.items(), key=lambda entry: str(entry[0][3])):
        entries[judge, model, system][name] = part
    return entries


def _line(subset: Subset, scales: Mapping[str, Scale], official: bool) -> Line:
    reading = subset.official() if official else None
    states = {state: subset.counts[state] for state in STATES}
    return Line(planned=subset.n, scores=subset.scores(scales), official=reading, **states)


def _details(counts: Counts) -> dict[Key, dict[str, dict[str, int]]]:
    entries: dict[Key, dict[str, dict[str, int]]] = {}
    table = counts["details"].sort("n", "detail", descending=[True, False])
    for judge, model, system, state, detail, n in table.select(*RESULT, "state", "detail", "n").rows():
        of_state = entries.setdefault((judge, model, system), {}).setdefault(state, {})
        name = detail or "unknown"
        of_state[name] = of_state.get(name, 0) + n
    return entries


def _values(counts: Counts) -> dict[tuple[str, ...], dict[float, int]]:
    entries: defaultdict[tuple[str, ...], dict[float, int]] = defaultdict(dict)
    for *key, value, n in counts["values"].select(*RESULT, "score", "value", "n").sort("value").rows():
        entries[tuple(key)][value] = n
    return entries


def _macro(score: str, groups: Mapping[str | None, Line]) -> Macro:
    of_groups = [line.scores[score] for line in groups.values()]
    strict = (entry.strict.value if entry.strict and entry.kind == "binary" else None for entry in of_groups)
    low, high = unweighted_interval([(entry.value, entry.low, entry.high) for entry in of_groups])
    worst, best = (unweighted(getattr(entry, end) for entry in of_groups) for end in ("worst", "best"))
    return Macro(unweighted(entry.value for entry in of_groups), low, high, unweighted(strict), worst, best)


def latencies(counts: Counts) -> dict[tuple[str, str], Latency]:
    buckets: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for judge, model, bucket, n in counts["latency"].select(*PAIR, "bucket", "n").rows():
        buckets[judge, model].append((bucket, n))
    return {of: Latency(*(percentile(held, share) for share in (0.5, 0.9, 0.99))) for of, held in buckets.items()}
