"""Objects that fit a JSON Schema and say a verdict.

A field that is to hold sentence keys, by its name, gets keys that stand in the prompt, as a judge of documents gives
them. Everything else follows from the types: booleans say the verdict, numbers lie on its side of the scale.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .verdicts import Verdict

_YES = frozenset({"yes", "true", "correct", "pass", "right", "y", "good"})
_NO = frozenset({"no", "false", "incorrect", "wrong", "fail", "n", "bad"})

_KEY_NAME = re.compile(r"(?:^|_)keys?$")
_SECTION = re.compile(
    r"^(?:-{3,}|={3,}|#+) ?[^\n]*\b(?:documents?|sentences?|contexts?|passages?)\b[^\n]*\n", re.I | re.M
)
_HEADING = re.compile(r"^(?:-{3,}[^\n]*-{3,}|={3,}[^\n]*={3,}|#+ [^\n]*)$", re.M)
_KEYED = re.compile(r"^([A-Za-z_]{0,8}\d[\w.-]{0,15}): ", re.M)
_MOST_KEYS = 8


def keys_in(text: str) -> list[str]:
    """The keys of a prompt's sentences, a line each (`0a: …`), below the documents' heading if there is one."""
    if section := _SECTION.search(text):
        end = _HEADING.search(text, section.end())
        text = text[section.end() : end.start() if end else len(text)]
    return list(dict.fromkeys(_KEYED.findall(text)))


def pick(options: Sequence[Any], verdict: Verdict) -> Any:
    """The option that says the verdict: by its word where one has it, by its place where not (the first is yes)."""
    words = _YES if verdict.yes else _NO
    for option in options:
        if option is verdict.yes or (isinstance(option, str) and option.lower() in words):
            return option
    return options[len(options) - 1 - verdict.score(0, len(options) - 1)]


def reason(verdict: Verdict) -> str:
    """A sentence of explanation."""
    return "The response agrees with the reference." if verdict.yes else "The response differs from the reference."


def filled(schema: Mapping[str, Any], verdicts: Sequence[Verdict], prompt: str = "") -> Any:
    """A value that fits the schema. An array of numbers says the verdicts in turn; everything else says the first."""
    return _Filling(schema, verdicts, prompt).value(schema, "", verdicts[0])


class _Filling:
    def __init__(self, root: Mapping[str, Any], verdicts: Sequence[Verdict], prompt: str) -> None:
        self._root = root
        self._verdicts = verdicts
        self._chosen: dict[str, list[str]] = {}
        names = list(_key_lists(root, root))
        if names and (keys := keys_in(prompt)):
            source = random.Random(f"{verdicts[0].clearly}\0{prompt}")
            source.shuffle(keys)
            # Windows of one order, so that the lists overlap as those of a judge do.
            most = min(len(keys), _MOST_KEYS)
            for number, name in enumerate(names):
                start = source.randrange((most + 1) // 2) if number else 0
                self._chosen[name] = keys[start : start + source.randint(1, most)]

    def value(self, schema: Mapping[str, Any], name: str, verdict: Verdict, key: str | None = None) -> Any:
        schema = _resolved(schema, self._root)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return pick(schema["enum"], verdict)
        for several in ("anyOf", "oneOf", "allOf"):
            if schema.get(several):
                options = [option for option in schema[several] if option.get("type") != "null"]
                return self.value(options[0], name, verdict, key) if options else None
        kind = _kind(schema)
        if kind == "object":
            return {part: self.value(of, part, verdict, key) for part, of in schema.get("properties", {}).items()}
        if kind == "array":
            return self._array(schema, name, verdict)
        if kind == "boolean":
            return verdict.yes
        if kind in ("integer", "number"):
            low = math.ceil(schema.get("minimum", 0))
            return verdict.score(low, math.floor(schema.get("maximum", low + 5)))
        if kind == "null":
            return None
        return key if key is not None and _KEY_NAME.search(name) else reason(verdict)

    def _array(self, schema: Mapping[str, Any], name: str, verdict: Verdict) -> list[Any]:
        if name in self._chosen:
            return list(self._chosen[name])
        items = _resolved(schema.get("items", {}), self._root)
        if any(_KEY_NAME.search(part) for part in items.get("properties", {})) and self._chosen:
            keys = dict.fromkeys(key for chosen in self._chosen.values() for key in chosen)
            # A verdict of no needs one entry that says so; the others may agree.
            verdicts = (verdict if number % 2 == 0 else Verdict(True) for number in range(len(keys)))
            return [self.value(items, name, said, key) for key, said in zip(keys, verdicts, strict=True)]
        if _kind(items) in ("integer", "number"):
            count = schema.get("minItems", len(self._verdicts))
            return [self.value(items, name, self._verdicts[n % len(self._verdicts)]) for n in range(count)]
        return [self.value(items, name, verdict) for _ in range(schema.get("minItems", 1))]


def _key_lists(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    """The names of the schema's own properties that are lists of keys."""
    for name, part in _resolved(schema, root).get("properties", {}).items():
        found = _resolved(part, root)
        if (
            _KEY_NAME.search(name)
            and _kind(found) == "array"
            and _kind(_resolved(found.get("items", {}), root)) == "string"
        ):
            yield name


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    while isinstance(reference := schema.get("$ref"), str):
        target: Any = root
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        return next((str(name) for name in kind if name != "null"), "null")
    return str(kind)
