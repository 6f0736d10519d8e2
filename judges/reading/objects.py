"""Replies that are to be a JSON object, or, where the judge declares it, `field = value` lines.

Strict is the whole text as JSON that satisfies the schema. Tolerant takes wrapping away (a fence, prose around, an
outer object, the case of keys), reads Python literals, mends broken JSON (`repaired_json`) and takes a few other types,
but never builds a value. An object counts where it stands free, on lines of its own or behind a colon or a stop; all
that give a verdict agree. Prose around it is prose. The scanners run in linear time.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from ..response_schema import closed, coerced, fault
from .clean import folded, narrow, plain, unfenced, unwrap
from .json_text import load, load_python, objects_in, outside, unwrapped
from .places import Place, labelled_values, marred, opens_by_taking_back
from .repaired_json import mended
from .reply_text import Echoes, ReplyText, introduces_another

_LONGEST = 40_000
"""More than this in objects is not looked through for a verdict in wrapping."""
_LITERAL = re.compile(r"\S{1,80}")
_VALUES = re.compile(r"(?<!\w)(?:true|false|yes|no|[0-9]+)(?!\w)", re.I)
_WRAPPING = re.compile(r"</?(?:json|answer|output|result|verdict|evaluation)>|[*`(\[)\]]")
"""What may stand right around an object without saying anything."""
_FENCE_OPENS = re.compile(r"```[A-Za-z0-9_+-]{0,20}\s*\Z")
_FENCE_CLOSES = re.compile(r"\A\s*```")
_INTRODUCES = re.compile(r"[^!][.:!。：！]$")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Object:
    """One object that gives a verdict, and what it took to read it."""

    verdict: dict[str, Any]
    notes: tuple[str, ...] = ()
    repaired: bool = False


class ObjectReader:
    """Reads a JSON object, of whose schema some fields are the verdict, or an array, which is one field."""

    if TYPE_CHECKING:
        json_schema: dict[str, Any]
        verdict: list[str]
        lines: bool
        retractions: list[str]

    @property
    def is_array(self) -> bool:
        """Whether the verdict is the whole of an array."""
        return bool(self.json_schema["type"] == "array")

    @property
    def properties(self) -> dict[str, Any]:
        """Field → schema; of an array its one field."""
        return {self.verdict[0]: self.json_schema} if self.is_array else dict(self.json_schema["properties"])

    @cached_property
    def _fields(self) -> dict[str, Any]:
        """Verdict field → schema."""
        return {name: self.properties[name] for name in self.verdict}

    @cached_property
    def _narrowest(self) -> dict[str, Any]:
        """The schema without any other keys, but with those that are optional left so."""
        return closed(self.json_schema, complete=False)

    def strict(self, text: str) -> Scored | None:
        """The whole text is JSON and satisfies the whole schema."""
        value = load(text)
        if isinstance(value, Malformed) or fault(self._narrowest, value):
            return None
        found = self._verdict({self.verdict[0]: value} if self.is_array else value)
        return Scored(found[0], Provenance("strict")) if isinstance(found, tuple) and not found[1] else None

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens: an object that is closed, and whole as it stands."""
        found = self._tolerant(text, echoes, cut=True)
        if not isinstance(found, Scored) or found.provenance.stage == "repaired":
            return Malformed(Reason.TRUNCATED, "no object is whole")
        return Scored(found.verdict, Provenance("tolerant:object_cut", (*found.provenance.notes, "cut")))

    def tolerant(self, text: str, echoes: Echoes) -> Reading:
        """One verdict in wrapping, in broken JSON, or in lines."""
        decoded = load(body) if (body := unfenced(text)).startswith('"') else None
        if not isinstance(decoded, str) or not decoded.strip().startswith(("{", "[")):
            return self._tolerant(text, echoes)
        found = self.strict(decoded) or self._tolerant(narrow(decoded), echoes)
        if not isinstance(found, Scored):
            return found
        stage = "tolerant:encoded" if found.provenance.stage == "strict" else found.provenance.stage
        return Scored(found.verdict, Provenance(stage, ("double_encoded", *found.provenance.notes)))

    def places(self, text: str, echoes: Echoes) -> list[Place]:
        """Where in the reply objects stand that give a verdict."""
        spans = objects_in(text, "[" if self.is_array else "{")
        return [
            Place("object", getattr(found, "verdict", found), text.count("\n", 0, start), 0, text[start:end])
            for start, end in (() if isinstance(spans, Malformed) else self._own(text, spans, echoes))
            if (found := self._object(text[start:end])) is not None
        ]

    def _tolerant(self, text: str, echoes: Echoes, cut: bool = False) -> Reading:
        spans = objects_in(text, "[" if self.is_array else "{")
        if isinstance(spans, Malformed):
            return spans
        if sum(end - start for start, end in spans) > _LONGEST:
            return Malformed(Reason.NO_VERDICT, f"more than {_LONGEST} characters of objects")
        objects: dict[Span, _Object] = {}
        for span in self._own(text, spans, echoes):
            found = self._object(text[slice(*span)])
            if isinstance(found, Malformed):
                return found
            if found:
                objects[span] = found
        rest = outside(text, spans)
        given = self._in_lines(ReplyText(rest, echoes)) if self.lines and not cut else None
        if isinstance(given, Malformed):
            return given
        values = [found.verdict for found in objects.values()] + ([given] if given else [])
        if not values:
            return Malformed(Reason.NO_VERDICT)
        if any(_canonical(value) != _canonical(values[0]) for value in values):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "verdicts that differ")
        if objects and (taken := opens_by_taking_back(text[max(objects)[1] :], self.retractions)):
            return taken
        if free := next((span for span in objects if _stands_free(text, span, list(objects))), None):
            best, around = objects[free], _WRAPPING.sub("", unfenced(rest))
            place = "prose" if re.search(r"\w", around) else "fence" if "```" in rest else "object"
            return Scored(best.verdict, Provenance("repaired" if best.repaired else f"tolerant:{place}", best.notes))
        if given:
            return Scored(given, Provenance("tolerant:lines"))
        return Malformed(Reason.NO_VERDICT, "the only object stands within a sentence")

    def _own(self, text: str, spans: list[Span], echoes: Echoes) -> list[Span]:
        """The objects that are the judge's own: no responses', and no examples of the prompt if there are others."""
        if not self.is_array:
            names = list(map(_letters, self.verdict))
            spans = [span for span in spans if any(map(_letters(text[slice(*span)]).__contains__, names))]
        sole = len(spans) == 1 and not outside(text, spans).strip("`* \n")
        spans = [span for span in spans if sole or not echoes.in_response(text[slice(*span)])]
        return [span for span in spans if not echoes.is_example(text[slice(*span)])] or spans

    def _in_lines(self, reply: ReplyText) -> dict[str, Any] | Malformed | None:
        """The verdict of `field = value` lines; None where no line gives a field."""
        values = labelled_values(reply, {folded(name): name for name in self.verdict}, self._line_value)
        if isinstance(values, Malformed) or not values:
            return values or None
        for name, schema in self._fields.items():
            if name not in values:
                return Malformed(Reason.FIELD_MISSING, f"{name} is missing")
            # 1 may have been going on to 10: only a line behind it shows that the number is whole.
            number = values[name][0]
            behind = "".join(reply.lines[number + 1 : number + 2])
            if schema["type"] == "integer" and (number == reply.filled[-1] or behind[:1].isdigit()):
                return Malformed(Reason.TRUNCATED, f"{name} may go on behind its line")
        last = max(number for number, _ in values.values())
        taken = opens_by_taking_back("\n".join(reply.lines[last + 1 :]), self.retractions)
        return taken or {name: values[name][1] for name in self.verdict}

    def _line_value(self, name: str, text: str) -> tuple[Any, str] | None:
        """The value of a field on its line; None where what stands there is more than one literal."""
        schema = self._fields[name]
        literal = _LITERAL.fullmatch(text.rstrip(",;"))
        if literal is None:
            wrong = marred(text, lambda text: _VALUES.sub(" ", text))
            return (wrong, "") if wrong else None
        # A stop behind a number may be what is left of a fraction.
        for form in [literal[0]] if schema["type"] == "integer" else unwrap(literal[0]):
            value = coerced(schema, form)
            if fault(schema, value, name) is None and not (schema["type"] == "integer" and "." in form):
                return value, ""
        wrong = fault(schema, coerced(schema, literal[0].rstrip(".")), name)
        return (wrong, "") if wrong else None

    def _object(self, text: str) -> _Object | Malformed | None:
        """The verdict of one balanced `{…}`; None where it has nothing to do with one."""
        how: tuple[str, ...] = ()
        value, repaired = load(text, raw_controls=True), False
        if isinstance(value, Malformed) and value.reason == Reason.NO_VERDICT:
            value, how = load_python(text), ("python",)
        if self.is_array:
            # An array of another schema may be a citation in brackets.
            is_other = isinstance(value, Malformed) or fault(self.json_schema, value)
            return None if is_other else _Object({self.verdict[0]: value}, how)
        if isinstance(value, Malformed) and value.reason == Reason.NO_VERDICT:
            value, how, repaired = mended(text, self._fields), (), True
        if isinstance(value, Malformed):
            return value
        inside = unwrapped(value, self.properties)
        if not isinstance(inside, dict):
            return Malformed(Reason.FIELD_MISSING, f"{self.verdict[0]} is missing")
        found = self._verdict(inside)
        if isinstance(found, Malformed):
            return found
        verdict, notes = found
        notes = notes if inside is value else (*notes, "unwrapped")
        own = set(map(folded, self.verdict))
        rest = {key: below for key, below in inside.items() if folded(key) not in own}
        if fault(self._narrowest, rest | verdict) or fault(self.json_schema, rest | verdict):
            # The verdict is whole; only what goes with it is not as asked.
            notes = (*notes, "schema:other_fields")
        return _Object(verdict, (*notes, *how), repaired)

    def _verdict(self, value: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]] | Malformed:
        """The verdict fields of an object, and the keys that had to be folded."""
        if {"type", "properties"} <= set(value):
            return Malformed(Reason.SCHEMA_ECHO)
        verdict: dict[str, Any] = {}
        notes: tuple[str, ...] = ()
        for name, schema in self._fields.items():
            keys = [key for key in value if folded(key) == folded(name)]
            if not keys:
                return Malformed(Reason.FIELD_MISSING, f"{name} is missing")
            if len(keys) > 1:
                return Malformed(Reason.AMBIGUOUS_FIELD, f"{name} is given under {len(keys)} spellings")
            verdict[name] = coerced(schema, value[keys[0]])
            if wrong := fault(schema, verdict[name], name):
                return wrong
            notes += (f"key:{name}",) if keys[0] != name else ()
            notes += (f"coerced:{name}",) if type(verdict[name]) is not type(value[keys[0]]) else ()
        try:
            json.dumps(verdict, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return Malformed(Reason.OTHER_VALUE, "a value is not valid Unicode")
        return verdict, notes


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _stands_free(text: str, span: Span, verdicts: list[Span]) -> bool:
    """Whether an object stands on lines of its own, or behind a colon or a stop, and nothing behind it on its line.

    `verdicts`: the objects that give a verdict, one of which may stand beside another.
    """
    before = outside(text[: span[0]], [other for other in verdicts if other[1] <= span[0]])
    after = outside(text[span[1] :], [(a - span[1], b - span[1]) for a, b in verdicts if a >= span[1]])
    before, after = _FENCE_OPENS.sub("", before), _FENCE_CLOSES.sub("", after)
    here = _WRAPPING.sub("", plain(before.rpartition("\n")[2])).strip()
    if (here and not _INTRODUCES.search(here)) or here.startswith(">"):
        return False
    if before.count('"') % 2 or before.count("“") > before.count("”"):
        return False
    above = before.rstrip(" \t\n*_`#")
    if above.endswith((":", "：")) and introduces_another(above.rpartition("\n")[2]):
        return False
    return not _WRAPPING.sub("", after.partition("\n")[0]).strip(" .!_}\t")
