"""What people see first: which system scored what, with what it may be, and how far two systems are apart."""

import math
from collections.abc import Iterator, Sequence

from runner.stats.metrics import Line, Result
from runner.stats.paired import PairedDifference

from .formatting import NONE, Precision, Table, TableColumn, names, numbers, p_value, percent
from .model import Report
from .score_tables import entries, measure

PLOT_WIDTH = 24
"""Cells of an interval that is drawn."""


def headline(report: Report) -> str:
    """How far the run is, and whether its verdicts mean anything."""
    text = f"{report.status} · {report.done:,} of {report.planned:,} trials"
    return text + " · SIMULATED" * report.simulated


def score_overview(report: Report) -> Table:
    """A row for each score, or choice, of each judge × model × system."""
    scores = [
        (result, name, measure(name, score), score.n, score.value, score.low, score.high)
        for result, name, score in entries(report)
    ]
    scores += [
        (result, label, "share", share.n, share.value, share.low, share.high)
        for result in report.results
        if not result.overall.scores
        for label, share in result.choices.items()
    ]
    measures = {what for _, _, what, *_ in scores}
    several = len({name for _, name, *_ in scores}) > 1
    effects = {(each.judge, each.model, each.system, each.of): each for each in report.unscored_effects}

    def bounds(result: Result, name: str, written: Precision) -> list[str]:
        effect = effects.get((result.judge, result.model, result.system, name))
        return [written.interval(effect.worst, effect.best) if effect else NONE] * bool(effects)

    written = [Precision.of(what != "mean", n, low, high, value) for _, _, what, n, value, low, high in scores]
    rows = [
        [
            result.judge, result.model, result.system, *([name] if several else []), form.value(value),
            form.interval(low, high), f"{result.overall.scored:,}", _unscored(result.overall),
            *bounds(result, name, form),
        ]
        for (result, name, _, _, value, low, high), form in zip(scores, written, strict=True)
    ]  # fmt: skip
    columns = names("judge", "model", "system", *["score"] * several)
    columns += numbers(measures.pop() if len(measures) == 1 else "value", "95 % interval", "n", "unscored")
    # What they could make of it, where that is more than chance could.
    columns += numbers(*["bounds"] * bool(effects))
    if len({form.percent for form in written}) == 1 and (several <= written[0].percent):
        header, plots = _draw([each[4:] for each in scores], written[0])
        columns += [TableColumn(header, "plot")] * bool(header)
        rows = [row + [plot] * bool(header) for row, plot in zip(rows, plots, strict=True)]
    title = "Scores" if several or not scores else f"Scores: {scores[0][1]}"
    return Table(title, tuple(columns), tuple(map(tuple, rows)))


def _unscored(line: Line) -> str:
    return f"{line.unscored:,} ({percent(line.unscored / line.done, 1)})" if line.unscored else "0"


def _draw(values: Sequence[tuple[float | None, ...]], form: Precision) -> tuple[str, list[str]]:
    """Values with their intervals as text on one axis, and the axis's ends; no header without an interval."""
    known = [end for row in values for end in row if end is not None]
    if not any(row[1] is not None for row in values) or min(known) == max(known):
        return "", [""] * len(values)
    step = 0.1 if form.percent else 10.0 ** math.floor(math.log10(max(known) - min(known)))
    low, high = math.floor(min(known) / step + 1e-9) * step, math.ceil(max(known) / step - 1e-9) * step

    def at(value: float) -> int:
        return round((value - low) / (high - low) * (PLOT_WIDTH - 1))

    plots = []
    for value, *ends in values:
        cells = [" "] * PLOT_WIDTH
        if ends[0] is not None and ends[1] is not None:
            first, last = at(ends[0]), at(ends[1])
            cells[first : last + 1] = "─" * (last - first + 1)
            cells[first], cells[last] = "├", "┤"
        if value is not None:
            cells[at(value)] = "●"
        plots.append("".join(cells))
    axis = Precision(form.percent, 0 if form.percent else max(0, round(-math.log10(step))))
    left, right = axis.value(low), axis.value(high)
    return left + right.rjust(PLOT_WIDTH - len(left)), plots


def first_pairs(report: Report) -> Iterator[PairedDifference]:
    """The highest system with each other that has a question in common, of every judge × model and score."""
    highest: dict[tuple[str, str, str], str] = {}
    for pair in report.comparisons if report.pairable else ():
        is_first = highest.setdefault((pair.judge, pair.model, pair.score), pair.first) == pair.first
        if is_first and pair.questions:
            yield pair


def comparison_overview(report: Report) -> Table:
    return comparison_table(report, list(first_pairs(report)))


def comparison_table(report: Report, pairs: Sequence[PairedDifference]) -> Table:
    several = len({pair.score for pair in report.comparisons}) > 1
    rows = []
    for pair in pairs:
        form = difference_form(pair)
        rows.append(
            (
                pair.judge, pair.model, pair.first, pair.second, *([pair.score] if several else []),
                form.number(pair.difference, signed=True), signed_interval(pair), f"{pair.questions:,}",
                f"{pair.won:,}", f"{pair.lost:,}", _p_cell(pair.p),
                NONE if pair.questions_to_settle is None else f"{pair.questions_to_settle:,}",
            )
        )  # fmt: skip
    columns = names("judge", "model", "first", "second", *["score"] * several)
    unit = "points" if all(pair.kind == "binary" for pair in pairs) else "difference"
    columns += numbers(unit, "95 % interval", "questions", "won", "lost", "p", "needs")
    return Table("Paired differences", tuple(columns), tuple(rows))


def difference_form(pair: PairedDifference) -> Precision:
    return Precision.of(
        pair.kind == "binary", pair.questions, pair.low, pair.high, pair.difference, pair.low, pair.high
    )


def signed_interval(pair: PairedDifference) -> str:
    form = difference_form(pair)
    if pair.low is None or pair.high is None:
        return NONE
    return f"{form.number(pair.low, signed=True)} to {form.number(pair.high, signed=True)}"


def _p_cell(p: float | None) -> str:
    return NONE if p is None else p_value(p).removeprefix("p = ").removeprefix("p ")
