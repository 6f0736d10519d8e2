"""Reservations in the ledger: they come and go with the batches, once, and outlive whoever made them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_batches import attempt, new_ledger, plan

from runner.ledger.ledger import Ledger
from runner.messages import NOTHING, Attempt, Batch, CostBound, Usage
from runner.report.notices import describe_unsettled

PORTION = CostBound(4, 4000, 4_000_000)
ONE = CostBound(1, 1000, 1_000_000)


def took(name: str, freed: CostBound = ONE, model: str = "m0", usd: float = 0.0004) -> Attempt:
    return attempt(name, model=model, usage=Usage(300.0, 0.0, 100.0, 0.0, usd), freed=freed)


def test_what_a_request_took_replaces_what_was_reserved_for_it(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        assert ledger.reserved() == NOTHING
        ledger.record(Batch("w", 1, reserved=(("m0", PORTION),)))
        assert ledger.reserved() == PORTION
        ledger.record(Batch("w", 2, (took("a"), took("b"))))
        assert ledger.reserved() == PORTION - ONE - ONE
        assert ledger.spend()["m0"].usage.cost_usd == pytest.approx(0.0008)
        # Without a known end: it took nothing that is known, and its reservation stands.
        ledger.record(Batch("w", 3, (took("c", freed=NOTHING, usd=0.0),), reserved=(("m0", NOTHING - ONE),)))
        assert ledger.reserved() == ONE
        assert describe_unsettled(ledger.reserved()).startswith(
            "Up to $0.00100 (1 request, 1,000 tokens) more may have been billed"
        )


def test_the_same_batch_again_reserves_and_frees_nothing(tmp_path: Path) -> None:
    first = Batch("w", 1, reserved=(("m0", PORTION), ("m1", ONE)))
    second = Batch("w", 2, (took("a"), took("b", model="m1")), reserved=(("m0", ONE),))
    with new_ledger(tmp_path) as ledger:
        for batch in (first, first, second, second):
            ledger.record(batch)
    with Ledger(tmp_path / "run.db") as ledger:
        ledger.record(second)
        assert ledger.reserved() == PORTION
        assert ledger.spent_by("w") == pytest.approx(0.0008 + PORTION.usd)


def test_each_sender_answers_for_its_own(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        for sender in ("first", "second"):
            ledger.record(Batch(sender, 1, reserved=(("m0", PORTION), ("m1", ONE))))
        ledger.record(Batch("second", 2, (took("a"), took("b", model="m1"))))
        assert ledger.spent_by("first") == pytest.approx(PORTION.usd + ONE.usd)
        assert ledger.spent_by("second") == pytest.approx(PORTION.usd - ONE.usd + 2 * 0.0004)
        assert ledger.spent_by("third") == 0.0
        assert ledger.reserved() == PORTION + PORTION


def test_what_a_plan_does_not_hold_any_more_may_have_been_billed_all_the_same(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        ledger.record(Batch("w", 1, reserved=(("m0", PORTION),)))
        ledger.replan(plan(1), [])
        assert ledger.reserved() == PORTION
