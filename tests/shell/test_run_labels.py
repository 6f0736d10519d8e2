"""The answers of NQ301 that people judged: the published agreement of GPT-4 with them, out of a run of the command."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from runs import Finished, Workspace, model

from runner.simulate import Simulation, running

Row = dict[str, Any]
LABELS = {
    "human": {"field": "human", "type": "bool", "of": "correct"},
    "first": {"field": "annotators.0", "type": "bool", "of": "correct"},
    "second": {"field": "annotators.1", "type": "bool", "of": "correct"},
}


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def judged(work: Workspace, rows: list[Row], column: str) -> Finished:
    """Judge the rows by an endpoint that gives what is recorded in a column."""
    # One answer stands there twice, in all its columns: the published numbers count both.
    work.write_items({**row, "n": number} for number, row in enumerate(rows))
    replies = ({"question": row["question"], "response": row["model_answer"], "reply": row[column]} for row in rows)
    write_lines(work.folder / "replay.jsonl", replies)
    fields = {"id": "n", "question_id": "id", "reference": "gold_answers", "response": "model_answer"}
    items = {"path": work.items.name, "fields": fields, "labels": LABELS}
    with running(Simulation(replay=work.folder / "replay.jsonl")) as url:
        work.write_config(model(url, name=column.partition("_")[0]), items=items)
        done = work.run()
    assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(len(rows))
    return done


@pytest.mark.parametrize(
    ("column", "n", "accuracy", "kappa"),
    [
        ("gpt4_label", 1480, 0.8473, 0.6935),
        pytest.param("davinci_label", 1483, 0.8348, 0.6689, marks=pytest.mark.long),
    ],
)
def test_published_agreement(data: Path, tmp_path: Path, column: str, n: int, accuracy: float, kappa: float) -> None:
    lines = (data / "human_labels" / "nq301.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row[column] in ("Yes", "No")]
    assert len(rows) == n
    work = Workspace(tmp_path)
    found = {(e["label"], e["second_label"]): e for e in judged(work, rows, column).report["agreement"]}
    assert list(found) == [
        ("human", None), ("first", None), ("second", None), ("human", "first"), ("human", "second"), ("first", "second")
    ]  # fmt: skip
    human = found["human", None]
    assert human["n"] == n
    assert round(human["accuracy"]["value"], 4) == accuracy
    assert round(human["kappa"], 4) == kappa
    interval = human["metrics"]["kappa"]
    assert kappa - 0.05 < interval["low"] < kappa < interval["high"] < kappa + 0.05
    people = found["first", "second"]
    same = sum(row["annotators"][0] == row["annotators"][1] for row in rows)
    assert (people["judge"], people["n"], people["accuracy"]["hits"]) == (None, n, same)

    printed = work.command("report", str(work.out), "--section", "agreement")
    assert f"{kappa:.4f}" in printed.stdout
    assert "first × second" in printed.stdout
    exported = work.command("export", str(work.out), "--format", "jsonl")
    labels = json.loads(exported.stdout.splitlines()[0])["labels"]
    votes = [vote == "Yes" for vote in rows[0]["annotators"][:2]]
    assert labels == {"human": rows[0]["human"] == "Yes", "first": votes[0], "second": votes[1]}


@pytest.mark.parametrize(
    ("model_name", "n", "accuracy", "kappa", "unread"),
    [
        ("gpt4", 1480, 0.8473, 0.6935, 8),
        pytest.param("davinci", 1483, 0.8348, 0.6689, 0, marks=pytest.mark.long),
    ],
)
def test_the_judges_own_words_come_to_the_published_agreement(
    data: Path, tmp_path: Path, model_name: str, n: int, accuracy: float, kappa: float, unread: int
) -> None:
    """The replies word for word: what people read in them jurybox reads, and it asks almost nothing twice."""
    lines = (data / "human_labels" / "nq301.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row[f"{model_name}_label"] in ("Yes", "No")]
    assert len(rows) == n
    work = Workspace(tmp_path)
    report = judged(work, rows, f"{model_name}_raw").report
    human = next(entry for entry in report["agreement"] if (entry["label"], entry["second_label"]) == ("human", None))
    assert human["n"] == n - unread
    assert human["accuracy"]["value"] == pytest.approx(accuracy, abs=0.002)
    assert human["kappa"] == pytest.approx(kappa, abs=0.002)
    assert report["unscored"] == unread
    assert report["requests"] <= 1.02 * n


def test_a_label_of_no_score_stops_the_run_before_it_asks(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items([{"id": "1", "question": "q", "reference": "r", "response": "a", "human": "yes"}])
    labels = {"human": {"field": "human", "of": "corect"}}
    work.write_config(model("http://127.0.0.1:9"), items={"path": work.items.name, "labels": labels})
    for done in (work.run(), work.command("plan", str(work.config))):
        assert done.status == 2
        assert "items.labels.human.of: no judge of the run has a score 'corect'; did you mean 'correct'?" in done.stderr


def test_a_section_that_is_none_is_an_error_with_the_names(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    rows = [{"id": f"i{n}", "question": "q", "reference": "r", "response": "a", "human": True} for n in range(2)]
    work.write_items(rows)
    with running() as url:
        work.write_config(model(url))
        assert work.run().status == 0
    wrong = work.command("report", str(work.out), "--section", "scroes")
    assert wrong.status == 2
    assert "no section scroes; there are: scores, comparison, notices, slices" in wrong.stderr
    both = work.command("report", str(work.out), "--full", "--section", "scores")
    assert (both.status, "exclude each other" in both.stderr) == (2, True)
    screen = work.command("report", str(work.out))
    assert len(screen.stdout.splitlines()) <= 25
    assert "Accuracy" in work.command("report", str(work.out), "--section", "scores").stdout
