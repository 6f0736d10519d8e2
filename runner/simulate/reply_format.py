"""The form of reply that instructions ask for, verdicts made up from texts, and objects of a JSON Schema that say them.

Like a model, this has only the words to go by. It knows no judge: only how people ask for a yes, a line, an object, a
number, a list of numbers, or one of several labels. A verdict is drawn from the text alone, so it is the same for the
same text. In an object, booleans say the verdict and numbers lie on its side of the scale; a field that is to hold
sentence keys, by its name, gets keys that stand in the prompt, as a judge of documents gives them.
"""

import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

Kind = Literal["yesno", "line", "object", "scores", "choice"]

_YESNO = re.compile(r"\byes\W{0,3}(?:\s?or\s|/)\W{0,3}no\b|\banswer\W{1,3}yes\b")
_OBJECT = re.compile(r"\bjson\b|\{\s*\"\w+\"\s*:", re.I)

_TO = r"\s*(?:\([^)\n]{1,40}\)\s*)?(?:-|–|—|to|through|and|\.\.+)\s*"
_SCALE = re.compile(
    r"\b(?:from|between|scale|range|integers?|numbers?|digits?|scores?|ratings?|grades?|rate)(?:\W{1,3}[a-z]+){0,3}?"
    rf"\W{{1,3}}(\d{{1,3}}){_TO}(\d{{1,3}})\b(?![.\w]*\d)"
    rf"|(?<![\w.])(\d{{1,3}}){_TO}(\d{{1,3}})[ -](?:scale|range|score|rating)\b",
    re.I,
)
_LEVELS = re.compile(r"(?<![\w.])(\d+)((?:,\s*\d+)+),?\s+or\s+(\d+)\b")
_NAMED_LEVEL = re.compile(r"\b(?:score|rating|grade)\W{1,3}(\d{1,3})\b", re.I)
_LIST = re.compile(
    r"comma[- ]separated|separated by commas|list of (?:the )?(?:\w+ )?(?:scores|ratings|numbers|integers|grades)", re.I
)
_SEVERAL = re.compile(
    r"\b(two|three|four|five|[2-9])\s+(?:\w+\s+)?(?:values|scores|numbers|integers|ratings|grades)\b", re.I
)
_ONE = re.compile(r"\b(?:score|rating|grade)\b[^.\n]{0,40}\b(?:only|digit|number|integer)\b", re.I)
_COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5}

_QUOTED = r"[\"'“‘`](?:[^\"'“”‘’`\n]{1,40})[\"'”’`]"
_LABEL = rf"(?:{_QUOTED}|\[\[\w{{1,12}}\]\]|(?:[A-Z]\w{{1,15}} )?\([a-zA-Z]\)|[A-Z]{{2,20}}(?:_[A-Z]+)*\b|[A-Z]\b)"
_LABELS = re.compile(
    r"\b(?i:answer|reply|respond|output|say|write|choose|label|return|verdict|choice|either|exactly|only)\b[^.\n]{0,60}?"
    rf"(?<!\w)({_LABEL}(?:,\s*{_LABEL})*,?(?:\s+or\s+|\s*/\s*){_LABEL})"
)
_FIELD = re.compile(
    r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+[\"'`*]{0,3}([A-Za-z_]\w*)[\"'`*]{0,3}[ \t]*[:(][ \t]*([^\n]+)"
    r"|[\"`]([A-Za-z_]\w*)[\"`][ \t]*(?:[:(,]|is\b|and\b)?[ \t]*([^,;}\n\"`]*)",
    re.M,
)
_OPTION = r"[\"'][^\"'\n]{1,30}[\"']"
_OPTIONS = re.compile(rf"[\"'`](\w+)[\"'`]\s*:\s*({_OPTION}(?:\s*(?:\||/|,|\bor\b)\s*{_OPTION})+)(?!\s*:)")
_BOOLEAN = re.compile(r"\bbool|\btrue\b|\bfalse\b", re.I)
_NUMBER = re.compile(r"\binteger|\bnumber|\bint\b|^\W{0,3}\d+\b", re.I)
_ARRAY = re.compile(r"\barray\b|\blist of\b|^\[", re.I)


@dataclass(frozen=True, slots=True)
class Form:
    """The kind of reply, and what that kind needs to know."""

    kind: Kind
    low: int = 0
    high: int = 5
    scaled: bool = False
    """Whether the words tell the scale; else it is the usual one."""
    count: int = 1
    """Scores asked for on one item."""
    each: bool = False
    """Whether a list is asked for, with a score for each numbered block of the prompt."""
    separator: str = ","
    labels: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the object that is asked for."""


YESNO = Form("yesno")
LINE = Form("line")


@lru_cache(maxsize=128)
def detect_form(words: str) -> Form | None:
    """What these words ask for; None where they ask for nothing in particular."""
    if _OBJECT.search(words):
        return Form("object", schema=detect_schema(words))
    lower = words.lower()
    if "correct=true" in lower:
        return LINE
    if _YESNO.search(lower):
        return YESNO
    scale = detect_scale(words)
    several = _SEVERAL.search(words)
    each = _LIST.search(words) is not None and several is None
    if scale is not None or each or several is not None or _ONE.search(words):
        low, high = scale or (0, 5)
        count = _COUNTS.get(several[1].lower()) or int(several[1]) if several else 1
        separator = " " if re.search(r"separated by (?:a )?(?:space|blank)", lower) else ","
        return Form("scores", low, high, scale is not None, count, each, separator)
    if alternatives := _LABELS.search(words):
        labels = [label.strip("\"'“”‘’`") for label in re.findall(_LABEL, alternatives[1])]
        if len(set(labels)) > 1:
            return Form("choice", labels=tuple(dict.fromkeys(labels)))
    return None


@lru_cache(maxsize=128)
def detect_scale(words: str) -> tuple[int, int] | None:
    """The scale of whole numbers that these words tell: `from 0 to 5`, `1, 2 or 3`, or `Score 5: …` line by line."""
    levels = [int(number) for span in _SCALE.finditer(words) for number in span.groups() if number]
    levels += [int(number) for span in _LEVELS.finditer(words) for number in re.findall(r"\d+", span[0])]
    named = {int(number) for number in _NAMED_LEVEL.findall(words)}
    levels += named if len(named) > 2 else ()
    return (min(levels), max(levels)) if len(set(levels)) > 1 else None


def detect_schema(words: str) -> dict[str, Any]:
    """The object that these words ask for: as their example shows it, as they list its fields, or the usual one."""
    start = words.find("{")
    while start >= 0:
        try:
            example, _ = json.JSONDecoder().raw_decode(words, start)
        except ValueError:
            example = None
        if isinstance(example, dict) and example:
            return _schema_of_example(example, words)
        start = words.find("{", start + 1)
    fields: dict[str, Any] = {}
    for name, options in _OPTIONS.findall(words):
        fields[name] = {"enum": [option[1:-1] for option in re.findall(_OPTION, options)]}
    words = _OPTIONS.sub("", words)
    fields |= {m[1] or m[3]: _schema_of_words(m[1] or m[3], m[2] or m[4] or "", words) for m in _FIELD.finditer(words)}
    return {"type": "object", "properties": fields or _default_fields(words)}


def _schema_of_example(value: Any, words: str) -> dict[str, Any]:
    """The schema of a value that an example shows."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {name: _schema_of_example(part, words) for name, part in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _schema_of_example(value[0], words) if value else {"type": "string"}}
    if isinstance(value, bool):
        return {"type": "boolean"}
    return _score_schema(words) if isinstance(value, int | float) else {"type": "string"}


def _schema_of_words(name: str, words: str, around: str) -> dict[str, Any]:
    """The schema of a field from the words that stand beside its name, or from the name."""
    if _ARRAY.search(words):
        return {"type": "array", "items": {"type": "string"}}
    if _BOOLEAN.search(words) or name == "correct":
        return {"type": "boolean"}
    if _NUMBER.search(words) or name == "score":
        return _score_schema(f"score {words}" if detect_scale(f"score {words}") else around)
    return {"type": "string"}


def _default_fields(words: str) -> dict[str, Any]:
    lower = words.lower()
    fields: dict[str, Any] = {"reason" if re.search(r"\breason\b", lower) else "reasoning": {"type": "string"}}
    scored = re.search(r"\bscore\b", lower) is not None
    if not scored or re.search(r"\bcorrect\b", lower):
        fields["correct"] = {"type": "boolean"}
    if scored:
        fields["score"] = _score_schema(words)
    return fields


def _score_schema(words: str) -> dict[str, Any]:
    low, high = detect_scale(words) or (0, 5)
    return {"type": "integer", "minimum": low, "maximum": high}


@dataclass(frozen=True, slots=True)
class Verdict:
    yes: bool
    clearly: float = 1.0
    """From 0 to 1: how far from the middle of a scale, towards the end that `yes` names."""

    def score(self, low: int, high: int) -> int:
        """Its place on a scale of whole numbers."""
        levels = high - low + 1
        side = levels // 2 if self.yes else levels - levels // 2
        inwards = max(0, min(int((1 - self.clearly) * side), side - 1))
        return high - inwards if self.yes else low + inwards


def draw_verdict(seed: int, yes: float, text: str) -> Verdict:
    """The verdict on a text, where a share `yes` of all texts is to get a yes."""
    digest = blake2b(text.encode(), digest_size=8, salt=b"verdict", key=b"%d" % seed).digest()
    point, bound = int.from_bytes(digest, "big"), yes * 2**64
    if point < bound:
        return Verdict(True, 1 - point / bound)
    return Verdict(False, (point - bound) / (2**64 - bound))


_YES = frozenset({"yes", "true", "correct", "pass", "right", "y", "good"})
_NO = frozenset({"no", "false", "incorrect", "wrong", "fail", "n", "bad"})

_KEY_NAME = re.compile(r"(?:^|_)keys?$")
_SECTION = re.compile(
    r"^(?:-{3,}|={3,}|#+) ?[^\n]*\b(?:documents?|sentences?|contexts?|passages?)\b[^\n]*\n", re.I | re.M
)
_HEADING = re.compile(r"^(?:-{3,}[^\n]*-{3,}|={3,}[^\n]*={3,}|#+ [^\n]*)$", re.M)
_KEYED = re.compile(r"^([A-Za-z_]{0,8}\d[\w.-]{0,15}): ", re.M)
_MOST_KEYS = 8


def find_keys(text: str) -> list[str]:
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
    return "The response agrees with the reference." if verdict.yes else "The response differs from the reference."


def fill_schema(schema: Mapping[str, Any], verdicts: Sequence[Verdict], prompt: str = "") -> Any:
    """A value that fits the schema. An array of numbers says the verdicts in turn; everything else says the first."""
    return _SchemaFiller(schema, verdicts, prompt).value(schema, "", verdicts[0])


class _SchemaFiller:
    def __init__(self, root: Mapping[str, Any], verdicts: Sequence[Verdict], prompt: str) -> None:
        self._root = root
        self._verdicts = verdicts
        self._chosen: dict[str, list[str]] = {}
        names = list(_key_lists(root, root))
        if names and (keys := find_keys(prompt)):
            source = random.Random(f"{verdicts[0].clearly}\0{prompt}")
            source.shuffle(keys)
            # Windows of one order, so that the lists overlap as those of a judge do.
            most = min(len(keys), _MOST_KEYS)
            for number, name in enumerate(names):
                start = source.randrange((most + 1) // 2) if number else 0
                self._chosen[name] = keys[start : start + source.randint(1, most)]

    def value(self, schema: Mapping[str, Any], name: str, verdict: Verdict, key: str | None = None) -> Any:
        schema = _resolve(schema, self._root)
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
        items = _resolve(schema.get("items", {}), self._root)
        if any(_KEY_NAME.search(part) for part in items.get("properties", {})) and self._chosen:
            keys = dict.fromkeys(key for chosen in self._chosen.values() for key in chosen)
            # A verdict of no needs one entry that says so; the others may agree.
            verdicts = (verdict if number % 2 == 0 else Verdict(True) for number in range(len(keys)))
            return [self.value(items, name, one, key) for key, one in zip(keys, verdicts, strict=True)]
        if _kind(items) in ("integer", "number"):
            count = schema.get("minItems", len(self._verdicts))
            return [self.value(items, name, self._verdicts[n % len(self._verdicts)]) for n in range(count)]
        return [self.value(items, name, verdict) for _ in range(schema.get("minItems", 1))]


def _key_lists(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    """The names of the schema's own properties that are lists of keys."""
    for name, part in _resolve(schema, root).get("properties", {}).items():
        array = _resolve(part, root)
        kinds = _kind(array), _kind(_resolve(array.get("items", {}), root))
        if _KEY_NAME.search(name) and kinds == ("array", "string"):
            yield name


def _resolve(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
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
