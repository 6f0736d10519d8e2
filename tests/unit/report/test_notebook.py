"""The report in a notebook: the first screen, every section folded, and nothing for the notebook's outline."""

import re
from html import unescape
from pathlib import Path

from judged_run import jsonl, judged_run, scored

from runner.report.notebook import DisplayedReport, to_html
from runner.report.tables import sections
from runner.report.terminal import to_text


def test_a_notebook_shows_the_first_screen_and_no_heading(tmp_path: Path) -> None:
    rows = [
        {"id": f"i{k}", "system": "<b>A</b>", "question": "q", "reference": "r", "response": str(k)} for k in range(9)
    ]
    jsonl(tmp_path / "items.jsonl", rows)
    report = judged_run(tmp_path, {"path": "items.jsonl"}, lambda row: scored(row["id"] < "i5")).report()
    page = to_html(report)
    assert not re.search(r"<h[1-6]|role=|<b>A</b>", page)
    assert to_text(report) in unescape(page)
    for name, tables in sections(report).items():
        assert f"<summary>{name}</summary>" in page
        assert all(f"<b>{table.title}</b>" in unescape(page) for table in tables)
    shown = DisplayedReport.of(report)
    assert (str(shown), shown._repr_html_()) == (to_text(report), page)
    assert not hasattr(shown, "_repr_markdown_")
