"""YAML that refuses what YAML would swallow, and pydantic's complaints in a user's words.

Hides the two libraries' ways of failing: what comes out is a JudgeError of one line per fault, with the file and the
path of the key, and the name that was meant where one is near.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError


class JudgeError(Exception):
    """A judge is unknown or its file is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class _Twice(Exception):
    """A key stands twice in one mapping."""


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:bool":
                # YAML 1.1 takes `on` for true; as a key it is the word.
                key_node.tag = "tag:yaml.org,2002:str"
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Twice(f"line {key_node.start_mark.line + 1}: a key must be a plain word")
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise _Twice(f"line {key_node.start_mark.line + 1}: the key {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def parse_value(text: str, where: str) -> Any:
    """What a YAML document holds; a key given twice is an error."""
    try:
        # S506 does not apply: _StrictLoader is a SafeLoader.
        return yaml.load(text, Loader=_StrictLoader)
    except _Twice as error:
        raise JudgeError(f"{where}: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise JudgeError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None


def parse_yaml(text: str, where: str, keys: str) -> dict[str, Any]:
    """The mapping that a YAML document holds; `keys` tells what it should have, where it is none."""
    data = parse_value(text, where)
    if not isinstance(data, dict):
        raise JudgeError(f"{where}: must be a mapping with the keys {keys}")
    return data


def explain(error: ValidationError, record: type[BaseModel], where: str) -> JudgeError:
    """All faults of a document, a line each."""
    return JudgeError("\n  ".join(f"{where}: {line}" for line in _faults(error, record)))


def _faults(error: ValidationError, record: type[BaseModel]) -> Iterator[str]:
    for fault in error.errors():
        location = [str(part) for part in fault["loc"]]
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            near = difflib.get_close_matches(location[-1], _siblings(record, location[:-1]), n=1)
            message = "unknown key" + (f"; did you mean {near[0]!r}?" if near else "")
        elif fault["type"] == "missing":
            message = "is missing"
        elif isinstance(fault["input"], bool) and fault["type"] not in ("bool_type", "value_error"):
            message += " (got a boolean: in YAML 1.1 yes, no, on and off are booleans; quote the word)"
        yield f"{'.'.join(location)}: {message}" if location else message


def _siblings(record: type[BaseModel], path: list[str]) -> list[str]:
    """Every key that could stand at `path`; parts of it that name no record (list positions, kinds) are passed over."""
    records = [record]
    for part in path:
        below = [model for parent in records for model in _records_of(parent, part)]
        records = below or records
    return sorted({field.alias or name for model in records for name, field in model.model_fields.items()})


def _records_of(record: type[BaseModel], key: str) -> list[type[BaseModel]]:
    for name, field in record.model_fields.items():
        if key in (name, field.alias):
            return list(_models_in(field.annotation))
    return []


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)
