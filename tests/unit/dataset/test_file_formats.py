"""Files that are not plain JSONL or CSV: what is read all the same, and what is told of the rest."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow
import pyarrow.feather
import pytest
from stage_inputs import config, failure, fields, lines, row, staged

from runner.dataset import item_sources
from runner.dataset.column_profile import profile_columns
from runner.errors import ConfigError, InputError

ROWS = [row(number) for number in range(3)]
TABLE = "id,question,reference,response\ni0,q0,r,a0\ni1,q1,r,a1\ni2,q2,r,a2\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_header_tells_what_parts_the_cells(tmp_path: Path, delimiter: str) -> None:
    (tmp_path / "a.csv").write_text(TABLE.replace(",", delimiter))
    assert fields(staged(tmp_path, path="a.csv")) == ROWS
    (tmp_path / "a.tsv").write_text(TABLE.replace(",", delimiter))
    assert fields(staged(tmp_path, path="a.tsv")) == ROWS


def test_a_comma_in_a_name_or_a_semicolon_beside_commas_parts_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,question,reference,response,"x;y;z;u;v"\ni0,q;,r,"a;0",1\n')
    (tmp_path / "b.csv").write_text('id\tquestion\treference\tresponse\t"x, y"\ni0\tq;\tr\ta;0\t1\n')
    for name, extra in (("a.csv", "x;y;z;u;v"), ("b.csv", "x, y")):
        assert fields(staged(tmp_path, path=name)) == [
            {"id": "i0", "question": "q;", "reference": "r", "response": "a;0", extra: "1"}
        ]


@pytest.mark.parametrize("name", ["a.arrow", "a.feather", "stream.arrow"])
def test_arrow_and_feather(tmp_path: Path, name: str) -> None:
    table = pyarrow.Table.from_pylist(ROWS)
    if name == "a.feather":
        pyarrow.feather.write_feather(table, tmp_path / name)
    else:
        writer = pyarrow.ipc.new_stream if name == "stream.arrow" else pyarrow.ipc.new_file
        with writer(tmp_path / name, table.schema) as opened:
            opened.write_table(table, max_chunksize=2)
    assert fields(staged(tmp_path, path=name)) == ROWS
    damaged = (tmp_path / name).read_bytes()[:100]
    (tmp_path / name).write_bytes(damaged)
    assert f"{name}:1: damaged Arrow file: " in failure(tmp_path, path=name)


def test_zstd(tmp_path: Path) -> None:
    plain = lines(tmp_path / "a.jsonl", ROWS).read_bytes()
    packed = pyarrow.compress(plain, codec="zstd", asbytes=True)
    (tmp_path / "b.jsonl.zst").write_bytes(packed)
    assert fields(staged(tmp_path, path="b.jsonl.zst")) == ROWS
    (tmp_path / "c.jsonl.zst").write_bytes(packed[: len(packed) // 2])
    assert "damaged file: " in failure(tmp_path, path="c.jsonl.zst")


def test_an_array_of_json_under_the_name_of_lines(tmp_path: Path) -> None:
    text = pl.DataFrame(ROWS).write_json()
    for start in ("", "\n "):
        (tmp_path / "a.jsonl").write_text(start + text.replace("[", "[\n"))
        assert fields(staged(tmp_path, path="a.jsonl")) == ROWS


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_with_what_converts_it(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(TABLE, encoding=encoding)
    assert failure(tmp_path, path="a.csv") == (
        f"{file}: not UTF-8 but UTF-16; this converts it: iconv -f UTF-16 -t UTF-8 {file} > {tmp_path}/a.utf8.csv"
    )


def test_latin_1_is_guessed_with_what_converts_it(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(TABLE.replace("a1", "größe"), encoding="latin-1")
    command = f"iconv -f WINDOWS-1252 -t UTF-8 {file} > {tmp_path}/a.utf8.csv"
    told = failure(tmp_path, path="a.csv")
    assert told.count(command) == 1 and "a.csv:3: not UTF-8 at byte" in told
    with pytest.raises(InputError, match="Latin-1") as caught:
        profile_columns(config(path="a.csv").items, tmp_path)
    assert caught.value.message.endswith(command)


def test_what_cannot_be_read_is_told_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").touch()
    (tmp_path / "data").mkdir()
    for name in ("b.csv", "a.csv", "notes.txt"):
        (tmp_path / "data" / name).touch()
    for path, told in (
        ("t.xlsx", "is a spreadsheet; save it as CSV (UTF-8), or: libreoffice --headless --convert-to csv"),
        ("data", "is a directory; it holds a.csv, b.csv; name its files, as in data/*.csv"),
    ):
        with pytest.raises(ConfigError) as caught:
            item_sources(config(path=path).items, tmp_path)
        assert told in caught.value.message
