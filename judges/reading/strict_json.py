"""JSON by the letter: what Python's reader lets pass in silence is an error here.

Differing duplicates, NaN and Infinity, numbers that overflow to infinity, and nesting too deep to read are faults.
Identical duplicates are harmless and pass.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, NoReturn

from judges.outcome import Reason


class JsonFault(ValueError):
    """The text is not one strict JSON value; `reason` is the reason code."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def load(text: str, raw_controls: bool = False) -> Any:
    """The one JSON value that the whole text is; blanks around it do not matter.

    `raw_controls` lets strings hold line breaks and tabs as they are, which JSON wants escaped.
    """
    try:
        return json.loads(
            text.strip(),
            strict=not raw_controls,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
        )
    except JsonFault:
        raise
    except (ValueError, RecursionError) as error:
        raise JsonFault(Reason.NO_VERDICT, f"not JSON: {error}"[:120]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) < len(pairs):
        for key, value in pairs:
            # Not `!=`: to Python true and 1 are equal.
            if json.dumps(value) != json.dumps(whole[key]):
                raise JsonFault(Reason.DUPLICATE_KEY, f"the key {key!r} is given twice, with different values"[:120])
    return whole


def _constant(name: str) -> NoReturn:
    raise JsonFault(Reason.OTHER_VALUE, f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JsonFault(Reason.OUT_OF_RANGE, f"{text[:40]} is too large")
    if value.is_integer() and Decimal(text) != int(value):
        raise JsonFault(Reason.NOT_INT, f"{text[:40]} would be rounded")
    return value
