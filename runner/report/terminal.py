"""The report on a terminal, as wide as that is."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from .fitting import GAP, fit, only, widths_of
from .reading_tables import FIRST, READING
from .record import Report
from .table import Column, Table, usd
from .tables import COVERAGE, tables

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
    for notice in report.notices:
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
