"""A changed plan: what is judged or waits moves to its new place, the rest is set aside and can come back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_batches import attempts, judged, judgments, key, new_ledger, plan, waiting

from runner.errors import JuryboxError
from runner.ledger.ledger import Ledger
from runner.messages import Batch, Shard


def test_judgments_move_with_their_attempts_and_others_are_set_aside(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        ledger.commit(judged("w", 1, 0, 0, 1, 2))
        ledger.commit(Batch("w", 2, (), (), (waiting(1, 0), waiting(1, 1))))
        bought = attempts(ledger)
        before = {row["key"]: row for row in judgments(ledger)}

        new = [Shard(0, "j9", "m9", 0, 0, 4, 4)]
        wanted = [(key(7, 7), 0, 0), (key(0, 2), 0, 1), (key(1, 1), 0, 2), (key(0, 0), 0, 3)]
        assert ledger.replan(new, wanted) == 2

        rows = judgments(ledger)
        assert [(row["position"], row["key"]) for row in rows] == [(1, key(0, 2)), (3, key(0, 0))]
        places = ("shard", "position")
        assert all({**row, **dict.fromkeys(places)} == {**before[row["key"]], **dict.fromkeys(places)} for row in rows)
        assert [row.done for row in ledger.shards()] == [2]
        assert [at[:2] for at in ledger.pending_trials("m9", ("malformed",), 9)] == [(0, 2)]
        assert attempts(ledger) == bought
        assert ledger.spend()["m0"].requests == 3, "what was spent stays spent"

        assert ledger.replan(plan(), [(key(s, p), s, p) for s in range(4) for p in range(5)]) == 3
        assert {row["key"]: row for row in judgments(ledger)} == before
        ledger.commit(judged("w", 3, 0, 3))
        assert ledger.done_positions(0) == {0, 1, 2, 3}


def test_what_is_set_aside_says_what_it_was(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        ledger.commit(judged("w", 1, 3, 2))
        ledger.replan([], [])
    with sqlite3.connect(tmp_path / "run.db") as db:
        (row,) = db.execute("SELECT key, judge, model, repeat, shard, position, attempt, retired_at > 1e9 FROM retired")
    db.close()
    assert row == (key(3, 2), "j1", "m1", 0, 3, 2, 1, 1)


def test_what_was_judged_again_after_it_was_set_aside_stands(tmp_path: Path) -> None:
    everything = [(key(s, p), s, p) for s in range(4) for p in range(5)]
    with new_ledger(tmp_path) as ledger:
        ledger.commit(judged("w", 1, 0, 0))
        ledger.replan([], [])
        ledger.set_plan(plan())
        ledger.commit(judged("w", 2, 0, 0))
        assert ledger.replan(plan(), everything) == 1
        assert ledger.replan([], []) == 0
        assert ledger.replan(plan(), everything) == 1
        assert [row["request_id"] for row in judgments(ledger)] == ["w-2-0"]


def test_a_change_that_fails_halfway_changes_nothing(tmp_path: Path) -> None:
    def trials() -> Iterator[tuple[bytes, int, int]]:
        yield key(0, 0), 0, 0
        raise InterruptedError

    with new_ledger(tmp_path) as ledger:
        ledger.commit(judged("w", 1, 0, 0))
        with pytest.raises(InterruptedError):
            ledger.replan([], trials())
        with pytest.raises(JuryboxError, match="UNIQUE"):
            ledger.replan(plan(), [(key(0, 0), 0, 0), (key(0, 0), 0, 1)])
        assert [row.shard for row in ledger.shards()] == plan()
        assert ledger.done_positions(0) == {0}
        assert ledger.replan([replace(plan()[0], id=5)], [(key(0, 0), 5, 4)]) == 1
    with Ledger(tmp_path / "run.db") as ledger:
        assert ledger.done_positions(5) == {4}
