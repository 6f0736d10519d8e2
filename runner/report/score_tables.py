"""The report's tables of scores: shares of yes, means, values and choices, over all of a judge × model × system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from runner.stats.estimators import Mean
from runner.stats.metrics import Binary, Line, Result

from .formatting import JUDGE, MODEL, NONE, SYSTEM, Column, Table, ends, interval, number
from .model import Report

CORRECT = "correct"
"""The score whose share of yes is an accuracy; any other is a share, and nothing more is claimed of it."""
SIDE_BY_SIDE = 5
"""Systems or models next to each other in a table of slices or values."""


def score_tables(report: Report) -> list[Table]:
    """The first tables: what the run was made for."""
    return [_accuracy(report), _shares(report), _means(report), _reaching(report), _choices(report)]


def value_tables(report: Report) -> Iterator[Table]:
    """How often each value was given, for scores on a scale of few steps."""
    for judge, results in by_judge(report):
        scores = dict.fromkeys(name for result in results for name in result.values)
        for score in scores:
            title = f"Scores given: {judge}" + (f" · {score}" if len(results[0].overall.scores) > 1 else "")
            for start in range(0, len(results), SIDE_BY_SIDE):
                yield _values(title, score, results[start : start + SIDE_BY_SIDE], results)


def by_judge(report: Report) -> Iterator[tuple[str, list[Result]]]:
    """Each judge's results."""
    for judge in dict.fromkeys(result.judge for result in report.results):
        yield judge, [result for result in report.results if result.judge == judge]


def heads(part: Sequence[Result], results: Sequence[Result]) -> list[str]:
    """Headers for results next to each other: what tells them apart."""
    several_models = len({result.model for result in results}) > 1
    several_systems = len({result.system for result in results}) > 1
    return [
        "\n".join([result.model] * several_models + [result.system] * (several_systems or not several_models))
        for result in part
    ]


def official(line: Line) -> str:
    """The official reading's share of yes."""
    return NONE if line.official is None else number(line.official.value)


def clusters(report: Report) -> str:
    """The end of a note: that intervals are clustered, or take as independent what is not."""
    return " · intervals: clustered by question" if report.clustered else independent(report)


def independent(report: Report, whose: str = "intervals") -> str:
    """The end of a note, where answers are not independent: that intervals take them to be."""
    return f" · {whose}: {report.dependent} taken as independent" if report.dependent else ""


def _accuracy(report: Report) -> Table:
    found = [entry for entry in _binary(report) if entry[1] == CORRECT]
    note = "accuracy: over scored trials · strict: trials judged without a score count as wrong"
    return _of_binary("Accuracy", "accuracy", found, False, note + clusters(report))


def _shares(report: Report) -> Table:
    found = [entry for entry in _binary(report) if entry[1] != CORRECT]
    note = "share: of yes among the scored trials · strict: trials judged without a score count as no"
    return _of_binary("Yes or no", "share", found, True, note + clusters(report))


def _binary(report: Report) -> Iterator[tuple[Result, str, Binary]]:
    for result in report.results:
        for name, entry in result.overall.scores.items():
            if isinstance(entry, Binary):
                yield result, name, entry


def _of_binary(title: str, header: str, found: Sequence[tuple[Result, str, Binary]], named: bool, note: str) -> Table:
    published = any(result.overall.official for result, _, _ in found)
    bounded = any(result.overall.unscored for result, _, _ in found)
    rows = [
        (
            result.judge, result.model, result.system, *([name] if named else []),
            number(entry.accuracy.value), interval(entry.accuracy), number(entry.strict.value), interval(entry.strict),
            *([number(entry.best.value)] if bounded else []), *([official(result.overall)] if published else []),
        )
        for result, name, entry in found
    ]  # fmt: skip
    columns = (
        JUDGE, MODEL, SYSTEM, *([Column("score", name=True)] if named else []),
        Column(header), Column("95 % interval"), Column("strict"), Column("95 % strict", extra=True),
        *([Column("best")] if bounded else []), *([Column("official")] if published else []),
    )  # fmt: skip
    if bounded:
        note += " · best: they count as yes"
    if published:
        note += " · official: the published reading, over all trials with a reply"
    return Table(title, columns, tuple(rows), note)


def _graded(report: Report) -> Iterator[tuple[Result, str, Mean]]:
    for result in report.results:
        for name, entry in result.overall.scores.items():
            if isinstance(entry, Mean):
                yield result, name, entry


def _means(report: Report) -> Table:
    rows = [
        (
            result.judge, result.model, result.system, name,
            number(entry.value), ends(entry.interval_low, entry.interval_high), number(entry.sd),
            number(entry.low), number(entry.high), f"{entry.n:,}",
        )
        for result, name, entry in _graded(report)
    ]  # fmt: skip
    columns = [JUDGE, MODEL, SYSTEM, Column("score", name=True), Column("mean"), Column("95 % interval")]
    columns += [Column("sd", extra=True), Column("worst"), Column("best"), Column("n", extra=True)]
    note = (
        "mean: over scored trials, with the normal interval (rough below 30) · worst, best: the mean if every trial "
        "judged without a score were at that end of the scale · sd: standard deviation"
    )
    if any(entry.n > 1 and entry.interval_low is None for _, _, entry in _graded(report)):
        note += " · no interval where all scores are the same"
    return Table("Mean scores", tuple(columns), tuple(rows), note + clusters(report))


def _reaching(report: Report) -> Table:
    rows = [
        (
            result.judge, result.model, result.system, f"{name} ≥ {entry.at_least.threshold:g}",
            number(entry.at_least.rate.value), interval(entry.at_least.rate),
            number(entry.at_least.strict.value), f"{entry.n:,}",
        )
        for result, name, entry in _graded(report)
        if entry.at_least is not None
    ]  # fmt: skip
    columns = [JUDGE, MODEL, SYSTEM, Column("score", name=True), Column("share"), Column("95 % interval")]
    columns += [Column("strict"), Column("n", extra=True)]
    note = "share: of the scored trials · strict: trials judged without a score do not reach it"
    return Table("High scores", tuple(columns), tuple(rows), note + independent(report))


def _choices(report: Report) -> Table:
    rows = [
        (result.judge, result.model, result.system, label, f"{share.hits:,}", number(share.value), interval(share))
        for result in report.results
        for label, share in result.choices.items()
    ]
    columns = (JUDGE, MODEL, SYSTEM, Column("choice", name=True), Column("trials"), Column("share"))
    note = "share: of the scored trials" + independent(report)
    return Table("Choices", (*columns, Column("95 % interval")), tuple(rows), note)


def _values(title: str, score: str, part: Sequence[Result], results: Sequence[Result]) -> Table:
    given = [result.values.get(score, {}) for result in part]
    values = sorted({value for counts in given for value in counts})
    rows: Iterable[tuple[str, ...]] = [
        (f"{value:g}", *(_share(counts.get(value, 0), sum(counts.values())) for counts in given)) for value in values
    ]
    columns = (Column(score, name=True), *(Column(head, outside=True) for head in heads(part, results)))
    return Table(title, columns, tuple(rows), "scored trials with each score, and their share of all scored ones")


def _share(count: int, whole: int) -> str:
    return f"{count:,} ({count / whole:.1%})" if whole else f"{count:,}"
