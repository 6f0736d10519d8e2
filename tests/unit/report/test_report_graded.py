"""What a report says of graded, batched and choosing judges, in tables, notices and the document."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from judged_run import Run, jsonl, judged_run, trial_key, unscored
from rich.cells import cell_len
from rich.console import Console

from runner.report import Report, notices, to_json, to_markdown
from runner.report.terminal import to_terminal

CHOOSER = """
name: chooser
reads: {kind: choice, verdict: choice, labels: {"Output (a)": {aliases: [a]}, "Output (b)": {}, neither: {}}}
route: [{template: base}]
templates: {base: "{question} {response}"}
"""


def run_of(tmp_path: Path, ending: Any, judge: str, n: int = 60, **keywords: Any) -> Run:
    rows = [
        {"id": f"i{k}", "system": "AB"[k % 2], "kind": f"g{k % 3}", "question": "Why?", "reference": "so"}
        | {"response": f"answer {k}", "other_response": "another"}
        for k in range(n)
    ]
    jsonl(tmp_path / "items.jsonl", rows)
    items = {"path": "items.jsonl", "fields": {"system": "system", "group": "kind"}}
    return judged_run(tmp_path, items, ending, judges=[judge], **keywords)


def number(row: Any) -> int:
    return int(row["id"][1:])


def gave(**scores: Any) -> dict[str, Any]:
    values = json.dumps({name: float(value) for name, value in scores.items()})
    return {"verdict": json.dumps(scores), "scores": values, "official": None}


def chose(label: str, **scores: float) -> dict[str, Any]:
    return {"verdict": json.dumps({"choice": label}), "scores": json.dumps(scores), "official": None}


def terminal(report: Report, width: int = 100) -> str:
    file = io.StringIO()
    to_terminal(report, Console(file=file, width=width, force_terminal=True, color_system=None), full=True)
    return file.getvalue()


def lines(report: Report) -> list[str]:
    return [" ".join(line.split()) for line in terminal(report).splitlines()]


def every_format(report: Report) -> list[str]:
    return [" ".join(text.split()) for text in (terminal(report), to_markdown(report).replace("\\", ""))]


def test_a_graded_score_by_hand(tmp_path: Path) -> None:
    def ending(row: Any) -> Any:
        return unscored("malformed", "empty") if number(row) in (0, 2) else gave(score=4 if number(row) % 4 else 5)

    report = run_of(tmp_path, ending, "answer-correctness", n=20).report()
    document = to_json(report)
    first = document["results"][0]
    # System A has the items 0, 2, … 18: 0 and 2 are not read, of the others four are 5 (4, 8, 12, 16) and four are 4.
    score = first["scores"]["score"]
    assert (score["kind"], score["n"], score["unscored"], score["value"]) == ("graded", 8, 2, 4.5)
    assert (score["worst"], score["best"]) == (3.6, 4.6)
    assert score["sd"] == pytest.approx((8 * 0.25 / 7) ** 0.5)
    assert score["high"] - 4.5 == pytest.approx(2.364624 * score["sd"] / 8**0.5)
    assert (score["threshold"], score["share"]["value"], score["strict"]["value"]) == (4, 1.0, 0.8)
    assert [entry["trials"] for entry in first["values"]["score"]] == [0, 0, 0, 0, 4, 4]
    assert first["groups"][0]["scores"]["score"]["threshold"] == 4
    said = lines(report)
    assert "A score 4.5000 4.0531–4.9469 0.5345 3.6000 4.6000 8" in said
    assert "A score ≥ 4 1.0000 0.6756–1.0000 0.8000 8" in said
    assert "5 4 (50.0%) 0 (0.0%)" in said
    assert not [line for line in said if "ccuracy" in line]


def batched(row: Any, value: float, size: int = 10, place: int | None = None, **changes: Any) -> dict[str, Any]:
    at = number(row) % size + 1 if place is None else place
    return {**gave(score=value), "batch_size": size, "batch_position": at, **changes}


def test_a_place_that_matters_is_a_notice(tmp_path: Path) -> None:
    # The first place of a batch always gets 5, all others 1 or 2 in turn.
    def ending(row: Any) -> Any:
        place = number(row) % 10
        return batched(row, 5 if place == 0 else 1 + number(row) // 10 % 2)

    report = run_of(tmp_path, ending, "answer-correctness", n=200).report()
    [entry] = to_json(report)["batches"]
    assert entry["place_matters"] is True
    assert entry["size_matters"] is False
    assert entry["by_size"] is None
    assert [part["trials"] for part in entry["places"]] == [20] * 10
    assert entry["places"][0]["score"]["value"] == 5
    for text in every_format(report):
        assert "the mean score differs by place in the batch beyond chance (p < 0.0001): 1.50 at 2, 5.00 at 1." in text
    assert "place 1 of 10 20 5.0000 –" in " ".join(lines(report))


def test_a_size_that_matters_is_a_notice_and_places_are_of_full_batches_only(tmp_path: Path) -> None:
    def ending(row: Any) -> Any:
        k = number(row)
        spread = k // 10 % 2
        if k < 100:
            return batched(row, 3 + spread)
        # Halved: the first five places are all there are, and score lower.
        return batched(row, 1 + spread, size=5, bisect_depth=1, stage="bisect:1")

    report = run_of(tmp_path, ending, "answer-correctness", n=200).report()
    [entry] = to_json(report)["batches"]
    assert (entry["size_matters"], entry["place_matters"], entry["full"]) == (True, False, 10)
    assert {part["at"]: part["trials"] for part in entry["sizes"]} == {5: 100, 10: 100}
    assert [part["trials"] for part in entry["places"]] == [10] * 10
    assert [(part["at"], part["trials"]) for part in entry["depths"]] == [(1, 100)]
    for text in every_format(report):
        assert "differs by batch size beyond chance (p < 0.0001): 1.50 at 5, 3.50 at 10" in text
    assert "halved 1 × 100 1.5000 1.4003–1.5997 – –" in lines(report)


def test_marked_items_do_not_make_a_size_matter(tmp_path: Path) -> None:
    def ending(row: Any) -> Any:
        k = number(row)
        if k < 20:
            return batched(row, k % 2, size=1, place=1, notes=("block_marker",))
        return batched(row, 4 + k // 10 % 2)

    report = run_of(tmp_path, ending, "answer-correctness", n=100).report()
    [entry] = to_json(report)["batches"]
    # Each trial stands in one row of the sizes, or in that of the marked.
    assert entry["marked"]["trials"] == 20
    assert [(part["at"], part["trials"]) for part in entry["sizes"]] == [(10, 80)]
    assert entry["by_size"] is None
    assert not [notice for notice in notices(report) if "beyond chance" in notice]
    said = lines(report)
    assert not [line for line in said if line.startswith("1 at a time")]
    assert "alone, for a block marker 20 0.5000 0.2599–0.7401 100 0 (0.00%)" in said
    assert "block_marker 20 20.00% 20" in said


def test_the_note_says_which_rows_are_compared_and_what_a_mean_is_of(tmp_path: Path) -> None:
    def ending(row: Any) -> Any:
        k = number(row)
        if k == 0:
            return {**batched(row, 0, size=1, place=1), **unscored("malformed", "empty")}
        marked = ("block_marker",) if k == 1 else ()
        size = 1 if k == 1 else 10 if k < 100 else 9 if k < 195 else 5
        return batched(row, k // 10 % 2, size=size, notes=marked)

    report = run_of(tmp_path, ending, "answer-correctness", n=200).report()
    [entry] = report.batches
    assert [(part.at, part.trials, part.score.n) for part in entry.sizes] == [
        (1, 1, 0), (5, 5, 5), (9, 95, 95), (10, 98, 98)
    ]  # fmt: skip
    said = " ".join(lines(report))
    assert "differences of means by size (9, 10 alone) p = " in said
    assert "rows with 10 scores or more, without items asked alone for a block marker" in said
    assert "mean: of those trials that have a score" in said


def test_without_a_difference_nothing_is_said(tmp_path: Path) -> None:
    report = run_of(tmp_path, lambda row: batched(row, number(row) // 10 % 6), "answer-correctness", n=180).report()
    assert not [notice for notice in notices(report) if "beyond chance" in notice]
    said = " ".join(lines(report))
    assert (
        "differences of means by place p = 1 · compared, by analysis of variance: rows with 10 scores or more" in said
    )


def test_judges_of_one_item_have_no_table_of_batches(tmp_path: Path) -> None:
    report = run_of(tmp_path, lambda row: gave(score=3), "score-0-5").report()
    assert to_json(report)["batches"] == []
    assert "Batches" not in terminal(report)


def test_choices_without_values_have_shares_and_no_score(tmp_path: Path) -> None:
    (tmp_path / "chooser.yaml").write_text(CHOOSER)

    def ending(row: Any) -> Any:
        return chose("Output (a)" if number(row) % 4 == 0 else "Output (b)")

    report = run_of(tmp_path, ending, "./chooser.yaml").report()
    [first, second] = to_json(report)["results"]
    assert (first["scores"], second["scores"]) == ({}, {})
    shares = {label: (rate["hits"], rate["n"]) for label, rate in first["choices"].items()}
    assert shares == {"Output (a)": (15, 30), "Output (b)": (15, 30), "neither": (0, 30)}
    said = lines(report)
    assert "A Output (a) 15 0.5000 0.3315–0.6685" in said
    assert "neither 0 0.0000 0.0000–0.1135" in said
    assert not [line for line in said if "ccuracy" in line or line in ("Mean scores", "Yes or no")]


def test_choices_with_values_have_both(tmp_path: Path) -> None:
    def ending(row: Any) -> Any:
        return chose("A", choice=1.0) if number(row) % 4 else chose("B", choice=0.0)

    report = run_of(tmp_path, ending, "choice-ab").report()
    first = to_json(report)["results"][0]
    assert first["choices"]["A"]["value"] == first["scores"]["choice"]["value"] == 0.5
    assert {"Choices", "Mean scores"} <= set(lines(report))


def test_two_scores_of_two_kinds(tmp_path: Path) -> None:
    report = run_of(
        tmp_path, lambda row: gave(correct=number(row) % 2 == 0, score=number(row) % 3 + 1), "correct-and-score"
    ).report()
    said = lines(report)
    assert "A 1.0000 0.8865–1.0000 1.0000 0.8865–1.0000" in said
    assert "A score 2.0000 1.6899–2.3101 0.8305 2.0000 2.0000 30" in said
    # Means in groups of one score each: no interval, and each kind has its own columns.
    assert "slice planned accuracy 95 % interval strict" in said
    assert "slice planned mean 95 % interval worst best" in said
    assert "g0 10 1.0000 – 1.0000 1.0000" in said


def test_only_correct_is_called_accuracy(tmp_path: Path) -> None:
    yes = CHOOSER.replace("{aliases: [a]}", "{value: true}").replace(
        '"Output (b)": {}, neither: {}', "b: {value: false}"
    )
    (tmp_path / "chooser.yaml").write_text(yes)
    report = run_of(tmp_path, lambda row: chose("b", choice=0.0), "./chooser.yaml").report()
    said = lines(report)
    assert "Yes or no" in said
    assert "system score share 95 % interval strict 95 % strict" in said
    assert not [line for line in said if "ccuracy" in line]


def test_flags_are_counted_and_readings_are_not_among_them(tmp_path: Path) -> None:
    def ending(row: Any) -> Any:
        notes = ("unknown_keys:3", "read:strict") if number(row) % 4 == 0 else ()
        return {**gave(score=3), "notes": notes}

    report = run_of(tmp_path, ending, "score-0-5").report()
    assert to_json(report)["flags"] == [
        {"judge": "score-0-5", "model": "gpt", "code": "read:strict", "trials": 15, "times": 15},
        {"judge": "score-0-5", "model": "gpt", "code": "unknown_keys", "trials": 15, "times": 45},
    ]
    text = terminal(report)
    assert "unknown_keys 15 25.00% 45" in " ".join(text.split())
    assert "read:strict" not in text


def test_a_run_without_trials_does_not_claim_to_be_complete(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text(
        CHOOSER.replace("name: chooser", "name: none\non_unrouted: skip").replace(
            "{template: base}", "{when: {group: [other]}, template: base}"
        )
    )
    report = run_of(tmp_path, lambda row: None, "./none.yaml").report()
    assert (report.planned, report.status) == (0, "nothing to judge")
    for text in every_format(report):
        assert "nothing to judge" in text
        assert "no route matches 60 items" in text


def test_the_cost_of_a_trial_leaves_out_requests_of_others(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda row: gave(score=3) | {"attempts": 1 + row["repeat"]}, "score-0-5", n=4, repeats=2)
    kept = [row.shard for row in run.ledger.shards() if row.shard.repeat == 1]
    run.ledger.replan(kept, [(trial_key(s.id, s.first_row + n), s.id, n) for s in kept for n in range(s.rows)])
    report = run.report()
    assert (report.planned, report.done, report.costs[0].requests) == (4, 4, 8)
    assert "| 8 | 2.00 |" in to_markdown(report)


@pytest.mark.parametrize("width", [80, 100])
def test_wide_tables_fit(tmp_path: Path, width: int) -> None:
    def ending(row: Any) -> Any:
        return batched(row, number(row) % 6, notes=("block_marker",) if number(row) % 9 == 0 else ())

    models = [f"a-model-with-quite-a-long-name-{n}" for n in range(3)]
    report = run_of(tmp_path, ending, "answer-correctness", models=models).report()
    text = terminal(report, width)
    assert max(cell_len(line.rstrip()) for line in text.splitlines() if not line.startswith("run ")) <= width
    for result in report.results:
        assert f"{result.overall.scores['score'].value:.4f}" in text
