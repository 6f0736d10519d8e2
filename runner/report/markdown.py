"""The report as Markdown, for a notebook, a pull request or an appendix: the answer first, then every section."""

from dataclasses import replace

from .answer import PAIRED, sentences
from .formatting import Table
from .model import Report
from .notices import notices
from .overview import comparison_overview, headline, score_overview
from .tables import sections


def to_markdown(report: Report) -> str:
    parts = [f"# {_safe(report.name)}: {headline(report)}"]
    said = sentences(report)
    tables = [score_overview(report)]
    if not any(sentence.about == PAIRED for sentence in said):
        tables.append(comparison_overview(report))
    parts += [_table(table, 2) for table in tables if table.rows]
    parts.append("\n".join(f"- {sentence.about}: {_safe(sentence.text)}" for sentence in said))
    if attention := notices(report):
        parts.append("## What needs attention\n\n" + "\n".join(f"- {_safe(notice)}" for notice in attention))
    facts = [
        f"items {report.items:,}, duplicates {report.duplicates:,}, rejects {report.rejects:,}",
        f"revision {report.revision}, replies read by parser {', '.join(report.parser_versions) or '–'}",
        f"directory `{report.directory}`",
    ]
    parts.append("## The run\n\n" + "\n".join(f"- {fact}" for fact in facts))
    for name, tables in sections(report).items():
        parts += [f"## Section: {name}", *(_table(table, 3) for table in tables)]
    return "\n\n".join(parts) + "\n"


def _table(table: Table, level: int) -> str:
    places = [place for place, column in enumerate(table.columns) if column.kind != "plot"]
    table = replace(
        table,
        columns=tuple(table.columns[place] for place in places),
        rows=tuple(tuple(row[place] for place in places) for row in table.rows),
    )
    heads = [_safe(column.header) for column in table.columns]
    rules = ["--:" if column.kind == "number" else ":--" for column in table.columns]
    lines = [heads, rules, *([_safe(cell) for cell in row] for row in table.rows)]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    note = f"\n\n*{_safe(table.note)}*" if table.note else ""
    return f"{'#' * level} {_safe(table.title)}\n\n{body}{note}"


def _safe(text: str) -> str:
    """Text from outside, on one line and without meaning to Markdown."""
    flat = " / ".join(part.strip() for part in text.splitlines())
    for mark in ("\\", "`", "*", "_", "|", "<", "[", "]"):
        flat = flat.replace(mark, "\\" + mark)
    return flat
