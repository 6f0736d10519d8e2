"""The grammar of replies that are scores: a list in one of the shapes in which judges write lists, or one number.

Nothing is rounded, clamped or rescaled. A list must be the whole text in question: a JSON list or object, or scores
with one separator, each perhaps behind the number of what it scores.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ..outcome import Malformed, Reason
from .clean import folded, inner, plain
from .json_text import load
from .places import Grammar, Place, label_pattern, labelled_values, marred
from .reply_text import SCORE_WORDS, ReplyText

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_CANONICAL = re.compile(r"-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{0,5}[1-9])?")
_DECIMAL = re.compile(r"(?!-0(?:\.0+)?$)-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,6})?")
_FRACTION = re.compile(r"(\S+?)(?:[ \t]{0,3}/[ \t]{0,3}|[ \t]{1,3}out[ \t]{1,3}of[ \t]{1,3})(\S+)", re.I)
_OF_NUMBERS = frozenset({Reason.COUNT, Reason.NOT_INT, Reason.OUT_OF_RANGE, Reason.OTHER_SCALE})
"""Reasons for which numbers that stand alone are no verdict: they are told apart from text that holds no scores."""
_NUMBER = rf"(?:-?[0-9]{{1,9}}(?:\.[0-9]{{1,6}})?|\b(?:{'|'.join(WORDS)})\b)"
_ANY_NUMBER = re.compile(rf"(?<!\w){_NUMBER}(?!\w)", re.I)
_OPENING = re.compile(
    rf"(?P<open>[\[(\"“'`]{{0,2}})(?P<score>{_NUMBER}(?:[ \t]*(?:/|out[ \t]+of)[ \t]*{_NUMBER})?)(?P<rest>.*)",
    re.I | re.S,
)
_ENDS = re.compile(r"\s*\Z|\.(?=\s|\Z)|[,;!。，；！](?!\d)|:(?=\s)|\s?[—–](?!\s?\d)|\s+-\s|\s*[(（]")
"""What a number must have behind it to be whole."""
_CLOSING = str.maketrans("[(\"“'`", "])\"”'`")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_SCALE = re.compile(
    rf"(?:(?P<low>{_NUMBER})[ \t]*(?:-|–|—|to)[ \t]*|out[ \t]+of[ \t]+|/[ \t]*)(?P<high>{_NUMBER})", re.I
)
_NOUN = r"(?:questions?|q|items?|answers?|responses?|pairs?|blocks?|scores?|no\.?)"
_LABEL = re.compile(
    rf"(?P<noun>{_NOUN})[ \t]{{0,3}}#?(?P<number>[0-9]{{1,4}})"
    r"(?:[ \t]{0,3}[:=][ \t]*|\)[ \t]*|\.[ \t]+|[ \t]+(?:[-–—]|is)[ \t]+)"
    r"|[(\[#]?(?P<plain>[0-9]{1,4})(?:[ \t]{0,3}[:=]|[)\]][:=]?|\.(?=[ \t]))[ \t]*",
    re.I,
)
_BULLET = re.compile(r"^[ \t]*[-•‣*][ \t]+(?=\S)")
_SEPARATORS = (r"\s*,\s*", r"\s*;\s*", r"\s*\|\s*", r"[ \t]*\n\s*", r"[ \t]+and[ \t]+")
_SPLITS = tuple(re.compile(separator) for separator in _SEPARATORS)


@dataclass(frozen=True, slots=True)
class Score:
    """A score that was read, and the coercion that it took (`fraction`, `number_word`, `integral_float`)."""

    value: int | float
    coercion: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """The values from `low` to `high` that are whole steps apart."""

    low: Decimal
    high: Decimal
    step: Decimal
    suffixes: tuple[str, ...] = ()
    """What may stand behind a score."""

    @property
    def whole(self) -> bool:
        """Whether every value is a whole number."""
        return self.low % 1 == 0 and self.step % 1 == 0

    def canonical(self, text: str) -> int | float | None:
        """The value that the text is the one literal of; None for any other text."""
        found = self._on(Decimal(text)) if _CANONICAL.fullmatch(text) and text != "-0" else None
        return found.value if isinstance(found, Score) else None

    def score(self, text: str, bare: bool = False) -> Score | Malformed:
        """The score that the text is; `bare` allows neither wrapping nor a fraction."""
        text = text.strip() if bare else _bared(text)
        for suffix in self.suffixes:
            text = text.removesuffix(suffix).rstrip()
        fraction = None if bare else _FRACTION.fullmatch(text)
        number = _decimal(fraction[1] if fraction else text)
        if number is None or (fraction and (most := _decimal(fraction[2])) is None):
            reason = Reason.OTHER_SCALE if text.endswith("%") and _decimal(text[:-1].rstrip()) else Reason.OTHER_VALUE
            return Malformed(reason, f"{text[:40]!r} is no score")
        if fraction and most != self.high:
            return Malformed(Reason.OTHER_SCALE, f"of {fraction[2][:40]}, where {self.high} is the most")
        word = "number_word" if text.lower() in WORDS else ""
        is_float = self.whole and "." in text and not fraction
        return self._on(number, "fraction" if fraction else word or ("integral_float" if is_float else ""))

    def of_json(self, value: Any) -> Score | Malformed:
        """The score that a JSON value is: a number, or a text that holds one."""
        if isinstance(value, str):
            return self.score(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Malformed(Reason.OTHER_VALUE, f"a value of the type {type(value).__name__} is no score")
        return self._on(Decimal(str(value)), "integral_float" if isinstance(value, float) and self.whole else "")

    def _on(self, number: Decimal, coercion: str = "") -> Score | Malformed:
        if not self.low <= number <= self.high:
            return Malformed(Reason.OUT_OF_RANGE, f"{str(number)[:40]} is not from {self.low} to {self.high}")
        if (number - self.low) % self.step:
            reason = Reason.NOT_INT if self.whole and number % 1 else Reason.OTHER_VALUE
            return Malformed(reason, f"{str(number)[:40]} is not a step of {self.step} from {self.low}")
        return Score(int(number) if self.whole else float(number), coercion)


def _decimal(text: str) -> Decimal | None:
    if text.lower() in WORDS:
        return Decimal(WORDS.index(text.lower()))
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def _bared(text: str) -> str:
    """The text out of all its matched wrappers."""
    text = text.strip()
    while len(text) <= 120 and (below := inner(text)) is not None:
        text = below
    return text


@dataclass(frozen=True, slots=True)
class ScoreList:
    """The scores of a list in the order of what they score, and the coercions they took."""

    scores: tuple[int | float, ...]
    coercions: tuple[str, ...] = field(default=(), compare=False)
    numbered: bool = field(default=False, compare=False)
    """Whether each stood behind the number of what it scores."""


@dataclass(frozen=True, slots=True)
class ScoreGrammar(Grammar):
    """What makes a text a list of `count` scores; with `names` each may stand behind its name."""

    steps: Steps
    count: int
    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = SCORE_WORDS

    @property
    def _single(self) -> bool:
        return self.count == 1 and not self.names

    def whole(self, text: str) -> ScoreList | Malformed | None:
        """The list that the text is; a Malformed where it is one of another length or scale."""
        found = self.read(text)
        if isinstance(found, Malformed):
            return found if found.reason in _OF_NUMBERS else None
        # `1: 4` among other lines is one of several.
        return None if self._single and found.numbered else found

    def opening(self, text: str, lead: bool) -> tuple[ScoreList | Malformed, str] | None:
        """A list that is the whole line, or one score that the line opens with."""
        if not self._single:
            value = self.whole(text)
            return None if value is None else (value, "")
        score, rest = self._first_score(text)
        # `1. Accuracy: …` opens a list of something else.
        if score is None or (lead and (re.match(r"1[.):]", text) or rest.lstrip(" .,:;!()—–-")[:1].isdigit())):
            return None
        return (score if isinstance(score, Malformed) else self._counted([score])), rest

    def _first_score(self, text: str) -> tuple[Score | Malformed | None, str]:
        """(score, what stands behind it) where the text opens with a number that is whole; else None."""
        match = _OPENING.match(text)
        closing = match["open"][::-1].translate(_CLOSING) if match else ""
        if match is None or not match["rest"].startswith(closing):
            return None, text
        rest = match["rest"][len(closing) :]
        for suffix in self.steps.suffixes:
            rest = rest.lstrip(" ").removeprefix(suffix)
        return (self.steps.score(match["score"]), rest) if _ENDS.match(rest) else (None, text)

    def without_literals(self, text: str) -> str:
        """The text with its numbers taken out."""
        return _ANY_NUMBER.sub(" ", text)

    def lists(self, reply: ReplyText) -> list[Place]:
        """The first or last paragraph that is a list of several lines, and scores behind names."""
        if self._single or not reply.filled:
            return []
        places = []
        paragraphs = [part for part in _PARAGRAPH.split(reply.text) if part.strip()]
        for stage, part, line in (("lead", paragraphs[0], 0), ("last", paragraphs[-1], len(reply.lines) - 1)):
            if "\n" in part.strip() and isinstance(found := self.read(part), ScoreList):
                places.append(Place(stage, found, line, 0, part))
        if not self.names:
            return places
        values = labelled_values(reply, {folded(name): name for name in self.names}, self._named_score)
        if isinstance(values, Malformed):
            return [*places, Place("label", values, 0, 0, "")]
        if set(values) == set(self.names):
            line = max(number for number, _ in values.values())
            places.append(Place("label", ScoreList(tuple(values[name][1] for name in self.names)), line, 0, ""))
        return places

    def _named_score(self, name: str, text: str) -> tuple[Any, str] | None:
        score, rest = self._first_score(text)
        found = marred(text, self.without_literals) if score is None else score
        return (found.value if isinstance(found, Score) else found, rest) if found else None

    def read(self, text: str) -> ScoreList | Malformed:
        """The list that the whole text is, perhaps behind a label or heading, in wrappers."""
        text = plain(text).strip()
        if len(text) > 200 + sum(map(len, self.names)) + 80 * self.count:
            return Malformed(Reason.NO_VERDICT)
        if header := label_pattern(self.labels).match(text):
            if header["note"] and (wrong := self.scale_fault(header["note"])):
                return wrong
            text = header["value"].strip()
        found = self._shape(text)
        for _ in range(6):
            below = inner(text[:-1] if text.endswith(("].", ").", "}.")) else text)
            if isinstance(found, ScoreList) or below is None or text.startswith("{"):
                break
            text = below
            found = self._shape(text)
        return found

    def scale_fault(self, text: str) -> Malformed | None:
        """Why what is said in parentheses behind a label names another scale; None where it names none."""
        scale, ends = _SCALE.fullmatch(text.strip()), (self.steps.low, self.steps.high)
        if scale is None or (_decimal(scale["low"] or str(ends[0])), _decimal(scale["high"])) == ends:
            return None
        return Malformed(Reason.OTHER_SCALE, f"({text}) is another scale")

    def _shape(self, text: str) -> ScoreList | Malformed:
        if text.startswith(("[", "{")):
            value = load(text.removesuffix("."))
            if not isinstance(value, Malformed):
                return self._of_json(value)
            if value.reason != Reason.NO_VERDICT or text.startswith("{"):
                return value
        if text.endswith((".", "!", "。")) and not text.endswith(("..", "!!")):
            text = text[:-1].rstrip()
        return self._pieces(text)

    def _of_json(self, value: Any, unwrap: bool = True) -> ScoreList | Malformed:
        """The list that a JSON value is; `unwrap` allows an object whose one key says that it holds the scores."""
        if isinstance(value, str):
            return self._pieces(value.strip())
        if isinstance(value, list):
            value = value[0] if len(value) == 1 and isinstance(value[0], list) else value
            return self._counted(list(map(self.steps.of_json, value)))
        if not isinstance(value, dict):
            return self._counted([self.steps.of_json(value)])
        by_key = {folded(key): below for key, below in value.items()}
        names = list(map(folded, self.names))
        if names and sorted(map(folded, value)) == sorted(names):
            return self._counted([self.steps.of_json(by_key[name]) for name in names])
        if len(value) == 1 and unwrap and set(by_key) <= set(map(folded, self.labels)) - set(names):
            return self._of_json(next(iter(value.values())), unwrap=False)
        keys = [re.fullmatch(rf"(?:{_NOUN} ?#?)?([0-9]{{1,4}})", folded(key)) for key in value]
        numbers = [int(key[1]) for key in keys if key]
        if names or not value or sorted(numbers) != list(range(1, len(value) + 1)):
            return Malformed(Reason.LABELS, "an object with other keys than were asked for")
        return self._counted(
            [self.steps.of_json(each) for _, each in sorted(zip(numbers, value.values(), strict=True))]
        )

    def _pieces(self, text: str) -> ScoreList | Malformed:
        """Scores, or labelled scores, with one separator; one more separator may stand at the end."""
        alone = self.steps.score(text)
        if isinstance(alone, Score):
            return self._counted([alone])
        split = next((split for split in _SPLITS if split.search(text)), None)
        if split is None:
            pieces = text.split() or [text]
            # Anything around a number might make it a label: with blanks alone between them, they are bare.
            bare = [self.steps.score(piece, bare=True) for piece in pieces]
            return self._numbered([text]) or (alone if len(pieces) == 1 else self._counted(bare))
        pieces = split.split(text)
        pieces = pieces[: -1 if pieces[-1] == "" else None]
        if not all(map(str.strip, pieces)):
            return Malformed(Reason.OTHER_VALUE, "an empty place: which one has no score?")
        if len(pieces) > 1 and all(map(_BULLET.match, pieces)):
            pieces = [_BULLET.sub("", piece, count=1) for piece in pieces]
        return self._numbered(pieces) or self._counted(list(map(self.steps.score, pieces)))

    def _numbered(self, pieces: Sequence[str]) -> ScoreList | Malformed | None:
        """The scores behind their numbers; None where no piece has one."""
        matches = [match for match in map(_LABEL.match, pieces) if match] if not self.names else []
        if not matches:
            return None
        if len(matches) < len(pieces):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "a number may be a label or a score")
        numbers = [int(match["number"] or match["plain"]) for match in matches]
        nouns = {(match["noun"] or "").lower() for match in matches}
        if "" in nouns and len(pieces) == 1 and not matches[0][0].endswith((" ", "\t")):
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, "a number may be a label or a score")
        scores = [self.steps.score(piece[match.end() :]) for piece, match in zip(pieces, matches, strict=True)]
        if any(isinstance(score, Score) for score in scores) and (
            len(nouns) > 1 or sorted(numbers) != list(range(1, len(numbers) + 1))
        ):
            return Malformed(Reason.LABELS, f"labels {str(sorted(numbers))[:60]} instead of 1 to {self.count}")
        return self._counted(
            [score for _, score in sorted(zip(numbers, scores, strict=True), key=lambda each: each[0])], True
        )

    def _counted(self, scores: Sequence[Score | Malformed], numbered: bool = False) -> ScoreList | Malformed:
        faults = [score for score in scores if isinstance(score, Malformed)]
        if faults:
            others = [fault for fault in faults if fault.reason == Reason.OTHER_VALUE]
            return (
                Malformed(Reason.NO_VERDICT, others[0].detail) if len(others) == len(scores) else (others or faults)[0]
            )
        read = [score for score in scores if isinstance(score, Score)]
        if len({score.coercion == "fraction" for score in read}) > 1:
            return Malformed(Reason.OTHER_VALUE, "some scores are fractions and some are not")
        if len(read) != self.count:
            return Malformed(Reason.COUNT, f"{len(read)} scores for {self.count}")
        coercions = dict.fromkeys(score.coercion for score in read if score.coercion)
        return ScoreList(tuple(score.value for score in read), tuple(coercions), numbered)
