"""Verdicts made up from texts: the same for the same text, whatever else is going on.

Hides how a verdict is drawn, and where on a scale it lies: a yes is above the middle, a no is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on one item."""

    yes: bool
    clearly: float = 1.0
    """From 0 to 1: how far from the middle of a scale, towards the end that `yes` names."""

    def score(self, low: int, high: int) -> int:
        """Its place on a scale of whole numbers."""
        levels = high - low + 1
        side = levels // 2 if self.yes else levels - levels // 2
        inwards = max(0, min(int((1 - self.clearly) * side), side - 1))
        return high - inwards if self.yes else low + inwards


def drawn(seed: int, yes: float, text: str) -> Verdict:
    """The verdict on a text, where a share `yes` of all texts is to get a yes."""
    digest = blake2b(text.encode(), digest_size=8, salt=b"verdict", key=b"%d" % seed).digest()
    point, bound = int.from_bytes(digest, "big"), yes * 2**64
    if point < bound:
        return Verdict(True, 1 - point / bound)
    return Verdict(False, (point - bound) / (2**64 - bound))
