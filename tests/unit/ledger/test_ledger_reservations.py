"""Reservations in the ledger: they come and go with the batches, once, and outlive whoever made them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ledger_batches import attempt, new_ledger, plan

from runner.config import Budget
from runner.ledger.ledger import Ledger
from runner.ledger.spending import UNLIMITED, Starvation
from runner.messages import Ack, Attempt, Batch
from runner.report.notices import describe_unsettled
from runner.usage import NOTHING, CostBound, Usage

PORTION = CostBound(4, 4000, 4_000_000)
ONE = CostBound(1, 1000, 1_000_000)


def took(name: str, freed: CostBound = ONE, model: str = "m0", usd: float = 0.0004) -> Attempt:
    return attempt(name, model=model, status=200, usage=Usage(300, 0, 100, 0, usd), freed=freed)


def test_what_a_request_took_replaces_what_was_reserved_for_it(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        assert ledger.spending.reserved() == NOTHING
        ledger.commit(Batch("w", 1, reserved=PORTION))
        assert ledger.spending.reserved() == PORTION
        ledger.commit(Batch("w", 2, (took("a"), took("b"))))
        assert ledger.spending.reserved() == PORTION - ONE - ONE
        assert ledger.spend()["m0"].usage.cost_usd == pytest.approx(0.0008)
        # Without a known end: it took nothing that is known, and its reservation stands.
        ledger.commit(Batch("w", 3, (took("c", freed=NOTHING, usd=0.0),), reserved=NOTHING - ONE))
        assert ledger.spending.reserved() == ONE
        assert describe_unsettled(ledger.spending.reserved(), running=False).startswith(
            "Up to $0.00100 (1 request, 1,000 tokens) more may have been billed"
        )


def test_the_same_batch_again_reserves_and_frees_nothing(tmp_path: Path) -> None:
    first = Batch("w", 1, reserved=PORTION + ONE)
    second = Batch("w", 2, (took("a"), took("b", model="m1")), reserved=ONE)
    with new_ledger(tmp_path) as ledger:
        for batch in (first, first, second, second):
            ledger.commit(batch)
    with Ledger(tmp_path / "run.db") as ledger:
        ledger.commit(second)
        assert ledger.spending.reserved() == PORTION


def test_each_sender_answers_for_its_own(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        for sender in ("first", "second"):
            ledger.commit(Batch(sender, 1, reserved=PORTION + ONE))
        ledger.commit(Batch("second", 2, (took("a"), took("b", model="m1"))))
        kept = {sender: CostBound(*bound) for sender, *bound in ledger._db.rows("SELECT * FROM reserved")}
        assert kept == {"first": PORTION + ONE, "second": PORTION - ONE}
        assert ledger.spending.reserved() == PORTION + PORTION


def test_what_a_plan_does_not_hold_any_more_may_have_been_billed_all_the_same(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        ledger.commit(Batch("w", 1, reserved=PORTION))
        ledger.replan(plan(1), [])
        assert ledger.spending.reserved() == PORTION


def test_what_would_go_over_the_budget_is_not_granted_and_the_same_batch_is_answered_the_same(
    tmp_path: Path,
) -> None:
    new_ledger(tmp_path).close()
    budget = Budget(usd=0.006, requests=10, tokens=5500)
    with Ledger(tmp_path / "run.db", budget=budget) as ledger:
        first = ledger.commit(Batch("w", 1, reserved=PORTION)).ack
        assert (first.granted, first.left) == (PORTION, CostBound(6, 1500, 2_000_000))
        refused = ledger.commit(Batch("v", 1, reserved=ONE + ONE)).ack
        assert (refused.granted, refused.left) == (NOTHING, first.left), "two are 2000 tokens"
        assert ledger.commit(Batch("v", 2, reserved=ONE)).ack.granted == ONE
        # An answer frees what was reserved for it; what it took is spent, and a request counts.
        settled = ledger.commit(Batch("w", 2, (took("a"),))).ack
        assert settled.left == CostBound(5, 1100, 1_600_000)
    with Ledger(tmp_path / "run.db", budget=budget) as ledger:
        again = ledger.commit(Batch("v", 2, reserved=ONE)).ack
        assert (again.granted, again.left) == (ONE, settled.left), "granted once, whoever was told"
        assert ledger.commit(Batch("v", 3, reserved=NOTHING - ONE)).ack.left == settled.left + ONE
    with Ledger(tmp_path / "run.db", budget=Budget(requests=1)) as ledger:
        ack = ledger.commit(Batch("u", 1, reserved=ONE)).ack
        assert (ack.granted, ack.left and ack.left.requests) == (NOTHING, -3), "of a lower budget nothing is left"
    with Ledger(tmp_path / "run.db") as ledger:
        ack = ledger.commit(Batch("u", 2, reserved=PORTION)).ack
        assert (ack.granted, ack.left) == (PORTION, None)


def test_what_was_never_received_counts_as_no_request_and_what_may_have_been_billed_once(tmp_path: Path) -> None:
    new_ledger(tmp_path).close()
    with Ledger(tmp_path / "run.db", budget=Budget(requests=4)) as ledger:
        ledger.commit(Batch("w", 1, reserved=CostBound(4, 4000, 4_000_000)))
        unreached = replace(took("a", usd=0.0), status=None, usage=Usage())
        doubtful = replace(took("b", freed=NOTHING), status=504, usage=Usage())
        ack = ledger.commit(Batch("w", 2, (unreached, doubtful), reserved=CostBound(-2, -2000, -2_000_000))).ack
        assert ack.left is not None
        assert ack.left.requests == 3


def test_a_run_is_over_its_budget_once_all_wait_since_the_last_that_was_freed() -> None:
    budget = Budget(tokens=5000)
    starvation = Starvation(budget)

    def say(sender: str, left: int, starved: CostBound | None) -> None:
        starvation.observe(Batch(sender, 1, starved=starved), Ack(1, 0, NOTHING, CostBound(UNLIMITED, left, UNLIMITED)))

    say("first", 400, ONE)
    assert starvation.senders == frozenset(), "what there was before is not known"
    say("first", 400, ONE)
    say("second", 400, PORTION)
    assert starvation.senders == {"first", "second"}
    assert starvation.describe() == (
        "the budget of 5,000 tokens is spent but for 400 tokens, and the next request may cost 1,000 tokens; "
        "raise budget.tokens to go on"
    )
    say("third", 300, None)
    assert starvation.senders == {"first", "second"}, "what others take changes nothing for them"
    say("first", 300, None)
    assert starvation.senders == {"second"}
    say("third", 900, None)
    assert starvation.senders == frozenset(), "they are to look again"
    assert starvation.describe() is None


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(usd=5.0), "the budget of 5.0 USD is spent but for 0.0001 USD, and the next request may cost 0.001 USD"),
        (Budget(requests=30), "the budget of 30 requests is spent but for 0, and the next request may cost 1"),
        (Budget(usd=5.0, tokens=9999), "the budget of 5.0 USD is spent"),
    ],
)
def test_it_is_said_which_cap_was_reached(budget: Budget, words: str) -> None:
    starvation = Starvation(budget)
    left = CostBound(0 if budget.requests else UNLIMITED, UNLIMITED, 100_000 if budget.usd else UNLIMITED)
    for _ in range(2):
        starvation.observe(Batch("w", 1, starved=ONE), Ack(1, 0, NOTHING, left))
    assert (starvation.describe() or "").startswith(words)
