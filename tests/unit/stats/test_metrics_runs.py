"""Numbers of whole runs: against published ones, and against what plain Python counts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from judged_run import judged_run, scored

from judges import Scale
from runner.publishing.result_columns import LABELS, SCORES
from runner.publishing.result_frames import COLUMNS
from runner.report import notices
from runner.stats.counting import Counts, add, count, over_limit
from runner.stats.metrics import Line, latencies, results

DATA = Path(__file__).parents[4] / "shared/data"
SCALES = {"j": {"correct": Scale(binary=True)}}


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Trials of judge j, with the columns that are counted."""
    full = [dict.fromkeys(COLUMNS) | {"judge": "j", "model": "m", "repeat": 0, "slices": []} | row for row in rows]
    return pl.DataFrame(full, schema=COLUMNS)


def entry(value: float | str, name: str = "correct") -> list[dict[str, Any]]:
    return [{"key": name, "value": value}]


def random_rows(n: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(n):
        state = rng.choice(["scored", "scored", "scored", "malformed", "refused", "failed", "poisoned", None])
        correct = rng.random() < 0.6
        rows.append(
            {
                "system": rng.choice("AB"),
                "item_group": rng.choice(["g1", "g2", None]),
                "model": rng.choice(["m1", "m2"]),
                "state": state,
                "reason": None if state in ("scored", None) else rng.choice(["empty", "conflict"]),
                "stage": "strict" if state == "scored" else None,
                "scores": entry(float(correct)) if state == "scored" else None,
                "labels": entry(rng.choice(["true", "false"])) if rng.random() < 0.8 else [],
                "official_reading": rng.choice([True, False, None]) if state else None,
                "attempts": rng.randint(1, 4) if state else None,
                "latency_s": rng.lognormvariate(0, 1) if state else None,
                "slices": ["abstention"] if rng.random() < 0.2 else [],
            }
        )
    return rows


def counted(*frames: pl.DataFrame) -> Counts:
    total = add(count(frame) for frame in frames)
    assert total is not None
    return total


def accuracy_of(line: Line) -> float:
    """The share of correct ones among a line's scored trials, of which there are some."""
    value = line.scores["correct"].value
    assert value is not None
    return value


def test_results_equal_what_plain_python_counts() -> None:
    rows = random_rows(3000)
    found = {(r.model, r.system): r for r in results(counted(frame(rows)), SCALES, {"j": True})}
    assert set(found) == {(model, system) for model in ("m1", "m2") for system in "AB"}
    for (model, system), result in found.items():
        of = [row for row in rows if (row["model"], row["system"]) == (model, system)]
        sets = [(result.overall, of)]
        sets += [(line, [row for row in of if row["item_group"] == group]) for group, line in result.groups.items()]
        sets += [(line, [row for row in of if name in row["slices"]]) for name, line in result.slices.items()]
        for line, expected in sets:
            states = [row["state"] for row in expected]
            assert line.planned == len(expected)
            assert line.not_done == states.count(None)
            for state in ("scored", "malformed", "refused", "failed", "poisoned"):
                assert getattr(line, state) == states.count(state)
            hits = sum(row["scores"][0]["value"] == 1.0 for row in expected if row["scores"])
            score = line.scores["correct"]
            assert score.share is not None
            assert score.strict is not None
            assert (score.share.hits, score.share.n) == (hits, line.scored)
            assert (score.strict.hits, score.strict.n) == (hits, line.planned - line.not_done)
            replied = [row["official_reading"] for row in expected if row["official_reading"] is not None]
            assert line.official is not None
            assert (line.official.hits, line.official.n) == (sum(replied), len(replied))
        shares = [accuracy_of(line) for line in result.groups.values()]
        assert result.macro["correct"].value == pytest.approx(sum(shares) / 3)
        malformed = [row["reason"] for row in of if row["state"] == "malformed"]
        assert result.reasons["malformed"] == {name: malformed.count(name) for name in ("empty", "conflict")}
        done = [row["attempts"] for row in of if row["state"]]
        assert result.attempts_per_trial == pytest.approx(sum(done) / len(done))


def test_counted_apart_and_added_is_counted_together() -> None:
    rows = random_rows(1000, seed=2)
    together = counted(frame(rows))
    apart = counted(*(frame(rows[start : start + 130]) for start in range(0, 1000, 130)))
    assert results(apart, SCALES, {"j": True}) == results(together, SCALES, {"j": True})
    assert latencies(apart) == latencies(together)


def test_latency_percentiles_are_within_one_percent() -> None:
    rows = random_rows(5000, seed=4)
    exact = sorted(row["latency_s"] for row in rows if row["latency_s"] is not None and row["model"] == "m1")
    found = latencies(counted(frame(rows)))["j", "m1"]
    for share, value in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99)):
        assert value == pytest.approx(exact[-(-int(share * 100) * len(exact) // 100) - 1], rel=0.01)


def test_graded_scores_have_a_mean_with_bounds() -> None:
    rows: list[dict[str, Any]] = [
        {"system": "A", "state": "scored", "scores": entry(float(n), "score")} for n in (2, 3, 4)
    ]
    rows.append({"system": "A", "state": "malformed", "scores": None})
    [result] = results(counted(frame(rows)), {"j": {"score": Scale(False, 0, 5)}}, {})
    found = result.overall.scores["score"]
    assert (found.n, found.unscored, found.value, found.worst, found.best, found.sd) == (3, 1, 3.0, 9 / 4, 14 / 4, 1.0)


def test_nothing_scored_gives_no_number() -> None:
    rows: list[dict[str, Any]] = [
        {"system": "A", "state": "malformed", "reason": "empty", "scores": None},
        {"system": "A"},
    ]
    [result] = results(counted(frame(rows)), SCALES, {"j": True})
    score = result.overall.scores["correct"]
    assert score.value is None
    assert score.strict is not None
    assert (score.strict.value, score.strict.n) == (0.0, 1)
    assert result.macro["correct"].value is None
    assert result.overall.official is None


def test_over_limit_is_a_share_of_the_planned_trials() -> None:
    rows: list[dict[str, Any]] = [
        {"system": "A", "item_group": group, "state": "scored", "scores": entry(1.0)}
        for group in "ab"
        for _ in range(49)
    ]
    rows += [{"system": "A", "item_group": "a", "state": "refused", "scores": None, "slices": ["abstention"]}] * 2
    counts = counted(frame(rows))
    assert over_limit(counts, 0.02) == []
    assert over_limit(counts, 0.01) == [("j", "m", 2, 100)]


def test_column_types_are_those_of_the_frames() -> None:
    assert COLUMNS["scores"] == SCORES
    assert COLUMNS["labels"] == LABELS


LONGMEMEVAL = {
    "single-session-user": (0.9429, 70),
    "single-session-assistant": (0.9643, 56),
    "single-session-preference": (0.4000, 30),
    "multi-session": (0.6692, 133),
    "temporal-reasoning": (0.5940, 133),
    "knowledge-update": (0.7949, 78),
}


def test_longmemeval_numbers_by_the_official_definitions(tmp_path: Path) -> None:
    hypotheses = DATA / "longmemeval/memory_agents.eval-results-gpt-4o.jsonl"
    if not hypotheses.exists():
        pytest.skip(f"{hypotheses} is not there")
    rows = [json.loads(line) for line in hypotheses.read_text(encoding="utf-8").splitlines()]
    labels = {row["question_id"]: row["autoeval_label"]["label"] for row in rows}
    items = {
        "path": str(hypotheses),
        "join": {"path": str(DATA / "longmemeval/questions.jsonl"), "on": "question_id", "expect": "all"},
        "fields": {"id": "question_id", "response": "hypothesis", "reference": "answer", "group": "question_type"},
    }
    run = judged_run(
        tmp_path,
        items,
        lambda row: scored(labels[row["question_id"]]),
        judges=["longmemeval-paper", "longmemeval-hindsight"],
    )
    paper, hindsight = run.report().results
    overall = paper.overall.scores["correct"]
    assert overall.value == pytest.approx(0.7240, abs=5e-5)
    assert paper.macro["correct"].value == pytest.approx(0.7275, abs=5e-5)
    assert paper.macro_official == pytest.approx(0.7275, abs=5e-5)
    abstention = paper.slices["abstention"]
    assert accuracy_of(abstention) == pytest.approx(0.7000, abs=5e-5)
    assert abstention.planned == 30
    for group, (accuracy, n) in LONGMEMEVAL.items():
        line = paper.groups[group]
        assert line.planned == n
        assert accuracy_of(line) == pytest.approx(accuracy, abs=5e-5)
        assert line.official is not None
        assert line.official.value == pytest.approx(accuracy, abs=5e-5)
    assert hindsight.overall.planned == 500
    assert any("30 items" in notice and "longmemeval-hindsight" in notice for notice in notices(run.report()))
