"""How a row becomes an item: mapped columns, ids, systems, labels, and the joined reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stage_inputs import YES_NO, column, failure, fields, lines, rejects, row, staged, tiny

from runner.errors import ConfigError, ItemError

BARE = {"question": "q", "reference": "r", "response": "a"}


def test_columns_are_mapped_and_the_others_kept(tmp_path: Path) -> None:
    source = {
        "qid": 7, "ask": "q", "gold": 4, "out": {"text": "a"}, "model": "m", "kind": "k", "ctx": ["d"], "extra": None,
        "reference": "shadowed",
    }  # fmt: skip
    lines(tmp_path / "a.jsonl", [source])
    mapping = {
        "id": "qid", "question": "ask", "reference": "gold", "response": "out.text", "system": "model", "group": "kind",
        "documents": "ctx", "own": "extra",
    }  # fmt: skip
    result = staged(tmp_path, path="a.jsonl", fields=mapping)
    assert result.frame(0, 1).row(0, named=True) == {
        "row": 0, "id": "7", "question_id": "7", "system": "m", "item_group": "k", "labels": "{}",
        "template:tiny": "only", "suspect:tiny": "",
        "fields": json.dumps(
            {
                "documents": ["d"], "kind": "k", "model": "m", "out": {"text": "a"}, "own": None, "qid": 7,
                "question": "q", "reference": 4, "response": "a",
            },
            separators=(",", ":"),
        ),
    }  # fmt: skip


def test_two_columns_can_change_places(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{**BARE, "id": "i"}])
    result = staged(tmp_path, path="a.jsonl", fields={"question": "reference", "reference": "question"})
    assert fields(result) == [{"id": "i", "question": "r", "reference": "q", "response": "a"}]


def test_a_literal_column_wins_over_a_dotted_path(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{**BARE, "x.y": "literal", "x": {"y": "nested"}}, {**BARE, "x": {"y": "nested"}}])
    result = staged(tmp_path, path="a.jsonl", fields={"response": "x.y"})
    assert [entry["response"] for entry in fields(result)] == ["literal", "nested"]


def test_defaults_are_the_columns_of_the_same_name(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{**BARE, "id": 5, "question_id": 6, "system": "s", "group": 7}])
    result = staged(tmp_path, path="a.jsonl")
    assert result.frame(0, 1, ["id", "question_id", "system", "item_group"]).row(0) == ("5", "6", "s", "7")
    lines(tmp_path / "a.jsonl", [{**BARE, "id": "5"}])
    result = staged(tmp_path, path="a.jsonl")
    assert result.frame(0, 1, ["id", "question_id", "system", "item_group"]).row(0) == ("5", "5", "default", None)


def test_an_item_without_id_is_known_by_its_content(tmp_path: Path) -> None:
    def ids(name: str, rows: list[dict[str, Any]], **mapping: str) -> list[str]:
        lines(tmp_path / name, rows)
        return column(staged(tmp_path, path=name, fields=mapping), "id")

    first, second = ids("a.jsonl", [BARE, {**BARE, "response": "b"}])
    assert first != second
    assert len(first) == 32
    # Neither its line nor columns that are not named matter, nor their order, nor whose answer it is.
    assert ids("b.jsonl", [{"response": "b", "reference": "r", "question": "q"}, {**BARE, "n": 1}]) == [second, first]
    assert ids("c.jsonl", [{**BARE, "model": "m"}], system="model") == [first]
    assert ids("d.jsonl", [{**BARE, "n": 1}], own="n") != [first]
    assert ids("e.jsonl", [{**BARE, "response": 1}]) != ids("f.jsonl", [{**BARE, "response": True}])


def test_a_column_id_that_is_the_questions_leaves_the_item_without_id(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{**BARE, "id": "1"}, {**BARE, "id": "1", "response": "b"}])
    result = staged(tmp_path, path="a.jsonl", fields={"question_id": "id"})
    assert column(result, "question_id") == ["1", "1"]
    assert len(set(column(result, "id"))) == 2
    assert result.coverage == {"default": (1, 1)}


def test_rows_without_id_that_differ_elsewhere_are_told_how_to_differ(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{**BARE, "run": 1}, {**BARE, "run": 2}])
    message = failure(tmp_path, path="a.jsonl")
    assert "a.jsonl:2:" in message
    assert "name the column that tells them apart under items.fields" in message
    assert staged(tmp_path, path="a.jsonl", fields={"run": "run"}).rows == 2


@pytest.mark.parametrize("value", [None, True, 1.5, "", [], {"a": 1}])
@pytest.mark.parametrize("name", ["id", "question_id", "system"])
def test_identifiers_are_texts_or_whole_numbers(tmp_path: Path, name: str, value: Any) -> None:
    lines(tmp_path / "a.jsonl", [{**row(1, system="s", question_id="q"), name: value}])
    assert f"{name} must be a text or a whole number" in failure(tmp_path, path="a.jsonl")


@pytest.mark.parametrize("name", ["id", "question_id", "system"])
def test_identifiers_are_given_for_all_or_none(tmp_path: Path, name: str) -> None:
    with_it, without = {**row(1), "n": 1, name: "x"}, {**row(2), "n": 2}
    without.pop(name, None)
    lines(tmp_path / "a.jsonl", [with_it, without])
    assert f"a.jsonl:2:{'' if name == 'id' else ' i2:'} no {name}: the row has no column" in failure(
        tmp_path, path="a.jsonl"
    )
    lines(tmp_path / "a.jsonl", [without, with_it])
    assert f"{name} is for all or none" in failure(tmp_path, path="a.jsonl")


def test_an_item_has_a_response_even_if_it_is_null(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, response=None), {"id": "i2", "question": "q", "reference": "r"}])
    assert "a.jsonl:2: i2: no response: the row has no column 'response'" in failure(tmp_path, path="a.jsonl")


def test_a_response_that_went_under_another_name_is_told(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1)])
    told = failure(tmp_path, path="a.jsonl", fields={"respnse": "response"})
    assert "the row has the column 'response', but the config takes it for something else" in told


@pytest.mark.parametrize(
    "items",
    [
        {"fields": {"group": "question_typ"}},
        {"labels": {"correct": {"field": "question_typ"}}},
        {"labels": {"correct": {"field": "nested.question_typ"}}},
    ],
)
def test_a_column_that_no_row_has_is_a_mistake_of_the_config(tmp_path: Path, items: dict[str, Any]) -> None:
    lines(tmp_path / "a.jsonl", [row(1, question_type="t"), row(2, question_type="t")])
    with pytest.raises(ConfigError, match="no row has a column") as error:
        staged(tmp_path, path="a.jsonl", **items)
    assert "question_type" in error.value.message


LABELS: list[tuple[Any, bool | None]] = [
    (True, True), (False, False), ("Yes", True), (" no ", False), ("TRUE", True), ("false", False), ("correct", True),
    ("Incorrect", False), ("1", True), ("0", False), (1, True), (0, False), (None, None), ("", None),
]  # fmt: skip


def test_labels_are_booleans_however_written(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(n, human=value) for n, (value, _) in enumerate(LABELS)])
    result = staged(tmp_path, path="a.jsonl", labels={"correct": {"field": "human"}})
    assert [json.loads(value).get("correct") for value in column(result, "labels")] == [want for _, want in LABELS]
    assert all("human" not in entry for entry in fields(result))


@pytest.mark.parametrize("value", ["maybe", 2, 0.5, [True], "yes and no"])
def test_what_is_no_label_is_an_error(tmp_path: Path, value: Any) -> None:
    lines(tmp_path / "a.jsonl", [row(1, human=value)])
    message = failure(tmp_path, path="a.jsonl", labels={"correct": {"field": "human"}})
    assert "label 'correct' (column 'human') must be true or false" in message


def test_a_label_inside_a_nested_column_takes_the_column_out_of_the_fields(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, judged={"label": True, "by": "x"}), row(2)])
    result = staged(tmp_path, path="a.jsonl", labels={"correct": {"field": "judged.label"}})
    assert column(result, "labels") == ['{"correct":true}', "{}"]
    assert "judged" not in fields(result)[0]


REFERENCE: list[dict[str, Any]] = [
    {"qid": 1, "question": "q1", "answer": 4, "type": "t"},
    {"qid": "2", "question": "q2", "answer": "x", "type": "u"},
]
MAPPING = {"id": "qid", "response": "hypothesis", "reference": "answer", "group": "type"}


def joined(base: Path, answers: list[dict[str, Any]], reference: list[dict[str, Any]] = REFERENCE, **items: Any) -> Any:
    """Stage answers joined to a reference."""
    expect = items.pop("expect", "any")
    lines(base / "a.jsonl", answers)
    (base / "ref.json").write_text(json.dumps(reference, indent=1), encoding="utf-8")
    given = {"path": "a.jsonl", "fields": MAPPING, "join": {"path": "ref.json", "on": "qid", "expect": expect}, **items}
    return staged(base, **given)


def test_the_reference_fills_in_what_a_row_lacks(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = [{"qid": "1", "hypothesis": "a"}, {"qid": 2, "hypothesis": "b", "question": "own"}]
    result = joined(tmp_path, answers)
    assert [(entry["question"], entry["reference"]) for entry in fields(result)] == [("q1", 4), ("own", "x")]
    assert column(result, "item_group") == ["t", "u"]
    assert column(result, "id") == ["1", "2"]
    assert result.coverage == {"default": (2, 2)}


def test_an_unmatched_join_names_the_place_the_item_and_the_value(tmp_path: Path) -> None:
    answers = [{"qid": "1", "hypothesis": "a"}, {"qid": "3", "hypothesis": "b"}, {"hypothesis": "b"}]
    with pytest.raises(ItemError) as error:
        joined(tmp_path, answers)
    assert "a.jsonl:2: 3: unmatched join: the reference has no row with qid '3'" in error.value.message
    assert "a.jsonl:3: the column 'qid' that items.join.on names is missing" in error.value.message
    result = joined(tmp_path, answers, on_bad="skip")
    assert (result.rows, result.rejects, result.coverage) == (1, 2, {"default": (1, 2)})
    assert [entry[2] for entry in rejects(result)] == ["3", None]


def test_the_id_of_a_reference_row_is_not_the_items(tmp_path: Path) -> None:
    reference = [{"qid": 1, "id": "of the question", "question": "q", "answer": "x"}]
    mapping = {"response": "hypothesis", "reference": "answer", "question_id": "qid"}
    answers = [{"qid": 1, "hypothesis": "a"}, {"qid": 1, "hypothesis": "b"}]
    assert len(set(column(joined(tmp_path, answers, reference, fields=mapping), "id"))) == 2


def test_a_reference_may_repeat_itself_but_not_contradict_itself(tmp_path: Path) -> None:
    again = dict(reversed(REFERENCE[0].items()))
    assert joined(tmp_path, [{"qid": 1, "hypothesis": "a"}], [*REFERENCE, again]).coverage == {"default": (1, 2)}
    with pytest.raises(ItemError, match=r"ref\.json:\d+: qid '1' stands at .*ref\.json:2 with different content"):
        joined(tmp_path, [{"qid": 1, "hypothesis": "a"}], [*REFERENCE, {**again, "answer": "4"}], on_bad="skip")


def test_expect_all_names_what_is_missing_for_each_system(tmp_path: Path) -> None:
    answers = [{"qid": n, "hypothesis": "a", "model": "m"} for n in (1, 2)] + [
        {"qid": 1, "hypothesis": "a", "model": "k"}
    ]
    mapping = {**MAPPING, "system": "model"}
    assert joined(tmp_path, answers, fields=mapping).coverage == {"m": (2, 2), "k": (1, 2)}
    with pytest.raises(ItemError, match=r"system 'k' lacks 1 of 2 questions: 2$"):
        joined(tmp_path, answers, fields=mapping, expect="all")
    assert joined(tmp_path, answers[:2], fields=mapping, expect="all").rows == 2


def test_questions_with_several_answers_are_counted(tmp_path: Path) -> None:
    answers = [{"qid": number, "id": str(k), "hypothesis": f"a{k}"} for k, number in enumerate([1, 1, 1, 2])]
    fields = {**MAPPING, "id": "id"}
    found = joined(tmp_path, [*answers, answers[0]], fields=fields)
    assert (found.coverage, found.several) == ({"default": (2, 2)}, {"default": 1})
    assert joined(tmp_path, answers[2:], fields=fields).several == {}
    lines(tmp_path / "b.jsonl", [{**row(k), "system": "ab"[k > 2], "asked": k % 2} for k in range(5)])
    found = staged(tmp_path, path="b.jsonl", fields={"question_id": "asked", "system": "system"})
    assert (found.coverage, found.several) == ({"a": (2, 2), "b": (2, 2)}, {"a": 1})


def test_a_system_of_the_config_without_any_row_is_known(tmp_path: Path) -> None:
    lines(tmp_path / "empty.jsonl", [])
    systems = {"m": "a.jsonl", "none": "empty.jsonl"}
    answers = [{"qid": 1, "hypothesis": "a"}]
    assert joined(tmp_path, answers, path=None, systems=systems).coverage == {"m": (1, 2), "none": (0, 2)}
    with pytest.raises(ItemError, match="system 'none' lacks 2 of 2"):
        joined(tmp_path, answers, path=None, systems=systems, expect="all")


def test_a_broken_reference_stops_even_where_bad_items_are_skipped(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{"qid": 1, "hypothesis": "a"}])
    lines(tmp_path / "ref.jsonl", [REFERENCE[0], "{"])
    items: dict[str, Any] = {"path": "a.jsonl", "fields": MAPPING, "on_bad": "skip"}
    assert "ref.jsonl:2: not JSON" in failure(tmp_path, **items, join={"path": "ref.jsonl", "on": "qid"})
    lines(tmp_path / "ref.jsonl", [])
    assert "holds no row" in failure(tmp_path, **items, join={"path": "ref.jsonl", "on": "qid"})
    lines(tmp_path / "ref.jsonl", [{"qid": None}])
    assert "ref.jsonl:1: the column 'qid' that items.join.on names is null" in failure(
        tmp_path, **items, join={"path": "ref.jsonl", "on": "qid"}
    )


def test_a_users_judge_reads_any_column(tmp_path: Path) -> None:
    judge = tiny(
        """
name: own
description: Reads its own columns.
reads: {kind: yesno, verdict: correct}
bind: {ctx: ctx}
templates: {only: "{ctx} {response}"}
route: [{template: only}]
"""
    )
    lines(tmp_path / "a.jsonl", [{"id": 1, "response": "a", "ctx": "c"}, {"id": 2, "response": "a"}])
    message = failure(tmp_path, judge, path="a.jsonl")
    assert "a.jsonl:2: 2: judge 'own', template 'only': the row lacks 'ctx' (column 'ctx'), absent or null" in message


BY_KIND = YES_NO.replace("route: [", "route: [{when: {knid: hard}, template: hard}, ").replace(
    "templates: {", 'templates: {hard: "Hard {question} {reference} {response}", '
)


def test_a_route_by_a_field_that_no_item_has_names_the_one_that_was_meant(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, kind="hard"), row(2)])
    with pytest.raises(ConfigError) as caught:
        staged(tmp_path, tiny(BY_KIND), path="a.jsonl")
    words = "its routes look at the field 'knid', which no item has; did you mean 'kind'?"
    assert caught.value.message == f"judge 'tiny': {words}"
    # Without a route for the rest no row is taken.
    only = BY_KIND.replace(", {template: only}]", "]").replace('only: "Q {question} R {reference} A {response}"', "")
    assert words in failure(tmp_path, tiny(only), path="a.jsonl")
    # A field that some items have is none of that.
    result = staged(tmp_path, tiny(BY_KIND.replace("knid", "kind")), path="a.jsonl")
    assert column(result, "template:tiny") == ["hard", "only"]
