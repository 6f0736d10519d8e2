"""How replies were read: the first ones by their outcome, verdicts by the way they came about, calls by their step.

A first reply is the first that a request brought: that of its first call, or of the call to which it was put off.
What could not be read at first, and was judged afresh, may favour some verdicts: so those that were read strictly are
held against all others. Replies that different readers read are never counted together.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from judges import Scale
from runner.usage import Usage

from .counting import Counts
from .estimators import Rate, rate
from .question_sums import select_questions
from .significance import Comparison, compare
from .summaries import PAIR, ScoreSummary, Subset, subsets

FIRST = ("first", "last")
"""Steps of the ladder that bring a first reply."""
STEPS = ("first", "last", "reformat", "rejudge", "refused", "bisect", "retry", "reread", "probe")
WAYS = (
    *("strict", "tolerant", "repaired", "extracted", "bare_cut"),
    *("reformat", "rejudge", "after_refusal", "bisect", "retry"),
)
"""How a verdict can have come about, in the order of the ladder; a judge of one's own may know others."""
UNSCORED = ("malformed", "refused")
COERCIONS = ("coerced", "fraction", "integral_float", "number_word")
"""Notes that say that a value was written in another type."""

JudgeModelNames = tuple[str, str]


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
    same_verdict: int | None
    """Of rereads: whether they say what the judgment says."""
    n: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_usd: float

    @property
    def step(self) -> str:
        return kind_of(self.stage)

    @property
    def usage(self) -> Usage:
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
    scores: Mapping[str, ScoreSummary]
    choices: Mapping[str, Rate]
    against_strict: tuple[Comparison, ...]
    """These verdicts against those read strictly; none where there are too few."""


@dataclass(frozen=True, slots=True)
class ParsePaths:
    """How the verdicts of a judge × model came about, by one version of the reader."""

    judge: str
    model: str
    parser_version: str
    ways: tuple[ParsePath, ...]
    biases: tuple[Comparison, ...]
    """The verdicts read strictly against all others."""


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


@dataclass(frozen=True, slots=True)
class Reread:
    """Verdicts of a judge × model that stood in one place of their replies, judged once more at the strict form."""

    judge: str
    model: str
    place: str
    same: Rate
    """Of those whose second reply is a verdict too."""
    differ: Rate
    unread: int
    """Second replies that are none."""


def kind_of(stage: str) -> str:
    """A stage, or a reading, without its number, rule or reason."""
    return stage.partition(":")[0]


def first_replies(calls: Iterable[Call]) -> list[FirstReplies]:
    """By judge, model and version of the reader. Replies never read by one that kept note are left out.

    So are those that came when the trial had its judgment: each trial has one first reply.
    """
    parts: defaultdict[tuple[str, str, str], list[Call]] = defaultdict(list)
    for call in calls:
        if call.step in FIRST and call.state == "ok" and call.reading is not None and not call.late:
            parts[call.judge, call.model, call.parser_version or ""].append(call)
    entries = []
    for key, part in sorted(parts.items()):
        kinds, readings = _count_readings(part)
        hits = (kinds["strict"], kinds["malformed"], kinds["refused"], sum(call.n for call in part if call.cut))
        strict, malformed, refused, cut = (rate(n, kinds.total()) for n in hits)
        of_reason = [(text.partition(":")[2], n) for text, n in readings.items() if kind_of(text) == "malformed"]
        reasons = dict(sorted(of_reason, key=lambda entry: (-entry[1], entry[0])))
        tokens = sum(call.reasoning_tokens for call in part)
        entries.append(FirstReplies(*key, kinds.total(), strict, malformed, refused, cut, reasons, tokens))
    return entries


def rereads(calls: Iterable[Call]) -> list[Reread]:
    """By judge, model and place, of the verdicts that were checked."""
    parts: defaultdict[tuple[str, str, str], list[Call]] = defaultdict(list)
    for call in calls:
        if call.step == "reread" and call.state == "ok":
            parts[call.judge, call.model, call.stage.partition(":")[2]].append(call)
    entries = []
    for key, part in sorted(parts.items()):
        same, other, unread = (sum(call.n for call in part if call.same_verdict == said) for said in (1, 0, None))
        entries.append(Reread(*key, rate(same, same + other), rate(other, same + other), unread))
    return entries


def step_calls(calls: Iterable[Call]) -> list[StepCalls]:
    """By judge, model and step, in the order of the ladder."""
    parts: defaultdict[tuple[str, str, str], list[Call]] = defaultdict(list)
    for call in calls:
        parts[call.judge, call.model, call.step].append(call)
    entries = []
    for key, part in sorted(parts.items(), key=lambda entry: (*entry[0][:2], _place(STEPS, entry[0][2]))):
        kinds, _ = _count_readings(part)
        failed = sum(call.n for call in part if call.state != "ok")
        read = kinds.total() - kinds[""] - kinds["failed"] - kinds["malformed"] - kinds["refused"]
        usage = sum((call.usage for call in part), Usage())
        entries.append(StepCalls(*key, kinds.total(), failed, read, kinds["malformed"], kinds["refused"], usage))
    return entries


def _count_readings(calls: Iterable[Call]) -> tuple[Counter[str], Counter[str]]:
    """Kind of reading → calls, and reading → calls."""
    kinds, readings = Counter[str](), Counter[str]()
    for call in calls:
        kinds[kind_of(call.reading or "")] += call.n
        readings[call.reading or ""] += call.n
    return kinds, readings


def _place(order: Sequence[str], name: str) -> int:
    """Where a name stands in an order; those that it does not hold come last."""
    return order.index(name) if name in order else len(order)


def coercions(counts: Counts) -> dict[JudgeModelNames, dict[str, int]]:
    """What was written in another type, per judge × model: note → judgments that have it."""
    notes: defaultdict[JudgeModelNames, dict[str, int]] = defaultdict(dict)
    for judge, model, code, n in counts["notes"].select(*PAIR, "code", "n").sort("code").rows():
        if kind_of(code) in COERCIONS:
            notes[judge, model][code] = n
    return dict(notes)


_STAGE = pl.col("way")
# Without a number `refused` is no stage but the state of that name. Each place of a verdict is a way of its own.
_NUMBERED = _STAGE.str.replace("^refused:", "after_refusal:").str.split(":").list.first()
_WAY = pl.when(_STAGE.str.starts_with("tolerant:")).then(_STAGE).otherwise(_NUMBERED)


def parse_paths(
    counts: Counts, scales: Mapping[str, Mapping[str, Scale]], choices: Mapping[str, Sequence[str]]
) -> list[ParsePaths]:
    """How verdicts came about. `scales`: judge → score → scale; `choices`: judge → its labels."""
    key = (*PAIR, "parser_version")
    wholes = subsets(counts, "ways", key)
    by_way = subsets(counts, "ways", [*key, "kind"], kind=_WAY)
    by_strict = subsets(counts, "ways", [*key, "strict"], ~_STAGE.is_in(UNSCORED), strict=_STAGE == "strict")
    stages: defaultdict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    table = counts["ways"].with_columns(kind=_WAY).select(*key, "kind", "way", "n")
    for *place, stage, n in table.sort("way").rows():
        stages[tuple(place)][stage] = n
    sums = select_questions(counts, "ways", [*key, "system", "kind_of_way"], columns={"kind_of_way": _WAY})
    parts = sums.rename({"system": "stratum"}).partition_by(key, as_dict=True, include_key=False)
    entries = []
    for of, whole in sorted(wholes.items()):
        judge, model, version = of
        of_scales, labels = scales.get(judge, {}), choices.get(judge, ())
        held = parts.get(of, sums.clear())
        kinds = [kind for *same, kind in by_way if tuple(same) == of]
        strict, rest = (by_strict.get((*of, value), Subset()) for value in (True, False))
        paths = []
        for kind in sorted(kinds, key=lambda name: (name in UNSCORED, _place(WAYS, kind_of(name)), name)):
            part = by_way[*of, kind]
            present = {name: score for name, score in part.scores(of_scales).items() if score.n and name in of_scales}
            shares = part.shares(labels) if part.choices else {}
            against = (
                () if kind in ("strict", *UNSCORED) else compare(_halve(held, kind), part, strict, of_scales, labels)
            )
            paths.append(ParsePath(kind, rate(part.n, whole.n), stages[*of, kind], present, shares, tuple(against)))
        biases = compare(_halve(held, "strict"), strict, rest, of_scales, labels) if rest.n else ()
        entries.append(ParsePaths(judge, model, version, tuple(paths), tuple(biases)))
    return entries


def _halve(sums: pl.DataFrame, way: str) -> pl.DataFrame:
    """The sums of this way, which come first, and of those read strictly; or of these and all others."""
    own = pl.col("kind_of_way") == way
    held = sums if way == "strict" else sums.filter(own | (pl.col("kind_of_way") == "strict"))
    return held.with_columns(first=own)
