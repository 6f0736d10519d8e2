"""The report's tables of how scores came about: the company that a trial had in its request, and what was noted."""

from __future__ import annotations

from collections.abc import Iterator

from runner.graded import LEAST_GROUP, Difference
from runner.neighbours import Neighbours, Part
from runner.rates import Rate

from .record import Report
from .table import JUDGE, MODEL, NONE, Column, Table, ends, number, p_value

_UNTOLD = ("asked:", "max_tokens", "prompt:", "read:", "reformat:", "seed")
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
    columns = [JUDGE, MODEL, *([Column("score", name=True)] if several else []), Column("asked", name=True)]
    columns += [Column("trials"), Column("mean"), Column("95 % interval")]
    columns += [Column("replies"), Column("example")] if examples else []
    said = []
    if examples:
        quoted = ", ".join(f"“{text}”" for text in dict.fromkeys(examples))
        said.append(
            f"example: share of all replies at that size that were just the example in the judge's prompt ({quoted}), "
            "which is an ordinary reply where it has as many scores as there are items"
        )
    if any(part.score.n < part.trials for entry in report.batches for part in _shown(entry)):
        said.append("mean: of those trials that have a score")
    tests = [f"{_whose(report, entry)}{found}" for entry in report.batches if (found := _tests(entry))]
    if tests:
        said += [*tests, f"compared, by analysis of variance: rows with {LEAST_GROUP} scores or more"]
        if any(entry.marked for entry in report.batches):
            said[-1] += ", without items asked alone for a block marker"
    return Table("Batches", tuple(columns), tuple(rows), " · ".join(said))


def flags(report: Report) -> Table:
    """What was noted on judgments."""
    done: dict[tuple[str, str], int] = {}
    for result in report.results:
        pair = result.judge, result.model
        done[pair] = done.get(pair, 0) + result.overall.planned - result.overall.not_done
    rows = [
        (flag.judge, flag.model, flag.code, f"{flag.trials:,}", f"{flag.trials / whole:.2%}", f"{flag.times:,}")
        for flag in report.flags
        if not flag.code.startswith(_UNTOLD) and (whole := done.get((flag.judge, flag.model), 0))
    ]
    columns = (JUDGE, MODEL, Column("flag", name=True), Column("trials"), Column("share"), Column("times"))
    note = "trials: judgments with this note · times: how often it was met in them"
    return Table("Flags", columns, tuple(rows), note)


def _rows(entry: Neighbours) -> Iterator[tuple[str, ...]]:
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


def _shown(entry: Neighbours) -> tuple[Part, ...]:
    return (*entry.sizes, *([entry.marked] if entry.marked else []), *entry.depths, *entry.places)


def _cells(part: Part | None) -> tuple[str, str, str]:
    if part is None:
        return "0", NONE, NONE
    return f"{part.trials:,}", number(part.score.value), ends(part.score.interval_low, part.score.interval_high)


def _whose(report: Report, entry: Neighbours) -> str:
    return f"{entry.judge} × {entry.model}: " if len(report.batches) > 1 else ""


def _tests(entry: Neighbours) -> str:
    found: list[tuple[str, Difference | None, tuple[Part, ...]]] = [
        ("size", entry.by_size, entry.sizes),
        ("place", entry.by_place, entry.places),
    ]
    tested = []
    for what, test, parts in found:
        if test is not None:
            among = [str(part.at) for part in parts if part.score.n >= LEAST_GROUP]
            which = f" ({', '.join(among)} alone)" if len(among) < len(parts) else ""
            tested.append(f"by {what}{which} {p_value(test.p)}")
    return f"differences of means {', '.join(tested)}" if tested else ""
