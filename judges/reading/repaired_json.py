"""Broken JSON, read twice: once by json_repair, once by a scan of the source that knows nothing of it.

json_repair mends wrapping and free text well, and invents values without a word: a cut `1` is taken for 1 though 10 was
coming, `f` for false. So each verdict field must also be found by the scan, once in the whole source, as a complete
literal with an end; the two readings must agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..outcome import Malformed, Reason
from .json_schema import coerced

_LONGEST = 20_000
"""json_repair has a hard time with long hostile text, and a verdict is short."""

_MOST_BRACKETS = 1000

_WORDS = {"true": True, "false": False, "null": None, "none": None}
_OPEN, _CLOSE = "\"'“‘`", "\"'”’`"
_LITERAL = re.compile(
    r"(?P<number>-?(?:0?[1-9][0-9]{0,8}|0)(?:\.[0-9]{1,9})?)(?P<over>[ \t]?/[ \t]?[0-9]{1,9})?"
    r"|(?P<word>[A-Za-z]\w{0,60})"
    r"|\"(?P<double>[^\"\\\n]{0,500})\"|'(?P<single>[^'\\\n]{0,500})'|“(?P<smart>[^”\\\n]{0,500})”"
)
_BLANKS = r"[ \t\r]{0,60}"
_END = re.compile(rf"{_BLANKS}(?:[,}}\n]|/\*|(?<=[ \t])(?:#|//))")
_LINE_END = re.compile(r"[ \t\r]*\n\s*[^\s},]")
_COMMA_AT_END = re.compile(r",[ \t\r]*\n")
_GAP = re.compile(r"[ \t\r\n]+|//[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)
_NEXT = re.compile(rf"}}|[{_OPEN}]?[A-Za-z_][\w .()-]{{0,60}}[{_CLOSE}]?\s{{0,20}}:")


def mended(text: str, fields: Mapping[str, Mapping[str, Any]]) -> Any:
    """What json_repair makes of the text; Malformed where the scan does not find the same in each of the fields.

    `fields`: name of a verdict field → its schema. Wherever in the value a field stands, both readings are of it.
    """
    if len(text) > _LONGEST:
        return Malformed(Reason.NO_VERDICT, f"broken JSON of more than {_LONGEST} characters")
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        return Malformed(Reason.NO_VERDICT, f"broken JSON of more than {_MOST_BRACKETS} brackets")
    # Imported where it is used: clean replies never need it.
    import json_repair

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return Malformed(Reason.NO_VERDICT, "JSON that cannot be mended")
    if not isinstance(value, dict):
        return Malformed(Reason.NO_VERDICT, "JSON that cannot be mended")
    for name, schema in fields.items():
        found = _scanned(text, name, schema)
        if isinstance(found, Malformed):
            return found
        given = list(_values(value, name))
        if not given:
            return Malformed(Reason.FIELD_MISSING, f"{name} is missing")
        if len(given) > 1 or _typed(coerced(schema, given[0])) != _typed(coerced(schema, found[0])):
            return Malformed(Reason.READINGS_DIFFER, f"{name} is read in two ways")
    return value


def free_text_changed(value: Mapping[str, Any], source: str, verdict: Iterable[str]) -> bool:
    """Whether a text besides the verdict is not in the source as it now is."""
    texts = [each for key, each in value.items() if isinstance(each, str) and key not in set(verdict)]
    return not all(
        json.dumps(text) in source
        or json.dumps(text, ensure_ascii=False) in source
        or any(f"{mark}{text}{mark}" in source for mark in "\"'")
        for text in texts
    )


def _scanned(text: str, name: str, schema: Mapping[str, Any]) -> tuple[Any] | Malformed:
    """The value of the one complete `name: literal` of the source."""
    key = re.escape(name)
    mention = re.compile(rf"(?<![\w\\-]){key}[ \t]{{0,3}}[{_CLOSE}*_]{{0,3}}\s{{0,20}}[:=]", re.I)
    mentions = sum(1 for _ in mention.finditer(text))
    if not mentions:
        return Malformed(Reason.FIELD_MISSING, f"{name} is missing")
    if mentions > 1:
        return Malformed(Reason.AMBIGUOUS_FIELD, f"{name} is given {mentions} times")
    at_key = re.compile(
        rf"(?:[{{,\n]|\*/){_BLANKS}[{_OPEN}]?[ \t]{{0,3}}{key}[ \t]{{0,3}}[{_CLOSE}]?\s{{0,20}}:\s{{0,60}}", re.I
    )
    start = at_key.search(text)
    if start is None:
        return Malformed(Reason.AMBIGUOUS_FIELD, f"{name} does not stand where a key does")
    found = _composed(text, start.end()) if schema["type"] in ("array", "object") else _simple(text, start.end())
    if found and type(found[0]) in (int, float) and _LINE_END.match(text, found[1]) and _COMMA_AT_END.search(text):
        # Where the other lines end with a comma, a digit may stand in place of this one's.
        found = None
    if found is None or not _ended(text, found[1]):
        return Malformed(Reason.OTHER_VALUE, f"{name} has no complete value: {text[start.end() : start.end() + 40]!r}")
    return (found[0],)


def _simple(text: str, start: int) -> tuple[Any, int] | None:
    literal = _LITERAL.match(text, start)
    if literal is None:
        return None
    if number := literal["number"]:
        value: Any = float(number) if "." in number else int(number)
        return (f"{number}{literal['over']}" if literal["over"] else value), literal.end()
    if word := literal["word"]:
        return _WORDS.get(word.lower(), word), literal.end()
    return next(each for each in literal.group("double", "single", "smart") if each is not None), literal.end()


def _composed(text: str, start: int) -> tuple[Any, int] | None:
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value, end


def _ended(text: str, position: int) -> bool:
    """Whether a value ends here: behind a comma, a line end or a comment stands the next key or the object's end."""
    if not _END.match(text, position):
        return False
    comma = False
    while True:
        if gap := _GAP.match(text, position):
            position = gap.end()
        elif text.startswith(",", position) and not comma:
            comma, position = True, position + 1
        else:
            return _NEXT.match(text, position) is not None


def _values(value: Any, name: str) -> Iterable[Any]:
    """Every value of the field, at any depth; as a key it may be in another case, with blanks around."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from (each for key, each in part.items() if str(key).strip().casefold() == name.casefold())
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _typed(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
