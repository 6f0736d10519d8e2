"""What to ask a judge model and how to read its reply. Pure: no network, no clock, no file but judges' YAML."""

from __future__ import annotations

from .condition import Condition
from .document import JudgeError
from .item import Item, text_of
from .judge import Judge, library_names, load_judge, parse_judge
from .outcome import (
    PARSER_VERSION,
    STATES,
    Failed,
    Malformed,
    Outcome,
    Poisoned,
    Provenance,
    Reading,
    Reason,
    Refused,
    Reply,
    Scored,
)
from .sampling import Sampling

__all__ = [
    "PARSER_VERSION",
    "STATES",
    "Condition",
    "Failed",
    "Item",
    "Judge",
    "JudgeError",
    "Malformed",
    "Outcome",
    "Poisoned",
    "Provenance",
    "Reading",
    "Reason",
    "Refused",
    "Reply",
    "Sampling",
    "Scored",
    "library_names",
    "load_judge",
    "parse_judge",
    "text_of",
]
