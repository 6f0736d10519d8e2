"""The report's tables as text, the same for the terminal and for Markdown: which there are, their columns and numbers.

Accuracies have four decimals; what has no value is a dash, never a zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from runner.metrics import Binary, Line, Result
from runner.rates import Mean, Rate

from .record import Report

NONE = "–"
COVERAGE = "Coverage of the"
READING = "Reading"
SIDE_BY_SIDE = 5
"""Systems or models next to each other in a table of slices."""
APART = 3
"""Up to so many judge × model × system in all, each has its slices in a table of its own, with intervals."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: names stand left, numbers right. An `extra` one may be left out where there is no room."""

    header: str
    name: bool = False
    extra: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text cells. `sums`: rows that summarize those before them."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    sums: int = 0


JUDGE, MODEL, SYSTEM = Column("judge", name=True), Column("model", name=True), Column("system", name=True)


def tables(report: Report) -> list[Table]:
    """All tables that have something to show, in the order to read them."""
    made = [_accuracy(report), _graded(report), _trials(report), *_slices(report), _agreement(report)]
    made += [_coverage(report), _reasons(report), _stages(report), _costs(report)]
    return [table for table in made if table.rows]


def number(value: float | None, digits: int = 4) -> str:
    """A number with fixed decimals."""
    return NONE if value is None else f"{value:.{digits}f}"


def interval(rate: Rate) -> str:
    """A 95 % interval."""
    return NONE if rate.low is None else f"{rate.low:.4f}–{rate.high:.4f}"


def usd(value: float | None) -> str:
    """An amount of money: whole cents, or finer where it is below ten of them."""
    if value is None:
        return NONE
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.5f}"


def _accuracy(report: Report) -> Table:
    several = len({name for result in report.results for name in result.overall.scores}) > 1
    official = any(result.overall.official for result in report.results)
    rows = []
    for result in report.results:
        for name, entry in result.overall.scores.items():
            if isinstance(entry, Binary):
                rows.append((
                    result.judge, result.model, result.system, *([name] if several else []),
                    number(entry.accuracy.value), interval(entry.accuracy),
                    number(entry.strict.value), interval(entry.strict),
                    *([_official(result.overall)] if official else []),
                ))  # fmt: skip
    columns = (
        JUDGE, MODEL, SYSTEM, *([Column("score", name=True)] if several else []),
        Column("accuracy"), Column("95 % interval"), Column("strict"), Column("95 % strict", extra=True),
        *([Column("official")] if official else []),
    )  # fmt: skip
    note = "accuracy: over scored trials · strict: trials judged without a score count as wrong"
    if official:
        note += " · official: the published reading, over all trials with a reply"
    return Table("Accuracy", columns, tuple(rows), note)


def _graded(report: Report) -> Table:
    rows = [
        (result.judge, result.model, result.system, name, number(entry.value), number(entry.low), number(entry.high),
         f"{entry.n:,}")
        for result in report.results
        for name, entry in result.overall.scores.items()
        if isinstance(entry, Mean)
    ]  # fmt: skip
    columns = [JUDGE, MODEL, SYSTEM, Column("score", name=True)]
    columns += (Column("mean"), Column("if rest worst"), Column("if rest best"), Column("n"))
    note = "mean: over scored trials, and what it would be with every unscored trial at the worst or best of the scale"
    return Table("Mean scores", tuple(columns), tuple(rows), note)


def _trials(report: Report) -> Table:
    counted = ("planned", "scored", "malformed", "refused", "failed", "poisoned", "not_done")
    # `poisoned` is as rare as it is alarming: a column only where there is one.
    shown = [
        name for name in counted if name != "poisoned" or any(result.overall.poisoned for result in report.results)
    ]
    rows = [
        (result.judge, result.model, result.system, *(f"{getattr(result.overall, name):,}" for name in shown))
        for result in report.results
    ]
    names = tuple(Column(name.replace("_", " ")) for name in shown)
    return Table("Trials", (JUDGE, MODEL, SYSTEM, *names), tuple(rows))


def _slices(report: Report) -> Iterable[Table]:
    for judge in dict.fromkeys(result.judge for result in report.results):
        results = [result for result in report.results if result.judge == judge]
        split = [result for result in results if len(result.groups) > 1 or result.slices]
        scores = dict.fromkeys(name for result in split for name in result.overall.scores)
        for score in scores:
            suffix = f" · {score}" if len(scores) > 1 else ""
            if len(report.results) <= APART:
                yield from (_slices_of(result, score, suffix) for result in split)
            else:
                yield from _side_by_side(judge, split, score, suffix)


def _slices_of(result: Result, score: str, suffix: str) -> Table:
    binary = isinstance(result.overall.scores[score], Binary)
    official = result.overall.official is not None and binary

    def row(name: str, line: Line) -> tuple[str, ...]:
        entry = line.scores[score]
        if isinstance(entry, Mean):
            numbers = (number(entry.value), number(entry.low), number(entry.high))
        else:
            numbers = (number(entry.accuracy.value), interval(entry.accuracy), number(entry.strict.value))
        return (name, f"{line.planned:,}", *numbers, *([_official(line)] if official else []))

    rows = [row(_group(name), line) for name, line in result.groups.items()]
    sums = [row(name, line) for name, line in result.slices.items()]
    if score in result.macro:
        mean = result.macro[score]
        values = (NONE, number(mean.accuracy), NONE, number(mean.strict))  # strict: None of a graded score
        sums.insert(0, ("task-averaged", *values, *([number(result.macro_official)] if official else [])))
    sums.insert(0, row("overall", result.overall))
    measures = ("accuracy", "95 % interval", "strict") if binary else ("mean", "if rest worst", "if rest best")
    columns = [Column("slice", name=True), Column("planned"), *map(Column, measures)]
    columns += [Column("official")] if official else []
    title = f"Slices: {result.judge} × {result.model} × {result.system}{suffix}"
    return Table(title, tuple(columns), (*rows, *sums), _macro_note(result), sums=len(sums))


def _side_by_side(judge: str, results: Sequence[Result], score: str, suffix: str) -> Iterable[Table]:
    several_models = len({result.model for result in results}) > 1
    several_systems = len({result.system for result in results}) > 1
    groups = dict.fromkeys(name for result in results for name in result.groups)
    also = dict.fromkeys(name for result in results for name in result.slices)
    macro = any(result.macro for result in results)
    for start in range(0, len(results), SIDE_BY_SIDE):
        part = results[start : start + SIDE_BY_SIDE]
        rows = [(_group(name), *(_cell(result.groups.get(name), score) for result in part)) for name in groups]
        sums = [("overall", *(_cell(result.overall, score) for result in part))]
        if macro:
            means = (result.macro.get(score) for result in part)
            sums.append(("task-averaged", *(number(mean.accuracy if mean else None) for mean in means)))
        sums += [(name, *(_cell(result.slices.get(name), score) for result in part)) for name in also]
        heads = [
            "\n".join([result.model] * several_models + [result.system] * (several_systems or not several_models))
            for result in part
        ]
        columns = (Column("slice", name=True), *(Column(head) for head in heads))
        yield Table(f"Slices: {judge}{suffix}", columns, (*rows, *sums), _macro_note(part[0]), sums=len(sums))


def _agreement(report: Report) -> Table:
    rows = [
        (
            entry.judge, entry.model, entry.system or "all", entry.label, f"{entry.table.n:,}",
            number(entry.table.accuracy.value), interval(entry.table.accuracy), number(entry.table.kappa),
            f"{entry.table.yes_no:,}", f"{entry.table.no_yes:,}",
        )
        for entry in report.agreement
    ]  # fmt: skip
    columns = [JUDGE, MODEL, SYSTEM, Column("label", name=True), Column("n"), Column("accuracy")]
    columns += (
        Column("95 % interval"),
        Column("kappa"),
        Column("too kind", extra=True),
        Column("too strict", extra=True),
    )
    note = "kappa: Cohen's · too kind: judge yes, human no · too strict: judge no, human yes"
    undefined = {entry.table.undefined for entry in report.agreement if entry.table.undefined}
    note += "".join(f" · kappa is undefined where {reason}" for reason in sorted(undefined))
    return Table("Agreement with human labels", tuple(columns), tuple(rows), note)


def _coverage(report: Report) -> Table:
    rows = [
        (
            part.system,
            f"{part.answered:,}",
            f"{part.total:,}",
            f"{part.answered / part.total:.2%}" if part.total else NONE,
        )
        for part in report.coverage
    ]
    columns = (SYSTEM, Column("answered"), Column("questions"), Column("share"))
    return Table(f"{COVERAGE} {report.questions}", columns, tuple(rows))


def _reasons(report: Report) -> Table:
    rows = [
        (result.judge, result.model, result.system, state, reason, f"{count:,}")
        for result in report.results
        for state, reasons in result.reasons.items()
        for reason, count in reasons.items()
    ]
    columns = (JUDGE, MODEL, SYSTEM, Column("state", name=True), Column("reason", name=True), Column("trials"))
    return Table("Why trials have no score", columns, tuple(rows))


def _stages(report: Report) -> Table:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for result in report.results:
        of_pair = counts.setdefault((result.judge, result.model), {})
        for stage, count in result.stages.items():
            of_pair[stage] = of_pair.get(stage, 0) + count
    rows = []
    for (judge, model), stages in counts.items():
        scored = sum(stages.values())
        for stage, count in sorted(stages.items(), key=lambda entry: (-entry[1], entry[0])):
            rows.append((judge, model, stage, f"{count:,}", f"{count / scored:.2%}"))
    columns = (JUDGE, MODEL, Column("how the reply was read", name=True), Column("trials"), Column("share"))
    return Table(READING, columns, tuple(rows))


def _costs(report: Report) -> Table:
    rows = []
    for cost in report.costs:
        done = sum(
            r.overall.planned - r.overall.not_done
            for r in report.results
            if (r.judge, r.model) == (cost.judge, cost.model)
        )
        seconds = [NONE if value is None else f"{value:.3g}" for value in astuple(cost.latency)]
        rows.append((
            cost.judge, cost.model, f"{cost.requests:,}", number(cost.requests / done if done else None, 2),
            f"{cost.usage.input_tokens:,.0f}", f"{cost.usage.output_tokens:,.0f}",
            usd(cost.usage.cost_usd if cost.priced else None), *seconds,
        ))  # fmt: skip
    columns = [JUDGE, MODEL, Column("requests"), Column("per trial", extra=True), Column("tokens in")]
    columns += (Column("tokens out"), Column("cost"), Column("p50 s"), Column("p90 s", extra=True), Column("p99 s"))
    note = "every request counts, failed and repeated ones too · p50, p90, p99: latency of the deciding requests"
    return Table("Cost and speed", tuple(columns), tuple(rows), note)


def _value(entry: Binary | Mean) -> float | None:
    return entry.accuracy.value if isinstance(entry, Binary) else entry.value


def _cell(line: Line | None, score: str) -> str:
    return NONE if line is None or score not in line.scores else number(_value(line.scores[score]))


def _official(line: Line) -> str:
    return NONE if line.official is None else number(line.official.value)


def _group(name: str | None) -> str:
    return "(no group)" if name is None else name


def _macro_note(result: Result) -> str:
    return "task-averaged: unweighted mean over the groups" if result.macro else ""
