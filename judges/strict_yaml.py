"""YAML that refuses what YAML would swallow: a key given twice, a word as a key that it takes for true.

Hides how the library fails: what comes out is a JudgeError with the file and the line.
"""

import difflib
from collections.abc import Iterable
from typing import Any

import yaml


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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, ready to be appended; empty where no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
