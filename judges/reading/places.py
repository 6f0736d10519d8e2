"""Where in a reply a verdict may stand, and whether the verdicts that stand there agree.

A literal counts only in a place: the whole reply · marked (`[[x]]`, `\\boxed{x}`, a tag) · behind a label that opens a
line or a sentence · as the lead, which opens the reply · alone on the last line · in a phrase that the judge declares.
Not a place: a quoted or fenced line, and one that the response under judgment or the prompt holds. What takes a verdict
back is closed: the opposite standing free behind it, a sentence that opens by taking back, `but` right behind it.
"""

import json
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..outcome import Malformed, Reading, Reason, Scored
from .clean import folded, plain, unfenced
from .reply_text import BULLET, RESERVED, Echoes, ReplyText

STAGES = ("mark", "label", "last", "lead", "phrase")
"""Places in a longer reply, the safest first: the stage of a verdict that stands in several is the first of them."""

_LONGEST_LITERAL = 300
_CLAUSE_END = re.compile(r"(?<=[.!?…])[\"”’)*_]{0,3}\s+|(?<=[。！？])|\s*[—–;]\s*|\s+-{1,2}\s+|\n+")
_OPENING = (
    r"(?:(?:therefore|thus|hence|so|overall|finally|accordingly|in[ \t]+(?:conclusion|summary))\b[,:]?[ \t]+)?"
    r"(?:I[ \t]+(?:(?:have|will|would)[ \t]+)?set[ \t]+)?"
    r"(?:(?:here[ \t]+(?:is|are)|this[ \t]+is|these[ \t]+are|my|our|the|your|final|overall|updated|revised|corrected)"
    r"[ \t]+){0,4}"
)
_TAKES_BACK = (
    *("wait", "actually", "correction", "on reflection", "on second thought", "hold on", "oops", "sorry"),
    *("scratch that", "let me correct", "let me reconsider", "i take", "i retract", "i was wrong", "i meant", "ignore"),
)
"""How a sentence opens that takes back what stands before it; other languages' are declared by the judge."""
_BESIDE = frozenset({"not", "or", "and", "nor", "neither", "either", "maybe", "perhaps", "probably"})
"""Words beside a literal with which it is no verdict, though nothing else is said: `not B`, `A or B`."""
_FOR_EXAMPLE = re.compile(r"(?:\be\.g\.|\bfor example|\bsuch as)[,:\s\"“]*(?:\w+:\s*)?\Z", re.I)
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
        return getattr(self.value, "scores", self.value)


class Grammar(ABC):
    """What a kind of reading takes for a literal."""

    labels: tuple[str, ...]
    """What a verdict may stand behind."""

    @abstractmethod
    def whole(self, text: str) -> Any:
        """The verdict that the text is, and nothing else; a Malformed where it is a number off the scale; else None."""

    @abstractmethod
    def opening(self, text: str, lead: bool) -> tuple[Any, str] | None:
        """(verdict or Malformed, what stands behind it) where the text opens with a literal that ends there."""

    @abstractmethod
    def without_literals(self, text: str) -> str:
        """The text with its literals taken out, wherever they stand."""

    def phrase(self, sentence: str) -> Any:
        """The verdict that a declared phrase at the sentence's start or end gives; None where there is none."""
        return None

    def lists(self, reply: ReplyText) -> list[Place]:
        """The places of several lines."""
        return []

    def scale_fault(self, text: str) -> Malformed | None:
        """Why the parenthesis behind a label (`Score (1-10): 7`) names another scale."""
        return None


def find_places(reply: ReplyText, grammar: Grammar) -> list[Place]:
    """Every verdict that stands in a place, in the order of the text."""
    places = list(_marks(reply, grammar))
    marked = {place.line for place in places}
    labels = label_pattern(grammar.labels)
    for index, number in enumerate(reply.filled):
        if not reply.own[number]:
            continue
        line, before = reply.lines[number], len(places)
        for at, sentence in reply.sentences(number):
            found = _behind_label(reply, index, sentence, grammar, labels)
            if found and not (isinstance(found[0], Malformed) and number in marked):
                places.append(Place("label", found[0], number, at, line, found[1]))
            elif not found and (value := grammar.phrase(sentence)) and (at or reply.stands_alone(index)):
                # Behind a colon the sentence may be the response's.
                is_own = not reply.echoes.in_response(sentence.rpartition(":")[2])
                places += [Place("phrase", value, number, at, line)] if is_own else []
        is_last = number == reply.filled[-1]
        if number in marked or not (index == 0 or is_last):
            continue
        whole = grammar.whole(line)
        value = marred(line, grammar.without_literals) if whole is None else whole
        if value is not None and is_last and reply.stands_alone(index):
            places.append(Place("last", value, number, 0, line))
        lead = index == 0 and (grammar.opening(line, True) or (value if len(places) == before else None, ""))
        if lead and lead[0] is not None and (re.search(r"\w", lead[1]) or not reply.goes_on(number)):
            places.append(Place("lead", lead[0], number, 0, line, lead[1]))
    return [*places, *grammar.lists(reply)]


def _marks(reply: ReplyText, grammar: Grammar) -> Iterator[Place]:
    """The verdicts in double brackets, boxes and tags."""
    matches = list(_mark_pattern(grammar.labels).finditer(reply.text)) if reply.filled else []
    if not matches:
        return
    starts = list(accumulate((len(line) + 1 for line in reply.text.split("\n")), initial=0))
    unique = {(bisect_right(starts, match.start()) - 1, match[0]): match for match in matches}
    quoted = {key for key, match in unique.items() if reply.text[starts[key[0]] : match.start()].count('"') % 2}
    for (number, _), match in ((key, unique[key]) for key in unique if key not in quoted or len(quoted) == len(unique)):
        before = reply.text[starts[number] : match.start()]
        if reply.own[number] and not _FOR_EXAMPLE.search(before):
            content = match["mark"] or match["box"] or match["content"]
            # A box holds whatever was worked out; the others are for verdicts alone.
            fault = Malformed(Reason.NO_VERDICT if match["box"] else Reason.OTHER_VALUE, f"{content[:60]!r}")
            value = grammar.whole(content)
            sentence = reply.text.count(". ", starts[number], match.start())
            yield Place("mark", fault if value is None else value, number, sentence, reply.lines[number])


def _behind_label(
    reply: ReplyText, index: int, sentence: str, grammar: Grammar, labels: re.Pattern[str]
) -> tuple[Any, str] | None:
    """(verdict or Malformed, what stands behind it) of a sentence that opens with a label; None where it has none."""
    match = labels.match(BULLET.sub("", sentence, count=1))
    if match is None:
        return None
    text = match["value"].strip()
    if not text:
        following = reply.filled[index + 1 :][:1]
        if not following or not reply.own[following[0]] or labels.match(reply.lines[following[0]]):
            return None
        text = reply.lines[following[0]]
        if text.startswith(("1.", "1)")):
            return None
    while (again := labels.match(BULLET.sub("", text, count=1))) is not None and again["value"].strip():
        text = again["value"].strip()
    if match["note"] and (fault := grammar.scale_fault(match["note"].strip())):
        return fault, ""
    if found := grammar.opening(text, False):
        return found
    wrong = marred(text, grammar.without_literals)
    if wrong is None and (len(text.split()) <= 3 or text[:1].isdigit()):
        wrong = Malformed(Reason.NO_VERDICT, f"{sentence[:80]!r} names no verdict")
    return (wrong, "") if wrong else None


def marred(text: str, without_literals: Callable[[str], str]) -> Malformed | None:
    """Why a text such as `A..`, `~~A~~` or `not A` is no verdict: what it says is not known, but it is not nothing."""
    if len(text) > _LONGEST_LITERAL:
        return None
    rest = without_literals(text)
    if rest == text or not set(re.findall(r"\w+", rest.lower())) <= _BESIDE:
        return None
    return Malformed(Reason.OTHER_VALUE, f"{text[:40]!r} is no plain verdict")


def labelled_values(
    reply: ReplyText, names: Mapping[str, str], value_of: Callable[[str, str], tuple[Any, str] | None]
) -> dict[str, tuple[int, Any]] | Malformed:
    """Name → (line, value) of each name that opens a line or sentence with its value behind; all given must agree.

    `names`: folded → name. `value_of` takes a name and the text behind its label, and gives the value and the text
    behind it, which another name may open; None: that is no value.
    """
    found: dict[str, tuple[int, Any]] = {}
    pattern = label_pattern(tuple(names))
    for number in reply.filled:
        for _, sentence in reply.sentences(number) if reply.own[number] else ():
            text = BULLET.sub("", sentence, count=1)
            while match := pattern.match(text):
                name = names.get(folded(match["label"]))
                given = value_of(name, match["value"].strip()) if name else None
                if name is None or given is None:
                    break
                value, text = given[0], given[1].lstrip(" ,;|")
                if isinstance(value, Malformed):
                    return value
                if name in found and json.dumps(found[name][1]) != json.dumps(value):
                    return Malformed(Reason.CONFLICT, f"lines that differ in {name}")
                found[name] = (number, value)
    return found


def settle(reply: ReplyText, places: list[Place], retractions: Sequence[str], grammar: Grammar) -> Place | Malformed:
    """The one verdict of the places, at the safest of them; Malformed where they differ or it is taken back."""
    places = [place for place in places if place.line not in reply.of_prompt] or places
    sound = [place for place in places if not isinstance(place.value, Malformed)]
    faults = [place.value for place in places if isinstance(place.value, Malformed)]
    grave = next((fault for fault in faults if fault.reason != Reason.NO_VERDICT), None)
    if grave:
        return grave
    if not sound:
        return Malformed(Reason.OTHER_VALUE, faults[0].detail) if faults else Malformed(Reason.NO_VERDICT)
    if any(place.value != sound[0].value for place in sound):
        return Malformed(Reason.CONFLICT, "verdicts that differ stand where a verdict counts")
    for place in sound:
        if place.stage in ("lead", "label") and _HEDGE.match(place.behind):
            return Malformed(Reason.CONFLICT, f"a condition stands right behind it: {place.behind.strip()[:40]!r}")
    best: Place = min(sound, key=lambda place: STAGES.index(place.stage))
    return _taken_back(reply, sound, retractions, grammar) or best


def _taken_back(
    reply: ReplyText, places: Sequence[Place], retractions: Sequence[str], grammar: Grammar
) -> Malformed | None:
    """What behind the last of the places takes the verdict back."""
    last = max(places, key=lambda place: (place.line, place.sentence))
    texts = [last.behind] + (last.behind.split(",") if isinstance(last.value, bool | str) else [])
    for number in reply.filled[bisect_right(reply.filled, last.line - 1) :]:
        if reply.own[number]:
            texts += [text for at, text in reply.sentences(number) if (number, at) > (last.line, last.sentence)]
    opens = _opening_pattern((*_TAKES_BACK, *retractions))
    for clause in (clause for text in texts for clause in _clauses(text)):
        if opens.match(clause):
            return Malformed(Reason.CONFLICT, f"the verdict is taken back: {clause[:40]!r}")
        if len(clause) > _LONGEST_LITERAL:
            continue
        opposite = _value_at_end(clause, grammar)
        if opposite is not None and not isinstance(opposite, Malformed) and opposite != last.value:
            return Malformed(Reason.CONFLICT, f"another verdict stands free behind it: {clause[:40]!r}")
    return None


def _value_at_end(clause: str, grammar: Grammar) -> Any:
    """The verdict that a clause is, or that a few words or `the answer is` lead to; None where it is denied."""
    words = clause.rstrip(" ,.!)").split()
    if (whole := grammar.whole(" ".join(words))) is not None:
        return whole
    for ahead in (1, 2, len(words) - 1):
        named = words[ahead - 1 :][:1] == ["is"] and words[ahead - 2].lower() in grammar.labels
        value = grammar.whole(" ".join(words[ahead:])) if ahead < 3 or named else None
        # A number may end a sentence about anything.
        if isinstance(value, bool | str) and words[ahead - 1].lower() != "not":
            before = " ".join(words[:ahead])
            return value if grammar.without_literals(before) == before else None
    return None


def opens_by_taking_back(text: str, retractions: Sequence[str]) -> Malformed | None:
    """The first sentence of a text that takes back what stands before it; None where there is none."""
    opens = _opening_pattern((*_TAKES_BACK, *retractions))
    taken = next((clause for clause in _clauses(plain(text)) if opens.match(clause)), None)
    return Malformed(Reason.CONFLICT, f"the verdict is taken back: {taken[:40]!r}") if taken else None


def _clauses(text: str) -> Iterator[str]:
    return filter(None, (clause.strip().lstrip(" ,.:;…-–—(*_") for clause in _CLAUSE_END.split(text)))


@lru_cache(maxsize=256)
def label_pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    """A sentence that opens with a label, perhaps with a note in parentheses, and has a value behind."""
    words = "|".join(
        re.sub(r"(?:\\ |_|\\_)+", r"[ _]{0,3}", re.escape(label)) for label in sorted(labels, key=len, reverse=True)
    )
    return re.compile(
        rf"{_OPENING}(?P<open>\[)?(?P<label>{words})[\"'*]{{0,2}}"
        r"(?:[ \t]{0,3}[(（](?P<note>[^()（）\n]{0,80})[)）])?"
        r"(?(open)\][ \t]{0,3}[:=]?|(?:[ \t]{0,3}(?:is|are)?[ \t]{0,3}[:=]|(?<=[^\W_])[ \t]+(?=\[\[)|\Z))"
        r"[ \t]{0,8}(?P<value>.*)",
        re.I | re.S,
    )


@lru_cache(maxsize=256)
def _mark_pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    tags = "|".join(map(re.escape, sorted({*labels, *RESERVED, "choice"}, key=len, reverse=True)))
    return re.compile(
        r"\[\[(?P<mark>[^\[\]\n]{1,120})\]\]|\\boxed\{(?:\\text\{)?(?P<box>[^{}\n]{1,120})\}"
        rf"|<(?P<tag>{tags})>\s{{0,20}}(?P<content>[^<>\n]{{1,200}}?)\s{{0,20}}</(?P=tag)>",
        re.I,
    )


@lru_cache(maxsize=256)
def _opening_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    each = "|".join(re.escape(word) + (r"(?!\w)" if word[-1].isascii() else "") for word in words)
    return re.compile(rf"(?:(?:oh|no|and|but|well|hmm+),?[ \t]+)?(?:{each})", re.I)


class PlacedReader(ABC):
    """What the readings have in common whose verdict is a literal in a place; each gives its `grammar`."""

    if TYPE_CHECKING:
        retractions: list[str]

        def strict(self, text: str) -> Scored | None: ...

    @property
    @abstractmethod
    def grammar(self) -> Grammar:
        """The literals, and what they may stand behind."""

    @abstractmethod
    def whole(self, text: str) -> Reading | None:
        """What the whole text is read as, if it is nothing but a verdict, or one that is malformed."""

    @abstractmethod
    def scored(self, value: Any, stage: str, *notes: str) -> Scored:
        """The outcome of a literal."""

    def tolerant(self, text: str, echoes: Echoes) -> Reading:
        """The verdict of a reply that is a literal as a whole, or holds one in a place."""
        if whole := self.whole(unfenced(text)):
            return whole
        reply = ReplyText(text, echoes)
        place = settle(reply, find_places(reply, self.grammar), self.retractions, self.grammar)
        return place if isinstance(place, Malformed) else self.scored(place.value, f"tolerant:{place.stage}")

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens: a closed object or list, or a lead."""
        if text.startswith(("{", "[")) and isinstance(whole := self.whole(text.strip()), Scored):
            return whole
        reply = ReplyText(text, echoes)
        places = find_places(reply, self.grammar)
        # A paragraph that the reply ends with may have been going on, and so may its last number.
        leads = [
            place
            for place in places
            if (place.stage == "lead" and not ("\n" in place.text and text.strip().endswith(place.text.strip())))
            or (place.stage == "mark" and text.lstrip("*").startswith("[[") and place.line == reply.filled[0])
        ]
        if not leads or not (len(reply.filled) > 1 or re.search(r"\w\W", leads[0].behind)):
            return Malformed(Reason.TRUNCATED, "no verdict leads the reply")
        sure = [place for place in places if place.line < reply.filled[-1] or place in leads]
        found = settle(reply, sure, self.retractions, self.grammar)
        return found if isinstance(found, Malformed) else self.scored(found.value, "tolerant:lead_cut", "cut")

    def places(self, text: str, echoes: Echoes) -> list[Place]:
        """Every place of the reply, or the one that it is as a whole."""
        whole = self.grammar.whole(unfenced(text))
        if whole is not None and not isinstance(whole, Malformed):
            return [Place("whole", whole, 0, 0, text.strip())]
        return find_places(ReplyText(text, echoes), self.grammar)
