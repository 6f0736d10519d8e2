"""The report's tables of how replies were read: first replies, ways to a verdict, what could not be read, and calls."""

from __future__ import annotations

from runner.rates import Rate
from runner.readings import FirstReplies, Way, Ways

from .record import Report
from .table import JUDGE, MODEL, NONE, Column, Table, ends, interval, number, p_value, usd

FIRST = "First replies"
READING = "Reading"
MANY_SCORES = 4
"""Above so many scores they stand in the document only."""
MOST_UNREADABLE = 10

_PARSER = Column("parser", name=True)
_SAID = {
    "after_refusal": "after a refusal",
    "bare_cut": "cut, a bare word",
    "bisect": "batch halved",
    "rejudge": "judged afresh",
    "reformat": "reformatted",
    "retry": "by jurybox retry",
}
_STEPS = {
    "last": "put off to the end",
    "refused": "after a refusal",
    "rejudge": "judged afresh",
    "bisect": "batch halved",
    "retry": "by jurybox retry",
}


def reading_tables(report: Report) -> list[Table]:
    """All four, in the order to read them; some have no rows."""
    return [_first(report), _ways(report), _unreadable(report), _calls(report)]


def _first(report: Report) -> Table:
    found = report.reading.first_replies
    several = len({entry.parser_version for entry in found}) > 1
    rows = [
        (
            entry.judge, entry.model, *([entry.parser_version] if several else []), f"{entry.replies:,}",
            _percent(entry.strict), f"{entry.malformed.hits:,}", _percent(entry.malformed), _range(entry.malformed),
            _percent(entry.refused), _percent(entry.cut),
        )
        for entry in found
    ]  # fmt: skip
    columns = [JUDGE, MODEL, *([_PARSER] if several else []), Column("replies"), Column("strict", extra=True)]
    columns += [Column("malformed"), Column("share"), Column("95 % interval"), Column("refused"), Column("cut")]
    note = (
        "the first reply to each request, read without another call · strict: just as it was asked for · cut: for its "
        f"length, readable or not{_versions(report, found)}"
    )
    return Table(FIRST, tuple(columns), tuple(rows), note)


def _ways(report: Report) -> Table:
    found = report.reading.ways
    several = len({entry.parser_version for entry in found}) > 1
    names = list(dict.fromkeys(name for entry in found for way in entry.ways for name in (*way.scores, *way.choices)))
    names = names if len(names) <= MANY_SCORES else []
    rows = [
        (
            entry.judge, entry.model, *([entry.parser_version] if several else []), _SAID.get(way.way, way.way),
            f"{way.trials.hits:,}", _percent(way.trials), *(_score(way, name) for name in names),
            *([_score_range(way, names[0])] if len(names) == 1 else []), _detail(way),
        )
        for entry in found
        for way in entry.ways
    ]  # fmt: skip
    columns = [JUDGE, MODEL, *([_PARSER] if several else []), Column("how the reply was read", name=True)]
    columns += [Column("trials"), Column("share"), *map(Column, names)]
    columns += [Column("95 % interval")] if len(names) == 1 else []
    columns += [Column("in detail", name=True, extra=True)]
    said = [f"{', '.join(names)}: share of yes, or mean, of these verdicts alone"] if names else []
    said += _tests(found)
    if versions := _versions(report, found):
        said.append(versions.removeprefix(" · "))
    return Table(READING, tuple(columns), tuple(rows), " · ".join(said))


def _unreadable(report: Report) -> Table:
    shown = sorted(report.reading.unreadable, key=lambda entry: -entry.replies)[:MOST_UNREADABLE]
    rows = [
        (
            entry.judge, entry.model, entry.reason, f"{'≥ ' if entry.at_least else ''}{entry.replies:,}",
            f"{entry.replies / entry.of:.1%}", "(no text)" if entry.example is None else entry.example,
        )
        for entry in sorted(shown, key=report.reading.unreadable.index)
    ]  # fmt: skip
    columns = (JUDGE, MODEL, Column("reason", name=True), Column("replies"), Column("share"))
    note = "the commonest, of all malformed replies; alike but for case, digits and blanks count together · one example"
    return Table("Unreadable replies", (*columns, Column("reply", name=True)), tuple(rows), note)


def _calls(report: Report) -> Table:
    calls = report.reading.calls
    # Where each trial took one call there is nothing to share out.
    told = {(entry.judge, entry.model) for entry in calls if entry.step not in ("first", "probe")}
    failed = any(entry.failed for entry in calls)
    priced = {cost.model for cost in report.costs if cost.priced}
    rows = [
        (
            entry.judge, entry.model, _STEPS.get(entry.step, entry.step), f"{entry.calls:,}",
            *([f"{entry.failed:,}"] if failed else []), f"{entry.read:,}", f"{entry.malformed:,}", f"{entry.refused:,}",
            f"{entry.usage.input_tokens:,.0f}", f"{entry.usage.output_tokens:,.0f}",
            usd(entry.usage.cost_usd if entry.model in priced or entry.usage.cost_usd else None),
        )
        for entry in calls
        if (entry.judge, entry.model) in told
    ]  # fmt: skip
    columns = [JUDGE, MODEL, Column("step", name=True), Column("calls"), *([Column("no reply")] if failed else [])]
    columns += [Column("verdict"), Column("malformed", extra=True), Column("refused", extra=True)]
    columns += [Column("tokens in"), Column("tokens out"), Column("cost")]
    note = "what each step of the ladder took · verdict, malformed, refused: how its replies were read"
    note += " · no reply: errors of the endpoint" if failed else ""
    if any(entry.step == "reformat" for entry in calls):
        note += " · reformat: stands with the model that copied the verdict, whoever gave it"
    return Table("Calls by stage", tuple(columns), tuple(rows), note)


def _percent(share: Rate) -> str:
    return NONE if share.value is None else f"{share.value:.2%}"


def _range(share: Rate) -> str:
    return NONE if share.low is None or share.high is None else f"{share.low:.2%}–{share.high:.2%}"


def _score(way: Way, name: str) -> str:
    found = way.scores.get(name) or way.choices.get(name)
    return number(found.value) if found else NONE


def _score_range(way: Way, name: str) -> str:
    found = way.scores.get(name) or way.choices.get(name)
    if found is None:
        return NONE
    return interval(found) if isinstance(found, Rate) else ends(found.interval_low, found.interval_high)


def _detail(way: Way) -> str:
    """The stages in full where the way is not told by its name alone."""
    if list(way.stages) == [way.way]:
        return ""
    ranked = sorted(way.stages.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{stage.removeprefix('tolerant:')} {n:,}" for stage, n in ranked)


def _tests(found: tuple[Ways, ...]) -> list[str]:
    """What the comparison of strict verdicts with all others came to, in one sentence."""
    tested = [entry for entry in found if entry.biases]
    if not tested:
        return []
    how = dict.fromkeys(bias.test for entry in tested for bias in entry.biases)
    values = (
        (f"{entry.judge} × {entry.model} " if len(found) > 1 else "")
        + ", ".join(f"{bias.of} {p_value(bias.p)}" for bias in entry.biases)
        for entry in tested
    )
    return [f"strict against all others ({', '.join(how)}): {'; '.join(values)}"]


def _versions(report: Report, found: tuple[FirstReplies, ...] | tuple[Ways, ...]) -> str:
    """The version of the reader where it is not that of all tables; where there are several they have a column."""
    versions = sorted({entry.parser_version for entry in found})
    return "" if len(versions) != 1 or versions == report.parser_versions else f" · read by parser {versions[0]}"
