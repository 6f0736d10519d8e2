"""Trials that ended in an error, in the report: which they are, and what was said of them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from judged_run import Run, jsonl, judged_run, scored, unscored
from rich.cells import cell_len
from rich.console import Console

from runner.publishing.export import Selection, export_results
from runner.report import Report, to_json, to_markdown
from runner.report.terminal import to_terminal

SECRET = "sk-abcdefgh12345678"


def run_of(folder: Path, ending: Any, n: int = 40, **keywords: Any) -> Run:
    rows = [
        {"id": f"i{k}", "system": "ab"[k % 2], "question": f"Why {k}?", "reference": "so", "response": f"answer {k}"}
        for k in range(n)
    ]
    jsonl(folder / "items.jsonl", rows)
    return judged_run(folder, {"path": "items.jsonl"}, ending, **keywords)


def terminal(report: Report, width: int = 100) -> str:
    file = io.StringIO()
    to_terminal(report, Console(file=file, width=width, force_terminal=True, color_system=None), full=True)
    return file.getvalue()


def every_format(report: Report) -> list[str]:
    return [terminal(report), to_markdown(report), json.dumps(to_json(report), ensure_ascii=False)]


def plain(text: str) -> str:
    """Without line breaks and without what Markdown escapes."""
    return " ".join(text.replace("\\", "").split())


def poisoned() -> dict[str, Any]:
    return unscored("poisoned", "crash") | {"notes": ("died:its process ended unexpectedly",), "request_id": None}


def test_a_report_names_the_trials_that_failed_and_what_was_said(tmp_path: Path) -> None:
    def ending(row: Any) -> Any:
        match row["id"]:
            case "i3":
                return unscored("failed", "judge_code") | {
                    "error": f"judge_code: ValueError: no entry\n\tfor 'i3'; Authorization: Bearer {SECRET}\x1b[31m"
                }
            case "i4":
                return unscored("failed", "exhausted") | {"error": "server: 500: over\N{CJK UNIFIED IDEOGRAPH-4E00}"}
            case "i8":
                return poisoned()
            case "i9":
                return unscored("malformed", "no_verdict")
        return scored(True)

    report = run_of(tmp_path, ending).report()
    told = to_json(report)["failures"]
    assert told["total"] == 3
    assert [(each["state"], each["reason"], each["system"], each["item_id"]) for each in told["trials"]] == [
        ("poisoned", "crash", "a", "i8"), ("failed", "judge_code", "b", "i3"), ("failed", "exhausted", "a", "i4"),
    ]  # fmt: skip
    assert {(each["judge"], each["model"], each["repeat"]) for each in told["trials"]} == {("yes-no", "gpt", 0)}
    assert [each["error"] for each in told["trials"]] == [
        "its process ended unexpectedly",
        "ValueError: no entry for 'i3'; Authorization: [hidden]",
        "server: 500: over\N{CJK UNIFIED IDEOGRAPH-4E00}",
    ]
    for text in every_format(report):
        assert SECRET not in text
        assert "\x1b[31m" not in text
        for word in ("i3", "i4", "i8", "ValueError: no entry for 'i3'", "its process ended unexpectedly"):
            assert word in text, word
    for text in every_format(report)[:2]:
        assert "lists all" not in text
        assert f"jurybox retry {tmp_path}/run --state poisoned,failed" in plain(text)


def test_a_few_of_each_kind_stand_for_many(tmp_path: Path) -> None:
    def ending(row: Any) -> Any:
        n = int(row["id"][1:])
        if n in (250, 251):
            return poisoned()
        kind = "judge_code" if n == 290 else "exhausted"
        return unscored("failed", kind) | {"error": f"server: error {n} " + "of many words " * 40}

    run = run_of(tmp_path, ending, n=300)
    report = run.report()
    told = to_json(report)["failures"]
    assert (told["total"], len(told["trials"])) == (300, 100)
    assert [each["item_id"] for each in told["trials"] if each["reason"] != "exhausted"] == ["i250", "i251", "i290"]
    assert all(len(each["error"]) < 250 for each in told["trials"])
    for text in every_format(report)[:2]:
        assert "and 290 more" in text
        assert f"jurybox export {tmp_path}/run --state poisoned,failed --format jsonl" in plain(text)
        for name in ("i250", "i251", "i290", "i0", "i6"):
            assert name in text
        assert "error 7 " not in text
    file = tmp_path / "all.jsonl"
    select = Selection(states=("poisoned", "failed"))
    assert (
        export_results(run.config, run.judges, run.staged, run.ledger, format="jsonl", to=file, select=select).rows
        == 300
    )
    select = Selection(states=("poisoned",), system="a")
    assert (
        export_results(run.config, run.judges, run.staged, run.ledger, format="jsonl", to=file, select=select).rows == 1
    )
    assert json.loads(file.read_text())["item_id"] == "i250"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_words_go_on_in_the_next_line(tmp_path: Path, width: int) -> None:
    def ending(row: Any) -> Any:
        words = "bad_request: " + ("the request holds what it must not hold, said in many words; " * 9)
        return unscored("failed", "bad_request") | {"error": words} if row["id"] == "i7" else scored(True)

    text = terminal(run_of(tmp_path, ending).report(), width)
    lines = text.split("Trials that failed\n")[1].split("\n\n")[0].splitlines()
    rows = lines[: next(place for place, line in enumerate(lines) if line.startswith("`jurybox retry"))]
    assert max(cell_len(line.rstrip()) for line in rows) <= width
    begun = next(place for place, line in enumerate(lines) if "i7" in line)
    assert "the request holds" in lines[begun]
    assert "what it must not" in " ".join(" ".join(lines[begun:]).split())


@pytest.mark.parametrize("width", [60, 100])
def test_an_item_is_told_whole(tmp_path: Path, width: int) -> None:
    name = "0123456789abcdef" * 2
    row = {"id": name, "question": "Why?", "reference": "so", "response": "so it is"}
    jsonl(tmp_path / "items.jsonl", [row])
    failed = unscored("failed", "bad_request") | {"error": "many words that want much room " * 6}
    models = ["a-model-with-a-long-name", "another-model-with-a-long-name"]
    report = judged_run(tmp_path, {"path": "items.jsonl"}, lambda row: failed, models=models).report()
    text = terminal(report, width)
    head, _, *lines = text.split("Trials that failed\n")[1].split("\n`jurybox retry")[0].splitlines()
    found = "".join(line[head.index("item") : head.index("state")].strip() for line in lines)
    assert found.startswith(name * 2)
    assert "……" not in text
    assert f"| {name} |" in to_markdown(report)


def test_a_run_without_errors_says_nothing_of_them(tmp_path: Path) -> None:
    report = run_of(tmp_path, lambda row: scored(True)).report()
    assert to_json(report)["failures"] == {"total": 0, "trials": []}
    assert "Trials that failed" not in terminal(report)


def test_control_items_are_no_trials_of_the_report(tmp_path: Path) -> None:
    report = run_of(tmp_path, lambda row: poisoned() if "control" in row["id"] else scored(True), controls=0.5).report()
    assert report.susceptibility[0].controls
    assert report.failed == 0
    assert not report.failures
