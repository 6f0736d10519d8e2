"""A reply's text to its outcome, by the kind of reading that the judge declares.

What all kinds share happens here, in this order: a refusal, a filter or a cut by the endpoint; the strict grammar; the
reasoning block cut off; a refusal in words; the kind's tolerant grammar. A kind is a pydantic model with `strict`,
`complete`, `tolerant`, `verdict_types` and `response_schema`; adding one is a new file and its name in `Reads`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ..outcome import Malformed, Reading, Reason, Refused, Reply, Scored
from .choice import ChoiceReads
from .clean import after_reasoning, narrow, opens_like_a_refusal, refuses
from .objects import ObjectReads
from .scores import ScoresReads
from .yesno import YesnoReads

__all__ = ["AnyReads", "ChoiceReads", "ObjectReads", "Reads", "ScoresReads", "YesnoReads", "read"]

AnyReads = YesnoReads | ObjectReads | ScoresReads | ChoiceReads
Reads = Annotated[AnyReads, Field(discriminator="kind")]

_FILTERED = frozenset({"content_filter", "safety", "recitation", "prohibited_content", "blocklist"})
_CUT = frozenset(
    {"length", "max_tokens", "model_length", "abort", "aborted", "error", "cancelled", "insufficient_system_resource"}
)

_LONGEST = 200_000
"""A longer answer is read by the strict grammar only."""


def read(reads: AnyReads, reply: Reply) -> Reading:
    """What the reply says, or why it says nothing. Never a guess."""
    finish = (reply.finish_reason or "").lower()
    if finish in _FILTERED:
        return Refused("content_filter")
    if reply.refusal:
        return Refused("model", _shown(reply.refusal))
    text = reply.text or ""
    answer = after_reasoning(text)
    if finish in _CUT:
        whole = reads.complete(text) or (None if isinstance(answer, Reason) else reads.complete(answer))
        return whole or Malformed(Reason.TRUNCATED, f"finish_reason {finish}")
    if not text.strip():
        return Malformed(Reason.NOTHING_AFTER_REASONING if reply.reasoning else Reason.EMPTY)
    if whole := reads.strict(text):
        return whole
    if isinstance(answer, Reason):
        return Malformed(answer)
    if refuses(answer):
        return Refused("model", _shown(answer))
    if len(answer) > _LONGEST:
        return Malformed(Reason.NO_VERDICT, f"longer than {_LONGEST} characters, and not as asked")
    narrowed = narrow(answer)
    if not narrowed.strip():
        return Malformed(Reason.EMPTY)
    notes = () if answer == text else ("reasoning_cut",)
    reading: Reading = reads.strict(answer) or reads.tolerant(narrowed)
    if isinstance(reading, Malformed) and reading.reason == Reason.NO_VERDICT and opens_like_a_refusal(answer):
        return Malformed(Reason.REFUSAL_LIKE, _shown(answer))
    if notes and isinstance(reading, Scored):
        return replace(reading, provenance=replace(reading.provenance, notes=(*reading.provenance.notes, *notes)))
    return reading


def _shown(text: str) -> str:
    """The start of a text, fit to be stored: a lone surrogate in it is replaced."""
    return text.strip()[:500].encode("utf-8", "replace").decode()
