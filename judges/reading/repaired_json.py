"""Broken JSON, read twice: once by json_repair, once by a look at the source that knows nothing of it.

json_repair mends wrapping and free text well, and invents values without a word: a cut `1` is taken for 1 though 10 was
coming, `f` for false. So each verdict field must also stand in the source, once, with this value as a complete literal.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..outcome import Malformed, Reason
from ..response_schema import coerced

_LONGEST = 20_000
"""json_repair has a hard time with long hostile text, and a verdict is short."""
_MOST_BRACKETS = 1000
_OPEN, _CLOSE = "\"'“‘`", "\"'”’`"
_LITERAL = re.compile(
    r"(?P<number>-?(?:0?[1-9][0-9]{0,8}|0)(?:\.[0-9]{1,9})?(?:[ \t]?/[ \t]?[0-9]{1,9})?)|(?P<word>[A-Za-z]\w{0,60})"
    r"|\"(?P<double>[^\"\\\n]{0,500})\"|'(?P<single>[^'\\\n]{0,500})'|“(?P<smart>[^”\\\n]{0,500})”"
)
_BLANKS = r"[ \t\r]{0,60}"
_GAP = r"(?:[ \t\r\n]|(?://|#)[^\n]*+(?:\n|\Z)|/\*.*?\*/)*+"
_END = re.compile(
    rf"(?={_BLANKS}(?:[,}}\n]|/\*|(?<=[ \t])(?:#|//)))"
    rf"{_GAP},?{_GAP}(?:}}|[{_OPEN}]?[A-Za-z_][\w .()-]{{0,60}}[{_CLOSE}]?\s{{0,20}}:)",
    re.DOTALL,
)
"""A value ends where, behind a comma, a line end or a comment, the next key or the object's end stands."""
_LINE_END = re.compile(r"[ \t\r]*\n\s*[^\s},]")
_COMMA_AT_END = re.compile(r",[ \t\r]*\n")


def mended(text: str, fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | Malformed:
    """What json_repair makes of the text; Malformed where the source does not say the same of each of the fields.

    `fields`: name of a verdict field → its schema. Wherever in the value a field stands, both readings are of it.
    """
    if len(text) > _LONGEST or text.count("[") + text.count("{") > _MOST_BRACKETS:
        return Malformed(Reason.NO_VERDICT, "broken JSON that is too long")
    # Imported where it is used: clean replies never need it.
    import json_repair

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return Malformed(Reason.NO_VERDICT, "JSON that cannot be mended")
    for name, schema in fields.items():
        found = _in_source(text, name, schema)
        if isinstance(found, Malformed):
            return found
        given = [json.dumps(coerced(schema, each), sort_keys=True) for each in _values(value, name)]
        if given != [json.dumps(coerced(schema, found[0]), sort_keys=True)]:
            return Malformed(Reason.READINGS_DIFFER, f"{name} is read in two ways")
    return value


def _in_source(text: str, name: str, schema: Mapping[str, Any]) -> tuple[Any] | Malformed:
    """The value of the one complete `name: literal` of the source."""
    key = re.escape(name)
    mentions = re.findall(rf"(?<![\w\\-]){key}[ \t]{{0,3}}[{_CLOSE}*_]{{0,3}}\s{{0,20}}[:=]", text, re.I)
    if not mentions:
        return Malformed(Reason.FIELD_MISSING, f"{name} is missing")
    at_key = rf"(?:[{{,\n]|\*/){_BLANKS}[{_OPEN}]?[ \t]{{0,3}}{key}[ \t]{{0,3}}[{_CLOSE}]?\s{{0,20}}:\s{{0,60}}"
    start = re.search(at_key, text, re.I)
    if len(mentions) > 1 or start is None:
        return Malformed(Reason.AMBIGUOUS_FIELD, f"{name} does not stand once, where a key does")
    value, end = None, 0
    if schema["type"] in ("array", "object"):
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text, start.end())
        except (ValueError, RecursionError):
            end = 0
    elif literal := _LITERAL.match(text, start.end()):
        value = literal[literal.lastgroup or 0]
        if literal["number"]:
            # Where the other lines end with a comma, a digit may stand in place of this one's.
            going_on = _LINE_END.match(text, literal.end()) and _COMMA_AT_END.search(text)
            value = value if not going_on else None
        end = literal.end()
    if value is None or not _END.match(text, end):
        return Malformed(Reason.OTHER_VALUE, f"{name} has no complete value: {text[start.end() : start.end() + 40]!r}")
    return (value,)


def _values(value: Any, name: str) -> Iterator[Any]:
    """Every value of the field, at any depth; as a key it may be in another case, with blanks around."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from (each for key, each in part.items() if str(key).strip().casefold() == name.casefold())
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
