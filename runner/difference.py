"""Two values that should be the same, and where they are not: the part around the first difference.

Pure. Hides how long values are cut: a prompt of two pages that differs in a word is told by that word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_SHORT = 120
_CONTEXT = 40
_WORD = 20
_NOTHING = object()


def differences(path: str, before: Any, now: Any) -> Iterator[str]:
    """A line for each value that differs, with its path; mappings are looked into."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            if before.get(key, _NOTHING) != now.get(key, _NOTHING):
                yield from differences(f"{path}.{key}", before.get(key, _NOTHING), now.get(key, _NOTHING))
        return
    was, is_ = _text(before), _text(now)
    if len(was) <= _SHORT and len(is_) <= _SHORT:
        yield f"{path}: was {was}, is {is_}"
    else:
        yield f"{path}: {around(was, is_)}"


def around(before: str, now: str) -> str:
    """`…text [was] → [is] text…`, from the first word that differs, with a little of what stands around it."""
    start = _word_start(before, _common(before, now))
    end = _common(before[start:][::-1], now[start:][::-1])
    end = _word_start(before[::-1], end)
    ends = len(before) - end, len(now) - end
    opening = before[_word_start(before, max(0, start - _CONTEXT)) : start]
    closing = before[ends[0] : ends[0] + _CONTEXT]
    return (
        ("…" if start > _CONTEXT else "")
        + f"{_flat(opening)}[{_cut(before[start : ends[0]])}] → [{_cut(now[start : ends[1]])}]{_flat(closing)}"
        + ("…" if end > _CONTEXT else "")
    )


def _word_start(text: str, place: int) -> int:
    """Where the word at a place starts; the place itself where no blank is near, as in a language without blanks."""
    near = (start for start in range(place, max(-1, place - _WORD), -1) if start == 0 or text[start - 1].isspace())
    return next(near, place)


def _common(one: str, other: str) -> int:
    """How many characters both start with."""
    most = min(len(one), len(other))
    return next((place for place in range(most) if one[place] != other[place]), most)


def _text(value: Any) -> str:
    if value is _NOTHING:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    flat = _flat(text)
    return flat if len(flat) <= _SHORT else flat[: _SHORT - 1] + "…"


def _flat(text: str) -> str:
    """On one line, whatever the text holds."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda found: json.dumps(found[0])[1:-1], text)
