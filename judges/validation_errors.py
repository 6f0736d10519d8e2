"""Pydantic's complaints in a user's words, for judges and configs alike.

Hides how pydantic fails: of the branches of a union it names each, with names of types amid the path of the key. What
comes out is a line for each fault with the key as the user wrote it, and the name that was meant where one is near.
"""

import json
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from .strict_yaml import JudgeError, did_you_mean

_LONGEST = 60
_WANTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
"""Complaint about a type → what should stand there."""
_BOUNDS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}
_BOOLEANS = "(got a boolean: in YAML 1.1 yes, no, on and off are booleans; quote the word)"


def explain(error: ValidationError, record: type[BaseModel], where: str) -> JudgeError:
    """All faults of a document, a line each."""
    return JudgeError("\n  ".join(f"{where}: {line}" for line in _lines(error, record)))


@dataclass(frozen=True, slots=True)
class _Fault:
    """A complaint, and where it is about."""

    type: str
    message: str
    input: Any
    context: dict[str, Any]
    path: tuple[str, ...]
    """The keys as the user wrote them."""
    union: tuple[str, ...] | None
    """The path at which the outermost choice of several types is."""
    around: list[Any]
    """What holds the last key."""
    here: list[Any]
    """What could stand at the path."""


def _lines(error: ValidationError, record: type[BaseModel]) -> Iterator[str]:
    faults = [_fault(fault, record) for fault in error.errors()]
    reported: set[tuple[str, ...]] = set()
    for fault in faults:
        if fault.union is None:
            yield _line(fault.path, _message(fault))
        elif fault.union not in reported:
            reported.add(fault.union)
            yield from _union_lines([other for other in faults if other.union == fault.union], fault.union)


def _union_lines(faults: Sequence[_Fault], path: tuple[str, ...]) -> Iterator[str]:
    """Of the branches those that the user can have meant; where none fits by its type, what all of them want."""
    within = [fault for fault in faults if len(fault.path) > len(path)]
    likely = within or [fault for fault in faults if not _is_of_type(fault)]
    if likely:
        yield from dict.fromkeys(_line(fault.path, _message(fault)) for fault in likely)
    else:
        yield _line(path, _mismatch(faults))


def _line(path: Sequence[str], message: str) -> str:
    path = [part for part in path if part != "[key]"]
    return f"{'.'.join(path)}: {message}" if path else message


def _message(fault: _Fault) -> str:
    context = fault.context
    match fault.type:
        case "extra_forbidden":
            return "unknown key" + did_you_mean(fault.path[-1], sorted(_keys(fault.around)))
        case "missing" | "union_tag_not_found":
            return "is missing" + (f" ({_kinds(context, fault.here)})" if fault.type != "missing" else "")
        case "union_tag_invalid":
            tags = _words_in(context["expected_tags"])
            hint = did_you_mean(context["tag"], tags)
            return f"unknown {fault.path[-1]} {context['tag']!r}{hint} ({_kinds(context, tags)})"
        case "string_too_short":
            return "must not be empty"
        case "too_short" | "too_long":
            bound, key = ("least", "min_length") if fault.type == "too_short" else ("most", "max_length")
            number = context[key]
            return f"must have at {bound} {number} entr{'y' if number == 1 else 'ies'}, not {context['actual_length']}"
        case "finite_number":
            return "must be a finite number"
        case "value_error":
            return fault.message.removeprefix("Value error, ")
    if fault.path[-1:] == ("[key]",):
        return "the key must be a text; quote it"
    if fault.type in _BOUNDS:
        key, bound = _BOUNDS[fault.type]
        return f"must be {bound} {context[key]:g}, not {_describe(fault.input)}"
    if _is_of_type(fault):
        return _mismatch([fault])
    return fault.message.replace("Input should be", "must be").replace("Input should", "must")


def _is_of_type(fault: _Fault) -> bool:
    return (fault.type in _WANTED or fault.type == "literal_error") and fault.path[-1:] != ("[key]",)


def _mismatch(faults: Sequence[_Fault]) -> str:
    """What could stand there, and what does."""
    words = [word for fault in faults if fault.type == "literal_error" for word in _words_in(fault.context["expected"])]
    wanted = [*words, *dict.fromkeys(_WANTED[fault.type] for fault in faults if fault.type in _WANTED)]
    if "a number" in wanted and "a whole number" in wanted:
        wanted.remove("a whole number")
    value = faults[0].input
    text = f"must be {_join(wanted, 'or')}"
    if wanted == ["a mapping"] and (keys := list(_keys(faults[0].here))):
        tagged = "kind" if "kind" in keys else keys[0]
        tags = _tags(faults[0].here[0], tagged)
        shown_keys = ", ".join(keys[:4]) + (", …" if len(keys) > 4 else "")
        text += f" such as {{{tagged}: {tags[0]}}}" if tags else f" (with the keys {shown_keys})"
    elif wanted == ["a list"]:
        text += " (each entry after a '-', or [a, b])"
    # What stands in place of a list or a mapping is never shown: it may be a header with a key.
    shows = bool(words) or not isinstance(value, str) or {"a number", "a whole number", "true or false"} & set(wanted)
    text += f", not {_describe(value) if shows else 'a text'}"
    if isinstance(value, str):
        if words:
            text += did_you_mean(value, words)
        elif _reads_as_number(value):
            text += " (without the quotes)"
    elif isinstance(value, bool) and "true or false" not in wanted:
        text += f" {_BOOLEANS}"
    elif isinstance(value, int | float) and "a text" in wanted and not isinstance(value, bool):
        text += " (in quotes)"
    return text


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…")
    if value is None:
        return "null (nothing)"
    return json.dumps(value) if isinstance(value, bool | int | float) else type(value).__name__


def _kinds(context: dict[str, Any], known: Sequence[Any]) -> str:
    name = _unquote(context["discriminator"])
    tags = [tag for entry in known for tag in ([entry] if isinstance(entry, str) else _tags(entry, name))]
    return f"{name}s: {', '.join(tags)}"


def _join(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _words_in(text: str) -> list[str]:
    """The words of pydantic's `'a', 'b' or 'c'`."""
    return text.split("'")[1::2]


def _unquote(text: str) -> str:
    return text.strip("'")


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fault(fault: Any, record: type[BaseModel]) -> _Fault:
    """Follow a location through the types: names of types that pydantic puts amid the keys are left out."""
    path: list[str] = []
    union: tuple[str, ...] | None = None
    around: list[Any] = []
    here: list[Any] = _branches(record)
    chosen = True
    for part in fault["loc"]:
        if len(here) > 1 and not chosen:
            tagged = [branch for branch in here if str(part) in _all_tags(branch)]
            if not tagged and union is None:
                union = tuple(path)
            here = tagged or [branch for branch in here if _is_named(branch, str(part))] or here
            chosen = True
            continue
        path.append(str(part))
        around, here = here, [below for branch in here for below in _types_below(branch, str(part))]
        chosen = False
    context = fault.get("ctx", {})
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path.append(_unquote(context["discriminator"]))
    return _Fault(fault["type"], fault["msg"], fault["input"], context, tuple(path), union, around, here)


def _branches(annotation: Any) -> list[Any]:
    """The types of which a value may be, without null: pydantic names the one that it tried where there are several."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return [below for part in get_args(annotation) if part is not type(None) for below in _branches(part)]
    return [annotation]


def _types_below(annotation: Any, key: str) -> list[Any]:
    """The types of what a key, or a place in a list, leads to."""
    if _is_record(annotation):
        for name, field in annotation.model_fields.items():
            if key in (name, field.alias):
                return _branches(field.annotation)
        return []
    arguments = get_args(annotation)
    if get_origin(annotation) in (dict, list) and arguments:
        return _branches(arguments[-1])
    return []


def _is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_named(annotation: Any, name: str) -> bool:
    """Whether pydantic calls a branch so: a record by its class, a list or mapping by what it is."""
    if _is_record(annotation):
        return bool(annotation.__name__ == name)
    origin = get_origin(annotation)
    return origin in (dict, list) and name.startswith(origin.__name__)


def _tags(record: Any, name: str) -> list[str]:
    """The words that a record's field can be, where it is one of a few."""
    field = record.model_fields.get(name) if _is_record(record) else None
    return list(get_args(field.annotation)) if field is not None and get_origin(field.annotation) is Literal else []


def _all_tags(record: Any) -> list[str]:
    return [tag for name in _keys([record]) for tag in _tags(record, name)]


def _keys(records: Sequence[Any]) -> dict[str, None]:
    """Every key that one of these records has, in their order."""
    known = [record for record in records if _is_record(record)]
    return dict.fromkeys(field.alias or name for record in known for name, field in record.model_fields.items())
