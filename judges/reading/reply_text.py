"""A reply's lines and sentences, and which of them are the judge's own words.

Not its own: a quoted or fenced line, a sentence within a quotation, a line that is introduced as another's or that the
response under judgment holds. Hides how quotation, fences and paragraphs are told apart. Runs in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .clean import narrow, plain
from .json_text import objects_in

RESERVED = ("answer", "verdict", "judgment", "judgement", "decision", "result", "evaluation", "conclusion")
SCORE_WORDS = ("score", "scores", "rating", "ratings", "grade", "grades")

_MOST_LINES = 5000
_LONGEST_LINE = 20_000
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)[\"”*_)]{0,3}\s+|(?<=[。！？]))(?=\S)")
_ROW = re.compile(r"^[ \t]*\|([^|\n]+)\|([^|\n]+)\|[ \t]*$", re.M)
"""A table's row of two cells, which says what a line with a label does."""
_NUMBERED = re.compile(r"[0-9]{1,2}[.)][ \t]+(?=\S)")
_QUOTED_LINE = re.compile(r"[ \t]*[>|]")
_FENCE = re.compile("```|~~~|\"\"\"|'''")
_QUOTE_MARK = re.compile(r"(?P<opens>(?<!\S)\"(?=\w)|“)|\"|”")
_QUOTES = re.compile('["“”]')
_GOES_ON = re.compile(r"[a-z,-]\Z", re.I)
BULLET = re.compile(r"\A(?:[-•‣–][ \t]+|#{1,6}[ \t]*)+")
_PARTY = re.compile(
    r"\b(?:gold|generated|responses?|repl(?:y|ies)|assistants?|models?|candidates?|users?|texts?|references?|prompts?"
    r"|outputs?|examples?|it|they)\b",
    re.I,
)
"""Whose words follow a line that ends with a colon, where it names none of the judge's own (`_OWN`)."""
_OWN = re.compile(r"\b(?:I|my|here|evaluation|verdict|judge?ment|decision|conclusion|scores?|ratings?|grades?)\b", re.I)


@dataclass(frozen=True)
class Echoes:
    """Texts that are not the judge's own words: the prompt's literal text, and the responses under judgment."""

    prompt: frozenset[str] = frozenset()
    """Lines of the templates, normalized."""
    fields: frozenset[str] = frozenset()
    """What stands in them before a colon at the end or a place: `question`, `answer`."""
    responses: tuple[str, ...] = ()
    examples: frozenset[str] = frozenset()
    """Objects of the templates, without blanks."""

    @classmethod
    def of_prompt(cls, texts: Iterable[str]) -> Echoes:
        """The echoes of templates of these texts, in each of which a NUL stands for a place."""
        texts = list(texts)
        lines = [_normalize(line) for text in texts for line in re.split("[\n\0]", text)]
        found = [(text, spans) for text in texts if isinstance(spans := objects_in(text), list)]
        return cls(
            frozenset(filter(None, lines)),
            frozenset(line[:-1].strip() for line in lines if line.endswith(":")),
            examples=frozenset("".join(text[start:end].split()) for text, spans in found for start, end in spans),
        )

    def judging(self, responses: Sequence[str]) -> Echoes:
        """The same for a reply about these responses."""
        return replace(self, responses=tuple(map(_normalize, responses))) if responses else self

    def is_example(self, text: str) -> bool:
        """Whether an object is one of the prompt."""
        return bool(self.examples) and "".join(text.split()) in self.examples

    def in_response(self, line: str) -> bool:
        """Whether a response under judgment holds this line, as words of its own; a bare `Yes` may be anybody's."""
        is_short = len(line.split()) <= 2 and not any(mark in line for mark in (":", "[[", "<", "\\boxed"))
        if not self.responses or is_short or not (key := _normalize(line)):
            return False
        pattern = re.compile(rf"(?<!\w){re.escape(key)}(?!\w)")
        return any(key in text and pattern.search(text) for text in self.responses)

    def in_prompt(self, line: str) -> bool:
        """Whether the prompt has this line."""
        return bool(self.prompt) and _normalize(line) in self.prompt


NO_ECHOES = Echoes()


class ReplyText:
    """The lines and sentences of a reply in which a verdict may stand, without markdown's emphasis."""

    def __init__(self, text: str, echoes: Echoes = NO_ECHOES) -> None:
        self.text = _ROW.sub(r"\1: \2", plain(text)) if "|" in text else plain(text)
        self.echoes = echoes
        self.lines = [line.strip() for line in self.text.split("\n")]
        self._marked_lines = [line.strip() for line in text.split("\n")]
        filled = [number for number, line in enumerate(self.lines) if line]
        too_long = len(filled) > _MOST_LINES or max(map(len, self.lines)) > _LONGEST_LINE
        self.filled: list[int] = [] if too_long else filled
        """The numbers of the lines that are not blank; none where there are too many, or one is too long."""

    @cached_property
    def own(self) -> list[bool]:
        """Line by line, whether it is the judge's own: not quoted, fenced, introduced as another's, or an echo."""
        own = [True] * len(self.lines)
        if len(self.filled) > 1:
            opened = [line.partition(":")[0].casefold().strip() for line in self.lines]
            given = [number for number in self.filled if opened[number] in self.echoes.fields]
            # Of several fields that are given again the last may be the verdict, which goes by the same name.
            again = range(given[0], min(given[-1] + 1, self.filled[-1])) if len(given) > 1 else ()
            for number in (*self._fenced(), *self._reported(), *again):
                own[number] = False
            for number in self.filled:
                line, marked = self.lines[number], self._marked_lines[number]
                if _QUOTED_LINE.match(line) or self.echoes.in_response(marked):
                    own[number] = False
            is_open = False
            for number, line in enumerate(self.lines):
                own[number], is_open = own[number] and not is_open, is_open and bool(line)
                for mark in _QUOTE_MARK.finditer(line):
                    is_open = mark["opens"] is not None
        return own

    @cached_property
    def of_prompt(self) -> set[int]:
        """The lines that the prompt has too."""
        return {number for number in self.filled if self.echoes.in_prompt(self.lines[number])}

    def goes_on(self, number: int) -> bool:
        """Whether the next line goes on with a sentence that a line opens."""
        return any(following[:1].islower() for following in self.lines[number + 1 : number + 2])

    def stands_alone(self, index: int) -> bool:
        """Whether a filled line neither goes on with the sentence of the line above nor answers a question there."""
        if index == 0:
            return True
        number, above = self.filled[index], self.filled[index - 1]
        line = self._marked_lines[above]
        if line.endswith(("?", "？")):
            return self.echoes.in_prompt(line)
        return above < number - 1 or _GOES_ON.search(line) is None or BULLET.match(line) is not None

    def _fenced(self) -> Iterator[int]:
        """The lines within a fence, and those that open or close one. A last fence left open is none."""
        fenced = self.filled if _FENCE.search(self.text) else []
        toggles = [number for number in fenced if len(_FENCE.findall(self.lines[number])) % 2]
        for start, end in zip(toggles[::2], toggles[1::2], strict=False):
            yield from range(start, end + 1)

    def _reported(self) -> Iterator[int]:
        """The lines of a paragraph that a line with a colon at its end introduces as somebody else's words."""
        before, is_reported = "", False
        for number, line in enumerate(self.lines):
            if before.endswith((":", "：")):
                is_reported = introduces_another(before)
            elif not line:
                is_reported = False
            if is_reported and line:
                yield number
            before = line.rstrip(" *_`") or before

    def sentences(self, number: int) -> Iterator[tuple[int, str]]:
        """(place in the line, sentence) of a line's sentences that do not stand within a quotation."""
        line, is_open = self.lines[number], False
        start = numbered.end() if (numbered := _NUMBERED.match(line)) else 0
        for place, end in enumerate([*(match.end() for match in _SENTENCE_END.finditer(line, start)), len(line)]):
            sentence = line[start:end].strip()
            if sentence and not is_open:
                yield place, sentence
            is_open ^= len(_QUOTES.findall(sentence)) % 2 == 1
            start = end


def introduces_another(before: str) -> bool:
    """Whether a text that ends with a colon says that somebody else's words follow."""
    last = before.rpartition(". ")[2][-300:]
    return _PARTY.search(last) is not None and _OWN.search(last) is None


def _normalize(line: str) -> str:
    return " ".join(plain(narrow(line)).split()).casefold()
