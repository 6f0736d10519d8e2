"""The report that Python users hold: it prints as the command does, and shows itself in a notebook."""

from __future__ import annotations

from dataclasses import fields

from .markdown import to_markdown
from .model import Report
from .terminal import to_text


class DisplayedReport(Report):
    """A report with its renderers; the record itself knows none."""

    __slots__ = ()

    @classmethod
    def of(cls, report: Report) -> DisplayedReport:
        return cls(**{field.name: getattr(report, field.name) for field in fields(report)})

    def __str__(self) -> str:
        return to_text(self)

    def _repr_markdown_(self) -> str:
        return to_markdown(self)
