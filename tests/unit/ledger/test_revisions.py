"""Judging again in the ledger: old judgments stand until new outcomes replace them together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger_batches import USAGE, attempt, judged, judgment, judgments, new_ledger, plan, waiting

from runner.ledger import schema
from runner.ledger.ledger import Ledger
from runner.ledger.revisions import Revision
from runner.messages import Batch, TrialProgress
from runner.worker.request import stage_of

STATES = ("scored", "malformed", "refused", "failed", "poisoned")


def ended(ledger: Ledger, shard: int = 0, states: Sequence[str] = STATES) -> None:
    """Judge the first trials of a shard: one of each state."""
    names = [f"{shard}/{position}" for position in range(len(states))]
    ledger.commit(
        Batch(
            f"first {shard}",
            1,
            tuple(attempt(name, shard) for name in names),
            tuple(
                judgment(shard, at, name, state=state, **({} if state == "scored" else {"verdict": None}))
                for at, (name, state) in enumerate(zip(names, states, strict=True))
            ),
        )
    )


def outcome(ledger: Ledger, seq: int, shard: int, position: int, **changes: Any) -> int:
    """Record a new outcome; how many came late."""
    name = f"again {seq}"
    batch = Batch("again", seq, (attempt(name, shard),), (judgment(shard, position, name, **changes),))
    return ledger.commit(batch).ack.duplicates


def settle(ledger: Ledger) -> Revision | None:
    return ledger.revisions.settle(lambda place: ("s", f"{place[0]}/{place[1]}"), "2")


def states(ledger: Ledger) -> list[str]:
    return [str(row["state"]) for row in judgments(ledger)]


def test_the_old_judgments_stand_until_all_that_came_replaces_them_together(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(1)) as ledger:
        ended(ledger)
        assert ledger.revisions.retriable(["malformed", "failed"]) == {0: 2}
        assert ledger.pending_positions(0) == set(), "to count them changes nothing"
        ledger.revisions.begin_retry(["malformed", "failed"])
        assert ledger.pending_positions(0) == {1, 3}
        before = judgments(ledger)

        assert outcome(ledger, 1, 0, 1) == 0
        assert outcome(ledger, 2, 0, 3, state="refused", reason="model", verdict=None, scores=None) == 0
        assert outcome(ledger, 3, 0, 1) == 1, "another worker's came late"
        assert judgments(ledger) == before
        assert [row.done for row in ledger.shards()] == [5]

        revision = settle(ledger)
        assert revision is not None and (revision.number, revision.kind) == (2, "retry")
        assert states(ledger) == ["scored", "scored", "refused", "refused", "poisoned"]
        assert {row["revision"] for row in judgments(ledger)} == {2}
        assert [row.done for row in ledger.shards()] == [5]
        assert [
            (change["from"]["state"], change["to"]["state"], change["trials"], change["examples"][0]["item_id"])
            for change in revision.changes["changes"]
        ] == [("malformed", "scored", 1, "0/1"), ("failed", "refused", 1, "0/3")]
        assert settle(ledger) is None
        assert ledger.revisions.all() == [revision]


def test_a_trial_goes_out_with_new_budgets_and_all_that_it_has_cost(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(1)) as ledger:
        ended(ledger)
        ledger.revisions.begin_retry(["malformed"])
        ((shard, position, history),) = ledger.pending_trials("m0", ("retry",), 10)
        assert (shard, position) == (0, 1)
        assert history == TrialProgress(attempts=1, usage=USAGE, official=True, retry=2)


def test_the_ladder_of_a_retried_trial_is_kept(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(1)) as ledger:
        ended(ledger)
        ledger.revisions.begin_retry(["malformed"])
        ledger.commit(Batch("again", 1, (attempt("r"),), (), (waiting(0, 1), waiting(0, 0))))
        assert [place for *place, _ in ledger.pending_trials("m0", ("malformed",), 10)] == [[0, 1]], (
            "0 is judged, and is left"
        )
        assert outcome(ledger, 2, 0, 1) == 0
        assert settle(ledger) is not None
        assert ledger.pending_positions(0) == set()


def test_only_what_was_asked_for_is_judged_again(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        for shard in range(4):
            ended(ledger, shard)
        revisions = ledger.revisions
        assert revisions.retriable(["malformed"]) == {0: 1, 1: 1, 2: 1, 3: 1}
        assert revisions.retriable(["malformed", "poisoned"], judge="j1") == {1: 2, 3: 2}
        revisions.begin_retry(["malformed"], "j1", "m0")
        assert revisions.waiting_again() == {1: 1}


def test_the_same_retry_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with new_ledger(tmp_path, plan(1)) as ledger:
        ended(ledger, states=["malformed"] * 4)
        ledger.revisions.begin_retry(["malformed"])
        outcome(ledger, 1, 0, 0)
        outcome(ledger, 2, 0, 1, state="malformed", verdict=None, scores=None)
    # The process dies here; the next one takes over what came.
    with Ledger(path) as ledger:
        assert states(ledger) == ["malformed"] * 4
        assert settle(ledger) is not None
        assert states(ledger) == ["scored", "malformed", "malformed", "malformed"]
        assert ledger.revisions.retriable(["malformed"]) == {}, "one came out malformed again, two wait already"
        ledger.revisions.begin_retry(["malformed"])
        assert ledger.pending_positions(0) == {2, 3}
        outcome(ledger, 3, 0, 2)
        outcome(ledger, 4, 0, 3, state="malformed", verdict=None, scores=None)
        settle(ledger)
        # That retry is over: the next one begins with what is malformed now.
        assert ledger.revisions.retriable(["malformed"]) == {0: 2}
        assert ledger.revisions.current() == 3


def test_live_counts_are_those_of_the_new_outcomes(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(1)) as ledger:
        ended(ledger)

        def tally() -> tuple[int, ...]:
            counts = ledger.tallies()["j0", "m0"]
            return counts.scored, counts.malformed, counts.failed, counts.waiting, counts.done

        assert tally() == (1, 1, 1, 0, 5)
        ledger.revisions.begin_retry(["malformed", "failed"])
        assert tally() == (1, 0, 0, 2, 3)
        batch = Batch("again", 1, (attempt("a"),), (judgment(0, 1, "a"),))
        (change,) = ledger.commit(batch).changes.values()
        assert (change.scored, change.waiting) == (1, -1)
        assert tally() == (2, 0, 0, 1, 4)
        outcome(ledger, 2, 0, 3, state="malformed")
        assert tally() == (2, 1, 0, 0, 5)
        settle(ledger)
        assert tally() == (2, 1, 0, 0, 5)


def test_a_judgment_of_a_later_revision_is_part_of_it(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(1)) as ledger:
        ended(ledger, states=["malformed"])
        ledger.revisions.begin_retry(["malformed"])
        outcome(ledger, 1, 0, 0)
        settle(ledger)
        ledger.commit(judged("later", 1, 0, 4))
        assert [(row["position"], row["revision"]) for row in judgments(ledger)] == [(0, 2), (4, 2)]
        assert ledger._db.rows("SELECT position, revision FROM judgments") == [(0, 2), (4, 2)]


def test_a_trial_that_waits_again_moves_with_its_judgment_to_a_changed_plan(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(1)) as ledger:
        ended(ledger)
        keys = {row["position"]: row["key"] for row in judgments(ledger)}
        ledger.revisions.begin_retry(["malformed"])
        assert ledger.replan(plan(1), [(keys[1], 0, 4), (keys[0], 0, 2)]) == 2  # type: ignore[list-item]
        assert ledger.pending_positions(0) == {4} and ledger.revisions.waiting_again() == {0: 1}
        outcome(ledger, 1, 0, 4, key=keys[1])
        assert settle(ledger) is not None
        assert [(row["position"], row["state"]) for row in judgments(ledger)] == [(2, "scored"), (4, "scored")]


def test_new_outcomes_have_the_columns_of_judgments(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        columns = {
            table: {row[1] for row in ledger._db.rows(f"PRAGMA table_info({table})")}
            for table in ("judgments", "renewed")
        }
        assert columns["renewed"] == columns["judgments"] == set(schema.JUDGMENT_COLUMNS)


def test_what_is_judged_again_keeps_its_stage_when_it_is_put_off() -> None:
    assert stage_of(TrialProgress(retry=2)) == stage_of(TrialProgress(retry=2, parked=1)) == "retry:2"
    assert stage_of(TrialProgress(retry=2, parked=1, malformed=1)) == "rejudge:1"
    assert (stage_of(TrialProgress()), stage_of(TrialProgress(parked=1))) == ("first", "last")
