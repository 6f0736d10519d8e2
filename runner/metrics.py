"""From counts to results with explicit denominators.

Only here is anything divided: accuracy over the scored trials and strictly over all, means with their bounds, slices,
agreement with human labels, percentiles. Trials of all repeats are pooled. How a judge works is not known here; what
its numbers mean comes in as `Scale`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judges import STATES

from .counts import PAIR, Counts
from .rates import Confusion, Mean, Rate, mean, percentile, rate, unweighted


@dataclass(frozen=True, slots=True)
class Scale:
    """What a judge's score can be: yes or no (1 or 0), or graded between two ends where they are known."""

    binary: bool
    worst: float | None = 0.0
    best: float | None = 1.0


@dataclass(frozen=True, slots=True)
class Binary:
    """A yes-or-no score: over the scored trials, and strictly, where every judged trial without a score is wrong."""

    accuracy: Rate
    strict: Rate


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


@dataclass(frozen=True, slots=True)
class Agreement:
    """A score against the human label of the same name. System None: all systems."""

    judge: str
    model: str
    system: str | None
    label: str
    table: Confusion


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
    scores: dict[str, tuple[int, float]] = field(default_factory=dict)

    def line(self, scales: Mapping[str, Scale], official: bool) -> Line:
        counts = {name: self.trials[name] for name in STATES}
        unscored = sum(counts.values()) - counts["scored"]
        scores: dict[str, Binary | Mean] = {}
        for name in sorted(scales.keys() | self.scores.keys()):
            n, total = self.scores.get(name, (0, 0.0))
            scale = scales.get(name, Scale(False, None, None))
            if scale.binary:
                scores[name] = Binary(rate(round(total), n), rate(round(total), n + unscored))
            else:
                scores[name] = mean(total, n, unscored, scale.worst, scale.best)
        reading = rate(self.trials["official_hits"], self.trials["official_n"]) if official else None
        return Line(planned=self.trials["planned"], scores=scores, official=reading, **counts)


def results(counts: Counts, scales: Mapping[str, Mapping[str, Scale]], macro: Mapping[str, bool]) -> list[Result]:
    """A result per judge × model × system, in that order. `scales`: judge → score → scale; `macro`: judge → wanted."""
    keys = ("judge", "model", "system")
    cells: dict[tuple[str, str, str], dict[tuple[str, str | None], _Cell]] = {}
    for row in counts["trials"].iter_rows(named=True):
        for cell in _cells(cells, row):
            for name in ("planned", *STATES, "official_n", "official_hits", "attempts"):
                cell.trials[name] += row[name]
    for row in counts["scores"].iter_rows(named=True):
        for cell in _cells(cells, row):
            n, total = cell.scores.get(row["score"], (0, 0.0))
            cell.scores[row["score"]] = (n + row["n"], total + row["total"])
    details: dict[tuple[str, str, str], dict[str, dict[str, int]]] = {}
    for row in counts["details"].sort("n", "detail", descending=[True, False]).iter_rows(named=True):
        of_state = details.setdefault(tuple(row[key] for key in keys), {}).setdefault(row["state"], {})
        name = row["detail"] or "unknown"
        of_state[name] = of_state.get(name, 0) + row["n"]
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


def agreement(counts: Counts, scales: Mapping[str, Mapping[str, Scale]]) -> list[Agreement]:
    """Agreement of binary scores with the labels of their name: over all systems if several, and per system."""
    tables: dict[tuple[str, str, str], dict[str, dict[tuple[bool, bool], int]]] = {}
    for row in counts["labels"].iter_rows(named=True):
        if scales.get(row["judge"], {}).get(row["label"], Scale(False)).binary:
            systems = tables.setdefault((row["judge"], row["model"], row["label"]), {})
            cells = systems.setdefault(row["system"], defaultdict(int))
            cells[row["judged"], row["human"]] += row["n"]
    made: list[Agreement] = []
    for (judge, model, label), systems in sorted(tables.items()):
        per_system = [Agreement(judge, model, name, label, _confusion([systems[name]])) for name in sorted(systems)]
        if len(per_system) > 1:
            made.append(Agreement(judge, model, None, label, _confusion(list(systems.values()))))
        made.extend(per_system)
    return made


def _confusion(tables: Sequence[Mapping[tuple[bool, bool], int]]) -> Confusion:
    order = ((True, True), (True, False), (False, True), (False, False))
    return Confusion(*(sum(table.get(cell, 0) for table in tables) for cell in order))


def latencies(counts: Counts) -> dict[tuple[str, str], Latency]:
    """Latency percentiles per judge × model."""
    buckets: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for judge, model, bucket, n in counts["latency"].select(*PAIR, "bucket", "n").rows():
        buckets.setdefault((judge, model), []).append((bucket, n))
    return {pair: Latency(*(percentile(found, share) for share in (0.5, 0.9, 0.99))) for pair, found in buckets.items()}
