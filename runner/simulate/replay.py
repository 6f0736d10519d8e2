"""Answers from recorded replies, found by the question and the response that stand in a prompt.

A wrong find would be a wrong verdict that nobody sees, so this is strict about where it looks: both texts must fill a
slot of the prompt's layout, and whatever is not the only possible reading is an error. A slot is a line, or several,
after `Label: `, below a heading line, or between tags. This knows no judge's templates: only how slots look, and which
words label the answer to be judged and which the one it is held against.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from runner.errors import InputError

from .replies import says_yes

Reply = str | bool
"""What was recorded: the reply's text, or only the verdict."""

_JUDGED = re.compile(r"generated|model|predict|candidate|student|system|submitted|hypothes", re.IGNORECASE)
_HELD_AGAINST = re.compile(
    r"correct|gold|true|truth|reference|expected|ideal|rubric|explanation|question|document|context", re.IGNORECASE
)
_ANSWER = re.compile(r"response|answer|reply|output|completion", re.IGNORECASE)
_OPENING = re.compile(r"(?P<label>[^\n:]{1,60}): ?(?P<quote>[\"'`]?)|<(?P<tag>[\w-]+)>|(?P<bare>[\"'`]?)")
_HEADING = re.compile(r".*(?::|-{3,}|={3,}|\*\*|>|\])\s*|#+ .*")
_EMPTY_SLOT = re.compile(r"^[^\n:]{1,60}: (?=\n|\Z)", re.MULTILINE)
_LABEL_REACH = 200
"""How far into a line a label may end."""


class NotRecorded(Exception):
    """No recorded row fits the prompt."""


class Ambiguous(Exception):
    """Recorded rows with differing replies fit the prompt."""


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    label: str


class Replay:
    """Recorded replies, by question and response."""

    def __init__(self, rows: Iterable[tuple[Any, Any, Any, Reply]]) -> None:
        """Rows of (question, response, reference or None, reply)."""
        self._responses: dict[str, dict[str, list[tuple[str | None, Reply]]]] = {}
        """Question → response → its rows: reference, if there is one, and reply."""
        self._by_first_line: dict[str, list[str]] = {}
        self.rows = 0
        yes = 0
        for question, response, reference, reply in rows:
            text = _text(question)
            if text not in self._responses:
                self._responses[text] = {}
                self._by_first_line.setdefault(text.split("\n", 1)[0], []).append(text)
            recorded = self._responses[text].setdefault(_text(response), [])
            recorded.append((None if reference is None else _text(reference), reply))
            self.rows += 1
            yes += reply if isinstance(reply, bool) else says_yes(reply)
        self.yes = yes / self.rows if self.rows else 0.0
        """Share of the rows whose reply says yes."""

    @classmethod
    def read(cls, path: Path) -> Replay:
        """Read a JSONL file of {question, response, reply}, with `reference` where that must tell rows apart."""
        try:
            with path.open("rb") as lines:
                return cls(list(_rows(path, lines)))
        except OSError as error:
            raise InputError(f"replay: cannot read {path}: {error.strerror}") from None

    def conflicts(self) -> int:
        recorded = (rows for responses in self._responses.values() for rows in responses.values())
        return sum(len({reply for _, reply in rows}) > 1 for rows in recorded)

    def find(self, prompt: str) -> Reply:
        """The reply recorded for the question and the response in this prompt; NotRecorded or Ambiguous."""
        questions = self._questions(prompt)
        if not questions:
            raise NotRecorded("no recorded question fills a slot of the prompt")
        replies: dict[Reply, str] = {}
        for question, span in questions:
            for response in self._judged(prompt, question, span):
                rows = self._responses[question][response]
                fitting = [reply for gold, reply in rows if gold is not None and _is_held_against(prompt, gold)]
                for reply in fitting or [reply for _, reply in rows]:
                    replies[reply] = response
        if not replies:
            raise NotRecorded(f"the question is recorded, the response in the prompt is not: {questions[0][0][:200]!r}")
        if len(replies) > 1:
            responses = ", ".join(sorted({repr(response[:80]) for response in replies.values()}))
            raise Ambiguous(
                f"{len(replies)} differing replies are recorded for {questions[0][0][:200]!r} with {responses}"
            )
        return next(iter(replies))

    def _questions(self, prompt: str) -> list[tuple[str, _Span]]:
        """Recorded questions that fill a slot; only those labelled as a question, where there are such."""
        candidates: dict[str, tuple[str, _Span]] = {}
        for start, end in _segments(prompt):
            for question in self._by_first_line.get(prompt[start:end], ()):
                if prompt.startswith(question, start) and (span := _slot(prompt, start, start + len(question))):
                    candidates.setdefault(question, (question, span))
        spans = [span for _, span in candidates.values()]
        outer = [(question, span) for question, span in candidates.values() if not _inside_another(span, spans)]
        return [entry for entry in outer if "question" in entry[1].label.lower()] or outer

    def _judged(self, prompt: str, question: str, place: _Span) -> list[str]:
        """Responses recorded for this question that fill the slot of the answer to be judged."""
        slots = [
            (response, span)
            for response in self._responses[question]
            for span in _slots_of(prompt, response)
            if span.end <= place.start or span.start >= place.end
        ]
        spans = [span for _, span in slots]
        return [
            response for response, span in slots if _is_judged(span.label) and not _inside_another(span, spans, prompt)
        ]


def _rows(path: Path, lines: Iterable[bytes]) -> Iterator[tuple[Any, Any, Any, Reply]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except ValueError as error:
            raise InputError(f"replay: {path}:{number}: no JSON: {error}") from None
        if not isinstance(row, dict) or not {"question", "response", "reply"} <= row.keys():
            raise InputError(f"replay: {path}:{number}: a row needs question, response and reply")
        reply = row["reply"]
        if isinstance(reply, dict | int | float) and not isinstance(reply, bool):
            reply = orjson.dumps(reply).decode()
        if not isinstance(reply, str | bool):
            raise InputError(f"replay: {path}:{number}: reply must be text, an object, a number, true or false")
        yield row["question"], row["response"], row.get("reference"), reply


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _segments(prompt: str) -> Iterator[tuple[int, int]]:
    """Where a slot's first line may start and end: each line, and what follows a label, a tag or a quote in it."""
    start = 0
    while start <= len(prompt):
        end = prompt.find("\n", start)
        end = len(prompt) if end < 0 else end
        yield start, end
        at = prompt.find(": ", start, min(end, start + _LABEL_REACH))
        while at >= 0:
            yield at + 2, end
            if end - at > 3 and prompt[at + 2] in "\"'`" and prompt[end - 1] == prompt[at + 2]:
                yield at + 3, end - 1
            at = prompt.find(": ", at + 2, min(end, start + _LABEL_REACH))
        if prompt.startswith("<", start) and (closed := prompt.find(">", start, end)) >= 0:
            last = prompt.find("</", closed, end)
            yield closed + 1, end if last < 0 else last
        start = end + 1


def _slots_of(prompt: str, text: str) -> Iterator[_Span]:
    """Every slot that `text` fills."""
    if not text:
        for empty in _EMPTY_SLOT.finditer(prompt):
            yield _Span(empty.end(), empty.end(), empty.group()[:-2])
        return
    start = prompt.find(text)
    while start >= 0:
        if span := _slot(prompt, start, start + len(text)):
            yield span
        start = prompt.find(text, start + 1)


def _slot(prompt: str, start: int, end: int) -> _Span | None:
    """The slot that reaches exactly from `start` to `end`, with what labels it; None where there is none."""
    line = prompt.rfind("\n", 0, start) + 1
    if start - line > _LABEL_REACH or not (opening := _OPENING.fullmatch(prompt, line, start)):
        return None
    if tag := opening["tag"]:
        return _Span(start, end, tag) if prompt.startswith(f"</{tag}>", end) else None
    quote = opening["quote"] or opening["bare"] or ""
    if not prompt.startswith(quote, end) or prompt[end + len(quote) : end + len(quote) + 1] not in ("", "\n"):
        return None
    if opening["label"] is not None:
        return _Span(start, end, opening["label"])
    above = prompt[:line].rstrip().rsplit("\n", 1)[-1] if prompt.count("\n", max(0, line - 3), line) < 3 else ""
    if tag_above := re.fullmatch(r"\s*<([\w-]+)>\s*", above):
        above = f"{tag_above[1]}:"
    return _Span(start, end, above) if _HEADING.fullmatch(above) else None


def _is_judged(label: str) -> bool:
    return bool(_JUDGED.search(label) or (_ANSWER.search(label) and not _HELD_AGAINST.search(label)))


def _is_held_against(prompt: str, reference: str) -> bool:
    """Whether the prompt holds the response against this reference."""
    return any(not _is_judged(span.label) for span in _slots_of(prompt, reference))


def _inside_another(span: _Span, spans: Iterable[_Span], prompt: str | None = None) -> bool:
    """Whether the span is a part of a longer one.

    With the prompt given, a part that lacks only white space at an edge does not count: nobody can say whether that
    belongs to the text or to the layout.
    """
    return any(
        other.start <= span.start <= span.end <= other.end
        and other.end - other.start > span.end - span.start
        and (prompt is None or prompt[other.start : other.end].strip() != prompt[span.start : span.end].strip())
        for other in spans
    )
