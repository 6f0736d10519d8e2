"""The report's table, and its notice, of models that changed on their endpoint within the run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from runner.graded import Spread
from runner.rates import Rate
from runner.serving import Served

from .table import JUDGE, MODEL, NONE, Column, Table, ends, interval, number

if TYPE_CHECKING:
    from .record import Report

MOST_NAMED = 3
"""Parts that a notice names; the table has them all."""


def served(report: Report) -> Table:
    """The scores of each part apart."""
    rows = [
        (part.judge, part.model, part.name, f"{part.trials:,}", score, *_cells(part.scores.get(score)))
        for part in report.serving
        for score in part.scores or [NONE]
    ]
    columns = (JUDGE, MODEL, Column("served as", name=True), Column("trials"), Column("score", name=True))
    note = "mean: share of yes, or mean, of these verdicts alone"
    return Table("Served models", (*columns, Column("mean"), Column("95 % interval")), tuple(rows), note)


def changed(parts: Sequence[Served]) -> list[str]:
    """What a reader must know of it before the numbers."""
    said = []
    for (judge, model), held in groupby(parts, key=lambda part: (part.judge, part.model)):
        several = list(held)
        named = ", ".join(f"{part.name} {part.trials:,}" for part in several[:MOST_NAMED])
        more = f" and {len(several) - MOST_NAMED} more" if len(several) > MOST_NAMED else ""
        said.append(
            f"{judge} × {model}: the endpoint served {len(several)} models or versions under this name "
            f"({named}{more} trials); the results are over all of them, Served models has them apart."
        )
    return said


def _cells(score: Rate | Spread | None) -> tuple[str, str]:
    if isinstance(score, Rate):
        return number(score.value), interval(score)
    return (number(score.value), ends(score.interval_low, score.interval_high)) if score else (NONE, NONE)
