"""The report's tables of what may sway a judge: control items, and items whose text shows signs of meaning to."""

from __future__ import annotations

from collections.abc import Iterator

from runner.graded import LEAST_GROUP
from runner.rates import Rate
from runner.susceptibility import Part

from .record import Report
from .table import JUDGE, MODEL, NONE, Column, Table, ends, interval, number


def controls(report: Report) -> Table:
    """How often each kind of control item was judged right."""
    rows = [
        (entry.judge, entry.model, part.name.replace("_", " "), *cells)
        for entry in report.susceptibility
        for part in entry.controls
        for cells in _cells(part)
    ]
    note = (
        "answers that nobody could call right, judged beside the run's own and part of no other number here · share: "
        "of the scored ones, how many were judged right all the same"
    )
    return Table("Control items", _columns(Column("control", name=True)), tuple(rows), note)


def suspects(report: Report) -> Table:
    """What was judged of items that show signs, beside all others."""
    rows = [
        (entry.judge, entry.model, name, *cells)
        for entry in report.susceptibility
        if entry.suspects.planned
        for name, part in (("suspect", entry.suspects), ("all others", entry.others))
        for cells in _cells(part)
    ]
    note = (
        "suspect: the judged text imitates the reply or the prompt, holds control tokens of a chat, or gives the judge "
        "orders; it was judged as it stands · share, or mean: of the scored ones"
    )
    return Table("Injection suspects", _columns(Column("items", name=True)), tuple(rows), note)


def _columns(first: Column) -> tuple[Column, ...]:
    share = (Column("trials"), Column("unscored"), Column("share"), Column("95 % interval"))
    return (JUDGE, MODEL, first, Column("judged", name=True), *share, Column("mean"))


def _cells(part: Part) -> Iterator[tuple[str, ...]]:
    """judged, trials, unscored, share, interval, mean: a row for each score and choice."""
    counts = f"{part.planned:,}", f"{part.unscored:,}"
    for label, share in part.choices.items():
        yield label, *counts, *_share(share), NONE
    for name, entry in part.scores.items() if not part.choices else ():
        if isinstance(entry, Rate):
            yield name, *counts, *_share(entry), NONE
        elif entry.reached is None:
            found = entry.spread
            low, high = (None, None) if found.n < LEAST_GROUP else (found.interval_low, found.interval_high)
            yield name, *counts, NONE, ends(low, high), number(found.value)
        else:
            yield f"{name} ≥ {entry.threshold:g}", *counts, *_share(entry.reached), number(entry.spread.value)


def _share(share: Rate) -> tuple[str, str]:
    return number(share.value), interval(share)
