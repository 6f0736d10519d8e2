"""How structured output is requested of an endpoint, and what a harmless question shows of how far it is kept to.

Pure. Three ways are known: `response_format` with a JSON Schema, vLLM's `structured_outputs`, and `response_format`
with any JSON object. An endpoint may enforce one, take it and ignore it, or reject it; only asking tells. So before
anything is paid each is tried with a question whose natural answer is another (the canary), and the first that is
enforced is the mode of the run.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from judges import Constraint
from judges.reading.json_text import load

SCHEMA, VLLM, OBJECT = "json_schema", "vllm", "json_object"
OFF, AUTO = "off", "auto"
FIELDS = ("response_format", "structured_outputs")
"""What is added to a request's body."""

ENFORCED_SCHEMA, ENFORCED_VLLM = "enforced:json_schema", "enforced:vllm"
_MODES = {SCHEMA: ENFORCED_SCHEMA, VLLM: ENFORCED_VLLM, OBJECT: OBJECT}
_MECHANISMS = {mode: mechanism for mechanism, mode in _MODES.items()}

CANARY_TOKENS = 1024
"""What a canary's reply may take at least, for a model that thinks before it speaks."""


class Support(StrEnum):
    """What an endpoint makes of one mechanism."""

    ENFORCED = "enforced"
    IGNORED = "ignored"
    REFUSED = "refused"


def effective_setting(judge: str, model: str, constraint: Constraint) -> str:
    """How a judge's structured output is requested of a model: auto, one of the mechanisms, or off. The judge wins."""
    if judge == OFF or model == OFF:
        return OFF
    if constraint.schema is None and model in (SCHEMA, OBJECT):
        # A bare word or number is no JSON.
        return OFF
    return model


def mechanisms(setting: str, constraint: Constraint) -> tuple[str, ...]:
    """The ways to be tried, the best first."""
    if setting == AUTO:
        return (SCHEMA, VLLM, OBJECT) if constraint.schema is not None else (VLLM,)
    return () if setting == OFF else (setting,)


def mode_of(results: Mapping[str, Support]) -> str:
    """The effective mode, from what the ways that were tried have come to."""
    for mechanism, result in results.items():
        if result is Support.ENFORCED:
            return _MODES[mechanism]
    if not results:
        return OFF
    return str(Support.IGNORED if Support.IGNORED in results.values() else Support.REFUSED)


def mechanism_of(mode: str) -> str | None:
    """The mechanism of a mode; None where it has none."""
    return _MECHANISMS.get(mode)


def is_enforced(mode: str) -> bool:
    """Whether the endpoint keeps the reply to the judge's own form."""
    return mode in (ENFORCED_SCHEMA, ENFORCED_VLLM)


def request_fields(mechanism: str | None, constraint: Constraint, name: str) -> dict[str, Any]:
    """The fields of a request that request the form by this mechanism."""
    if mechanism == OBJECT:
        return {"response_format": {"type": "json_object"}}
    if mechanism == SCHEMA and constraint.schema is not None:
        schema = {"name": re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64], "strict": True, "schema": constraint.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if mechanism == VLLM:
        if constraint.choices:
            return {"structured_outputs": {"choice": list(constraint.choices)}}
        if constraint.pattern is not None:
            return {"structured_outputs": {"regex": constraint.pattern}}
        return {"structured_outputs": {"json": constraint.schema}}
    return {}


def canary_body(mechanism: str) -> list[dict[str, str]]:
    """A question whose natural answer is not of the form. For JSON some endpoints want that word in it."""
    words = "Say hello. Use no JSON." if mechanism == OBJECT else "Say hello."
    return [{"role": "user", "content": words}]


def harmless_body(mode: str) -> list[dict[str, str]]:
    """A question that an endpoint which works answers, whatever form this mode requests."""
    return [{"role": "user", "content": "Say hello in JSON." if mode == OBJECT else "Answer yes."}]


def judge_support(mechanism: str, constraint: Constraint, text: str | None) -> Support:
    """What a reply to the canary shows."""
    if mechanism != OBJECT:
        return Support.ENFORCED if constraint.met_by(text) else Support.IGNORED
    return Support.ENFORCED if isinstance(load(text or ""), dict) else Support.IGNORED
