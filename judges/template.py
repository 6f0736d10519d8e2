"""Prompt templates: literal text with `{name}` places, filled in one pass.

A value that is put in is never looked at again, so `{}`, `{{7*7}}` or `{0.__class__}` in an answer reach the judge
model byte for byte. `{{` and `}}` in a template are literal braces; a lone brace is an error when the judge is loaded.

A batch is one template's blocks, numbered from 1. An item whose text opens a line as a block does could pass for its
neighbour: `Blocks` finds it, so that it is judged alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NUMBER = "number"
"""The place in a block's text that its number fills."""

_BETWEEN = "\n\n"
# What a reader, and a model, takes for the start of a line: any line break, then quotation or markdown marks.
_LINE_START = "(?:\\A|[\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029])[^\\w\\n]{0,12}"
_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: `literals` around and between the `names`, one more literal than names."""

    literals: tuple[str, ...]
    names: tuple[str, ...]

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with every place filled by the value of its name."""
        pieces = [self.literals[0]]
        for name, literal in zip(self.names, self.literals[1:], strict=True):
            pieces += (values[name], literal)
        return "".join(pieces)


def parse_template(text: str) -> Template:
    """Parse a template; ValueError names the line of a brace that is neither a place nor doubled."""
    literals: list[str] = []
    names: list[str] = []
    literal: list[str] = []
    end = 0
    for token in _TOKEN.finditer(text):
        literal.append(text[end : token.start()])
        end = token.end()
        if token[1]:
            literals.append("".join(literal))
            literal = []
            names.append(token[1])
        elif len(token[0]) == 2:
            literal.append(token[0][0])
        else:
            line = text.count("\n", 0, token.start()) + 1
            raise ValueError(
                f"line {line} of the template holds a lone {token[0]!r}: write {token[0] * 2!r} for a literal brace, "
                "or {name} with a plain name for a field"
            )
    literal.append(text[end:])
    literals.append("".join(literal))
    return Template(tuple(literals), tuple(names))


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

    def has_block_marker(self, texts: Iterable[str]) -> bool:
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
