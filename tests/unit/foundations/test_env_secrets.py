"""Secrets in what a model's `extra` sends: refused where they are written out, filled in where a `${NAME}` stands."""

from __future__ import annotations

from typing import Any

import pytest

from runner.config import parse_config
from runner.env_secrets import expand_variables, find_secret, referenced_variables
from runner.errors import ConfigError

SECRET = "s3cret-value"
SEARCH = {
    "type": "azure_search",
    "parameters": {"index_name": "i", "authentication": {"type": "api_key", "key": SECRET}},
}


def parsed(extra: dict[str, Any], **keys: Any) -> None:
    data = {"name": "m", "model": "m", "base_url": "http://127.0.0.1:1/v1", "extra": extra}
    parse_config({"name": "t", "items": {"path": "x.jsonl"}, "judges": ["yes-no"], "models": [data], **keys})


@pytest.mark.parametrize(
    ("extra", "place"),
    [
        ({"body": {"api_key": SECRET}}, "extra.body: api_key"),
        ({"body": {"data_sources": [SEARCH]}}, "extra.body: data_sources.0.parameters.authentication.key"),
        ({"body": {"connectionString": SECRET}}, "extra.body: connectionString"),
        ({"body": {"tokens": 3, "options": {"apiKey": SECRET}}}, "extra.body: options.apiKey"),
        ({"body": {"passwords": {"a": "x"}, "secrets": ["", SECRET]}}, "extra.body: secrets.1"),
        ({"body": {"store": f"mongodb://me:{SECRET}@host/db"}}, "extra.body: store"),
        ({"body": {"via": f"Bearer {SECRET}"}}, "extra.body: via"),
        ({"headers": {"api-key": SECRET}}, "extra.headers: api-key"),
        ({"headers": {"Authorization": SECRET}}, "extra.headers: Authorization"),
        ({"query": {"subscription-key": SECRET}}, "extra.query: subscription-key"),
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(extra: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(extra)
    assert f"{place} looks like a secret: put it in an environment variable, and write ${{ITS_NAME}}" in str(
        caught.value
    )
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {"max_completion_tokens": 5, "stop_token_ids": [1], "bad_words": ["a"], "skip_special_tokens": True},
        {"prompt_cache_key": "run-7", "eos_token": "</s>", "reasoning_effort": "low", "user": "me"},
        {"tools": [{"function": {"parameters": {"properties": {"key": {"type": "string"}}}}}]},
        {"chat_template": "{{ x | sort(key='a') }} Basic instructions: bearer of news, see https://a/b@c"},
        {"api-version": "7", "X-Team": "eval", "monkey": "x"},
        {"api_key": "${MY_KEY}", "Authorization": "Bearer ${MY_KEY}"},
    ],
)
def test_what_is_no_secret_may_be_written(value: dict[str, Any]) -> None:
    assert find_secret(value) is None


def test_variables_are_filled_in_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURYBOX_TESTS_A", f" {SECRET}\n")
    value = {"a": ["${JURYBOX_TESTS_A}", 1, None], "b": {"c": "Bearer ${JURYBOX_TESTS_A}"}, "d": "$JURYBOX_TESTS_A"}
    assert expand_variables(value) == {"a": [SECRET, 1, None], "b": {"c": f"Bearer {SECRET}"}, "d": "$JURYBOX_TESTS_A"}
    assert list(referenced_variables(value)) == ["JURYBOX_TESTS_A"] * 2


def test_a_variable_that_cannot_be_sent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JURYBOX_TESTS_A", raising=False)
    with pytest.raises(ConfigError, match="the environment variable JURYBOX_TESTS_A is not set"):
        expand_variables("${JURYBOX_TESTS_A}")
    monkeypatch.setenv("JURYBOX_TESTS_A", f"a\nX-Other: {SECRET}")
    with pytest.raises(ConfigError, match="JURYBOX_TESTS_A has odd characters") as caught:
        expand_variables("${JURYBOX_TESTS_A}")
    assert SECRET not in str(caught.value)
