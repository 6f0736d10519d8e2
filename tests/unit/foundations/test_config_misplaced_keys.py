"""A key that was written where it does not belong is told of without being told."""

from __future__ import annotations

from typing import Any

import pytest

from runner.config import parse_config
from runner.errors import ConfigError

KEY = "sk-canary-5up3rS3cretKey42"
MODEL = {"name": "m", "model": "m", "base_url": "http://127.0.0.1:1/v1"}


@pytest.mark.parametrize(
    ("slip", "place"),
    [
        ({"api_key": KEY}, "models.0.api_key: unknown key"),
        ({"api_key_env": KEY}, "must be the NAME of an environment variable"),
        ({"api_key_env": "gsk_" + KEY.replace("-", "_")}, "must be the NAME of an environment variable"),
        ({"api_key_file": KEY}, "must be the path of a file"),
        ({"base_url": f"http://user:{KEY}@127.0.0.1/v1"}, "must not hold credentials"),
        ({"base_url": f"http://{KEY}@127.0.0.1/v1"}, "must not hold credentials"),
        ({"base_url": f"http://127.0.0.1/v1?token={KEY}"}, "put a query into extra.query"),
        ({"base_url": f"http://127.0.0.1/v1#{KEY}"}, "put a query into extra.query"),
        ({"base_url": f"127.0.0.1/{KEY}"}, "must start with http"),
        ({"extra": {"headers": {"Authorization": f"Bearer {KEY}"}}}, "looks like a secret"),
        ({"extra": {"headers": {"X-Team": KEY}}}, "looks like a secret"),
        ({"extra": {"query": {"sig": KEY}}}, "looks like a secret"),
        ({"extra": {"body": {"sources": [{"password": KEY.removeprefix("sk-")}]}}}, "looks like a secret"),
        ({"account": {"key": KEY}}, "models.0.account: must be a text"),
    ],
)  # fmt: skip
def test_a_key_in_the_wrong_place_of_a_model(slip: dict[str, Any], place: str) -> None:
    document = {"name": "n", "items": {"path": "i.jsonl"}, "judges": ["yes-no"], "models": [MODEL | slip]}
    with pytest.raises(ConfigError) as caught:
        parse_config(document, "c.yaml")
    assert place in caught.value.message
    assert "canary" not in caught.value.message


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "hf_inference_endpoint_token", "SK_1"])
def test_the_name_of_a_variable_is_one(name: str) -> None:
    document = {"name": "n", "items": {"path": "i.jsonl"}, "judges": ["yes-no"]}
    config = parse_config({**document, "models": [MODEL | {"api_key_env": name}]}, "c.yaml")
    assert config.models[0].api_key_env == name


def test_a_key_in_a_publish_url() -> None:
    document = {"name": "n", "items": {"path": "i.jsonl"}, "judges": ["yes-no"], "models": [MODEL]}
    for url in (f"s3://AKIA:{KEY}@bucket/runs", f"https://user:{KEY}@host/runs"):
        with pytest.raises(ConfigError) as caught:
            parse_config({**document, "publish": url}, "c.yaml")
        assert "canary" not in caught.value.message
