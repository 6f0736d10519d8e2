"""What is asked of an endpoint to keep a reply's form, and what its answers to a harmless question show."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judges import Constraint, constraint_of, load_judge
from judges.reply_forms import ScoresReads
from runner.config import parse_config
from runner.endpoint.judge_model import JudgeModel, StructuredModes, judge_models
from runner.endpoint.structured_output import (
    Support,
    canary_body,
    effective_setting,
    harmless_body,
    is_enforced,
    judge_support,
    mechanism_of,
    mechanisms,
    mode_of,
    request_fields,
)
from runner.errors import ConfigError

SCHEMA = Constraint(schema={"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]})
CHOICE = Constraint(choices=("yes", "no"))
KEPT, LEFT, REFUSED = Support.ENFORCED, Support.IGNORED, Support.REFUSED


@pytest.mark.parametrize(
    ("judge", "model", "constraint", "tried"),
    [
        ("off", "auto", SCHEMA, ()),
        ("auto", "off", SCHEMA, ()),
        ("auto", "auto", SCHEMA, ("json_schema", "vllm", "json_object")),
        ("require", "auto", SCHEMA, ("json_schema", "vllm", "json_object")),
        ("auto", "json_object", SCHEMA, ("json_object",)),
        ("auto", "vllm", SCHEMA, ("vllm",)),
        # A bare word is no JSON.
        ("auto", "auto", CHOICE, ("vllm",)),
        ("auto", "json_schema", CHOICE, ()),
        ("auto", "json_object", CHOICE, ()),
        ("auto", "vllm", CHOICE, ("vllm",)),
    ],
)
def test_which_ways_are_tried(judge: str, model: str, constraint: Constraint, tried: tuple[str, ...]) -> None:
    assert mechanisms(effective_setting(judge, model, constraint), constraint) == tried


@pytest.mark.parametrize(
    ("found", "mode", "way"),
    [
        ({}, "off", None),
        ({"json_schema": KEPT}, "enforced:json_schema", "json_schema"),
        ({"json_schema": REFUSED, "vllm": KEPT}, "enforced:vllm", "vllm"),
        ({"json_schema": LEFT, "vllm": REFUSED, "json_object": KEPT}, "json_object", "json_object"),
        ({"json_schema": LEFT, "vllm": REFUSED, "json_object": REFUSED}, "ignored", None),
        ({"json_schema": REFUSED, "vllm": REFUSED, "json_object": REFUSED}, "refused", None),
    ],
)
def test_the_first_way_that_is_enforced_is_the_mode(found: dict[str, Support], mode: str, way: str | None) -> None:
    assert mode_of(found) == mode
    assert mechanism_of(mode) == way
    assert is_enforced(mode) == mode.startswith("enforced")


@pytest.mark.parametrize(
    ("way", "constraint", "text", "shows"),
    [
        ("json_schema", SCHEMA, '{"a": true}', KEPT),
        ("json_schema", SCHEMA, '{"a": "true"}', LEFT),
        ("json_schema", SCHEMA, "Hello!", LEFT),
        ("json_schema", SCHEMA, '{"a": tr', LEFT),
        ("json_schema", SCHEMA, None, LEFT),
        ("vllm", CHOICE, "no", KEPT),
        ("vllm", CHOICE, "No, hello!", LEFT),
        ("vllm", Constraint(pattern="(0|1)(,(0|1)){2}"), "0,1,1", KEPT),
        ("vllm", Constraint(pattern="(0|1)(,(0|1)){2}"), "0,1", LEFT),
        ("json_object", SCHEMA, '{"greeting": "hello"}', KEPT),
        ("json_object", SCHEMA, '["hello"]', LEFT),
    ],
)
def test_what_a_reply_to_the_canary_shows(way: str, constraint: Constraint, text: str | None, shows: Support) -> None:
    assert judge_support(way, constraint, text) is shows


def test_what_is_sent_for_each_way_and_kind() -> None:
    assert request_fields("json_schema", SCHEMA, "a judge/é")["response_format"]["json_schema"]["name"] == "a_judge__"
    assert request_fields("json_object", SCHEMA, "a") == {"response_format": {"type": "json_object"}}
    assert request_fields("vllm", SCHEMA, "a") == {"structured_outputs": {"json": SCHEMA.schema}}
    assert request_fields("vllm", CHOICE, "a") == {"structured_outputs": {"choice": ["yes", "no"]}}
    assert request_fields("vllm", Constraint(pattern="[01]"), "a") == {"structured_outputs": {"regex": "[01]"}}
    assert request_fields(None, SCHEMA, "a") == {}
    # OpenAI wants the word where it is asked for a JSON object.
    assert "JSON" in canary_body("json_object")[0]["content"]
    assert "JSON" in harmless_body("json_object")[0]["content"]
    assert "JSON" not in harmless_body("off")[0]["content"]


@pytest.mark.parametrize(
    ("scale", "count", "good", "bad"),
    [
        ({"low": 0, "high": 5}, 1, ["0", "5"], ["6", "-1", "4.5", "04", ""]),
        ({"low": 0, "high": 5}, 3, ["0,5,2"], ["0,5", "0,5,2,1", "0, 5, 2"]),
        ({"low": 1, "high": 10}, 2, ["10,1"], ["0,1", "11,1", "1,1,0"]),
        ({"low": 0, "high": 1, "step": 0.25}, 1, ["0", "0.25", "1"], ["0.3", "1.0", "0.250"]),
        ({"low": -2, "high": 2}, 1, ["-2", "0"], ["-3", "-0"]),
        ({"low": 0, "high": 1000}, 1, ["0", "999"], ["-1", "1.5", "007"]),
        ({"names": ["a", "b"], "low": 1, "high": 5}, 1, ["4,2"], ["4", "4,2,1"]),
    ],
)
def test_a_pattern_of_scores_lets_through_what_is_read_strictly(
    scale: dict[str, Any], count: int, good: list[str], bad: list[str]
) -> None:
    reads = ScoresReads.model_validate({"kind": "scores", **scale})
    pattern = constraint_of(reads, count).pattern
    assert pattern is not None
    counted = reads if reads.names else reads.counted(count)
    for text in good:
        assert re.fullmatch(pattern, text), text
        assert counted.strict(text) is not None, text
    for text in bad:
        assert re.fullmatch(pattern, text) is None, text


def pair(judge: str, tmp_path: Path, **model: Any) -> JudgeModel:
    config = parse_config(
        {"name": "t", "items": {"path": "x"}, "judges": [judge], "models": [{"name": "m", "model": "served", **model}]}
    )
    loaded = load_judge(judge, tmp_path)
    return judge_models(config, [loaded])[loaded.name, "m"]


def test_a_mode_decides_what_is_sent_and_no_key(tmp_path: Path) -> None:
    made = pair("longmemeval-hindsight", tmp_path)
    keys, sent = set(), {}
    for mode in ("off", "enforced:json_schema", "enforced:vllm", "json_object", "ignored", "refused"):
        settled = replace(made, mode=mode)
        keys.add(settled.key("s", "i", [{"role": "user", "content": "x"}], 0))
        body = settled.body([{"role": "user", "content": "x"}])
        sent[mode] = (sorted(set(body) & {"response_format", "structured_outputs"}), settled.json_hint)
    assert len(keys) == 1
    assert sent == {
        "off": ([], True),
        "enforced:json_schema": (["response_format"], False),
        "enforced:vllm": (["structured_outputs"], False),
        "json_object": (["response_format"], True),
        "ignored": ([], True),
        "refused": ([], True),
    }


def test_a_batch_is_asked_for_as_many_scores_as_it_holds(tmp_path: Path) -> None:
    text = load_judge("answer-correctness", tmp_path).source.replace("structured: off", "structured: auto")
    (tmp_path / "own.yaml").write_text(text)
    made = replace(pair("./own.yaml", tmp_path), mode="enforced:vllm")
    pattern = made.body([], count=7)["structured_outputs"]["regex"]
    assert re.fullmatch(pattern, "1,2,3,4,5,0,1")
    assert not re.fullmatch(pattern, "1,2,3,4,5,0")


def test_what_was_found_holds_for_later_sessions(tmp_path: Path) -> None:
    known = {("j", "m"): pair("longmemeval-hindsight", tmp_path), ("w", "m"): pair("yes-no", tmp_path)}
    modes, kept = StructuredModes(known), {}
    assert dict(modes) == {("w", "m"): "off"}
    key, value = modes.record(("j", "m"), "enforced:vllm")
    kept[key] = value
    assert dict(StructuredModes(known, kept.get)) == {("j", "m"): "enforced:vllm", ("w", "m"): "off"}
    # Another setting is another question.
    other = known | {("j", "m"): pair("longmemeval-hindsight", tmp_path, structured="json_object")}
    assert ("j", "m") not in StructuredModes(other, kept.get)
    off = known | {("j", "m"): pair("longmemeval-hindsight", tmp_path, structured="off")}
    assert StructuredModes(off, kept.get)["j", "m"] == "off"
    json.dumps(modes.document())


def test_a_judge_that_requires_what_a_model_is_not_asked_for_is_an_error(tmp_path: Path) -> None:
    text = load_judge("yes-no", tmp_path).source.replace("structured: off", "structured: require")
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(ConfigError, match="requires structured output"):
        pair("./own.yaml", tmp_path, structured="json_schema")
    assert pair("./own.yaml", tmp_path).required_fields == ("response_format", "structured_outputs")
