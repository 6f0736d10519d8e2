"""Makes a table fit a width: names are cut first, extra columns left out next, and then the table is split.

Hides where a name is cut. Names that differ still differ when they are cut, numbers are never cut, and what is left out
is told to the caller.

The report on a terminal, as wide as that is.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from .formatting import INTERVAL, Column, Table, usd
from .model import Report
from .notices import notices
from .reply_tables import FIRST, READING
from .tables import COVERAGE, tables

GAP = 2
"""Between two columns: one of padding, one of the box."""
_READABLE = 16
"""Names are cut down to this before a column gives way."""
_LEAST = 8
_CUT = "…"
_LINES = 5
"""Of a text that goes on in the next line."""


def fit(table: Table, width: int) -> tuple[list[Table], list[str]]:
    """The table in one or more parts, and the headers of the columns that were left out."""
    kept, left_out = table, list[str]()
    while True:
        if whole := _narrowed(kept, width, _READABLE):
            return [whole], left_out
        extra = [place for place, column in enumerate(kept.columns) if column.extra]
        if not extra:
            break
        left_out.insert(0, kept.columns[extra[-1]].header)
        kept = only(kept, [place for place in range(len(kept.columns)) if place != extra[-1]])
    parts = [only(table, places) for places in _split(table, width)]
    narrow = (_narrowed(part, width, _READABLE) or _narrowed(part, width, _LEAST, force=True) for part in parts)
    return [part for part in narrow if part], []


def only(table: Table, kept: Sequence[int]) -> Table:
    """The table with some of its columns."""
    columns = tuple(table.columns[place] for place in kept)
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return Table(table.title, columns, rows, table.note, table.sums)


def widths_of(table: Table) -> list[int]:
    """What each column takes."""
    return [max(_header(table, place), _cells(table, place)) for place in range(len(table.columns))]


def shorten_cells(names: Collection[str], width: int) -> dict[str, str] | None:
    """Each name in at most `width` cells, all still different; None where no way to cut them keeps them apart."""
    long = [name for name in names if cell_len(name) > width]
    before = _common(long)
    after = _common([name[before:][::-1] for name in long])
    bare = {name: name[before : len(name) - after] for name in long}
    for kept in (
        {name: name for name in long},
        {name: _CUT + name[before:] for name in long},
        {name: f"{_CUT}{bare[name]}{_CUT}" for name in long},
    ):
        cut = {name: _middle(kept[name], width) if name in kept else name for name in names}
        if len(set(cut.values())) == len(cut):
            return cut
    return None


def _common(names: Sequence[str]) -> int:
    """How many characters all begin with; 0 for a single name, which has nothing in common with another."""
    if len(names) < 2:
        return 0
    first, last = min(names), max(names)
    both = min(len(first), len(last))
    return next((place for place in range(both) if first[place] != last[place]), both)


def _middle(name: str, width: int) -> str:
    """Without so much of its middle that it fits."""
    if cell_len(name) <= width:
        return name
    end = (width - 1) // 2
    head, tail = name[: width - 1 - end], name[len(name) - end :]
    while cell_len(head) > width - 1 - end:
        head = head[:-1]
    while cell_len(tail) > end:
        tail = tail[1:]
    return head + _CUT + tail


def _needed(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _header(table: Table, place: int) -> int:
    return max(map(cell_len, table.columns[place].header.split("\n")))


def _cells(table: Table, place: int) -> int:
    return max((cell_len(line) for row in table.rows for line in row[place].split("\n")), default=0)


def _names(table: Table, place: int) -> list[str]:
    """What may be cut in a column, and must stay apart."""
    if table.columns[place].outside:
        heads = (column.header for column in table.columns if column.outside)
        return list(dict.fromkeys(line for head in heads for line in head.split("\n")))
    return list(dict.fromkeys(row[place] for row in table.rows))


def _floor(table: Table, place: int, natural: int, least: int) -> int:
    """How narrow a column may become."""
    column = table.columns[place]
    if not (column.name or column.outside or column.text):
        return natural
    lowest = min(natural, max(least, _cells(table, place) if column.outside else _header(table, place)))
    if column.text or not _told_apart(table, place):
        return lowest
    names = _names(table, place)
    return next((width for width in range(lowest, natural) if shorten_cells(names, width)), natural)


def _told_apart(table: Table, place: int) -> bool:
    """Names that head rows or columns; a text behind the numbers is only read."""
    return table.columns[place].outside or place < _leading(table.columns)


def _leading(columns: Sequence[Column]) -> int:
    return next((place for place, column in enumerate(columns) if not column.name), len(columns))


def _narrowed(table: Table, width: int, least: int, force: bool = False) -> Table | None:
    """The table with its names cut so that it fits, or, with `force`, as narrow as it can be."""
    widths = widths_of(table)
    floors = [_floor(table, place, natural, least) for place, natural in enumerate(widths)]
    while _needed(widths) > width:
        wide = [place for place, floor in enumerate(floors) if widths[place] > floor]
        if not wide and not force:
            return None
        if not wide:
            break
        widths[max(wide, key=lambda place: widths[place])] -= 1
    cuts = [_cut(table, place, widths[place], floor) for place, floor in enumerate(floors)]
    columns = tuple(
        Column("\n".join(cut.get(line, line) for line in column.header.split("\n")), column.name)
        if column.outside
        else column
        for column, cut in zip(table.columns, cuts, strict=True)
    )
    rows = tuple(
        tuple(
            cell if column.outside else cut.get(cell, cell)
            for cell, column, cut in zip(row, table.columns, cuts, strict=True)
        )
        for row in table.rows
    )
    return Table(table.title, columns, rows, table.note, table.sums)


def _cut(table: Table, place: int, width: int, floor: int) -> dict[str, str]:
    """What stands for each name of a column of that width."""
    column = table.columns[place]
    if not (column.name or column.outside or column.text):
        return {}
    names = _names(table, place)
    if column.text:
        return {name: _lines(name, width) for name in names}
    if not _told_apart(table, place):
        return {name: name if cell_len(name) <= width else _end(name, width) for name in names}
    # What a wider cut leaves different a narrower one nearly always does, and at the floor it is known to.
    return next((cut for size in range(width, floor - 1, -1) if (cut := shorten_cells(names, size))), {})


def _lines(text: str, width: int) -> str:
    """In as many lines as it takes, up to `_LINES`."""
    lines = textwrap.wrap(text, width) if text.isascii() else chop_cells(text, width)
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], _end(f"{lines[_LINES - 1]} {lines[_LINES]}", width)]
    return "\n".join(lines)


def _end(text: str, width: int) -> str:
    head = text[: width - 1]
    while cell_len(head) > width - 1:
        head = head[:-1]
    return head + _CUT


def _split(table: Table, width: int) -> Iterator[list[int]]:
    """The columns of each part: those that name the row, and as many others as fit. A measure keeps its interval."""
    widths = [_floor(table, place, natural, _READABLE) for place, natural in enumerate(widths_of(table))]
    leading = list(range(_leading(table.columns)))
    groups: list[list[int]] = []
    for place in range(len(leading), len(table.columns)):
        if groups and table.columns[place].header.startswith(INTERVAL):
            groups[-1].append(place)
        else:
            groups.append([place])
    part: list[int] = []
    for group in groups:
        if part and _needed([widths[place] for place in (*leading, *part, *group)]) > width:
            yield leading + part
            part = []
        part += group
    yield leading + part


pass  # MOVED-EMPTY

UNWATCHED_WIDTH = 100
"""Where the output is a file or a pipe."""

_IDENTITY = ("judge", "model", "system")
_ELSEWHERE = "--markdown, --json or a wider terminal show them"


def to_terminal(report: Report, console: Console) -> None:
    """Print the whole report."""
    before = console.width
    if not console.is_terminal:
        console.width = max(before, UNWATCHED_WIDTH)
    try:
        _print(report, console)
    finally:
        console.width = before


def to_text(report: Report) -> str:
    """The whole report as plain text, as wide as where nobody watches."""
    console = Console(file=io.StringIO(), width=UNWATCHED_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        to_terminal(report, console)
    return captured.get()


def _print(report: Report, console: Console) -> None:
    print_ = _Printer(console, console.width)
    state = Text(report.status, style="bold green" if report.complete else "bold yellow")
    console.print(
        Text.assemble((report.name, "bold"), " · ", state, f" · {report.done:,} of {report.planned:,} trials")
    )
    for notice in notices(report):
        urgent = notice.startswith(("SIMULATED", "INCOMPLETE"))
        print_.line(notice, style="bold yellow" if urgent else "yellow", indent="  ")
    shown = tables(report)
    fixed = _fixed(report)
    if fixed:
        print_.line(" · ".join(f"{name} {value}" for name, value in fixed.items()), style="dim")
    for table in shown:
        if not _says_nothing(table, report):
            print_.table(_without(table, fixed))
    share = f" ({report.unscored / report.done:.2%})" if report.done else ""
    console.print()
    print_.line(f"unscored  {report.unscored:,} of {report.done:,} judged trials{share}")
    if report.coverage and all(part.answered == part.total for part in report.coverage):
        who = "" if len(report.coverage) == 1 else " by every system"
        print_.line(f"coverage  all {max(part.total for part in report.coverage):,} {report.questions} answered{who}")
    print_.line(f"cost      {usd(report.cost_usd)} for {report.requests:,} requests")
    if report.parser_versions:
        revision = f" (revision {report.revision})" if report.revision > 1 else ""
        print_.line(f"parser    {', '.join(report.parser_versions)} in all tables{revision}")
    print_.line(f"run       {report.directory}")


def _says_nothing(table: Table, report: Report) -> bool:
    """Whether a table holds only what everyone expects: all questions answered, all replies read strictly."""
    if table.title.startswith(COVERAGE):
        return all(part.answered == part.total for part in report.coverage)
    if table.title == FIRST:
        return report.reading.plain_replies
    return table.title == READING and report.reading.plain_ways


def _fixed(report: Report) -> dict[str, str]:
    """Names that are the same throughout: said once, not in every row. Some name is left to head the rows."""
    found = {}
    for name in _IDENTITY:
        values = {str(getattr(result, name)) for result in report.results}
        if len(values) == 1:
            found[name] = values.pop()
    if len(found) == len(_IDENTITY):
        del found["system"]
    if "model" in found:
        model_id = next(model.model_id for model in report.models if model.name == found["model"])
        if model_id != found["model"]:
            found["model"] += f" ({model_id})"
    return found


def _without(table: Table, fixed: dict[str, str]) -> Table:
    kept = [place for place, column in enumerate(table.columns) if column.header not in fixed]
    if not any(table.columns[place].name for place in kept):
        # The costs of the only judge and model: one name heads the row all the same.
        kept.insert(0, next(place for place, column in enumerate(table.columns) if column.header == "model"))
    return only(table, kept)


class _Printer:
    def __init__(self, console: Console, width: int) -> None:
        self._console = console
        self._width = width

    def line(self, text: str, style: str = "", indent: str = "") -> None:
        """A paragraph, wrapped at the width."""
        for line in textwrap.wrap(text, self._width - len(indent), break_long_words=False, break_on_hyphens=False):
            self._console.print(Text(indent + line, style=style), soft_wrap=True)

    def table(self, table: Table) -> None:
        """A table, made to fit: in parts where it is too wide, and never with a column less without saying so."""
        parts, left_out = fit(table, self._width)
        for part in parts:
            self._console.print()
            self.line(table.title + (" (continued)" if part is not parts[0] else ""), style="bold")
            self._draw(part)
        if table.note:
            self.line(table.note, style="dim italic")
        if left_out:
            self.line(f"left out for width: {', '.join(left_out)}; {_ELSEWHERE}", style="dim")

    def _draw(self, table: Table) -> None:
        widths = widths_of(table)
        drawn = RichTable(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim",
        )  # fmt: skip
        # Names over several lines end beside the numbers; a text begins beside them.
        vertical: Literal["top", "bottom"] = "top" if any(column.text for column in table.columns) else "bottom"
        for column, width in zip(table.columns, widths, strict=True):
            drawn.add_column(
                Text(column.header),
                justify="left" if column.name or column.text else "right",
                width=width,
                no_wrap=True,
                vertical=vertical,
            )
        before: Sequence[str] = ()
        for place, row in enumerate(table.rows):
            if place == len(table.rows) - table.sums and place:
                drawn.add_section()
            drawn.add_row(*(Text(cell) for cell in _unrepeated(table.columns, row, before)))
            before = row
        # What is too wide at its narrowest runs over the edge: a number that is cut would be another number.
        needed = sum(widths) + GAP * len(widths)
        before_width, self._console.width = self._console.width, max(self._width, needed)
        try:
            self._console.print(drawn, crop=False)
        finally:
            self._console.width = before_width


def _unrepeated(columns: Sequence[Column], row: Sequence[str], before: Sequence[str]) -> list[str]:
    """The row without the names that stand in the row above it already, from the left on."""
    cells = list(row)
    for place, column in enumerate(columns[:-1]):
        if column.header not in _IDENTITY or not before or row[place] != before[place]:
            break
        cells[place] = ""
    return cells
