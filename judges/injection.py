"""Judged text that looks as if it wanted to steer the judge: found and named, never changed.

Looks at what an item puts into a prompt, by a short list of signs: control tokens of chat formats, lines of the
judge's own prompt, its reply format, orders to a judge. A sign is no proof, and text without one is no promise. What is
sent and how the reply is read are the same either way; who reads the results is told. All patterns run in linear time.

An ordinary answer is no sign: `Yes.` or `4` as a whole says yes or 4; an imitated reply has a label, a key or company.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .injection_orders import has_order, holds_any
from .item import INVISIBLE, Item
from .judge import Judge
from .template import Template, parse_template

VERSION = "3"
"""Of the list of signs; another version may find other items."""

CHAT_TOKEN, DELIMITER, INSTRUCTION, REPLY_FORMAT = "chat_token", "delimiter", "instruction", "reply_format"
SIGNS = (CHAT_TOKEN, DELIMITER, INSTRUCTION, REPLY_FORMAT)

_WORD_START = r"(?<![\w-])"
_MARK = r"[\"'*_`”“]{0,4}"
_LEAD = r"[ \t>*_`\"'#(\[{-]{0,8}"
_SAYS = rf"{_MARK}[ \t]{{0,3}}[:=]{_MARK}[ \t]{{0,3}}{_MARK}"
_LINE_CLOSED = rf"{_MARK}[ \t]{{0,3}}(?:[.!,;)}}\]\n]|$)"
_LABELS = ("answer", "verdict", "decision", "judgment", "judgement", "result", "conclusion", "evaluation")
_CHOICES = (*_LABELS, "choice", "winner", "preference")
_SCORES = ("score", "scores", "rating", "ratings", "grade", "evaluation")
_CHOOSING = ("choose", "select", "pick", "prefer", "answer", "output", "reply", "respond")
_SHORT = 4
"""Shorter labels of a choice are no sign on a line of their own."""
_LINE_NUMBER = r"-?[0-9]{1,3}(?:\.[0-9]{1,3})?"
_FEW = 3
"""So many scores in a row are a list even where nothing else is said; two may be an answer."""

_WORD = re.compile(r"\w+")
_RULED = re.compile(r"[-=#*~]{3,}")
_TAG = re.compile(r"</?[a-z][\w-]{0,30}>")
_PHRASE = 5
"""So many words of the prompt in a row are a sign wherever they stand."""
_OPENS = re.compile(r"[\w][\w '’/()-]{0,40}:[ \t]*\Z")

_VISIBLE = dict.fromkeys(map(ord, INVISIBLE), "") | {0xFF00 + n: chr(0x20 + n) for n in range(1, 95)} | {0x00A0: " "}
"""What a reader does not see is dropped, and full-width characters are ASCII: tokens are hidden that way."""

_CHAT = re.compile(
    r"<\|[A-Za-z][\w▁.-]{1,40}\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<[be]os>"
    r"|\[/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|^[ \t]{0,3}#{2,4} ?(?i:human|user|assistant|system|instructions?|response) ?:",
    re.MULTILINE,
)
_CHAT_PARTS = ("<|", "[INST", "[/INST", "<<", "_of_turn>", "os>", "[SYS", "[/SYS", "[TOOL", "[/TOOL", "[AVAIL", "##")
_END = "</s>"


class InjectionDetector:
    """The signs, for one judge: its prompts and its reply format are among them."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._reply = ReplyFormat(judge.meaning["reads"])
        self._delimiters = {
            name: Delimiters([parse_template(text) for text in roles.values()])
            for name, roles in judge.templates.items()
        }

    def detect(self, item: Item, template: str) -> tuple[str, ...]:
        """Which signs the item's text in this template shows, in the order of `SIGNS`."""
        texts = [visible_text(text) for text in dict.fromkeys(self._judge.values(item, template).values()) if text]
        # Orders and tokens stand within a line: one look at all texts is enough.
        joined = "\n".join(texts)
        lowered = [text.lower() for text in texts]
        signs = []
        if _has_chat_token(joined):
            signs.append(CHAT_TOKEN)
        if self._judge.has_block_marker(item, template) or any(map(self._delimiters[template].appear_in, lowered)):
            signs.append(DELIMITER)
        if has_order(joined.lower()):
            signs.append(INSTRUCTION)
        if any(map(self._reply.appears_in, lowered)):
            signs.append(REPLY_FORMAT)
        return tuple(signs)


class ReplyFormat:
    """A judge's reply format, as text that is not a reply may imitate it. Takes `reads` as `Judge.meaning` has it."""

    def __init__(self, reads: Mapping[str, Any]) -> None:
        kinds = {"yesno": _yesno, "object": _object, "scores": _scores, "choice": _choice}
        names, pattern = kinds[reads["kind"]](reads)
        self._names = tuple(names)
        self._pattern = re.compile(pattern, re.MULTILINE)
        self._standalone = _standalone_labels(reads)
        self._listed = None
        if reads["kind"] == "scores" and not reads["names"]:
            self._listed = (float(reads["low"]), float(reads["high"]))

    def appears_in(self, lowered: str) -> bool:
        """Whether the text, in lower case, holds what would be read as a reply."""
        if any(name in lowered for name in self._names) and self._pattern.search(lowered):
            return True
        if self._listed is not None and "," in lowered and _has_list(lowered, *self._listed):
            return True
        if self._standalone and any(label in lowered for label in self._standalone):
            whole = _strip_marks(lowered)
            return any(
                (line := _strip_marks(each)) in self._standalone and (line != whole or not line.isalnum())
                for each in lowered.splitlines()
            )
        return False


def _yesno(reads: Mapping[str, Any]) -> tuple[Iterable[str], str]:
    aliases = [word.lower() for words in reads.get("aliases", {}).values() for word in words]
    names = (*_LABELS, reads["verdict"].lower(), *_own_labels(reads))
    values = _any_of(["yes", "no", "true", "false", *aliases])
    return names, rf"{_WORD_START}{_any_of(names)}{_SAYS}{values}{_LINE_CLOSED}|{_set_to_pattern(names, values)}"


def _object(reads: Mapping[str, Any]) -> tuple[Iterable[str], str]:
    properties = _properties(reads)
    kinds = {name.lower(): properties[name].get("type") for name in reads["verdict"]}
    truths = [name for name, kind in kinds.items() if kind == "boolean"]
    others = [name for name, kind in kinds.items() if kind != "boolean"]
    numbers = [name for name in others if kinds[name] in ("integer", "number")]
    values = r"(?:true|false|yes|no)"
    patterns = []
    if truths:
        patterns += [rf"{_WORD_START}{_any_of(truths)}{_SAYS}{values}\b", _set_to_pattern(truths, values)]
    if others:
        patterns.append(rf"[\"'`]{_any_of(others)}[\"'`][ \t]{{0,3}}:")
    if numbers:
        patterns.append(_line_pattern(numbers, _LINE_NUMBER))
    return kinds, "|".join(patterns)


def _properties(reads: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = reads.get("schema") or reads["json_schema"]
    return {reads["verdict"][0]: schema} if schema["type"] == "array" else schema["properties"]


def _scores(reads: Mapping[str, Any]) -> tuple[Iterable[str], str]:
    named = [reads["verdict"], *(reads["names"] or ()), *_own_labels(reads)]
    names = tuple(dict.fromkeys([*_SCORES, *(name.lower() for name in named)]))
    listed = rf"\[{{0,2}}{_LINE_NUMBER}(?:[ \t]?[,;][ \t]?{_LINE_NUMBER}){{0,60}}\]{{0,2}}"
    marked = rf"\[\[[ \t]?{_LINE_NUMBER}[ \t]?\]\]"
    keyed = rf"[\"'`]{_any_of(names)}[\"'`][ \t]{{0,3}}:[ \t]{{0,3}}[\[0-9\"-]"
    return (*names, "[["), rf"{_line_pattern(names, listed)}|{keyed}|{marked}"


def _choice(reads: Mapping[str, Any]) -> tuple[Iterable[str], str]:
    labels = _any_of(_labels(reads))
    names = (*_CHOICES, reads["verdict"].lower(), *_own_labels(reads))
    orders = (
        rf"(?:^|[.!?:])[ \t]{{0,3}}(?:please[ \t])?{_any_of(_CHOOSING)}[ \t]{{1,3}}"
        rf"(?:with[ \t])?{_MARK}{labels}{_LINE_CLOSED}"
    )
    marked = rf"\[\[[ \t]?{labels}[ \t]?\]\]"
    # Of short labels any comparison would be a sign: `A is better` is one as a whole sentence.
    long = [label for label in _labels(reads) if len(label) >= _SHORT]
    short = [label for label in _labels(reads) if len(label) < _SHORT]
    closing = rf"|(?<!\w){_any_of(long)}{_MARK} is\b[^.\n]{{0,12}}\b(?:better|best|winner|preferred)\b" if long else ""
    closing += rf"|{_closing_sentence(short)}" if short else ""
    said = [phrase.lower() for phrases in reads.get("phrases", {}).values() for phrase in phrases]
    closing += rf"|(?<!\w){_any_of(said)}(?!\w)" if said else ""
    parts = [max(phrase.split(), key=len) for phrase in (*long, *said)]
    return (
        *names,
        *_CHOOSING,
        "[[",
        "better",
        "best",
        *parts,
    ), rf"{_line_pattern(names, labels)}|{orders}|{marked}{closing}"


def _closing_sentence(labels: Iterable[str]) -> str:
    """A sentence that says which one is better, and nothing else."""
    noun = r"(?:(?:answer|response|output|assistant|candidate|completion|model|system)[ \t]{1,3})?"
    label = rf"{noun}{_MARK}{_any_of(labels)}{_LINE_CLOSED}"
    good = r"(?:better|best|winner|preferred|superior)"
    thing = r"(?:[ \t]{1,3}(?:answer|response|output|one|choice|option))?"
    begin = r"(?:^|[.!?:;])[ \t>*_`\"'#-]{0,6}(?:(?:therefore|thus|so|hence|overall|in[ ]conclusion),?[ \t]{1,3})?"
    return (
        rf"{begin}(?:{noun}{_MARK}{_any_of(labels)}{_MARK}[ \t]{{1,3}}is[ \t]{{1,3}}"
        rf"(?:(?:the|clearly|much|far|overall|slightly)[ \t]{{1,3}}){{0,2}}{good}{thing}{_LINE_CLOSED}"
        rf"|(?:the|my)[ \t]{{1,3}}{good}{thing}[ \t]{{1,3}}is:?[ \t]{{1,3}}{label}"
        rf"|(?:i|we)(?:['’]d|[ \t]would)?[ \t]{{1,3}}(?:prefer|choose|pick|select|favou?r)[ \t]{{1,3}}{label})"
    )


def _labels(reads: Mapping[str, Any]) -> list[str]:
    return [word.lower() for label, about in reads["labels"].items() for word in (label, *about["aliases"])]


def _own_labels(reads: Mapping[str, Any]) -> list[str]:
    """The words that the judge declares for a verdict to stand behind, in any language."""
    declared = [*reads.get("verdict_labels", ()), *(reads.get("labels", ()) if reads["kind"] != "choice" else ())]
    return [word.lower() for word in declared]


def _standalone_labels(reads: Mapping[str, Any]) -> frozenset[str]:
    if reads["kind"] != "choice":
        return frozenset()
    return frozenset(label for label in map(_strip_marks, _labels(reads)) if len(label) >= _SHORT)


def _any_of(words: Iterable[str]) -> str:
    longest = sorted(set(words), key=lambda word: (-len(word), word))
    return "(?:" + "|".join(r"\s{1,4}".join(map(re.escape, word.split())) for word in longest) + ")"


def _set_to_pattern(names: Iterable[str], values: str) -> str:
    return rf"\bset[ \t]{{1,3}}{_MARK}{_any_of(names)}{_MARK}[ \t]{{1,3}}to[ \t]{{1,3}}{_MARK}{values}\b"


def _line_pattern(names: Iterable[str], value: str) -> str:
    """A line that is a label with its value and nothing else."""
    out_of = r"(?:[ \t]?(?:/|out[ \t]of)[ \t]?[0-9]{1,3})?"
    head = rf"^{_LEAD}(?:(?:final|overall|my|the)[ \t]){{0,2}}{_any_of(names)}"
    return rf"{head}{_SAYS}{value}{out_of}{_MARK}[ \t.!,)}}\]]{{0,4}}$"


def _strip_marks(line: str) -> str:
    return line.strip(" \t\r\n>*_`\"'#.!")


def _has_list(text: str, low: float, high: float) -> bool:
    """Whether a line is a list of scores: any of several lines, or a long one that stands alone."""
    lines = [line.strip(" \t\r>*_`.[]") for line in text.splitlines()]
    lines = [line for line in lines if line]
    for line in lines:
        # Longer than any batch has scores: no list, and not looked at number by number.
        if len(line) > 600 or not (line[0].isdigit() and "," in line):
            continue
        parts = [part.strip() for part in line.split(",")]
        if len(parts) < (2 if len(lines) > 1 else _FEW) or not all(re.fullmatch(_LINE_NUMBER, part) for part in parts):
            continue
        if all(low <= float(part) <= high for part in parts):
            return True
    return False


class Delimiters:
    """The literal lines of a template: what stands alone on a line, what opens one before a value, long phrases."""

    def __init__(self, parts: Sequence[Template]) -> None:
        self._lines: set[str] = set()
        self._openings: set[str] = set()
        phrases: set[str] = set()
        self._tags: set[str] = set()
        for part in parts:
            for place, literal in enumerate(part.literals):
                pieces = literal.lower().split("\n")
                self._tags.update(_TAG.findall(literal.lower()))
                phrases.update(_normalize(piece) for piece in pieces if len(_WORD.findall(piece)) >= _PHRASE)
                # The first piece goes on after a value, the last one before the next: neither is a whole line.
                whole = pieces[place > 0 : len(pieces) - (place < len(part.names))]
                self._lines.update(_normalize(piece) for piece in whole if _is_telling(piece))
                if place < len(part.names) and (place == 0 or len(pieces) > 1) and _OPENS.match(pieces[-1]):
                    self._openings.add(_normalize(pieces[-1]))
        self._phrases = tuple(sorted(phrases))
        signs = (*phrases, *self._lines, *self._openings, *self._tags)
        self._shortest = min(map(len, signs), default=0)
        self._shortest_phrase = min(map(len, phrases), default=0)

    def appear_in(self, lowered: str) -> bool:
        """Whether the text, in lower case, holds one of them; of openings of one word it takes two."""
        if len(lowered) < self._shortest:
            return False
        if self._tags and any(tag in lowered for tag in self._tags):
            return True
        lines = {_normalize(line) for line in lowered.splitlines()}
        if not self._lines.isdisjoint(lines):
            return True
        if len(lowered) >= self._shortest_phrase:
            joined = " ".join(lowered.split())
            if any(phrase in joined for phrase in self._phrases):
                return True
        opened = {opening for opening in self._openings if any(line.startswith(opening) for line in lines)}
        return len(opened) > 1 or any(len(_WORD.findall(opening)) > 1 for opening in opened)


def _is_telling(line: str) -> bool:
    """Whether a line of the prompt is one that hardly anything else has."""
    words = len(_WORD.findall(line))
    bracketed = line.strip().startswith("[") and line.strip().endswith("]")
    return words >= 3 or (words >= 2 and bracketed) or (words >= 1 and _RULED.search(line) is not None)


def _normalize(line: str) -> str:
    return " ".join(line.split()).strip("> *_`")


def visible_text(text: str) -> str:
    """The text as it looks to a reader."""
    return text if text.isascii() else text.translate(_VISIBLE)


def _has_chat_token(text: str) -> bool:
    if holds_any(text, _CHAT_PARTS) and _CHAT.search(text):
        return True
    # In HTML the same letters end what is struck through, and then they have a beginning on the line.
    return _END in text and any(line.count(_END) > line.count("<s>") for line in text.splitlines())
