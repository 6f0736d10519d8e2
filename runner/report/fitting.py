"""Makes a table fit a width: names are cut first, extra columns left out next, and then the table is split.

Hides where a name is cut. Names that differ still differ when they are cut, numbers are never cut, and what is left out
is told to the caller.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len, chop_cells

from .table import INTERVAL, Column, Table

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


def shortened(names: Collection[str], width: int) -> dict[str, str] | None:
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
    return next((width for width in range(lowest, natural) if shortened(names, width)), natural)


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
    return next((cut for size in range(width, floor - 1, -1) if (cut := shortened(names, size))), {})


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
