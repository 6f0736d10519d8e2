"""A reply's text to its outcome, by the kind of reading that the judge declares.

What all kinds share happens here, in this order: a refusal, a filter or a cut by the endpoint; the strict grammar; the
reasoning block cut off; the kind's tolerant grammar, in which a verdict counts only where it stands (`places`); a
refusal in words. What a judge's file says of its replies makes a `Reader` (`judges.reply_forms`).
"""

from dataclasses import replace

from ..outcome import Malformed, Reading, Reason, Refused, Reply, Scored
from .clean import after_reasoning, narrow, opens_like_a_refusal, refuses
from .objects import ObjectReader
from .places import Place, PlacedReader
from .reply_text import NO_ECHOES, Echoes

__all__ = ["Echoes", "Place", "Reader", "places_in", "read"]

Reader = PlacedReader | ObjectReader

_FILTERED = frozenset({"content_filter", "safety", "recitation", "prohibited_content", "blocklist"})
_CUT = frozenset(
    {"length", "max_tokens", "model_length", "abort", "aborted", "error", "cancelled", "insufficient_system_resource"}
)

_LONGEST = 200_000
"""A longer answer is read by the strict grammar only."""


def read(reads: Reader, reply: Reply, echoes: Echoes = NO_ECHOES) -> Reading:
    """What the reply says, or why it says nothing. Never a guess.

    `echoes`: texts of the prompt and of the responses under judgment, which a reply may repeat.
    """
    finish = (reply.finish_reason or "").lower()
    if finish in _FILTERED:
        return Refused("content_filter")
    if reply.refusal:
        return Refused("model", _excerpt(reply.refusal))
    text = reply.text or ""
    cut = finish in _CUT
    if not text.strip():
        if cut:
            return Malformed(Reason.TRUNCATED, f"finish_reason {finish}")
        return Malformed(Reason.NOTHING_AFTER_REASONING if reply.reasoning else Reason.EMPTY)
    if (whole := reads.strict(text)) and (not cut or isinstance(reads, ObjectReader)):
        return whole
    answer = after_reasoning(text)
    if isinstance(answer, Reason):
        return Malformed(Reason.TRUNCATED if cut else answer)
    if len(answer) > _LONGEST:
        return Malformed(Reason.NO_VERDICT, f"longer than {_LONGEST} characters, and not as asked")
    narrowed = narrow(answer)
    if not narrowed.strip():
        return Malformed(Reason.EMPTY)
    echoes = echoes.judging(reply.judged)
    if cut:
        # A blank or line end behind the last word shows that the word is whole.
        whole = reads.strict(answer) if isinstance(reads, ObjectReader) else None
        reading = whole or reads.read_cut(narrowed + answer[len(answer.rstrip()) :][:1], echoes)
        reading = reading if isinstance(reading, Scored) else Malformed(Reason.TRUNCATED, f"finish_reason {finish}")
    else:
        reading = reads.strict(answer) or reads.tolerant(narrowed, echoes)
    reading = _with_refusal(reading, answer)
    if answer == text or not isinstance(reading, Scored):
        return reading
    notes = (*reading.provenance.notes, "reasoning_cut")
    return replace(reading, provenance=replace(reading.provenance, notes=notes))


def places_in(reads: Reader, reply: Reply, echoes: Echoes = NO_ECHOES) -> list[Place]:
    """Every place of the reply in which a verdict stands, in the order of the text."""
    answer = after_reasoning(reply.text or "")
    if isinstance(answer, Reason) or len(answer) > _LONGEST:
        return []
    return reads.places(narrow(answer), echoes.judging(reply.judged))


def _with_refusal(reading: Reading, answer: str) -> Reading:
    """The reading, or a refusal in words where nothing but the reply's first word could be a verdict."""
    if isinstance(reading, Scored) and not reading.provenance.stage.startswith("tolerant:lead"):
        return reading
    if isinstance(reading, Malformed) and reading.reason == Reason.TRUNCATED:
        return reading
    if refuses(answer):
        return Refused("model", _excerpt(answer))
    if isinstance(reading, Malformed) and reading.reason == Reason.NO_VERDICT and opens_like_a_refusal(answer):
        return Malformed(Reason.REFUSAL_LIKE, _excerpt(answer))
    return reading


def _excerpt(text: str) -> str:
    """The start of a text, fit to be stored: a lone surrogate in it is replaced."""
    return text.strip()[:500].encode("utf-8", "replace").decode()
