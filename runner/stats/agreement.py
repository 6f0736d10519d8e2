"""How far judges agree with people, and people with each other, from joint counts.

Hides which label is held against which score, and on which scale each stands; what two sides have in common is measured
in `agreement_measures`, which is imported only where there is something to measure. People are compared over the staged
items and not over the trials, of which an item has as many as judges, models and repeats ask about it, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import orjson
import polars as pl

from judges import Scale
from runner.dataset import Staged
from runner.labels import Label

from .counting import Counts
from .estimators import Confusion, Metric
from .question_sums import QuestionSample, split_contexts
from .summaries import PAIR

if TYPE_CHECKING:
    from .agreement_measures import Unscored
    from .question_bootstrap import Joint

Kind = Literal["binary", "graded", "mixed", "choice"]
Value = float | str
Tables = tuple[pl.DataFrame, pl.DataFrame]
"""system, judged, human and n, over all questions; the same by question, over all or a sample of them."""
People = Mapping[tuple[str, str], Tables]
"""Two labels of one score → their values over distinct items."""


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
    unscored: int
    """Labelled trials that were judged without a score: strictly, they disagree."""
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
        whole, joint = _tables(counts, "label_choices" if label.type == "choice" else "label_values", name)
        # A label is about one score: what other judges left without a score says nothing of it.
        about = {*whole.filter(pl.col("judged").is_not_null())["judge"]}
        about |= {judge for judge, own in scales.items() if label.score(name) in own}
        for judge, model in whole.filter(pl.col("judge").is_in(about)).select(PAIR).unique().sort(PAIR).rows():
            scale = scales.get(judge, {}).get(label.score(name), Scale(False, None, None))
            held = whole.filter(judge=judge, model=model)
            values = held.filter(pl.col("judged").is_not_null())
            ranges = _ranges(scale, values) if label.type == "ordinal" and not scale.binary else None
            tables = held, joint.filter(judge=judge, model=model)
            for system, part in _with_all(tables):
                entries.append(_agreement((judge, model, system), name, label, None, scale, part, ranges))
    return entries


def _tables(counts: Counts, table: str, label: str) -> Tables:
    contexts = counts[f"{table}.contexts"].filter(label=label)
    return counts[table].filter(label=label), counts[f"{table}.questions"].join(contexts, on="context")


def people_agreement(people: People, labels: Mapping[str, Label]) -> list[Agreement]:
    """People against people: by pair of labels, over all systems if there are several and for each."""
    return [
        _agreement((None, None, system), first, labels[first], second, labels[second], part)
        for (first, second), tables in people.items()
        for system, part in _with_all(tables)
    ]


def _ranges(scale: Scale, values: pl.DataFrame) -> Ranges | None:
    """Where a label has a value that the scale has not, or keeps to its lower half while the scores do not.

    A shorter scale begins at 0 or 1, low on a longer one; labels that are high throughout are an easy task.
    """
    if scale.low is None or scale.high is None or values.is_empty():
        return None
    low, high, most = values.select(low=pl.min("human"), high=pl.max("human"), most=pl.max("judged")).row(0)
    half = (scale.low + scale.high) / 2
    if scale.low <= low and high <= scale.high and (high > half or most <= half):
        return None
    return Ranges((low, high), (scale.low, scale.high))


def _with_all(tables: Tables) -> Iterator[tuple[str | None, Tables]]:
    systems = sorted(tables[0]["system"].unique())
    if len(systems) > 1:
        yield None, tables
    for system in systems:
        yield system, (tables[0].filter(system=system), tables[1].filter(system=system))


def _agreement(
    place: tuple[str | None, str | None, str | None],
    name: str,
    label: Label,
    second: str | None,
    against: Scale | Label,
    tables: Tables,
    ranges: Ranges | None = None,
) -> Agreement:
    """`against`: what the label is held against: the scale of a judge's score, or the second label."""
    from .agreement_measures import Side, compare_choices, compare_numbers

    # In an order of their own: resamples must not depend on the order in which rows were read.
    sums = tables[0].group_by("judged", "human").agg(pl.col("n").sum()).sort("judged", "human", nulls_last=True)
    pairs = sums.filter(pl.col("judged").is_not_null())
    rows: list[tuple[Value, Value, int]] = pairs.select("judged", "human", "n").rows()
    ordered, n = [((judged, said), n) for judged, said, n in rows], sum(n for _, _, n in rows)
    joint, unscored = _by_question(tables[1], pairs, sum(sums["n"]) - n)
    people = place[0] is None
    kind: Kind = "choice"
    threshold, second_threshold, confusion = None, None, None
    if label.type == "choice":
        metrics = compare_choices(ordered, people, joint, unscored)
    else:
        own = Side(label.type == "ordinal", label.threshold)
        if isinstance(against, Label):
            left, right = own, Side(against.type == "ordinal", against.threshold)
        else:
            left, right = Side(not against.binary, label.threshold, against), own
        kind = "mixed" if left.graded != right.graded else "graded" if left.graded else "binary"
        metrics, confusion = compare_numbers(ordered, left, right, people, joint, unscored)
        if confusion is not None and people:
            threshold = left.threshold if left.graded else None
            second_threshold = right.threshold if right.graded else None
        elif confusion is not None:
            threshold = label.threshold if kind != "binary" else None
    choices = tuple((str(x), str(y), n) for (x, y), n in ordered) if kind == "choice" else ()
    return Agreement(
        *place, name, second, label.score(name), kind, threshold, second_threshold, n, unscored.n,
        metrics, confusion, choices, ranges,
    )  # fmt: skip


def _by_question(rows: pl.DataFrame, pairs: pl.DataFrame, unscored: int) -> tuple[Joint, Unscored]:
    """The pairs of every question, by their place in the table, and what it has without a score."""
    from .agreement_measures import Unscored
    from .question_bootstrap import Joint

    lost = rows.filter(pl.col("judged").is_null()).group_by("question").agg(pl.col("n").sum())
    held = rows.join(pairs.select("judged", "human").with_row_index("pair"), on=["judged", "human"])
    # All questions have a number, those too that have no pair.
    numbers = rows.select("question").unique().sort("question").with_row_index("number")
    held = held.join(numbers, on="question").group_by("number", "pair").agg(pl.col("n").sum()).sort("number", "pair")
    by_question = numbers.join(lost, on="question", how="left").sort("number")["n"].fill_null(0).to_numpy()
    number, pair, n = (held[name].to_numpy() for name in ("number", "pair", "n"))
    return Joint.of(number, pair, n, len(numbers)), Unscored(unscored, by_question)


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
    samples = {names: QuestionSample() for names in compared}
    wholes: dict[tuple[str, str], pl.DataFrame] = {}
    columns = "system", "judged", "human"
    for start in range(0, rows if compared else 0, ROWS):
        frame = staged.frame(start, min(ROWS, rows - start), ["system", "question_id", "labels"])
        frame = frame.with_columns(question=pl.col("question_id").hash())
        distinct = {data: orjson.loads(data) for data in frame["labels"].unique()}
        for names, sample in samples.items():
            values = [(data, *map(_value, map(held.get, names))) for data, held in distinct.items()]
            kind = pl.String if labels[names[0]].type == "choice" else pl.Float64
            schema = {"labels": frame.schema["labels"], "judged": kind, "human": kind}
            pairs = pl.DataFrame(values, schema=schema, orient="row").drop_nulls()
            of = frame.join(pairs, on="labels").select(*columns, "question", n=pl.lit(1, pl.Int64))
            sample.add(*split_contexts(of, columns))
            sums = [of.drop("question"), *([wholes[names]] if names in wholes else [])]
            wholes[names] = pl.concat(sums).group_by(columns).agg(pl.col("n").sum())
    found = {}
    for names, whole in wholes.items():
        if len(whole):
            held, contexts = samples[names].tables()
            found[names] = whole, held.join(contexts, on="context")
    return found


def _value(label: Any) -> Value | None:
    return label if label is None or isinstance(label, str) else float(label)
