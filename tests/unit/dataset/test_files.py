"""How rows are read from files: every format keeps values, and every fault has its place."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage_inputs import column, failure, fields, lines, rejects, row, staged

from runner.dataset import json_reader as jsonrows
from runner.errors import ConfigError

ROWS = [row(1, reference=3, extra={"b": [1.0, None], "a": True}), row(2, response="{} </think> \0 🙂 \u2028 {{x}}")]


def as_jsonl(path: Path) -> None:
    lines(path.with_suffix(".jsonl"), ROWS)


def as_jsonl_with_bom(path: Path) -> None:
    path.with_suffix(".jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(map(json.dumps, ROWS)).encode())


def as_ndjson_gz(path: Path) -> None:
    path.with_suffix(".ndjson.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode()))


def as_array(path: Path) -> None:
    path.with_suffix(".json").write_text(json.dumps(ROWS, ensure_ascii=False, indent=1), encoding="utf-8")


def as_array_gz(path: Path) -> None:
    path.with_suffix(".json.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf \n" + json.dumps(ROWS).encode() + b"\n "))


def as_lines_named_json(path: Path) -> None:
    lines(path.with_suffix(".json"), ROWS)


@pytest.mark.parametrize(
    "write",
    [as_jsonl, as_jsonl_with_bom, as_ndjson_gz, as_array, as_array_gz, as_lines_named_json],
    ids=lambda f: f.__name__,
)
def test_json_values_keep_type_and_bytes(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "a")
    result = staged(tmp_path, path="a.*")
    assert fields(result) == ROWS
    assert [type(value) for value in fields(result)[0]["extra"]["b"]] == [float, type(None)]


def test_whole_numbers_beyond_64_bits_stay_whole(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [row(1, reference=2**70, extra=1.5)])
    assert fields(staged(tmp_path, path="a.jsonl"))[0]["reference"] == 2**70


def test_csv_values_are_texts_and_may_hold_line_breaks(tmp_path: Path) -> None:
    text = '\ufeffid,question,reference,response\n7,q,1.50,"a\n""b"", c"\n\n8,q,,x\n'
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(text.replace("7", "9").replace("8", "10").encode()))
    result = staged(tmp_path, path=["a.csv", "b.csv.gz"])
    assert column(result, "id") == ["7", "8", "9", "10"]
    assert fields(result)[0] == {"id": "7", "question": "q", "reference": "1.50", "response": 'a\n"b", c'}


def test_parquet_values_become_what_json_can_hold(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "id": pyarrow.array([1], pyarrow.int32()),
            "question": ["q"],
            "reference": [datetime.date(2024, 2, 29)],
            "response": pyarrow.array(["yes"]).dictionary_encode(),
            "at": [datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)],
            "exact": [decimal.Decimal("1.10")],
            "raw": [b"\xc3\xa9"],
            "nested": [[{"score": 0.5, "day": datetime.date(2024, 1, 1)}]],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert fields(staged(tmp_path, path="a.parquet")) == [
        {
            "at": "2024-01-02T03:04:05+00:00",
            "exact": "1.10",
            "id": 1,
            "nested": [{"day": "2024-01-01", "score": 0.5}],
            "question": "q",
            "raw": "é",
            "reference": "2024-02-29",
            "response": "yes",
        }
    ]


def test_parquet_faults_name_file_and_row(tmp_path: Path) -> None:
    table = pyarrow.table(
        {"id": ["a", "b"], "question": ["q"] * 2, "reference": [1.0, float("nan")], "response": ["x"] * 2}
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert "a.parquet:2: b: nan is not a value of JSON" in failure(tmp_path, path="a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[: len(whole) // 2])
    assert "a.parquet:1: damaged Parquet file" in failure(tmp_path, path="a.parquet")


FAULTS = {
    "not JSON": (b'{"id": "x", }', None, "not JSON"),
    "no object": (b"[1]", None, "not a JSON object but a list"),
    "NaN": (b'{"id": "x", "response": NaN}', "x", "NaN is not a value of JSON"),
    "Infinity": (b'{"id": "x", "response": -Infinity}', "x", "-Infinity is not a value"),
    "huge": (b'{"id": "x", "response": 1e999}', "x", "the number 1e999 is too large"),
    "many digits": (b'{"id": "x", "response": ' + b"1" * 5000 + b"}", None, "not usable JSON"),
    "twice": (b'{"id": "x", "response": 1, "response": true}', "x", "'response' is given twice"),
    "half pair": (rb'{"id": "x", "response": "a \ud83d b"}', "x", "column 'response' holds half of a surrogate pair"),
    "encoded half": (b'{"id": "x", "response": "\xed\xa0\xbd"}', None, "not UTF-8 at byte"),
    "no UTF-8": (b'{"id": "x", "response": "\xff"}', None, "not UTF-8 at byte"),
}


@pytest.mark.parametrize(("bad", "item_id", "problem"), FAULTS.values(), ids=FAULTS)
def test_a_bad_line_stops_with_its_place_or_is_skipped(
    tmp_path: Path, bad: bytes, item_id: str | None, problem: str
) -> None:
    lines(tmp_path / "a.jsonl", [row(1), b"", bad, row(2)])
    message = failure(tmp_path, path="a.jsonl")
    assert f"a.jsonl:3: {item_id + ': ' if item_id else ''}" in message
    assert problem in message
    assert "on_bad: skip" in message
    assert not (tmp_path / "run" / "items").exists()
    result = staged(tmp_path, path="a.jsonl", on_bad="skip")
    assert column(result, "id") == ["i1", "i2"]
    assert result.rejects == 1
    assert [(entry[1], entry[2]) for entry in rejects(result)] == [(3, item_id)]


@pytest.mark.parametrize(
    ("bad", "item_id", "problem"), [fault for name, fault in FAULTS.items() if name not in ("not JSON", "many digits")]
)
def test_a_bad_element_of_an_array_is_told_by_its_line(
    tmp_path: Path, bad: bytes, item_id: str | None, problem: str
) -> None:
    elements = b",\n".join([json.dumps(row(1), indent=2).encode(), bad, json.dumps(row(2)).encode()])
    (tmp_path / "a.json").write_bytes(b"[\n" + elements + b"]")
    result = staged(tmp_path, path="a.json", on_bad="skip")
    assert column(result, "id") == ["i1", "i2"]
    ((file, line, known, told),) = rejects(result)
    assert (file, line, known) == ("a.json", 8, item_id)
    assert problem in told


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ('[{"id": "i"},\n{"id": }]', 2, "Expecting value"),
        ('[{"id": "i"},\n{"id": "j', 2, "Unterminated string"),
        ('[{"id": "i"}\n{"id": "j"}]', 2, "expecting ',' or ']'"),
        ('[{"id": "i"}]\n x', 2, "something follows the array"),
        ('"text"', 1, "holds no array"),
        ("", 1, "holds no array"),
        ("[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_a_broken_array_is_told_by_its_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    (tmp_path / "a.json").write_text(text.replace('{"id": "i"}', json.dumps(row(1))), encoding="utf-8")
    message = failure(tmp_path, path="a.json")
    assert f"a.json:{line}: " in message
    assert problem in message


def test_an_array_is_read_in_pieces_smaller_than_its_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonrows, "CHUNK", 7)
    rows = [row(number, response="ü🙂\n\\" * number, n=-1.5e-3, b=[None, False]) for number in range(40)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (tmp_path / "b.json").write_text(
        json.dumps([{**r, "id": r["id"] + "b"} for r in rows], ensure_ascii=False), "utf-8"
    )
    assert fields(staged(tmp_path, path="a.json")) == rows
    assert len(fields(staged(tmp_path, path=["a.json", "b.json"]))) == 80


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    rows=st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=5),
    chunk=st.integers(1, 40),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 0, 3]),
)
def test_an_array_reads_as_json_does_however_it_is_cut(
    rows: list[dict[str, Any]], chunk: int, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(rows, ensure_ascii=ascii_only, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonrows, "CHUNK", chunk)
        found = list(jsonrows.json_array(io.BufferedReader(io.BytesIO(text.encode()))))
    assert json.dumps([entry for _, entry in found]) == json.dumps(rows)
    starts = [number for number, line in enumerate(text.split("\n"), 1) if line.strip().startswith("{")]
    assert indent is None or all(line in starts for line, _ in found)


def test_bad_bytes_are_counted_from_the_start_of_the_file(tmp_path: Path) -> None:
    good = json.dumps(row(1), ensure_ascii=False).encode() + b"\n"
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + good + b'{"id": "\xff"}')
    place = 3 + len(good) + 8
    assert f"a.jsonl:2: not UTF-8 at byte {place} " in failure(tmp_path, path="a.jsonl")
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf[" + good + b',{"id": "\xff"}]')
    assert f"a.json:2: not UTF-8 at byte {place + 2} " in failure(tmp_path, path="a.json")
    (tmp_path / "a.csv").write_bytes(b"id,question,reference,response\n1,q,r,\xc3\n")
    assert "a.csv:2: not UTF-8 at byte 37 " in failure(tmp_path, path="a.csv")


def test_bad_csv_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b'id,question,reference,response\n1,q,r,x\n2,q,r\n3,q,r,x,y\n4,q,r,"x"y\n5,q,r,\xff\n6,q,r,"\n"\n7,q,r,"x'
    )
    result = staged(tmp_path, path="a.csv", on_bad="skip")
    assert column(result, "id") == ["1", "6"]
    assert [(line, known) for _, line, known, _ in rejects(result)] == [
        (3, "2"),
        (4, "3"),
        (5, None),
        (6, None),
        (9, None),
    ]
    (tmp_path / "a.csv").write_bytes(b"id,id,response\n1,2,3\n")
    assert "names a column twice" in failure(tmp_path, path="a.csv")


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.gz", "a.csv.gz"])
def test_a_cut_gzip_is_damage_after_the_rows_that_are_whole(tmp_path: Path, name: str) -> None:
    many = [row(number, extra=f"{number * 7919 % 10007:x}" * 9) for number in range(3000)]
    if name == "a.csv.gz":
        text = "\n".join(["id,question,reference,response,extra", *(",".join(map(str, r.values())) for r in many)])
    elif name == "a.json.gz":
        text = "[" + ",\n".join(map(json.dumps, many)) + "]"
    else:
        text = "\n".join(map(json.dumps, many))
    whole = gzip.compress(text.encode())
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    assert "damaged file" in failure(tmp_path, path=name)
    result = staged(tmp_path, path=name, on_bad="skip")
    assert 0 < result.rows < 3000
    assert result.rejects == 1
    (tmp_path / name).write_bytes(whole)
    assert staged(tmp_path, path=name).rows == 3000


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonrows, "MAX_ROW_BYTES", 200)
    monkeypatch.setattr(jsonrows, "CHUNK", 64)
    long = row(2, response="x" * 1000)
    lines(tmp_path / "a.jsonl", [row(1), long, row(3)])
    result = staged(tmp_path, path="a.jsonl", on_bad="skip")
    assert column(result, "id") == ["i1", "i3"]
    assert rejects(result) == [("a.jsonl", 2, None, "the line is longer than 200 bytes")]
    (tmp_path / "a.json").write_text(json.dumps([row(1), long]), encoding="utf-8")
    assert "a.json:1: not JSON: an element is longer than 200 bytes" in failure(tmp_path, path="a.json")


def test_globs_lists_and_systems(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, name in enumerate(["b", "a", "c"]):
        lines(tmp_path / "in" / f"{name}.jsonl", [row(number, system="own")])
    (tmp_path / "in" / ".hidden.jsonl").write_text("broken", encoding="utf-8")
    assert column(staged(tmp_path, path="in/*.jsonl"), "id") == ["i1", "i0", "i2"]
    assert column(staged(tmp_path, path=["in/c.jsonl", "in/*.jsonl"]), "id") == ["i2", "i1", "i0"]
    result = staged(tmp_path, systems={"x": "in/[ab].jsonl", "y": str(tmp_path / "in" / "a.jsonl")})
    assert column(result, "system") == ["x", "x", "y"]
    assert result.coverage == {"x": (2, 2), "y": (1, 2)}


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ({"path": "none.jsonl"}, "items.path: there is no file"),
        ({"path": ["a.jsonl", "none*.jsonl"]}, "items.path: no file matches"),
        ({"systems": {"x": "none.jsonl"}}, "items.systems.x: there is no file"),
        ({"systems": {"x": "a.jsonl"}, "fields": {"system": "model"}}, "either systems or fields.system"),
        ({"systems": {}}, "names no system"),
        ({"path": []}, "names no file"),
        ({"path": "."}, "is a directory"),
        ({"path": "a.txt"}, "tells no format"),
        ({"path": "https://example.org/a.jsonl"}, "local files, s3:// and gs:// URLs are read"),
        ({"path": "hf://datasets/a/b"}, "is named by items.hf"),
        ({"path": "a.jsonl", "join": {"path": "none.jsonl", "on": "id"}}, "items.join.path: there is no file"),
    ],
)
def test_wrong_paths_are_told_with_their_key(tmp_path: Path, items: dict[str, Any], problem: str) -> None:
    lines(tmp_path / "a.jsonl", [row(1)])
    (tmp_path / "a.txt").write_text(json.dumps(row(1)), encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        staged(tmp_path, **items)


def test_the_format_can_be_named(tmp_path: Path) -> None:
    lines(tmp_path / "a.txt", [row(1)])
    assert staged(tmp_path, path="a.txt", format="jsonl").rows == 1
    assert "holds no array" in failure(tmp_path, path="a.txt", format="json")
