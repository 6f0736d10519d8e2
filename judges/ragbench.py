"""The object that the judge `ragbench` asks for, as types: what its reply holds, for code that works with replies.

The judge itself is `library/ragbench.yaml`, whose JSON Schema is the one of these models.
"""

from pydantic import BaseModel, ConfigDict


class SentenceSupport(BaseModel):
    """Whether what the answer makes of one document sentence is supported."""

    model_config = ConfigDict(frozen=True, strict=True)

    sentence_key: str
    is_supported: bool
    explanation: str = ""
    """Asked for, but an entry without it can be read."""


class RagbenchReply(BaseModel):
    """A reply of the judge `ragbench`, where the text is the object alone: `RagbenchReply.model_validate_json(text)`.

    It takes what the judge reads strictly; in a run, the verdict is this without its two explanations.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    relevance_explanation: str
    all_relevant_sentence_keys: list[str]
    """Sentences needed to answer the question, by key."""
    overall_supported_explanation: str
    overall_supported: bool
    """Whether the documents support the answer as a whole."""
    sentence_support_information: list[SentenceSupport]
    all_utilized_sentence_keys: list[str]
    """Sentences that the answer uses, by key."""
