"""The config that a run without a config file stands for; above all who gets which key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.config import parse_config
from runner.session.inline_config import RunArguments, inline_config, run_name


def model_of(**options: Any) -> Any:
    """The one model of the config, checked."""
    arguments = RunArguments(items="a.jsonl", judge="yes-no", model="gpt-4o-mini", **options)
    return parse_config(inline_config(arguments)).models[0]


def test_a_bare_model_means_what_it_means_in_a_config() -> None:
    written = {"name": "a", "items": {"path": "a.jsonl"}, "judges": ["yes-no"], "models": ["gpt-4o-mini"]}
    arguments = RunArguments(items="a.jsonl", judge="yes-no", model="gpt-4o-mini")
    assert parse_config(inline_config(arguments)) == parse_config(written)


@pytest.mark.parametrize(
    ("base_url", "key"),
    [
        (None, "OPENAI_API_KEY"),
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("http://127.0.0.1:8808/v1", None),
        ("https://api.openai.com.evil.example/v1", None),
        ("https://evil.example/api.openai.com/v1", None),
    ],
)
def test_no_endpoint_but_openais_gets_its_key_unless_it_is_named(base_url: str | None, key: str | None) -> None:
    assert model_of(base_url=base_url).api_key_env == key
    assert model_of(base_url=base_url, api_key_env="OTHER_KEY").api_key_env == "OTHER_KEY"


def test_everything_that_can_be_said_arrives() -> None:
    arguments = RunArguments(
        items=[Path("a.jsonl"), "b/*.csv"],
        judge=["yes-no", {"use": "answer-correctness", "batch": 5}],
        model=["m", {"name": "n", "model": "n-1", "base_url": "http://127.0.0.1:1/v1"}],
        base_url="http://127.0.0.1:2/v1",
        reference="q.jsonl",
        on="question_id",
        fields={"response": "answer"},
        labels={"correct": "human", "score": {"field": "grade", "type": "ordinal"}},
        name="mine",
        settings={"repeats": 2, "budget": {"usd": 1}},
    )
    data = inline_config(arguments)
    with pytest.raises(Exception, match=r"budget\.usd needs a price"):
        parse_config(data)
    del data["budget"]
    config = parse_config(data)
    assert (config.name, config.repeats) == ("mine", 2)
    assert config.items.path == ["a.jsonl", "b/*.csv"]
    assert config.items.join is not None
    assert (config.items.join.path, config.items.join.on) == ("q.jsonl", "question_id")
    assert config.items.fields == {"response": "answer"}
    assert {name: (label.field, label.type) for name, label in config.items.labels.items()} == {
        "correct": ("human", "bool"),
        "score": ("grade", "ordinal"),
    }
    assert [(use.use, use.batch) for use in config.judges] == [("yes-no", None), ("answer-correctness", 5)]
    assert [(m.name, m.base_url, m.api_key_env) for m in config.models] == [
        ("m", "http://127.0.0.1:2/v1", None),
        ("n", "http://127.0.0.1:1/v1", None),
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/answers.jsonl", "answers"),
        ("answers.jsonl.gz", "answers"),
        ("m.eval-results.jsonl", "m.eval-results"),
        ("logs/2024.eval", "2024"),
        ("answers/*.jsonl", "answers"),
        ("*.jsonl", "items"),
        ("s3://bucket/runs/a.parquet", "a"),
        ("https://host/a.csv?token=x", "a"),
        ("./../..", "items"),
        (".jsonl", "items"),
    ],
)
def test_the_run_is_named_after_its_items(path: str, name: str) -> None:
    assert run_name([path]) == name
