"""Traps in items files: what staging refuses, mends or counts instead of staging it without a word."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from stage_inputs import column, failure, fields, library, lines, row, staged, tiny

from judges import Judge
from runner.config import RunConfig, parse_config
from runner.dataset import Staged, stage
from runner.dataset.compared_responses import compared_fields
from runner.dataset.missing_values import is_blank, is_missing_word
from runner.dataset.sampling import Sample
from runner.dataset.system_columns import names_system
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
    ragbench, plain = library("ragbench"), tiny()
    [item] = staged(tmp_path, ragbench, path=path).items(0, 1, "ragbench")
    assert "0a: One.\n0b: Two." in ragbench.render(item.parse(), item.template)[0]["content"]
    # What the config says wins, and a judge that wants no sentences gets what the column holds.
    [item] = staged(tmp_path, ragbench, path=path, fields={"documents": "documents"}).items(0, 1, "ragbench")
    assert "0a: One. Two." in ragbench.render(item.parse(), item.template)[0]["content"]
    # Another judge's items, ids and prompts are the same whether or not a judge of sentences is there.
    del published["id"]
    path = lines(tmp_path / "a.jsonl", [{**published, "reference": "r"}]).name
    alone, both = staged(tmp_path, plain, path=path), staged(tmp_path, plain, ragbench, path=path)
    assert list(alone.items(0, 1, "tiny")) == list(both.items(0, 1, "tiny"))
    assert fields(both)[0]["documents"] == ["One. Two."]


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


@pytest.mark.parametrize(
    "column",
    ["model_id", "modelName", "systemName", "LLM", "engine", "submission", "answerer_model", "metadata.model",
     "meta.generation.modelId", "Model.Name"],
)  # fmt: skip
def test_a_column_of_systems_is_seen_by_its_words(tmp_path: Path, column: str) -> None:
    def nested(value: Any) -> dict[str, Any]:
        for name in reversed(column.split(".")):
            value = {name: value}
        return dict(value)

    rows = [row(n, id=f"{n}{value}", question=f"q{n}", **nested(value)) for n in range(3) for value in ("a", "b")]
    assert judged(tmp_path, [row(9), *rows]).facts.system_columns == {column: {"a": 3, "b": 3}}
    assert judged(tmp_path, rows, fields={"system": column}).coverage == {"a": (3, 6), "b": (3, 6)}


@pytest.mark.parametrize(
    "column", ["judge_model", "model_answer", "system_prompt", "embedding_model", "modelling", "eval.model", "date"]
)
def test_a_column_of_something_else_is_not_the_system(column: str) -> None:
    assert not names_system(column)


def test_blank_fields_are_counted_where_a_prompt_holds_them(tmp_path: Path) -> None:
    rows = [row(1), row(2, reference=" "), row(3, reference="", question="\n"), row(4, own="")]
    result = judged(tmp_path, rows)
    place = f"{tmp_path}/a.jsonl"
    assert result.facts.blank == {"reference": (2, 4, f"{place}:2"), "question": (1, 4, f"{place}:3")}
    assert judged(tmp_path, rows[:1]).facts.blank == {}
    message = failure(tmp_path, path=lines(tmp_path / "a.jsonl", rows[1:3]).name)
    assert message.startswith(
        f"{place}:1: reference (column 'reference') is blank, as in every row whose prompt uses it"
    )
    # Left out later, it does not count.
    assert judged(tmp_path, [rows[0], rows[1], rows[1], row(5)]).facts.blank["reference"][:2] == (1, 3)


NOTHING: list[Any] = [
    "",
    " \n",
    "\u200b",
    "\u3000\u00ad",
    [],
    [""],
    {},
    {"text": " "},
    "[]",
    '[""]',
    "['']",
    "{}",
    '""',
    [[], None],
]
WORDS: list[Any] = [
    "nan",
    " None",
    "N/A",
    "<NA>",
    "(null)",
    "'NaN'",
    "\u200bnull",
    "n.a.",
    ["nan"],
    [None, "NA"],
    "[None]",
]
SOMETHING: list[Any] = [
    0,
    False,
    "0",
    "no",
    "-",
    "[1]",
    '{"a": 1}',
    ["x", ""],
    "Nan is bread",
    "nano",
    "[] is a list",
    "None of them",
]


def test_what_says_nothing_is_seen_in_whatever_clothes() -> None:
    assert [value for value in NOTHING if not is_blank(value) or is_missing_word(value)] == []
    assert [value for value in WORDS if is_blank(value) or not is_missing_word(value)] == []
    assert [value for value in SOMETHING if is_blank(value) or is_missing_word(value)] == []


def test_blank_and_missing_values_are_counted_in_every_field_that_is_sent(tmp_path: Path) -> None:
    rows = [row(n, reference=value) for n, value in enumerate([*NOTHING, *WORDS, *SOMETHING])]
    facts = judged(tmp_path, rows).facts
    place, rows_before = f"{tmp_path}/a.jsonl", len(NOTHING)
    assert facts.blank == {"reference": (len(NOTHING), len(rows), f"{place}:1")}
    assert facts.missing_fields == {"reference": (len(WORDS), len(rows), f"{place}:{rows_before + 1}")}
    pairs = [row(n, other_response=value) for n, value in enumerate(["", "nan", "b"])]
    facts = staged(tmp_path, library("choice-ab"), path=lines(tmp_path / "a.jsonl", pairs).name).facts
    assert facts.blank == {"other_response": (1, 3, f"{place}:1")}
    assert facts.missing_fields == {"other_response": (1, 3, f"{place}:2")}


def test_only_a_question_or_reference_must_not_be_blank_everywhere(tmp_path: Path) -> None:
    pairs = [row(n, other_response="") for n in range(2)]
    facts = staged(tmp_path, library("choice-ab"), path=lines(tmp_path / "a.jsonl", pairs).name).facts
    assert facts.blank == {"other_response": (2, 2, f"{tmp_path}/a.jsonl:1")}
    missing = [row(n, reference="None") for n in range(2)]
    assert judged(tmp_path, missing).facts.missing_fields["reference"][:2] == (2, 2)
    for name in ("question", "reference"):
        path = lines(tmp_path / "a.jsonl", [row(1, **{name: [""]})]).name
        assert f"map items.fields.{name} to the column" in failure(tmp_path, path=path)


def test_an_invisible_answer_is_an_empty_one(tmp_path: Path) -> None:
    assert judged(tmp_path, [row(1, response="\u200b\ufeff"), row(2)]).empty == {"default": 1}


def test_lists_written_as_text_are_counted(tmp_path: Path) -> None:
    texts = ['["a"]', "['a', 'b']", '{"text": "a"}', "[sic] a", "{a}", "x", ""]
    facts = judged(tmp_path, [row(n, response=text) for n, text in enumerate(texts)]).facts
    assert (facts.written_lists, facts.texts) == (3, 6)


def test_words_for_a_missing_value_are_counted_by_system(tmp_path: Path) -> None:
    words = ["nan", "None", "null", " NA", "N/A", "<NA>", "Nan is bread", "0", ""]
    rows = [row(n, response=text, system="ab"[n % 2]) for n, text in enumerate(words)]
    assert judged(tmp_path, rows).facts.missing_words == {"a": 3, "b": 3}


def test_responses_that_are_the_reference_are_counted(tmp_path: Path) -> None:
    same = [("r", "r"), (" R. ", "r"), ("r", ["r"]), ("4", 4), ("ÉTÉ", "été!")]
    other = [("x", "r"), ("r", ["r", "s"]), ("r s", "r")]
    rows = [row(n, response=text, reference=reference) for n, (text, reference) in enumerate([*same, *other])]
    facts = judged(tmp_path, [*rows, row(9, response="", reference="x")]).facts
    assert (facts.references_repeated, facts.referenced) == (5, 7)


def test_one_order_of_two_responses_is_seen(tmp_path: Path) -> None:
    rows = [row(n, other_response="b") for n in range(4)]
    choice = library("choice-ab")
    path = lines(tmp_path / "a.jsonl", rows).name
    assert staged(tmp_path, choice, path=path).facts.one_order == {"choice-ab": 4}
    turned = [{**e, "id": f"t{e['id']}", "response": "b", "other_response": e["response"]} for e in rows]
    path = lines(tmp_path / "a.jsonl", rows + turned).name
    assert staged(tmp_path, choice, path=path).facts.one_order == {}
    assert staged(tmp_path, path=path).facts.one_order == {}


def pair_judge(bind: str, places: tuple[str, str], labels: str = "[good, bad]") -> Judge:
    reads = f"{{kind: choice, labels: {labels}}}"
    text = " ".join(["Q {question}", *(f"{{{place}}}" for place in places)])
    return tiny(f"name: pair\nreads: {reads}\nbind: {bind}\ntemplates: {{only: '{text}'}}\nroute: [{{template: only}}]")


@pytest.mark.parametrize(
    ("judge", "other"),
    [
        (pair_judge("{answer_a: response, answer_b: rival}", ("answer_a", "answer_b")), "rival"),
        (pair_judge("{first: response, second: rival}", ("first", "second")), "rival"),
        (pair_judge("{our_text: response, text: completionB}", ("our_text", "text")), "completionB"),
        (pair_judge("{ours: response, rival: rival}", ("ours", "rival"), "[A, B]"), "rival"),
        (pair_judge("{ours: response, rubric: rubric}", ("ours", "rubric"), "[A, B]"), None),
        (pair_judge("{ours: response, other: reference}", ("ours", "other"), "[A, B]"), None),
        (library("choice-ab"), "other_response"),
        (library("yes-no"), None),
    ],
)
def test_which_fields_are_compared_is_seen_by_the_judge(judge: Judge, other: str | None) -> None:
    pairs = [compared_fields(judge, template) for template in judge.templates]
    assert pairs == [other and ("response", other)]


def test_the_other_response_is_a_text_too(tmp_path: Path) -> None:
    judge = pair_judge("{answer_a: response, answer_b: rival}", ("answer_a", "answer_b"))
    rows = [row(1, rival=["a"])]
    path = lines(tmp_path / "a.jsonl", rows).name
    assert "'rival' (column 'rival') is a list, not a text: map a path inside it, as in rival: rival.0" in failure(
        tmp_path, judge, path=path
    )
    assert staged(tmp_path, judge, path=path, fields={"rival": "rival.0"}).facts.one_order == {"pair": 1}
    assert staged(tmp_path, path=path).rows == 1


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


def test_counts_are_of_the_rows_that_are_judged(tmp_path: Path) -> None:
    odd = {"reference": "", "response": "nan"}
    rows = [row(n, system="a", question_id=n, **({"response": "x"} if n else odd)) for n in range(3)]
    rows += [row(n, system="b", question_id=n - 3, **(odd if n % 2 else {"response": ""})) for n in range(3, 9)]
    of = config(path=lines(tmp_path / "a.jsonl", [rows[1], *rows]).name)
    limited = stage(of, [library("yes-no")], tmp_path, tmp_path / "one", limit=3)
    assert (limited.rows, limited.limit, limited.empty, limited.several) == (9, 3, {}, {})
    assert (limited.coverage, limited.beyond_limit) == ({"a": (3, 3)}, ["b"])
    assert limited.judges["yes-no"]["trials"] == 3
    assert limited.facts.blank == {"reference": (1, 3, f"{tmp_path}/a.jsonl:2")}
    assert limited.facts.missing_words == {"a": 1}
    more = stage(of, [library("yes-no")], tmp_path, tmp_path / "two", limit=5)
    assert (more.coverage, more.empty, more.beyond_limit) == ({"a": (3, 3), "b": (2, 3)}, {"b": 1}, [])


def test_coverage_is_of_the_sample(tmp_path: Path) -> None:
    rows = [row(n, id=f"{system}{n}", system=system, question_id=n) for system in "ab" for n in range(10)]
    of = config(path=lines(tmp_path / "a.jsonl", rows).name)
    drawn = stage(of, [library("yes-no")], tmp_path, tmp_path / "one", Sample(6, 1))
    assert (drawn.rows, drawn.coverage) == (6, {"a": (3, 3), "b": (3, 3)})


def test_an_item_error_leaves_nothing_behind(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, reference="")])
    with pytest.raises(ItemError, match="is blank, as in every row"):
        staged(tmp_path, path="a.jsonl")
    assert not (tmp_path / "run" / "items").exists()
