"""How replies were read: the first ones by their outcome, verdicts by the way they came about, calls by their step.

A first reply is the first that a request brought: that of its first call, or of the call to which it was put off.
What was judged afresh later was chosen by what could not be read at first, which may favour some verdicts: so verdicts
that were read strictly are held against all others. Everything is made of counts that add up, and never of replies that
different readers read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from judges import Scale
from runner.messages import Usage

from .counting import PAIR, Counts
from .estimators import LEAST_GROUP, Moments, Rate, Spread, chi_square, differ, fisher, rate, spread

FIRST = ("first", "last")
"""Steps of the ladder that bring a first reply."""
STEPS = ("first", "last", "reformat", "rejudge", "refused", "bisect", "retry", "probe")
WAYS = (
    *("strict", "tolerant", "repaired", "extracted", "bare_cut"),
    *("reformat", "rejudge", "after_refusal", "bisect", "retry"),
)
"""How a verdict can have come about, in the order of the ladder; a judge of one's own may know others."""
UNSCORED = ("malformed", "refused")
COERCIONS = ("coerced", "fraction", "integral_float", "number_word")
"""Notes that say that a value was written in another type."""

Pair = tuple[str, str]


class Call(NamedTuple):
    """Requests that went alike, as the ledger counts them."""

    judge: str
    model: str
    stage: str
    state: str
    reading: str | None
    parser_version: str | None
    cut: int
    late: int
    """Whether the trial had its judgment by another request when these were recorded."""
    n: int
    input_tokens: float
    cached_tokens: float
    output_tokens: float
    reasoning_tokens: float
    cost_usd: float

    @property
    def step(self) -> str:
        """The stage without its number."""
        return kind_of(self.stage)

    @property
    def usage(self) -> Usage:
        """What they took together."""
        return Usage(*self[-5:])


@dataclass(frozen=True, slots=True)
class FirstReplies:
    """The first replies of a judge × model, by one version of the reader: shares of `replies`."""

    judge: str
    model: str
    parser_version: str
    replies: int
    strict: Rate
    malformed: Rate
    refused: Rate
    cut: Rate
    """Those that the endpoint cut off for their length, whether they could be read or not."""
    reasons: Mapping[str, int]
    """Why malformed ones were → how many."""
    reasoning_tokens: float
    """Tokens spent on reasoning, which count as output."""


@dataclass(frozen=True, slots=True)
class ParsePath:
    """The judged trials whose verdict came about in one way, or that were left without one."""

    way: str
    trials: Rate
    """Of all trials whose reply was read."""
    stages: Mapping[str, int]
    """The stages in full → trials."""
    scores: Mapping[str, Rate | Spread]
    """Share of yes, or mean, of these alone."""
    choices: Mapping[str, Rate]


@dataclass(frozen=True, slots=True)
class Bias:
    """A score, or the choice, of the verdicts read strictly against that of all others."""

    of: str
    test: str
    strict_n: int
    rest_n: int
    strict: float | None
    rest: float | None
    """Share of yes, or mean; None of choices."""
    p: float


@dataclass(frozen=True, slots=True)
class ParsePaths:
    """How the verdicts of a judge × model came about, by one version of the reader."""

    judge: str
    model: str
    parser_version: str
    ways: tuple[ParsePath, ...]
    biases: tuple[Bias, ...]


@dataclass(frozen=True, slots=True)
class StepCalls:
    """The requests of one step of the ladder."""

    judge: str
    model: str
    step: str
    calls: int
    failed: int
    """Those that brought no reply."""
    read: int
    """Those whose reply was a verdict, or of which one was copied."""
    malformed: int
    refused: int
    usage: Usage


def kind_of(stage: str) -> str:
    """A stage without its number or rule."""
    return stage.partition(":")[0]


def first_replies(calls: Iterable[Call]) -> list[FirstReplies]:
    """By judge, model and version of the reader. Replies never read by one that kept note are left out.

    So are those that came when the trial had its judgment: each trial has one first reply.
    """
    found: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        if call.step in FIRST and call.state == "ok" and call.reading is not None and not call.late:
            found.setdefault((call.judge, call.model, call.parser_version or ""), []).append(call)
    return [_first(*key, entries) for key, entries in sorted(found.items())]


def _first(judge: str, model: str, parser_version: str, calls: Sequence[Call]) -> FirstReplies:
    total = sum(call.n for call in calls)

    def share(kind: str) -> Rate:
        return rate(sum(call.n for call in calls if kind_of(call.reading or "") == kind), total)

    reasons: dict[str, int] = {}
    for call in calls:
        state, _, reason = (call.reading or "").partition(":")
        if state == "malformed":
            reasons[reason] = reasons.get(reason, 0) + call.n
    return FirstReplies(
        judge,
        model,
        parser_version,
        total,
        share("strict"),
        share("malformed"),
        share("refused"),
        rate(sum(call.n for call in calls if call.cut), total),
        dict(sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))),
        sum(call.reasoning_tokens for call in calls),
    )


def step_calls(calls: Iterable[Call]) -> list[StepCalls]:
    """By judge, model and step, in the order of the ladder."""
    found: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        found.setdefault((call.judge, call.model, call.step), []).append(call)
    order = {name: place for place, name in enumerate(STEPS)}
    return [
        StepCalls(
            *key,
            calls=sum(call.n for call in entries),
            failed=sum(call.n for call in entries if call.state != "ok"),
            read=sum(call.n for call in entries if kind_of(call.reading or "failed") not in (*UNSCORED, "failed")),
            malformed=sum(call.n for call in entries if kind_of(call.reading or "") == "malformed"),
            refused=sum(call.n for call in entries if kind_of(call.reading or "") == "refused"),
            usage=sum((call.usage for call in entries), Usage()),
        )
        for key, entries in sorted(found.items(), key=lambda entry: (*entry[0][:2], order.get(entry[0][2], len(order))))
    ]


def coercions(counts: Counts) -> dict[Pair, dict[str, int]]:
    """What was written in another type, per judge × model: note → judgments that have it."""
    found: dict[Pair, dict[str, int]] = {}
    for judge, model, code, n in counts["notes"].select(*PAIR, "code", "n").sort("code").rows():
        if kind_of(code) in COERCIONS:
            found.setdefault((judge, model), {})[code] = n
    return found


@dataclass(slots=True)
class _Reads:
    """What is being added up of one judge × model × version: by stage."""

    trials: dict[str, int] = field(default_factory=dict)
    scores: dict[str, dict[str, Moments]] = field(default_factory=dict)
    choices: dict[str, dict[str, int]] = field(default_factory=dict)


def parse_paths(
    counts: Counts, scales: Mapping[str, Mapping[str, Scale]], choices: Mapping[str, Sequence[str]]
) -> list[ParsePaths]:
    """How verdicts came about. `scales`: judge → score → scale; `choices`: judge → its labels."""
    found: dict[tuple[str, str, str], _Reads] = {}

    def of(row: Mapping[str, Any]) -> _Reads:
        return found.setdefault((row["judge"], row["model"], row["parser_version"]), _Reads())

    for row in counts["ways"].sort("way").iter_rows(named=True):
        of(row).trials[row["way"]] = row["n"]
    for row in counts["way_scores"].iter_rows(named=True):
        moments = Moments(row["n"], row["total"], row["squares"])
        of(row).scores.setdefault(row["way"], {})[row["score"]] = moments
    for row in counts["way_choices"].iter_rows(named=True):
        of(row).choices.setdefault(row["way"], {})[row["choice"]] = row["n"]
    return [
        _ways(key, reads, scales.get(key[0], {}), tuple(choices.get(key[0], ())))
        for key, reads in sorted(found.items(), key=lambda entry: entry[0])
    ]


def _ways(key: tuple[str, str, str], reads: _Reads, scales: Mapping[str, Scale], labels: tuple[str, ...]) -> ParsePaths:
    whole = sum(reads.trials.values())
    stages: dict[str, dict[str, int]] = {}
    for stage, n in reads.trials.items():
        # Without a number it is no stage but the state of that name.
        kind = "after_refusal" if stage.startswith("refused:") else kind_of(stage)
        stages.setdefault(kind, {})[stage] = n
    order = {name: place for place, name in enumerate(WAYS)}
    order |= {name: len(order) + 1 + place for place, name in enumerate(UNSCORED)}
    kinds = sorted(stages, key=lambda name: (order.get(name, len(WAYS)), name))
    made = tuple(_way(kind, stages[kind], whole, reads, scales, labels) for kind in kinds)
    return ParsePaths(*key, made, tuple(_biases(reads, scales, labels)))


def _way(
    kind: str, stages: Mapping[str, int], whole: int, reads: _Reads, scales: Mapping[str, Scale], labels: Sequence[str]
) -> ParsePath:
    trials = sum(stages.values())
    scores: dict[str, Rate | Spread] = {}
    for name, scale in scales.items():
        moments = _score(reads, stages, name)
        if moments.n:
            scores[name] = rate(round(moments.total), moments.n) if scale.binary else spread(moments)
    chosen = _chosen(reads, stages, labels)
    shares = {label: rate(n, sum(chosen)) for label, n in zip(labels, chosen, strict=True)} if sum(chosen) else {}
    return ParsePath(kind, rate(trials, whole), stages, scores, shares)


def _biases(reads: _Reads, scales: Mapping[str, Scale], labels: Sequence[str]) -> Iterable[Bias]:
    strict = [stage for stage in reads.trials if stage == "strict"]
    rest = [stage for stage in reads.trials if stage not in ("strict", *UNSCORED)]
    for name, scale in scales.items():
        one, other = _score(reads, strict, name), _score(reads, rest, name)
        if not one.n or not other.n:
            continue
        if scale.binary:
            hits, other_hits = round(one.total), round(other.total)
            p = fisher(hits, one.n - hits, other_hits, other.n - other_hits)
            yield Bias(name, "Fisher's exact test", one.n, other.n, one.mean, other.mean, p)
        elif difference := differ((one, other)):
            yield Bias(name, "analysis of variance", one.n, other.n, one.mean, other.mean, difference.p)
    if labels and not scales:
        chosen, others = _chosen(reads, strict, labels), _chosen(reads, rest, labels)
        tested = min(sum(chosen), sum(others)) >= LEAST_GROUP
        if tested and (found := chi_square(chosen, others)) is not None:
            yield Bias("choice", "chi-square test", sum(chosen), sum(others), None, None, found)


def _score(reads: _Reads, stages: Iterable[str], name: str) -> Moments:
    return sum((reads.scores.get(stage, {}).get(name, Moments()) for stage in stages), Moments())


def _chosen(reads: _Reads, stages: Iterable[str], labels: Sequence[str]) -> list[int]:
    found = [reads.choices.get(stage, {}) for stage in stages]
    return [sum(counted.get(label, 0) for counted in found) for label in labels]
