"""Labels of people: how a raw value becomes one, what the config may say of them, and what they are held against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stage_inputs import column, config, failure, fields, lines, rejects, row, staged, tiny

from judges import Judge, parse_judge
from runner.config import parse_config
from runner.errors import ConfigError

SCORE = """
name: score
reads: {kind: scores, verdict: score, low: 0, high: 5, step: 1}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
"""
CHOICE = """
name: choose
reads: {kind: choice, verdict: choice, labels: {A: {}, B: {}}}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
"""


def labels_of(base: Path, values: list[Any], *judges: Judge, **label: Any) -> list[Any]:
    """What these raw values become; None: no label."""
    lines(base / "a.jsonl", [row(n, human=value) for n, value in enumerate(values)])
    result = staged(base, *judges, path="a.jsonl", labels={"said": {"field": "human", **label}})
    return [json.loads(value).get("said") for value in column(result, "labels")]


def refused(base: Path, value: Any, *judges: Judge, **label: Any) -> str:
    lines(base / "a.jsonl", [row(1, human=value)])
    return failure(base, *judges, path="a.jsonl", labels={"said": {"field": "human", **label}})


def config_error(base: Path, labels: dict[str, Any], *judges: Judge) -> str:
    lines(base / "a.jsonl", [row(1, human="1")])
    with pytest.raises(ConfigError) as error:
        staged(base, *judges, path="a.jsonl", labels=labels)
    return error.value.message


def test_a_map_says_what_raw_values_mean(tmp_path: Path) -> None:
    meant = {"good": True, "bad": False, "2": True, "0.5": False, "true": False, "unsure": None}
    values = ["good", "bad", 2, 2.0, 0.5, True, "unsure", "yes", None, ""]
    wanted = [True, False, True, True, False, False, None, True, None, None]
    assert labels_of(tmp_path, values, of="correct", map=meant) == wanted


def test_whole_floats_are_truth_values_as_a_frame_with_a_missing_one_has_them(tmp_path: Path) -> None:
    values = [1.0, 0.0, "1.0", "0.0", 1, 0, None]
    assert labels_of(tmp_path, values, of="correct") == [True, False, True, False, True, False, None]
    for value in (0.5, 2.0, -1.0, "1.5"):
        assert "must be true or false" in refused(tmp_path, value, of="correct")


def test_keys_of_a_map_may_be_written_as_yaml_has_them(tmp_path: Path) -> None:
    assert labels_of(tmp_path, [2, 3, True], of="correct", map={2: True, 3: False, True: False}) == [True, False, False]


def test_ordinal_labels_are_numbers_or_mapped_words(tmp_path: Path) -> None:
    values = [3, 2.5, "4", " 4.5 ", "1e0", "-1", "great", None, ""]
    wanted = [3, 2.5, 4, 4.5, 1.0, -1, 5, None, None]
    found = labels_of(
        tmp_path, values, parse_judge(SCORE, "score"), type="ordinal", of="score", map={"great": 5, "n/a": None}
    )
    assert found == wanted
    assert [type(value) for value in found] == [type(value) for value in wanted]


@pytest.mark.parametrize("value", ["good", True, [4], {"a": 1}, "nan", "inf", "4,5", "1_000", "٣", " ", "1e999"])
def test_what_is_no_number_is_an_error(tmp_path: Path, value: Any) -> None:
    message = refused(tmp_path, value, parse_judge(SCORE, "score"), type="ordinal", of="score", map={"great": 5})
    assert "a.jsonl:1: i1: label 'said' (column 'human') must be a number, or one of its map (great), not" in message


def test_choices_are_texts(tmp_path: Path) -> None:
    values = ["A", " B ", 3, "first", None]
    found = labels_of(
        tmp_path, values, parse_judge(CHOICE, "choose"), type="choice", of="choice", map={"first": "A", "3": "C"}
    )
    assert found == ["A", "B", "C", "A", None]


@pytest.mark.parametrize("value", [True, 2.5, ["A"], " "])
def test_what_is_no_text_is_an_error(tmp_path: Path, value: Any) -> None:
    message = refused(tmp_path, value, parse_judge(CHOICE, "choose"), type="choice", of="choice")
    assert "a.jsonl:1: i1: label 'said' (column 'human') must be a text, not" in message


def test_a_value_that_fits_nothing_is_a_reject_where_bad_rows_are_skipped(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, human="perhaps"), row(2, human="yes")])
    result = staged(tmp_path, path="a.jsonl", labels={"correct": {"field": "human"}}, on_bad="skip")
    assert column(result, "labels") == ['{"correct":true}']
    [(file, line, item, problem)] = rejects(result)
    assert (file, line, item) == ("a.jsonl", 1, "i1")
    assert problem.endswith(
        "must be true or false (or yes, no, y, n, correct, incorrect, right, wrong, pass, fail, 1, 0), not 'perhaps'"
    )


def test_annotators_in_a_list_are_named_by_their_place(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, annotators=["Yes", "No"]), row(2, annotators=["No"]), row(3, annotators=None)])
    labels = {f"p{n}": {"field": f"annotators.{n}", "of": "correct"} for n in (0, 1)}
    result = staged(tmp_path, path="a.jsonl", labels=labels)
    assert column(result, "labels") == ['{"p0":true,"p1":false}', '{"p0":false}', "{}"]
    assert all("annotators" not in entry for entry in fields(result))
    with pytest.raises(ConfigError, match=r"items.labels.p0.field: no row has a column 'annotators.2'"):
        staged(tmp_path, path="a.jsonl", labels={"p0": {"field": "annotators.2", "of": "correct"}})


def test_places_reach_into_nested_lists_and_keys_that_are_digits(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, votes=[{"by": [0, "yes"]}]), row(2, votes={"0": {"by": {"1": "no"}}})])
    result = staged(tmp_path, path="a.jsonl", labels={"correct": {"field": "votes.0.by.1"}})
    assert column(result, "labels") == ['{"correct":true}', '{"correct":false}']


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ({"type": "choice", "threshold": 1}, "threshold: choices have no order that could be cut"),
        ({"map": {"good": "yes"}}, "map.good: must be true or false for the type bool, or null for no label"),
        ({"map": {"good": 1}}, "map.good: must be true or false"),
        ({"type": "ordinal", "map": {"good": True}}, "map.good: must be a number"),
        ({"type": "ordinal", "map": {"good": float("inf")}}, "map.good: must be a number"),
        ({"type": "choice", "map": {"1": True}}, "map.1: must be a text (in quotes"),
        ({"type": "choice", "map": {"1": ""}}, "map.1: must be a text"),
        ({"treshold": 3}, "items.labels.x.treshold: unknown key; did you mean 'threshold'?"),
        ({"threshold": float("nan")}, "items.labels.x.threshold: "),
        ({"type": "graded"}, "items.labels.x.type: "),
    ],
)
def test_what_the_config_may_not_say_of_a_label(label: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        config(path="a.jsonl", labels={"x": {"field": "human", **label}})
    assert told in error.value.message


def test_the_config_of_a_run_can_be_read_again() -> None:
    label = {"field": "h", "type": "ordinal", "of": "score", "map": {"1": 1, "a": 0.5, "b": None}, "threshold": 3}
    first = config(path="a.jsonl", labels={"x": label, "y": {"field": "g", "map": {"n": False}}})
    again = parse_config(json.loads(json.dumps(first.model_dump(mode="json", exclude_defaults=True))))
    assert again == first
    assert [type(value) for value in again.items.labels["x"].map.values()] == [int, float, type(None)]


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ({"of": "corect"}, "items.labels.x.of: no judge of the run has a score 'corect'; did you mean 'correct'?"),
        ({}, "items.labels.x: no judge of the run has a score 'x'; they have choice, correct, score (`of` says which"),
        ({"of": "choice"}, "items.labels.x.type: bool does not fit: 'choice' is no number in any judge of the run"),
        ({"of": "score", "type": "choice"}, "items.labels.x.type: choice does not fit: 'score' is a number"),
        (
            {"of": "correct", "threshold": 1},
            "items.labels.x.threshold: there is nothing to cut: the label and 'correct'",
        ),
    ],
)
def test_a_label_that_fits_no_judge_is_told_before_anything_is_paid(
    tmp_path: Path, label: dict[str, Any], told: str
) -> None:
    judges = tiny(), parse_judge(SCORE, "score"), parse_judge(CHOICE, "choose")
    assert told in config_error(tmp_path, {"x": {"field": "human", **label}}, *judges)


def test_a_label_needs_to_fit_one_judge_only(tmp_path: Path) -> None:
    judges = tiny(), parse_judge(SCORE, "score")
    labels = {"correct": {"field": "human"}, "good": {"field": "human", "of": "score", "threshold": 3}}
    lines(tmp_path / "a.jsonl", [row(1, human="1")])
    assert column(staged(tmp_path, *judges, path="a.jsonl", labels=labels), "labels") == [
        '{"correct":true,"good":true}'
    ]
