"""What all rows lack is told once: what is missing, what there is, what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stage_inputs import YES_NO, config, failure, lines, rejects, row, staged, tiny

from judges import Judge, parse_judge
from runner.dataset.missing_columns import as_options, find_missing, in_config, in_python

TICKETS = [{"ticket": f"t{n}", "question": "q", "agent_reply": f"a{n}", "gold": "r"} for n in range(30)]


def missing(base: Path, way: Any, *judges: Judge, **items: Any) -> str:
    found = find_missing(config(**items).items, judges or (tiny(),), base)
    return "" if found is None else found.describe(way)


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
def test_wrong_columns_are_told_once_with_the_columns_and_the_likely_ones(tmp_path: Path, on_bad: str) -> None:
    file = lines(tmp_path / "a.jsonl", TICKETS)
    told = failure(tmp_path, path="a.jsonl", fields={"response": "agent_rply"}, on_bad=on_bad)
    assert told == (
        f"{file}: there is no column 'agent_rply' for the response that every judge needs; "
        "there is no column 'reference' for the reference that tiny needs\n"
        "  the columns are ticket, question, agent_reply, gold\n"
        "  say which column is meant: items.fields: {response: agent_reply, reference: gold}"
    )


def test_each_way_of_asking_has_its_own_remedy() -> None:
    fields = {"response": "the reply", "reference": "COLUMN"}
    assert in_config("fields", fields) == "items.fields: {response: the reply, reference: COLUMN}"
    assert in_python("fields", fields) == "fields={'response': 'the reply', 'reference': 'COLUMN'}"
    assert as_options("fields", fields) == "--field 'response=the reply' --field reference=COLUMN"


def test_what_some_rows_have_is_told_by_row(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(0), *({"id": f"x{n}", "question": "q"} for n in range(3))])
    assert missing(tmp_path, in_config, path="a.jsonl") == ""
    told = failure(tmp_path, path="a.jsonl")
    assert told.startswith("3 bad rows; nothing was asked\n  ") and "items.on_bad: skip" in told


def test_what_all_rows_have_in_common_is_told_once_and_is_not_to_be_skipped(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(number, group="east") for number in range(12)])
    west = YES_NO.replace("route: [{template: only}]", "route: [{when: {group: west}, template: only}]")
    told = failure(tmp_path, parse_judge(west, "west.yaml"), path="a.jsonl")
    assert told.count("\n") == 1
    assert told.endswith("and the same in the first 10 rows; nothing was asked")
    assert "skip" not in told


def test_a_label_that_is_never_yes_or_no_gets_the_map_to_write(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(number, seen=("good", "bad")[number % 2], stars=3) for number in range(12)])
    told = failure(tmp_path, path="a.jsonl", labels={"correct": {"field": "seen"}})
    assert "the label 'correct' (column 'seen') is never true or false, but 'good', 'bad'" in told
    assert told.endswith("items.labels: {correct: {field: seen, map: {good: null, bad: null}}}")
    told = failure(tmp_path, path="a.jsonl", labels={"correct": {"field": "stars"}})
    assert told.endswith("items.labels: {correct: {field: stars, type: ordinal}}")


@pytest.mark.parametrize(("yes", "no"), [("Y", "N"), ("PASS", "fail"), (1, 0), ("1", "0"), ("right", "Wrong")])
def test_usual_words_for_yes_and_no_are_read(tmp_path: Path, yes: Any, no: Any) -> None:
    lines(tmp_path / "a.jsonl", [row(0, seen=yes), row(1, seen=no)])
    result = staged(tmp_path, path="a.jsonl", labels={"correct": {"field": "seen"}})
    labels = result.frame(0, 2)["labels"].to_list()
    assert labels == ['{"correct":true}', '{"correct":false}']


def test_a_bad_first_row_says_nothing_of_the_columns_of_those_after_it(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{"id": "bad", "question": "q"}, row(1, system="s"), row(2, system="s")])
    result = staged(tmp_path, path="a.jsonl", on_bad="skip")
    assert result.rows == 2 and len(rejects(result)) == 1
