"""Which values of a field say nothing, in whatever clothes: empty, blank, an empty list, a word for what is missing."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from judges.item import INVISIBLE, UNSEEN, is_blank_text

_WORDS = frozenset(["nan", "none", "null", "nil", "na", "n/a", "n.a.", "nat", "undefined", "not available"])
_LONGEST_WORD = 24
"""Of the words above, with what may stand around them."""
_LONGEST_NOTHING = 200
_LONGEST_LITERAL = 100_000
_AROUND = UNSEEN + "\"'`<>()[]{}#"
_NOTHING = re.compile(rf"[\[{{][\s{INVISIBLE}\[\]{{}}\"',]*[\]}}]|\"\s*\"|'\s*'")
"""An empty list or object written as text, or a pair of quotes with nothing between."""


def is_blank(value: Any) -> bool:
    """Whether there is nothing in it: no visible character, or an empty list or object, or one of such values."""
    if isinstance(value, str):
        if len(value) > _LONGEST_NOTHING:
            return is_blank_text(value)
        return is_blank_text(value) or _NOTHING.fullmatch(value.strip(UNSEEN)) is not None
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return all(map(is_blank, value))
    return value is None


def is_missing_word(value: Any) -> bool:
    """Whether it is what programs write for nothing, as nan, None and N/A, or a list of such words alone."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_WORD and value.strip(_AROUND).casefold() in _WORDS
    if isinstance(value, float):
        return value != value
    if isinstance(value, list | tuple):
        return not is_blank(value) and all(is_blank(each) or is_missing_word(each) for each in value)
    return False


def is_written_list(text: str) -> bool:
    """Whether the text is a list or an object as JSON or Python writes it: a column of a table that held one."""
    text = text.strip()
    if not (text[:1] in ("[", "{") and text[-1:] in ("]", "}")) or len(text) > _LONGEST_LITERAL:
        return False
    for parse in (json.loads, ast.literal_eval):
        try:
            return isinstance(parse(text), list | dict)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return False
