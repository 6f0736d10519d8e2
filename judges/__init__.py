"""What to ask a judge model and how to read its reply. Pure: no network, no clock, no file but judges' YAML."""

from __future__ import annotations

from .condition import Condition
from .document import JudgeError
from .item import Item, text_of
from .judge import Judge
from .load import library_names, load_judge, parse_judge
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
from .ragbench import RagbenchReply, SentenceSupport
from .sampling import Sampling
from .scoring import Scale
from .spec import MAX_BATCH

__all__ = [
    "MAX_BATCH",
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
    "RagbenchReply",
    "Reading",
    "Reason",
    "Refused",
    "Reply",
    "Sampling",
    "Scale",
    "Scored",
    "SentenceSupport",
    "library_names",
    "load_judge",
    "parse_judge",
    "text_of",
]
