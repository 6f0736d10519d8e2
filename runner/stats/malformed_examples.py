"""The commonest replies that could not be read, out of any number of them, in bounded memory.

Replies that differ in case, digits and blanks alone count together. Text of a judge model is from outside: what is
shown of it is short, and holds nothing that a terminal would obey.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

BEGINNING, END = 400, 200
"""So much of a reply is looked at."""
SHOWN = 200
"""So much of it is shown, and of a longer one its beginning and its end."""
SHOWN_END = 70
MOST = 10
"""Kinds of reply that are shown of each judge × model."""
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


class TopExamples:
    """Counts kinds of replies of one judge × model; where there are too many, the rare ones are forgotten."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._replies = Counter[tuple[str, str]]()
        self._examples: dict[tuple[str, str], str | None] = {}
        self.total = 0
        self.forgot = False

    def add(self, reason: str, beginning: str | None, end: str | None) -> None:
        """Count a reply by its first `BEGINNING` and its last `END` characters."""
        self.total += 1
        kind = reason, _alike(beginning, end)
        if kind not in self._replies:
            if len(self._replies) == self._kept:
                self._forget()
            self._examples[kind] = abridge(beginning, end)
        self._replies[kind] += 1

    def _forget(self) -> None:
        """Only what came again stays, and of that the half that came most."""
        self.forgot = True
        self._replies = Counter({kind: n for kind, n in self._replies.most_common(self._kept // 2) if n > 1})
        self._examples = {kind: self._examples[kind] for kind in self._replies}

    def most(self, number: int) -> list[tuple[str, int, str | None]]:
        """(reason, replies, example), commonest first; among equals those of different reasons come first."""
        equals = Counter[tuple[str, int]]()
        ranked = []
        for place, (kind, n) in enumerate(self._replies.items()):
            equals[kind[0], n] += 1
            ranked.append((-n, equals[kind[0], n], place, kind))
        return [(kind[0], -negative, self._examples[kind]) for negative, _, _, kind in sorted(ranked)[:number]]


def top_examples(
    rows: Iterable[tuple[str, str, str, str | None, str | None]], kept: int = KEPT
) -> list[MalformedExample]:
    """The commonest kinds of each judge × model. `rows`: judge, model, reading, and the reply's two ends."""
    of_judge_model: defaultdict[tuple[str, str], TopExamples] = defaultdict(lambda: TopExamples(kept))
    for judge, model, reading, beginning, end in rows:
        of_judge_model[judge, model].add(reading.partition(":")[2], beginning, end)
    return [
        MalformedExample(*key, reason, replies, counted.forgot, counted.total, example)
        for key, counted in of_judge_model.items()
        for reason, replies, example in counted.most(MOST)
    ]


def abridge(beginning: str | None, end: str | None) -> str | None:
    """A reply in `SHOWN` characters or little more, with all that is no plain character escaped."""
    text = _ends(beginning, end, SHOWN, SHOWN_END)
    if text is None:
        return None
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


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
