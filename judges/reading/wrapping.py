"""JSON in more JSON than was asked for: objects of one key, lists of one, and JSON written as a text.

Taking such a wrapper away changes no value. What has two members is no wrapper: which of them is meant is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .clean import narrow, without_fences
from .contrary import folded_key
from .strict_json import JsonFault, load

_MOST = 4
_WRAPPERS = frozenset(
    {"result", "verdict", "answer", "evaluation", "judgement", "judgment", "output", "json", "data", "decision"}
    | {"assessment", "final", "finalanswer"}
)
"""Under any other key something else may stand than the judge's own verdict: an example, the reference's, a draft."""


def encoded(text: str) -> str | None:
    """The JSON that a text is that is written as a JSON string; None where it is none."""
    text = without_fences(text).strip()
    if not text.startswith('"') or not text.endswith('"'):
        return None
    try:
        value = load(text)
    except JsonFault:
        return None
    return value if isinstance(value, str) and value.strip().startswith(("{", "[")) else None


def unwrapped(value: Any, fields: Iterable[str]) -> tuple[Any, bool]:
    """What is inside of all wrappers, and whether there were any; a key that is one of the fields is no wrapper."""
    kept = {folded_key(name) for name in fields}
    start = value
    for _ in range(_MOST):
        if isinstance(value, dict) and len(value) == 1:
            key, below = next(iter(value.items()))
            folded = folded_key(key)
            if folded in kept or folded.replace("_", "").replace("-", "") not in _WRAPPERS:
                break
            if not isinstance(below, dict | list | str):
                break
            value = below
        elif isinstance(value, list) and len(value) == 1:
            (value,) = value
        elif isinstance(value, str) and value.strip().startswith("{"):
            try:
                value = load(value)
            except JsonFault:
                break
        else:
            break
    return value, value is not start


def nested(value: Any, names: set[str]) -> Iterator[tuple[str, Any]]:
    """Every (field, value) of these names below the top level."""
    waiting = list(value.values())
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from ((name, part[name]) for name in names & set(part))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def squeezed(text: str) -> str:
    """A literal object as it is compared: blanks do not count."""
    return "".join(narrow(text).split())
