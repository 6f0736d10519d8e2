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
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def _bared(text: str) -> str:
    """The text out of all its matched wrappers."""
    text = text.strip()
    while len(text) <= _LONGEST and (below := inner(text)) is not None:
        text = below
    return text
