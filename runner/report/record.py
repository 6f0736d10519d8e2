"""What a report says, as one frozen record: the renderers add form, never a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.agreement import Agreement
from runner.ledger import Spend
from runner.metrics import Latency, Result
from runner.neighbours import Neighbours
from runner.protocol import Usage
from runner.sample import Drawn
from runner.serving import Served
from runner.susceptibility import Susceptibility
from runner.usage import Bound

from .company import moved
from .failures import Failure
from .injection import notices as sway_notices
from .reading import Reading
from .serving_table import changed
from .unsettled import words as unsettled

SCHEMA_VERSION = 1
"""Of the JSON document; changes when a key changes its meaning or goes."""


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """A judge of the run."""

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
    rejects: int
    sample: Drawn | None
    """The items are a sample of those that there were."""
    empty_response: str
    """What the config says of empty answers: judge, wrong or error."""
    joined: bool
    """Whether the questions are those of a reference; if not, they are all that any system's items hold."""
    coverage: tuple[Coverage, ...]
    several: Mapping[str, int]
    """System → questions to which it has several answers, where there are any."""
    clustered: bool
    """Whether the intervals of overall shares and means take the judgments about one question as a cluster."""
    judges: tuple[JudgeFacts, ...]
    models: tuple[ModelFacts, ...]
    results: tuple[Result, ...]
    agreement: tuple[Agreement, ...]
    batches: tuple[Neighbours, ...]
    flags: tuple[Flag, ...]
    failures: tuple[Failure, ...]
    """Trials that ended in an error: some of each kind."""
    reading: Reading
    serving: tuple[Served, ...]
    """The parts of what was judged by a model that changed on its endpoint meanwhile."""
    costs: tuple[Cost, ...]
    earlier: Spend
    """What was spent on judges and models that the plan no longer holds."""
    unsettled: Bound
    """What may have been billed besides: requests that came to no end that is known."""
    susceptibility: tuple[Susceptibility, ...]
    """What judges made of control items, and of items whose text may be meant to steer them."""
    over_limit: tuple[OverLimit, ...]

    def __str__(self) -> str:
        from .terminal import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"Report({self.name!r}: {self.status}, {self.done:,} of {self.planned:,} trials judged)"

    def _repr_markdown_(self) -> str:
        from .markdown import to_markdown

        return to_markdown(self)

    @property
    def complete(self) -> bool:
        """Whether every planned trial has a judgment, those of control items too."""
        return self.done == self.planned and not self.controls_left

    @property
    def controls_left(self) -> int:
        """Trials of control items without a judgment."""
        return sum(entry.controls[-1].not_done for entry in self.susceptibility if entry.controls)

    @property
    def done_share(self) -> float | None:
        """Share of the planned trials that have a judgment."""
        return self.done / self.planned if self.planned else None

    @property
    def status(self) -> str:
        """`complete`, or `INCOMPLETE` with the whole per cent that are done; `nothing to judge` without trials."""
        if not self.planned:
            return "nothing to judge"
        return "complete" if self.complete else f"INCOMPLETE {min(99, 100 * self.done // self.planned)} %"

    @property
    def parser_versions(self) -> list[str]:
        """Of the readers that the judgments are by: one, unless replies were read before and after an upgrade."""
        return sorted({version for judge in self.judges for version in judge.parser_versions})

    @property
    def simulated(self) -> bool:
        """Whether any verdict came from `jurybox simulate`."""
        return any(model.simulated for model in self.models)

    @property
    def unscored(self) -> int:
        """Trials judged without a score."""
        return sum(result.overall.unscored for result in self.results)

    @property
    def failed(self) -> int:
        """Trials that ended in an error."""
        return sum(result.overall.failed + result.overall.poisoned for result in self.results)

    @property
    def cost_usd(self) -> float | None:
        """What the run cost so far; None where no model has a price."""
        priced = [cost.usage.cost_usd for cost in self.costs if cost.priced]
        earlier = self.earlier.usage.cost_usd
        return sum(priced) + earlier if priced or earlier else None

    @property
    def requests(self) -> int:
        """All requests ever made in this run."""
        return sum(cost.requests for cost in self.costs) + self.earlier.requests

    @property
    def questions(self) -> str:
        """What the coverage is counted in."""
        return "reference questions" if self.joined else "questions"

    @property
    def comparable(self) -> bool:
        """Whether the systems were asked the same: false where no question is answered by two of them."""
        answering = [part for part in self.coverage if part.answered]
        distinct = max((part.total for part in answering), default=0)
        return self.joined or len(answering) < 2 or sum(part.answered for part in answering) > distinct

    @property
    def notices(self) -> list[str]:
        """What a reader must know before the numbers, most important first."""
        said: list[str] = []
        if not self.complete:
            said.append(
                f"{self.status}: {self.done:,} of {self.planned:,} trials have a judgment; "
                "all shares are over those. The same command resumes."
            )
        if names := [model.name for model in self.models if model.simulated]:
            said.append(
                f"SIMULATED: the judge ({', '.join(names)}) was jurybox's simulated endpoint. "
                "Its verdicts say nothing about the systems."
            )
        if len(self.parser_versions) > 1:
            said.append(
                f"Replies were read by parsers {' and '.join(self.parser_versions)}, which may differ: "
                f"`jurybox rescore {self.directory}` reads all of them by one, without a call."
            )
        if self.sample is not None:
            said.append(f"A {self.sample}, was judged.")
        for over in self.over_limit:
            said.append(
                f"{over.judge} × {over.model}: {over.unscored:,} of {over.planned:,} trials "
                f"({over.unscored / over.planned:.2%}) are without a score; max_unscored is {self.max_unscored:.2%}."
            )
        for judge in self.judges:
            for text, count in judge.cautions.items():
                whose = "" if text.startswith(judge.name) else f"{judge.name}: "
                said.extend([f"{whose}{text} ({_items(count)})"] if count else [])
            if judge.unrouted:
                said.append(f"{judge.name}: no route matches {_items(judge.unrouted)}; this judge leaves them out.")
        said.extend(changed(self.serving))
        said.extend(self.reading.notices)
        said.extend(sway_notices(self.susceptibility))
        said.extend(text for entry in self.batches for text in moved(entry))
        if self.rejects:
            rows = "row was rejected and is" if self.rejects == 1 else "rows were rejected and are"
            said.append(f"{self.rejects:,} input {rows} listed in items/rejects.jsonl.")
        if self.duplicates:
            rows = "row repeats an item" if self.duplicates == 1 else "rows repeat items"
            said.append(f"{self.duplicates:,} input {rows} word for word: such an item counts once.")
        said.extend(self._empty(part) for part in self.coverage if part.empty)
        if not self.comparable:
            said.append(
                "No question is shared by two systems: "
                "map items.fields.question_id to what their answers have in common."
            )
        missing = [
            part for part in self.coverage if part.answered < part.total and (self.comparable or not part.answered)
        ]
        said.extend(
            f"{part.system} answered {part.answered:,} of {part.total:,} {self.questions}; "
            "the missing answers are in no denominator."
            for part in missing
        )
        if self.earlier.requests:
            said.append(
                f"{self.earlier.requests:,} requests were made for judges or models that the plan no longer holds; "
                "the cost includes them."
            )
        if self.unsettled:
            said.append(unsettled(self.unsettled))
        if self.several:
            counts = ", ".join(f"{system} {questions:,}" for system, questions in sorted(self.several.items()))
            said.append(f"Questions with several answers: {counts}; {self._taken('answers')}.")
        if self.repeats > 1:
            said.append(f"Every item is judged {self.repeats} times; {self._taken('repeats')}.")
        return said

    @property
    def dependent(self) -> str | None:
        """Which judgments are not independent of each other: those of `answers` to one question, or `repeats`."""
        return "answers to one question" if self.several else "repeats" if self.repeats > 1 else None

    def _taken(self, what: str) -> str:
        if not self.clustered:
            return f"intervals take the {what} as independent"
        return (
            "the intervals of overall accuracy, shares of yes and means are clustered by question, "
            f"all others take the {what} as independent"
        )

    def _empty(self, part: Coverage) -> str:
        one = part.empty == 1
        judged = "it is judged like any other" if one else "they are judged like any other"
        wrong = "it counts as wrong without a call" if one else "they count as wrong without a call"
        treated = wrong if self.empty_response == "wrong" else judged
        return f"{part.system} gave {part.empty:,} empty answer{'' if one else 's'}; {treated}."


def _items(count: int) -> str:
    return f"{count:,} item" + ("" if count == 1 else "s")
