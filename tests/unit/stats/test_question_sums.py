"""Intervals where one question has several answers: against plain arithmetic and against a bootstrap of questions.

How often they hold the truth is measured by `scripts/coverage.py`.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judged_run import Ending, Run, jsonl, judged_run, scored, unscored
from scipy import stats

from runner.publishing.result_frames import judgment_frames
from runner.report import notices, to_json, to_markdown
from runner.stats import question_sums
from runner.stats.counting import add, count
from runner.stats.estimators import rate, wilson
from runner.stats.metrics import results

SCORE = """
name: graded
reads: {kind: scores, verdict: score, low: 0, high: 5, step: 1}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
"""

OWN = """
name: own
reads: {kind: yesno, verdict: correct}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
slices: {by: group, macro: true, also: {odd: {group: [g1]}}}
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
    assert notice == "Questions with several answers: A 120; intervals are clustered by question."
    assert "intervals: clustered by question" in to_markdown(report)
    assert to_json(report)["questions_with_several_answers"] == {"A": 120}


def test_a_mean_is_clustered_as_by_hand(tmp_path: Path) -> None:
    run = run_of(tmp_path, answers(40, 3), lambda row: graded(int(row["question_id"][1:]) % 5), "./graded.yaml")
    found = score_of(run, "score")
    # All answers to a question are the same: as many independent scores as there are questions.
    squares = sum((n % 5 - 2) ** 2 for n in range(40))
    half = stats.t.ppf(0.975, 39) * math.sqrt(squares / 39 / 40)
    assert found["value"] == 2.0
    assert (found["low"], found["high"]) == (
        pytest.approx(2 - half, abs=1e-3), pytest.approx(2 + half, abs=1e-3)
    )  # fmt: skip


def test_repeats_are_clustered_too(tmp_path: Path) -> None:
    run = run_of(tmp_path, answers(50, 1), lambda row: scored(int(row["question_id"][1:]) % 2 == 0), repeats=4)
    accuracy = score_of(run)["share"]
    alone = rate(25, 50)
    assert (accuracy["n"], accuracy["low"]) == (200, pytest.approx(alone.low, abs=0.01))
    assert any("4 times; intervals are clustered" in notice for notice in notices(run.report()))


def test_one_answer_to_each_question_changes_nothing(tmp_path: Path) -> None:
    rows = [*answers(30, 1), *answers(30, 2, "B")]
    run = run_of(tmp_path, rows, lambda row: scored(int(row["question_id"][1:]) % 3 == 0))
    accuracy, other = score_of(run)["share"], score_of(run, system="B")["share"]
    assert (accuracy["low"], accuracy["high"]) == (rate(10, 30).low, rate(10, 30).high)
    assert other["high"] - other["low"] == pytest.approx(accuracy["high"] - accuracy["low"], abs=0.02)
    (tmp_path / "single").mkdir()
    report = run_of(tmp_path / "single", answers(30, 1), lambda row: scored(True)).report()
    assert "several answers" not in to_markdown(report) and "clustered" not in to_markdown(report)


@pytest.mark.parametrize("same", [True, False])
def test_where_all_are_the_same_questions_are_what_counts(tmp_path: Path, same: bool) -> None:
    accuracy = score_of(run_of(tmp_path, answers(20, 5), lambda row: scored(same)))["share"]
    low, high = wilson(float(same), 20 * (1.959964 / stats.t.ppf(0.975, 19)) ** 2)
    assert (accuracy["low"], accuracy["high"]) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def test_one_question_has_no_interval(tmp_path: Path) -> None:
    accuracy = score_of(run_of(tmp_path, answers(1, 9), lambda row: scored("A0-3" in row["id"])))["share"]
    assert (accuracy["value"], accuracy["low"], accuracy["high"]) == (1 / 9, None, None)


def test_groups_slices_and_the_mean_over_groups_are_clustered_too(tmp_path: Path) -> None:
    rows = [{**row, "type": f"g{int(row['asked'][1:]) % 2}"} for row in answers(80, 5)]
    jsonl(tmp_path / "items.jsonl", [{"question": "q", "reference": "r", "response": "a", **row} for row in rows])
    (tmp_path / "own.yaml").write_text(OWN)
    items = {"path": "items.jsonl", "fields": {"question_id": "asked", "system": "system", "group": "type"}}

    def ending(row: Any) -> Ending:
        return scored(int(row["question_id"][1:]) % 4 < 2)

    [result] = judged_run(tmp_path, items, ending, judges=["own.yaml"]).report().results
    for line in (*result.groups.values(), result.slices["odd"]):
        share = line.scores["correct"].share
        # All answers to a question are the same: as many independent scores as there are questions.
        low, high = wilson(0.5, 39 * (1.959964 / stats.t.ppf(0.975, 39)) ** 2)
        assert share is not None
        assert share.n == 200
        assert share.low == pytest.approx(low, abs=1e-6)
        assert share.high == pytest.approx(high, abs=1e-6)
    macro, half = result.macro["correct"], (high - low) / 2 / math.sqrt(2)
    assert macro.value == 0.5
    assert macro.low == pytest.approx(0.5 - half)
    assert macro.high == pytest.approx(0.5 + half)


def test_of_too_many_questions_a_sample_tells_the_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(4)
    correct = [rng.random() for _ in range(400)]
    run = run_of(tmp_path, answers(400, 4), lambda row: scored(rng.random() < correct[int(row["question_id"][1:])]))
    whole = run.report().results[0].overall.scores["correct"].share
    monkeypatch.setattr(question_sums, "MOST", 150)
    part = run.report().results[0].overall.scores["correct"].share
    assert whole and part and None not in (whole.low, whole.high, part.low, part.high)
    assert (part.hits, part.n) == (whole.hits, whole.n)
    alone, width = rate(whole.hits, whole.n), whole.high - whole.low  # type: ignore[operator]
    assert width > 1.3 * (alone.high - alone.low)  # type: ignore[operator]
    assert part.high - part.low == pytest.approx(width, rel=0.25)  # type: ignore[operator]


def test_small_frames_add_up_to_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path, answers(40, 3), lambda row: scored(row["row"] % 7 < 3), size=7)
    for most in (1000, 41):
        monkeypatch.setattr(question_sums, "MOST", most)
        scales = {"yes-no": run.judges["yes-no"].scales()}
        for size in (5, 13):
            frames = judgment_frames(run.staged, run.ledger, run.config, run.judges, size)
            found = results(add(count(frame, {}, scales) for frame in frames), scales, {})
            assert found == list(run.report().results)


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
