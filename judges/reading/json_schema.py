"""Values that mean what was asked for and are written in another type: `"true"`, `1` for true, `"4"`, `"4/5"`, `4.0`.

This is the whole list. Nothing is rounded, clamped or rescaled, a truth value is never a number, and what is not in the
list stays what it is, for the schema to reject.

The part of JSON Schema that judges are written in.

A keyword outside of it is an error when the judge is loaded: nothing that a judge's author wrote goes unchecked in
silence. Types are exact: a boolean is no integer, and 4.0 is no integer.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from ..outcome import Reason

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


_KEYWORDS = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items"},
    "string": {"enum"},
    "integer": {"enum", "minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set[str](),
}
_PYTHON: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}

_LARGEST = 2**53
"""Beyond this an integer is no longer exact as a score."""

Fault = tuple[Reason, str]


def check_schema(schema: Any, path: str = "schema") -> None:
    """ValueError where the schema uses what is not checked here, or contradicts itself."""
    if not isinstance(schema, Mapping):
        raise ValueError(f"{path}: must be a mapping")
    kind = schema.get("type")
    if kind not in _KEYWORDS:
        raise ValueError(f"{path}.type: must be one of {', '.join(_KEYWORDS)}")
    if unknown := set(schema) - _KEYWORDS[kind] - {"type", "description"}:
        raise ValueError(f"{path}: {sorted(map(str, unknown))[0]!r} is not supported for the type {kind}")
    if kind == "object":
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            raise ValueError(f"{path}.properties: must be a mapping of at least one property")
        for name, below in properties.items():
            if not isinstance(name, str):
                raise ValueError(f"{path}.properties: {name!r} is no name; quote it")
            check_schema(below, f"{path}.properties.{name}")
        required = schema.get("required", [])
        if not isinstance(required, list) or not set(map(str, required)) <= set(properties):
            raise ValueError(f"{path}.required: must be a list of names of properties")
        if not isinstance(schema.get("additionalProperties", True), bool):
            raise ValueError(f"{path}.additionalProperties: must be true or false")
    if kind == "array":
        check_schema(schema.get("items"), f"{path}.items")
    for bound in {"minimum", "maximum"} & set(schema):
        if isinstance(schema[bound], bool) or not isinstance(schema[bound], int | float):
            raise ValueError(f"{path}.{bound}: must be a number")
    if "enum" in schema:
        values = schema["enum"]
        if not isinstance(values, list) or not values or any(fault({"type": kind}, value) for value in values):
            raise ValueError(f"{path}.enum: must be a list of values of the type {kind}; quote yes and no")


def fault(schema: Mapping[str, Any], value: Any, path: str = "") -> Fault | None:
    """Why the value does not satisfy the schema, or None."""
    kind = schema["type"]
    here = path or "the reply"
    if not _is_a(kind, value):
        wrong_number = kind == "integer" and isinstance(value, float)
        return (Reason.NOT_INT if wrong_number else Reason.OTHER_VALUE), f"{here} is not of the type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return Reason.OTHER_VALUE, f"{here} is none of the values asked for"
    if kind == "integer" and abs(value) > _LARGEST:
        return Reason.OUT_OF_RANGE, f"{here} is out of range"
    if kind in ("integer", "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return Reason.OUT_OF_RANGE, f"{here} is out of range"
    if kind == "object":
        for name in schema.get("required", []):
            if name not in value:
                return Reason.FIELD_MISSING, f"{path}{'.' if path else ''}{name} is missing"
        for name, below in value.items():
            if name in schema["properties"]:
                if found := fault(schema["properties"][name], below, f"{path}{'.' if path else ''}{name}"):
                    return found
            elif schema.get("additionalProperties", True) is False:
                return Reason.OTHER_VALUE, f"{here} has a field that was not asked for"
    if kind == "array":
        for number, below in enumerate(value):
            if found := fault(schema["items"], below, f"{path}[{number}]"):
                return found
    return None


def _is_a(kind: str, value: Any) -> bool:
    return isinstance(value, _PYTHON[kind]) and (kind == "boolean" or not isinstance(value, bool))


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as endpoints enforce it: every property required, none besides."""
    result = copy.deepcopy(dict(schema))
    if result["type"] == "object":
        result["properties"] = {name: closed(below) for name, below in result["properties"].items()}
        result["required"] = list(result["properties"])
        result["additionalProperties"] = False
    if result["type"] == "array":
        result["items"] = closed(result["items"])
    return result


def only(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without keys that it does not name; what is optional stays so."""
    result = dict(schema)
    if result["type"] == "object":
        result["properties"] = {name: only(below) for name, below in result["properties"].items()}
        result["additionalProperties"] = False
    if result["type"] == "array":
        result["items"] = only(result["items"])
    return result
