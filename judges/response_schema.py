"""The part of JSON Schema that judges are written in, and the values that mean what it asks for in another type.

A keyword outside of it is an error when the judge is loaded: nothing that a judge's author wrote goes unchecked in
silence. Types are exact: a boolean is no integer, and 4.0 is no integer. Coerced are `"true"`, `1` for true, `"4"`,
`"4/5"` and `4.0`, and nothing else: nothing is rounded, clamped or rescaled.
"""

import re
from collections.abc import Mapping
from typing import Any

from .outcome import Malformed, Reason

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_NUMBER = re.compile(r"(?P<number>-?[0-9]{1,9}(?:\.[0-9]{1,9})?)(?:\s{0,3}/\s{0,3}(?P<most>[0-9]{1,9}))?")
_KEYWORDS = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items"},
    "string": {"enum"},
    "integer": {"enum", "minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set[str](),
}
_PYTHON: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_LARGEST = 2**53
"""Beyond this an integer is no longer exact as a score."""


def coerced(schema: Mapping[str, Any], value: Any) -> Any:
    """The value in the schema's type where it is written in one of the known ways, else the value itself."""
    kind = schema["type"]
    if kind == "boolean":
        if isinstance(value, str):
            return _BOOLEANS.get(value.strip().lower(), value)
        return bool(value) if type(value) is int and value in (0, 1) else value
    if kind not in ("integer", "number") or isinstance(value, bool):
        return value
    number = value
    if isinstance(value, str):
        # Of a fraction what stands above the line, if below it is the most there can be.
        match = _NUMBER.fullmatch(value.strip())
        if match is None or (match["most"] and int(match["most"]) != schema.get("maximum")):
            return value
        number = float(match["number"]) if "." in match["number"] else int(match["number"])
    return int(number) if kind == "integer" and isinstance(number, float) and number.is_integer() else number


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


def fault(schema: Mapping[str, Any], value: Any, path: str = "") -> Malformed | None:
    """Why the value does not satisfy the schema, or None."""
    kind: str = schema["type"]
    here = path or "the reply"
    if not isinstance(value, _PYTHON[kind]) or (kind != "boolean" and isinstance(value, bool)):
        wrong_number = kind == "integer" and isinstance(value, float)
        return Malformed(Reason.NOT_INT if wrong_number else Reason.OTHER_VALUE, f"{here} is not of the type {kind}")
    if "enum" in schema and value not in schema["enum"]:
        return Malformed(Reason.OTHER_VALUE, f"{here} is none of the values asked for")
    if kind in ("integer", "number") and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and (kind == "number" or abs(value) <= _LARGEST)
    ):
        return Malformed(Reason.OUT_OF_RANGE, f"{here} is out of range")
    if kind == "array":
        faults = (fault(schema["items"], below, f"{path}[{number}]") for number, below in enumerate(value))
        return next(filter(None, faults), None)
    if kind != "object":
        return None
    prefix = f"{path}." if path else ""
    for name in schema.get("required", []):
        if name not in value:
            return Malformed(Reason.FIELD_MISSING, f"{prefix}{name} is missing")
    for name, below in value.items():
        if name in schema["properties"]:
            if found := fault(schema["properties"][name], below, f"{prefix}{name}"):
                return found
        elif schema.get("additionalProperties", True) is False:
            return Malformed(Reason.OTHER_VALUE, f"{here} has a field that was not asked for")
    return None


def closed(schema: Mapping[str, Any], complete: bool = True) -> dict[str, Any]:
    """The schema without keys that it does not name; `complete`: and every property required, as endpoints enforce."""
    result = dict(schema)
    if result["type"] == "object":
        result["properties"] = {name: closed(below, complete) for name, below in result["properties"].items()}
        result["additionalProperties"] = False
        if complete:
            result["required"] = list(result["properties"])
    if result["type"] == "array":
        result["items"] = closed(result["items"], complete)
    return result
