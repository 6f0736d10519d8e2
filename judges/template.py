"""Prompt templates: literal text with `{name}` places, filled in one pass.

A value that is put in is never looked at again, so `{}`, `{{7*7}}` or `{0.__class__}` in an answer reach the judge
model byte for byte. `{{` and `}}` in a template are literal braces; a lone brace is an error when the judge is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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
