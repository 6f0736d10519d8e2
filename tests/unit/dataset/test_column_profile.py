"""What a look at a file makes of its columns: types, roles, labels, and the config drafted from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from judges import library_names, load_judge
from runner.config import parse_config
from runner.dataset import item_sources
from runner.dataset.column_profile import ColumnProfile, common_columns, guess_columns, guess_labels, profile_columns
from runner.errors import InputError
from runner.items_config import Items
from runner.session.init_config import Draft, draft, scalar

JUDGES = [load_judge(name, Path()) for name in library_names()]


def look(folder: Path, rows: Iterable[Mapping[str, Any]], **items: Any) -> ColumnProfile:
    """A survey of rows written to a file."""
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return profile_columns(Items(path="rows.jsonl", **items), folder)


def columns(found: ColumnProfile) -> dict[str, str]:
    """Role → column."""
    return {role: guess.column for role, guess in guess_columns(found).items()}


def drafted(found: ColumnProfile) -> tuple[Draft, Any]:
    """The draft, and the config that it loads as."""
    made = draft(found, "drafted", {"path": "rows.jsonl"}, JUDGES)
    return made, parse_config(yaml.safe_load(made.text))


PAIRED = [
    {"id": n, "query": f"q{n // 2}", "gold": "g", "model": ("a", "b")[n % 2], "output": f"o{n}", "topic": f"t{n % 3}"}
    for n in range(12)
]


def test_roles_by_name_and_by_value(tmp_path: Path) -> None:
    found = look(tmp_path, PAIRED)
    assert found.complete and found.rows == 12
    assert columns(found) == {
        "question": "query",
        "reference": "gold",
        "response": "output",
        "system": "model",
        "group": "topic",
        "id": "id",
        "question_id": "query",
    }


def test_answer_is_what_the_other_columns_leave_open(tmp_path: Path) -> None:
    assert columns(look(tmp_path, [{"question": "q", "answer": "a", "golden_answer": "g"}]))["response"] == "answer"
    assert columns(look(tmp_path, [{"question": "q", "answer": "a", "hypothesis": "h"}]))["reference"] == "answer"
    assert "reference" not in columns(look(tmp_path, [{"question": "q", "answer": "a"}]))


def test_an_id_that_repeats_is_the_questions(tmp_path: Path) -> None:
    rows = [{"id": n // 3, "question": "q", "response": f"r{n}"} for n in range(9)]
    found = columns(look(tmp_path, rows))
    assert found["question_id"] == "id"
    assert "id" not in found
    own = columns(look(tmp_path, [{"question_id": n, "question": "q", "response": "r"} for n in range(3)]))
    assert (own["id"], own["question_id"]) == ("question_id", "question_id")


def test_equal_answers_are_told_apart_by_whatever_tells_them_apart(tmp_path: Path) -> None:
    rows = [{"question": f"q{n // 4}", "response": "r", "note": "n", "_file": f"f{n % 4}"} for n in range(16)]
    assert columns(look(tmp_path, rows))["system"] == "_file"
    unlike = [row | {"response": f"r{n}"} for n, row in enumerate(rows)]
    assert "system" not in columns(look(tmp_path, unlike))


def test_a_constant_or_a_text_of_its_own_in_every_row_is_no_group(tmp_path: Path) -> None:
    rows = [{"question": "q", "response": "r", "dataset": "NQ", "category": f"c{n}"} for n in range(20)]
    assert "group" not in columns(look(tmp_path, rows))


def test_labels_by_name_type_and_nesting(tmp_path: Path) -> None:
    rows = [
        {
            "response": "r",
            "autoeval": {"label": n % 2 == 0},
            "human": ("Yes", "No")[n % 2],
            "grade": n % 5,
            "verdict": ("good", "bad", "ugly")[n % 3],
            "is_long": n % 2 == 0,
            "constant": True,
            "price": 1.5,
        }
        for n in range(30)
    ]
    found = {guess.column: (guess.type, guess.named) for guess in guess_labels(look(tmp_path, rows), ["response"])}
    assert found == {
        "human": ("bool", True),
        "autoeval.label": ("bool", True),
        "verdict": ("choice", True),
        "grade": ("ordinal", True),
        "is_long": ("bool", False),
    }


def test_joined_columns_take_roles_and_no_row_is_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(
        "".join(json.dumps({"qid": n, "question": f"q{n}", "answer": "a"}) + "\n" for n in range(5)), encoding="utf-8"
    )
    rows = [{"qid": n, "hypothesis": f"h{n}"} for n in range(5)]
    found = look(tmp_path, rows, join={"path": "q.jsonl", "on": "qid"})
    assert found.joined == {"question", "answer"}
    assert columns(found) == {
        "question": "question",
        "reference": "answer",
        "response": "hypothesis",
        "id": "qid",
        "question_id": "qid",
    }
    own = item_sources(Items(path="rows.jsonl"), tmp_path)
    assert common_columns(own, item_sources(Items(path="q.jsonl"), tmp_path)) == ["qid"]


@pytest.mark.parametrize(
    ("row", "judge"),
    [
        ({"question": "q", "response": "r", "reference": "x"}, "yes-no"),
        ({"question": "q", "response": "r", "documents": ["one", "two"]}, "ragbench"),
        ({"question": "q", "response_a": "r", "response_b": "s"}, "choice-ab"),
        ({"question": "q", "hypothesis": "r", "answer": "x", "question_type": "multi-session"}, "longmemeval-paper"),
    ],
)
def test_the_judge_follows_from_the_fields(tmp_path: Path, row: dict[str, Any], judge: str) -> None:
    types = ["multi-session", "temporal-reasoning"]
    rows = [row | {"n": n} | ({"question_type": types[n % 2]} if "question_type" in row else {}) for n in range(8)]
    made, config = drafted(look(tmp_path, rows))
    assert (made.judge, made.missing) == (judge, [])
    assert [use.use for use in config.judges] == [judge]


def test_what_is_missing_is_said_and_the_config_loads_all_the_same(tmp_path: Path) -> None:
    made, config = drafted(look(tmp_path, [{"hypothesis": "r", "question_id": n} for n in range(3)]))
    assert made.missing == ["question", "reference"]
    assert config.items.fields == {"response": "hypothesis", "id": "question_id", "question_id": "question_id"}
    assert "MISSING" in made.text


def test_candidates_stand_as_comments_that_can_be_taken_in(tmp_path: Path) -> None:
    rows = [{"question": "q", "response": "r", "gold": "x", "human_correct": True, "grade": n} for n in range(4)]
    made, config = drafted(look(tmp_path, rows))
    assert {name: label.field for name, label in config.items.labels.items()} == {"correct": "human_correct"}
    taken = made.text.replace("  #   grade:", "    grade:")
    labels_ = parse_config(yaml.safe_load(taken)).items.labels
    assert (labels_["grade"].type, labels_["grade"].of) == ("ordinal", "correct")


def test_a_file_without_rows_or_with_a_bad_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no row"):
        look(tmp_path, [])
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n{"a": \n', encoding="utf-8")
    with pytest.raises(InputError, match=r"rows\.jsonl:2: "):
        profile_columns(Items(path="rows.jsonl"), tmp_path)


@pytest.mark.parametrize(
    ("values", "column", "meant"),
    [
        ("CI", "grade", {"C": True, "I": False}),
        ("CCN", "scores.match.value", {"C": True, "I": False, "N": False}),
        ("CIP", "grade", {}),
        ("CC", "grade", {}),
        ("AB", "grade", {}),
    ],
)
def test_letters_for_correct_and_incorrect(tmp_path: Path, values: str, column: str, meant: dict[str, bool]) -> None:
    found = guess_labels(look(tmp_path, [{"response": "r", column: value} for value in values]), ["response"])
    assert [guess.map for guess in found if guess.map] == ([meant] if meant else [])
    assert all(guess.type == ("bool" if meant else "choice") for guess in found)


def test_a_choice_beside_a_score_has_to_say_what_it_means(tmp_path: Path) -> None:
    rows = [{"question": f"q{v}", "response": v, "gold": "x", "verdict": v} for v in ("good", "bad")]
    made, _ = drafted(look(tmp_path, rows))
    taken = made.text.replace("  #   verdict:", "    verdict:").replace("  # labels:", "  labels:")
    taken = taken.replace("good: null", "good: true")
    label = parse_config(yaml.safe_load(taken)).items.labels["verdict"]
    assert (label.type, label.of, label.map) == ("bool", "correct", {"good": True, "bad": None})


def test_one_row_is_one_row(tmp_path: Path) -> None:
    assert look(tmp_path, [{"response": "r"}]).size == "1 row"
    assert look(tmp_path, [{"response": "r"}] * 2).size == "2 rows"


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable()))
def test_any_printable_column_name_survives_yaml(name: str) -> None:
    assert yaml.safe_load(f"field: {scalar(name)}") == {"field": name}
    assert yaml.safe_load(f"{{field: {scalar(name)}, type: bool}}") == {"field": name, "type": "bool"}


@settings(deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["answer", "response", "id", "a b", "yes", "x: y", "#", "label", "model", "on"]),
            st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=8) | st.lists(st.integers(), max_size=2),
            min_size=1,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_the_rows_hold_the_draft_loads(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    found = look(tmp_path_factory.mktemp("rows"), rows)
    _, config = drafted(found)
    assert set(config.items.fields.values()) <= set(found.columns)
