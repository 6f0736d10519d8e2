"""Values that mean what was asked for and are written in another type: `"true"`, `1` for true, `"4"`, `"4/5"`, `4.0`.

This is the whole list. Nothing is rounded, clamped or rescaled, a truth value is never a number, and what is not in the
list stays what it is, for the schema to reject.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_NUMBER = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_FRACTION = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)\s{0,3}/\s{0,3}([0-9]{1,9})")


def coerced(schema: Mapping[str, Any], value: Any) -> Any:
    """The value in the schema's type where it is written in one of the known ways, else the value itself."""
    kind = schema["type"]
    if kind == "boolean":
        if isinstance(value, str):
            return _BOOLEANS.get(value.strip().lower(), value)
        return bool(value) if type(value) is int and value in (0, 1) else value
    if kind not in ("integer", "number") or isinstance(value, bool):
        return value
    number = _number(value, schema.get("maximum")) if isinstance(value, str) else value
    if kind == "integer" and isinstance(number, float) and number.is_integer():
        return int(number)
    return value if number is None else number


def _number(text: str, maximum: float | None) -> int | float | None:
    """The number that a text is; of a fraction what stands above the line, if below it is the most there can be."""
    text = text.strip()
    fraction = _FRACTION.fullmatch(text)
    if fraction and maximum is not None and int(fraction[2]) == maximum:
        text = fraction[1]
    if not _NUMBER.fullmatch(text):
        return None
    return float(text) if "." in text else int(text)
