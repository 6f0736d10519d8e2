"""How far judges agree with people, and people with each other, from joint counts.

Hides which label is held against which score, and on which scale each stands; what two sides have in common is measured
in `comparison`, which is imported only where there is something to measure.

What several annotators said of the same items: pairs of labels of one score, counted over distinct items.

Read from the staged items and not from the trials, of which an item has as many as judges, models and repeats ask about
it, or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any, Literal

import orjson

from judges import Scale
from runner.dataset import Staged
from runner.labels import Label

from .counting import PAIR, Counts
from .estimators import Confusion, Metric

Kind = Literal["binary", "graded", "mixed", "choice"]
Pairs = Mapping[tuple[float | str, float | str], int]
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
    made = []
    for name, label in labels.items():
        table = counts["choices" if label.type == "choice" else "labels"].filter(label=name).sort(*PAIR)
        rows = table.select(*PAIR, "system", "judged", "human", "n").rows()
        for (judge, model), found in groupby(rows, key=lambda row: row[:2]):
            scale = scales.get(judge, {}).get(label.score(name), Scale(False, None, None))
            systems: dict[str, dict[tuple[float | str, float | str], int]] = {}
            for _, _, system, judged, human, n in found:
                systems.setdefault(system, {})[judged, human] = n
            ranges = _ranges(scale, systems.values()) if label.type == "ordinal" and not scale.binary else None
            for system, pairs in _with_all(systems):
                made.append(_agreement((judge, model, system), name, label, None, (scale, label), pairs, ranges))
    return made


def people_agreement(people: People, labels: Mapping[str, Label]) -> list[Agreement]:
    """People against people: by pair of labels, over all systems if there are several and for each."""
    made = []
    for (first, second), systems in people.items():
        one, other = labels[first], labels[second]
        for system, pairs in _with_all(systems):
            made.append(_agreement((None, None, system), first, one, second, (one, other), pairs))
    return made


def _ranges(scale: Scale, systems: Iterable[Pairs]) -> Ranges | None:
    """Where a label has a value that the scale has not, or keeps to its lower half while the scores do not.

    A shorter scale begins at 0 or 1, low on a longer one; labels that are high throughout are an easy task.
    """
    if scale.low is None or scale.high is None:
        return None
    pairs = [pair for found in systems for pair in found]
    given, said = [float(pair[0]) for pair in pairs], [float(pair[1]) for pair in pairs]
    low, high, half = min(said), max(said), (scale.low + scale.high) / 2
    if scale.low <= low and high <= scale.high and (high > half or max(given) <= half):
        return None
    return Ranges((low, high), (scale.low, scale.high))


def _with_all(systems: Mapping[str, Pairs]) -> Iterable[tuple[str | None, Pairs]]:
    if len(systems) > 1:
        together: dict[tuple[float | str, float | str], int] = {}
        for pairs in systems.values():
            for pair, n in pairs.items():
                together[pair] = together.get(pair, 0) + n
        yield None, together
    yield from sorted(systems.items())


def _agreement(
    place: tuple[str | None, str | None, str | None],
    name: str,
    label: Label,
    second: str | None,
    sides: tuple[Scale | Label, Label],
    pairs: Pairs,
    ranges: Ranges | None = None,
) -> Agreement:
    from .agreement_measures import Side, compare_choices, compare_numbers

    # In an order of their own: resamples must not depend on the order in which rows were read.
    found = sorted(pairs.items())
    judge, model, system = place
    kind: Kind = "choice"
    threshold, second_threshold, confusion = None, None, None
    if label.type == "choice":
        metrics = compare_choices(found, people=judge is None)
    else:
        one, other = sides
        if isinstance(one, Label):
            left = Side(one.type == "ordinal", one.threshold)
        else:
            left = Side(not one.binary, other.threshold, one)
        right = Side(other.type == "ordinal", other.threshold)
        kind = "mixed" if left.graded != right.graded else "graded" if left.graded else "binary"
        metrics, confusion = compare_numbers(found, left, right, people=judge is None)
        if confusion is not None and judge is not None:
            threshold = other.threshold if kind != "binary" else None
        elif confusion is not None:
            threshold = left.threshold if left.graded else None
            second_threshold = right.threshold if right.graded else None
    return Agreement(
        judge=judge,
        model=model,
        system=system,
        label=name,
        second=second,
        of=label.score(name),
        kind=kind,
        threshold=threshold,
        second_threshold=second_threshold,
        n=sum(pairs.values()),
        metrics=metrics,
        confusion=confusion,
        choices=tuple((str(x), str(y), n) for (x, y), n in found) if kind == "choice" else (),
        ranges=ranges,
    )


ROWS = 20_000


def people(
    staged: Staged, rows: int, labels: Mapping[str, Label]
) -> dict[tuple[str, str], dict[str, Counter[tuple[float | str, float | str]]]]:
    """(first label, second label) → system → what both said of the first `rows` staged items → items."""
    compared = [
        (first, second)
        for first, second in combinations(labels, 2)
        if labels[first].score(first) == labels[second].score(second)
        # Numbers and texts have nothing in common; yes and no are numbers here.
        and (labels[first].type == "choice") == (labels[second].type == "choice")
    ]
    found: dict[tuple[str, str], dict[str, Counter[tuple[float | str, float | str]]]] = {}
    for start in range(0, rows if compared else 0, ROWS):
        frame = staged.frame(start, min(ROWS, rows - start), ["system", "labels"])
        for system, data, items in frame.group_by("system", "labels").len().iter_rows():
            said: dict[str, Any] = orjson.loads(data)
            for first, second in compared:
                if first in said and second in said:
                    counts = found.setdefault((first, second), {}).setdefault(system, Counter())
                    counts[_value(said[first]), _value(said[second])] += items
    return {pair: found[pair] for pair in compared if pair in found}


def _value(value: Any) -> float | str:
    return value if isinstance(value, str) else float(value)
