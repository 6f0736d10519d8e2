"""Where in a reply a verdict may stand, and whether the verdicts that stand there agree.

A literal counts only in a place: the whole reply · marked (`[[x]]`, `\\boxed{x}`, a tag) · behind a label that opens a
line or a sentence · as the lead, which opens the reply · alone on the last line · in a phrase that the judge declares.
Nothing else in a reply is looked at for a verdict, or against one. Not a place: a quoted or fenced line, and a line
that the response under judgment or the prompt holds. What takes a verdict back is a closed list: the opposite standing
free behind it, a sentence that opens by taking back, and `but` or `if` right behind a lead or a label.
Runs in linear time, and knows nothing of what a literal means: that is the grammar's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from ..outcome import Malformed, Reason
from .clean import folded, plain, unfenced, unwrap

RESERVED = ("answer", "verdict", "judgment", "judgement", "decision", "result", "evaluation", "conclusion")
SCORE_WORDS = ("score", "scores", "rating", "ratings", "grade", "grades")

STAGES = ("mark", "tag", "label", "last", "lead", "phrase")
"""Places in a longer reply, the safest first: the stage of a verdict that stands in several is the first of them."""

_MOST_LINES = 5000
_LONGEST_LITERAL = 300
_LONGEST_LINE = 20_000
_LONGEST_FIELD = 40
_MARK = re.compile(r"\[\[([^\[\]\n]{1,120})\]\]|\\boxed\{(?:\\text\{)?([^{}\n]{1,120})\}")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)[\"”*_)]{0,3}\s+|(?<=[。！？]))(?=\S)")
_CLAUSE_END = re.compile(r"(?<=[.!?…])[\"”’)*_]{0,3}\s+|(?<=[。！？])|\s*[—–;]\s*|\s+-{1,2}\s+|\n+")
_QUOTED_LINE = re.compile(r"[ \t]*(?:>|\|)")
_FENCE = re.compile("```|~~~|\"\"\"|'''")
_QUOTE_MARK = re.compile(r"(?P<opens>(?<!\S)\"(?=\w)|“)|\"|”")
_NUMBER_LINE = re.compile(r"[-•*(#\s]*[0-9]")
_GOES_ON = re.compile(r"[a-z,-]\Z", re.I)
_BULLET = re.compile(r"\A(?:[-•‣–][ \t]+|#{1,6}[ \t]*)+")
_OPENING = (
    r"(?:(?:therefore|thus|hence|so|overall|finally|accordingly|in[ \t]+(?:conclusion|summary))\b[,:]?[ \t]+)?"
    r"(?:I[ \t]+(?:(?:have|will|would)[ \t]+)?set[ \t]+)?"
    r"(?:(?:here[ \t]+(?:is|are)|this[ \t]+is|these[ \t]+are|my|our|the|your|final|overall|updated|revised|corrected)"
    r"[ \t]+){0,4}"
)
_CONCLUDES = re.compile(
    r"(?:therefore|thus|hence|so|overall|finally|accordingly|based[ \t]+on|in[ \t]+(?:conclusion|summary))\b", re.I
)
"""How a sentence opens in which a declared phrase may stand behind a comma."""
_PARTY = re.compile(
    r"\b(?:gold(?:en)?|generated|predicted|expected|responses?|repl(?:y|ies)|assistants?|models?|candidates?|students?|users?|texts?|references?|questions?"
    r"|prompts?|outputs?|authors?|examples?|formats?|instructions?|it|he|she|they)\b",
    re.I,
)
"""Whose words follow a line that ends with a colon, where it names none of the judge's own (`_OWN`)."""
_USUAL_FIELDS = frozenset(
    {"question", "response", "model response", "reference answer", "correct answer", "gold answer", "generated answer"}
)
_OWN = re.compile(r"\b(?:I|my|here|evaluation|verdict|judge?ment|decision|conclusion|scores?|ratings?|grades?)\b", re.I)
_TAKES_BACK = (
    *("wait", "actually", "correction", "on reflection", "on second thought", "on second thoughts"),
    *("on closer reading", "hold on", "hmm", "oops", "sorry", "scratch that"),
    *("strike that", "let me correct", "let me reconsider", "i take", "i retract", "i was wrong"),
    *("i mixed", "i meant", "no wait", "i apologize", "my apologies", "apologies"),
    *("disregard", "ignore", "edit", "p.s"),
)
"""How a sentence opens that takes back what stands before it; other languages' are declared by the judge."""
_NEGATES = frozenset({"no", "not", "nope", "false", "wrong"})
"""What takes a verdict back as a sentence of its own."""
_INTERJECTION = re.compile(
    r"(?:(?:so|then|or|rather|well|oh|hmm+|and|but|yet|still|maybe|perhaps|now|it is|it's)\b[,.… ]*)+", re.I
)
_HEDGE = re.compile(
    r"[\s,;:*_(—–-]{0,6}(?:but|if|although|though|however|except|unless|provided|partially|partly|mostly|only|maybe|perhaps|or"
    r"|and[ \t]+(?:yes|no)|nor|in[ \t]+part)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A verdict's literal where it counts. `value` is the verdict, or why what stands there is none."""

    stage: str
    value: Any
    line: int
    sentence: int
    text: str
    behind: str = ""
    """What stands behind the literal in its sentence."""

    @property
    def shown(self) -> Any:
        """The verdict as plain data."""
        return getattr(self.value, "values", self.value)


class Grammar(Protocol):
    """What a kind of reading takes for a literal."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that a verdict may stand behind."""

    def whole(self, text: str) -> Any:
        """The verdict that the text is, and nothing else; a Malformed where it is a number off the scale; else None."""

    def opening(self, text: str, lead: bool) -> tuple[Any, str] | None:
        """(verdict or Malformed, what stands behind it) where the text opens with a literal that ends there."""

    def phrases(self, sentence: str) -> Any:
        """The verdict that a declared phrase at the sentence's start or end gives; None where there is none."""

    def blocks(self, reply: ReplyText) -> list[Place]:
        """Places of several lines, if the kind has such."""

    def scale_fault(self, text: str) -> Malformed | None:
        """Why the parenthesis behind a label (`Score (1-10): 7`) names another scale."""


class ReplyForm(BaseModel):
    """What every kind of reading may say of the look of a reply, besides its own."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    verdict_labels: Annotated[list[str], Field(alias="labels")] = []
    """Words that a verdict stands behind, in any script, besides the reserved ones."""
    retractions: list[str] = []
    """How a sentence opens that takes a verdict back, in the language of the replies."""

    @model_serializer(mode="wrap")
    def _dump(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What is not set is left out: a judge without it means what it meant before there was such a thing.
        unset = set(type(self).optional_keys())
        return {key: value for key, value in dump(self).items() if value or key not in unset}

    @classmethod
    def optional_keys(cls) -> tuple[str, ...]:
        """Keys that are left out of the meaning where they are empty."""
        return ("labels", "verdict_labels", "retractions")


@dataclass(frozen=True)
class Echoes:
    """Texts that are not the judge's own words: the prompt's literal text, and the responses under judgment."""

    prompt: frozenset[str] = frozenset()
    """Lines of the templates, normalized."""
    fields: frozenset[str] = frozenset()
    """What opens a line of the templates before a place, such as `question`."""
    responses: tuple[str, ...] = ()

    @classmethod
    def of_prompt(cls, literals: Iterable[str]) -> Echoes:
        """The echoes of templates with this literal text between their places."""
        lines = [_normalize(line) for text in literals for line in text.split("\n")]
        fields = (line[:-1].strip() for line in lines if line.endswith(":") and len(line) <= _LONGEST_FIELD)
        return cls(frozenset(filter(None, lines)), frozenset(filter(None, fields)) | _USUAL_FIELDS)

    def judging(self, responses: Sequence[str]) -> Echoes:
        """The same for a reply about these responses."""
        return replace(self, responses=tuple(map(_normalize, responses))) if responses else self

    def opens_field(self, line: str) -> str | None:
        """The prompt's field that the line gives again; None where it gives none."""
        name, colon, _ = line[: _LONGEST_FIELD * 2].partition(":")
        key = _normalize(name) if colon and self.fields else ""
        return key if key in self.fields else None

    def in_response(self, line: str) -> bool:
        """Whether a response under judgment holds this line, as words of its own."""
        if not self.responses or not (key := _normalize(line)):
            return False
        pattern = re.compile(rf"(?<!\w){re.escape(key)}(?!\w)")
        return any(key in text and pattern.search(text) for text in self.responses)

    def in_prompt(self, line: str) -> bool:
        """Whether the prompt has this line."""
        return bool(self.prompt) and _normalize(line) in self.prompt


NO_ECHOES = Echoes()


@dataclass
class ReplyText:
    """The lines and sentences of a reply in which a verdict may stand."""

    text: str
    echoes: Echoes = NO_ECHOES
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = [line.strip() for line in self.text.split("\n")]

    @cached_property
    def filled(self) -> list[int]:
        """The numbers of the lines that are not blank; none where there are too many, or one is too long."""
        filled = [number for number, line in enumerate(self.lines) if line]
        too_long = len(filled) > _MOST_LINES or max(map(len, self.lines), default=0) > _LONGEST_LINE
        return [] if too_long else filled

    @cached_property
    def own(self) -> list[bool]:
        """Line by line, whether it is the judge's own: not quoted, fenced, introduced as another's, or an echo."""
        if len(self.filled) == 1:
            return [True] * len(self.lines)
        fenced, reported, restated = self._fenced(), self._reported(), self._restated()
        return [
            not (fenced[number] or reported[number] or number in restated or _QUOTED_LINE.match(line))
            and not self._echoes(line)
            for number, line in enumerate(self.lines)
        ]

    def _echoes(self, line: str) -> bool:
        return bool(self.echoes.responses) and _is_more_than_a_word(line) and self.echoes.in_response(line)

    def _fenced(self) -> list[bool]:
        """Line by line, whether it stands within a fence, or opens or closes one. A last fence left open is none."""
        toggles = [number for number, line in enumerate(self.lines) if len(_FENCE.findall(line)) % 2]
        fenced = [False] * len(self.lines)
        for start, end in zip(toggles[::2], toggles[1::2], strict=False):
            fenced[start : end + 1] = [True] * (end + 1 - start)
        return fenced

    def is_within_list(self, number: int, value: Any) -> bool:
        """Whether a list of several numbers stands right beside another line of numbers, of which it may be a part."""
        beside = self.lines[max(0, number - 1) : number] + self.lines[number + 1 : number + 2]
        if len(getattr(value, "values", ())) < 2:
            return False
        return any(_NUMBER_LINE.match(line) and line != self.lines[number] for line in beside)

    @cached_property
    def of_prompt(self) -> set[int]:
        """The lines that the prompt has too."""
        return {number for number in self.filled if self.echoes.in_prompt(self.lines[number])}

    def goes_on(self, number: int) -> bool:
        """Whether the next line goes on with a sentence that a line opens."""
        following = self.lines[number + 1 : number + 2]
        return bool(following) and following[0][:1].islower()

    def stands_alone(self, index: int) -> bool:
        """Whether a filled line neither goes on with the sentence of the line above nor answers a question there."""
        if index == 0:
            return True
        number, above = self.filled[index], self.filled[index - 1]
        line = self.lines[above]
        if line.endswith(("?", "？")):
            return self.echoes.in_prompt(line)
        return above < number - 1 or _GOES_ON.search(line) is None or _BULLET.match(line) is not None

    def _restated(self) -> set[int]:
        """The lines that give the prompt's own fields again (`Question: …`), up to the last of them in a paragraph."""
        restated: set[int] = set()
        start = end = -1
        for number, line in enumerate([*self.lines, ""]):
            if not line:
                restated.update(range(start, end + 1) if start >= 0 else ())
                start = end = -1
            elif opening := self.echoes.opens_field(line):
                end = number
                if start < 0 and opening not in RESERVED:
                    start = number
        return restated

    def _reported(self) -> list[bool]:
        """Line by line, whether a line that ends with a colon introduces it as somebody else's words."""
        reported, before, is_reported = [], "", False
        for line in self.lines:
            if before.endswith(":"):
                is_reported = introduces_another(before)
            elif not line:
                is_reported = False
            reported.append(is_reported and bool(line))
            before = line.rstrip(" *_`") or before
        return reported

    @cached_property
    def _open_quotes(self) -> list[int]:
        """Line by line, whether (1 or 0) a quotation that was opened above it in its paragraph goes on."""
        counts, is_open = [], False
        for line in self.lines:
            is_open = is_open and bool(line)
            counts.append(int(is_open))
            for mark in _QUOTE_MARK.finditer(line):
                is_open = mark["opens"] is not None
        return counts

    def sentences(self, number: int) -> Iterator[tuple[int, str]]:
        """(place in the line, sentence) of a line's sentences that do not stand within a quotation."""
        line, start, open_quotes = self.lines[number], 0, self._open_quotes[number]
        for place, end in enumerate([*(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]):
            sentence = line[start:end]
            if not open_quotes % 2 and sentence.strip():
                yield place, sentence.strip()
            open_quotes += sum(map(sentence.count, '"“”'))
            start = end


def introduces_another(before: str) -> bool:
    """Whether a text that ends with a colon says that somebody else's words follow."""
    last = before.rpartition(". ")[2][-_LONGEST_LITERAL:]
    return _PARTY.search(last) is not None and _OWN.search(last) is None


def find_places(reply: ReplyText, grammar: Grammar) -> list[Place]:
    """Every verdict that stands in a place, in the order of the text."""
    places: list[Place] = []
    if not reply.filled:
        return places
    first, last = reply.filled[0], reply.filled[-1]
    labels = _label_pattern(grammar.labels)
    tags = _tag_pattern(grammar.labels)
    for index, number in enumerate(reply.filled):
        if not reply.own[number]:
            continue
        line = reply.lines[number]
        marks: dict[str, Place] = {}
        for match in _MARK.finditer(line):
            content = match[1] or match[2]
            # A box holds whatever was worked out; double brackets are for verdicts alone.
            value = _literal(grammar.whole(content), content, Reason.OTHER_VALUE if match[1] else Reason.NO_VERDICT)
            marks[match[0]] = Place("mark", value, number, line.count(". ", 0, match.start()), line)
        places.extend(marks.values())
        for place, sentence in reply.sentences(number):
            found = _behind_label(reply, index, sentence, grammar, labels)
            if found:
                value, behind = found
                places.append(Place("label", value, number, place, line, behind))
            elif (value := grammar.phrases(plain(sentence))) is not None and (place or reply.stands_alone(index)):
                places.append(Place("phrase", value, number, place, line))
        if number == last and reply.stands_alone(index) and (value := grammar.whole(line)) is not None:
            places.append(Place("last", value, number, 0, line))
        lead = None
        if number == first and not (places and places[-1].line == number):
            whole = grammar.whole(line)
            lead = grammar.opening(plain(line), True) or (None if whole is None else (whole, ""))
        if lead and (re.search(r"\w", lead[1]) or not reply.goes_on(number)):
            places.append(Place("lead", lead[0], number, 0, line, lead[1]))
    for match in tags.finditer(reply.text):
        number = reply.text.count("\n", 0, match.start())
        if reply.own[number]:
            value = _literal(grammar.whole(match[2]), match[2], Reason.OTHER_VALUE)
            places.append(Place("tag", value, number, 0, match[0]))
    places = [place for place in places if not reply.is_within_list(place.line, place.value)]
    return [*places, *grammar.blocks(reply)]


def labelled_values(
    reply: ReplyText, names: Mapping[str, str], value_of: Callable[[str, str], Any]
) -> dict[str, tuple[int, Any]] | Malformed:
    """Name → (line, value) of each name that opens a line or sentence with its value behind; all given must agree.

    `names`: folded → name. `value_of` takes a name and the text behind its label; None: that is no value.
    """
    found: dict[str, tuple[int, Any]] = {}
    pattern = _label_pattern(tuple(names))
    for number in reply.filled:
        if not reply.own[number]:
            continue
        for _, sentence in reply.sentences(number):
            match = pattern.match(plain(_BULLET.sub("", sentence, count=1)))
            name = names.get(folded(match["label"])) if match else None
            if match is None or name is None or (value := value_of(name, match["value"].strip())) is None:
                continue
            if isinstance(value, Malformed):
                return value
            if name in found and json.dumps(found[name][1]) != json.dumps(value):
                return Malformed(Reason.CONFLICT, f"lines that differ in {name}")
            found[name] = (number, value)
    return found


def settle(reply: ReplyText, places: list[Place], retractions: Sequence[str], grammar: Grammar) -> Place | Malformed:
    """The one verdict of the places, at the safest of them; Malformed where they differ or it is taken back."""
    own = [place for place in places if place.line not in reply.of_prompt]
    places = own or places
    sound = [place for place in places if not _is_malformed(place.value)]
    faults = [place.value for place in places if _is_malformed(place.value)]
    if faults and not (sound and all(fault.reason == Reason.NO_VERDICT for fault in faults)):
        fault = min(faults, key=lambda fault: fault.reason == Reason.NO_VERDICT)
        return fault if fault.reason != Reason.NO_VERDICT else Malformed(Reason.OTHER_VALUE, fault.detail)
    if not sound:
        return Malformed(Reason.NO_VERDICT)
    if any(place.value != sound[0].value for place in sound):
        return Malformed(Reason.CONFLICT, "verdicts that differ stand where a verdict counts")
    for place in sound:
        if place.stage in ("lead", "label") and _HEDGE.match(place.behind):
            return Malformed(Reason.CONFLICT, f"a condition stands right behind it: {place.behind.strip()[:40]!r}")
    if fault := taken_back(reply, sound, retractions, grammar):
        return fault
    return min(sound, key=lambda place: STAGES.index(place.stage))


def taken_back(
    reply: ReplyText, places: Sequence[Place], retractions: Sequence[str], grammar: Grammar
) -> Malformed | None:
    """What behind the last of the places takes the verdict back."""
    last = max(places, key=lambda place: (place.line, place.sentence))
    behind = [last.behind] if last.stage in ("lead", "label") else []
    if behind and isinstance(last.value, bool | str):
        behind = [*behind, *last.behind.split(",")]
    rest = [
        sentence
        for number in reply.filled
        if number >= last.line and reply.own[number]
        for place, sentence in reply.sentences(number)
        if number > last.line or place > last.sentence
    ]
    opens = _opening_pattern((*_TAKES_BACK, *retractions))
    for clause in (clause for text in (*behind, *rest) for clause in _CLAUSE_END.split(text)):
        clause = plain(clause).lstrip(" ,.:;…-–—(*_")
        if not clause or (len(clause) > _LONGEST_LITERAL and not opens.match(clause)):
            continue
        if opens.match(clause):
            return Malformed(Reason.CONFLICT, f"the verdict is taken back: {clause[:40]!r}")
        if clause.rstrip(" .!").lower() in _NEGATES and grammar.whole(clause) is None:
            return Malformed(Reason.CONFLICT, f"the verdict is denied: {clause[:40]!r}")
        opposite = grammar.whole(_INTERJECTION.sub("", clause, count=1).rstrip(" ,"))
        if opposite is not None and not _is_malformed(opposite) and opposite != last.value:
            return Malformed(Reason.CONFLICT, f"another verdict stands free behind it: {clause[:40]!r}")
    return None


def opens_by_taking_back(text: str, retractions: Sequence[str]) -> str | None:
    """The first sentence of a text that takes back what stands before it; None where there is none."""
    opens = _opening_pattern((*_TAKES_BACK, *retractions))
    clauses = (plain(clause).lstrip(" ,.:;…-–—(*_") for clause in _CLAUSE_END.split(text))
    return next((clause[:40] for clause in clauses if opens.match(clause)), None)


def _behind_label(
    reply: ReplyText, index: int, sentence: str, grammar: Grammar, labels: re.Pattern[str]
) -> tuple[Any, str] | None:
    """(verdict or Malformed, what stands behind it) of a sentence that opens with a label; None where it has none."""
    match = labels.match(plain(_BULLET.sub("", sentence, count=1)))
    if match is None:
        return None
    text = match["value"].strip()
    if not text:
        following = reply.filled[index + 1 :][:1]
        if not following or not reply.own[following[0]]:
            return None
        text = plain(reply.lines[following[0]])
        if labels.match(text):
            return None
    while (again := labels.match(text)) is not None and again["value"].strip():
        text = again["value"].strip()
    if match["note"] and (fault := grammar.scale_fault(match["note"].strip())):
        return fault, ""
    if found := grammar.opening(text, False):
        return found
    words = text.split()
    if len(words) <= 3 or text[:1].isdigit():
        return Malformed(Reason.NO_VERDICT, f"{sentence[:80]!r} names no verdict"), ""
    return None


def _literal(value: Any, content: str, reason: Reason) -> Any:
    return Malformed(reason, f"{content[:60]!r} is no verdict") if value is None else value


def _is_malformed(value: Any) -> bool:
    return isinstance(value, Malformed)


def _is_more_than_a_word(line: str) -> bool:
    """Whether a line is one that a response hardly has by chance: a bare `Yes` may be anybody's."""
    return ":" in line or "[[" in line or len(line.split()) > 2 or "<" in line or "\\boxed" in line


def _normalize(line: str) -> str:
    return " ".join(plain(line).split()).casefold()


@lru_cache(maxsize=256)
def _label_pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(
        re.sub(r"(?:\\ |_|\\_)+", r"[ _]{0,3}", re.escape(label)) for label in sorted(labels, key=len, reverse=True)
    )
    return re.compile(
        rf"{_OPENING}(?P<label>{words})[\"'*]{{0,2}}(?:[ \t]{{0,3}}[(（](?P<note>[^()（）\n]{{0,80}})[)）])?"
        r"(?:[ \t]{0,3}(?:is|are)?[ \t]{0,3}[:=][ \t]{0,8}|(?<=[^\W_])[ \t]+(?=\[\[))(?P<value>.*)",
        re.I | re.S,
    )


@lru_cache(maxsize=256)
def _tag_pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(map(re.escape, sorted({*labels, *RESERVED, "choice"}, key=len, reverse=True)))
    return re.compile(rf"<({words})>\s{{0,20}}([^<>\n]{{1,200}}?)\s{{0,20}}</\1>", re.I)


@lru_cache(maxsize=256)
def _opening_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    each = "|".join(re.escape(word) + (r"(?!\w)" if word[-1].isascii() else "") for word in words)
    return re.compile(rf"(?:(?:oh|no|and|but|well|hmm+),?[ \t]+)?(?:{each})", re.I)


@dataclass(frozen=True)
class Words:
    """The grammar of replies that are one of a few words or labels."""

    values: tuple[tuple[str, Any], ...]
    """(literal, verdict) of each."""
    labels: tuple[str, ...] = RESERVED
    phrase_values: tuple[tuple[str, Any], ...] = ()
    lead_colon: bool = True
    """Whether `X:` may open a reply; where answers have names, `A: …` is about one of them."""

    @cached_property
    def _by_text(self) -> dict[str, Any]:
        return {folded(text): value for text, value in self.values}

    @cached_property
    def _opening(self) -> re.Pattern[str]:
        escaped = (
            re.sub(r"(?:\\ )+", r"\\s+", re.escape(text.strip()))
            for text in sorted((text for text, _ in self.values), key=len, reverse=True)
        )
        # One letter or two only in its own case: `a` is an article.
        each = "|".join(f"(?-i:{text})" if len(text) < 2 else text for text in escaped)
        return re.compile(
            rf"[\[(\"“'‘]{{0,2}}(?P<literal>{each})(?P<closing>[\])\"”'’]{{0,2}})"
            r"(?P<end>\s*\Z|\s*\n|\.(?=[\s\"”'’*_)]|\Z)(?!\s?\d)|[,;!。，；！](?!\d)|\s*:|\s?[—–]|\s+[-(（])",
            re.I,
        )

    @cached_property
    def _phrases(self) -> re.Pattern[str] | None:
        texts = sorted((text for text, _ in self.phrase_values), key=len, reverse=True)
        each = "|".join(r"\s+".join(map(re.escape, plain(text).split())) for text in texts)
        return re.compile(rf"(?P<start>\A)?(?<!\w)(?P<phrase>{each})(?!\w)", re.I) if texts else None

    @cached_property
    def _phrase_values(self) -> dict[str, Any]:
        return {folded(plain(text)): value for text, value in self.phrase_values}

    def whole(self, text: str) -> Any:
        """The verdict whose literal the text is, out of its wrappers."""
        if len(text) > self._longest:
            return None
        keys = (" ".join(each.replace("_", " ").split()).casefold() for each in unwrap(text))
        return next((self._by_text[key] for key in keys if key in self._by_text), None)

    @cached_property
    def _longest(self) -> int:
        """A longer text is no literal, whatever wraps it."""
        return max(map(len, self._by_text)) + 60

    def opening(self, text: str, lead: bool) -> tuple[Any, str] | None:
        """The verdict that the text opens with, with punctuation or the text's end behind it."""
        match = self._opening.match(text)
        if match is None or (lead and (match.start("literal") or match["closing"])):
            return None
        if match["end"].strip() == ":" and not (lead and self.lead_colon):
            return None
        value = self._by_text.get(folded(match["literal"]))
        return None if value is None else (value, text[match.start("end") :])

    def phrases(self, sentence: str) -> Any:
        """The verdict of a declared phrase that opens or ends the sentence."""
        if self._phrases is None:
            return None
        for match in self._phrases.finditer(sentence):
            ahead = sentence[: match.start()]
            concludes = ahead.rstrip().endswith(",") and _CONCLUDES.match(ahead) is not None
            if match["start"] is not None or concludes or not re.search(r"\w", sentence[match.end() :]):
                return self._phrase_values[folded(match["phrase"])]
        return None

    def blocks(self, reply: ReplyText) -> list[Place]:
        """A word stands on one line."""
        return []

    def scale_fault(self, text: str) -> Malformed | None:
        """Words are on no scale."""
        return None


def all_places(text: str, grammar: Grammar, echoes: Echoes) -> list[Place]:
    """Every place of the reply, or the one that it is as a whole."""
    whole = grammar.whole(unfenced(text).strip())
    if whole is None or _is_malformed(whole):
        return find_places(ReplyText(text, echoes), grammar)
    return [Place("whole", whole, 0, 0, text.strip())]


def read_places(text: str, grammar: Grammar, form: ReplyForm, echoes: Echoes, cut: bool = False) -> Place | Malformed:
    """The verdict of a reply that is a literal as a whole, or holds one in a place.

    `cut`: the endpoint says that the reply goes on behind its end. Then only a lead with something behind it counts.
    """
    whole = None if cut else grammar.whole(unfenced(text).strip())
    if whole is not None and not _is_malformed(whole) and not (_is_malformed(whole) and "\n" in text.strip()):
        return whole if _is_malformed(whole) else Place("whole", whole, 0, 0, text.strip())
    reply = ReplyText(text, echoes)
    places = find_places(reply, grammar)
    if not cut:
        return settle(reply, places, form.retractions, grammar)
    leads = [place for place in places if place.stage == "lead" and not _is_malformed(place.value)]
    if not leads or not (len(reply.filled) > 1 or re.search(r"\w\W", leads[0].behind)):
        return Malformed(Reason.TRUNCATED, "no verdict leads the reply")
    found = settle(
        reply, [place for place in places if place.line < reply.filled[-1] or place in leads], form.retractions, grammar
    )
    return found if isinstance(found, Malformed) else leads[0]
