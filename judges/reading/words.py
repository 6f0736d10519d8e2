"""The grammar of replies that are one of a few words, labels or declared phrases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..outcome import Malformed
from .clean import folded, plain, unwrap
from .places import Place
from .reply_text import RESERVED, ReplyText

_CONCLUDES = re.compile(
    r"(?:therefore|thus|hence|so|overall|finally|accordingly|based[ \t]+on|in[ \t]+(?:conclusion|summary))\b", re.I
)
"""How a sentence opens in which a declared phrase may stand behind a comma."""


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
