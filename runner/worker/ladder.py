"""What is done after a reply that gave no score: asked again, halved, or nothing, so that it stands. No I/O.

Hides the budgets of the ladder: how often a malformed reply is judged afresh, how often a refusal is taken to the judge
again, and that a batch never ends without scores before each of its trials was sent alone.
"""

from dataclasses import dataclass, replace

from judges import Failed, Malformed, Outcome, Reason, Refused, Sampling
from runner.config import Retry
from runner.messages import TrialProgress

CUT = (Reason.TRUNCATED, Reason.REASONING_UNCLOSED)
"""A reply that ended too early; of a reasoning left open that is the cause, whatever the endpoint says."""
MOST_DOUBLINGS = 3
"""How often `max_tokens` is doubled at most: to eight times what the sampling says."""
RETRY_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class NextStep:
    """The trials go out again: why they wait, and what their history says from now on."""

    why: str
    malformed: int
    refused: int
    depth: int
    cut: int = 0

    def after(self, history: TrialProgress) -> TrialProgress:
        """A trial's history with this step in it. A half that was never sent alone has its whole budget before it."""
        parked = 0 if self.depth > history.depth else history.parked
        return replace(
            history, malformed=self.malformed, refused=self.refused, depth=self.depth, cut=self.cut, parked=parked
        )


def next_step(outcome: Outcome, history: TrialProgress, retry: Retry, batched: bool) -> NextStep | None:
    """The next step after an outcome without a score; None: it stands.

    `batched`: the request carried several trials. Such a request is halved at once where the count of its scores is
    wrong or a filter stopped it (the same text would be stopped again), and else when its own budgets are used up; a
    half is a request of its own, with budgets of its own.
    """
    was_cut = isinstance(outcome, Malformed) and outcome.reason in CUT
    cut = min(history.cut + was_cut, MOST_DOUBLINGS)
    halved = NextStep("halved", 0, 0, history.depth + 1, cut) if batched else None
    match outcome:
        case Malformed(Reason.COUNT) if halved:
            return halved
        case Malformed() if history.malformed < retry.rejudge:
            return NextStep("malformed", history.malformed + 1, history.refused, history.depth, cut)
        case Refused("content_filter"):
            # A filter would stop the same text again: it is not bought twice.
            return halved
        case Refused() if history.refused < retry.refused:
            return NextStep("refused", history.malformed, history.refused + 1, history.depth, cut)
        case Malformed() | Refused() | Failed():
            return halved
    return None


def next_sampling(sampling: Sampling, history: TrialProgress) -> dict[str, int]:
    """What a fresh request is sampled with in place of what the judge, the model and the config say.

    A new seed where one is set, since the same would bring the same reply; more tokens where a reply was cut.
    """
    changed = {}
    if history.cut and sampling.max_tokens is not None:
        changed["max_tokens"] = sampling.max_tokens * 2 ** min(history.cut, MOST_DOUBLINGS)
    earlier = history.malformed + history.refused + RETRY_SEEDS * history.retry
    if earlier and sampling.seed is not None:
        changed["seed"] = sampling.seed + earlier
    return changed
