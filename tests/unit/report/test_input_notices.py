"""Traps that would end with a number and status 0: each is a sentence of the report, and of the plan before it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judged_run import Run, jsonl, judged_run, scored

from runner.config import parse_config
from runner.report import Report, notices, to_json, to_markdown
from runner.report.terminal import to_text
from runner.session.dry_run import preview

ROWS = [{"id": f"i{n}", "question": f"q{n}", "reference": "r", "response": f"a{n}", "system": "a"} for n in range(40)]
YES = scored(True)


def run_of(path: Path, rows: list[dict[str, Any]], ending: Callable[..., Any] = lambda row: YES, **more: Any) -> Run:
    jsonl(path / "items.jsonl", rows)
    items = {"path": "items.jsonl", **more.pop("items", {})}
    return judged_run(path, items, ending, **more)


def notice_of(report: Report, part: str) -> str:
    [notice] = [notice for notice in notices(report) if part in notice]
    return notice


def test_copies_count_and_are_said(tmp_path: Path) -> None:
    rows = [{**row, "response": "a" if n % 5 else "b", "question": f"q{n // 5}"} for n, row in enumerate(ROWS)]
    for row in rows:
        del row["id"]
    report = run_of(tmp_path, rows, lambda row: scored(json.loads(row["fields"])["response"] == "a")).report()
    assert report.results[0].overall.scores["correct"].value == 0.8
    text = "24 rows repeat another word for word; each counts. If they are copies, map items.fields.id."
    assert text in notices(report)
    assert to_json(report)["items"]["copies"] == 24


def test_a_limit_is_no_complete_run(tmp_path: Path) -> None:
    rows = [{**row, "id": f"{system}{row['id']}", "system": system} for system in "abc" for row in ROWS]
    run = run_of(tmp_path, rows, limit=20)
    report = run.report()
    status = "INCOMPLETE: first 20 of 120 rows"
    assert (report.status, report.finished, report.complete) == (status, True, False)
    assert to_text(report).startswith(f"small · {status} · 20 of 20 trials")
    assert to_markdown(report).startswith(f"# small: {status}")
    document = to_json(report)
    assert (document["status"], document["complete"], document["items"]["limit"]) == (status, False, 20)
    assert document["items"]["systems_beyond_limit"] == ["b", "c"]
    assert "INCOMPLETE: no row of b, c is among the first 20 of 120." in notices(report)
    planned = preview(run.config, tmp_path, tmp_path / "new", 20)
    assert "note: INCOMPLETE: no row of b, c" in planned.text()


@pytest.mark.parametrize(
    ("change", "more", "notice"),
    [
        ({"reference": ""}, {}, "reference is blank in 20 of 40 rows that send it, first at items.jsonl:2."),
        (
            {"response": "nan"},
            {},
            "a: 20 responses read nan, None, null or NA, as programs write what is missing.",
        ),
        (
            {"reference": "N/A"},
            {},
            "reference reads nan, None, null or NA in 20 of 40 rows that send it, first at items.jsonl:2.",
        ),
        ({"system": "a "}, {}, "Blanks around names of systems make no other system: 'a ' (20 rows)."),
        ({"system": "A"}, {}, "Systems that differ in case alone are apart: A, a."),
        ({"system": "\uff41"}, {}, "Systems whose names look alike are apart: 'a', '\\uff41'."),
        (
            {"system": "openai/GPT-2024-08-06"},
            {},
            "gpt-2024 judges its own answers (system openai/GPT-2024-08-06): judges tend to prefer themselves.",
        ),
        ({}, {"repeats": 3}, "yes-no × gpt: 3 repeats at temperature 0 mostly pay for the same reply again."),
        (
            {"other_response": "b"},
            {"judges": ["choice-ab"]},
            "choice-ab: most of the 40 pairs stand in one order only, and judges favour a position: "
            "add rows with the two responses exchanged, and judge both.",
        ),
    ],
)
def test_odd_inputs_are_said_before_and_after(
    tmp_path: Path, change: Mapping[str, Any], more: dict[str, Any], notice: str
) -> None:
    rows = [{"other_response": "b", **row, **(change if n % 2 else {})} for n, row in enumerate(ROWS)]
    run = run_of(tmp_path, rows, lambda row: None, **more)
    assert notice in notices(run.report())
    assert f"note: {notice}" in preview(run.config, tmp_path, tmp_path / "new", None).text()


def test_repeats_that_vary_are_no_trap(tmp_path: Path) -> None:
    jsonl(tmp_path / "items.jsonl", ROWS[:2])

    def notes(**more: Any) -> list[str]:
        base = {"name": "t", "items": {"path": "items.jsonl"}, "models": ["m"], "judges": ["yes-no"]}
        return preview(parse_config(base | more), tmp_path, tmp_path / "new", None).notes

    warm = [{"use": "yes-no", "sampling": {"temperature": 1.0}}]
    assert notes() == notes(repeats=2, judges=warm) == []
    assert len(notes(repeats=2)) == 1
    model = {"name": "m", "model": "m", "extra": {"body": {"temperature": 0}}}
    assert len(notes(repeats=2, judges=warm, models=[model])) == 1
    model["extra"] = {"body": {"temperature": 0.7}}
    assert notes(repeats=2, models=[model]) == []


def test_the_response_column_may_be_the_reference(tmp_path: Path) -> None:
    report = run_of(tmp_path, [{**row, "response": "r"} for row in ROWS]).report()
    assert "In 40 of 40 rows the response is the reference: are the right columns mapped?" in notices(report)
    (tmp_path / "few").mkdir()
    few = run_of(tmp_path / "few", [{**row, "response": "r"} for row in ROWS[:10]]).report()
    assert not any("is the reference" in notice for notice in notices(few))


def test_a_column_of_lists_may_be_read_from_a_table(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text('id,question,reference,response\n1,q,r,"[""a""]"\n2,q,r,b\n3,q,r,"[\'c\']"\n')
    report = judged_run(tmp_path, {"path": "items.csv"}, lambda row: YES).report()
    text = "In 2 of 3 rows the response is a list or object written as text: is it the answer itself?"
    assert text in notices(report)


def test_a_column_like_the_system_is_named(tmp_path: Path) -> None:
    rows = [
        {"id": f"{model}{n}", "question": f"q{n}", "reference": "r", "response": "x", "model": model}
        for n in range(4)
        for model in ("gpt-4", "llama")
    ]
    report = run_of(tmp_path, rows).report()
    text = "Column model looks like the system: map system=model for results of each (gpt-4 4, llama 4 rows)."
    assert text in notices(report)


def test_empty_answers_have_both_denominators(tmp_path: Path) -> None:
    rows = [{**row, "response": "" if n < 10 else "x"} for n, row in enumerate(ROWS)]
    report = run_of(tmp_path, rows, lambda row: scored(json.loads(row["fields"])["response"] == "x")).report()
    text = (
        "a gave 10 empty answers (choose items.empty_response): correct 0.7500 over all 40, "
        "1.0000 over 30 answered; they are judged like any other."
    )
    assert notice_of(report, "empty answers") == text
    [entry] = to_json(report)["items"]["answered"]
    assert (entry["n"], entry["answered"], entry["value"], entry["value_answered"]) == (40, 30, 0.75, 1.0)
    (tmp_path / "asked").mkdir()
    asked = run_of(tmp_path / "asked", rows, items={"empty_response": "judge"}).report()
    assert notice_of(asked, "empty answers").endswith("they are judged like any other.")


@pytest.mark.parametrize(("by", "column"), [("model", "said"), (None, "gpt4_label")])
def test_a_models_label_is_called_human_nowhere(tmp_path: Path, by: str | None, column: str) -> None:
    rows = [{**row, column: n % 3 > 0} for n, row in enumerate(ROWS)]
    items = {"labels": {"correct": {"field": column, "by": by}}}
    report = run_of(tmp_path, rows, lambda row: scored(row["row"] % 2 == 0), items=items).report()
    sure = "is" if by else "looks like"
    notice = f"Label correct (column {column}) {sure} a model's: agreement with it is not with people."
    assert notice in notices(report)
    assert to_json(report)["model_labels"] == ["correct"]
    for text in (to_text(report), to_text(report, full=True), to_markdown(report), json.dumps(to_json(report))):
        assert "agrees with its labels" in text
        assert "human" not in text.lower()
        assert "people" not in text.replace(notice, "").replace("with people.", "")


def test_labels_that_are_missing_in_part_are_counted(tmp_path: Path) -> None:
    rows = [{**row, "human": None if n % 4 == 0 else n % 3 > 0} for n, row in enumerate(ROWS)]
    items = {"labels": {"correct": {"field": "human"}}}
    report = run_of(tmp_path, rows, lambda row: scored(row["row"] % 2 == 0), items=items).report()
    for text in (to_text(report), to_text(report, full=True), to_markdown(report)):
        assert "30 labelled of 40" in text
    [entry] = to_json(report)["agreement"]
    assert (entry["n"], entry["scored"]) == (30, 40)
    assert "Labels stand in some of the 40 rows only (correct 30): agreement is over those." in notices(report)


def verdict(relevant: list[str], relevance: float, unknown: int) -> dict[str, Any]:
    given = {"all_relevant_sentence_keys": relevant, "all_utilized_sentence_keys": []}
    notes = (f"unknown_keys:{unknown}",) if unknown else ()
    scores = json.dumps({"relevance": relevance})
    return {"verdict": json.dumps(given), "scores": scores, "notes": notes, "official": None}


@pytest.mark.parametrize(
    ("relevance", "unknown", "trouble"), [(0.5, 0, False), (0.5, 2, False), (0.5, 3, True), (2.5, 0, True)]
)
def test_keys_that_no_item_has_are_trouble(tmp_path: Path, relevance: float, unknown: int, trouble: bool) -> None:
    rows = [{**row, "documents": [[["0a", "One."]]]} for row in ROWS[:5]]

    def ending(row: Mapping[str, Any]) -> Any:
        return verdict(["0a"] * 10, relevance, unknown if row["row"] == 0 else 0)

    report = run_of(tmp_path, rows, ending, judges=["ragbench"]).report()
    assert (bool(report.key_trouble), report.needs_attention) == (trouble, trouble)
    if trouble:
        above = f", shares above 1 (a: relevance {relevance:.2f})" if relevance > 1 else ""
        assert notices(report)[0] == (
            f"ragbench × gpt: {unknown} of 50 sentence keys it named are unknown{above}; "
            "map items.fields.documents to the keyed sentences."
        )


def test_the_most_serious_stands_first(tmp_path: Path) -> None:
    run = run_of(tmp_path, [{**row, "response": "r"} for row in ROWS], fingerprint="jurybox-simulate-1")
    report = replace(run.report(), duplicates=3)
    texts = [notice.split()[0] for notice in notices(report)]
    assert texts[:2] == ["SIMULATED:", "In"]
