"""Datasets as items: what the `datasets` library reads of a directory becomes rows, and what is wrong names its key."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from stage_inputs import column, config, fields, row, staged

from runner.dataset import input_signature
from runner.errors import ConfigError, InputError, ItemError

ROWS = [row(1, nested={"score": 0.5, "tags": ["a", None]}), row(2, nested={"score": None, "tags": []})]


@pytest.fixture(autouse=True)
def _nothing_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))


def dataset(folder: Path, **splits: list[dict[str, Any]]) -> Path:
    """A directory that is a dataset of JSON lines, a file for each split."""
    folder.mkdir(parents=True)
    for split, rows in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in rows), encoding="utf-8")
    return folder


def test_a_directory_is_read_split_by_split(tmp_path: Path) -> None:
    dataset(tmp_path / "set", train=[{**ROWS[0], "id": "i9"}], test=ROWS)
    assert fields(staged(tmp_path, hf={"path": "set", "split": "test"})) == ROWS
    result = staged(tmp_path, hf={"path": str(tmp_path / "set"), "split": "train"})
    assert column(result, "id") == ["i9"]


def test_configs_and_the_only_split_need_no_name(tmp_path: Path) -> None:
    base = tmp_path / "set"
    dataset(base / "one", test=[row(1)])
    dataset(base / "two", test=[row(2)])
    configs = "configs:\n- {config_name: first, data_dir: one}\n- {config_name: second, data_dir: two}\n"
    (base / "README.md").write_text(f"---\n{configs}---\n", encoding="utf-8")
    assert column(staged(tmp_path, hf={"path": "set", "config": "second"}), "id") == ["i2"]
    with pytest.raises(ConfigError, match=r"items.hf.config: must name one of set: first, second"):
        staged(tmp_path, hf={"path": "set"})
    with pytest.raises(ConfigError, match=r"items.hf.config: there is no config 'third' of set: first, second"):
        staged(tmp_path, hf={"path": "set", "config": "third"})


def test_values_become_what_json_can_hold_as_those_of_parquet_do(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    values = {"at": [moment, moment], "raw": [b"\xc3\xa9", b"\xff"], "day": [[{"d": datetime.date(2024, 2, 29)}]] * 2}
    rows = {name: [entry[name] for entry in (row(1), row(2))] for name in row(1)}
    (tmp_path / "set").mkdir()
    pyarrow.parquet.write_table(pyarrow.table(rows | values), tmp_path / "set" / "test.parquet")
    with pytest.raises(ItemError, match=r"set test:2: i2: a binary value is not UTF-8"):
        staged(tmp_path, hf={"path": "set", "split": "test"})
    result = staged(tmp_path, hf={"path": "set", "split": "test"}, on_bad="skip")
    day = [{"d": "2024-02-29"}]
    assert fields(result) == [row(1, at="2024-01-02T03:04:05+00:00", raw="é", day=day)]
    assert result.rejects == 1
    assert fields(result) == fields(staged(tmp_path, path="set/test.parquet", on_bad="skip"))


@pytest.mark.parametrize("several", [False, True], ids=["one split", "several splits"])
def test_what_save_to_disk_wrote_is_read(tmp_path: Path, several: bool) -> None:
    import datasets

    made = datasets.Dataset.from_list(ROWS)
    datasets.disable_progress_bars()
    try:
        (datasets.DatasetDict({"test": made}) if several else made).save_to_disk(str(tmp_path / "set"))
    finally:
        datasets.enable_progress_bars()
    assert fields(staged(tmp_path, hf={"path": "set"})) == ROWS
    problem = "there is no split 'dev' of set: test" if several else "saved as one split without a name"
    with pytest.raises(ConfigError, match=f"items.hf.split: .*{problem}"):
        staged(tmp_path, hf={"path": "set", "split": "dev"})


def test_images_are_left_out(tmp_path: Path) -> None:
    import datasets

    features = datasets.Features({**{name: datasets.Value("string") for name in row(1)}, "shown": datasets.Image()})
    picture = {"bytes": b"\x89PNG", "path": None}
    (tmp_path / "set").mkdir()
    table = pyarrow.Table.from_pylist([row(1, shown=picture)], schema=features.arrow_schema)
    pyarrow.parquet.write_table(table, tmp_path / "set" / "test.parquet")
    assert fields(staged(tmp_path, hf={"path": "set"})) == [row(1)]


def test_rows_are_streamed(tmp_path: Path) -> None:
    dataset(tmp_path / "set", test=[row(number) for number in range(3_000)])
    result = staged(tmp_path, hf={"path": "set"})
    assert result.rows == 3_000
    copied = list((tmp_path / "cache").rglob("*.arrow"))
    assert not copied, "the library copied the rows to its cache"


def test_the_signature_sees_every_changed_file(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "set", train=[row(1)], test=[row(2)])
    watched = config(hf={"path": "set", "split": "test"})
    before = input_signature(watched, tmp_path)
    assert input_signature(watched, tmp_path) == before
    (entry,) = before["files"]
    assert (entry["path"], entry["files"]) == ("set", 2)
    status = (folder / "test.jsonl").stat()
    os.utime(folder / "test.jsonl", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert input_signature(watched, tmp_path) != before
    assert input_signature(config(hf={"path": "set", "split": "train"}), tmp_path) != before


@pytest.mark.parametrize(
    ("hf", "problem"),
    [
        ({"path": "set"}, r"items.hf.split: must name one of set: train, test"),
        ({"path": "set", "split": "dev"}, r"items.hf.split: there is no split 'dev' of set: train, test"),
        ({"path": "set", "split": "test[:10]"}, r"items.hf.split: there is no split 'test\[:10\]' of set"),
        ({"path": "set", "split": "test", "revision": "main"}, "items.hf.revision: .*has no revisions"),
        ({"path": "./none", "split": "test"}, "items.hf.path: there is no directory .*none"),
        ({"path": "set/test.jsonl"}, "items.hf.path: .*test.jsonl is a file; name it under items.path"),
        ({"path": "empty"}, "items.hf: cannot be opened: .*doesn't contain any data files"),
        ({"path": "broken"}, "items.hf: broken test: cannot be read after row|items.hf: .*broken"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(tmp_path: Path, hf: dict[str, str], problem: str) -> None:
    dataset(tmp_path / "set", test=[row(1)], train=[row(2)])
    (tmp_path / "empty").mkdir()
    (dataset(tmp_path / "broken", test=[]) / "test.jsonl").write_text('{"id": "i1", \n', encoding="utf-8")
    with pytest.raises(InputError, match=problem):
        staged(tmp_path, hf=hf)
    assert not (tmp_path / "run" / "items").exists()


def test_without_the_extra_the_way_to_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.dataset.huggingface.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"items.hf needs the datasets library: pip install 'jurybox\[hf\]'"):
        staged(tmp_path, hf={"path": "set"})


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ({"hf": {"path": "a"}, "path": "b"}, "give one of path, systems and hf"),
        ({"hf": {"path": "a"}, "systems": {"x": "b"}}, "give one of path, systems and hf"),
        ({"hf": {"path": "a"}, "format": "jsonl"}, "format is for files"),
        ({"hf": {"path": "a", "name": "b"}}, "hf.name"),
        ({"hf": {}}, "hf.path"),
    ],
)
def test_a_wrong_config_is_told(items: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config(**items)
