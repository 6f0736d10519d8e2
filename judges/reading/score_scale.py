"""One score as a judge may write it, and whether it lies on the scale that was asked for.

Hides the shapes of a single number: digits, a number word, a fraction or `out of` with the scale's own end below the
line, each in quotes or markdown. A number is taken as it stands or not at all: nothing is rounded, clamped or rescaled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..outcome import Malformed, Reason
from .clean import inner

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_CANONICAL = re.compile(r"-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{0,5}[1-9])?")
_NUMBER = re.compile(r"(?!-0(?:\.0+)?$)-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,6})?")
_FRACTION = re.compile(r"(\S+?)(?:[ \t]{0,3}/[ \t]{0,3}|[ \t]{1,3}out[ \t]{1,3}of[ \t]{1,3})(\S+)", re.I)
_RANGE = re.compile(r"[0-9][0-9.]{0,9}[ \t]{0,3}[-–—~][ \t]{0,3}[0-9][0-9.]{0,9}")
_LONGEST = 120


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
        text = text.strip() if bare else bared(text)
        for suffix in self.suffixes:
            text = text.removesuffix(suffix).rstrip()
        if fraction := None if bare else _FRACTION.fullmatch(text):
            return self._fraction(fraction[1], fraction[2])
        if text.lower() in WORDS:
            found = self._on(Decimal(WORDS.index(text.lower())))
            return Score(found.value, "number_word") if isinstance(found, Score) else found
        if not _NUMBER.fullmatch(text):
            if text.endswith("%") and _NUMBER.fullmatch(text[:-1].rstrip()):
                return Malformed(Reason.OTHER_SCALE, f"{text[:40]!r} is a percentage")
            if _RANGE.fullmatch(text):
                return Malformed(Reason.OTHER_VALUE, f"{text[:40]!r} is a range")
            return Malformed(Reason.OTHER_VALUE, f"{text[:40]!r} is no score")
        found = self._on(Decimal(text))
        if isinstance(found, Score) and "." in text and not _CANONICAL.fullmatch(text):
            return Score(found.value, "integral_float" if self.whole else "")
        return found

    def of_json(self, value: Any) -> Score | Malformed:
        """The score that a JSON value is: a number, or a text that holds one."""
        if isinstance(value, str):
            return self.score(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Malformed(Reason.OTHER_VALUE, f"a value of the type {type(value).__name__} is no score")
        found = self._on(Decimal(str(value)))
        if isinstance(found, Score) and isinstance(value, float) and self.whole:
            return Score(found.value, "integral_float")
        return found

    def _fraction(self, above: str, below: str) -> Score | Malformed:
        if not _NUMBER.fullmatch(below) and below.lower() not in WORDS:
            return Malformed(Reason.OTHER_VALUE, f"{below[:40]!r} is no number")
        whole = Decimal(WORDS.index(below.lower())) if below.lower() in WORDS else Decimal(below)
        if whole != self.high:
            return Malformed(Reason.OTHER_SCALE, f"of {below[:40]}, where {self.high} is the most")
        found = self.score(above)
        if isinstance(found, Score):
            return Score(found.value, "fraction")
        return found

    def _on(self, number: Decimal) -> Score | Malformed:
        if not self.low <= number <= self.high:
            return Malformed(Reason.OUT_OF_RANGE, f"{str(number)[:40]} is not from {self.low} to {self.high}")
        if (number - self.low) % self.step:
            reason = Reason.NOT_INT if self.whole and number % 1 else Reason.OTHER_VALUE
            return Malformed(reason, f"{str(number)[:40]} is not a step of {self.step} from {self.low}")
        return Score(int(number) if self.whole else float(number))


def bared(text: str) -> str:
    """The text out of all its matched wrappers."""
    text = text.strip()
    if len(text) > _LONGEST:
        return text
    while (below := inner(text)) is not None:
        text = below
    return text
