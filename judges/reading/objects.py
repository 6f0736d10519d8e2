"""Replies that are to be a JSON object, or, where the judge declares it, `field = value` lines.

Strict is the whole text as JSON that satisfies the schema. Tolerant takes wrapping away (a fence, prose around, an
outer object, the case of keys), reads Python literals, mends broken JSON (`repaired_json`) and takes a few other types
(`json_schema`), but never builds a value. An object counts where it stands free, on lines of its own or behind a colon
or a stop; all that give a verdict agree. Prose around it is prose. The scanners run in linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import folded, folded_key, narrow, plain, unwrap, without_fences
from .json_schema import check_schema, closed, coerced, fault, only
from .json_text import JsonFault, encoded, load, load_python, nested, objects_in, outside, squeezed, unwrapped
from .places import Place, ReplyForm, labelled_values, opens_by_taking_back
from .repaired_json import free_text_changed, mended
from .reply_text import Echoes, ReplyText, introduces_another

_LONGEST = 40_000
"""More than this in objects is not looked through for a verdict in wrapping."""
_LITERAL = re.compile(r"\S{1,80}")
_WRAPPERS = {"[": "]", "(": ")", "`": "`", "*": "*", "**": "**"}
_TAG = re.compile(r"<(json|answer|output|result|verdict|evaluation|judge?ment|decision)>")
_SAME, _OPPOSITE = ("is", "final", "overall", "isfinal"), ("in", "not", "un", "isin", "isnot")
"""What before a field's name makes a key that says the same, or the opposite."""
_FENCE_OPENS = re.compile(r"```[A-Za-z0-9_+-]{0,20}\s*\Z")
_FENCE_CLOSES = re.compile(r"\A\s*```")
_INTRODUCES = re.compile(r"[.:!。：！]$")


@dataclass(frozen=True, slots=True)
class _Object:
    """One object that gives a verdict, what it took to read it, and how (`object`, `python`, `repaired`)."""

    verdict: dict[str, Any]
    notes: tuple[str, ...]
    how: str


class ObjectReads(ReplyForm):
    """Read a JSON object; `verdict` names the fields of `schema` that are the verdict.

    A schema that is an array is read too: the verdict then has one field, the array.
    """

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
        if self._is_array:
            if len(self.verdict) > 1:
                raise ValueError("verdict: of a schema that is an array there is one field, the array")
            if self.lines:
                raise ValueError("lines: an array stands on no line")
        elif self.json_schema["type"] != "object":
            raise ValueError("schema.type: must be object or array")
        properties = self.properties
        for name in self.verdict:
            if name not in properties:
                raise ValueError(f"verdict: {name!r} is no property of the schema")
            if not self._is_array and name not in self.json_schema.get("required", []):
                raise ValueError(f"verdict: {name!r} must be among the schema's required properties")
            if self.lines and not (properties[name]["type"] in ("boolean", "integer") or "enum" in properties[name]):
                raise ValueError(f"lines: {name!r} is no boolean, integer or enum, which is all that a line can hold")
        if len({folded_key(name) for name in properties}) < len(properties):
            raise ValueError("schema.properties: two names differ in case only")
        return self

    @property
    def _is_array(self) -> bool:
        return bool(self.json_schema["type"] == "array")

    @property
    def properties(self) -> dict[str, Any]:
        """Field → schema; of an array its one field."""
        return {self.verdict[0]: self.json_schema} if self._is_array else dict(self.json_schema["properties"])

    @cached_property
    def _fields(self) -> dict[str, Any]:
        """Verdict field → schema."""
        return {name: self.properties[name] for name in self.verdict}

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {name: self.properties[name]["type"] for name in self.verdict}

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
        found = self._verdict({self.verdict[0]: value} if self._is_array else value)
        return Scored(found[0], Provenance("strict")) if isinstance(found, tuple) and not found[1] else None

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens: an object that is closed, with a line end behind it."""
        spans = objects_in(text, "[" if self._is_array else "{")
        if isinstance(spans, Malformed) or not spans:
            return Malformed(Reason.TRUNCATED, "no object is whole")
        found = self._tolerant(text, echoes, lines=False)
        if not isinstance(found, Scored) or found.provenance.stage == "repaired":
            return Malformed(Reason.TRUNCATED, "no object is whole")
        return Scored(found.verdict, Provenance("tolerant:object_cut", (*found.provenance.notes, "cut")))

    def knowing(self, texts: Iterable[str]) -> ObjectReads:
        """The same reading for replies to prompts of these texts, whose literal objects a reply may repeat."""
        literals = {
            literal
            for text in texts
            if not isinstance(spans := objects_in(text), Malformed)
            for start, end in spans
            if self._names_a_field(literal := squeezed(text[start:end]))
        }
        other = self.model_copy()
        other._examples = frozenset(literals)
        return other

    def tolerant(self, text: str, echoes: Echoes) -> Reading:
        """One verdict in wrapping, in broken JSON, or in lines."""
        decoded = encoded(text)
        if decoded is None:
            return self._tolerant(text, echoes)
        found = self.strict(decoded) or self._tolerant(narrow(decoded), echoes)
        if not isinstance(found, Scored):
            return found
        rule = "tolerant:encoded" if found.provenance.stage == "strict" else found.provenance.stage
        return Scored(found.verdict, Provenance(rule, ("double_encoded", *found.provenance.notes)))

    def _tolerant(self, text: str, echoes: Echoes, lines: bool = True) -> Reading:
        spans = objects_in(text, "[" if self._is_array else "{")
        if isinstance(spans, Malformed):
            return spans
        if sum(end - start for start, end in spans) > _LONGEST:
            return Malformed(Reason.NO_VERDICT, f"more than {_LONGEST} characters of objects")
        rest = outside(text, spans)
        objects: dict[tuple[int, int], _Object] = {}
        for span in self._own(text, spans, echoes):
            found = self._object(text[slice(*span)])
            if isinstance(found, Malformed):
                return found
            if found:
                objects[span] = found
        values = [found.verdict for found in objects.values()]
        given = self._in_lines(ReplyText(rest, echoes)) if self.lines and lines else None
        if isinstance(given, Malformed):
            return given
        values += [given] if given else []
        if not values:
            return Malformed(Reason.NO_VERDICT)
        if any(_canonical(value) != _canonical(values[0]) for value in values):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "verdicts that differ")
        behind = text[max((end for _, end in objects), default=0) :]
        if taken := opens_by_taking_back(behind, self.retractions) if objects else None:
            return Malformed(Reason.CONFLICT, f"the verdict is taken back: {taken!r}")
        return self._settle(text, rest, objects, given)

    def places(self, text: str, echoes: Echoes) -> list[Place]:
        """Where in the reply objects stand that give a verdict."""
        spans = objects_in(text, "[" if self._is_array else "{")
        found = []
        for start, end in [] if isinstance(spans, Malformed) else self._own(text, spans, echoes):
            given = self._object(text[start:end])
            if given is not None:
                value = given if isinstance(given, Malformed) else given.verdict
                found.append(Place("object", value, text.count("\n", 0, start), 0, text[start:end]))
        return found

    def _settle(
        self, text: str, rest: str, objects: dict[tuple[int, int], _Object], given: dict[str, Any] | None
    ) -> Reading:
        """The verdict on which all agree, at the stage of the first object that stands free."""
        spans = list(objects)
        free = next((span for span in spans if _stands_free(*_around(text, span, spans))), None)
        alone = len(spans) == 1 and _wrapped_alone(text[: spans[0][0]], text[spans[0][1] :])
        if free is None and not alone:
            if given is None:
                return Malformed(Reason.NO_VERDICT, "the only object stands within a sentence")
            return Scored(given, Provenance("tolerant:lines"))
        best = objects[free] if free else next(iter(objects.values()))
        place = "object" if not rest.strip() else "fence" if not without_fences(rest).strip() else "prose"
        notes = (*best.notes, "unwrapped") if alone and "unwrapped" not in best.notes else best.notes
        notes = (*notes, "python") if best.how == "python" else notes
        stage = "repaired" if best.how == "repaired" else "tolerant:object" if alone else f"tolerant:{place}"
        return Scored(best.verdict, Provenance(stage, notes))

    @cached_property
    def _narrowest(self) -> dict[str, Any]:
        """The schema without any other keys, but with those that are optional left so."""
        return only(self.json_schema)

    def _own(self, text: str, spans: list[tuple[int, int]], echoes: Echoes) -> list[tuple[int, int]]:
        """The objects that are the judge's own: no responses', and no examples of the prompt if there are others."""
        if not self._is_array:
            spans = [span for span in spans if self._names_a_field(text[slice(*span)])]
        sole = len(spans) == 1 and not outside(text, spans).strip("`* \n")
        spans = [span for span in spans if sole or not echoes.in_response(text[slice(*span)])]
        own = [span for span in spans if squeezed(text[slice(*span)]) not in self._examples]
        return own or spans

    def _in_lines(self, reply: ReplyText) -> dict[str, Any] | Malformed | None:
        """The verdict of `field = value` lines; None where no line gives a field."""
        values = labelled_values(reply, {folded(name): name for name in self.verdict}, self._line_value)
        if isinstance(values, Malformed) or not values:
            return values if isinstance(values, Malformed) else None
        if missing := [name for name in self.verdict if name not in values]:
            return Malformed(Reason.FIELD_MISSING, f"{missing[0]} is missing")
        for name, (number, _) in values.items():
            # 1 may have been going on to 10: only a line behind it shows that the number is whole.
            behind = "".join(reply.lines[number + 1 : number + 2])
            if self._fields[name]["type"] == "integer" and (number == reply.filled[-1] or behind[:1].isdigit()):
                return Malformed(Reason.TRUNCATED, f"{name} may go on behind its line")
        last = max(number for number, _ in values.values())
        if taken := opens_by_taking_back("\n".join(reply.lines[last + 1 :]), self.retractions):
            return Malformed(Reason.CONFLICT, f"the verdict is taken back: {taken!r}")
        return {name: value for name, (_, value) in values.items()}

    def _line_value(self, name: str, text: str) -> Any:
        """The value of a field on its line; None where what stands there is more than one literal."""
        literal = _LITERAL.fullmatch(text.strip().rstrip(",;"))
        if literal is None:
            return None
        schema = self._fields[name]
        # A stop behind a number may be what is left of a fraction.
        for form in [literal[0]] if schema["type"] == "integer" else unwrap(literal[0]):
            value = coerced(schema, form)
            if fault(schema, value, name) is None and not (schema["type"] == "integer" and "." in form):
                return value
        wrong = fault(schema, coerced(schema, plain(literal[0]).rstrip(".")), name)
        return Malformed(*wrong) if wrong else None

    def _object(self, text: str) -> _Object | Malformed | None:
        """The verdict of one balanced `{…}`; None where it has nothing to do with one."""
        value, how = self._loaded(text)
        if isinstance(value, Malformed):
            return value
        if self._is_array:
            return self._array(value, how)
        value, wrapped = unwrapped(value, self.properties)
        if not isinstance(value, dict):
            return Malformed(Reason.FIELD_MISSING, f"{self.verdict[0]} is missing")
        found = self._verdict(value)
        if isinstance(found, Malformed):
            return found
        verdict, notes = found
        if wrapped:
            notes = (*notes, "unwrapped")
        if how == "repaired" and free_text_changed(value, text, self.verdict):
            notes = (*notes, "reason_repaired")
        own = set(map(folded_key, self.verdict))
        rest = {key: below for key, below in value.items() if folded_key(key) not in own}
        given = {key: verdict.get(key, below) for key, below in value.items()}
        if fault(self._narrowest, rest | verdict) or fault(self.json_schema, given | verdict):
            # The verdict is whole; only what goes with it is not as asked.
            notes = (*notes, "schema:other_fields")
        return _Object(verdict, notes, how)

    def _loaded(self, text: str) -> tuple[Any, str]:
        """(value or Malformed, how it was read) of a balanced span: JSON, a Python literal, or JSON mended."""
        try:
            return load(text, raw_controls=True), "object"
        except JsonFault as trouble:
            if trouble.reason != Reason.NO_VERDICT:
                return Malformed(trouble.reason, str(trouble)), ""
        try:
            return load_python(text), "python"
        except JsonFault as trouble:
            if trouble.reason != Reason.NO_VERDICT:
                return Malformed(trouble.reason, str(trouble)), ""
        if self._is_array:
            return Malformed(Reason.NO_VERDICT, "no array of JSON"), ""
        return mended(text, self._fields), "repaired"

    def _array(self, value: Any, how: str) -> _Object | None:
        """An array of the schema; None where it is another one, such as a citation in brackets."""
        if fault(self.json_schema, value):
            return None
        return _Object({self.verdict[0]: value}, (), how)

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
            schema = self.properties[name]
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
        for key, other in value.items():
            for name, schema in self._fields.items():
                letters, own = ("".join(filter(str.isalnum, each.casefold())) for each in (key, name))
                same, opposite = (letters in {prefix + own for prefix in each} for each in (_SAME, _OPPOSITE))
                said = coerced(schema, other) if same or opposite else None
                if type(said) is type(verdict[name]) and (said != verdict[name]) is same:
                    return Malformed(Reason.CONFLICT, f"{key[:60]!r} speaks against {name}")
        for name, other in nested(value, set(self.verdict)):
            if _canonical(coerced(self._fields[name], other)) != _canonical(verdict[name]):
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


def _around(text: str, span: tuple[int, int], verdicts: list[tuple[int, int]]) -> tuple[str, str]:
    """The text before and behind an object, without the other objects that give a verdict."""
    before = [other for other in verdicts if other[1] <= span[0]]
    after = [(start - span[1], stop - span[1]) for start, stop in verdicts if start >= span[1]]
    return outside(text[: span[0]], before), outside(text[span[1] :], after)


def _stands_free(before: str, after: str) -> bool:
    """Whether an object stands on lines of its own, or behind a colon or a stop, and nothing behind it on its line."""
    before, after = _FENCE_OPENS.sub("", before), _FENCE_CLOSES.sub("", after)
    here = plain(before.rpartition("\n")[2])
    if (here and not _INTRODUCES.search(here)) or here == "!" or here.startswith(">"):
        return False
    if before.count('"') % 2 or before.count("“") > before.count("”"):
        return False
    above = before.rstrip(" \t\n*_`#")
    if above.endswith((":", "：")) and introduces_another(above.rpartition("\n")[2]):
        return False
    return not after.partition("\n")[0].strip(" .!*_`}])\t")


def _wrapped_alone(before: str, after: str) -> bool:
    """Whether there is nothing around an object but one matched wrapper: a list of one, marks, or a tag."""
    before, after = without_fences(before).strip(), without_fences(after).strip()
    if _WRAPPERS.get(before) == after:
        return True
    tag = _TAG.fullmatch(before)
    return tag is not None and after == f"</{tag[1]}>"
