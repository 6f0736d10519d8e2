"""The report's table of trials that ended in an error.

The report's table, and its notice, of models that changed on their endpoint within the run.

The report's tables of what may sway a judge: control items, and items whose text shows signs of meaning to.

The report's tables as text, the same for the terminal and for Markdown: which there are, and in what order.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from operator import attrgetter
from typing import TYPE_CHECKING

from runner.stats.estimators import LEAST_GROUP, Mean, Rate, Spread
from runner.stats.injection_stats import Part
from runner.stats.malformed_examples import abridge
from runner.stats.metrics import Binary, Line, Result

from .agreement_tables import agreement_tables
from .failures import STATES, spread
from .formatting import JUDGE, MODEL, NONE, SYSTEM, Column, Table, ends, interval, number, usd
from .model import Cost, Report
from .reply_tables import batches, flags, reading_tables
from .score_tables import CORRECT, SIDE_BY_SIDE, by_judge, heads, independent, official, score_tables, value_tables

if TYPE_CHECKING:
    from .model import Report

MOST = 10


def failures(report: Report) -> Table:
    """Some of each kind, with the error's words, and how to see all of them and judge them again."""
    found = report.failures
    several = report.repeats > 1
    rows = [
        (
            entry.judge, entry.model, entry.system, abridge(entry.item_id, entry.item_id) or entry.item_id,
            *([str(entry.repeat)] if several else []), f"{entry.state}: {entry.reason or NONE}", entry.error or NONE,
        )
        for entry in spread(found, MOST, attrgetter("state", "judge", "model", "reason"))
    ]  # fmt: skip
    columns = [JUDGE, MODEL, SYSTEM, Column("item", name=True, text=True), *([Column("repeat")] if several else [])]
    columns += [Column("state", text=True), Column("error", text=True)]
    of = f"{shlex.quote(report.directory)} --state {','.join(state for state in STATES if _has(report, state))}"
    more = report.failed - len(rows)
    listed = f"and {more:,} more: `jurybox export {of} --format jsonl` lists all" if more > 0 else ""
    notes = [listed, f"`jurybox retry {of}` judges them again"]
    return Table("Trials that failed", tuple(columns), tuple(rows), " · ".join(filter(None, notes)))


def _has(report: Report, state: str) -> bool:
    return any(getattr(result.overall, state) for result in report.results)


def served(report: Report) -> Table:
    """The scores of each part apart."""
    rows = [
        (part.judge, part.model, part.name, f"{part.trials:,}", score, *_serving_cells(part.scores.get(score)))
        for part in report.serving
        for score in part.scores or [NONE]
    ]
    columns = (JUDGE, MODEL, Column("served as", name=True), Column("trials"), Column("score", name=True))
    note = "mean: share of yes, or mean, of these verdicts alone"
    return Table("Served models", (*columns, Column("mean"), Column("95 % interval")), tuple(rows), note)


def _serving_cells(score: Rate | Spread | None) -> tuple[str, str]:
    if isinstance(score, Rate):
        return number(score.value), interval(score)
    return (number(score.value), ends(score.interval_low, score.interval_high)) if score else (NONE, NONE)


def controls(report: Report) -> Table:
    """How often each kind of control item was judged right."""
    rows = [
        (entry.judge, entry.model, part.name.replace("_", " "), *cells)
        for entry in report.susceptibility
        for part in entry.controls
        for cells in _injection_cells(part)
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
        for cells in _injection_cells(part)
    ]
    note = (
        "suspect: the judged text imitates the reply or the prompt, holds control tokens of a chat, or gives the judge "
        "orders; it was judged as it stands · share, or mean: of the scored ones"
    )
    return Table("Injection suspects", _columns(Column("items", name=True)), tuple(rows), note)


def _columns(first: Column) -> tuple[Column, ...]:
    share = (Column("trials"), Column("unscored"), Column("share"), Column("95 % interval"))
    return (JUDGE, MODEL, first, Column("judged", name=True), *share, Column("mean"))


def _injection_cells(part: Part) -> Iterator[tuple[str, ...]]:
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


pass  # MOVED-EMPTY
pass  # MOVED-EMPTY
pass  # MOVED-EMPTY

COVERAGE = "Coverage of the"
MANY_SCORES = 3
"""From so many scores of a judge, its systems stand next to each other all the same."""
APART = 3
"""Up to so many judge × model × system in all, each has its slices in a table of its own, with intervals."""


def tables(report: Report) -> list[Table]:
    """All tables that have something to show, in the order to read them."""
    made = [*score_tables(report), controls(report), _trials(report), *value_tables(report), *_slices(report)]
    made += [*agreement_tables(report), suspects(report)]
    made += [
        _coverage(report),
        _reasons(report),
        failures(report),
        served(report),
        flags(report),
        *reading_tables(report),
        batches(report),
    ]
    made += [_costs(report)]
    return [table for table in made if table.rows]


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
    for judge, results in by_judge(report):
        split = [result for result in results if len(result.groups) > 1 or result.slices]
        scores = dict.fromkeys(name for result in split for name in result.overall.scores)
        for score in scores:
            suffix = f" · {score}" if len(scores) > 1 else ""
            if len(report.results) <= APART and len(scores) < MANY_SCORES:
                yield from (_slices_of(report, result, score, suffix) for result in split)
            else:
                yield from _side_by_side(judge, split, score, suffix)


def _slices_of(report: Report, result: Result, score: str, suffix: str) -> Table:
    whole = result.overall.scores[score]
    reach = whole.at_least if isinstance(whole, Mean) else None
    published = result.overall.official is not None and isinstance(whole, Binary)

    def row(name: str, line: Line) -> tuple[str, ...]:
        entry = line.scores[score]
        if isinstance(entry, Mean):
            share = [number(entry.at_least.rate.value)] if entry.at_least else []
            numbers = [number(entry.value), ends(entry.interval_low, entry.interval_high)]
            numbers += [number(entry.low), number(entry.high), *share]
        else:
            numbers = [number(entry.accuracy.value), interval(entry.accuracy), number(entry.strict.value)]
        return (name, f"{line.planned:,}", *numbers, *([official(line)] if published else []))

    rows = [row(_group(name), line) for name, line in result.groups.items()]
    sums = [row(name, line) for name, line in result.slices.items()]
    if score in result.macro:
        mean = result.macro[score]
        blank = 3 + (reach is not None) if isinstance(whole, Mean) else 0
        values = [NONE, number(mean.accuracy), *([NONE] * blank or [NONE, number(mean.strict)])]
        sums.insert(0, ("task-averaged", *values, *([number(result.macro_official)] if published else [])))
    sums.insert(0, row("overall", result.overall))
    if isinstance(whole, Mean):
        measures = [
            _measure(result, score),
            "95 % interval",
            "worst",
            "best",
            *([f"≥ {reach.threshold:g}"] if reach else []),
        ]
    else:
        measures = [_measure(result, score), "95 % interval", "strict"]
    columns = [Column("slice", name=True), Column("planned"), *map(Column, measures)]
    columns += [Column("official")] if published else []
    title = f"Slices: {result.judge} × {result.model} × {result.system}{suffix}"
    return Table(title, tuple(columns), (*rows, *sums), _slices_note(report, result), sums=len(sums))


def _side_by_side(judge: str, results: Sequence[Result], score: str, suffix: str) -> Iterable[Table]:
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
        columns = (Column("slice", name=True), *(Column(head, outside=True) for head in heads(part, results)))
        notes = [f"{_measure(part[0], score)}, over scored trials", _macro_note(part[0])]
        note = " · ".join(note for note in notes if note)
        yield Table(f"Slices: {judge}{suffix}", columns, (*rows, *sums), note, sums=len(sums))


def _coverage(report: Report) -> Table:
    rows = [
        (
            part.system,
            f"{part.answered:,}",
            f"{part.total:,}",
            f"{part.answered / part.total:.2%}" if part.total else NONE,
        )
        for part in (report.coverage if report.comparable else ())
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


def _costs(report: Report) -> Table:
    rows = []
    for cost in report.costs:
        seconds = [NONE if value is None else f"{value:.3g}" for value in astuple(cost.latency)]
        rows.append((
            cost.judge, cost.model, f"{cost.requests:,}", number(_attempts(report, cost), 2),
            f"{cost.usage.input_tokens:,.0f}", f"{cost.usage.output_tokens:,.0f}",
            usd(cost.usage.cost_usd if cost.priced else None), *seconds,
        ))  # fmt: skip
    columns = [JUDGE, MODEL, Column("requests"), Column("per trial", extra=True), Column("tokens in")]
    columns += (Column("tokens out"), Column("cost"), Column("p50 s"), Column("p90 s", extra=True), Column("p99 s"))
    note = "every request counts, failed and repeated ones too · per trial: what a judged one took on average"
    note += " · p50, p90, p99: latency of the deciding requests"
    return Table("Cost and speed", tuple(columns), tuple(rows), note)


def _attempts(report: Report, cost: Cost) -> float | None:
    """Requests that a judged trial of the present plan was part of: others' are in the cost, and not to be spread."""
    pair = cost.judge, cost.model
    done = [
        (result.attempts_per_trial, result.overall.planned - result.overall.not_done)
        for result in report.results
        if (result.judge, result.model) == pair and result.attempts_per_trial is not None
    ]
    trials = sum(n for _, n in done)
    return sum(mean * n for mean, n in done) / trials if trials else None


def _value(entry: Binary | Mean) -> float | None:
    return entry.accuracy.value if isinstance(entry, Binary) else entry.value


def _cell(line: Line | None, score: str) -> str:
    return NONE if line is None or score not in line.scores else number(_value(line.scores[score]))


def _measure(result: Result, score: str) -> str:
    if isinstance(result.overall.scores[score], Mean):
        return "mean"
    return "accuracy" if score == CORRECT else "share"


def _group(name: str | None) -> str:
    return "(no group)" if name is None else name


def _slices_note(report: Report, result: Result) -> str:
    """Slices may cut through a question, and are not clustered as the whole is."""
    whose = "intervals of slices" if report.clustered else "intervals"
    notes = [_macro_note(result), independent(report, whose).removeprefix(" · ")]
    return " · ".join(note for note in notes if note)


def _macro_note(result: Result) -> str:
    return "task-averaged: unweighted mean over the groups" if result.macro else ""
