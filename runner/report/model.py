"""What a report says, as one frozen record: the renderers add form, never a number."""

from collections.abc import Mapping
from dataclasses import dataclass

from runner.dataset import SampleSummary
from runner.ledger.batch_writer import Spend
from runner.stats.agreement import Agreement
from runner.stats.batch_effects import BatchEffect
from runner.stats.group_gaps import GroupGap
from runner.stats.injection_stats import InjectionStats
from runner.stats.malformed_examples import MalformedExample
from runner.stats.metrics import Latency, Result, UnscoredEffect
from runner.stats.model_drift import ServedVersion
from runner.stats.paired import PairedDifference
from runner.stats.parse_stats import FirstReplies, ParsePaths, Reread, StepCalls
from runner.usage import CostBound, Usage

from .failures import Failure

SCHEMA_VERSION = 1
"""Of the JSON document; changes when a key changes its meaning or goes."""


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    name: str
    fingerprint: str
    protocol_notes: tuple[str, ...]
    parser_versions: tuple[str, ...]
    trials: int
    """Items that the judge routes."""
    unrouted: int
    cautions: Mapping[str, int]
    """What is to be said about some items → how many."""
    example: str | None
    """The reply that a batched judge's prompt shows as its example."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A judge model of the run, as asked for and as served."""

    name: str
    model_id: str
    revision: str | None
    served: tuple[str, ...]
    structured: tuple[str, ...]
    simulated: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the reference questions a system answered."""

    system: str
    answered: int
    total: int
    empty: int
    """Answers with nothing in them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one judge × model took. Every request counts, repeated and failed ones too."""

    judge: str
    model: str
    requests: int
    usage: Usage
    priced: bool
    latency: Latency


@dataclass(frozen=True, slots=True)
class Flag:
    """A note that judgments of a judge × model have: how many have it, and how often it was met in all."""

    judge: str
    model: str
    code: str
    trials: int
    times: int


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A judge × model that left more trials without a score than `max_unscored` allows."""

    judge: str
    model: str
    unscored: int
    planned: int


@dataclass(frozen=True, slots=True)
class AnsweredScore:
    """A score of a system that gave empty answers: over all of them, and over those with something in them."""

    judge: str
    model: str
    system: str
    score: str
    n: int
    value: float
    answered: int
    value_answered: float | None


@dataclass(frozen=True, slots=True)
class KeyTrouble:
    """A judge × model whose sentence keys are not those of the items: its shares mean nothing."""

    judge: str
    model: str
    unknown: int
    named: int
    above_one: tuple[str, ...]
    """Scores whose mean is above 1, as `system: score value`."""


@dataclass(frozen=True, slots=True)
class ParseSummary:
    """How replies were read, of every judge × model of the plan."""

    first_replies: tuple[FirstReplies, ...]
    ways: tuple[ParsePaths, ...]
    coercions: Mapping[tuple[str, str], Mapping[str, int]]
    unreadable: tuple[MalformedExample, ...]
    calls: tuple[StepCalls, ...]
    """Those of the plan, and those of models that it holds only to reformat."""
    rereads: tuple[Reread, ...]
    """Verdicts that were checked, by the place where they stood in their replies."""


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """A run as it stands. A notebook shows it as Markdown; `str` is what a terminal gets."""

    name: str
    directory: str
    revision: int
    """Of the judgments: 1, and one more for each `rescore` or `retry` that changed them."""
    planned: int
    done: int
    repeats: int
    max_unscored: float
    items: int
    duplicates: int
    copies: int
    """Rows that repeat others word for word, and count."""
    rejects: int
    limit: int | None
    """Only the first so many of the items were to be judged."""
    beyond_limit: tuple[str, ...]
    """Systems without an item among those."""
    input_notices: tuple[str, ...]
    """What is odd about the inputs."""
    sample: SampleSummary | None
    """The items are a sample of those that there were."""
    empty_response: str | None
    """What the config says of empty answers: judge, wrong or error; None: nothing, so that they are judged."""
    answered: tuple[AnsweredScore, ...]
    joined: bool
    """Whether the questions are those of a reference; if not, they are all that any system's items hold."""
    coverage: tuple[Coverage, ...]
    unnamed_questions: int
    """Rows of which nothing says what question they answer."""
    several: Mapping[str, int]
    """System → questions to which it has several answers, where there are any."""
    judges: tuple[JudgeFacts, ...]
    models: tuple[ModelFacts, ...]
    results: tuple[Result, ...]
    comparisons: tuple[PairedDifference, ...]
    """Systems in pairs, on the questions that both answered."""
    widest_gap: GroupGap | None
    """The groups that a system does best and worst on."""
    agreement: tuple[Agreement, ...]
    model_labels: tuple[str, ...]
    """Labels that look as if a model had made them."""
    batches: tuple[BatchEffect, ...]
    flags: tuple[Flag, ...]
    failures: tuple[Failure, ...]
    """Trials that ended in an error: some of each kind."""
    reading: ParseSummary
    serving: tuple[ServedVersion, ...]
    """The parts of what was judged by a model that changed on its endpoint meanwhile."""
    costs: tuple[Cost, ...]
    earlier: Spend
    """What was spent on judges and models that the plan no longer holds."""
    judging_s: float | None
    """How long requests were going on, over all sessions."""
    running: bool
    """Whether a process is at work on it."""
    unsettled: CostBound
    """What may have been billed besides: requests that came to no end that is known."""
    susceptibility: tuple[InjectionStats, ...]
    """What judges made of control items, and of items whose text may be meant to steer them."""
    over_limit: tuple[OverLimit, ...]
    unscored_effects: tuple[UnscoredEffect, ...]
    """Results that trials without a score could move by more than their intervals are wide."""
    key_trouble: tuple[KeyTrouble, ...]

    def __repr__(self) -> str:
        return f"Report({self.name!r}: {self.status}, {self.done:,} of {self.planned:,} trials judged)"

    @property
    def finished(self) -> bool:
        """Whether every planned trial has a judgment, those of control items too."""
        return self.done == self.planned and not self.controls_left

    @property
    def complete(self) -> bool:
        """Whether it is finished, and the plan was of all items."""
        return self.finished and self.limit is None

    @property
    def needs_attention(self) -> bool:
        """Whether its numbers may mislead although it is finished: then the command ends with status 3."""
        return bool(self.over_limit or self.unscored_effects or self.key_trouble)

    @property
    def controls_left(self) -> int:
        return sum(entry.controls[-1].not_done for entry in self.susceptibility if entry.controls)

    @property
    def done_share(self) -> float | None:
        return self.done / self.planned if self.planned else None

    @property
    def status(self) -> str:
        """`complete`, or `INCOMPLETE` with what is there; `nothing to judge` without trials."""
        if not self.planned:
            return "nothing to judge"
        if not self.finished:
            return f"INCOMPLETE {min(99, 100 * self.done // self.planned)} %"
        return "complete" if self.limit is None else f"INCOMPLETE: first {self.limit:,} of {self.items:,} rows"

    @property
    def parser_versions(self) -> list[str]:
        """Of the readers that the judgments are by: one, unless replies were read before and after an upgrade."""
        return sorted({version for judge in self.judges for version in judge.parser_versions})

    @property
    def simulated(self) -> bool:
        return any(model.simulated for model in self.models)

    @property
    def unscored(self) -> int:
        return sum(result.overall.unscored for result in self.results)

    @property
    def failed(self) -> int:
        return sum(result.overall.failed + result.overall.poisoned for result in self.results)

    @property
    def cost_usd(self) -> float | None:
        """What the run cost so far; None where no model has a price."""
        priced = [cost.usage.cost_usd for cost in self.costs if cost.priced]
        earlier = self.earlier.usage.cost_usd
        return sum(priced) + earlier if priced or earlier else None

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Models that were asked and have no price: what they cost is in no sum."""
        return tuple(dict.fromkeys(cost.model for cost in self.costs if cost.requests and not cost.priced))

    @property
    def requests(self) -> int:
        return sum(cost.requests for cost in self.costs) + self.earlier.requests

    @property
    def questions(self) -> str:
        """What the coverage is counted in."""
        return "reference questions" if self.joined else "questions"

    @property
    def comparable(self) -> bool:
        """Whether the systems were asked the same: false where no question is answered by two of them."""
        if not self.pairable:
            return False
        answering = [part for part in self.coverage if part.answered]
        distinct = max((part.total for part in answering), default=0)
        return self.joined or len(answering) < 2 or sum(part.answered for part in answering) > distinct

    @property
    def pairable(self) -> bool:
        """Whether answers to the same question can be told: by an id, or by the question's text."""
        return not self.unnamed_questions

    @property
    def several_to_a_question(self) -> bool:
        """Whether a system's judgments of one question are several: of several answers, or repeats."""
        return bool(self.several) or self.repeats > 1
