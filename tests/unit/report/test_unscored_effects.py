"""What the trials without a score could make of a result is said first, and ends a run with status 3."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from judged_run import Run, jsonl, judged_run, scored, unscored
from rich.console import Console

from runner.cli.run import conclude
from runner.report import Report, notices, to_json, to_markdown
from runner.report.terminal import to_terminal

CHOICE = """
name: which
reads: {kind: choice, verdict: choice, labels: {A: {}, B: {}}}
route: [{template: base}]
templates: {base: "{question} {response}"}
"""

MACRO = """
name: by-group
reads: {kind: yesno}
slices: {macro: true}
route: [{template: base}]
templates: {base: "{question} {reference} {response}"}
"""


def run_of(base: Path, ending: Any, n: int = 600, **keywords: Any) -> Run:
    same = {"reference": "r", "response": "a"}
    rows = [{"id": f"i{k}", "system": "AB"[k % 2], "question": f"q{k}", "human": k % 4 < 2, **same} for k in range(n)]
    jsonl(base / "items.jsonl", rows)
    items: dict[str, Any] = {"path": "items.jsonl", "fields": {"system": "system"}}
    if "judges" not in keywords:
        items["labels"] = {"correct": {"field": "human"}}
    return judged_run(base, items, ending, max_unscored=1.0, **keywords)


def number(row: Any) -> int:
    return int(row["id"][1:])


def screen(report: Report, width: int = 80) -> list[str]:
    file = io.StringIO()
    to_terminal(report, Console(file=file, width=width, force_terminal=True, color_system=None))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def lossy(share: float) -> Any:
    """Every fourth answer is right; of B's alone so many are without a score."""

    def ending(row: Any) -> Any:
        lost = number(row) % 2 and number(row) // 2 % 100 < 100 * share
        return unscored("malformed", "no_verdict") if lost else scored(number(row) % 4 < 2)

    return ending


def test_what_could_move_a_result_beyond_its_interval_is_said_first(tmp_path: Path) -> None:
    report = run_of(tmp_path, lossy(0.4)).report()
    [effect] = report.unscored_effects
    assert (effect.system, effect.of, effect.value) == ("B", "correct", 0.5)
    assert (effect.worst, effect.best, effect.unscored, effect.judged) == (0.3, 0.7, 120, 300)
    assert not report.over_limit
    said = notices(report)[0]
    assert said.startswith("UNSCORED: B × correct 0.3000 to 0.7000: so far could trials without a score move results")
    lines = screen(report)
    assert all(len(line) <= 80 for line in lines if str(tmp_path) not in line)
    [row] = [line for line in lines if line.startswith("B ")]
    assert row.split()[-2:] == ["30–70", "%"]
    [other] = [line for line in lines if line.startswith("A ")]
    assert other.split()[-1] == "–"
    assert any(line.startswith("UNSCORED: ") for line in lines)
    assert "30–70 %" in to_markdown(report).split("## What needs attention")[0]
    assert to_json(report)["unscored_effects"][0]["best"] == 0.7
    with pytest.raises(typer.Exit) as ended:
        conclude(None, report)
    assert ended.value.exit_code == 3


def test_what_chance_could_do_as_well_is_not_said(tmp_path: Path) -> None:
    report = run_of(tmp_path, lossy(0.15)).report()
    assert not report.unscored_effects
    assert not any(line.startswith("UNSCORED") for line in screen(report))
    conclude(None, report)


def test_nothing_scored_at_all_and_the_same_score_throughout(tmp_path: Path) -> None:
    [nothing, _] = run_of(tmp_path, lambda row: unscored("refused", "model"), n=8).report().unscored_effects
    assert (nothing.value, nothing.worst, nothing.best) == (None, 0.0, 1.0)
    (tmp_path / "same").mkdir()

    def ending(row: Any) -> Any:
        five = json.dumps({"score": 5})
        lost = number(row) < 24
        return unscored("malformed", "empty") if lost else scored(True, verdict=five, scores=five, official=None)

    report = run_of(tmp_path / "same", ending, n=40, judges=["score-0-5"]).report()
    assert [(effect.value, effect.worst, effect.best) for effect in report.unscored_effects] == [(5.0, 2.0, 5.0)] * 2


def graded(lost: range, n: int, base: Path, questions: int | None = None, fives: Any = lambda row: True) -> Report:
    """`n` answers on a scale from 0 to 5, of which these have no score; scores are 5 or 0."""

    def ending(row: Any) -> Any:
        score = json.dumps({"score": 5 if fives(row) else 0})
        lost_one = number(row) in lost
        return unscored("malformed", "empty") if lost_one else scored(True, verdict=score, scores=score, official=None)

    same = {"reference": "r", "question": "q"}
    rows = [{"id": f"i{k}", "response": f"a{k}", "question_id": f"q{k % (questions or n)}", **same} for k in range(n)]
    jsonl(base / "items.jsonl", rows)
    return judged_run(base, {"path": "items.jsonl"}, ending, max_unscored=1.0, judges=["score-0-5"]).report()


def test_where_there_is_no_interval_what_so_many_scores_show_stands_for_it(tmp_path: Path) -> None:
    few, one, many, question = (tmp_path / name for name in ("few", "one", "many", "question"))
    for folder in (few, one, many, question):
        folder.mkdir()
    # Nine fives of a hundred trials say little of the others.
    assert [effect.worst for effect in graded(range(9, 100), 100, few).unscored_effects] == [pytest.approx(0.45)]
    assert graded(range(9, 100), 100, one, questions=1).unscored_effects
    # Of two thousand one can hardly move a mean.
    assert not graded(range(1), 2000, many).unscored_effects
    assert not graded(range(1), 100, question, questions=1).unscored_effects


def test_a_mean_over_groups_that_a_small_group_could_move(tmp_path: Path) -> None:
    rows = [
        {"id": f"i{k}", "question": f"q{k}", "reference": "r", "response": "a", "kind": "small" if k < 40 else "large"}
        for k in range(1000)
    ]
    jsonl(tmp_path / "items.jsonl", rows)

    def ending(row: Any) -> Any:
        yes = number(row) % 2 == 0 if number(row) >= 40 else number(row) == 30
        return unscored("malformed", "empty") if number(row) < 30 else scored(yes)

    (tmp_path / "by-group.yaml").write_text(MACRO)
    items = {"path": "items.jsonl", "fields": {"group": "kind"}}
    run = judged_run(tmp_path, items, ending, max_unscored=1.0, judges=["./by-group.yaml"])
    [effect] = run.report().unscored_effects
    assert (effect.of, effect.unscored) == ("task-averaged correct", 30)
    [result] = run.report().results
    macro = result.macro["correct"]
    assert macro.low is not None and macro.high is not None
    assert (effect.worst, effect.best) == (macro.worst, macro.best)
    assert macro.high - macro.low < 0.75 * 30 / 40


def test_a_system_without_any_score_disagrees_everywhere(tmp_path: Path) -> None:
    report = run_of(tmp_path, lambda row: unscored("malformed", "empty") if number(row) % 2 else scored(True)).report()
    whole, a, b = report.agreement
    assert [(entry.system, entry.n, entry.unscored) for entry in (whole, a, b)] == [
        (None, 300, 300), ("A", 300, 0), ("B", 0, 300),
    ]  # fmt: skip
    assert b.metrics["accuracy"].value is None
    assert b.metrics["strict_accuracy"].value == 0.0
    assert b.metrics["kappa"].reason == "no labelled trial has a score"
    assert whole.metrics["strict_accuracy"].value == 0.25
    assert "undefined where no labelled trial has a score" in " ".join(to_markdown(report).split())


def test_without_any_score_a_strict_share_has_the_width_of_its_questions(tmp_path: Path) -> None:
    rows = [
        {"id": f"i{k}", "question": "q", "question_id": f"q{k % 10}", "reference": "r", "response": f"a{k}"}
        for k in range(100)
    ]
    jsonl(tmp_path / "items.jsonl", rows)
    run = judged_run(tmp_path, {"path": "items.jsonl"}, lambda row: unscored("malformed", "empty"), max_unscored=1.0)
    [result] = run.report().results
    strict = result.overall.scores["correct"].strict
    assert strict is not None and strict.high is not None
    assert (strict.hits, strict.n, strict.low) == (0, 100, 0.0)
    assert strict.high > 0.27


def test_choices_without_a_value_too(tmp_path: Path) -> None:
    (tmp_path / "which.yaml").write_text(CHOICE)

    def ending(row: Any) -> Any:
        if number(row) % 10 < 4:
            return unscored("malformed", "conflict")
        verdict = json.dumps({"choice": "A" if number(row) % 10 < 7 else "B"})
        return scored(True, verdict=verdict, scores="{}", official=None)

    effects = run_of(tmp_path, ending, judges=["./which.yaml"]).report().unscored_effects
    assert {(effect.system, effect.of) for effect in effects} == {(system, label) for system in "AB" for label in "AB"}
    assert all(effect.best - effect.worst == pytest.approx(0.4) for effect in effects)


def test_agreement_counts_them_as_disagreement_too(tmp_path: Path) -> None:
    report = run_of(tmp_path, lossy(0.4)).report()
    whole = report.agreement[0]
    assert (whole.system, whole.n, whole.unscored) == (None, 480, 120)
    accuracy, strict = whole.metrics["accuracy"], whole.metrics["strict_accuracy"]
    assert (accuracy.value, strict.value) == (1.0, 0.8)
    assert strict.low is not None and strict.high is not None
    assert 0.75 < strict.low < 0.8 < strict.high < 0.85
    by_system = {entry.system: entry for entry in report.agreement}
    assert "strict_accuracy" not in by_system["A"].metrics
    text = " ".join(to_markdown(report).split())
    assert "strict: accuracy where trials judged without a score count as disagreement" in text


def test_each_way_of_reading_is_held_against_the_strict_one(tmp_path: Path) -> None:
    stages = "strict", "strict", "tolerant:label", "tolerant:lead"

    def ending(row: Any) -> Any:
        stage = stages[number(row) // 2 % 4]
        return scored(stage == "tolerant:lead" or number(row) % 3 == 0, stage=stage)

    report = run_of(tmp_path, ending).report()
    [paths] = report.reading.ways
    ways = {way.way: way for way in paths.ways}
    assert {name: way.trials.hits for name, way in ways.items()} == {
        "strict": 300, "tolerant:label": 150, "tolerant:lead": 150,
    }  # fmt: skip
    [label], [lead] = ways["tolerant:label"].against_strict, ways["tolerant:lead"].against_strict
    assert (label.n, label.other_n) == (150, 300)
    assert label.p > 0.5
    assert lead.p < 1e-9
    [said] = [text for text in notices(report) if "beyond chance" in text]
    assert "tolerant:lead, correct 0.3333 and 1.0000 (p < 0.0001)" in said
    assert "tolerant:label" not in said
    table = next(line for line in to_markdown(report).splitlines() if "tolerant:lead" in line and line.startswith("|"))
    assert "| p \\< 0.0001 |" in table
