"""Items held in memory: every kind of table gives the same rows, values keep their type, errors name the position."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import os
import stat
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow
import pytest
from hypothesis import given as with_each
from hypothesis import settings
from hypothesis import strategies as st

from runner.dataset.in_memory import FILE, InMemoryItems, restate_errors
from runner.dataset.json_reader import json_lines
from runner.errors import ConfigError, ItemError

ROWS: list[dict[str, Any]] = [
    {"id": "a", "response": "one", "score": 3, "share": 0.5, "documents": ["x", "y"], "good": True},
    {"id": "b", "response": "", "score": 4, "share": None, "documents": [], "good": False},
]


def place(items: object, folder: Path) -> None:
    with closing(InMemoryItems(items)) as given:
        given.place(folder)


def written(items: object, folder: Path) -> list[Any]:
    """The rows that staging would read."""
    place(items, folder)
    data = (folder / FILE).read_bytes()
    return [row for _, row in json_lines(io.BufferedReader(io.BytesIO(data)))]


def pandas_frame() -> Any:
    return pytest.importorskip("pandas").DataFrame(ROWS)


def dataset() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("datasets").Dataset.from_list(ROWS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ROWS,
        lambda: tuple(ROWS),
        lambda: (row for row in ROWS),
        lambda: pl.DataFrame(ROWS),
        lambda: pl.DataFrame(ROWS).lazy(),
        lambda: pyarrow.Table.from_pylist(ROWS),
        pandas_frame,
        dataset,
    ],
    ids=["list", "tuple", "generator", "polars", "polars-lazy", "arrow", "pandas", "datasets"],
)
def test_every_kind_of_table_gives_the_same_rows(make: Any, tmp_path: Path) -> None:
    rows = written(make(), tmp_path)
    assert rows == ROWS
    assert [type(row["score"]) for row in rows] == [int, int]
    assert rows[0]["good"] is True


def test_what_pandas_lacks_is_missing_and_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "text": ["a", float("nan"), None],
            "number": pd.array([1, None, 3], dtype="Int64"),
            "when": pd.to_datetime(["2024-05-01", None, "2024-05-03"]),
            "vector": [pd.Series([1, 2]).to_numpy(), [float("nan"), 2.5], None],
        },
        index=[7, 8, 9],
    )
    assert written(frame, tmp_path) == [
        {"text": "a", "number": 1, "when": "2024-05-01T00:00:00", "vector": [1, 2]},
        {"text": None, "number": None, "when": None, "vector": [None, 2.5]},
        {"text": None, "number": 3, "when": "2024-05-03T00:00:00", "vector": None},
    ]


def test_a_long_frame_of_pandas_keeps_its_order(tmp_path: Path) -> None:
    frame = pytest.importorskip("pandas").DataFrame({"n": range(2_500)})
    assert [row["n"] for row in written(frame, tmp_path)] == list(range(2_500))


def test_values_that_json_lacks_become_text(tmp_path: Path) -> None:
    number = uuid.UUID(int=5)
    row = {
        "day": datetime.date(2024, 5, 1),
        "exact": decimal.Decimal("1.10"),
        "bytes": "ä".encode(),
        "uuid": number,
        "tuple": (1, (2,)),
    }
    assert written([row], tmp_path) == [
        {"day": "2024-05-01", "exact": "1.10", "bytes": "ä", "uuid": str(number), "tuple": [1, [2]]}
    ]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@with_each(st.lists(st.dictionaries(st.text(), VALUES, max_size=4), min_size=1, max_size=4))
def test_what_json_can_hold_arrives_as_it_was(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # As JSON, where True is not 1 and 1.0 is not 1.
        assert json.dumps(written(rows, Path(folder))) == json.dumps(rows)


class _Rows:
    """No table of any kind."""


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([], "items: there are none"),
        ([{"response": "x"}, "y"], "items[1]: a dict is wanted, not str"),
        ([{"response": "x"}] * 3 + [{"response": {1, 2}}], "items[3]: column 'response': a value of type set has no"),
        ([{"response": "x", "share": float("inf")}], "items[0]: column 'share': inf is not a value of JSON"),
        ([{1: "x"}], "items[0]: the name of a column must be a text, not 1"),
        ([{"response": {"a": {2: "x"}}}], "items[0]: column 'response': a key must be a text, not 2"),
        ([{"response": "\ud83d"}], "items[0]: holds half of a surrogate pair"),
        ([{"response": b"\xff"}], "items[0]: column 'response': a binary value is not UTF-8 at its byte 0"),
        ({"question": ["a"], "response": ["b"]}, "not one mapping (of 'question', 'response')"),
        (7, "items: a path, a list of dicts or a data frame is wanted, not int"),
        (_Rows(), "a data frame is wanted, not _Rows"),
    ],
)
def test_what_is_no_item_is_named_by_its_position(items: object, told: str) -> None:
    with pytest.raises(ItemError) as raised:
        InMemoryItems(items)
    assert told in raised.value.message


def test_what_is_nested_without_end_is_an_error() -> None:
    row: dict[str, Any] = {}
    row["itself"] = row
    with pytest.raises(ItemError, match=r"items\[0\]: column 'itself': is nested too deeply"):
        InMemoryItems([row])


def test_a_frame_that_names_a_column_twice_is_refused() -> None:
    frame = pandas_frame()
    frame.columns = ["id", "response", "x", "x", "y", "z"]
    with pytest.raises(ItemError, match="names a column twice"):
        InMemoryItems(frame)


def test_the_file_is_private_and_left_alone_while_it_holds_the_same(tmp_path: Path) -> None:
    place(ROWS, tmp_path)
    path = tmp_path / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.utime(path, ns=(5, 5))
    place(iter(ROWS), tmp_path)
    assert path.stat().st_mtime_ns == 5
    place(ROWS[:1], tmp_path)
    assert path.stat().st_mtime_ns != 5
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [FILE]


def digest_of(items: object) -> str:
    with closing(InMemoryItems(items)) as given:
        return given.digest


@settings(deadline=None)
@with_each(st.lists(st.dictionaries(st.text(), VALUES, max_size=3), min_size=1, max_size=4), st.randoms())
def test_rows_are_known_whatever_their_order_and_that_of_their_keys(rows: list[dict[str, Any]], random: Any) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, list):
            return [turned(entry) for entry in value]
        return {key: turned(value[key]) for key in reversed(value)} if isinstance(value, dict) else value

    shuffled = [turned(row) for row in rows]
    random.shuffle(shuffled)
    assert digest_of(shuffled) == digest_of(rows)
    assert digest_of([*rows, rows[0]]) != digest_of(rows)
    assert digest_of([*rows[1:], {**rows[0], "one more": 1}]) != digest_of(rows)


def test_what_stands_in_another_column_or_order_of_a_list_is_another_row() -> None:
    assert digest_of([{"a": 1, "b": 2}]) != digest_of([{"a": 2, "b": 1}])
    assert digest_of([{"a": [1, 2]}]) != digest_of([{"a": [2, 1]}])
    assert digest_of([{"a": 1}, {"b": 2}]) != digest_of([{"a": 1, "b": 2}])


def test_rows_in_another_order_are_written_anew(tmp_path: Path) -> None:
    assert written(ROWS, tmp_path) == ROWS
    assert written(ROWS[::-1], tmp_path) == ROWS[::-1]


def test_items_are_read_once(tmp_path: Path) -> None:
    taken = []

    def rows() -> Iterator[Mapping[str, Any]]:
        for row in ROWS:
            taken.append(row)
            yield row

    place(rows(), tmp_path)
    assert taken == ROWS


def test_errors_of_staging_are_told_with_positions(tmp_path: Path) -> None:
    place = tmp_path / FILE
    error = restate_errors(
        ItemError(f"1 bad row\n  {place}:4: b: {place}:12 says otherwise\n{place}: no item"), tmp_path
    )
    assert error.message == "1 bad row\n  items[3]: b: items[11] says otherwise\nitems: no item"
    assert type(restate_errors(ConfigError("x"), tmp_path)) is ConfigError
