"""The report's tables of replies: first replies, ways to a verdict, unreadable ones, calls, batches and notes."""

from collections import Counter
from collections.abc import Iterator

from runner.stats.batch_effects import BatchEffect, BatchPart
from runner.stats.estimators import Rate
from runner.stats.parse_stats import UNSCORED, FirstReplies, ParsePath, ParsePaths
from runner.stats.significance import LEAST_GROUP, Comparison

from .formatting import NONE, Table, TableColumn, interval, money, names, number, numbers, p_value, percent
from .model import Report

MANY_SCORES = 4
"""Above so many scores they stand in the document only."""
MOST_UNREADABLE = 10

_LATER_STEPS = {"bisect": "batch halved", "rejudge": "judged afresh", "retry": "by jurybox retry"}
_WAYS = {"after_refusal": "after a refusal", "bare_cut": "cut, a bare word", "reformat": "reformatted", **_LATER_STEPS}
_STEPS = {"last": "put off to the end", "refused": "after a refusal", "reread": "verdict checked", **_LATER_STEPS}


def first_replies(report: Report) -> Table:
    """How the first reply to each request was read; no rows where every one was just what was asked for."""
    entries = report.reading.first_replies
    several = len({entry.parser_version for entry in entries}) > 1
    rows = [
        (
            entry.judge, entry.model, *([entry.parser_version] if several else []), f"{entry.replies:,}",
            percent(entry.strict.value), f"{entry.malformed.hits:,}", percent(entry.malformed.value),
            _percents(entry.malformed), percent(entry.refused.value), percent(entry.cut.value),
        )
        for entry in entries
        if any(each.strict.hits < each.replies or each.cut.hits for each in entries)
    ]  # fmt: skip
    columns = [*names("judge", "model", *["parser"] * several), *numbers("replies", "strict", "malformed", "share")]
    note = (
        "the first reply to each request, read without another call · strict: just as it was asked for · cut: for its "
        f"length, readable or not{_versions(report, entries)}"
    )
    return Table("First replies", (*columns, *numbers("95 % interval", "refused", "cut")), tuple(rows), note)


def parse_paths(report: Report) -> Table:
    """How verdicts came about, with their scores; no rows where every verdict was read strictly."""
    entries = report.reading.ways
    several = len({entry.parser_version for entry in entries}) > 1
    paths = (way for entry in entries for way in entry.ways)
    scores = list(dict.fromkeys(name for way in paths for name in (*way.scores, *way.choices)))
    scores = scores if len(scores) <= MANY_SCORES else []
    single = len(scores) == 1
    tested = any(way.against_strict for entry in entries for way in entry.ways)
    rows = [
        (
            entry.judge, entry.model, *([entry.parser_version] if several else []), _WAYS.get(way.way, way.way),
            f"{way.trials.hits:,}", percent(way.trials.value), *(number(_value(way, name)) for name in scores),
            *([interval(way.scores.get(scores[0]) or way.choices.get(scores[0]))] if single else []),
            *([", ".join(_p(each, single) for each in way.against_strict) or NONE] if tested else []), _detail(way),
        )
        for entry in entries
        for way in entry.ways
        if any(each.way not in ("strict", *UNSCORED) for paths in entries for each in paths.ways)
    ]  # fmt: skip
    columns = names("judge", "model", *["parser"] * several, "how the reply was read")
    columns += [*numbers("trials", "share", *scores, *["95 % interval"] * single, *["against strict"] * tested)]
    columns += names("in detail")
    notes = [f"{', '.join(scores)}: share of yes, or mean, of these verdicts alone"] if scores else []
    notes += _parse_path_tests(entries)
    note = " · ".join(notes) + _versions(report, entries)
    return Table("Reading", tuple(columns), tuple(rows), note.removeprefix(" · "))


def rereads(report: Report) -> Table:
    """How often verdicts read out of a longer reply came out the same when the bare verdict was asked for."""
    rows = [
        (
            entry.judge, entry.model, entry.place, f"{entry.same.n:,}", f"{entry.same.hits:,}",
            percent(entry.same.value), _percents(entry.same), f"{entry.differ.hits:,}", percent(entry.differ.value),
            f"{entry.unread:,}",
        )
        for entry in report.reading.rereads
    ]  # fmt: skip
    columns = [*names("judge", "model", "place"), *numbers("checked", "same", "share", "95 % interval")]
    columns += numbers("differ", "share", "unread")
    note = (
        "verdicts that stood in these places, against one more request for the bare verdict (retry.reread), which "
        "changes none · unread: its reply was no verdict · a model may differ from itself however it is read"
    )
    return Table("Checked verdicts", tuple(columns), tuple(rows), note)


def unreadable_replies(report: Report) -> Table:
    """The commonest replies that could not be read, with an example of each kind."""
    shown = sorted(report.reading.unreadable, key=lambda entry: -entry.replies)[:MOST_UNREADABLE]
    rows = [
        (
            entry.judge, entry.model, entry.reason, f"{'≥ ' if entry.at_least else ''}{entry.replies:,}",
            f"{entry.replies / entry.of:.1%}", "(no text)" if entry.example is None else entry.example,
        )
        for entry in sorted(shown, key=report.reading.unreadable.index)
    ]  # fmt: skip
    columns = [*names("judge", "model", "reason"), *numbers("replies", "share"), TableColumn("reply", "text")]
    note = "the commonest, of all malformed replies; alike but for case, digits and blanks count together · one example"
    return Table("Unreadable replies", tuple(columns), tuple(rows), note)


def calls(report: Report) -> Table:
    """What each step of the ladder took, of those whose trials did not take one call each."""
    entries = report.reading.calls
    several = {(entry.judge, entry.model) for entry in entries if entry.step not in ("first", "probe")}
    failed = any(entry.failed for entry in entries)
    priced = {cost.model for cost in report.costs if cost.priced}
    rows = [
        (
            entry.judge, entry.model, _STEPS.get(entry.step, entry.step), f"{entry.calls:,}",
            *([f"{entry.failed:,}"] if failed else []), f"{entry.read:,}", f"{entry.malformed:,}", f"{entry.refused:,}",
            f"{entry.usage.input_tokens:,.0f}", f"{entry.usage.output_tokens:,.0f}",
            money(entry.usage.cost_usd if entry.model in priced or entry.usage.cost_usd else None),
        )
        for entry in entries
        if (entry.judge, entry.model) in several
    ]  # fmt: skip
    columns = [*names("judge", "model", "step"), *numbers("calls", *["no reply"] * failed, "verdict", "malformed")]
    columns += numbers("refused", "tokens in", "tokens out", "cost")
    note = "what each step of the ladder took · verdict, malformed, refused: how its replies were read"
    note += " · no reply: errors of the endpoint" if failed else ""
    if any(entry.step == "reformat" for entry in entries):
        note += " · reformat: stands with the model that copied the verdict, whoever gave it"
    return Table("Calls by stage", tuple(columns), tuple(rows), note)


def _percents(share: Rate) -> str:
    return NONE if share.low is None or share.high is None else f"{share.low:.2%}–{share.high:.2%}"


def _value(way: ParsePath, name: str) -> float | None:
    value = way.scores.get(name) or way.choices.get(name)
    return value.value if value else None


def _detail(way: ParsePath) -> str:
    """The stages in full where the name of the way is not all there is to it."""
    if list(way.stages) == [way.way]:
        return ""
    ranked = sorted(way.stages.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{stage.removeprefix('tolerant:')} {n:,}" for stage, n in ranked)


def _parse_path_tests(entries: tuple[ParsePaths, ...]) -> list[str]:
    """What the comparison of strict verdicts with all others came to, in one sentence."""
    tested = [entry for entry in entries if entry.biases]
    if not tested:
        return []
    values = (
        (f"{entry.judge} × {entry.model} " if len(entries) > 1 else "")
        + ", ".join(f"{bias.of} {p_value(bias.p)}" for bias in entry.biases)
        for entry in tested
    )
    how = "within systems, clustered by question; each way alone: against strict"
    return [f"strict against all others ({how}): {'; '.join(values)}"]


def _p(bias: Comparison, single: bool) -> str:
    return p_value(bias.p) if single else f"{bias.of} {p_value(bias.p)}"


def _versions(report: Report, entries: tuple[FirstReplies, ...] | tuple[ParsePaths, ...]) -> str:
    """The version of the reader where it is not that of all tables; where there are several they have a column."""
    versions = sorted({entry.parser_version for entry in entries})
    return "" if len(versions) != 1 or versions == report.parser_versions else f" · read by parser {versions[0]}"


_LATER_NOTES = ("asked:", "max_tokens", "prompt:", "read:", "reformat:", "seed")
"""Notes that say how a later reply was asked for and read, as the table of readings does: in the document only."""


def batches(report: Report) -> Table:
    """Mean scores by batch size and by place in a full batch, and how often a reply was just the prompt's example."""
    several = len({entry.score for entry in report.batches}) > 1
    examples = [judge.example for judge in report.judges if judge.example]
    rows = [
        (entry.judge, entry.model, *([entry.score] if several else []), *cells[: 6 if examples else 4])
        for entry in report.batches
        for cells in _rows(entry)
    ]
    columns = names("judge", "model", *["score"] * several, "asked")
    columns += numbers("trials", "mean", "95 % interval", *(["replies", "example"] if examples else []))
    notes = []
    if examples:
        quoted = ", ".join(f"“{text}”" for text in dict.fromkeys(examples))
        notes.append(
            f"example: share of all replies at that size that were just the example in the judge's prompt ({quoted}), "
            "which is an ordinary reply where it has as many scores as there are items"
        )
    marked = (entry.marked for entry in report.batches if entry.marked)
    parts = (part for entry in report.batches for part in (*entry.sizes, *entry.depths, *entry.places))
    if any(part.score.n < part.trials for part in (*parts, *marked)):
        notes.append("mean: of those trials that have a score")
    tests = [f"{_whose(report, entry)}{test}" for entry in report.batches if (test := _batch_tests(entry))]
    if tests:
        notes += [*tests, f"compared, by analysis of variance: rows with {LEAST_GROUP} scores or more"]
        if any(entry.marked for entry in report.batches):
            notes[-1] += ", without items asked alone for a block marker"
    return Table("Batches", tuple(columns), tuple(rows), " · ".join(notes))


def flags(report: Report) -> Table:
    done = Counter[tuple[str, str]]()
    for result in report.results:
        done[result.judge, result.model] += result.overall.done
    rows = [
        (flag.judge, flag.model, flag.code, f"{flag.trials:,}", f"{flag.trials / whole:.2%}", f"{flag.times:,}")
        for flag in report.flags
        if not flag.code.startswith(_LATER_NOTES) and (whole := done[flag.judge, flag.model])
    ]
    columns = (*names("judge", "model", "flag"), *numbers("trials", "share", "times"))
    note = "trials: judgments with this note · times: how often it was met in them"
    return Table("Flags", columns, tuple(rows), note)


def _rows(entry: BatchEffect) -> Iterator[tuple[str, ...]]:
    replies = {echo.size: echo.replies for echo in entry.echoes}
    sizes = {part.at: part for part in entry.sizes}
    only_marked = entry.marked is not None and 1 not in sizes
    for size in sorted(sizes.keys() | replies.keys(), reverse=True):
        if size > 1 or not only_marked:
            yield f"{size} at a time", *_cells(sizes.get(size)), *_echoed(replies.get(size))
    if entry.marked:
        yield "alone, for a block marker", *_cells(entry.marked), *_echoed(replies.get(1) if only_marked else None)
    for part in entry.depths:
        yield f"halved {part.at} ×", *_cells(part), NONE, NONE
    for part in entry.places:
        yield f"place {part.at} of {entry.full}", *_cells(part), NONE, NONE


def _echoed(share: Rate | None) -> tuple[str, str]:
    return (NONE, NONE) if share is None else (f"{share.n:,}", f"{share.hits:,} ({share.hits / share.n:.2%})")


def _cells(part: BatchPart | None) -> tuple[str, str, str]:
    if part is None:
        return "0", NONE, NONE
    return f"{part.trials:,}", number(part.score.value), interval(part.score)


def _whose(report: Report, entry: BatchEffect) -> str:
    return f"{entry.judge} × {entry.model}: " if len(report.batches) > 1 else ""


def _batch_tests(entry: BatchEffect) -> str:
    texts = []
    for what, test, parts in (("size", entry.by_size, entry.sizes), ("place", entry.by_place, entry.places)):
        if test is not None:
            among = [str(part.at) for part in parts if part.score.n >= LEAST_GROUP]
            which = f" ({', '.join(among)} alone)" if len(among) < len(parts) else ""
            texts.append(f"by {what}{which} {p_value(test.p)}")
    return f"differences of means {', '.join(texts)}" if texts else ""
