"""The JSON Schemas: what jurybox accepts they accept, and a wrong key they refuse; every key says what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from jsonschema import Draft202012Validator

from judges.strict_yaml import parse_value
from runner.config import RunConfig
from runner.session.json_schema import json_schema, schema_text, write_beside

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
LIBRARY = sorted((ROOT / "judges" / "library").glob("*.yaml"))
KINDS: tuple[Literal["config", "judge"], ...] = ("config", "judge")


def faults(kind: Literal["config", "judge"], data: Any) -> list[str]:
    """What an editor would underline."""
    return [
        f"{error.json_path}: {error.message}" for error in Draft202012Validator(json_schema(kind)).iter_errors(data)
    ]


@pytest.mark.parametrize("path", [*CONFIGS, *LIBRARY], ids=lambda path: path.stem)
def test_every_config_and_judge_of_the_project_fits(path: Path) -> None:
    data = parse_value(path.read_text(encoding="utf-8"), path.name)
    assert not faults("judge" if "templates" in data else "config", data)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_and_the_one_that_is_checked_in(kind: Literal["config", "judge"]) -> None:
    Draft202012Validator.check_schema(json_schema(kind))
    assert (ROOT / "docs" / "schemas" / f"{kind}.schema.json").read_text(encoding="utf-8") == schema_text(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_says_what_it_is(kind: Literal["config", "judge"]) -> None:
    schema = json_schema(kind)
    assert not [key for record in (schema, *schema["$defs"].values()) for key in silent(record)]


def silent(record: Mapping[str, Any]) -> Iterator[str]:
    """Keys without a description of their own or of the one mapping that they hold."""
    for key, value in record["properties"].items():
        if not {"description", "$ref", "const"} & value.keys() and "$ref" not in json.dumps(value):
            yield f"{record.get('title', record['description'])}: {key}"


def quickstart() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize(
    "change",
    [
        {"judges": ["yes-no", {"use": "./mine.yaml", "batch": 3}]},
        {"models": ["gpt-4o-mini"]},
        {"items": {"systems": {"a": "a.jsonl"}, "on_bad": "skip"}},
        {"items": {"hf": {"path": "org/name"}}},
        {"retry": {"reformat": "same", "max_outage": "2h"}, "budget": {"usd": 5}},
        {"retry": {"reformat": {"name": "small", "model": "small", "structured": False}}},
        {"workers": 3, "publish": "s3://bucket/folder", "controls": 0.02},
    ],
)
def test_what_a_config_may_say_fits(change: dict[str, Any]) -> None:
    data = quickstart() | change
    RunConfig.model_validate(data)
    assert not faults("config", data)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"judge": ["yes-no"]}, "'judge' was unexpected"),
        ({"workers": "many"}, "$.workers"),
        ({"models": []}, "$.models"),
        ({"items": {"path": 3}}, "$.items.path"),
        ({"retry": {"attempts": 0}}, "$.retry.attempts"),
    ],
)
def test_what_is_wrong_is_seen(change: dict[str, Any], said: str) -> None:
    assert said in " ".join(faults("config", quickstart() | change))


def test_one_beside_a_config_is_made_and_that_of_another_version_left_alone(tmp_path: Path) -> None:
    path = write_beside(tmp_path / "mine.yaml")
    assert path is not None and path.read_text(encoding="utf-8") == schema_text("config")
    assert write_beside(tmp_path / "other.yaml") == path
    path.write_text("{}", encoding="utf-8")
    assert write_beside(tmp_path / "other.yaml") is None
    assert path.read_text(encoding="utf-8") == "{}"
