"""Replies that are to be one of a few labels, such as `A`, `CORRECT` or `Output (a)`.

A label is read only where it stands alone: as the whole reply, on a line, behind `Answer:`, in a one-key object. It is
never looked for inside of a sentence, where `CORRECT` is in `INCORRECT` and `A` is an article. All given must agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import concluded, folded, introduced, plain, retracted, unfenced
from .json_text import JsonFault, load
from .qualifiers import keeps_verdict_after, keeps_verdict_before
from .score_scale import inner
from .stance import StancePatterns, prefers_another, speaks_against

Value = bool | int | float

_LONGEST = 300
_MOST_LINES = 2000
_KEYS = ("answer", "verdict", "result", "decision", "choice")
_TAG = re.compile(r"<(answer|verdict|result|decision|choice|judge?ment)>([^<>]{1,200})</\1>", re.I)
_QUOTED = re.compile(r"^[>\"'“‘«「]")
_LINE_MARKS = re.compile(r"^(?:#{1,6}[ \t]+|[-•][ \t]+|\*[ \t]+)")
_DOUBLE = re.compile(r"\[\[.{1,200}\]\]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”*_]{0,3}[ \t]+(?=\S)")
_CONCLUDES = re.compile(r"\b(?:therefore|thus|hence|overall|in\s+(?:conclusion|summary))\b[^.!?\n]{0,300}", re.I)
_FAULTS = re.compile(
    r"\b(?:not|never|fails?|failed|lacks?|wors[et]|inferior|incorrect\w*|wrong\w*|less|misses|inaccura\w*)\b|n['’]t\b",
    re.I,
)
"""What is said of a label that is not chosen."""
_NEGATION = re.compile(r"\W*(?:not|no|nope|never|false|wrong)\b", re.I)


def _of_words(value: Any) -> Any:
    """YAML writes a label without aliases or value as nothing at all, and reads an unquoted 1 as a number.

    Labels that have neither may also be a list.
    """
    if isinstance(value, list):
        if any(isinstance(label, Mapping) for label in value):
            raise ValueError("a list holds labels alone; with aliases or values write {A: {value: 1}, B: {value: 0}}")
        if twice := [label for label in value if value.count(label) > 1]:
            raise ValueError(f"the label {twice[0]!r} is given twice")
        value = dict.fromkeys(value)
    if isinstance(value, Mapping):
        for label in value:
            if not isinstance(label, str):
                raise ValueError(f"the label {label!r} is no text; quote it")
        return {label: {} if each is None else each for label, each in value.items()}
    return value


class Label(BaseModel):
    """One choice: other ways to write it, and what it scores."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    aliases: list[str] = []
    """Other ways to write the label."""
    value: Value | None = None
    """What the label scores; without values the labels are only counted."""


class ChoiceReads(BaseModel):
    """Read one of the labels; `verdict` names the field that holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["choice"]
    verdict: Annotated[str, Field(min_length=1)] = "choice"
    """The verdict's field, and the name of the score."""
    labels: Annotated[
        dict[str, Label],
        BeforeValidator(_of_words, json_schema_input_type=dict[str, Label | None] | list[str]),
        Field(min_length=2),
    ]
    """Label → how else it is written, and what it scores; or a list of labels that have neither."""

    @model_validator(mode="after")
    def _sound(self) -> ChoiceReads:
        seen: dict[str, str] = {}
        for label, about in self.labels.items():
            for text in (label, *about.aliases):
                if not folded(text) or len(text) > _LONGEST // 2 or "\n" in text:
                    raise ValueError(f"labels: {text[:60]!r} is empty, too long, or of more than one line")
                if folded(text) in seen:
                    raise ValueError(f"labels: {seen[folded(text)]!r} and {text!r} differ in case and blanks at most")
                seen[folded(text)] = text
            if about.value is not None and not math.isfinite(about.value):
                raise ValueError(f"labels.{label}.value: must be a finite number")
        without = [label for label, about in self.labels.items() if about.value is None]
        if without and len(without) < len(self.labels):
            raise ValueError(f"labels.{without[0]}: has no value, but others have; give all labels one, or none")
        return self

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {self.verdict: "string"}

    def values(self) -> dict[str, Value | None]:
        """Label → what it scores."""
        return {label: about.value for label, about in self.labels.items()}

    def response_schema(self) -> dict[str, Any] | None:
        """A bare label is asked for, so there is no object to ask for."""
        return None

    def strict(self, text: str) -> Scored | None:
        """The label as it was asked for; blanks around it do not matter, its case does."""
        return self._scored(text.strip(), "strict") if text.strip() in self.labels else None

    def complete(self, text: str) -> Scored | None:
        """What may be read of a reply that ran out of tokens: a closed one-key object; a bare label may go on."""
        found = self._object(text) if text.strip().startswith("{") else None
        return found if isinstance(found, Scored) else None

    def tolerant(self, text: str) -> Reading:
        """The label in a wrapper, in a one-key object, behind `Answer:`, or alone on the last line or the first."""
        text = unfenced(text).strip()
        if found := self._label(text):
            return self._scored(found[0], "tolerant:wrapped")
        tag = _TAG.fullmatch(text)
        if tag and (found := self._label(tag[2])):
            return self._scored(found[0], "tolerant:tag")
        if text.startswith("{"):
            return self._object(text)
        return self._in_lines(text)

    @cached_property
    def _texts(self) -> dict[str, str]:
        """Folded label or alias → label."""
        return {folded(text): label for label, about in self.labels.items() for text in (label, *about.aliases)}

    @cached_property
    def _words(self) -> dict[tuple[str, ...], str]:
        """The words of a label → label: a line of nothing else, such as `B..`, is never passed over."""
        return {_words_of(text): label for text, label in self._texts.items() if _words_of(text)}

    @cached_property
    def _any(self) -> str:
        """A pattern of any label or alias as a word of its own. Of one letter or two, only in its own case."""
        texts = [text for label, about in self.labels.items() for text in (label, *about.aliases)]
        escaped = (
            re.sub(r"(?:\\ )+", r"\\s+", re.escape(text.strip())) for text in sorted(texts, key=len, reverse=True)
        )
        each = "|".join(f"(?-i:{text})" if len(text) < 3 else text for text in escaped)
        return rf"(?<![\w-])(?:{each})(?![\w-])"

    @cached_property
    def _named(self) -> re.Pattern[str]:
        return re.compile(f"({self._any})", re.I)

    @cached_property
    def _opinions(self) -> StancePatterns:
        return StancePatterns.of(self._any)

    @cached_property
    def _label_line(self) -> re.Pattern[str]:
        strong = rf"answer|verdict|decision|judge?ment|choice|winner|{re.escape(self.verdict)}"
        return re.compile(
            rf"[*_]{{0,3}}(?:(?:my|final|the)\s+){{0,2}}(?:(?P<strong>{strong})|(?:overall|conclusion|result|final))"
            r"(?:\s{0,3}\((?P<options>[^\n:=]{1,120})\))?[*_]{0,3}\s{0,3}[:=][*_]{0,3}\s{0,8}(?P<value>.*)",
            re.I,
        )

    def _label(self, text: str) -> tuple[str, bool] | None:
        """The label that a text is, out of its wrappers, and whether it stood in a `[[…]]`; None where it is none."""
        text = text.strip()
        if len(text) > _LONGEST:
            return None
        double = False
        while True:
            if label := self._texts.get(folded(text)):
                return label, double
            double = double or _DOUBLE.fullmatch(text) is not None
            if text.endswith((".", "!", "。")) and not text.endswith(("..", "!!")):
                text = text[:-1].rstrip()
            elif (below := inner(text)) is not None:
                text = below
            else:
                return None

    def _object(self, text: str) -> Reading:
        try:
            value = load(text)
        except JsonFault as fault:
            return Malformed(fault.reason, str(fault))
        if isinstance(value, dict) and len(value) == 1:
            key, word = next(iter(value.items()))
            if folded(key) in {*_KEYS, folded(self.verdict)} and isinstance(word, str):
                if found := self._label(word):
                    return self._scored(found[0], "tolerant:object")
                return Malformed(Reason.OTHER_VALUE, f"{word[:60]!r} is none of the labels")
        return Malformed(Reason.NO_VERDICT, "an object without one label under a known key")

    def _scored(self, label: str, stage: str) -> Scored:
        return Scored({self.verdict: label}, Provenance(stage))

    def _in_lines(self, text: str) -> Reading:
        """A label given on a line of its own, where nothing in the reply speaks for another."""
        lines = self._lines(text)
        if len(lines) > _MOST_LINES:
            return Malformed(Reason.NO_VERDICT, f"more than {_MOST_LINES} lines")
        own: dict[int, tuple[str, str]] = {}
        against: set[str] = set()
        for number, line in enumerate(lines):
            found = self._line(line)
            if isinstance(found, Malformed):
                return found
            if found and found[1] != "against":
                own[number] = found
            elif label := found[0] if found else self._words.get(_words_of(line)):
                against.add(label)
        if not own:
            return Malformed(Reason.NO_VERDICT)
        labels = {label for label, _ in own.values()}
        against |= self._labels_in(self._opinions.stated, text)
        if len(labels | against) > 1:
            return Malformed(Reason.CONFLICT, "more than one label is given as the answer")
        (label,) = labels
        if any(self._speaks_against(label, conclusion[0]) for conclusion in _CONCLUDES.finditer(text)):
            return Malformed(Reason.CONFLICT, "the conclusion may speak against the answer")
        if speaks_against(label, text, {name: (name, *about.aliases) for name, about in self.labels.items()}):
            return Malformed(Reason.CONFLICT, "a sentence speaks against the answer")
        last = len(lines) - 1
        before, after = "\n".join(lines[:last]), "\n".join(lines[1:])
        if last in own:
            kind = own[last][1]
            if last and len(lines[last]) == 1:
                return Malformed(Reason.TRUNCATED, "one letter may be the start of a word that was cut off")
            plainly = kind == "line"
            led = introduced(before) and not self._names_another(label, before) if plainly else concluded(before)
            if (
                led
                and keeps_verdict_before(before, labels=self._named)
                and label not in self._labels_in(self._opinions.worse, before)
            ):
                return self._scored(label, f"tolerant:{kind}")
        elif 0 in own and not self._taken_back(label, after):
            return self._scored(label, f"tolerant:{own[0][1]}")
        return Malformed(
            Reason.NO_VERDICT, "the only label may be a quotation, an answer to something else, or withdrawn"
        )

    def _lines(self, text: str) -> list[str]:
        """The lines that are not blank. A last sentence that is a label line or a whole phrase is a line too."""
        lines: list[str] = []
        for line in filter(None, map(str.strip, text.split("\n"))):
            opened = self._label_line.fullmatch(lines[-1]) if lines and len(lines[-1]) <= _LONGEST else None
            if opened and not opened["value"].strip("*_ "):
                lines[-1] += f" {line}"
            else:
                lines.append(line)
        if lines and len(cuts := list(_SENTENCE_END.finditer(lines[-1]))):
            head, tail = lines[-1][: cuts[-1].start()], lines[-1][cuts[-1].end() :]
            found = self._line(tail)
            if isinstance(found, tuple) and found[1] in ("label", "phrase", "mark"):
                lines[-1:] = [head, tail]
        return lines

    def _line(self, line: str) -> tuple[str, str] | Malformed | None:
        """(label, kind of line) where a line gives a label; a kind `against` gives none of its own."""
        if len(line) > _LONGEST:
            return None
        line = _LINE_MARKS.sub("", line).strip()
        quoted = _QUOTED.match(line) is not None
        line = line.lstrip("> ")
        while (below := inner(line)) is not None and not self._label(line):
            line = below
        labelled = self._label_line.fullmatch(line)
        if labelled and labelled["options"] and not self._are_options(labelled["options"]):
            return None
        found = self._label(labelled["value"].rstrip("*_") if labelled else line)
        if found is None:
            if labelled and labelled["strong"] and not quoted:
                return Malformed(Reason.OTHER_VALUE, f"{line[:80]!r} names none of the labels")
            return None
        label, double = found
        if quoted or (labelled and not labelled["strong"]):
            return label, "against"
        phrase = len(plain(line).split()) > 2
        return label, "label" if labelled else "mark" if double else "phrase" if phrase else "line"

    def _are_options(self, text: str) -> bool:
        return all(self._label(option) for option in re.split(r"\s*(?:/|\||,|\bor\b)\s*", text, flags=re.I))

    def _names_another(self, label: str, text: str) -> bool:
        return bool(self._labels_in(self._named, text) - {label})

    def _labels_in(self, pattern: re.Pattern[str], text: str) -> set[str]:
        """The labels that the matches' groups are. Letters such as a dotless i match by case, but are no label's."""
        found = (folded(next(filter(None, match.groups()))) for match in pattern.finditer(text))
        return {self._texts[each] for each in found if each in self._texts}

    def _taken_back(self, label: str, after: str) -> bool:
        return (
            self._names_another(label, after)
            or _NEGATION.match(after) is not None
            or label in self._labels_in(self._opinions.denied, after)
            or retracted(after)
            or not keeps_verdict_after(after)
            or prefers_another(label, after, list(self.labels))
        )

    def _speaks_against(self, label: str, conclusion: str) -> bool:
        if label in self._labels_in(self._opinions.denied, conclusion):
            return True
        named = self._labels_in(self._named, conclusion)
        return bool(named) and label not in named and not _FAULTS.search(conclusion)


def _words_of(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text[:_LONGEST].casefold()))
