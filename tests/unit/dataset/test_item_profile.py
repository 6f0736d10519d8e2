"""Traps in items files: what staging refuses, mends or counts instead of staging it without a word."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from stage_inputs import column, failure, fields, library, lines, row, staged

from runner.config import RunConfig, parse_config
from runner.dataset import Staged, stage
from runner.errors import ItemError

SAMPLE = {"question": "q", "reference": "r"}


def judged(base: Path, rows: list[dict[str, Any]], **items: Any) -> Staged:
    return staged(base, path=lines(base / "a.jsonl", rows).name, **items)


def test_equal_rows_without_an_id_are_answers_of_their_own(tmp_path: Path) -> None:
    rows = [{**SAMPLE, "response": text, "system": "s"} for text in ("yes", "yes", "no", "yes", "yes")]
    result = judged(tmp_path, rows)
    assert (result.rows, result.duplicates, result.copies) == (5, 0, 3)
    first, _, other, *_ = ids = column(result, "id")
    assert ids == [first, f"{first}-2", other, f"{first}-3", f"{first}-4"]
    assert result.judges["tiny"]["trials"] == 5
    # They are answers to one question, by its text, so that intervals may cluster them.
    assert len(set(column(result, "question_id"))) == 1
    assert (result.coverage, result.several) == ({"s": (1, 1)}, {"s": 1})
    # In any other order the same items come out, also where more rows come in between.
    random.Random(1).shuffle(rows)
    again = judged(tmp_path, [{**SAMPLE, "response": "new", "system": "s"}, *rows])
    assert set(ids) < set(column(again, "id"))


def test_equal_rows_of_two_systems_are_no_copies(tmp_path: Path) -> None:
    result = judged(tmp_path, [{**SAMPLE, "response": "yes", "system": system} for system in "ab"])
    assert (result.rows, result.copies) == (2, 0)


def test_equal_rows_with_an_id_count_once(tmp_path: Path) -> None:
    result = judged(tmp_path, [row(1), row(1), row(2)])
    assert (result.rows, result.duplicates, result.copies) == (2, 1, 0)


def test_contradictions_beside_copies_are_left_out(tmp_path: Path) -> None:
    rows = [{**SAMPLE, "response": "yes", "own": own} for own in (1, 2)] + [{**SAMPLE, "response": "no", "own": 1}] * 2
    result = judged(tmp_path, rows, on_bad="skip")
    assert (result.rows, result.rejects, result.copies) == (2, 2, 1)
    assert {entry["response"] for entry in fields(result)} == {"no"}


@pytest.mark.parametrize(("response", "path"), [(["a"], "response.0"), ({"text": "a"}, "response.text")])
def test_a_list_or_object_is_no_response(tmp_path: Path, response: Any, path: str) -> None:
    rows = [row(1), {**row(2), "response": response}]
    message = failure(tmp_path, path=lines(tmp_path / "a.jsonl", rows).name)
    assert f"{tmp_path}/a.jsonl:2: i2: the response (column 'response') is a" in message
    assert f"as in response: {path}" in message
    result = judged(tmp_path, rows[1:], fields={"response": path})
    assert [entry["response"] for entry in fields(result)] == ["a"]


def test_published_rows_of_ragbench_need_no_mapping(tmp_path: Path) -> None:
    keyed = [[["0a", "One."], ["0b", "Two."]]]
    published = {"id": "1", "question": "q", "response": "a", "documents": ["One. Two."], "documents_sentences": keyed}
    path = lines(tmp_path / "a.jsonl", [published]).name
    [item] = fields(staged(tmp_path, library("ragbench"), path=path))
    assert item["documents"] == keyed
    assert "documents_sentences" not in item
    # What the config says wins, and a judge that wants no sentences gets what the column holds.
    [item] = fields(staged(tmp_path, library("ragbench"), path=path, fields={"documents": "documents"}))
    assert item["documents"] == ["One. Two."]
    [item] = fields(staged(tmp_path, path=lines(tmp_path / "a.jsonl", [{**published, "reference": "r"}]).name))
    assert item["documents"] == ["One. Two."]


def test_blanks_around_a_system_make_no_other_one(tmp_path: Path) -> None:
    result = judged(tmp_path, [row(1, system="gpt-4"), row(2, system="gpt-4 "), row(3, system="GPT-4")])
    assert result.coverage == {"gpt-4": (2, 3), "GPT-4": (1, 3)}
    assert result.facts.stripped_systems == {"gpt-4 ": 1}
    assert [entry["system"] for entry in fields(result)] == ["gpt-4", "gpt-4", "GPT-4"]
    assert "system (column 'system') must be a text" in failure(
        tmp_path, path=lines(tmp_path / "a.jsonl", [row(1, system=" ")]).name
    )


def test_a_column_that_looks_like_the_system_is_named(tmp_path: Path) -> None:
    rows = [
        {"question": f"q{n}", "reference": "r", "response": text, "Model Name": model}
        for n in range(3)
        for model, text in (("a", "yes"), ("b", "yes"))
    ]
    path = lines(tmp_path / "a.jsonl", rows).name
    assert "'Model Name' looks like the system: map it (items.fields: {system: Model Name})" in failure(
        tmp_path, path=path
    )
    apart = [{**entry, "response": f"{entry['Model Name']} says"} for entry in rows]
    assert judged(tmp_path, apart).facts.system_columns == {"Model Name": {"a": 3, "b": 3}}
    for mapped in ({"system": "Model Name"}, {"group": "Model Name"}):
        assert judged(tmp_path, apart, fields=mapped).facts.system_columns == {}
    # A question for each, or a value for each row, and it says nothing of whose answers they are.
    each = [{**entry, "question": f"q{n}"} for n, entry in enumerate(apart)]
    assert judged(tmp_path, each).facts.system_columns == {}
    many = [{**entry, "Model Name": f"m{n}"} for n, entry in enumerate(apart)]
    assert judged(tmp_path, many).facts.system_columns == {}


def test_blank_fields_are_counted_where_a_prompt_holds_them(tmp_path: Path) -> None:
    rows = [row(1), row(2, reference=" "), row(3, reference="", question="\n"), row(4, own="")]
    result = judged(tmp_path, rows)
    place = f"{tmp_path}/a.jsonl"
    assert result.facts.blank == {"reference": (2, 4, f"{place}:2"), "question": (1, 4, f"{place}:3")}
    assert judged(tmp_path, rows[:1]).facts.blank == {}
    message = failure(tmp_path, path=lines(tmp_path / "a.jsonl", rows[1:3]).name)
    assert message == f"{place}:1: reference (column 'reference') is blank, as in every row whose prompt uses it"
    # Left out later, it does not count.
    assert judged(tmp_path, [rows[0], rows[1], rows[1], row(5)]).facts.blank["reference"][:2] == (1, 3)


def test_words_for_a_missing_value_are_counted_by_system(tmp_path: Path) -> None:
    words = ["nan", "None", "null", " NA", "N/A", "<NA>", "Nan is bread", "0", ""]
    rows = [row(n, response=text, system="ab"[n % 2]) for n, text in enumerate(words)]
    assert judged(tmp_path, rows).facts.missing_words == {"a": 3, "b": 3}


def test_responses_that_are_the_reference_are_counted(tmp_path: Path) -> None:
    rows = [row(n, response="r" if n < 3 else "x") for n in range(5)] + [row(9, response="", reference="x")]
    facts = judged(tmp_path, rows).facts
    assert (facts.references_repeated, facts.referenced) == (3, 5)


def test_one_order_of_two_responses_is_seen(tmp_path: Path) -> None:
    rows = [row(n, other_response="b") for n in range(4)]
    choice = library("choice-ab")
    path = lines(tmp_path / "a.jsonl", rows).name
    assert staged(tmp_path, choice, path=path).facts.one_order == {"choice-ab": 4}
    turned = [{**e, "id": f"t{e['id']}", "response": "b", "other_response": e["response"]} for e in rows]
    path = lines(tmp_path / "a.jsonl", rows + turned).name
    assert staged(tmp_path, choice, path=path).facts.one_order == {}
    assert staged(tmp_path, path=path).facts.one_order == {}


def config(**items: Any) -> RunConfig:
    return parse_config({"name": "t", "items": items, "judges": ["yes-no"], "models": ["m"]})


def test_a_limit_is_kept_with_the_systems_beyond_it(tmp_path: Path) -> None:
    rows = [row(n, system=system) for system in "abc" for n in range(3)]
    of = config(path=lines(tmp_path / "a.jsonl", rows).name)
    judges = [library("yes-no")]
    limited = stage(of, judges, tmp_path, tmp_path / "one", limit=4)
    assert (limited.limit, limited.rows, limited.beyond_limit) == (4, 9, ["c"])
    whole = stage(of, judges, tmp_path, tmp_path / "two", limit=9)
    assert (whole.limit, whole.beyond_limit) == (None, [])


def test_an_item_error_leaves_nothing_behind(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, reference="")])
    with pytest.raises(ItemError, match="is blank, as in every row"):
        staged(tmp_path, path="a.jsonl")
    assert not (tmp_path / "run" / "items").exists()
