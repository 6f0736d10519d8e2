"""What can become of a trial: a closed sum type. A failure is a value here, never a score and never a hole."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PARSER_VERSION = "3"
"""Version of everything in `judges.reading`; changes whenever some reply may be read differently."""


class Reason(StrEnum):
    """Why a reply is no verdict (shared reason codes of the readers)."""

    TRUNCATED = "truncated"
    REASONING_UNCLOSED = "reasoning_unclosed"
    NOTHING_AFTER_REASONING = "nothing_after_reasoning"
    EMPTY = "empty"
    NO_VERDICT = "no_verdict"
    CONFLICT = "conflict"
    AMBIGUOUS_MULTIPLE = "ambiguous_multiple"
    AMBIGUOUS_FIELD = "ambiguous_field"
    READINGS_DIFFER = "readings_differ"
    UNBALANCED = "unbalanced"
    DUPLICATE_KEY = "duplicate_key"
    FIELD_MISSING = "field_missing"
    NOT_INT = "not_int"
    OUT_OF_RANGE = "out_of_range"
    OTHER_SCALE = "other_scale"
    COUNT = "count"
    LABELS = "labels"
    OTHER_VALUE = "other_value"
    SCHEMA_ECHO = "schema_echo"
    REFUSAL_LIKE = "refusal_like"


@dataclass(frozen=True, slots=True)
class Reply:
    """A judge's reply as the endpoint gave it."""

    text: str | None
    finish_reason: str | None = "stop"
    refusal: str | None = None
    reasoning: str | None = None
    judged: tuple[str, ...] = ()
    """The responses under judgment: a line of theirs that the reply repeats is a quotation."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a verdict was read: `strict`, `tolerant:<rule>`, `empty`, `rejudge:<k>`, …, and every coercion made."""

    stage: str
    notes: tuple[str, ...] = ()
    parser_version: str = PARSER_VERSION


@dataclass(frozen=True, slots=True)
class Scored:
    """The reply was read: `verdict` is typed data, such as `{"correct": True}`."""

    verdict: Mapping[str, Any]
    provenance: Provenance

    state = "scored"


@dataclass(frozen=True, slots=True)
class Malformed:
    """The reply could not be read."""

    reason: Reason
    detail: str = ""

    state = "malformed"


@dataclass(frozen=True, slots=True)
class Refused:
    """The judge declined to judge, or a content filter stopped it (`by`: model, content_filter)."""

    by: str
    detail: str = ""

    state = "refused"


@dataclass(frozen=True, slots=True)
class Failed:
    """The request can never work (`kind` names why), or kept failing while others succeeded (`exhausted`)."""

    kind: str
    detail: str = ""

    state = "failed"


@dataclass(frozen=True, slots=True)
class Poisoned:
    """Judging this trial alone kills the worker (`by`: crash, hang)."""

    by: str = "crash"
    detail: str = ""

    state = "poisoned"


Reading = Scored | Malformed | Refused
"""What a reply alone can be read as."""

Outcome = Scored | Malformed | Refused | Failed | Poisoned
"""What a trial can end as."""

STATES = ("scored", "malformed", "refused", "failed", "poisoned")


def reason_of(outcome: Outcome) -> str | None:
    """The code of why there is no score; None where there is one."""
    match outcome:
        case Malformed(code, _):
            return code.value
        case Refused(by, _) | Poisoned(by, _):
            return by
        case Failed(kind, _):
            return kind
        case Scored():
            return None
