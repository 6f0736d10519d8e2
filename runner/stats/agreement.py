"""How far judges agree with people, and people with each other, from joint counts.

Hides which label is held against which score, and on which scale each stands; what two sides have in common is measured
in `agreement_measures`, which is imported only where there is something to measure. People are compared over the staged
items and not over the trials, of which an item has as many as judges, models and repeats ask about it, or none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Literal

import orjson

from judges import Scale
from runner.dataset import Staged
from runner.labels import Label

from .counting import Counts
from .estimators import Confusion, Metric
from .summaries import PAIR

Kind = Literal["binary", "graded", "mixed", "choice"]
Value = float | str
Pairs = Counter[tuple[Value, Value]]
"""(value of one side, value of the other) → how often."""
People = Mapping[tuple[str, str], Mapping[str, Pairs]]
"""Two labels of one score → system → their values over distinct items."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """The lowest and the highest value of a label, and the ends of the scale of a judge's score."""

    label: tuple[float, float]
    score: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Agreement:
    """A judge's score against a label of it (pairs are trials), or two labels of one score (pairs are items)."""

    judge: str | None
    """None, like the model: people against people."""
    model: str | None
    system: str | None
    """None: all systems."""
    label: str
    second: str | None
    """The label that people are compared with, where no judge is."""
    of: str
    kind: Kind
    """What the two sides are: both yes or no, both graded, one of each, or both choosing."""
    threshold: float | None
    """The label, and the judge's score where that is graded, was cut here; None: neither was."""
    second_threshold: float | None
    """The second label was cut here."""
    n: int
    metrics: Mapping[str, Metric]
    confusion: Confusion | None
    """Where both sides say yes or no, cut or by themselves."""
    choices: tuple[tuple[str, str, int], ...]
    """Where both sides choose: every pair of choices with its count."""
    ranges: Ranges | None
    """Where the label, over all systems, seems to be on another scale than the judge's score."""

    @property
    def strangers(self) -> bool:
        """Whether the two sides have no choice in common: they are probably spelled differently."""
        left, right = {pair[0] for pair in self.choices}, {pair[1] for pair in self.choices}
        return bool(self.choices) and not left & right


def agreement(
    counts: Counts, labels: Mapping[str, Label], scales: Mapping[str, Mapping[str, Scale]]
) -> list[Agreement]:
    """Judges against people: by label, judge and model, over all systems if there are several and for each.

    `scales`: judge → score → scale.
    """
    entries = []
    for name, label in labels.items():
        table = counts["label_choices" if label.type == "choice" else "label_values"].filter(label=name).sort(*PAIR)
        rows = table.select(*PAIR, "system", "judged", "human", "n").rows()
        for (judge, model), of_judge_model in groupby(rows, key=lambda row: row[:2]):
            scale = scales.get(judge, {}).get(label.score(name), Scale(False, None, None))
            systems: dict[str, Pairs] = {}
            for _, _, system, judged, human, n in of_judge_model:
                systems.setdefault(system, Counter())[judged, human] = n
            ranges = _ranges(scale, systems.values()) if label.type == "ordinal" and not scale.binary else None
            for system, pairs in _with_all(systems):
                entries.append(_agreement((judge, model, system), name, label, None, scale, pairs, ranges))
    return entries


def people_agreement(people: People, labels: Mapping[str, Label]) -> list[Agreement]:
    """People against people: by pair of labels, over all systems if there are several and for each."""
    return [
        _agreement((None, None, system), first, labels[first], second, labels[second], pairs)
        for (first, second), systems in people.items()
        for system, pairs in _with_all(systems)
    ]


def _ranges(scale: Scale, systems: Iterable[Pairs]) -> Ranges | None:
    """Where a label has a value that the scale has not, or keeps to its lower half while the scores do not.

    A shorter scale begins at 0 or 1, low on a longer one; labels that are high throughout are an easy task.
    """
    if scale.low is None or scale.high is None:
        return None
    pairs = [pair for held in systems for pair in held]
    judged, human = [float(pair[0]) for pair in pairs], [float(pair[1]) for pair in pairs]
    low, high, half = min(human), max(human), (scale.low + scale.high) / 2
    if scale.low <= low and high <= scale.high and (high > half or max(judged) <= half):
        return None
    return Ranges((low, high), (scale.low, scale.high))


def _with_all(systems: Mapping[str, Pairs]) -> Iterator[tuple[str | None, Pairs]]:
    if len(systems) > 1:
        yield None, sum(systems.values(), Counter())
    yield from sorted(systems.items())


def _agreement(
    place: tuple[str | None, str | None, str | None],
    name: str,
    label: Label,
    second: str | None,
    against: Scale | Label,
    pairs: Pairs,
    ranges: Ranges | None = None,
) -> Agreement:
    """`against`: what the label is held against: the scale of a judge's score, or the second label."""
    from .agreement_measures import Side, compare_choices, compare_numbers

    # In an order of their own: resamples must not depend on the order in which rows were read.
    ordered = sorted(pairs.items())
    people = place[0] is None
    kind: Kind = "choice"
    threshold, second_threshold, confusion = None, None, None
    if label.type == "choice":
        metrics = compare_choices(ordered, people)
    else:
        own = Side(label.type == "ordinal", label.threshold)
        if isinstance(against, Label):
            left, right = own, Side(against.type == "ordinal", against.threshold)
        else:
            left, right = Side(not against.binary, label.threshold, against), own
        kind = "mixed" if left.graded != right.graded else "graded" if left.graded else "binary"
        metrics, confusion = compare_numbers(ordered, left, right, people)
        if confusion is not None and people:
            threshold = left.threshold if left.graded else None
            second_threshold = right.threshold if right.graded else None
        elif confusion is not None:
            threshold = label.threshold if kind != "binary" else None
    choices = tuple((str(x), str(y), n) for (x, y), n in ordered) if kind == "choice" else ()
    return Agreement(
        *place, name, second, label.score(name), kind, threshold, second_threshold, sum(pairs.values()), metrics,
        confusion, choices, ranges,
    )  # fmt: skip


ROWS = 20_000
"""Staged items that are looked at together."""


def people(staged: Staged, rows: int, labels: Mapping[str, Label]) -> People:
    """What every two labels of one score say of the first `rows` staged items."""
    compared = [
        (first, second)
        for first, second in combinations(labels, 2)
        if labels[first].score(first) == labels[second].score(second)
        # Numbers and texts have nothing in common; yes and no are numbers here.
        and (labels[first].type == "choice") == (labels[second].type == "choice")
    ]
    counts: dict[tuple[str, str], dict[str, Pairs]] = {names: {} for names in compared}
    for start in range(0, rows if compared else 0, ROWS):
        frame = staged.frame(start, min(ROWS, rows - start), ["system", "labels"])
        for system, data, items in frame.group_by("system", "labels").len().iter_rows():
            texts = orjson.loads(data).items()
            values: dict[str, Value] = {name: text if isinstance(text, str) else float(text) for name, text in texts}
            for first, second in compared:
                if first in values and second in values:
                    counts[first, second].setdefault(system, Counter())[values[first], values[second]] += items
    return {names: systems for names, systems in counts.items() if systems}
