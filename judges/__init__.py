"""What to ask a judge model and how to read its reply. Pure: no network, no clock, no file but judges' YAML."""

from .condition import Condition
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
    reason_of,
)
from .output_constraint import Constraint, constraint_of
from .ragbench import RagbenchReply, SentenceSupport
from .reformat import Reformat, reformat_of, text_to_copy_from
from .sampling import Sampling
from .scoring import Scale
from .spec import MAX_BATCH
from .strict_form import strict_form_request
from .strict_yaml import JudgeError

__all__ = [
    "MAX_BATCH",
    "PARSER_VERSION",
    "STATES",
    "Condition",
    "Constraint",
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
    "Reformat",
    "Refused",
    "Reply",
    "Sampling",
    "Scale",
    "Scored",
    "SentenceSupport",
    "constraint_of",
    "library_names",
    "load_judge",
    "parse_judge",
    "reason_of",
    "reformat_of",
    "strict_form_request",
    "text_of",
    "text_to_copy_from",
]
