"""What the endpoint says: sound replies from a verdict, in the shape that was asked for, and replies that are none.

Everything here is a function of its arguments, so that a prompt is answered the same way every time. The unsound texts
keep one promise: no careful reader finds a verdict in them, least of all the contrary of the one that was due.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import orjson

from .prompts import Prompt, shape_of

_YES = frozenset({"yes", "true", "correct", "pass", "right", "y", "good"})
_NO = frozenset({"no", "false", "incorrect", "wrong", "fail", "n", "bad"})

REFUSAL = "I'm sorry, but I can't assist with that request."

NO_VERDICT = {
    "yesno": (
        "",
        " \n",
        "Maybe.",
        "Yes and no.",
        "yes/no",
        "The answer cannot be determined from the information given.",
        "It depends on how the question is understood.",
        "The response mentions the place and gives a date.",
        "N/A",
        "null",
        "<think>\nThe response gives a date, and the reference",
        "```\n```",
        '{"answer": ',
        "Final answer:",
        "[]",
        "Partially.",
        "Yes\n\nNo",
        "?",
    ),
    "object": (
        "",
        "The response mentions the place and gives a date.",
        '{"reasoning": "The response gives the',
        '{"correct": ',
        '{"reasoning": "A date is given.", "correct": tr',
        "{}",
        "[]",
        "null",
        '{"reasoning": "It depends on how the question is understood."}',
        '{"reasoning": "It depends.", "correct": null}',
        '{"reasoning": "It depends.", "correct": "maybe"}',
        '{"correct": true}\n{"correct": false}',
        '{"correct": true, "correct": false}',
        '```json\n{"reasoning": "A date is given.",\n```',
        '<think>{"correct": true} would be wrong if',
        "The answer cannot be determined from the information given.",
    ),
    "line": (
        "",
        "The response mentions the place and gives a date.",
        "The response names a date.\ncorrect=",
        "The response names a date.\ncorrect=maybe",
        "The response names a date.\ncorrect=true\ncorrect=false",
        "I should set correct=true if the response contains the correct answer.",
        "The answer cannot be determined from the information given.",
        "<think>\nThe response names a date, so correct=true would",
        '{"correct": ',
        "Partially.",
    ),
}
"""Malformed replies, by the shape that was asked for."""

CUT = {
    "yesno": "Let us compare the model's response with the reference answer step by step. The response",
    "object": '{"reasoning": "Comparing the response with the reference step by step, the response first',
    "line": "Comparing the response with the reference step by step, the response first",
}
"""Replies that ran into max_tokens before they came to the verdict."""


def verdict_of(seed: int, yes: float, text: str) -> bool:
    """The verdict on a prompt: the same for the same text, whatever else is going on."""
    digest = blake2b(text.encode(), digest_size=8, salt=b"verdict", key=b"%d" % seed).digest()
    return int.from_bytes(digest, "big") < yes * 2**64


def wanted_shape(prompt: Prompt) -> str:
    """The kind of reply that this prompt should get, enforced or asked for in words."""
    if prompt.structure is None:
        return shape_of(prompt.text)
    return "yesno" if prompt.structure[0] == "choice" else "object"


def sound_reply(prompt: Prompt, verdict: bool) -> str:
    """A reply that says the verdict."""
    if prompt.structure is not None:
        kind, wanted = prompt.structure
        if kind == "choice":
            return str(_pick(wanted, verdict))
        if kind == "schema":
            return orjson.dumps(instance(wanted, verdict)).decode()
        return _object(verdict)
    shape = shape_of(prompt.text)
    if shape == "object":
        return _object(verdict)
    if shape == "line":
        return f"{_reason(verdict)}\ncorrect={'true' if verdict else 'false'}"
    return "yes" if verdict else "no"


def said_yes(reply: str) -> bool:
    """Whether a recorded reply says yes, as far as faults that depend on the verdict need to know."""
    text = reply.strip().lower()
    return text.startswith("yes") or "correct=true" in text or '"correct": true' in text or '"correct":true' in text


def instance(schema: dict[str, Any], verdict: bool, root: dict[str, Any] | None = None) -> Any:
    """A value that fits a JSON Schema, with the verdict in its booleans."""
    root = schema if root is None else root
    if isinstance(reference := schema.get("$ref"), str):
        target: Any = root
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        return instance(target, verdict, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return _pick(schema["enum"], verdict)
    for several in ("anyOf", "oneOf", "allOf"):
        if schema.get(several):
            options = [option for option in schema[several] if option.get("type") != "null"]
            return instance(options[0], verdict, root) if options else None
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if kind == "object":
        return {name: instance(part, verdict, root) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance(schema.get("items", {}), verdict, root) for _ in range(schema.get("minItems", 1))]
    if kind == "boolean":
        return verdict
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", 0), schema.get("maximum", 5)
        return high if verdict else low
    return None if kind == "null" else _reason(verdict)


def _pick(options: list[Any], verdict: bool) -> Any:
    words = _YES if verdict else _NO
    for option in options:
        if option is verdict or (isinstance(option, str) and option.lower() in words):
            return option
    return options[0] if verdict else options[-1]


def _object(verdict: bool) -> str:
    return f'{{"reasoning": "{_reason(verdict)}", "correct": {"true" if verdict else "false"}}}'


def _reason(verdict: bool) -> str:
    return "The response agrees with the reference." if verdict else "The response differs from the reference."
