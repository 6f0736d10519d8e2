"""One answer to be judged.

Field values keep the type and the bytes they had in the user's file; only `text_of` turns them into prompt text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CANONICAL_FIELDS = ("question", "reference", "response", "documents")

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
        """True where the system answered nothing: null, missing, or only white space."""
        value = self.fields.get("response")
        return value is None or (isinstance(value, str) and not value.strip())


def text_of(value: Any) -> str:
    """The prompt text of a field value: strings as they are, null as nothing, everything else as JSON writes it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False)
