"""What is said of a refusal that only the user can mend: where, what for, in whose words, and what to look at."""

from __future__ import annotations

from typing import Any

import pytest

from runner.config import Model
from runner.endpoint.response import EndpointError, action_message
from runner.endpoint.retry_policy import ErrorKind

URL = "https://api.example.com/v1"


def said(kind: ErrorKind, status: int | None, about: str = "", **keys: Any) -> str:
    model = Model(name="judge", model="gpt-x", base_url=URL, **keys)
    return action_message(model, EndpointError(kind, "Their words.", status), about)


@pytest.mark.parametrize(
    ("kind", "status", "keys", "look_at"),
    [
        (ErrorKind.AUTH, 401, {"api_key_env": "THE_KEY"}, "api_key_env: THE_KEY"),
        (ErrorKind.AUTH, 401, {"api_key_file": "~/key"}, "api_key_file: ~/key"),
        (ErrorKind.AUTH, 401, {}, "api_key_env, which is not set: no key is sent"),
        (ErrorKind.AUTH, 401, {"extra": {"headers": {"api-key": "${K}"}}}, "extra, since api_key_env is not set"),
        (ErrorKind.FORBIDDEN, 403, {"api_key_env": "THE_KEY"}, "what the key may do, api_key_env: THE_KEY"),
        (ErrorKind.QUOTA, 429, {"api_key_env": "THE_KEY"}, "the credit of the key's account, api_key_env: THE_KEY"),
        (ErrorKind.UNKNOWN_MODEL, 404, {}, "model: gpt-x and base_url"),
        (ErrorKind.BAD_REQUEST, 400, {}, "sampling, structured and extra"),
        (ErrorKind.BAD_REQUEST, 400, {"api_key_env": "K"}, "sampling, structured and extra, or api_key_env: K"),
    ],
)
def test_one_line_tells_where_what_and_what_to_look_at(
    kind: ErrorKind, status: int, keys: dict[str, Any], look_at: str
) -> None:
    told = said(kind, status, **keys)
    assert told == f"judge: {URL} answers HTTP {status} for the model gpt-x: Their words. (look at {look_at})"


def test_what_is_refused_stands_before() -> None:
    told = said(ErrorKind.BAD_REQUEST, 400, "every request of yes-no is rejected")
    assert told.startswith(f"judge: every request of yes-no is rejected: {URL} answers HTTP 400 ")
