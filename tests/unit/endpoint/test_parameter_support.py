"""What endpoints say of a parameter that they do not take, in their own words, and how the request is put then."""

from __future__ import annotations

from typing import Any

import pytest

from runner.endpoint.parameter_support import OPTIONAL, RENAMED, ParameterSupport

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [],
    "max_tokens": 10,
    "temperature": 0,
    "top_p": 1,
    "seed": 3,
    "stop": ["x"],
    "response_format": {"type": "json_object"},
    "structured_outputs": {"choice": ["yes"]},
}


@pytest.mark.parametrize(
    ("message", "param", "codes", "name"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            "max_tokens",
            ["unsupported_parameter"],
            "max_tokens",
        ),
        (
            "Unsupported value: 'temperature' does not support 0 with this model. "
            "Only the default (1) value is supported.",
            "temperature",
            ["unsupported_value"],
            "temperature",
        ),
        ("Unsupported parameter: 'top_p' is not supported with this model.", None, [], "top_p"),
        (
            "Unrecognized request argument supplied: structured_outputs",
            None,
            ["invalid_request_error"],
            "structured_outputs",
        ),
        ("Unknown parameter: 'structured_outputs'.", "structured_outputs", ["unknown_parameter"], "structured_outputs"),
        (
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            None,
            [],
            "response_format",
        ),
        ("This response_format type is unavailable now", None, ["invalid_request_error"], "response_format"),
        ("deepseek-reasoner does not support Json Output.", None, ["invalid_request_error"], "response_format"),
        (
            'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
            None,
            [],
            "seed",
        ),
        (
            '[{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]',
            None,
            [],
            "seed",
        ),
        ("Extra inputs are not permitted, field: 'structured_outputs', value: {}", None, [], "structured_outputs"),
        ("Argument not supported on this model: stop", None, [], "stop"),
        ("Model grok-4 does not support parameter stop.", None, [], "stop"),
        ("This model doesn’t support the parameter temperature", None, [], "temperature"),
        ("`temperature` is deprecated for this model.", None, [], "temperature"),
        ("Unrecognized request arguments supplied: top_p, seed", None, [], "top_p"),
        ("temperature: Extra inputs are not permitted", None, [], "temperature"),
        ("This model does not support seed.", None, [], "seed"),
        ("temperature is not supported with this model", None, [], "temperature"),
        ("stop is no good", None, ["unsupported_parameter"], "stop"),
        # None of these says that a parameter is not taken.
        ("Invalid schema for response_format 'x': 'additionalProperties' is required", "response_format", [], None),
        ("max_tokens is too large: 9000. This model supports at most 4096 completion tokens", "max_tokens", [], None),
        (
            "Unsupported value: 'messages[0].role' does not support 'system'",
            "messages[0].role",
            ["unsupported_value"],
            None,
        ),
        ("`temperature` must be strictly positive", None, [], None),
        ("messages[0].content: unsupported content; please use seed data", None, [], None),
        ("Unknown model role in messages: 'temperature' is not one", None, [], None),
        ("Unsupported content, please use seed data", None, [], None),
        ("This endpoint does not support seed data", None, [], None),
        ("Unknown tenant. 'seed' was fine", None, [], None),
        ("Unsupported image in messages.0: temperature", None, ["unsupported_value"], None),
        ("The context of 8192 tokens is exceeded", None, [], None),
        ("Unrecognized request argument supplied: logit_bias", None, [], None),
    ],
)
def test_a_parameter_that_is_named_is_put_otherwise(
    message: str, param: str | None, codes: list[str], name: str | None
) -> None:
    taught = ParameterSupport().learn(BODY, message, param, codes)
    body, notes = taught.adapt(BODY)
    if name is None:
        assert (body, notes) == (BODY, ())
    elif name in RENAMED:
        assert body == {key: value for key, value in BODY.items() if key != name} | {RENAMED[name]: BODY[name]}
        assert notes == (f"sent:{RENAMED[name]}",)
    else:
        assert body == {key: value for key, value in BODY.items() if key != name}
        assert notes == (f"not_sent:{name}",)


def test_an_endpoint_that_rejects_everything_comes_to_an_end() -> None:
    dialect, sent, rounds = ParameterSupport(), BODY, 0
    while True:
        words = "unsupported: " + ", ".join(sent)
        dialect = dialect.learn(sent, words)
        again, _ = dialect.adapt(BODY)
        if again == sent:
            break
        sent, rounds = again, rounds + 1
    assert rounds == len(RENAMED) + len(OPTIONAL)
    assert set(sent) == {"model", "messages", "max_completion_tokens"}


def test_what_must_be_kept_is_sent_whatever_was_learnt() -> None:
    dialect = ParameterSupport(dropped=frozenset({"response_format", "seed"}))
    body, notes = dialect.adapt(BODY, keep=("response_format",))
    assert "response_format" in body
    assert notes == ("not_sent:seed",)


def test_a_limit_under_its_own_name_is_not_overwritten() -> None:
    body, _ = ParameterSupport(renamed=frozenset({"max_tokens"})).adapt(
        {"max_tokens": 10, "max_completion_tokens": 500}
    )
    assert body == {"max_completion_tokens": 500}
