"""JSON in a reply: where it is, what wraps it, and its strict grammar.

The scanner makes one pass in linear time: a brace inside of a JSON string does not count, an object or a string left
open makes the whole reply unreadable, a closing brace that nothing opened is passed over. What Python's reader lets
pass in silence is a fault here: differing duplicates, NaN, Infinity, numbers too large, nesting too deep. Taking a
wrapper away changes no value; what has two members is no wrapper.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NoReturn

from ..outcome import Malformed, Reason
from .clean import folded, folded_key, narrow, without_fences

_MOST_OBJECTS = 16
_LONGEST_LITERAL = 20_000
_MOST_BRACKETS = 500
_BRACE = {"{": re.compile(r"\{"), "[": re.compile(r"\[(?!\[)")}
_WITHIN = {"{": re.compile(r'["\'{}]'), "[": re.compile(r'["\'\[\]]')}
_STRING_REST = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SINGLE_REST = re.compile(r"(?:[^'\\]|\\.|'(?!\s{0,20}[,:}\]]))*+'", re.DOTALL)
_MOST = 4
_WRAPPER_KEYS = frozenset(
    {"result", "verdict", "answer", "evaluation", "judgement", "judgment", "output", "json", "data", "decision"}
    | {"assessment", "final", "finalanswer"}
)
"""Under any other key something else may stand than the judge's own verdict: an example, the reference's, a draft."""


def objects_in(text: str, opening: str = "{") -> list[tuple[int, int]] | Malformed:
    """The spans of the outermost balanced `{…}` (or `[…]`); braces inside of strings do not count."""
    spans: list[tuple[int, int]] = []
    position = 0
    while start := _BRACE[opening].search(text, position):
        if len(spans) == _MOST_OBJECTS:
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, f"more than {_MOST_OBJECTS} objects")
        depth, position = 1, start.end()
        while depth:
            token = _WITHIN[opening].search(text, position)
            if token is None:
                return Malformed(Reason.UNBALANCED, "an object is left open")
            position = token.end()
            if token[0] == "'" and not _opens_single(text, token.start()):
                continue
            if token[0] in "\"'":
                closing = (_STRING_REST if token[0] == '"' else _SINGLE_REST).match(text, position)
                if closing is None:
                    return Malformed(Reason.UNBALANCED, "a string is left open")
                position = closing.end()
            else:
                depth += 1 if token[0] == opening else -1
        spans.append((start.start(), position))
    return spans


def _opens_single(text: str, position: int) -> bool:
    """Whether a single quote stands where a key or value does; elsewhere it is an apostrophe."""
    before = text[max(0, position - 60) : position].rstrip()
    return before.endswith(("{", "[", ",", ":"))


def outside(text: str, spans: list[tuple[int, int]]) -> str:
    """The text without the spans, each of which becomes a line end."""
    pieces, end = [], 0
    for start, stop in spans:
        pieces.append(text[end:start])
        end = stop
    return "\n".join([*pieces, text[end:]])


class JsonFault(ValueError):
    """The text is not one strict JSON value; `reason` is the reason code."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def load(text: str, raw_controls: bool = False) -> Any:
    """The one JSON value that the whole text is; blanks around it do not matter.

    `raw_controls` lets strings hold line breaks and tabs as they are, which JSON wants escaped.
    """
    try:
        return json.loads(
            text.strip(),
            strict=not raw_controls,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
        )
    except JsonFault:
        raise
    except (ValueError, RecursionError) as error:
        raise JsonFault(Reason.NO_VERDICT, f"not JSON: {error}"[:120]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) < len(pairs):
        for key, value in pairs:
            # Not `!=`: to Python true and 1 are equal.
            if json.dumps(value) != json.dumps(whole[key]):
                raise JsonFault(Reason.DUPLICATE_KEY, f"the key {key!r} is given twice, with different values"[:120])
    return whole


def _constant(name: str) -> NoReturn:
    raise JsonFault(Reason.OTHER_VALUE, f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JsonFault(Reason.OUT_OF_RANGE, f"{text[:40]} is too large")
    if value.is_integer() and Decimal(text) != int(value):
        raise JsonFault(Reason.NOT_INT, f"{text[:40]} would be rounded")
    return value


def load_python(text: str) -> Any:
    """The value of a Python literal such as `{'a': True}`, whose keys are all different. JsonFault where it is none."""
    if len(text) > _LONGEST_LITERAL or sum(map(text.count, "[({")) > _MOST_BRACKETS:
        raise JsonFault(Reason.NO_VERDICT, "too long for a literal")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
                if len(keys) < len(node.keys):
                    raise JsonFault(Reason.NO_VERDICT, "keys that are no texts")
                if len(set(keys)) < len(keys):
                    raise JsonFault(Reason.DUPLICATE_KEY, "a key is given twice")
        return json.loads(json.dumps(ast.literal_eval(tree), allow_nan=False))
    except JsonFault:
        raise
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise JsonFault(Reason.NO_VERDICT, f"no literal: {error}"[:120]) from None


def word_of_object(text: str, keys: Iterable[str]) -> str | Malformed:
    """The text that an object of one key holds, where the key is one of these; for verdicts that are a single word."""
    try:
        value = load(text)
    except JsonFault as fault:
        return Malformed(fault.reason, str(fault))
    if isinstance(value, dict) and len(value) == 1:
        key, word = next(iter(value.items()))
        if folded(key) in set(map(folded, keys)) and isinstance(word, str):
            return word
    return Malformed(Reason.NO_VERDICT, "an object without one word under a known key")


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
            if folded in kept or folded.replace("_", "").replace("-", "") not in _WRAPPER_KEYS:
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
