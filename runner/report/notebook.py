"""The report as Python users hold it: it prints as the command does, and shows itself in a notebook.

A notebook collects the headings of outputs into its outline: nothing here is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from html import escape

from .formatting import Table
from .model import Report
from .notices import notices
from .tables import NOTICES, SECTIONS, sections
from .terminal import to_text

_SCREEN = "white-space: pre; overflow-x: auto; line-height: 1.25"


class DisplayedReport(Report):
    """A report that prints as the command does, and shows itself in a notebook."""

    __slots__ = ()

    @classmethod
    def of(cls, report: Report) -> DisplayedReport:
        return cls(**{field.name: getattr(report, field.name) for field in fields(report)})

    def __str__(self) -> str:
        return to_text(self)

    def _repr_html_(self) -> str:
        return to_html(self)


def to_html(report: Report) -> str:
    """The first screen as it stands on a terminal, and behind it every section, folded."""
    tables = sections(report)
    folded = []
    for name in SECTIONS:
        if name == NOTICES and (attention := notices(report)):
            folded.append(_fold(name, f"<ul>{''.join(f'<li>{escape(notice)}</li>' for notice in attention)}</ul>"))
        elif name in tables:
            folded.append(_fold(name, "".join(part for table in tables[name] for part in _table(table))))
    return f'<div><pre style="{_SCREEN}">{escape(to_text(report))}</pre>{_fold("all tables", "".join(folded))}</div>'


def _fold(name: str, content: str) -> str:
    return f"<details><summary>{escape(name)}</summary>{content}</details>"


def _table(table: Table) -> Iterator[str]:
    sides = ["right" if column.kind == "number" else "left" for column in table.columns]

    def row(tag: str, cells: tuple[str, ...]) -> str:
        texts = (escape(cell).replace("\n", "<br>") for cell in cells)
        return "".join(
            f'<{tag} style="text-align: {side}">{text}</{tag}>' for side, text in zip(sides, texts, strict=True)
        )

    yield f"<p><b>{escape(table.title)}</b></p><table><thead><tr>"
    yield row("th", tuple(column.header for column in table.columns))
    yield "</tr></thead><tbody>"
    yield from (f"<tr>{row('td', cells)}</tr>" for cells in table.rows)
    yield "</tbody></table>" + (f"<p><i>{escape(table.note)}</i></p>" if table.note else "")
