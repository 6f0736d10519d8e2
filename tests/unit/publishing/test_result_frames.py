"""Results frames, their published files and exports, over real staged items and a real ledger."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
from judged_run import Run, jsonl, judged_run, scored, unscored

from runner.errors import InputError
from runner.publishing.export import Selection, export_results
from runner.publishing.parquet_writer import publish_results, write_parts
from runner.publishing.result_frames import ATTEMPT_COLUMNS, COLUMNS, attempt_frames, judgment_frames, result_columns
from runner.report import notices

HUGE = 123456789012345678901234567890


def rows(n: int = 40) -> list[dict[str, Any]]:
    return [
        {
            "id": f"i{k}",
            "question_id": f"q{k // 2}" + ("_abs" if k % 10 == 0 else ""),
            "system": "AB"[k % 2],
            "group": f"g{k % 3}",
            "question": f"Why {k}?",
            "reference": "because",
            "response": {3: "=cmd()", 5: "日本 🙂", 7: HUGE}.get(k, f"answer {k}"),
            "human": k % 4 < 2,
        }
        for k in range(n)
    ]


ITEMS = {
    "path": "items.jsonl",
    "fields": {"system": "system", "group": "group"},
    "labels": {"correct": {"field": "human", "type": "bool"}},
}


def ending(row: Any) -> Any:
    number = int(row["id"][1:])
    if number % 13 == 12:
        return None
    if number % 11 == 10:
        return unscored("malformed", "conflict", official=True)
    return scored(number % 2 == 0, official=number % 2 == 0, notes=("a note",) if number == 4 else ())


def made(tmp_path: Path, **keywords: Any) -> Run:
    jsonl(tmp_path / "items.jsonl", rows())
    settings: dict[str, Any] = {"models": ["m1", "m2"], "size": 7, "repeats": 2} | keywords
    return judged_run(tmp_path, ITEMS, ending, **settings)


def test_every_planned_trial_stands_once_in_the_frames(tmp_path: Path) -> None:
    run = made(tmp_path)
    found = run.rows()
    assert len(found) == 40 * 2 * 2
    assert len({(row["item_id"], row["model"], row["repeat"]) for row in found}) == len(found)
    by_item = {row["item_id"]: row for row in found if (row["model"], row["repeat"]) == ("m2", 1)}
    good = by_item["i4"]
    assert (good["state"], good["scores"], good["verdict"]) == (
        "scored", [{"key": "correct", "value": 1.0}], '{"correct": true}'
    )  # fmt: skip
    assert (good["labels"], good["notes"]) == ([{"key": "correct", "value": "true"}], ["a note"])
    assert (good["model_id"], good["served_model"], good["judge_reply"]) == ("m2-2024", "m2-served", "Yes.")
    assert (good["run"], good["item_group"], good["template"], good["judge"]) == ("small", "g1", "base", "yes-no")
    assert good["judge_fingerprint"] == run.judges["yes-no"].fingerprint
    assert (good["batch_size"], good["batch_position"], good["bisect_depth"]) == (1, 1, 0)
    assert (good["injection_suspect"], good["is_control"], good["injection_signs"]) == (False, False, [])
    assert len(good["key"]) == 32
    bad = by_item["i10"]
    assert (bad["state"], bad["reason"], bad["scores"], bad["official_reading"]) == (
        "malformed",
        "conflict",
        None,
        True,
    )
    undone = by_item["i12"]
    assert (undone["state"], undone["key"], undone["scores"], undone["official_reading"]) == (None, None, None, None)
    assert (undone["item_id"], undone["template"], undone["labels"]) == ("i12", "base", good["labels"])


def test_frames_are_the_same_however_they_are_cut(tmp_path: Path) -> None:
    run = made(tmp_path)
    whole = run.rows()
    cut = list(judgment_frames(run.staged, run.ledger, run.config, run.judges, rows_per_frame=25))
    assert len(cut) > 3
    assert all(len(frame) <= 25 for frame in cut)
    assert [row for frame in cut for row in frame.iter_rows(named=True)] == whole
    assert all(dict(frame.schema) == COLUMNS for frame in cut)
    only = run.rows(model="m2", rows_per_frame=25)
    assert only == [row for row in whole if row["model"] == "m2"]


def test_slices_follow_the_judges_conditions_on_ids_and_fields(tmp_path: Path) -> None:
    judge = """
name: mine
reads: {kind: yesno, verdict: correct}
route: [{when: {group: [g0, g1]}, template: base}]
on_unrouted: skip
templates: {base: "{question} {response} Is it correct? yes or no"}
slices: {by: group, also: {abstention: {question_id: {contains: _abs}}, third: {response: {contains: "answer 3"}}}}
"""
    (tmp_path / "mine.yaml").write_text(judge, encoding="utf-8")
    run = made(tmp_path, judges=["mine.yaml", "yes-no"], models=["m1"], repeats=1)
    found = run.rows(rows_per_frame=30)
    mine = {row["item_id"]: row["slices"] for row in found if row["judge"] == "mine"}
    assert set(mine) == {f"i{k}" for k in range(40) if k % 3 < 2}
    assert mine["i30"] == ["abstention", "third"]
    assert mine["i31"] == ["third"]
    assert mine["i10"] == ["abstention"]
    assert all(row["slices"] == [] for row in found if row["judge"] == "yes-no")
    report = run.report()
    assert report.planned == 27 + 40
    assert any("13 items" in notice and "mine" in notice for notice in notices(report))


def test_published_files_have_the_columns_and_replace_each_other(tmp_path: Path) -> None:
    run = made(tmp_path)
    for _ in range(2):
        publish_results(run.path, run.config, run.judges, run.staged, run.ledger)
        assert [path.name for path in (run.path / "results").iterdir()] == ["part-00000.parquet"]
    assert not [path.name for path in run.path.iterdir() if path.name.startswith(".")]
    assert pq.read_schema(run.path / "results/part-00000.parquet").names == list(columns_of(run))
    assert str(pq.read_schema(run.path / "results/part-00000.parquet").field("scores").type).startswith("map<string")
    assert pq.read_schema(run.path / "attempts/part-00000.parquet").names == list(ATTEMPT_COLUMNS)
    query = f"""
        SELECT count(*), sum(scores['correct']), count(*) FILTER (labels['correct'] = 'true' AND state IS NULL),
               count(DISTINCT key)
        FROM '{run.path}/results/*.parquet'
    """
    [(planned, correct, labelled, keys)] = duckdb.execute(query).fetchall()
    states = [row["state"] for row in run.rows()]
    assert (planned, keys) == (160, len(states) - states.count(None))
    assert correct == sum(row["scores"][0]["value"] for row in run.rows() if row["scores"])
    assert labelled == 4 * sum(k % 4 < 2 for k in (12, 25, 38))
    attempts = pl.read_parquet(run.path / "attempts/*.parquet")
    assert len(attempts) == keys
    assert attempts["keys"].list.len().to_list() == [1] * keys
    assert (run.path / "results").stat().st_mode & 0o777 == 0o700


def test_parts_are_bounded_and_an_empty_run_has_one(tmp_path: Path) -> None:
    run = made(tmp_path)
    small = judgment_frames(run.staged, run.ledger, run.config, run.judges, rows_per_frame=20)
    write_parts(tmp_path / "parts", small, COLUMNS, rows_per_part=30)
    names = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert names == [f"part-{n:05d}.parquet" for n in range(len(names))]
    assert len(names) > 2
    assert len(pl.read_parquet(tmp_path / "parts/*.parquet")) == 160
    write_parts(tmp_path / "parts", iter(()), COLUMNS)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["part-00000.parquet"]
    assert pl.read_parquet(tmp_path / "parts/*.parquet").shape == (0, len(COLUMNS))


def test_a_failed_publication_leaves_the_old_revision(tmp_path: Path) -> None:
    run = made(tmp_path)
    publish_results(run.path, run.config, run.judges, run.staged, run.ledger)
    before = (run.path / "results/part-00000.parquet").read_bytes()

    def breaking() -> Any:
        yield from judgment_frames(run.staged, run.ledger, run.config, run.judges, rows_per_frame=20)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_parts(run.path / "results", breaking(), COLUMNS)
    assert (run.path / "results/part-00000.parquet").read_bytes() == before
    publish_results(run.path, run.config, run.judges, run.staged, run.ledger)
    assert not [path.name for path in run.path.iterdir() if path.name.startswith(".")]


def test_attempts_are_read_in_slices(tmp_path: Path) -> None:
    run = made(tmp_path)
    cut = list(attempt_frames(run.ledger, rows_per_frame=11))
    assert sum(map(len, cut)) == sum(map(len, attempt_frames(run.ledger)))
    assert all(dict(frame.schema) == ATTEMPT_COLUMNS for frame in cut)


def columns_of(run: Run, **keywords: Any) -> dict[str, Any]:
    return result_columns(run.config, run.judges, run.staged, **keywords).schema


def exported(run: Run, tmp_path: Path, **keywords: Any) -> tuple[Any, Path]:
    path = tmp_path / "export"
    return export_results(run.config, run.judges, run.staged, run.ledger, to=path, **keywords), path


def test_jsonl_holds_every_column_as_json(tmp_path: Path) -> None:
    run = made(tmp_path)
    told, path = exported(run, tmp_path, format="jsonl", select=Selection(model="m1", system="A"))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert told.rows == len(lines) == 40
    assert {(line["model"], line["system"]) for line in lines} == {("m1", "A")}
    assert list(lines[0]) == list(columns_of(run))
    line = next(line for line in lines if line["item_id"] == "i4")
    assert (line["scores"], line["labels"], line["verdict"]) == ({"correct": 1.0}, {"correct": True}, {"correct": True})
    assert (line["response"], line["score_correct"], line["label_correct"]) == ("answer 4", 1, True)
    assert line["judged_at"] == "2001-09-09T01:46:40.250000Z"
    assert not (tmp_path / ".export.new").exists()


def test_csv_disarms_formulas_and_leaves_numbers_alone(tmp_path: Path) -> None:
    raw = rows()
    raw[0]["id"], raw[1]["group"] = "+i0", "-group"
    jsonl(tmp_path / "items.jsonl", raw)
    run = judged_run(tmp_path, ITEMS, lambda row: scored(True, latency_s=-1.5), models=["@m1"])
    told, path = exported(run, tmp_path, format="csv")
    found = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    assert told.rows == len(found) == 40
    assert (found[0]["item_id"], found[1]["item_group"], found[0]["model"]) == ("'+i0", "'-group", "'@m1")
    assert (found[0]["latency_s"], found[0]["judged_at"]) == ("-1.5", "2001-09-09 01:46:40")
    assert (found[3]["response"], found[5]["response"]) == ("'=cmd()", "日本 🙂")
    assert (found[0]["score_correct"], found[0]["label_correct"], found[0]["notes"]) == ("1", "true", "")
    assert found[2]["item_id"] == "i2"
    assert (json.loads(found[0]["scores"]), json.loads(found[0]["labels"])) == ({"correct": 1.0}, {"correct": True})


def test_parquet_export_equals_the_published_rows(tmp_path: Path) -> None:
    run = made(tmp_path)
    publish_results(run.path, run.config, run.judges, run.staged, run.ledger)
    _, path = exported(run, tmp_path, format="parquet")
    assert pl.read_parquet(path).equals(pl.read_parquet(run.path / "results/*.parquet"))
    with pytest.raises(InputError, match="--to"):
        export_results(run.config, run.judges, run.staged, run.ledger, format="parquet")


@pytest.mark.parametrize("reading", ["strict", "official"])
def test_longmemeval_rows_are_the_official_ones(tmp_path: Path, reading: Any) -> None:
    run = made(tmp_path)
    told, path = exported(
        run, tmp_path, format="longmemeval", select=Selection(model="m1", system="B"), reading=reading
    )
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    expected = [row for row in run.rows(model="m1") if row["system"] == "B" and row["repeat"] == 0]
    assert told.rows + told.left_out == len(expected) == 20
    # i25 is not done; i21 is malformed, and the official reading took its reply for a yes.
    assert told.left_out == {"strict": 2, "official": 1}[reading]
    assert lines[0] == {
        "question_id": "q0",
        "hypothesis": "answer 1",
        "autoeval_label": {"model": "m1-2024", "label": False},
    }
    texts = {line["question_id"]: line["hypothesis"] for line in lines}
    assert (texts["q1"], texts["q2"], texts["q3"]) == ("=cmd()", "日本 🙂", str(HUGE))


def test_longmemeval_leaves_out_rows_without_a_verdict_of_the_chosen_reading(tmp_path: Path) -> None:
    run = made(tmp_path)
    counts = {}
    for reading in ("strict", "official"):
        told, _ = exported(
            run, tmp_path, format="longmemeval", select=Selection(model="m1", system="A"), reading=reading
        )
        counts[reading] = (told.rows, told.left_out)
    # Two are not done (i12, i38); two are malformed (i10, i32), and the official reading took their replies for a yes.
    assert counts == {"strict": (16, 4), "official": (18, 2)}


def test_wrong_selections_name_the_choices(tmp_path: Path) -> None:
    run = made(tmp_path)
    with pytest.raises(InputError, match=r"choose one with --model: m1, m2"):
        exported(run, tmp_path, format="longmemeval")
    with pytest.raises(InputError, match=r"choose one with --system: A, B"):
        exported(run, tmp_path, format="longmemeval", select=Selection(model="m1"))
    with pytest.raises(InputError, match=r"no such judge; did you mean 'yes-no'"):
        exported(run, tmp_path, format="jsonl", select=Selection(judge="yes_no"))
    with pytest.raises(InputError, match="--state fail: must be of scored, malformed, refused, failed, poisoned"):
        exported(run, tmp_path, format="jsonl", select=Selection(states=("fail",)))
    with pytest.raises(InputError, match=r"--format longmemeval"):
        exported(run, tmp_path, format="jsonl", reading="official")
    assert not (tmp_path / "export").exists()


def test_export_to_stdout(tmp_path: Path, capfdbinary: Any) -> None:
    run = made(tmp_path)
    told = export_results(run.config, run.judges, run.staged, run.ledger, format="jsonl")
    assert len(capfdbinary.readouterr().out.splitlines()) == told.rows == 160
