"""What is done after a reply without a score, as a table."""

from __future__ import annotations

import pytest

from judges import Failed, Malformed, Outcome, Poisoned, Reason, Refused
from runner.config import Retry
from runner.ladder import Again, again
from runner.protocol import History

RETRY = Retry(rejudge=2, refused=1)
NO_VERDICT = Malformed(Reason.NO_VERDICT)
COUNT = Malformed(Reason.COUNT)


@pytest.mark.parametrize(
    ("outcome", "history", "batched", "step"),
    [
        (NO_VERDICT, History(), False, Again("malformed", 1, 0, 0)),
        (NO_VERDICT, History(malformed=1, refused=1), False, Again("malformed", 2, 1, 0)),
        (NO_VERDICT, History(malformed=2), False, None),
        (COUNT, History(), False, Again("malformed", 1, 0, 0)),
        (Refused("model"), History(), False, Again("refused", 0, 1, 0)),
        (Refused("model"), History(refused=1), False, None),
        (Refused("content_filter"), History(), False, None),
        (Failed("bad_request"), History(), False, None),
        (Poisoned(), History(), False, None),
        # A batch is halved at once where its count is wrong, and before it is given up.
        (COUNT, History(), True, Again("halved", 0, 0, 1)),
        (COUNT, History(malformed=1, depth=2), True, Again("halved", 0, 0, 3)),
        (NO_VERDICT, History(depth=1), True, Again("malformed", 1, 0, 1)),
        (NO_VERDICT, History(malformed=2, depth=1), True, Again("halved", 0, 0, 2)),
        (Refused("model"), History(), True, Again("refused", 0, 1, 0)),
        (Refused("model"), History(refused=1), True, Again("halved", 0, 0, 1)),
        (Refused("content_filter"), History(), True, Again("halved", 0, 0, 1)),
        (Failed("bad_request"), History(), True, Again("halved", 0, 0, 1)),
    ],
)
def test_the_next_step(outcome: Outcome, history: History, batched: bool, step: Again | None) -> None:
    assert again(outcome, history, RETRY, batched) == step


def test_a_step_keeps_what_the_trial_has_cost_so_far() -> None:
    history = History(attempts=3, parked=1, official=True)
    assert Again("halved", 0, 0, 1).after(history) == History(attempts=3, parked=1, official=True, depth=1)
