"""The form of a judge's reply as an endpoint can be made to keep it: a JSON Schema, a list of choices or a pattern.

One of the three, by the kind of reading. What comes back is read like any other reply all the same.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .outcome import Malformed
from .reading.json_text import load
from .reply_forms import AnyReads, ChoiceReads, ObjectReads, ScoresReads
from .response_schema import fault

_MOST_VALUES = 101
"""A scale of more values is given as numbers of any size."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """Exactly one of the three is set."""

    schema: dict[str, Any] | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None

    def met_by(self, text: str | None) -> bool:
        """Whether a reply has this form."""
        if text is None:
            return False
        if self.choices:
            return text.strip() in self.choices
        if self.pattern is not None:
            return re.fullmatch(self.pattern, text.strip()) is not None
        value = load(text)
        return self.schema is not None and not isinstance(value, Malformed) and fault(self.schema, value) is None


def constraint_of(reads: AnyReads, count: int = 1) -> Constraint:
    """The form of a reply that is read strictly. `count`: the items that a list of scores is about."""
    if isinstance(reads, ObjectReads):
        return Constraint(schema=reads.response_schema())
    if isinstance(reads, ChoiceReads):
        return Constraint(choices=tuple(reads.labels))
    if isinstance(reads, ScoresReads):
        one = _number(reads)
        more = count if reads.names is None else len(reads.names)
        return Constraint(pattern=one if more == 1 else f"{one}(,{one}){{{more - 1}}}")
    return Constraint(choices=("yes", "no"))


def _number(reads: ScoresReads) -> str:
    low, high, step = (Decimal(str(end)) for end in (reads.low, reads.high, reads.step))
    if (high - low) / step < _MOST_VALUES:
        values = [low + step * place for place in range(int((high - low) / step) + 1)]
        # The longer first: an engine that takes the first that fits must not stop at the 1 of 10.
        written = sorted((f"{_to_text(value)}" for value in values), key=lambda text: (-len(text), text))
        return f"({'|'.join(re.escape(text) for text in written)})".replace("\\-", "-")
    sign = "-?" if low < 0 else ""
    fraction = "" if step % 1 == 0 and low % 1 == 0 else r"(\.[0-9]{0,5}[1-9])?"
    return f"({sign}(0|[1-9][0-9]{{0,8}}){fraction})"


def _to_text(value: Decimal) -> str:
    return f"{value.normalize():f}"
