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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from ..outcome import Malformed, Reason
from .clean import folded, plain, unfenced
from .reply_text import BULLET, RESERVED, Echoes, ReplyText

SCORE_WORDS = ("score", "scores", "rating", "ratings", "grade", "grades")

STAGES = ("mark", "tag", "label", "last", "lead", "phrase")
"""Places in a longer reply, the safest first: the stage of a verdict that stands in several is the first of them."""


_LONGEST_LITERAL = 300


_MARK = re.compile(r"\[\[([^\[\]\n]{1,120})\]\]|\\boxed\{(?:\\text\{)?([^{}\n]{1,120})\}")

_CLAUSE_END = re.compile(r"(?<=[.!?…])[\"”’)*_]{0,3}\s+|(?<=[。！？])|\s*[—–;]\s*|\s+-{1,2}\s+|\n+")


_OPENING = (
    r"(?:(?:therefore|thus|hence|so|overall|finally|accordingly|in[ \t]+(?:conclusion|summary))\b[,:]?[ \t]+)?"
    r"(?:I[ \t]+(?:(?:have|will|would)[ \t]+)?set[ \t]+)?"
    r"(?:(?:here[ \t]+(?:is|are)|this[ \t]+is|these[ \t]+are|my|our|the|your|final|overall|updated|revised|corrected)"
    r"[ \t]+){0,4}"
)


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
        if number == last and reply.stands_alone(index):
            value = grammar.whole(line)
            value = _marred(line, grammar) if value is None else value
            places += [] if value is None else [Place("last", value, number, 0, line)]
        lead = None
        if number == first and not (places and places[-1].line == number):
            whole = grammar.whole(line)
            lead = grammar.opening(plain(line), True) or (None if whole is None else (whole, ""))
            if lead is None and (marred := _marred(line, grammar)):
                lead = marred, ""
        if lead and (_is_malformed(lead[0]) or re.search(r"\w", lead[1]) or not reply.goes_on(number)):
            places.append(Place("lead", lead[0], number, 0, line, lead[1]))
    for match in tags.finditer(reply.text):
        number = reply.text.count("\n", 0, match.start())
        if reply.own[number]:
            value = _literal(grammar.whole(match[2]), match[2], Reason.OTHER_VALUE)
            places.append(Place("tag", value, number, 0, match[0]))
    places = [place for place in places if not reply.is_within_list(place.line, place.value)]
    return [*places, *grammar.blocks(reply)]


def _marred(line: str, grammar: Grammar) -> Malformed | None:
    """Why a line such as `A..` or `~~A~~` is no verdict: what it says is not known, but it is not nothing."""
    bare = line.strip(" .,:;!~*_-\"'`“”")
    if bare == line or grammar.whole(line) is not None or grammar.whole(bare) is None:
        return None
    return Malformed(Reason.OTHER_VALUE, repr(line[:40]))


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
            match = pattern.match(plain(BULLET.sub("", sentence, count=1)))
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
    match = labels.match(plain(BULLET.sub("", sentence, count=1)))
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
    end = text.rstrip()
    leads = [place for place in places if place.stage == "lead" and not _is_malformed(place.value)]
    # A paragraph that the reply ends with may have been going on, and so may its last number.
    leads = [place for place in leads if "\n" not in place.text or not end.endswith(place.text.rstrip())]
    if not leads or not (len(reply.filled) > 1 or re.search(r"\w\W", leads[0].behind)):
        return Malformed(Reason.TRUNCATED, "no verdict leads the reply")
    found = settle(
        reply, [place for place in places if place.line < reply.filled[-1] or place in leads], form.retractions, grammar
    )
    return found if isinstance(found, Malformed) else leads[0]
