"""One answer to be judged.

Field values keep the type and the bytes they had in the user's file; only `text_of` turns them into prompt text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CANONICAL_FIELDS = ("question", "reference", "response", "documents")

INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
"""Zero-width and bidi marks, BOM, soft hyphen."""
UNSEEN = INVISIBLE + "".join(map(chr, filter(lambda code: chr(code).isspace(), range(0x3001))))
"""What leaves no mark: these, and all blanks."""

LabelValue = bool | float | str


@dataclass(frozen=True, slots=True)
class Item:
    """An answer, what it is judged against, and whose it is. Identity is (system, id)."""

    id: str
    question_id: str
    system: str
    group: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, LabelValue] = field(default_factory=dict)

    @property
    def response_is_empty(self) -> bool:
        """True where the system answered nothing: null, missing, or nothing that is visible."""
        value = self.fields.get("response")
        return value is None or (isinstance(value, str) and is_blank_text(value))


def is_blank_text(text: str) -> bool:
    """Whether no character of it is visible."""
    return not text.strip(UNSEEN) if text[:1] in UNSEEN else False


def text_of(value: Any) -> str:
    """The prompt text of a field value: strings as they are, null as nothing, everything else as JSON writes it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False)
