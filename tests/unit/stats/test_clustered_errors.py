"""Intervals where one question has several answers: against plain arithmetic and against a bootstrap of questions."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judged_run import Ending, Run, jsonl, judged_run, scored, unscored

from judges import Scale
from runner.publishing.result_frames import judgment_frames
from runner.report import notices, to_json, to_markdown
from runner.stats import clustered_errors as module
from runner.stats.clustered_errors import ClusterSums
from runner.stats.estimators import rate

SCORE = """
name: graded
reads: {kind: scores, verdict: score, low: 0, high: 5, step: 1}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
"""


def run_of(base: Path, rows: list[dict[str, Any]], ending: Any, judge: str = "yes-no", **config: Any) -> Run:
    jsonl(base / "items.jsonl", [{"question": "q", "reference": "r", "response": "a", **row} for row in rows])
    (base / "graded.yaml").write_text(SCORE)
    items = {"path": "items.jsonl", "fields": {"question_id": "asked", "system": "system"}}
    return judged_run(base, items, ending, judges=[judge], **config)


def answers(questions: int, each: int, system: str = "A") -> list[dict[str, Any]]:
    """Spread so that no two answers to a question stand together."""
    return [
        {"id": f"{system}{n}-{k}", "asked": f"q{n}", "system": system} for k in range(each) for n in range(questions)
    ]


def graded(value: int) -> dict[str, Any]:
    return scored(True, verdict=json.dumps({"score": value}), scores=json.dumps({"score": value}), official=None)


def score_of(run: Run, name: str = "correct", system: str = "A") -> dict[str, Any]:
    [entry] = [result for result in to_json(run.report())["results"] if result["system"] == system]
    found: dict[str, Any] = entry["scores"][name]
    return found


def bootstrapped(totals: Any, sizes: Any) -> tuple[float, float]:
    """The interval of a ratio over resampled questions."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, len(totals), (4000, len(totals)))
    low, high = np.percentile(totals[drawn].sum(1) / sizes[drawn].sum(1), [2.5, 97.5])
    return float(low), float(high)


def test_answers_to_one_question_are_no_independent_evidence(tmp_path: Path) -> None:
    rng = random.Random(3)
    easy = [rng.random() for _ in range(120)]
    correct = {row["id"]: rng.random() < easy[int(row["asked"][1:])] for row in answers(120, 5)}
    lost = {id_ for id_ in correct if rng.random() < 0.1}

    def ending(row: Any) -> Ending:
        return unscored("malformed", "empty") if row["id"] in lost else scored(correct[row["id"]])

    run = run_of(tmp_path, answers(120, 5), ending)
    report = run.report()
    found = score_of(run)
    totals, sizes = np.zeros(120), np.zeros(120)
    for row in answers(120, 5):
        if row["id"] not in lost:
            totals[int(row["asked"][1:])] += correct[row["id"]]
            sizes[int(row["asked"][1:])] += 1
    accuracy = found["share"]
    low, high = bootstrapped(totals, sizes)
    assert (accuracy["low"], accuracy["high"]) == (pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01))
    alone = rate(accuracy["hits"], accuracy["n"])
    assert accuracy["value"] == alone.value
    assert alone.low is not None and accuracy["low"] < alone.low - 0.01
    low, high = bootstrapped(totals, np.full(120, 5.0))
    assert (found["strict"]["low"], found["strict"]["high"]) == (
        pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01)
    )  # fmt: skip
    [notice] = [notice for notice in notices(report) if "several answers" in notice]
    assert notice.startswith("Questions with several answers: A 120; the intervals of overall accuracy")
    assert "intervals: clustered by question" in to_markdown(report)
    assert to_json(report)["intervals"] == {"clustered": True, "questions_with_several_answers": {"A": 120}}


def test_a_mean_is_clustered_as_by_hand(tmp_path: Path) -> None:
    run = run_of(tmp_path, answers(40, 3), lambda row: graded(int(row["question_id"][1:]) % 5), "./graded.yaml")
    found = score_of(run, "score")
    # All answers to a question are the same: as many independent scores as there are questions.
    squares = sum((n % 5 - 2) ** 2 for n in range(40))
    half = 1.96 * math.sqrt(squares / 39 / 40)
    assert found["value"] == 2.0
    assert (found["low"], found["high"]) == (
        pytest.approx(2 - half, abs=1e-3), pytest.approx(2 + half, abs=1e-3)
    )  # fmt: skip


def test_repeats_are_clustered_too(tmp_path: Path) -> None:
    run = run_of(tmp_path, answers(50, 1), lambda row: scored(int(row["question_id"][1:]) % 2 == 0), repeats=4)
    accuracy = score_of(run)["share"]
    alone = rate(25, 50)
    assert (accuracy["n"], accuracy["low"]) == (200, pytest.approx(alone.low, abs=0.005))
    assert any("4 times; the intervals of overall" in notice for notice in notices(run.report()))


def test_one_answer_to_each_question_changes_nothing(tmp_path: Path) -> None:
    rows = [*answers(30, 1), *answers(30, 2, "B")]
    run = run_of(tmp_path, rows, lambda row: scored(int(row["question_id"][1:]) % 3 == 0))
    accuracy, other = score_of(run)["share"], score_of(run, system="B")["share"]
    assert (accuracy["low"], accuracy["high"]) == (rate(10, 30).low, rate(10, 30).high)
    assert other["high"] - other["low"] == pytest.approx(accuracy["high"] - accuracy["low"], abs=0.01)
    (tmp_path / "single").mkdir()
    report = run_of(tmp_path / "single", answers(30, 1), lambda row: scored(True)).report()
    assert not report.clustered
    assert "several answers" not in to_markdown(report) and "independent" not in to_markdown(report)


@pytest.mark.parametrize("same", [True, False])
def test_where_all_are_the_same_questions_are_what_counts(tmp_path: Path, same: bool) -> None:
    accuracy = score_of(run_of(tmp_path, answers(20, 5), lambda row: scored(same)))["share"]
    alone = rate(20 if same else 0, 20)
    assert (accuracy["low"], accuracy["high"]) == (alone.low, alone.high)


def test_one_question_has_no_interval(tmp_path: Path) -> None:
    accuracy = score_of(run_of(tmp_path, answers(1, 9), lambda row: scored("A0-3" in row["id"])))["share"]
    assert (accuracy["value"], accuracy["low"], accuracy["high"]) == (1 / 9, None, None)


def test_too_many_questions_are_said_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path, answers(60, 2), lambda row: scored(int(row["question_id"][1:]) % 2 == 0))
    monkeypatch.setattr(module.ClusterSums.__init__, "__defaults__", (50,))
    report = run.report()
    assert not report.clustered
    result = report.results[0].overall.scores["correct"]
    assert result.share == rate(60, 120)
    assert any("several answers: A 60; intervals take the answers as independent" in text for text in notices(report))
    assert "intervals: answers to one question taken as independent" in to_markdown(report)


def test_small_frames_add_up_to_the_whole(tmp_path: Path) -> None:
    run = run_of(tmp_path, answers(40, 3), lambda row: scored(row["row"] % 7 < 3), size=7)
    report = run.report()
    for size, most in ((5, 1000), (13, 41)):
        questions = ClusterSums(["A"], {"yes-no": {"correct": Scale(True, None, None)}}, most)
        for _ in questions.watch(judgment_frames(run.staged, run.ledger, run.config, run.judges, size)):
            pass
        assert questions.apply(report.results) == list(report.results)


def test_five_answers_to_each_of_301_questions(data: Path, tmp_path: Path) -> None:
    path = data / "human_labels" / "nq301.jsonl"
    items = {
        "path": str(path),
        "fields": {"question_id": "id", "reference": "gold_answers", "response": "model_answer"},
        "labels": {"correct": {"field": "human"}},
    }
    run = judged_run(tmp_path, items, lambda row: scored(json.loads(row["labels"]).get("correct", False)))
    assert run.staged.several == {"default": 301}
    accuracy = score_of(run, system="default")["share"]
    sums: dict[str, list[bool]] = {}
    for row in run.rows():
        sums.setdefault(row["question_id"], []).append(row["scores"][0]["value"] == 1)
    low, high = bootstrapped(np.array([sum(held) for held in sums.values()]), np.array([*map(len, sums.values())]))
    assert (accuracy["low"], accuracy["high"]) == (pytest.approx(low, abs=0.005), pytest.approx(high, abs=0.005))
    assert high - low > 1.3 * (rate(accuracy["hits"], accuracy["n"]).high - rate(accuracy["hits"], accuracy["n"]).low)  # type: ignore[operator]
