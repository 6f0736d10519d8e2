"""`field = value` lines, which a judge may declare to be a verdict besides an object.

Each verdict field stands on a line of its own, or is the last sentence; all that are given agree. The instruction
echoed is no line, and one that is quoted, reported or taken back makes the reply unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..outcome import Malformed, Reason
from .clean import folded_key, introduced, peel, plain, retracted
from .contradictions import BOOLEANS, echoes
from .json_schema import fault

_SIGN = re.compile("[:=]")
_MOST_LINES = 8
_LAST_SENTENCE = re.compile(r".*[.!](?=[ \t])")
_NUMBER = re.compile(r"[:=](?:[*_]{2,3})?[ \t]*(?P<mark>\*{2,3}|__|`|)-?[0-9]{1,9}(?P=mark)(?:[*_]{2,3})?[ \t]*$")
"""A number at the end of its line; with a lone mark beside it a digit may have been lost."""
_CONCLUDES = re.compile(
    r"(?:(?:therefore|thus|hence|so|accordingly|overall|in\s{1,3}conclusion)\b,?\s{1,3})?"
    r"(?:I\s{1,3}(?:have\s{1,3}|will\s{1,3}|would\s{1,3})?set\s{1,3})?",
    re.I,
)
"""How a sentence opens that is nothing but a field and its value: `Therefore, I set correct=false.`"""


@dataclass(frozen=True)
class FieldLines:
    """Reads the `verdict` fields of a schema's `properties` from lines."""

    properties: Mapping[str, Mapping[str, Any]]
    verdict: Sequence[str]

    def read(self, text: str) -> dict[str, Any] | Malformed | None:
        """The verdict; None where no line gives a field."""
        lines, raw_lines = self._own_lines(text)
        fields = [self._field(line, self.verdict) for line in lines]
        numbers = [number for number, (field, _) in enumerate(fields) if field]
        if len(numbers) > _MOST_LINES * len(self.verdict):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "too many lines that give a verdict")
        prose = ["" if self._field(line, self.properties, True)[0] else line for line in lines]
        found: dict[str, Any] = {}
        for number in numbers:
            field, raw = fields[number]
            if raw_lines[number].lstrip().startswith(("#", "//")) or _fence_is_another_s(text, raw_lines[number]):
                return Malformed(Reason.NO_VERDICT, "the line is a comment, or the end of a quotation")
            behind = "\n".join(lines[number + 1 : number + 3]).strip()
            value = self._value(field, raw, raw_lines[number], behind)
            if isinstance(value, Malformed):
                return value
            if field in found and json.dumps(found[field]) != json.dumps(value):
                return Malformed(Reason.CONFLICT, f"lines that differ in {field}")
            if not introduced("\n".join(prose[:number])) or retracted("\n".join(prose[number + 1 :])):
                return Malformed(Reason.NO_VERDICT, "the line may be a quotation, or is withdrawn")
            found[field] = value
        if found and (missing := [name for name in self.verdict if name not in found]):
            return Malformed(Reason.FIELD_MISSING, f"{missing[0]} is missing")
        return found or None

    def _own_lines(self, text: str) -> tuple[list[str], list[str]]:
        """The lines, without markdown and with it; the last sentence of the last line counts as a line too."""
        raw = text.rstrip().splitlines()
        lines = [plain(line) for line in raw]
        head = _LAST_SENTENCE.match(lines[-1]) if lines else None
        if head and not set("\"'“”:=`") & set(head[0]) and not echoes(head[0]):
            tail = lines[-1][head.end() :].strip()
            if self._field(tail, self.verdict)[0]:
                lines[-1:], raw[-1:] = [head[0], tail], [raw[-1], raw[-1]]
        return lines, raw

    def _field(self, line: str, names: Iterable[str], any_value: bool = False) -> tuple[str, str]:
        """(field, value) of a line that is nothing but one of the fields and its value, else two empty texts."""
        line = line.lstrip("-• ")
        if opening := None if any_value else _CONCLUDES.match(line):
            line = line[opening.end() :]
        sign = _SIGN.search(line[:60])
        if not sign:
            return "", ""
        given = folded_key(line[: sign.start()])
        field = next((name for name in names if folded_key(name) == given), "") if given else ""
        value = line[sign.end() :].strip()
        if any_value:
            return field, value
        return (field, value) if len(value.split(None, 1)) == 1 and not echoes(line) else ("", "")

    def _value(self, field: str, raw: str, line: str, behind: str) -> Any:
        schema = self.properties[field]
        word = peel(raw.rstrip(",;"), quotes=True)
        value: Any = word
        if schema["type"] == "boolean":
            value = BOOLEANS.get(word.lower())
        elif schema["type"] == "integer":
            if not behind:
                # 1 may have been going on to 10: only a line end shows that the number is whole.
                return Malformed(Reason.TRUNCATED, f"{field} ends where the reply ends")
            whole = _NUMBER.search(line) is not None and not behind[0].isdigit()
            value = int(raw) if whole and re.fullmatch(r"-?[0-9]{1,9}", raw) else None
        wrong = fault(schema, value, field)
        return Malformed(*wrong) if wrong else value


def _fence_is_another_s(text: str, line: str) -> bool:
    """Whether a fence is closed behind a line that was never opened."""
    marks = text.count("```")
    return marks % 2 == 1 and text.find("```") > text.find(line)
