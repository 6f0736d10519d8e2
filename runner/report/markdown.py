"""The report as Markdown, for a pull request or a paper's appendix."""

from __future__ import annotations

from .formatting import Table, usd
from .model import Report
from .notices import notices
from .tables import tables


def to_markdown(report: Report) -> str:
    """The whole report."""
    parts = [f"# {_safe(report.name)}: {report.status}"]
    if notices(report):
        parts.append("\n".join(f"> - {_safe(notice)}" for notice in notices(report)))
    facts = [
        f"{report.planned:,} trials planned, {report.done:,} judged, {report.unscored:,} of them without a score",
        f"items {report.items:,}, duplicates {report.duplicates:,}, rejects {report.rejects:,}",
        f"all tables: revision {report.revision}, replies read by parser {', '.join(report.parser_versions) or '–'}",
        f"cost {usd(report.cost_usd)}",
        f"directory `{report.directory}`",
    ]
    parts.append("\n".join(f"- {fact}" for fact in facts))
    parts.extend(_table(table) for table in tables(report))
    parts.append(_protocol(report))
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(table: Table) -> str:
    heads = [_safe(column.header) for column in table.columns]
    rules = [":--" if column.name or column.text else "--:" for column in table.columns]
    lines = [heads, rules, *([_safe(cell) for cell in row] for row in table.rows)]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    note = f"\n\n*{_safe(table.note)}*" if table.note else ""
    return f"## {_safe(table.title)}\n\n{body}{note}"


def _protocol(report: Report) -> str:
    lines = ["## Judges and models", ""]
    for judge in report.judges:
        parsers = ", ".join(judge.parser_versions) or "–"
        lines.append(f"- judge `{judge.name}`, fingerprint `{judge.fingerprint}`, parser {parsers}")
        lines.extend(f"  - {_safe(note)}" for note in judge.protocol_notes)
    for model in report.models:
        revision = f" at revision {_safe(model.revision)}" if model.revision else ""
        served = f", served as {_safe(', '.join(model.served))}" if model.served else ""
        lines.append(f"- model `{model.name}`: {_safe(model.model_id)}{revision}{served}")
    return "\n".join(lines)


def _safe(text: str) -> str:
    """Text from outside, on one line and without meaning to Markdown."""
    flat = " / ".join(part.strip() for part in text.splitlines())
    for mark in ("\\", "`", "*", "_", "|", "<", "[", "]"):
        flat = flat.replace(mark, "\\" + mark)
    return flat
