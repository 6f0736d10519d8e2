"""Replies that are to be a JSON object, or, where the judge declares it, `field = value` lines.

Strict is the whole text as JSON that satisfies the schema. Tolerant takes wrapping away (a fence, prose around, an
outer object, the case of keys), mends broken JSON (`mended`) and takes a few other types (`coercion`), but never builds
a value. All objects, lines and mentions of a verdict field in the reply must agree. The scanners run in linear time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import folded_key, narrow
from .contradictions import Contradictions, contradicting_keys, said_in_lines
from .field_lines import FieldLines
from .json_schema import check_schema, closed, coerced, fault, only
from .json_text import (
    JsonFault,
    around,
    encoded,
    load,
    nested,
    objects_in,
    only_fences,
    outside,
    squeezed,
    stands_free,
    unwrapped,
    without_heading,
    wrapped_alone,
)
from .repaired_json import free_text_changed, mended

_LONGEST = 40_000
"""More than this in objects is not looked through for a verdict in wrapping."""


@dataclass(frozen=True, slots=True)
class _Object:
    """One object that gives a verdict, what it took to read it, and whether it had to be mended."""

    verdict: dict[str, Any]
    notes: tuple[str, ...]
    repaired: bool


class ObjectReads(BaseModel):
    """Read a JSON object; `verdict` names the fields of `schema` that are the verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_alias=True, serialize_by_alias=True)

    kind: Literal["object"]
    json_schema: Annotated[dict[str, Any], Field(alias="schema")]
    """The object's JSON Schema."""
    verdict: Annotated[list[str], Field(min_length=1)]
    """The required fields that count; true or false and numbers become scores."""
    lines: bool = False
    """Whether `field = value` lines are a verdict too."""

    _examples: frozenset[str] = PrivateAttr(default=frozenset())

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
        if len({folded_key(name) for name in properties}) < len(properties):
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
        if fault(self._narrowest, value):
            return None
        found = self._verdict(value)
        return Scored(found[0], Provenance("strict")) if isinstance(found, tuple) and not found[1] else None

    def complete(self, text: str) -> Scored | None:
        """What may be read of a reply that ran out of tokens: a whole JSON value and nothing besides."""
        return self.strict(text)

    def knowing(self, texts: Iterable[str]) -> ObjectReads:
        """The same reading for replies to prompts of these texts, whose literal objects a reply may repeat."""
        found = {
            literal
            for text in texts
            if not isinstance(spans := objects_in(text), Malformed)
            for start, end in spans
            if self._names_a_field(literal := squeezed(text[start:end]))
        }
        other = self.model_copy()
        other._examples = frozenset(found)
        return other

    def tolerant(self, text: str) -> Reading:
        """One verdict in wrapping, in broken JSON, or in lines."""
        decoded = encoded(text)
        if decoded is None:
            return self._tolerant(text)
        found = self.strict(decoded) or self._tolerant(narrow(decoded))
        if not isinstance(found, Scored):
            return found
        rule = "tolerant:encoded" if found.provenance.stage == "strict" else found.provenance.stage
        return Scored(found.verdict, Provenance(rule, ("double_encoded", *found.provenance.notes)))

    def _tolerant(self, text: str) -> Reading:
        spans = objects_in(text)
        if isinstance(spans, Malformed):
            return spans
        text, spans = self._without_examples(text, spans)
        if sum(end - start for start, end in spans) > _LONGEST:
            return Malformed(Reason.NO_VERDICT, f"more than {_LONGEST} characters of objects")
        rest = outside(text, spans)
        read: dict[tuple[int, int], _Object] = {}
        for start, end in spans:
            found = self._object(text[start:end])
            if isinstance(found, Malformed):
                return found
            if found:
                read[start, end] = found
        values = [found.verdict for found in read.values()]
        lines = self._field_lines.read(rest) if self.lines else None
        if isinstance(lines, Malformed):
            return lines
        if lines:
            values.append(lines)
        if not values:
            return Malformed(Reason.NO_VERDICT)
        if any(_canonical(value) != _canonical(values[0]) for value in values):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "verdicts that differ")
        if contrary := self._contraries.in_text(rest, values[0]):
            return Malformed(Reason.CONFLICT, contrary)
        if beside := said_in_lines(rest, self._contraries.fields, values[0]):
            return beside
        if stated := self._contraries.in_remarks(text, list(read), values[0]):
            return Malformed(Reason.CONFLICT, stated)
        free = next((span for span in read if stands_free(*around(text, span, list(read)))), None)
        listed = len(read) == 1 and wrapped_alone(*around(text, next(iter(read)), []))
        if free is None and not listed:
            if not lines:
                return Malformed(Reason.NO_VERDICT, "the only object may be a quotation, or is withdrawn")
            return Scored(values[0], Provenance("tolerant:lines"))
        best = read[free] if free else next(iter(read.values()))
        rule = "object" if not rest.strip() else "fence" if only_fences(rest) else "prose"
        notes = (*best.notes, "unwrapped") if listed and "unwrapped" not in best.notes else best.notes
        stage = "repaired" if best.repaired else "tolerant:object" if listed else f"tolerant:{rule}"
        return Scored(values[0], Provenance(stage, notes))

    @cached_property
    def _narrowest(self) -> dict[str, Any]:
        """The schema without any other keys, but with those that are optional left so."""
        return only(self.json_schema)

    @cached_property
    def _field_lines(self) -> FieldLines:
        return FieldLines(self.json_schema["properties"], self.verdict)

    @cached_property
    def _contraries(self) -> Contradictions:
        return Contradictions({name: self.json_schema["properties"][name] for name in self.verdict})

    def _without_examples(self, text: str, spans: list[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
        """The text without the prompt's own examples that it repeats, unless there is nothing else."""
        named = [span for span in spans if self._names_a_field(text[slice(*span)])]
        echoed = [span for span in named if squeezed(text[slice(*span)]) in self._examples]
        if not echoed or len(echoed) == len(named):
            return text, spans
        pieces, end = [], 0
        for start, stop in echoed:
            pieces.append(without_heading(text[end:start]))
            end = stop
        text = "".join([*pieces, text[end:]])
        left = objects_in(text)
        assert not isinstance(left, Malformed)
        return text, left

    def _object(self, text: str) -> _Object | Malformed | None:
        """The verdict of one balanced `{…}`; None where it has nothing to do with one."""
        if not self._names_a_field(text):
            return None
        repaired = False
        try:
            value = load(text, raw_controls=True)
        except JsonFault as trouble:
            if trouble.reason != Reason.NO_VERDICT:
                return Malformed(trouble.reason, str(trouble))
            value = mended(text, self._contraries.fields)
            if isinstance(value, Malformed):
                return value
            repaired = True
        value, wrapped = unwrapped(value, self.json_schema["properties"])
        if not isinstance(value, dict):
            return Malformed(Reason.FIELD_MISSING, f"{self.verdict[0]} is missing")
        found = self._verdict(value)
        if isinstance(found, Malformed):
            return found
        verdict, notes = found
        if wrapped:
            notes = (*notes, "unwrapped")
        if repaired and free_text_changed(value, text, self.verdict):
            notes = (*notes, "reason_repaired")
        own = set(map(folded_key, self.verdict))
        rest = {key: below for key, below in value.items() if folded_key(key) not in own}
        given = {key: verdict.get(key, below) for key, below in value.items()}
        if fault(self._narrowest, rest | verdict) or fault(self.json_schema, given | verdict):
            # The verdict is whole; only what goes with it is not as asked.
            notes = (*notes, "schema:other_fields")
        return _Object(verdict, notes, repaired)

    def _names_a_field(self, text: str) -> bool:
        folded = folded_key(text)
        return any(folded_key(name) in folded for name in self.verdict)

    def _verdict(self, value: Any) -> tuple[dict[str, Any], tuple[str, ...]] | Malformed:
        """The verdict fields of an object, and the keys that had to be folded."""
        if {"type", "properties"} <= set(value):
            return Malformed(Reason.SCHEMA_ECHO)
        by_key: dict[str, list[str]] = {}
        for key in value:
            by_key.setdefault(folded_key(key), []).append(key)
        verdict: dict[str, Any] = {}
        notes: tuple[str, ...] = ()
        for name in self.verdict:
            keys = by_key.get(folded_key(name), [])
            if not keys:
                return Malformed(Reason.FIELD_MISSING, f"{name} is missing")
            if len(keys) > 1:
                return Malformed(Reason.AMBIGUOUS_FIELD, f"{name} is given under {len(keys)} spellings")
            schema = self.json_schema["properties"][name]
            given = coerced(schema, value[keys[0]])
            if wrong := fault(schema, given, name):
                return Malformed(*wrong)
            if keys[0] != name:
                notes = (*notes, f"key:{name}")
            if type(given) is not type(value[keys[0]]):
                notes = (*notes, f"coerced:{name}")
            verdict[name] = given
        if not _encodable(verdict):
            return Malformed(Reason.OTHER_VALUE, "a value is not valid Unicode")
        if contrary := self._contraries.in_keys(value, verdict):
            return Malformed(Reason.CONFLICT, contrary)
        fields = self._contraries.fields
        if wrong_beside := contradicting_keys(value, set(self.json_schema["properties"]), fields, verdict):
            return wrong_beside
        for name, other in nested(value, set(self.verdict)):
            if _canonical(coerced(fields[name], other)) != _canonical(verdict[name]):
                return Malformed(Reason.CONFLICT, "a nested object gives another verdict")
        return verdict, notes


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
