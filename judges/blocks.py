"""Several items in one request: numbered blocks under one instruction, and what in an item could pass for a block.

Hides how blocks are numbered and joined, and how the text that opens a part of a block is recognized inside an item's
own text: such an item could pass off its text as a neighbour's block, so it is judged alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .template import Template

NUMBER = "number"
"""The place in a block's text that its number fills."""

_BETWEEN = "\n\n"
# What a reader, and a model, takes for the start of a line: any line break, then quotation or markdown marks.
_LINE_START = "(?:\\A|[\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029])[^\\w\\n]{0,12}"


class Blocks:
    """The numbered blocks of a template."""

    def __init__(self, block: Template) -> None:
        self._block = block
        self._marker = _marker(block)

    def join(self, values: Sequence[Mapping[str, str]]) -> str:
        """The blocks of some items, numbered from 1, a blank line between them."""
        return _BETWEEN.join(
            self._block.fill({**each, NUMBER: str(number)}) for number, each in enumerate(values, start=1)
        )

    def marked(self, texts: Iterable[str]) -> bool:
        """Whether a line of one of these texts begins as a part of a block does."""
        return self._marker is not None and any(self._marker.search(text) for text in texts)


def _marker(block: Template) -> re.Pattern[str] | None:
    """What opens the lines of a block: the literal before the first value in each, the number being any number."""
    openings = []
    opening = ""
    is_open = True
    for literal, name in zip(block.literals, (*block.names, None), strict=True):
        before, *lines = literal.split("\n")
        if is_open:
            opening += _pattern(before)
        for line in lines:
            opening, is_open = _pattern(line), True
        if name == NUMBER and is_open:
            opening += r"\s{0,3}\d{1,9}"
        elif name is not None and is_open:
            if opening:
                openings.append(opening)
            is_open = False
    return re.compile(_LINE_START + "(?:" + "|".join(openings) + ")", re.IGNORECASE) if openings else None


def _pattern(literal: str) -> str:
    words = [re.escape(word) for word in literal.split()]
    return r"\s{0,3}".join(words).replace(":", r"\s{0,3}[:：]") if words else ""
