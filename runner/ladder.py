"""What is done after a reply that gave no score: asked again, halved, or left as it is. A value, without any I/O.

Hides the budgets of the ladder: how often a malformed reply is judged afresh, how often a refusal is taken to the judge
again, and that a batch never ends without scores before each of its trials was asked alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from judges import Failed, Malformed, Outcome, Reason, Refused

from .config import Retry
from .protocol import History


@dataclass(frozen=True, slots=True)
class Again:
    """The trials go out again: why they wait, and what their history says from now on."""

    why: str
    malformed: int
    refused: int
    depth: int

    def after(self, history: History) -> History:
        """A trial's history with this step in it."""
        return replace(history, malformed=self.malformed, refused=self.refused, depth=self.depth)


def again(outcome: Outcome, history: History, retry: Retry, batched: bool) -> Again | None:
    """The next step after an outcome without a score; None: it stands.

    `batched`: the request asked about several trials. Such a request is halved at once where the count of its scores is
    wrong or a filter stopped it (the same text would be stopped again), and else when its own budgets are used up; a
    half is a request of its own, with budgets of its own.
    """
    halved = Again("halved", 0, 0, history.depth + 1) if batched else None
    match outcome:
        case Malformed(Reason.COUNT) if halved:
            return halved
        case Malformed() if history.malformed < retry.rejudge:
            return Again("malformed", history.malformed + 1, history.refused, history.depth)
        case Refused("content_filter"):
            # A filter would stop the same text again: it is not bought twice.
            return halved
        case Refused() if history.refused < retry.refused:
            return Again("refused", history.malformed, history.refused + 1, history.depth)
        case Malformed() | Refused() | Failed():
            return halved
    return None
