"""The report on a terminal: one screen with the answer, and the sections behind it.

Hides how tables fit a width. Names go on in the next line, and a table that is still too wide is split into parts that
each begin with the names; numbers are never cut: rather than that they run over the edge.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from judges import STATES
from runner.errors import InputError
from runner.suggested_command import suggest

from .answer import COST, JUDGE, PAIRED, Sentence, sentences
from .formatting import INTERVAL, Table, TableColumn
from .model import Report
from .notices import notices
from .overview import comparison_overview, headline, score_overview
from .tables import NOTICES, SECTIONS, sections

UNWATCHED_WIDTH = 100
"""Where the output is a file or a pipe."""
SCREEN_LINES = 23
"""So many lines at 80 columns are seen first, or two more where every part has no more than its least."""
MOST_NOTICES, LEAST_NOTICES, MOST_JUDGE_SENTENCES = 4, 2, 2
LEAST_SCORE_LINES, MOST_PAIRED_LINES = 4, 5

_NAME_WIDTHS = (12, 6)
_TEXT_WIDTH = 24
"""A name, or a text, keeps so many cells before its table is split; the smaller one where a split alone is no help."""
_HEADER_WIDTH = 14
_GAP = 2
_IDENTITY = ("judge", "model", "system")
_ALARMING = ("SIMULATED", "INCOMPLETE", "UNSCORED")
"""How notices begin that everyone must see."""


def to_terminal(
    report: Report, console: Console, only: Collection[str] = (), full: bool = False, next_command: str | None = None
) -> None:
    """Print the screen that comes first; or these sections; or, with `full`, everything.

    `next_command`: what to do next, where that is not to look closer. A name in `only` that is no section is an error.
    """
    if unknown := [name for name in only if name not in SECTIONS]:
        raise InputError(f"no section {unknown[0]}; there are: {', '.join(SECTIONS)}")
    before = console.width
    if not console.is_terminal:
        console.width = max(before, UNWATCHED_WIDTH)
    try:
        printer = _Printer(report, console)
        if full or only:
            printer.print_sections(only or SECTIONS, answer=full)
        else:
            printer.print_screen(next_command)
    finally:
        console.width = before


def to_text(report: Report, full: bool = False) -> str:
    """The same as plain text, as wide as where nobody watches."""
    console = Console(file=io.StringIO(), width=UNWATCHED_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        to_terminal(report, console, full=full)
    return captured.get()


class _Printer:
    def __init__(self, report: Report, console: Console) -> None:
        self._report = report
        self._console = console
        self._width = console.width
        self._command = suggest("report", report.directory)
        self._fixed = _fixed_names(report)
        self._notices = notices(report)
        self._sections = sections(report)

    def print_screen(self, next_command: str | None) -> None:
        """The answer, in as few lines as tell it."""
        said = sentences(self._report)
        paired = _without(comparison_overview(self._report), self._fixed)
        if any(sentence.about == PAIRED for sentence in said):
            paired = _first_rows(paired, 0)
        # Without the last columns where there is no room for them: its section has them.
        paired = _columns_of(paired, _split(paired.columns, _natural_widths(paired), self._width)[1][0])
        facts = list(self._fact_lines(said))
        tail = list(self._tail(said, next_command))
        scores = self._with_room(_without(score_overview(self._report), self._fixed))
        alarms = sum(notice.startswith(_ALARMING) for notice in self._notices)
        wanted = min(len(self._notices), MOST_NOTICES)
        # Blank lines stand before scores, notices and tail, and before the table of pairs.
        room = SCREEN_LINES - 1 - bool(self._fixed) - len(facts) - len(tail) - 2 - bool(wanted)
        if paired.rows:
            room -= min(self._height(paired), MOST_PAIRED_LINES) + 1
        least = min(wanted, max(alarms + 1, LEAST_NOTICES))
        for_scores = max(min(self._height(scores), room - least), LEAST_SCORE_LINES)
        shown = min(wanted, max(room - for_scores, least))
        self._print_head()
        self._print_beginning(scores, for_scores, "scores")
        self._print_beginning(paired, MOST_PAIRED_LINES, "comparison")
        for line in facts:
            self._print_line(line)
        self._console.print()
        self._print_attention(shown)
        for line in tail:
            self._print_line(line)

    def _print_attention(self, most: int) -> None:
        attention = self._notices[: most if len(self._notices) <= most else most - 1]
        for notice in attention:
            line = textwrap.shorten(notice, self._width, placeholder=" …", break_on_hyphens=False)
            self._print_line(line, "bold yellow" if notice.startswith(_ALARMING) else "yellow")
        if more := len(self._notices) - len(attention):
            self._print_line(self._how_many_more(more, NOTICES), "yellow")
        if self._notices:
            self._console.print()

    def _fact_lines(self, said: Sequence[Sentence]) -> Iterator[str]:
        """Sentences about the scores, and the judge, after what they are about."""
        judges = [sentence for sentence in said if sentence.about == JUDGE]
        people = next((entry for entry in self._report.agreement if entry.judge is None), None)
        # Where not all have room: the first, and people with each other, who stand last. The section has the others.
        shown = judges if len(judges) <= MOST_JUDGE_SENTENCES else [judges[0], *judges[-1:] * (people is not None)]
        before = ""
        for sentence in said:
            if sentence.about != COST and (sentence.about != JUDGE or sentence in shown):
                about = "" if sentence.about == before else sentence.about
                yield from self._wrap(f"{about:<8}{sentence.text}", indent=" " * 8)
                before = sentence.about

    def _tail(self, said: Sequence[Sentence], next_command: str | None) -> Iterator[str]:
        """What it cost, where it is, and what to do next. Paths and commands are copied, and stay in one piece."""
        for sentence in said:
            if sentence.about == COST:
                yield from self._wrap(f"{COST:<8}{sentence.text}", indent=" " * 8)
        yield f"run     {self._report.directory}"
        commands = [next_command] if next_command is not None else []
        lines = [result.overall for result in self._report.results]
        states = [state for state in STATES if state != "scored" and any(getattr(line, state) for line in lines)]
        if self._report.finished and states:
            commands.append(suggest("retry", self._report.directory, "--state", ",".join(states)))
        commands.append(f"{self._command} --full")
        for place, command in enumerate(commands):
            yield f"{'' if place else 'next':<8}{command}"
        shown = [name for name in SECTIONS if name in self._sections or (name == NOTICES and self._notices)]
        yield from self._wrap(" " * 8 + f"or --section NAME: {', '.join(shown)}", indent=" " * 8)

    def _with_room(self, table: Table) -> Table:
        """Without its plot where there is no room for it."""
        if _needed(_natural_widths(table)) <= self._width:
            return table
        return _columns_of(table, [place for place, column in enumerate(table.columns) if column.kind != "plot"])

    def print_sections(self, chosen: Collection[str], answer: bool) -> None:
        """These sections; after the `answer` in sentences."""
        self._print_head()
        if answer:
            self._console.print()
            for sentence in sentences(self._report):
                for line in self._wrap(f"{sentence.about:<8}{sentence.text}", indent=" " * 8):
                    self._print_line(line)
        for name in SECTIONS:
            if name in chosen and name == NOTICES and self._notices:
                self._console.print()
                for notice in self._notices:
                    for line in self._wrap(f"- {notice}", indent="  "):
                        self._print_line(line, "yellow")
            for table in self._sections.get(name, ()) if name in chosen else ():
                self._print_table(_without(table, self._fixed))
        missing = [name for name in chosen if name not in self._sections and name != NOTICES]
        if missing and len(chosen) < len(SECTIONS):
            self._console.print()
            self._print_line(f"nothing to show: {', '.join(missing)}", "dim")

    def _print_head(self) -> None:
        state = Text(headline(self._report), style="bold green" if self._report.complete else "bold yellow")
        self._console.print(Text.assemble((self._report.name, "bold"), " · ", state), soft_wrap=True)
        if self._fixed:
            fixed = " · ".join(f"{name} {value}" for name, value in self._fixed.items())
            for line in self._wrap(fixed):
                self._print_line(line, "dim")

    def _how_many_more(self, number: int, section: str) -> str:
        """With the command that shows them; where there is no room for it the last line has it."""
        line = f"and {number:,} more: {self._command} --section {section}"
        return line if len(line) <= self._width else f"and {number:,} more: --section {section}"

    def _print_beginning(self, table: Table, lines: int, section: str) -> None:
        """So many rows of a table as fit, and how to see the others."""
        if not table.rows:
            return
        rows = min(len(table.rows), lines)
        while rows > 1 and self._height(_first_rows(table, rows)) + (rows < len(table.rows)) > lines:
            rows -= 1
        self._console.print()
        self._draw(_first_rows(table, rows), compact=True)
        if rows < len(table.rows):
            self._print_line(self._how_many_more(len(table.rows) - rows, section), "dim")

    def _height(self, table: Table) -> int:
        options = self._console.options
        parts = self._parts(table, compact=True)
        return sum(len(self._console.render_lines(part, options.update(width=width))) for part, width in parts)

    def _print_table(self, table: Table) -> None:
        self._console.print()
        self._print_line(table.title, "bold")
        self._draw(table)
        for line in self._wrap(table.note):
            self._print_line(line, "dim italic")

    def _draw(self, table: Table, compact: bool = False) -> None:
        for place, (part, width) in enumerate(self._parts(table, compact)):
            if place and not compact:
                self._console.print()
            before, self._console.width = self._console.width, width
            self._console.print(part, crop=False)
            self._console.width = before

    def _parts(self, table: Table, compact: bool) -> Iterator[tuple[RichTable, int]]:
        """The table, in parts where it is too wide, and their widths; one too wide at its narrowest runs over."""
        least, parts = _split(table.columns, _natural_widths(table), self._width)
        for part in parts:
            width = max(self._width, _needed([least[at] for at in part]))
            yield _rich_table(_columns_of(table, part), compact), width

    def _wrap(self, text: str, indent: str = "") -> list[str]:
        return textwrap.wrap(
            text, self._width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )

    def _print_line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)


def _fixed_names(report: Report) -> dict[str, str]:
    """Names that are the same throughout: said once, not in every row. Some name is left to head the rows."""
    values = {name: {str(getattr(result, name)) for result in report.results} for name in _IDENTITY}
    fixed = {name: held.pop() for name, held in values.items() if len(held) == 1}
    if len(fixed) == len(_IDENTITY):
        del fixed["system"]
    if "model" in fixed:
        model_id = next(model.model_id for model in report.models if model.name == fixed["model"])
        if model_id != fixed["model"]:
            fixed["model"] += f" ({model_id})"
    return fixed


def _without(table: Table, fixed: Collection[str]) -> Table:
    """The table without what was said once. Where a row has another judge, or one name alone, nothing is left out."""
    places = [place for place, column in enumerate(table.columns) if column.header not in fixed]
    several = {column.header for at, column in enumerate(table.columns) if len({row[at] for row in table.rows}) > 1}
    if several & set(fixed) or not any(table.columns[place].kind == "name" for place in places):
        return table
    return _columns_of(table, places)


def _first_rows(table: Table, number: int) -> Table:
    return replace(table, rows=table.rows[:number])


def _columns_of(table: Table, places: Sequence[int]) -> Table:
    columns = tuple(table.columns[place] for place in places)
    return replace(table, columns=columns, rows=tuple(tuple(row[place] for place in places) for row in table.rows))


def _natural_widths(table: Table) -> list[int]:
    """What each column takes where there is room; headers of numbers go on in the next line."""
    widths = []
    for place, column in enumerate(table.columns):
        cells = max((cell_len(line) for row in table.rows for line in row[place].split("\n")), default=0)
        whole = column.kind != "number" or column.header.startswith(INTERVAL)
        words = [column.header] if whole else column.header.split()
        widths.append(max(cells, *(min(cell_len(word), _HEADER_WIDTH) for word in words)))
    return widths


def _needed(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _split(columns: Sequence[TableColumn], natural: Sequence[int], width: int) -> tuple[list[int], list[list[int]]]:
    """The least width of each column, and the columns of each part: a measure stands with its interval."""
    leading = next((place for place, column in enumerate(columns) if column.kind == "number"), len(columns))
    groups: list[list[int]] = []
    for place in range(leading, len(columns)):
        if not groups or not columns[place].header.startswith(INTERVAL):
            groups.append([])
        groups[-1].append(place)
    for name_width in _NAME_WIDTHS:
        most = {"name": name_width, "text": _TEXT_WIDTH, "number": max(natural), "plot": max(natural)}
        least = [min(wide, most[column.kind]) for wide, column in zip(natural, columns, strict=True)]
        names = list(range(leading))
        if all(_needed([least[place] for place in (*names, *group)]) <= width for group in groups):
            break
    return least, list(_fit(names, groups, least, width))


def _fit(names: list[int], groups: Sequence[list[int]], least: Sequence[int], width: int) -> Iterator[list[int]]:
    part: list[int] = []
    for group in groups:
        if part and _needed([least[place] for place in (*names, *part, *group)]) > width:
            yield names + part
            part = []
        part += group
    yield names + part


def _rich_table(table: Table, compact: bool) -> RichTable:
    drawn = RichTable(
        box=None if compact else box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim",
        padding=(0, _GAP, 0, 0) if compact else (0, 1, 0, 0),
    )  # fmt: skip
    for column, width in zip(table.columns, _natural_widths(table), strict=True):
        if column.kind == "number":
            lines = [part for line in column.header.split("\n") for part in textwrap.wrap(line, width)]
            drawn.add_column(Text("\n".join(lines)), justify="right", no_wrap=True, min_width=width)
        elif column.kind == "plot":
            drawn.add_column(Text(column.header), no_wrap=True, min_width=width)
        else:
            drawn.add_column(Text(column.header), overflow="fold")
    for place, (before, row) in enumerate(pairwise([(), *table.rows])):
        if place == len(table.rows) - table.sums and place:
            drawn.add_section()
        drawn.add_row(*(Text(cell) for cell in _unrepeated(table.columns, row, before)))
    return drawn


def _unrepeated(columns: Sequence[TableColumn], row: Sequence[str], before: Sequence[str]) -> list[str]:
    """The row without the names that stand in the row above it already, from the left on."""
    cells = list(row)
    for place, column in enumerate(columns[:-1]):
        if column.header not in _IDENTITY or not before or row[place] != before[place]:
            break
        cells[place] = ""
    return cells
