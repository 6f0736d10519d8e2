"""The commonest replies that could not be read, out of any number of them, in bounded memory.

Replies that differ in case, digits and blanks alone count together. Text of a judge model is from outside: what is
shown of it is short, and holds nothing that a terminal would obey.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

BEGINNING, END = 400, 200
"""So much of a reply is looked at."""
SHOWN = 200
"""So much of it is shown, and of a longer one its beginning and its end."""
SHOWN_END = 70
MOST = 10
"""Kinds of reply that are told of each judge × model."""
KEPT = 1_000
"""Kinds of each judge × model that are counted at a time."""

_DIGITS = re.compile(r"[0-9]+(?:[.,][0-9]+)*")


@dataclass(frozen=True, slots=True)
class MalformedExample:
    """Replies of a judge × model that are alike and no verdict, with one of them."""

    judge: str
    model: str
    reason: str
    replies: int
    at_least: bool
    """There may be more: so many kinds came that rare ones were forgotten in between."""
    of: int
    """All malformed replies of this judge × model."""
    example: str | None
    """Short and printable; None: there was no text."""


@dataclass(slots=True)
class _Kind:
    replies: int
    example: str | None


class TopExamples:
    """Counts kinds of replies of one judge × model; where there are too many, the rare ones are forgotten."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self.total = 0
        self.forgot = False

    def add(self, reason: str, beginning: str | None, end: str | None) -> None:
        """Count a reply by its first `BEGINNING` and its last `END` characters."""
        self.total += 1
        key = reason, _alike(beginning, end)
        if (kind := self._kinds.get(key)) is not None:
            kind.replies += 1
            return
        if len(self._kinds) == self._kept:
            self._forget()
        self._kinds[key] = _Kind(1, abridge(beginning, end))

    def _forget(self) -> None:
        """Only what came again stays, and of that the half that came most."""
        self.forgot = True
        ranked = sorted(self._kinds.items(), key=lambda entry: -entry[1].replies)
        self._kinds = {key: kind for key, kind in ranked[: self._kept // 2] if kind.replies > 1}

    def most(self, number: int) -> list[tuple[str, int, str | None]]:
        """(reason, replies, example), commonest first; among equals those of different reasons come first."""
        of_reason: dict[tuple[str, int], int] = {}
        ranked = []
        for place, ((reason, _), kind) in enumerate(self._kinds.items()):
            again = of_reason[reason, kind.replies] = of_reason.get((reason, kind.replies), 0) + 1
            ranked.append((-kind.replies, again, place, reason, kind.example))
        return [(reason, -replies, example) for replies, _, _, reason, example in sorted(ranked)[:number]]


def top_examples(
    rows: Iterable[tuple[str, str, str, str | None, str | None]], most: int = MOST, kept: int = KEPT
) -> list[MalformedExample]:
    """Up to `most` kinds of each judge × model. `rows`: judge, model, reading, and the reply's two ends."""
    of_judge_model: dict[tuple[str, str], TopExamples] = {}
    for judge, model, reading, beginning, end in rows:
        if (of_pair := of_judge_model.get((judge, model))) is None:
            of_pair = of_judge_model[judge, model] = TopExamples(kept)
        of_pair.add(reading.partition(":")[2], beginning, end)
    return [
        MalformedExample(*pair, reason, replies, counted.forgot, counted.total, example)
        for pair, counted in of_judge_model.items()
        for reason, replies, example in counted.most(most)
    ]


def abridge(beginning: str | None, end: str | None) -> str | None:
    """A reply in `SHOWN` characters or little more, with all that is no plain character escaped."""
    text = _ends(beginning, end, SHOWN, SHOWN_END)
    if text is None:
        return None
    return "".join(mark if mark.isprintable() else _escaped(mark) for mark in text)


def _alike(beginning: str | None, end: str | None) -> str:
    text = _ends(beginning, end, BEGINNING - 1, END)
    # None and an empty text are told apart by nobody who reads a report.
    return _DIGITS.sub("0", " ".join((text or "").split()).casefold())


def _ends(beginning: str | None, end: str | None, length: int, end_length: int) -> str | None:
    if beginning is None or not beginning.strip():
        return None
    if len(beginning) <= length:
        return beginning
    return f"{beginning[: length - end_length]} … {(end or beginning)[-end_length:]}"


def _escaped(mark: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(mark) or mark.encode("unicode_escape").decode()
