"""JSON in a reply: where it is, what wraps it, and its strict grammar.

The scanner makes one pass in linear time: a brace inside of a JSON string does not count, an object or a string left
open makes the whole reply unreadable, a closing brace that nothing opened is passed over. What Python's reader lets
pass in silence is a fault here: differing duplicates, NaN, Infinity, numbers too large, nesting too deep.
"""

import ast
import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NoReturn

from ..outcome import Malformed, Reason
from .clean import folded

_MOST_OBJECTS = 16
_LONGEST_LITERAL = 20_000
_MOST_BRACKETS = 500
_BRACE = {"{": re.compile(r"\{"), "[": re.compile(r"\[(?!\[)")}
_WITHIN = {"{": re.compile(r'["\'{}]'), "[": re.compile(r'["\'\[\]]')}
_STRING_REST = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]|\\.|'(?!\s{0,20}[,:}\]]))*+'", re.DOTALL),
}
_MOST_WRAPPERS = 4
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
            if token[0] not in _STRING_REST:
                depth += 1 if token[0] == opening else -1
            elif token[0] == '"' or text[max(0, position - 60) : position - 1].rstrip().endswith(("{", "[", ",", ":")):
                # A single quote anywhere else than where a key or value begins is an apostrophe.
                closing = _STRING_REST[token[0]].match(text, position)
                if closing is None:
                    return Malformed(Reason.UNBALANCED, "a string is left open")
                position = closing.end()
        spans.append((start.start(), position))
    return spans


def outside(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text without the spans, each of which becomes a line end."""
    pieces, end = [], 0
    for start, stop in spans:
        pieces.append(text[end:start])
        end = stop
    return "\n".join([*pieces, text[end:]])


class _JsonFault(ValueError):
    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message[:120])
        self.reason = reason


def load(text: str, raw_controls: bool = False) -> Any:
    """The one JSON value that the whole text is, or a Malformed; blanks around it do not matter.

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
    except _JsonFault as fault:
        return Malformed(fault.reason, str(fault))
    except (ValueError, RecursionError) as error:
        return Malformed(Reason.NO_VERDICT, f"not JSON: {error}"[:120])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) < len(pairs):
        for key, value in pairs:
            # Not `!=`: to Python true and 1 are equal.
            if json.dumps(value) != json.dumps(whole[key]):
                raise _JsonFault(Reason.DUPLICATE_KEY, f"the key {key!r} is given twice, with different values")
    return whole


def _constant(name: str) -> NoReturn:
    raise _JsonFault(Reason.OTHER_VALUE, f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _JsonFault(Reason.OUT_OF_RANGE, f"{text[:40]} is too large")
    if value.is_integer() and Decimal(text) != int(value):
        raise _JsonFault(Reason.NOT_INT, f"{text[:40]} would be rounded")
    return value


def load_python(text: str) -> Any:
    """The value of a Python literal such as `{'a': True}`, whose keys are all different, or a Malformed."""
    if len(text) > _LONGEST_LITERAL or sum(map(text.count, "[({")) > _MOST_BRACKETS:
        return Malformed(Reason.NO_VERDICT, "too long for a literal")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        for node in ast.walk(tree):
            keys = [getattr(key, "value", None) for key in node.keys] if isinstance(node, ast.Dict) else []
            if not all(isinstance(key, str) for key in keys):
                return Malformed(Reason.NO_VERDICT, "keys that are no texts")
            if len(set(keys)) < len(keys):
                return Malformed(Reason.DUPLICATE_KEY, "a key is given twice")
        return json.loads(json.dumps(ast.literal_eval(tree), allow_nan=False))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        return Malformed(Reason.NO_VERDICT, f"no literal: {error}"[:120])


def unwrapped(value: Any, fields: Iterable[str]) -> Any:
    """What is inside of all wrappers; a key that is one of the fields is no wrapper."""
    kept = set(map(folded, fields))
    for _ in range(_MOST_WRAPPERS):
        below = value
        if isinstance(value, dict) and len(value) == 1:
            key, inside = next(iter(value.items()))
            known = folded(key) not in kept and re.sub(r"[ -]", "", folded(key)) in _WRAPPER_KEYS
            below = inside if known and isinstance(inside, dict | list | str) else value
        elif isinstance(value, list) and len(value) == 1:
            (below,) = value
        elif isinstance(value, str) and value.strip().startswith("{"):
            loaded = load(value)
            below = value if isinstance(loaded, Malformed) else loaded
        if below is value:
            break
        value = below
    return value
