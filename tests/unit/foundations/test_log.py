from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from runner.errors import ConfigError
from runner.log import configure, redact


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_event_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    structlog.get_logger().info("shard_done", shard=12, n=64, model="gpt 4o", none=None)
    out, err = capsys.readouterr()
    assert out == ""
    stamp, rest = err.split(" ", 1)
    assert stamp.endswith("Z")
    assert rest == 'info shard_done shard=12 n=64 model="gpt 4o" none=\n'


def test_the_level_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    configure("warning")
    structlog.get_logger().info("shard_done")
    assert capsys.readouterr().err == ""


def test_the_variable_sets_level_and_form(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURYBOX_LOG", "debug,json")
    configure()
    structlog.get_logger().debug("lease", per_s=1.5, accounts=("a", "b"))
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["per_s"], event["accounts"]) == ("lease", 1.5, ["a", "b"])


def test_a_wrong_word_in_the_variable_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURYBOX_LOG", "loud")
    with pytest.raises(ConfigError, match="'loud' is none of"):
        configure()


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer canary-7f3a91",
        "{'authorization': 'Bearer canary-7f3a91', 'x': 1}",
        '{"api_key":"canary-7f3a91"}',
        "Incorrect API key provided: sk-canary-7f3a91.",
        "gsk_canary-7f3a91 hf_canary-7f3a91",
        "https://me:canary-7f3a91@host/v1",
        "GET /v1?api-version=2&key=canary-7f3a91",
        "x-api-key=canary-7f3a91",
    ],
)
def test_what_looks_like_a_key_is_hidden(text: str) -> None:
    assert "canary" not in redact(text)
    assert "[hidden]" in redact(text)


@pytest.mark.parametrize(
    "text", ["tokens=12 max_tokens: 10", "task-force-members agreed", "key=ab12cd34", "https://host/v1?limit=3"]
)
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


def test_a_traceback_is_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    try:
        raise ValueError("bad key sk-canary-7f3a91")
    except ValueError:
        structlog.get_logger().exception("broke", api_key="canary", header={"Authorization": "canary"})
    err = capsys.readouterr().err
    assert "ValueError: bad key [hidden]" in err
    assert "canary" not in err


def test_other_libraries_are_quiet_and_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    configure("debug")
    logging.getLogger("httpx2").info("HTTP Request: POST")
    logging.getLogger("openai._base_client").debug("Request options: sk-canary-7f3a91")
    logging.getLogger("openai").warning("retrying with %s", "sk-canary-7f3a91")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "warning retrying with [hidden]" in err
