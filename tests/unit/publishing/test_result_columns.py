"""The columns that a run's own items, judges and labels bring, and what other tools make of the files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars as pl
import pytest
from judged_run import Run, jsonl, judged_run, scored, unscored

from runner.dataset.field_kinds import MOST_FIELDS, FieldKinds
from runner.errors import InputError
from runner.ledger.ledger import Ledger
from runner.publishing import result_columns as module
from runner.publishing.export import export_results
from runner.publishing.parquet_writer import publish_results
from runner.publishing.result_columns import RESERVED_WORDS, without_texts
from runner.publishing.result_frames import ATTEMPT_COLUMNS, COLUMNS, attempt_frames, judgment_frames, result_columns

HUGE = 123456789012345678901234567890
REPLY = json.dumps({"reason": "It is, wie gesagt,\nright \ud83d.", "correct": True, "score": 4})
ITEMS = {
    "path": "items.jsonl",
    "fields": {"id": "ticket", "system": "who", "response": "said", "group": "kind"},
    "labels": {
        "correct": {"field": "human"},
        "stars": {"field": "stars", "type": "ordinal", "of": "score"},
    },
}


def item(number: int, **more: Any) -> dict[str, Any]:
    return {
        "ticket": f"t{number}", "who": "A", "kind": "mail", "question": "Why,\nthough?", "reference": ["a", "b"],
        "said": f"answer {number}", "human": "yes", "stars": number, "mood": None, "order": 2 * number, "Judge": "Kim",
        "score_correct": 0.5, "urgent": number == 0, "price": [1, 2.5][number % 2], "tags": ["x"],
        "mixed": ["text", 7, HUGE][number % 3], "empty": None, **more,
    }  # fmt: skip


def made(tmp_path: Path, rows: list[dict[str, Any]], **settings: Any) -> Run:
    jsonl(tmp_path / "items.jsonl", rows)
    values = json.dumps({"correct": 1.0, "score": 4.0})
    ended = scored(True, verdict='{"correct": true, "score": 4}', scores=values, reply=REPLY)
    return judged_run(
        tmp_path,
        ITEMS,
        lambda row: unscored("malformed", "conflict") if row["id"] == "t2" else dict(ended),
        judges=["correct-and-score"],
        **settings,
    )


def whole(run: Run, **keywords: Any) -> pl.DataFrame:
    columns = result_columns(run.config, run.judges, run.staged, **keywords)
    return pl.concat(judgment_frames(run.staged, run.ledger, run.config, run.judges, columns=columns))


def test_a_row_holds_its_item_and_what_came_of_it_in_typed_columns(tmp_path: Path) -> None:
    frame = whole(made(tmp_path, [item(number) for number in range(3)]))
    first, _, third = frame.iter_rows(named=True)
    own = [
        *("item_id", "question_id", "system", "item_group", "question", "response", "reference"),
        *("item_Judge", "empty", "mixed", "mood", "item_order", "price", "item_score_correct", "tags", "urgent"),
    ]
    assert frame.columns[: len(own)] == own
    flat = ["score_correct", "score_score", "label_correct", "label_stars", "verdict_reason"]
    assert frame.columns[len(own) :][:10] == ["judge", "model", "repeat", "state", "reason", *flat]
    assert [first[name] for name in own] == [
        *("t0", "t0", "A", "mail", "Why,\nthough?", "answer 0", '["a", "b"]'),
        *("Kim", None, "text", None, 0, 1.0, 0.5, '["x"]', True),
    ]
    assert third["mixed"] == str(HUGE)
    types = {name: frame.schema[name] for name in ("item_order", "price", "urgent", *flat[:4], "input_tokens")}
    assert list(types.values()) == [pl.Int64, pl.Float64, pl.Boolean, pl.Int64, pl.Int64, pl.Boolean, *[pl.Int64] * 2]
    assert [first[name] for name in flat] == [1, 4, True, 0, "It is, wie gesagt,\nright \\ud83d."]
    assert [third[name] for name in flat] == [None, None, True, 2, None]
    assert first["judge_reply"] == REPLY


def test_texts_can_be_left_out(tmp_path: Path) -> None:
    run = made(tmp_path, [item(number) for number in range(3)])
    publish_results(run.path, run.config, run.judges, run.staged, run.ledger)
    frame = whole(run, texts=False)
    assert frame.columns == without_texts(whole(run).schema)
    assert frame.columns[4:8] == ["item_order", "price", "item_score_correct", "urgent"]
    assert not {"question", "response", "tags", "judge_reply", "reasoning_text", "verdict_reason"} & set(frame.columns)
    assert {"score_correct", "label_stars", "verdict", "reason"} < set(frame.columns)
    written = tmp_path / "small.parquet"
    of = run.config, run.judges, run.staged, run.ledger
    export_results(*of, format="parquet", to=written, texts=False)
    assert pl.read_parquet(written).columns == frame.columns
    with pytest.raises(InputError, match="--no-texts: rows of --format longmemeval hold the response"):
        export_results(*of, format="longmemeval", texts=False)


def test_long_texts_make_frames_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [item(number, said="x" * 5_000 + str(number)) for number in range(100)]
    run = made(tmp_path, rows, size=10, models=["m1", "m2"])
    monkeypatch.setattr(module, "LEAST_ROWS", 10)
    monkeypatch.setattr(module, "MOST_BYTES", 200_000)
    columns = result_columns(run.config, run.judges, run.staged)
    assert 25 < columns.rows_per_frame < 45
    cut = list(judgment_frames(run.staged, run.ledger, run.config, run.judges, columns=columns))
    assert max(map(len, cut)) <= columns.rows_per_frame
    assert len(cut) > 4
    monkeypatch.setattr(module, "MOST_BYTES", 10**9)
    assert pl.concat(cut).equals(whole(run))


def test_other_tools_read_every_format_alike(tmp_path: Path) -> None:
    run = made(tmp_path, [item(number) for number in range(3)])
    of = run.config, run.judges, run.staged, run.ledger
    files = {form: tmp_path / f"all.{form}" for form in ("csv", "jsonl", "parquet")}
    for form, path in files.items():
        export_results(*of, format=form, to=path)  # type: ignore[arg-type]
    assert files["csv"].read_bytes()[:3] == b"\xef\xbb\xbf"
    want = [("t0", "Why,\nthough?", "answer 0", 1, 0), ("t1", "Why,\nthough?", "answer 1", 1, 2)]
    names = ["item_id", "question", "response", "score_correct", "item_order"]
    csv, lines, parquet = files.values()
    for frame in (pandas.read_csv(csv), pandas.read_json(lines, lines=True), pandas.read_parquet(parquet)):
        assert list(map(tuple, frame[names].head(2).to_numpy().tolist())) == want
    for table in (pl.read_csv(csv), pl.read_ndjson(lines), pl.read_parquet(parquet)):
        assert table.select(names).head(2).rows() == want
    for path in files.values():
        assert duckdb.execute(f"SELECT {', '.join(names)} FROM '{path}' LIMIT 2").fetchall() == want
    query = f"SELECT avg(score_correct), count(*) FILTER (label_correct), max(item_order) FROM '{files['parquet']}'"
    assert duckdb.execute(query).fetchall() == [(1.0, 3, 4)]


def test_a_cost_without_a_price_is_empty_and_not_nothing(tmp_path: Path) -> None:
    run = made(tmp_path, [item(0)])
    (model,) = run.config.models
    free = run.config.model_copy(update={"models": [model.model_copy(update={"price": None})]})
    run.ledger.close()
    with closing(sqlite3.connect(run.path / "run.db")) as db, db:
        db.execute("UPDATE judgments SET cost_usd = 0")
        db.execute("UPDATE attempts SET cost_usd = 0")
    with Ledger(run.path / "run.db", read_only=True) as ledger:
        for config, cost in ((run.config, 0.0), (free, None)):
            (judged,) = judgment_frames(run.staged, ledger, config, run.judges)
            (sent,) = attempt_frames(ledger, config=config)
            assert (judged["cost_usd"].to_list(), sent["cost_usd"].to_list()) == ([cost], [cost])


def test_no_column_is_a_word_of_sql() -> None:
    words = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
    reserved = {word for (word,) in duckdb.execute(words).fetchall()}
    assert reserved <= RESERVED_WORDS
    assert not RESERVED_WORDS & {*COLUMNS, *ATTEMPT_COLUMNS}


def test_columns_that_differ_in_case_alone_are_told_apart(tmp_path: Path) -> None:
    frame = whole(made(tmp_path, [item(0, Order=1, order=2, item_order=3, URGENT="now")]))
    found = frame.select("item_Order", "item_order_", "item_item_order", "URGENT", "item_urgent").row(0)
    assert sorted(map(str, found)) == ["1", "2", "3", "True", "now"]


def test_kinds_of_fields_are_gathered_over_rows() -> None:
    kinds = FieldKinds()
    kinds.add({"a": None, "b": 1, "c": True, "d": "x", "e": 1, "f": 2**63, "g": [1]})
    kinds.add({"b": 2.5, "c": 1, "d": None, "e": 2, "f": 1, "g": None, "h": 1.5})
    assert kinds.kinds() == {
        "a": "text", "b": "number", "c": "json", "d": "text", "e": "integer", "f": "json", "g": "json", "h": "number",
    }  # fmt: skip
    for number in range(1_000):
        kinds.add({f"key{number}": number})
    assert len(kinds.kinds()) == MOST_FIELDS
