"""Real evaluation sets, staged as their README maps them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from stage_inputs import column, config, fields, library

from runner.dataset import Staged, stage


def staged(data: Path, directory: Path, *judges: str, **items: Any) -> Staged:
    """Stage files of the data folder."""
    return stage(config(**items), [library(name) for name in judges], data, directory / "items")


def test_longmemeval_joins_answers_and_questions(data: Path, tmp_path: Path) -> None:
    result = staged(
        data, tmp_path, "longmemeval-paper", "longmemeval-hindsight",
        path="longmemeval/memory_agents.eval-results-gpt-4o.jsonl",
        join={"path": "longmemeval/questions.jsonl", "on": "question_id", "expect": "all"},
        fields={"id": "question_id", "response": "hypothesis", "reference": "answer", "group": "question_type"},
        labels={"correct": {"field": "autoeval_label.label"}},
    )  # fmt: skip
    assert (result.rows, result.duplicates, result.rejects) == (500, 0, 0)
    assert result.coverage == {"default": (500, 500)}
    labels = Counter(json.loads(value)["correct"] for value in column(result, "labels"))
    assert labels[True] / 500 == 0.724
    assert Counter(column(result, "template:longmemeval-paper"))["abstention"] == 30
    assert sum(result.judges["longmemeval-hindsight"]["cautions"].values()) == 30
    lines = (data / "longmemeval/questions.jsonl").read_text(encoding="utf-8").splitlines()
    answers = {question["question_id"]: question["answer"] for question in map(json.loads, lines)}
    kept = [(item_id, entry["reference"]) for item_id, entry in zip(column(result, "id"), fields(result), strict=True)]
    assert all(type(value) is type(answers[item_id]) and value == answers[item_id] for item_id, value in kept)
    assert any(isinstance(value, int) for _, value in kept)


def test_evouna_holds_five_systems_and_five_empty_answers(data: Path, tmp_path: Path) -> None:
    result = staged(
        data, tmp_path, "yes-no",
        path="human_labels/evouna_nq.jsonl",
        fields={"reference": "gold_answer", "response": "model_answer", "system": "model", "question_id": "question"},
        labels={"correct": {"field": "human_correct"}},
    )  # fmt: skip
    assert (result.rows, result.duplicates, result.rejects) == (15_099, 0, 0)
    assert sum(result.empty.values()) == 5
    assert {system: answered for system, (answered, _) in result.coverage.items()} == {
        "fid": 3019, "gpt35": 3019, "chatgpt": 3019, "gpt4": 3019, "newbing": 3018,
    }  # fmt: skip
    assert {total for _, total in result.coverage.values()} == {3019}
    assert result.trial_counts("yes-no", 0, 15_099) == result.judges["yes-no"]["trials"] == 15_099


def test_nq301_rows_are_known_by_their_content(data: Path, tmp_path: Path) -> None:
    result = staged(
        data, tmp_path, "yes-no",
        path="human_labels/nq301.jsonl",
        fields={"reference": "gold_answers", "response": "model_answer", "question_id": "id"},
        labels={"correct": {"field": "human"}},
    )  # fmt: skip
    assert (result.rows, result.duplicates, result.copies) == (1_490, 0, 1)
    assert result.coverage == {"default": (301, 301)}


def test_a_set_without_ids_needs_a_column_that_tells_its_rows_apart(data: Path, tmp_path: Path) -> None:
    mapping = {"reference": "golden_answer", "response": "answer", "source": "_file"}
    result = staged(data, tmp_path, "yes-no", path="correctness/cognee_hotpot.jsonl", fields=mapping)
    assert (result.rows, len(set(column(result, "id")))) == (700, 700)
