"""What is done after a reply without a score, as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judges import Failed, Malformed, Outcome, Poisoned, Reason, Refused, Sampling
from runner.config import Retry
from runner.messages import TrialProgress
from runner.worker.ladder import NextStep, next_sampling, next_step

RETRY = Retry(rejudge=2, refused=1)
NO_VERDICT = Malformed(Reason.NO_VERDICT)
COUNT = Malformed(Reason.COUNT)


@pytest.mark.parametrize(
    ("outcome", "history", "batched", "step"),
    [
        (NO_VERDICT, TrialProgress(), False, NextStep("malformed", 1, 0, 0)),
        (NO_VERDICT, TrialProgress(malformed=1, refused=1), False, NextStep("malformed", 2, 1, 0)),
        (NO_VERDICT, TrialProgress(malformed=2), False, None),
        (COUNT, TrialProgress(), False, NextStep("malformed", 1, 0, 0)),
        (Refused("model"), TrialProgress(), False, NextStep("refused", 0, 1, 0)),
        (Refused("model"), TrialProgress(refused=1), False, None),
        (Refused("content_filter"), TrialProgress(), False, None),
        (Failed("bad_request"), TrialProgress(), False, None),
        (Poisoned(), TrialProgress(), False, None),
        # A batch is halved at once where its count is wrong, and before it is given up.
        (COUNT, TrialProgress(), True, NextStep("halved", 0, 0, 1)),
        (COUNT, TrialProgress(malformed=1, depth=2), True, NextStep("halved", 0, 0, 3)),
        (NO_VERDICT, TrialProgress(depth=1), True, NextStep("malformed", 1, 0, 1)),
        (NO_VERDICT, TrialProgress(malformed=2, depth=1), True, NextStep("halved", 0, 0, 2)),
        (Refused("model"), TrialProgress(), True, NextStep("refused", 0, 1, 0)),
        (Refused("model"), TrialProgress(refused=1), True, NextStep("halved", 0, 0, 1)),
        (Refused("content_filter"), TrialProgress(), True, NextStep("halved", 0, 0, 1)),
        (Failed("bad_request"), TrialProgress(), True, NextStep("halved", 0, 0, 1)),
    ],
)
def test_the_next_step(outcome: Outcome, history: TrialProgress, batched: bool, step: NextStep | None) -> None:
    assert next_step(outcome, history, RETRY, batched) == step


def test_a_step_keeps_what_the_trial_has_cost_so_far() -> None:
    history = TrialProgress(attempts=3, parked=1, official=True)
    assert NextStep("malformed", 1, 0, 0).after(history) == replace(history, malformed=1)


def test_a_half_that_was_never_asked_alone_has_its_whole_budget_before_it() -> None:
    history = TrialProgress(attempts=7, parked=1)
    assert NextStep("halved", 0, 0, 1).after(history) == TrialProgress(attempts=7, depth=1)


@pytest.mark.parametrize("reason", [Reason.TRUNCATED, Reason.REASONING_UNCLOSED])
def test_a_reply_that_was_cut_is_asked_for_with_more_tokens_each_time(reason: Reason) -> None:
    sampling, history, allowed = Sampling(max_tokens=100, seed=7), TrialProgress(), []
    for _ in range(6):
        step = next_step(Malformed(reason), history, Retry(rejudge=9), False)
        assert step is not None
        history = step.after(history)
        allowed.append(next_sampling(sampling, history)["max_tokens"])
    assert allowed == [200, 400, 800, 800, 800, 800]
    assert next_sampling(Sampling(), history) == {}
    # What was cut once stays allowed more, also in the halves of its batch.
    halved = next_step(COUNT, history, RETRY, True)
    assert halved is not None
    assert halved.cut == 3


def test_a_fresh_request_has_another_seed_where_one_is_set() -> None:
    sampling = Sampling(seed=7, max_tokens=10)
    assert next_sampling(sampling, TrialProgress()) == {}
    seeds = [
        next_sampling(sampling, history)["seed"]
        for history in (
            TrialProgress(malformed=1),
            TrialProgress(malformed=2),
            TrialProgress(malformed=2, refused=1),
            TrialProgress(retry=1),
        )
    ]
    assert len({7, *seeds}) == 5
    assert next_sampling(Sampling(max_tokens=10), TrialProgress(malformed=1)) == {}
