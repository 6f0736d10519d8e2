"""Where the `{…}` of a reply are, and whether one of them is given as the verdict.

One pass over the text, in linear time: a brace inside of a JSON string does not count, and an object or a string that
is left open anywhere makes the whole reply unreadable.

JSON in more JSON than was asked for: objects of one key, lists of one, and JSON written as a text.

Taking such a wrapper away changes no value. What has two members is no wrapper: which of them is meant is not known.

JSON by the letter: what Python's reader lets pass in silence is an error here.

Differing duplicates, NaN and Infinity, numbers that overflow to infinity, and nesting too deep to read are faults.
Identical duplicates are harmless and pass.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NoReturn

from ..outcome import Malformed, Reason
from .clean import folded_key, introduced, narrow, plain, retracted, without_fences

_MOST_OBJECTS = 16
_BRACE = re.compile(r"[{}]")
_IN_OBJECT = re.compile(r'["\'{}]')
_STRING_REST = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SINGLE_REST = re.compile(r"(?:[^'\\]|\\.|'(?!\s{0,20}[,:}\]]))*+'", re.DOTALL)
_WRAPPERS = {"[": "]", "(": ")", "`": "`", "*": "*", "**": "**"}
_TAG = re.compile(r"<(json|answer|output|result|verdict|evaluation|judge?ment|decision)>")
_INTRODUCED_HERE = re.compile(r"[.:!。：！]$")


def objects_in(text: str) -> list[tuple[int, int]] | Malformed:
    """The spans of the outermost balanced `{…}`; braces inside of strings do not count."""
    spans: list[tuple[int, int]] = []
    position = 0
    while opening := _BRACE.search(text, position):
        if opening[0] == "}":
            return Malformed(Reason.UNBALANCED, "a closing brace without an opening one")
        if len(spans) == _MOST_OBJECTS:
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, f"more than {_MOST_OBJECTS} objects")
        depth, position = 1, opening.end()
        while depth:
            token = _IN_OBJECT.search(text, position)
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
                depth += 1 if token[0] == "{" else -1
        spans.append((opening.start(), position))
    return spans


def _opens_single(text: str, position: int) -> bool:
    """Whether a single quote stands where a key or value does; elsewhere it is an apostrophe."""
    before = text[max(0, position - 60) : position].rstrip()
    return before.endswith(("{", "[", ",", ":"))


def stands_free(before: str, after: str) -> bool:
    """Whether an object is given as the verdict, not quoted in a sentence, reported, or withdrawn afterwards."""
    before, after = without_fences(before), without_fences(after)
    here = before.rpartition("\n")[2].strip()
    if before.endswith(("!", "！")) or here in ("!", "！"):
        return False
    if here and not _INTRODUCED_HERE.search(plain(here)):
        return False
    behind = after.partition("\n")[0].strip()
    return not behind.strip(".!*_` ") and introduced(before) and not retracted(after)


def around(text: str, span: tuple[int, int], verdicts: list[tuple[int, int]]) -> tuple[str, str]:
    """The text before and behind an object, without the other objects that give a verdict."""
    before = [other for other in verdicts if other[1] <= span[0]]
    after = [(start - span[1], stop - span[1]) for start, stop in verdicts if start >= span[1]]
    return outside(text[: span[0]], before), outside(text[span[1] :], after)


def without_heading(before: str) -> str:
    """The text before an object without the words that introduce it: its line, or the line above ending with `:`."""
    head, _, here = before.rpartition("\n")
    if here.strip():
        return head + "\n"
    above, _, last = head.rstrip().rpartition("\n")
    return above + "\n" if last.rstrip("*_ ").endswith(":") else before


def wrapped_alone(before: str, after: str) -> bool:
    """Whether there is nothing around an object but one matched wrapper: a list of one, marks, or a tag."""
    before, after = without_fences(before).strip(), without_fences(after).strip()
    if _WRAPPERS.get(before) == after:
        return True
    tag = _TAG.fullmatch(before)
    return tag is not None and after == f"</{tag[1]}>"


def outside(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, end = [], 0
    for start, stop in spans:
        pieces.append(text[end:start])
        end = stop
    return "\n".join([*pieces, text[end:]])


def only_fences(rest: str) -> bool:
    return not without_fences(rest).strip()


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


_MOST = 4
_WRAPPER_KEYS = frozenset(
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
