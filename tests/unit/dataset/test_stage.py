"""Staging as a whole: each item once, routed and counted, in a directory that is replaced whole or not at all."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pytest
from stage_inputs import YES_NO, column, config, failure, fields, library, lines, rejects, row, staged, tiny

from runner.dataset import input_signature, load_staged
from runner.dataset import staged_items as stagedfiles
from runner.errors import ConfigError, ItemError

ROUTED = """
name: routed
description: Takes groups a and b only.
reads: {kind: yesno, verdict: correct}
templates: {first: "{question} {response}", second: "{reference} {response}"}
route: [{when: {group: a}, template: first}, {when: {group: b}, template: second}]
on_unrouted: %s
cautions:
  - {when: {question_id: {contains: _abs}}, say: no abstention prompt}
"""


def test_same_content_is_kept_once_and_counted(tmp_path: Path) -> None:
    first = row(1, human=True)
    again = dict(reversed(first.items()))
    lines(tmp_path / "a.jsonl", [first, row(2), again, row(3)])
    lines(tmp_path / "b.jsonl", [row(2), row(4), row(1, human=True, system="other")])
    result = staged(tmp_path, path="a.jsonl", labels={"correct": {"field": "human"}})
    assert (column(result, "id"), column(result, "row")) == (["i1", "i2", "i3"], [0, 1, 2])
    assert result.duplicates == 1
    assert result.judges["tiny"]["trials"] == 3
    result = staged(tmp_path, systems={"x": "a.jsonl", "y": "b.jsonl"})
    assert (result.rows, result.duplicates) == (6, 1)


@pytest.mark.parametrize(
    "change",
    [{"response": "other"}, {"human": False}, {"group": "g"}, {"question_id": "q"}, {"own": 1}, {"reference": 1}],
)
def test_same_id_with_different_content_names_both_places(tmp_path: Path, change: dict[str, Any]) -> None:
    base = row(1, human=True, reference=True, question_id="i1")
    lines(tmp_path / "a.jsonl", [row(0, question_id="i0"), base])
    lines(tmp_path / "b.jsonl", [row(2, question_id="i2"), {**base, **change}, base])
    items: dict[str, Any] = {"path": ["a.jsonl", "b.jsonl"], "labels": {"correct": {"field": "human"}}}
    message = failure(tmp_path, **items)
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    assert f"{b}:2: i1: the same system and id stand at {a}:2 with different content" in message
    result = staged(tmp_path, **items, on_bad="skip")
    assert (column(result, "id"), column(result, "row")) == (["i0", "i2"], [0, 1])
    assert (result.rejects, result.duplicates) == (3, 0)
    assert [entry[:3] for entry in rejects(result)] == [
        ("a.jsonl", 2, "i1"), ("b.jsonl", 2, "i1"), ("b.jsonl", 3, "i1"),
    ]  # fmt: skip
    assert result.coverage == {"default": (2, 2)}


def test_rows_that_stand_twice_are_found_past_all_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.dataset.deduplication._FLUSH_BYTES", 100)
    monkeypatch.setattr(stagedfiles, "GROUP_ROWS", 64)
    monkeypatch.setattr(stagedfiles, "FILE_ROWS", 256)
    rows = [row(number) for number in range(1000)]
    lines(tmp_path / "a.jsonl", [*rows, *rows[::3]])
    result = staged(tmp_path, path="a.jsonl")
    assert (result.rows, result.duplicates) == (1000, 334)
    assert column(result, "id") == [f"i{number}" for number in range(1000)]
    assert column(result, "row") == list(range(1000))
    assert result.judges["tiny"]["trials"] == 1000
    assert result.coverage == {"default": (1000, 1000)}


def test_the_first_ten_bad_rows_are_listed(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(0), *({"id": n, "response": "a"} for n in range(20))])
    message = failure(tmp_path, path="a.jsonl")
    assert message.startswith("the first 10 bad rows; nothing was asked\n")
    assert [line.split(":")[1] for line in message.splitlines()[1:-1]] == [str(number) for number in range(2, 12)]
    lines(tmp_path / "a.jsonl", [row(1), "{", row(2), "["])
    message = failure(tmp_path, path="a.jsonl")
    assert message.startswith("2 bad rows; nothing was asked\n")
    assert f"{tmp_path / 'a.jsonl'}:4: not JSON" in message


def test_no_item_left_is_an_error(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [b"", b"  "])
    assert "no item is left" in failure(tmp_path, path="a.jsonl")
    lines(tmp_path / "a.jsonl", ["{", "["])
    message = failure(tmp_path, path="a.jsonl", on_bad="skip")
    assert "no item is left: all 2 rows were rejected" in message
    assert "a.jsonl:2: not JSON" in message


def test_ids_that_no_terminal_prints_are_escaped(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [rb'{"id": "a\ud800", "response": "x"}'])
    assert r"a\ud800: column 'id'" in failure(tmp_path, path="a.jsonl")


def test_routes_cautions_and_what_a_judge_leaves_out_are_counted(tmp_path: Path) -> None:
    rows = [row(1, group="a"), row(2, group="b"), row(3, group="c"), row(4)]
    question_ids = ["q", "x_abs", "y_abs", "z"]
    lines(tmp_path / "a.jsonl", [{**r, "question_id": q} for r, q in zip(rows, question_ids, strict=True)])
    skip = tiny(ROUTED % "skip")
    result = staged(tmp_path, skip, tiny(), path="a.jsonl")
    assert column(result, "template:routed") == ["first", "second", None, None]
    assert column(result, "template:tiny") == ["only"] * 4
    assert result.judges["routed"] == {
        "trials": 2, "unrouted": 2, "cautions": {"no abstention prompt": 1}, "fingerprint": skip.fingerprint,
    }  # fmt: skip
    assert [result.trial_counts("routed", first, 2) for first in range(5)] == [2, 1, 0, 0, 0]
    message = failure(tmp_path, tiny(ROUTED % "error"), path="a.jsonl")
    assert "a.jsonl:3: i3: no route of judge 'routed' matches (group 'c')" in message
    assert "a.jsonl:4: i4: no route of judge 'routed' matches (group None)" in message


def test_counts_are_of_what_is_left(tmp_path: Path) -> None:
    twice = [row(1, group="a", question_id="x_abs", response=""), row(2, group="c", question_id="y")]
    lines(tmp_path / "a.jsonl", twice * 3)
    result = staged(tmp_path, tiny(ROUTED % "skip"), path="a.jsonl")
    counts = result.judges["routed"]
    assert (counts["trials"], counts["unrouted"], counts["cautions"]) == (1, 1, {"no abstention prompt": 1})
    assert result.empty == {"default": 1}


def test_missing_fields_name_judge_template_and_column(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1), row(2, reference=None), {"id": "i3", "response": "x", "question": "q"}])
    message = failure(tmp_path, path="a.jsonl")
    for line in (2, 3):
        assert f"a.jsonl:{line}: i{line}: judge 'tiny', template 'only': the row lacks 'reference'" in message


def test_empty_responses_follow_the_config(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1), row(2, response=None), row(3, response=" \n"), row(4, response=0)])
    for choice in ("judge", "wrong"):
        result = staged(tmp_path, path="a.jsonl", empty_response=choice)
        assert (result.rows, result.empty) == (4, {"default": 2})
    message = failure(tmp_path, path="a.jsonl", empty_response="error")
    assert "a.jsonl:2: i2: the response is empty" in message
    assert "a.jsonl:3: i3: the response is empty" in message


def test_empty_is_wrong_only_for_binary_judges(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1)])
    graded = tiny(YES_NO.replace("reads: {kind: yesno, verdict: correct}", GRADED))
    with pytest.raises(ConfigError, match="empty_response: wrong is for binary judges only; 'tiny' is not"):
        staged(tmp_path, graded, path="a.jsonl", empty_response="wrong")


GRADED = """
reads:
  kind: object
  verdict: [score]
  schema: {type: object, properties: {score: {type: number}}, required: [score], additionalProperties: false}
"""


def test_shipped_judges_route_by_group_and_question(tmp_path: Path) -> None:
    groups = ["single-session-user", "temporal-reasoning", "knowledge-update", "single-session-preference"]
    rows = [row(n, group=group) for n, group in enumerate(groups)] + [row(9, question_id="9_abs", group=groups[0])]
    lines(tmp_path / "a.jsonl", [{"question_id": entry["id"], **entry} for entry in rows])
    paper, hindsight = library("longmemeval-paper"), library("longmemeval-hindsight")
    result = staged(tmp_path, paper, hindsight, path="a.jsonl")
    assert len(set(column(result, "template:longmemeval-paper"))) == 5
    assert result.judges["longmemeval-paper"]["cautions"] == {}
    assert list(result.judges["longmemeval-hindsight"]["cautions"].values()) == [1]
    lines(tmp_path / "a.jsonl", [row(1, question_id="q_absolute", group=groups[0]), rows[-1]])
    result = staged(tmp_path, paper, path="a.jsonl")
    # As the published script does, whose README says otherwise.
    assert column(result, "template:longmemeval-paper") == ["abstention", "abstention"]
    assert list(result.judges["longmemeval-paper"]["cautions"].values()) == [1]


def test_slices_are_the_rows_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stagedfiles, "GROUP_ROWS", 7)
    monkeypatch.setattr(stagedfiles, "FILE_ROWS", 21)
    lines(tmp_path / "a.jsonl", [row(number, group="a" if number % 3 else "c") for number in range(100)])
    result = staged(tmp_path, tiny(ROUTED % "skip"), path="a.jsonl")
    assert len(list(result.directory.glob("*.parquet"))) == 5
    for first, rows in [(0, 100), (0, 1), (6, 2), (20, 2), (21, 21), (41, 50), (99, 1), (95, 50), (100, 5), (0, 0)]:
        want = list(range(100))[first : first + rows]
        assert result.frame(first, rows)["row"].to_list() == want
        assert result.frame(first, rows, ["id", "row"]).columns == ["id", "row"]
        assert result.trial_counts("routed", first, rows) == sum(1 for number in want if number % 3)


def test_row_groups_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stagedfiles, "GROUP_BYTES", 5_000)
    rows = [row(number, response="x" * 1_000 * (number % 3)) for number in range(50)]
    lines(tmp_path / "a.jsonl", rows)
    result = staged(tmp_path, path="a.jsonl")
    assert fields(result) == rows
    assert [result.frame(number, 1)["row"].to_list() for number in range(50)] == [[number] for number in range(50)]


def test_pandas_and_duckdb_read_the_items(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, group="g", response="日本 🙂", human=True), row(2, group="g", human=True)])
    result = staged(tmp_path, path="a.jsonl", labels={"correct": {"field": "human"}})
    whole = pandas.read_parquet(result.directory)
    assert [json.loads(text)["response"] for text in whole["fields"]] == ["日本 🙂", "a2"]
    query = f"SELECT item_group, fields->>'response', labels->>'correct' FROM '{result.directory}/*.parquet'"
    assert duckdb.execute(query).fetchall() == [("g", "日本 🙂", "true"), ("g", "a2", "true")]


def test_the_directory_is_private_and_tells_what_was_staged(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1), row(1), "{"])
    result = staged(tmp_path, path="a.jsonl", on_bad="skip")
    assert sorted(path.name for path in result.directory.iterdir()) == [
        "_rejects.jsonl",
        "_stage.json",
        "part-00000.parquet",
    ]
    assert stat.S_IMODE(result.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in result.directory.iterdir()} == {0o600}
    assert [path.name for path in result.directory.parent.iterdir()] == ["items"]
    again = load_staged(result.directory)
    assert again == result
    assert (again.rows, again.duplicates, again.rejects) == (1, 1, 1)
    assert again.frame(0, 9).equals(result.frame(0, 9))


def test_a_failure_leaves_the_old_directory_and_no_other(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1)])
    old = staged(tmp_path, path="a.jsonl")
    lines(tmp_path / "a.jsonl", [row(2), "{"])
    failure(tmp_path, path="a.jsonl")
    assert [path.name for path in old.directory.parent.iterdir()] == ["items"]
    assert column(load_staged(old.directory), "id") == ["i1"]


def test_a_crash_between_the_two_renames_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines(tmp_path / "a.jsonl", [row(1)])
    directory = staged(tmp_path, path="a.jsonl").directory
    lines(tmp_path / "a.jsonl", [row(2)])
    rename = Path.rename

    def crash(self: Path, target: Path) -> Path:
        if self.name == ".items.new":
            os._exit(9)
        return rename(self, target)

    child = os.fork()
    if child == 0:
        # A system that cannot exchange two names in one step.
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
        monkeypatch.setattr(Path, "rename", crash)
        staged(tmp_path, path="a.jsonl")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not directory.exists()
    assert column(load_staged(directory), "id") == ["i1"]
    assert column(staged(tmp_path, path="a.jsonl"), "id") == ["i2"]
    assert [path.name for path in directory.parent.iterdir()] == ["items"]


def test_what_is_not_staged_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ItemError, match="holds no staged items"):
        load_staged(tmp_path / "items")
    lines(tmp_path / "a.jsonl", [row(1)])
    directory = staged(tmp_path, path="a.jsonl").directory
    (directory / "_stage.json").write_text('{"version": 0}', encoding="utf-8")
    with pytest.raises(ItemError, match="staged items of version 0, and this jurybox reads version 4 only"):
        load_staged(directory)


def test_the_signature_changes_with_the_inputs_alone(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1)])
    lines(tmp_path / "ref.jsonl", [row(1)])
    items: dict[str, Any] = {"path": "*a.jsonl", "join": {"path": "ref.jsonl", "on": "id"}}
    first = input_signature(config(**items), tmp_path)
    assert staged(tmp_path, **items).signature == first == json.loads(json.dumps(first))
    assert load_staged(tmp_path / "run" / "items").signature == input_signature(config(**items), tmp_path)
    moved = tmp_path / "moved"
    shutil.copytree(tmp_path, moved)
    shutil.copystat(tmp_path / "a.jsonl", moved / "a.jsonl")
    assert input_signature(config(**items), moved) == first
    for name in ("a.jsonl", "ref.jsonl"):
        os.utime(tmp_path / name, ns=(1, 1))
        second = input_signature(config(**items), tmp_path)
        assert second != first
        first = second
    lines(tmp_path / "another-a.jsonl", [row(2)])
    assert input_signature(config(**items), tmp_path) != first
    assert input_signature(config(**items, on_bad="skip"), tmp_path) != input_signature(config(**items), tmp_path)
