"""From counts to results with explicit denominators.

Accuracy over the scored trials and strictly over all, means with their bounds, slices, percentiles; agreement with
human labels is made in `agreement`. Trials of all repeats are pooled. How a judge works is not known here; what
its numbers mean comes in as `Scale`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judges import STATES, Scale

from .counting import PAIR, Counts
from .estimators import Mean, Moments, Rate, mean, percentile, rate, unweighted
from .verdict_counts import values_of


@dataclass(frozen=True, slots=True)
class Binary:
    """A yes-or-no score: over the scored trials; and its bounds, where every judged trial without a score is wrong
    (`strict`) or right (`best`)."""

    accuracy: Rate
    strict: Rate
    best: Rate


@dataclass(frozen=True, slots=True)
class Line:
    """Everything counted over one set of trials. `strict` and the bounds leave out what is not done yet."""

    planned: int
    scored: int
    malformed: int
    refused: int
    failed: int
    poisoned: int
    scores: Mapping[str, Binary | Mean]
    official: Rate | None
    """The official reading over all trials with a reply; None where the judge declares none."""

    @property
    def unscored(self) -> int:
        """Judged, without a score."""
        return self.malformed + self.refused + self.failed + self.poisoned

    @property
    def not_done(self) -> int:
        """Planned, without a judgment."""
        return self.planned - self.scored - self.unscored


@dataclass(frozen=True, slots=True)
class Macro:
    """Unweighted means over the groups; None until every group has a value."""

    accuracy: float | None
    strict: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """One judge × model × system."""

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
class Latency:
    """Seconds of the deciding requests, within 1 %."""

    p50: float | None
    p90: float | None
    p99: float | None


@dataclass(slots=True)
class _Cell:
    """Sums being put together for one line."""

    trials: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    scores: dict[str, tuple[Moments, int]] = field(default_factory=dict)
    """Score → its moments, and how many reach the judge's threshold."""

    def line(self, scales: Mapping[str, Scale], official: bool) -> Line:
        counts = {name: self.trials[name] for name in STATES}
        unscored = sum(counts.values()) - counts["scored"]
        scores: dict[str, Binary | Mean] = {}
        for name in dict.fromkeys([*scales, *sorted(self.scores)]):
            found, reached = self.scores.get(name, (Moments(), 0))
            scale = scales.get(name, Scale(False, None, None))
            if scale.binary:
                hits, every = round(found.total), found.n + unscored
                scores[name] = Binary(rate(hits, found.n), rate(hits, every), rate(hits + unscored, every))
            else:
                scores[name] = mean(found, unscored, scale.low, scale.high, scale.at_least, reached)
        reading = rate(self.trials["official_hits"], self.trials["official_n"]) if official else None
        return Line(planned=self.trials["planned"], scores=scores, official=reading, **counts)


def results(
    counts: Counts,
    scales: Mapping[str, Mapping[str, Scale]],
    macro: Mapping[str, bool],
    choices: Mapping[str, Sequence[str]] | None = None,
) -> list[Result]:
    """A result per judge × model × system, in that order.

    `scales`: judge → score → scale; `macro`: judge → wanted; `choices`: judge → its labels.
    """
    keys = ("judge", "model", "system")
    cells: dict[tuple[str, str, str], dict[tuple[str, str | None], _Cell]] = {}
    for row in counts["trials"].iter_rows(named=True):
        for cell in _cells(cells, row):
            for name in ("planned", *STATES, "official_n", "official_hits", "attempts"):
                cell.trials[name] += row[name]
    for row in counts["scores"].iter_rows(named=True):
        for cell in _cells(cells, row):
            found, reached = cell.scores.get(row["score"], (Moments(), 0))
            found += Moments(row["n"], row["total"], row["squares"])
            cell.scores[row["score"]] = (found, reached + row["reached"])
    details: dict[tuple[str, str, str], dict[str, dict[str, int]]] = {}
    for row in counts["details"].sort("n", "detail", descending=[True, False]).iter_rows(named=True):
        of_state = details.setdefault(tuple(row[key] for key in keys), {}).setdefault(row["state"], {})
        name = row["detail"] or "unknown"
        of_state[name] = of_state.get(name, 0) + row["n"]
    values: dict[tuple[str, ...], dict[float, int]] = {}
    for *key, value, n in counts["values"].select(*keys, "score", "value", "n").sort("value").rows():
        values.setdefault(tuple(key), {})[value] = n
    chosen = {tuple(key): n for *key, n in counts["chosen"].select(*keys, "choice", "n").rows()}
    has_official = {(judge, model) for judge, model, n in counts["trials"].select(*PAIR, "official_n").rows() if n}
    made = []
    for (judge, model, system), parts in sorted(cells.items(), key=lambda entry: entry[0]):
        official = (judge, model) in has_official
        lines = {place: cell.line(scales.get(judge, {}), official) for place, cell in parts.items()}
        groups = {name: lines["group", name] for kind, name in sorted(parts, key=str) if kind == "group"}
        overall = lines["all", None]
        wanted = macro.get(judge, False)
        attempts, done = parts["all", None].trials["attempts"], overall.planned - overall.not_done
        of_states = details.get((judge, model, system), {})
        official_rates = {name: line.official.value if line.official else None for name, line in groups.items()}
        made.append(
            Result(
                judge,
                model,
                system,
                overall,
                groups,
                {str(name): lines["slice", name] for kind, name in sorted(parts, key=str) if kind == "slice"},
                {name: _macro(name, groups) for name in overall.scores} if wanted else {},
                unweighted(official_rates) if wanted and official else None,
                {state: of_states[state] for state in STATES if state != "scored" and state in of_states},
                of_states.get("scored", {}),
                attempts / done if done else None,
                {
                    name: dict.fromkeys(possible, 0) | values.get((judge, model, system, name), {})
                    for name, scale in scales.get(judge, {}).items()
                    if (possible := values_of(scale))
                },
                {
                    label: rate(chosen.get((judge, model, system, label), 0), overall.scored)
                    for label in (choices or {}).get(judge, ())
                },
            )
        )
    return made


def _cells(
    cells: dict[tuple[str, str, str], dict[tuple[str, str | None], _Cell]], row: Mapping[str, str]
) -> list[_Cell]:
    parts = cells.setdefault((row["judge"], row["model"], row["system"]), {})
    if row["slice"] is not None:
        return [parts.setdefault(("slice", row["slice"]), _Cell())]
    return [parts.setdefault(("all", None), _Cell()), parts.setdefault(("group", row["group"]), _Cell())]


def _macro(score: str, groups: Mapping[str | None, Line]) -> Macro:
    values: dict[str | None, float | None] = {}
    strict: dict[str | None, float | None] = {}
    for name, line in groups.items():
        entry = line.scores[score]
        values[name] = entry.accuracy.value if isinstance(entry, Binary) else entry.value
        strict[name] = entry.strict.value if isinstance(entry, Binary) else None
    return Macro(unweighted(values), unweighted(strict))


def latencies(counts: Counts) -> dict[tuple[str, str], Latency]:
    """Latency percentiles per judge × model."""
    buckets: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for judge, model, bucket, n in counts["latency"].select(*PAIR, "bucket", "n").rows():
        buckets.setdefault((judge, model), []).append((bucket, n))
    return {pair: Latency(*(percentile(found, share) for share in (0.5, 0.9, 0.99))) for pair, found in buckets.items()}
