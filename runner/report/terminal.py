"""The report on a terminal: as wide as it is, names shortened before numbers are."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from .record import Report
from .tables import Column, Table, tables, usd

UNWATCHED_WIDTH = 100
"""Where the output is a file or a pipe."""

_GAP = 2
_LEAST_NAME = 8
_IDENTITY = ("judge", "model", "system")


def to_terminal(report: Report, console: Console) -> None:
    """Print the whole report."""
    width = console.width if console.is_terminal else max(console.width, UNWATCHED_WIDTH)
    print_ = _Printer(console, width)
    state = Text(report.status, style="bold green" if report.complete else "bold yellow")
    print_.line(Text.assemble((report.name, "bold"), " · ", state, f" · {report.done:,} of {report.planned:,} trials"))
    for notice in report.notices:
        urgent = notice.startswith(("SIMULATED", "INCOMPLETE"))
        print_.line(Text(notice, style="bold yellow" if urgent else "yellow"), indent=2)
    shown = tables(report)
    fixed = _fixed(report)
    if fixed:
        print_.line(Text(" · ".join(f"{name} {value}" for name, value in fixed.items()), style="dim"))
    for table in shown:
        if table.title.startswith("Coverage") and all(part.answered == part.total for part in report.coverage):
            continue
        print_.table(_without(table, fixed))
    share = f" ({report.unscored / report.done:.2%})" if report.done else ""
    print_.line(Text(f"unscored  {report.unscored:,} of {report.done:,} judged trials{share}"), space=True)
    requests = sum(cost.requests for cost in report.costs)
    print_.line(Text(f"cost      {usd(report.cost_usd)} for {requests:,} requests"))
    print_.line(Text(f"run       {report.directory}"))


def _fixed(report: Report) -> dict[str, str]:
    """Identity columns with one value throughout: said once, not in every row. The system always has its column."""
    judges = {result.judge for result in report.results}
    models = {result.model for result in report.results}
    found = {}
    if len(judges) == 1:
        found["judge"] = judges.pop()
    if len(models) == 1:
        name = models.pop()
        found["model"] = name
        model_id = next((model.model_id for model in report.models if model.name == name), name)
        if model_id != name:
            found["model"] += f" ({model_id})"
    return found


def _without(table: Table, fixed: dict[str, str]) -> Table:
    kept = [place for place, column in enumerate(table.columns) if column.header not in fixed]
    if not any(table.columns[place].name for place in kept):
        # Costs of the only judge and model: the name of one of them heads the row.
        kept = [place for place, column in enumerate(table.columns) if column.header != "judge"]
    columns = tuple(table.columns[place] for place in kept)
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return Table(table.title, columns, rows, table.note, table.sums)


class _Printer:
    def __init__(self, console: Console, width: int) -> None:
        self._console = console
        self._width = width

    def line(self, text: Text, indent: int = 0, space: bool = False) -> None:
        """A paragraph, wrapped at the width."""
        if space:
            self._console.print()
        padded = Padding(text, (0, 0, 0, indent), expand=False)
        self._console.print(padded, width=self._width, crop=False, soft_wrap=False)

    def table(self, table: Table) -> None:
        """A table, made to fit."""
        table, widths = _fitted(table, self._width)
        drawn = RichTable(
            box=box.SIMPLE_HEAD, title=Text(table.title, style="bold"), title_justify="left", show_edge=False,
            pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim",
        )  # fmt: skip
        for column, width in zip(table.columns, widths, strict=True):
            drawn.add_column(
                Text(column.header),
                justify="left" if column.name else "right",
                width=width,
                no_wrap=True,
                overflow="ellipsis",
                vertical="bottom",
            )
        before: Sequence[str] = ()
        for place, row in enumerate(table.rows):
            if place == len(table.rows) - table.sums and place:
                drawn.add_section()
            drawn.add_row(*(Text(cell) for cell in _unrepeated(table.columns, row, before)))
            before = row
        self._console.print()
        self._console.print(drawn, width=self._width, crop=False)
        if table.note:
            self._console.print(Text(table.note, style="dim italic"), width=self._width, crop=False)


def _unrepeated(columns: Sequence[Column], row: Sequence[str], before: Sequence[str]) -> list[str]:
    """The row without the names that stand in the row above it already, from the left on."""
    cells = list(row)
    for place, column in enumerate(columns[:-1]):
        if column.header not in _IDENTITY or not before or row[place] != before[place]:
            break
        cells[place] = ""
    return cells


def _fitted(table: Table, width: int) -> tuple[Table, list[int]]:
    """The table and its columns' widths: first the extra columns go, then the longest names are cut."""

    def natural(table: Table) -> list[int]:
        return [
            max(
                cell_len(line)
                for text in (column.header, *(row[place] for row in table.rows))
                for line in text.split("\n")
            )
            for place, column in enumerate(table.columns)
        ]

    def needed(widths: list[int]) -> int:
        return sum(widths) + _GAP * (len(widths) - 1)

    widths = natural(table)
    if needed(widths) > width and any(column.extra for column in table.columns):
        kept = [place for place, column in enumerate(table.columns) if not column.extra]
        rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
        table = Table(table.title, tuple(table.columns[place] for place in kept), rows, table.note, table.sums)
        widths = natural(table)
    while needed(widths) > width:
        names = [place for place, column in enumerate(table.columns) if column.name and widths[place] > _LEAST_NAME]
        if not names:
            break
        widths[max(names, key=lambda place: widths[place])] -= 1
    return table, widths
