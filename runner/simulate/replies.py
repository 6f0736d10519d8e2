"""What the endpoint says where nothing goes wrong: the verdict, in the form that was asked for.

Everything here is a function of its arguments, so that a prompt is answered the same way every time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import orjson

from .objects import filled, pick, reason
from .verdicts import Verdict
from .wanted import Wanted

_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?")
_SAYS_TRUE = re.compile(r"\b(?:correct|overall_supported)[\"']?\s?[:=]\s?true\b")
_MIDDLE = 2.5


class NoScore(Exception):
    """A reply that was recorded for a block is no number, so that no list can be made of it."""


def sound_reply(wanted: Wanted, verdicts: Sequence[Verdict], prompt: str = "") -> str:
    """A reply that says the verdicts: of a batch one for each block, of several scores one for each, else the first."""
    form, verdict = wanted.form, verdicts[0]
    if form.kind == "object":
        return orjson.dumps(filled(form.schema or {}, verdicts, prompt)).decode()
    if form.labels:
        return str(pick(form.labels, verdict))
    if form.kind == "scores":
        given = verdicts if len(verdicts) == wanted.scores else [verdict] * wanted.scores
        return form.separator.join(str(said.score(form.low, form.high)) for said in given)
    if form.kind == "line":
        return f"{reason(verdict)}\ncorrect={'true' if verdict.yes else 'false'}"
    return "yes" if verdict.yes else "no"


def composed(wanted: Wanted, recorded: Sequence[str | bool]) -> str:
    """The list of a batch, out of what was recorded for each of its blocks; a lone block's words stay as they are."""
    form = wanted.form
    scores = [str(Verdict(said).score(form.low, form.high)) if isinstance(said, bool) else said for said in recorded]
    if len(scores) == 1:
        return scores[0]
    for said in scores:
        if not _NUMBER.fullmatch(said.strip()):
            raise NoScore(f"the reply that is recorded for a block is no number: {said[:80]!r}")
    return form.separator.join(said.strip() for said in scores)


def said_yes(reply: str) -> bool:
    """Whether a recorded reply says yes, as far as faults that depend on the verdict need to know."""
    text = reply.strip().lower()
    if _NUMBER.fullmatch(text):
        return float(text) > _MIDDLE
    return text.startswith("yes") or _SAYS_TRUE.search(text) is not None
