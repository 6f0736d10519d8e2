"""A trial's outcome as a judgment: what it names of the request that decided, and what the ledger gives back."""

from __future__ import annotations

from pathlib import Path

import pytest

from judges import Malformed, Outcome, Poisoned, Provenance, Reason, Scored, load_judge
from judges.item import Item
from runner.ledger import schema
from runner.messages import Judgment, TrialProgress
from runner.usage import Usage
from runner.worker.judgment import build_judgment

ITEM = Item("a", "a", "s", None, {"question": "q", "reference": "r", "response": "é"})
JUDGE = load_judge("longmemeval-paper", Path())
HISTORY = TrialProgress(attempts=2, usage=Usage(1, 0, 2, 0, 0.1), official=True)


def judgment(outcome: Outcome, stage: str = "first") -> Judgment:
    return build_judgment(
        outcome, JUDGE, ITEM, HISTORY, shard=1, position=2, key=b"k" * 16, template="base", structured="off",
        stage=stage, worker="w", request_id="id", latency_s=0.5, notes=("json_hint",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "read", "stage", "notes"),
    [
        ("first", "strict", "strict", ("json_hint", "n")),
        ("rejudge:1", "strict", "rejudge:1", ("json_hint", "n", "read:strict")),
        ("rejudge:1", "reformat", "reformat", ("json_hint", "n", "asked:rejudge:1")),
    ],
)
def test_a_score_names_how_it_was_asked_for_and_how_it_was_read(
    asked: str, read: str, stage: str, notes: tuple[str, ...]
) -> None:
    outcome = Scored({"correct": True}, Provenance(read, ("n",)))
    made = judgment(outcome, asked)
    assert (made.stage, made.notes) == (stage, notes)
    assert (made.state, made.reason, made.verdict, made.scores) == (
        "scored", None, '{"correct": true}', '{"correct": 1.0}',
    )  # fmt: skip
    assert (made.attempts, made.usage, made.official) == (2, HISTORY.usage, True)


def test_without_a_score_the_reason_stands_and_the_notes_of_the_request() -> None:
    made = judgment(Malformed(Reason.COUNT))
    assert (made.state, made.reason, made.verdict, made.scores) == ("malformed", "count", None, None)
    assert (made.stage, made.notes) == ("first", ("json_hint",))


def test_of_a_poisoned_trial_no_item_is_needed() -> None:
    made = build_judgment(
        Poisoned("hang"), JUDGE, None, HISTORY, shard=1, position=2, key=b"k" * 16, template="base", structured="off",
        stage="first", worker="driver",
    )  # fmt: skip
    assert (made.state, made.reason, made.request_id, made.worker) == ("poisoned", "hang", None, "driver")


@pytest.mark.parametrize("outcome", [Scored({"correct": False}, Provenance("strict")), Malformed(Reason.COUNT)])
def test_a_judgment_comes_back_from_the_ledger_as_it_was(outcome: Outcome) -> None:
    made = judgment(outcome)
    assert schema.judgment_from_row(schema.judgment_row(made, 7, 3)) == (made, 7, 3)
