"""What a request can come to, and which requests may have been billed although no answer came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judges import load_judge
from runner.config import Model, parse_config
from runner.endpoint.judge_model import JudgeModel, judge_models
from runner.endpoint.response import Completion, EndpointError, read_completion
from runner.endpoint.retry_policy import ErrorKind
from runner.messages import Task
from runner.usage import NOTHING, CostBound
from runner.worker.request import LONGEST_REPLY_TOKENS, TEMPLATE_TOKENS, build_probe, cost_bound


def pair(**model: Any) -> JudgeModel:
    config = parse_config(
        {
            "name": "n",
            "items": {"path": "i.jsonl"},
            "judges": ["yes-no"],
            "models": [{"name": "m", "model": "g"} | model],
        }
    )
    return judge_models(config, [load_judge("yes-no", Path())])["yes-no", "m"]


def model(**keys: Any) -> Model:
    return pair(**keys).model


def body(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "g", "messages": [{"role": "user", "content": text}], **fields}


@pytest.mark.parametrize("text", ["", "x" * 1000, "漢字" * 500, "🜚" * 400, '"\n\\' * 300])
def test_no_tokenizer_makes_more_of_a_text_than_it_has_bytes(text: str) -> None:
    bound = cost_bound(body(text, max_tokens=7), model())
    assert bound.requests == 1
    assert len(text.encode()) + TEMPLATE_TOKENS + 7 <= bound.tokens
    assert bound.tokens <= 2 * len(text.encode()) + TEMPLATE_TOKENS + 7 + 100


def test_many_messages_and_a_demanded_form_are_in_it() -> None:
    few, many = body("x" * 100), body("x")
    many["messages"] *= 100
    form = {"response_format": {"type": "json_schema", "json_schema": {"schema": {"description": "y" * 500}}}}
    assert cost_bound(many, model()).tokens > cost_bound(few, model()).tokens + 100 * 10
    assert cost_bound({**few, **form}, model()).tokens > cost_bound(few, model()).tokens + 500


@pytest.mark.parametrize(
    ("fields", "extra", "most"),
    [
        ({"max_tokens": 10}, {}, 10),
        ({"max_completion_tokens": 20}, {}, 20),
        ({"max_tokens": 10}, {"max_tokens": 4000}, 4000),
        ({"max_tokens": 10}, {"max_completion_tokens": 4000}, 4000),
        ({}, {}, LONGEST_REPLY_TOKENS),
    ],
)
def test_a_reply_takes_what_is_allowed_at_most(fields: dict[str, int], extra: dict[str, int], most: int) -> None:
    one = cost_bound(body("x", **fields), model(extra={"body": extra}))
    none = cost_bound(body("x"), model())
    assert one.tokens - most == pytest.approx(none.tokens - LONGEST_REPLY_TOKENS, abs=60)


def test_the_dearest_price_counts_to_the_last_billionth() -> None:
    asked = body("x" * 744, max_tokens=10)
    price = {"input": 0.15, "cached_input": 0.3, "output": 0.6}
    bound = cost_bound(asked, model(price=price))
    assert bound.nano_usd >= (bound.tokens - 10) * 300 + 10 * 600
    assert bound.usd == pytest.approx(((bound.tokens - 10) * 0.3 + 10 * 0.6) / 1e6, abs=1e-9)
    assert cost_bound(asked, model()).nano_usd == 0


def test_what_cannot_be_written_as_json_will_not_be_sent() -> None:
    assert cost_bound(body("\ud800", max_tokens=1), model()) == CostBound(1, TEMPLATE_TOKENS + 1, 0)


@pytest.mark.parametrize(
    ("kind", "status", "billed"),
    [
        (ErrorKind.TIMEOUT, None, True),
        (ErrorKind.TIMEOUT, 408, True),
        (ErrorKind.CONNECTION, None, True),
        (ErrorKind.BAD_REPLY, 200, True),
        (ErrorKind.SERVER, 504, True),
        (ErrorKind.SERVER, 524, True),
        (ErrorKind.SERVER, 500, False),
        (ErrorKind.SERVER, 503, False),
        (ErrorKind.THROTTLED, 429, False),
        (ErrorKind.UNREACHABLE, None, False),
        (ErrorKind.BAD_REQUEST, 400, False),
        (ErrorKind.AUTH, 401, False),
        (ErrorKind.QUOTA, 429, False),
        (ErrorKind.UNKNOWN_MODEL, 404, False),
    ],
)
def test_what_may_have_been_billed_stays_reserved(kind: ErrorKind, status: int | None, billed: bool) -> None:
    own = pair()
    asked = build_probe(Task(1, "yes-no", "m", 0, ()), own, own.body([{"role": "user", "content": "x"}]), "w")
    attempt = asked.failed_attempt(1, 0.0, EndpointError(kind, "no", status))
    assert attempt.freed == (NOTHING if billed else asked.bound)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (', "usage": {"prompt_tokens": 3, "completion_tokens": 0}', True),
        (', "usage": {"prompt_tokens": 3}', False),
        ("", False),
    ],
)
def test_a_reply_that_does_not_say_what_it_took_settles_nothing(usage: str, counted: bool) -> None:
    own = pair()
    asked = build_probe(Task(1, "yes-no", "m", 0, ()), own, own.body([{"role": "user", "content": "x"}]), "w")
    completion = read_completion(b'{"choices": [{"message": {"content": "yes"}}]%s}' % usage.encode(), None, 0.1)
    assert isinstance(completion, Completion)
    assert asked.answered_attempt(1, 0.0, completion).freed == (asked.bound if counted else NOTHING)
