"""The report as Markdown, for a notebook, a pull request or an appendix: the answer first, then every section."""

from .formatting import Table
from .model import Report
from .notices import notices
from .overview import agreement_overview, cost_line, headline, score_overview
from .tables import sections


def to_markdown(report: Report) -> str:
    parts = [f"# {_safe(report.name)}: {headline(report)}"]
    parts += [_table(table, 2) for table in (score_overview(report), agreement_overview(report)) if table.rows]
    if attention := notices(report):
        parts.append("## What needs attention\n\n" + "\n".join(f"- {_safe(notice)}" for notice in attention))
    facts = [
        f"cost: {cost_line(report)}",
        f"items {report.items:,}, duplicates {report.duplicates:,}, rejects {report.rejects:,}",
        f"{report.unscored:,} of {report.done:,} judged trials are without a score",
        f"revision {report.revision}, replies read by parser {', '.join(report.parser_versions) or '–'}",
        f"directory `{report.directory}`",
    ]
    parts.append("## The run\n\n" + "\n".join(f"- {fact}" for fact in facts))
    for name, tables in sections(report).items():
        parts += [f"## Section: {name}", *(_table(table, 3) for table in tables)]
    return "\n\n".join(parts) + "\n"


def _table(table: Table, level: int) -> str:
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
