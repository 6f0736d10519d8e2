"""Replies that are one of a few words, labels or declared phrases: their grammar, and what their two kinds share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import folded, plain, unwrap
from .json_text import load
from .places import Grammar, PlacedReader
from .reply_text import RESERVED

_REASON = re.compile(r"\s*(?:\Z|[^\w\s]|(?:because|since|as|for|due)\b)", re.I)
"""What stands behind a declared phrase that opens a sentence."""
_DENIES = re.compile(r"\b(?:not|no|cannot|never|neither|nor|if|unless|whether)\b|n['’]t\b", re.I)
_CONDITION = re.compile(r"(?:\A|,)\s*(?:if|unless|whether)\b", re.I)
_ASKS = re.compile(r"[\s\"”’*)]*[?？]")


def _any_of(texts: tuple[str, ...]) -> str:
    escaped = (re.sub(r"(?:\\ )+", r"\\s+", re.escape(plain(text).strip())) for text in texts)
    # One letter only in its own case: `a` is an article.
    return "|".join(f"(?-i:{text})" if len(text) < 2 else text for text in sorted(escaped, key=len, reverse=True))


@dataclass(frozen=True)
class Words(Grammar):
    """The grammar of replies that are one of a few words or labels."""

    values: dict[str, Any]
    """Literal → verdict."""
    labels: tuple[str, ...] = RESERVED
    phrases: dict[str, Any] = field(default_factory=dict)
    """Declared phrase → verdict."""
    lead_colon: bool = True
    """Whether `X:` may open a reply; where answers have names, `A: …` is about one of them."""

    @cached_property
    def _by_text(self) -> dict[str, Any]:
        return {_key(text): value for text, value in self.values.items()}

    @cached_property
    def _literal(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\w)(?:{_any_of(tuple(self.values))})(?!\w)", re.I)

    @cached_property
    def _opening(self) -> re.Pattern[str]:
        return re.compile(
            rf"[\[(\"“'‘]{{0,2}}(?P<literal>{_any_of(tuple(self.values))})(?P<closing>[\])\"”'’]{{0,2}})"
            r"(?P<end>\s*\Z|\s*\n|\.(?=[\s\"”'’*_)]|\Z)(?!\s?\d)|[,;!。，；！](?!\d)|\s*:|\s?[—–]|\s+[-(（])",
            re.I,
        )

    @cached_property
    def _phrase(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\w)(?:{_any_of(tuple(self.phrases))})(?!\w)", re.I)

    @cached_property
    def _by_phrase(self) -> dict[str, Any]:
        return {folded(plain(text)): value for text, value in self.phrases.items()}

    @cached_property
    def _longest(self) -> int:
        """A longer text is no literal, whatever wraps it."""
        return max(map(len, self._by_text)) + 60

    def whole(self, text: str) -> Any:
        """The verdict whose literal the text is, out of its wrappers."""
        keys = map(_key, unwrap(text)) if len(text) <= self._longest else ()
        return next((self._by_text[key] for key in keys if key in self._by_text), None)

    def opening(self, text: str, lead: bool) -> tuple[Any, str] | None:
        """The verdict that the text opens with, with punctuation or the text's end behind it."""
        match = self._opening.match(text)
        if match is None or (lead and (match.start("literal") or match["closing"])):
            return None
        if match["end"].strip() == ":" and not (lead and self.lead_colon):
            return None
        value = self._by_text.get(_key(match["literal"]))
        return None if value is None else (value, text[match.start("end") :])

    def without_literals(self, text: str) -> str:
        """The text with its literals taken out, wherever they stand."""
        return self._literal.sub(" ", text)

    def phrase(self, sentence: str) -> Any:
        """The verdict of a declared phrase that opens or ends the sentence, not denied, conditional or asked."""
        for match in self._phrase.finditer(sentence) if self.phrases else ():
            ahead, behind = sentence[: match.start()], sentence[match.end() :]
            clause = ahead.rpartition(",")[2]
            opens = not clause.strip() and _REASON.match(behind) is not None
            ends = not re.search(r"\w", behind) and not _DENIES.search(clause)
            if (opens or ends) and not _CONDITION.search(ahead) and not _ASKS.match(behind):
                return self._by_phrase[folded(match[0])]
        return None


def _key(text: str) -> str:
    return " ".join(text.replace("_", " ").split()).casefold()


class WordReader(PlacedReader):
    """What the readings of one word have in common; each gives its strict form."""

    if TYPE_CHECKING:
        verdict: str

    def whole(self, text: str) -> Reading | None:
        """The word that the text is, or that an object of one known key holds."""
        found = self.grammar.whole(text)
        if found is not None:
            return self.scored(found, "tolerant:whole")
        if not text.startswith("{"):
            return None
        value = load(text)
        if isinstance(value, Malformed):
            return value
        (key, word) = next(iter(value.items())) if len(value) == 1 else ("", None)
        if not isinstance(word, str) or folded(key) not in map(folded, self.grammar.labels):
            return Malformed(Reason.NO_VERDICT, "an object without one word under a known key")
        found = self.grammar.whole(word)
        if found is None:
            return Malformed(Reason.OTHER_VALUE, f"{word[:60]!r} is none of the words asked for")
        return self.scored(found, "tolerant:object")

    def scored(self, value: Any, stage: str, *notes: str) -> Scored:
        """The outcome of a word."""
        return Scored({self.verdict: value}, Provenance(stage, notes))
