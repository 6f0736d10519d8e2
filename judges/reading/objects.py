"""Replies that are to be a JSON object, or, where the judge declares it, `field = value` lines.

Strict is the whole text as JSON that satisfies the schema. Tolerant takes wrapping away (a fence, prose around, the
case of keys) but never builds a value: each verdict field is a complete JSON literal, or the only word of its line. All
objects, lines and mentions of a verdict field in the reply must agree. The scanners run in linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from judges.outcome import Malformed, Provenance, Reading, Reason, Scored

from .clean import introduced, narrow, peel, plain, retracted
from .schema import check_schema, closed, fault
from .spans import objects_in, only_fences, outside, stands_free
from .strict_json import JsonFault, load

_SIGN = re.compile("[:=]")
_MOST_LINES = 8
# Words that together show a line to be the instruction again, not its answer.
_ECHO_IF = re.compile(r"\b(?:if|otherwise|should|unless|whether)\b", re.I)
_ECHO_SET = re.compile(r"\b(?:set|answer)\b", re.I)
_ECHO_OPTIONS = re.compile(r"\btrue\s{0,3}(?:or|\||/)\s{0,3}false\b", re.I)
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False}


class ObjectReads(BaseModel):
    """Read a JSON object; `verdict` names the fields of `schema` that are the verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_alias=True, serialize_by_alias=True)

    kind: Literal["object"]
    json_schema: Annotated[dict[str, Any], Field(alias="schema")]
    verdict: Annotated[list[str], Field(min_length=1)]
    lines: bool = False
    """Whether `field = value` lines are a verdict too."""

    @model_validator(mode="after")
    def _sound(self) -> ObjectReads:
        check_schema(self.json_schema)
        if self.json_schema["type"] != "object":
            raise ValueError("schema.type: must be object")
        properties = self.json_schema["properties"]
        for name in self.verdict:
            if name not in properties:
                raise ValueError(f"verdict: {name!r} is no property of the schema")
            if name not in self.json_schema.get("required", []):
                raise ValueError(f"verdict: {name!r} must be among the schema's required properties")
            if self.lines and not (properties[name]["type"] in ("boolean", "integer") or "enum" in properties[name]):
                raise ValueError(f"lines: {name!r} is no boolean, integer or enum, which is all that a line can hold")
        if len({_fold(name) for name in properties}) < len(properties):
            raise ValueError("schema.properties: two names differ in case only")
        return self

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {name: self.json_schema["properties"][name]["type"] for name in self.verdict}

    def response_schema(self) -> dict[str, Any] | None:
        """The schema to have enforced."""
        return closed(self.json_schema)

    def strict(self, text: str) -> Scored | None:
        """The whole text is JSON and satisfies the whole schema."""
        try:
            value = load(text)
        except JsonFault:
            return None
        if fault(self.json_schema, value):
            return None
        found = self._verdict(value)
        return Scored(found[0], Provenance("strict")) if isinstance(found, tuple) and not found[1] else None

    def complete(self, text: str) -> Scored | None:
        """What may be read of a reply that ran out of tokens: a whole JSON value and nothing besides."""
        return self.strict(text)

    def tolerant(self, text: str) -> Reading:
        """One verdict in wrapping, or in lines."""
        spans = objects_in(text)
        if isinstance(spans, Malformed):
            return spans
        rest = outside(text, spans)
        read: dict[tuple[int, int], tuple[dict[str, Any], tuple[str, ...]]] = {}
        for start, end in spans:
            found = self._object(text[start:end])
            if isinstance(found, Malformed):
                return found
            if found:
                read[start, end] = found
        values = [verdict for verdict, _ in read.values()]
        lines = self._lines(rest) if self.lines else None
        if isinstance(lines, Malformed):
            return lines
        if lines:
            values.append(lines)
        if not values:
            return Malformed(Reason.NO_VERDICT)
        if any(_canonical(value) != _canonical(values[0]) for value in values):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "verdicts that differ")
        if contrary := self._contrary(rest, values[0]):
            return Malformed(Reason.CONFLICT, contrary)
        free = next((span for span in read if stands_free(text[: span[0]], text[span[1] :])), None)
        if free is None:
            if not lines:
                return Malformed(Reason.NO_VERDICT, "the only object may be a quotation, or is withdrawn")
            return Scored(values[0], Provenance("tolerant:lines"))
        rule = "object" if not rest.strip() else "fence" if only_fences(rest) else "prose"
        return Scored(values[0], Provenance(f"tolerant:{rule}", read[free][1]))

    @cached_property
    def _mention(self) -> re.Pattern[str]:
        names = "|".join(re.escape(name) for name in sorted(self.verdict, key=len, reverse=True))
        return re.compile(rf"(?<![\w-])({names})[\s*_`\"']{{0,6}}[:=][\s*_`\"']{{0,6}}(-?\w[\w./%-]{{0,30}})", re.I)

    def _object(self, text: str) -> tuple[dict[str, Any], tuple[str, ...]] | Malformed | None:
        """The verdict of one balanced `{…}`; None where it has nothing to do with one."""
        try:
            value = load(text, raw_controls=True)
        except JsonFault as trouble:
            return Malformed(trouble.reason, str(trouble)) if self._names_a_field(text) else None
        if not self._names_a_field(text):
            return None
        found = self._verdict(value)
        if isinstance(found, Malformed):
            return found
        verdict, notes = found
        if fault(self.json_schema, value):
            # The verdict is whole; only what goes with it is not as asked.
            if any(_canonical(other) != _canonical(verdict[name]) for name, other in _nested(value, set(self.verdict))):
                return Malformed(Reason.AMBIGUOUS_FIELD, "a nested object gives another verdict")
            notes = (*notes, "schema:other_fields")
        return verdict, notes

    def _names_a_field(self, text: str) -> bool:
        folded = _fold(text)
        return any(_fold(name) in folded for name in self.verdict)

    def _verdict(self, value: Any) -> tuple[dict[str, Any], tuple[str, ...]] | Malformed:
        """The verdict fields of an object, and the keys that had to be folded."""
        if {"type", "properties"} <= set(value):
            return Malformed(Reason.SCHEMA_ECHO)
        by_key: dict[str, list[str]] = {}
        for key in value:
            by_key.setdefault(_fold(key), []).append(key)
        verdict: dict[str, Any] = {}
        notes: tuple[str, ...] = ()
        for name in self.verdict:
            keys = by_key.get(_fold(name), [])
            if not keys:
                return Malformed(Reason.FIELD_MISSING, f"{name} is missing")
            if len(keys) > 1:
                return Malformed(Reason.AMBIGUOUS_FIELD, f"{name} is given under {len(keys)} spellings")
            wrong = fault(self.json_schema["properties"][name], value[keys[0]], name)
            if wrong:
                return Malformed(*wrong)
            if keys[0] != name:
                notes = (*notes, f"key:{name}")
            verdict[name] = value[keys[0]]
        if not _encodable(verdict):
            return Malformed(Reason.OTHER_VALUE, "a value is not valid Unicode")
        return verdict, notes

    def _lines(self, text: str) -> dict[str, Any] | Malformed | None:
        """The verdict of `field = value` lines: each field on a line of its own, all that are given agreeing."""
        lines = self._own_lines(text)
        fields = [self._field_line(line, self.verdict) for line in lines]
        numbers = [number for number, (field, _) in enumerate(fields) if field]
        if len(numbers) > _MOST_LINES * len(self.verdict):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "too many lines that give a verdict")
        prose = ["" if self._field_line(line, self.json_schema["properties"], True)[0] else line for line in lines]
        found: dict[str, Any] = {}
        for number in numbers:
            field, raw = fields[number]
            value = self._line_value(field, raw, last=number == len(lines) - 1)
            if isinstance(value, Malformed):
                return value
            if field in found and _canonical(found[field]) != _canonical(value):
                return Malformed(Reason.CONFLICT, f"lines that differ in {field}")
            if not introduced("\n".join(prose[:number])) or retracted("\n".join(prose[number + 1 :])):
                return Malformed(Reason.NO_VERDICT, "the line may be a quotation, or is withdrawn")
            found[field] = value
        if found and (missing := [name for name in self.verdict if name not in found]):
            return Malformed(Reason.FIELD_MISSING, f"{missing[0]} is missing")
        return found or None

    def _own_lines(self, text: str) -> list[str]:
        """The lines without markdown; `correct=true` as the last sentence of the last line counts as a line too."""
        lines = [plain(line) for line in text.rstrip().splitlines()]
        if lines:
            head, _, tail = lines[-1].rpartition(" ")
            if (
                head.endswith((".", "!"))
                and not set("\"'“”:=`") & set(head)
                and self._field_line(tail, self.verdict)[0]
                and not _echoes(head)
            ):
                lines[-1:] = [head, tail]
        return lines

    def _field_line(self, line: str, names: Iterable[str], any_value: bool = False) -> tuple[str, str]:
        """(field, value) of a line that is nothing but one of the fields and its value, else two empty texts."""
        line = line.lstrip("-• ")
        sign = _SIGN.search(line[:60])
        if not sign:
            return "", ""
        field = next((name for name in names if _fold(name) == _fold(line[: sign.start()])), "")
        value = line[sign.end() :].strip()
        if any_value:
            return field, value
        return (field, value) if len(value.split(None, 1)) == 1 and not _echoes(line) else ("", "")

    def _line_value(self, field: str, raw: str, last: bool) -> Any:
        schema = self.json_schema["properties"][field]
        word = peel(raw.rstrip(",;"), quotes=True)
        value: Any = word
        if schema["type"] == "boolean":
            value = _BOOLEANS.get(word.lower())
        elif schema["type"] == "integer":
            if last:
                # 1 may have been going on to 10: only a line end shows that the number is whole.
                return Malformed(Reason.TRUNCATED, f"{field} ends where the reply ends")
            value = int(word) if re.fullmatch(r"-?[0-9]{1,9}", raw) else None
        wrong = fault(schema, value, field)
        return Malformed(*wrong) if wrong else value

    def _contrary(self, text: str, verdict: dict[str, Any]) -> str | None:
        """A mention of a verdict field that does not say what the verdict says."""
        for line in text.splitlines():
            mentions = list(self._mention.finditer(line))
            if not mentions or _echoes(line):
                continue
            for mention in mentions:
                name = next(name for name in self.verdict if name.lower() == mention[1].lower())
                said = mention[2].rstrip(".").lower()
                value = _BOOLEANS.get(said, said) if isinstance(verdict[name], bool) else said
                ours = verdict[name] if isinstance(verdict[name], bool) else str(verdict[name]).lower()
                if value != ours:
                    return f"{mention[0][:60]!r} speaks against the verdict"
        return None


def _echoes(line: str) -> bool:
    """Whether a line repeats the instruction (`set correct=true if …`) instead of following it."""
    return bool((_ECHO_IF.search(line) and _ECHO_SET.search(line)) or _ECHO_OPTIONS.search(line))


def _nested(value: Any, names: set[str]) -> Iterator[tuple[str, Any]]:
    """Every (verdict field, value) below the top level."""
    waiting = list(value.values())
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from ((name, part[name]) for name in names & set(part))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _fold(key: str) -> str:
    return "".join(narrow(key).split()).strip("\"'*_`").casefold()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
