"""The report's sections and their tables, the same for the terminal and for Markdown, in the order to read them."""

from collections.abc import Iterator
from dataclasses import astuple, replace
from operator import attrgetter

from runner.stats.injection_stats import TrialGroup
from runner.stats.malformed_examples import abridge
from runner.stats.significance import LEAST_GROUP
from runner.suggested_command import suggest

from .agreement_tables import agreement_tables
from .failures import STATES, pick_by_kind
from .formatting import NONE, Table, TableColumn, interval, money, names, number, numbers, p_value
from .model import Cost, Report
from .overview import comparison_table
from .reply_tables import batches, calls, first_replies, flags, parse_paths, rereads, unreadable_replies
from .score_tables import coverage, reasons, score_tables, slice_tables, trials, value_tables

MOST_FAILURES = 10
NOTICES = "notices"
SECTIONS = (
    *("scores", "comparison", NOTICES, "slices", "values", "agreement", "trials", "failures", "controls", "served"),
    *("batches", "reading", "flags", "costs", "judges"),
)
"""Every section that a report can have."""


def sections(report: Report) -> dict[str, list[Table]]:
    """Section → its tables, without what is empty or says only what everyone expects. Notices are no tables."""
    tables_of = {
        "scores": score_tables(report),
        "comparison": [_comparison(report)],
        "slices": list(slice_tables(report)),
        "values": list(value_tables(report)),
        "agreement": agreement_tables(report),
        "trials": [trials(report), coverage(report), reasons(report)],
        "failures": [_failures(report)],
        "controls": [_controls(report), _suspects(report)],
        "served": [_served(report)],
        "batches": [batches(report)],
        "reading": [first_replies(report), parse_paths(report), rereads(report), unreadable_replies(report)],
        "flags": [flags(report)],
        "costs": [_costs(report), calls(report)],
        "judges": [_judges(report), _models(report)],
    }
    shown = {name: [table for table in tables if table.rows] for name, tables in tables_of.items()}
    return {name: tables for name, tables in shown.items() if tables}


def _comparison(report: Report) -> Table:
    """Systems in pairs: the highest with each other, and every two where there are few."""
    pairs = report.comparisons if report.pairable else ()
    table = comparison_table(report, pairs)
    note = (
        "first − second, over the questions that both have a score of, each of which counts once · won, lost: where "
        "the first, or the second, has the higher value · p: McNemar's exact test of the flips where each has one yes "
        "or no, else Student's"
    )
    if any(pair.compared > 1 for pair in pairs):
        note += " · adjusted for as many pairs of systems (Holm)"
    if any(pair.questions_to_settle for pair in pairs):
        note += " · needs: about so many questions, to tell a difference of this size four times in five"
    if any(pair.sampled for pair in pairs):
        note += " · of a sample of the questions: there are very many"
    return replace(table, note=note)


def _failures(report: Report) -> Table:
    """Some of each kind, with the error's words, and how to see all of them and judge them again."""
    several = report.repeats > 1
    rows = [
        (
            entry.judge, entry.model, entry.system, abridge(entry.item_id, entry.item_id) or entry.item_id,
            *([str(entry.repeat)] if several else []), f"{entry.state}: {entry.reason or NONE}", entry.error or NONE,
        )
        for entry in pick_by_kind(report.failures, MOST_FAILURES, attrgetter("state", "judge", "model", "reason"))
    ]  # fmt: skip
    columns = [*names("judge", "model", "system"), TableColumn("item", "text"), *numbers(*["repeat"] * several)]
    columns += [TableColumn("state", "text"), TableColumn("error", "text")]
    states = [state for state in STATES if any(getattr(result.overall, state) for result in report.results)]
    of = report.directory, "--state", ",".join(states)
    more = report.failed - len(rows)
    listed = f"and {more:,} more: `{suggest('export', *of, '--format', 'jsonl')}` lists all" if more > 0 else ""
    notes = [listed, f"`{suggest('retry', *of)}` judges them again"]
    return Table("Trials that failed", tuple(columns), tuple(rows), " · ".join(filter(None, notes)))


def _served(report: Report) -> Table:
    rows = []
    for part in report.serving:
        key = part.judge, part.model, part.name, f"{part.trials:,}"
        rows += [(*key, name, number(score.value), interval(score)) for name, score in part.scores.items()]
        rows += [] if part.scores else [(*key, NONE, NONE, NONE)]
    columns = [*names("judge", "model", "served as"), *numbers("trials"), *names("score")]
    note = "mean: share of yes, or mean, of these verdicts alone"
    return Table("Served models", (*columns, *numbers("mean", "95 % interval")), tuple(rows), note)


def _controls(report: Report) -> Table:
    """How often each kind of control item was judged right."""
    rows = [
        (entry.judge, entry.model, part.name.replace("_", " "), *cells)
        for entry in report.susceptibility
        for part in entry.controls
        for cells in _group_cells(part)
    ]
    note = (
        "answers that nobody could call right, judged beside the run's own and part of no other number here · share: "
        "of the scored ones, how many were judged right all the same"
    )
    return Table("Control items", _group_columns("control"), tuple(rows), note)


def _suspects(report: Report) -> Table:
    """What was judged of items that show signs, beside all others."""
    rows = [
        (entry.judge, entry.model, name, *cells)
        for entry in report.susceptibility
        if entry.suspects.planned
        for name, part in (("suspect", entry.suspects), ("all others", entry.others))
        for cells in _group_cells(part)
    ]
    note = (
        "suspect: the judged text imitates the reply or the prompt, holds control tokens of a chat, or gives the judge "
        "orders; it was judged as it stands · share, or mean: of the scored ones"
    )
    tests = [
        f"{entry.judge} × {entry.model} {each.of} {p_value(each.p)}"
        for entry in report.susceptibility
        for each in entry.differences
    ]
    if tests:
        note += f" · suspects against all others (within systems, clustered by question): {', '.join(tests)}"
    return Table("Injection suspects", _group_columns("items"), tuple(rows), note)


def _group_columns(group: str) -> tuple[TableColumn, ...]:
    measures = numbers("trials", "unscored", "share", "95 % interval", "mean")
    return (*names("judge", "model", group, "judged"), *measures)


def _group_cells(group: TrialGroup) -> Iterator[tuple[str, ...]]:
    """judged, trials, unscored, share, interval, mean: a row for each score or choice."""
    counts = f"{group.planned:,}", f"{group.unscored:,}"
    for label, share in group.choices.items():
        yield label, *counts, number(share.value), interval(share), NONE
    for name, score in group.scores.items() if not group.choices else ():
        if score.share is None:
            yield name, *counts, NONE, interval(score if score.n >= LEAST_GROUP else None), number(score.value)
        else:
            reached = "" if score.threshold is None else f" ≥ {score.threshold:g}"
            mean = NONE if score.kind == "binary" else number(score.value)
            yield f"{name}{reached}", *counts, number(score.share.value), interval(score.share), mean


def _costs(report: Report) -> Table:
    rows = [
        (
            cost.judge, cost.model, f"{cost.requests:,}", number(_attempts_per_trial(report, cost), 2),
            f"{cost.usage.input_tokens:,.0f}", f"{cost.usage.output_tokens:,.0f}",
            money(cost.usage.cost_usd if cost.priced else None),
            *(NONE if seconds is None else f"{seconds:.3g}" for seconds in astuple(cost.latency)),
        )
        for cost in report.costs
    ]  # fmt: skip
    columns = [*names("judge", "model"), *numbers("requests", "per trial", "tokens in", "tokens out", "cost")]
    note = "every request counts, failed and repeated ones too · per trial: what a judged one took on average"
    note += " · p50, p90, p99: latency of the deciding requests"
    return Table("Cost and speed", (*columns, *numbers("p50 s", "p90 s", "p99 s")), tuple(rows), note)


def _attempts_per_trial(report: Report, cost: Cost) -> float | None:
    """Requests that a judged trial of the present plan was part of: others' are in the cost, and not to be spread."""
    done = [
        (result.attempts_per_trial, result.overall.done)
        for result in report.results
        if (result.judge, result.model) == (cost.judge, cost.model) and result.attempts_per_trial is not None
    ]
    trials = sum(n for _, n in done)
    return sum(mean * n for mean, n in done) / trials if trials else None


def _judges(report: Report) -> Table:
    rows = [
        (judge.name, judge.fingerprint, ", ".join(judge.parser_versions) or NONE, "\n".join(judge.protocol_notes))
        for judge in report.judges
    ]
    columns = [*names("judge", "fingerprint", "parser"), TableColumn("protocol", "text")]
    return Table("Judges", tuple(columns), tuple(rows), f"revision {report.revision} of the judgments")


def _models(report: Report) -> Table:
    rows = [(each.name, each.model_id, each.revision or NONE, ", ".join(each.served) or NONE) for each in report.models]
    return Table("Models", tuple(names("model", "model id", "revision", "served as")), tuple(rows))
