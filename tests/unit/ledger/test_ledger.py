"""What the ledger remembers: batches, judgments, what waits, and what was spent."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from ledger_batches import USAGE, attempt, attempts, judged, judgment, judgments, key, new_ledger, plan, waiting

from runner.errors import JuryboxError
from runner.ledger import schema
from runner.ledger.aggregator import Aggregator
from runner.ledger.batch_writer import Spend
from runner.ledger.ledger import Ledger
from runner.messages import Ack, Batch, Snapshot, Tally, TrialProgress
from runner.stats.parse_stats import Call
from runner.usage import Usage


def test_a_batch_is_kept_with_every_field(tmp_path: Path) -> None:
    whole = attempt(
        "r1", keys=(key(0, 1), key(0, 2)), served_model="gpt-2026", system_fingerprint="fp", status=200, error=None,
        finish_reason="stop", judge_reply="yes\0no 🙂", reasoning_text="hm", refusal_text="no", latency_s=0.5,
        retry_after_s=2.0, reading="malformed:conflict", parser_version="2", same_verdict=False,
    )  # fmt: skip
    with new_ledger(tmp_path) as ledger:
        recorded = ledger.commit(
            Batch("w", 1, (whole,), (judgment(0, 1, "r1", notes=("fence", "prose"), official=False),))
        )
    assert recorded.ack == Ack(1, 0)
    with Ledger(tmp_path / "run.db") as ledger:
        assert attempts(ledger) == [
            {
                "id": 1, "request_id": "r1", "keys": key(0, 1) + key(0, 2), "judge": "j0", "model": "m0",
                "model_id": "gpt", "served_model": "gpt-2026", "system_fingerprint": "fp", "stage": "first", "try": 1,
                "state": "ok", "error": None, "status": 200, "finish_reason": "stop", "judge_reply": "yes\0no 🙂",
                "reasoning_text": "hm", "refusal_text": "no", "input_tokens": 100.0, "cached_tokens": 20.0,
                "output_tokens": 5.0, "reasoning_tokens": 0.0, "cost_usd": 0.25, "latency_s": 0.5,
                "retry_after_s": 2.0, "late_duplicate": 0, "sent_at": 1.5, "worker": "w",
                "reading": "malformed:conflict", "parser_version": "2", "same_verdict": 0,
            }
        ]  # fmt: skip
        assert judgments(ledger) == [
            {
                "shard": 0, "position": 1, "key": key(0, 1), "state": "scored", "reason": None,
                "verdict": '{"correct": true}', "scores": '{"correct": 1.0}', "template": "base", "stage": "strict",
                "notes": '["fence", "prose"]', "parser_version": "1", "structured": "off", "request_id": "r1",
                "attempt": 1, "official": 0, "attempts": 1, "input_tokens": 100.0, "cached_tokens": 20.0,
                "output_tokens": 5.0, "reasoning_tokens": 0.0, "cost_usd": 0.25, "latency_s": 0.5, "judged_at": 2.5,
                "worker": "w", "revision": 1, "batch_size": 1, "batch_position": 1,
                    "bisect_depth": 0, "judge_reply": "yes\0no 🙂", "reasoning_text": "hm",
                "refusal_text": "no", "finish_reason": "stop", "served_model": "gpt-2026", "system_fingerprint": "fp",
            }
        ]  # fmt: skip


def test_a_batch_sent_again_changes_nothing_even_after_a_restart(tmp_path: Path) -> None:
    batch = judged("w", 1, 0, 0, 1)
    with new_ledger(tmp_path) as ledger:
        ledger.commit(batch)
        again = ledger.commit(batch)
        assert (again.ack, again.changes) == (Ack(1, 0), {})
    with Ledger(tmp_path / "run.db") as ledger:
        assert ledger.commit(batch).changes == {}
        assert len(attempts(ledger)) == len(judgments(ledger)) == ledger.shards()[0].done == 2
        assert ledger.spend()["m0"].requests == 2


def test_a_batch_with_the_number_of_another_is_an_error_and_not_lost(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        ledger.commit(judged("w", 1, 0, 0))
        with pytest.raises(JuryboxError, match="batch 1 of w came again with 4 records, not 2"):
            ledger.commit(judged("w", 1, 0, 0, 1))
        with pytest.raises(JuryboxError, match="batch 3 of w came after its batch 1"):
            ledger.commit(judged("w", 3, 0, 1))
        ledger.commit(judged("w", 2, 0, 1))
        ledger.commit(judged("v", 1, 0, 2))
        assert ledger.done_positions(0) == {0, 1, 2}


def test_the_first_judgment_stands_and_the_late_one_is_an_attempt_marked_so(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        ledger.commit(judged("w", 1, 0, 0))
        late = Batch(
            "v", 1, (attempt("r", judge_reply="no"), attempt("s")),
            (judgment(0, 0, "r", state="malformed", reason="empty", verdict=None, scores=None), judgment(0, 1, "s")),
        )  # fmt: skip
        recorded = ledger.commit(late)
        assert recorded.ack == Ack(1, 1)
        assert recorded.changes == {("j0", "m0"): Tally(scored=1, requests=2, usage=USAGE + USAGE)}
        assert [row["state"] for row in judgments(ledger)] == ["scored", "scored"]
        assert [row["late_duplicate"] for row in attempts(ledger)] == [0, 1, 0]
        assert ledger.shards()[0].done == 2


def test_a_judgment_finds_the_attempt_that_decided_it(tmp_path: Path) -> None:
    tries = (attempt("r", state="error"), attempt("r", try_=2), attempt("q"), attempt("r", try_=3, state="error"))
    with new_ledger(tmp_path) as ledger:
        ledger.commit(Batch("w", 1, tries, (judgment(0, 0, "r"), judgment(0, 1, None, stage="empty"))))
        ledger.commit(Batch("w", 2, (attempt("late"), attempt("later")), ()))
        ledger.commit(Batch("w", 3, (), (judgment(0, 2, "late"), judgment(0, 3, "q"))))
    with Ledger(tmp_path / "run.db") as ledger:
        ledger.commit(Batch("w", 4, (), (judgment(0, 4, "later"), judgment(1, 0, "never seen"))))
        assert [row["attempt"] for row in judgments(ledger)] == [2, None, 5, 3, 6, None]


def test_what_waits_goes_out_by_model_and_reason_and_ends_with_its_judgment(tmp_path: Path) -> None:
    history = TrialProgress(malformed=2, refused=1, parked=1, attempts=3, usage=Usage(1, 2, 3, 4, 0.5), official=True)
    with new_ledger(tmp_path) as ledger:
        ledger.commit(
            Batch(
                "w",
                1,
                (),
                (),
                (waiting(1, 3), waiting(0, 4, "refused"), waiting(0, 2), waiting(2, 0), waiting(1, 0, "parked")),
            )
        )
        recorded = ledger.commit(Batch("w", 2, (), (), (waiting(0, 2, "malformed", history), waiting(1, 3, "parked"))))
        assert recorded.changes[("j1", "m0")] == Tally(waiting=-1, parked=1)
        assert recorded.changes[("j0", "m0")] == Tally()
        assert ledger.pending_trials("m0", ("malformed", "refused"), 9) == [
            (0, 2, history),
            (0, 4, TrialProgress(1, attempts=1)),
        ]
        assert [at[:2] for at in ledger.pending_trials("m0", ("parked",), 9)] == [(1, 0), (1, 3)]
        # A shard's waiting trials may share a request: a limit does not part them.
        assert [at[:2] for at in ledger.pending_trials("m0", ("parked",), 1)] == [(1, 0), (1, 3)]
        assert [at[:2] for at in ledger.pending_trials("m0", ("malformed", "parked"), 1)] == [(0, 2)]
        assert [at[:2] for at in ledger.pending_trials("m0", ("parked",), 1, {(1, 0)})] == [(1, 3)]
        assert ledger.pending_positions(1) == {0, 3}

        ledger.commit(judged("w", 3, 1, 3))
        ledger.commit(Batch("v", 1, (), (), (waiting(1, 3),)))
        assert ledger.pending_positions(1) == {0}
        assert ledger.done_positions(1) == {3}


def test_a_batch_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        good = judged("w", 1, 0, 0)
        with pytest.raises(JuryboxError, match="the plan has no shard 77"):
            ledger.commit(Batch("w", 1, good.attempts, (*good.judgments, judgment(77, 0))))
        with pytest.raises(JuryboxError, match="CHECK"):
            ledger.commit(judged("w", 1, 0, *range(6)))
        assert attempts(ledger) == judgments(ledger) == []
        assert ledger.commit(good).ack == Ack(1, 0)


def test_lone_surrogates_are_kept_as_escapes(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        batch = Batch("w", 1, (attempt("r", judge_reply="a\ud800é"),), (judgment(0, 0, "r", notes=("\udfff",)),))
        ledger.commit(batch)
        assert ledger.commit(batch).changes == {}
        (row,) = judgments(ledger)
        assert (row["judge_reply"], row["notes"], row["attempt"]) == ("a\\ud800é", '["\\udfff"]', 1)


def test_tallies_and_spend(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        ledger.commit(judged("w", 1, 0, 0, 1))
        states = ("malformed", "refused", "failed", "poisoned")
        ledger.commit(Batch("w", 2, (), tuple(judgment(1, at, state=state) for at, state in enumerate(states))))
        ledger.commit(Batch("w", 3, (attempt("r", 2),), (), (waiting(2, 0), waiting(2, 1, "parked"))))
        assert ledger.tallies() == {
            ("j0", "m0"): Tally(trials=5, scored=2, requests=2, usage=USAGE + USAGE),
            ("j1", "m0"): Tally(trials=5, malformed=1, refused=1, failed=1, poisoned=1),
            ("j0", "m1"): Tally(trials=5, waiting=1, parked=1, requests=1, usage=USAGE),
            ("j1", "m1"): Tally(trials=5),
        }
        assert ledger.spend() == {"m0": Spend(2, USAGE + USAGE), "m1": Spend(1, USAGE)}


def test_rows_for_the_results_come_in_ranges(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        for seq, (shard, position) in enumerate(itertools.product((3, 1, 2), (4, 0)), 1):
            ledger.commit(judged("w", seq, shard, position))
        _, rows = ledger.judgment_rows(1, 2)
        assert [row[:2] for row in rows] == [(1, 0), (1, 4), (2, 0), (2, 4)]
        _, first = ledger.attempt_rows(0, 4)
        _, rest = ledger.attempt_rows(4, 4)
        assert [row[0] for row in first + rest] == [1, 2, 3, 4, 5, 6]
        assert list(ledger.judged_keys()) == [key(s, p) for s in (1, 2, 3) for p in (0, 4)]


def test_meta_is_kept(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        assert ledger.meta("inputs") is None
        ledger.set_meta("inputs", "a")
        ledger.set_meta("inputs", "b")
        assert ledger.meta("inputs") == "b"


def test_a_plan_is_set_once(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        assert [row.shard for row in ledger.shards()] == plan()
        with pytest.raises(JuryboxError, match="replan"):
            ledger.set_plan(plan())


def test_the_aggregator_keeps_its_counts_without_reading_them_again(tmp_path: Path) -> None:
    new_ledger(tmp_path).close()
    aggregator = Aggregator(tmp_path / "run.db")
    assert aggregator.record(Batch("w", 1, (attempt("a"),), (), (waiting(0, 0),))) == Ack(1, 0)
    aggregator.record(judged("w", 2, 0, 0, 1))
    before = aggregator.snapshot()
    aggregator.record(judged("w", 2, 0, 0, 1))
    aggregator.record(judged("v", 1, 0, 1, 2))
    assert before.tallies[("j0", "m0")].scored == 2, "a snapshot does not change after it was taken"
    tally = aggregator.snapshot().tallies[("j0", "m0")]
    assert tally == Tally(5, scored=3, requests=5, usage=Usage(500, 100, 25, 0, 1.25))
    assert aggregator.done_positions(0) == {0, 1, 2}
    assert aggregator.pending_positions(0) == set()
    assert aggregator.pending_trials("m0", ("malformed",), 5) == []
    aggregator.close()
    reopened = Aggregator(str(tmp_path / "run.db"))
    assert reopened.snapshot() == Snapshot({**before.tallies, ("j0", "m0"): tally})
    reopened.close()


def test_requests_of_the_plan_without_those_of_controls_and_of_what_was_retired(tmp_path: Path) -> None:
    """Shard 0 is the run's own, 1 holds controls."""
    with new_ledger(tmp_path, plan(2)) as ledger:
        made = [
            attempt("own", 0, keys=(key(0, 0),)), attempt("pair", 0, keys=(key(0, 1), key(0, 2))),
            attempt("gone", 0, keys=(key(0, 3), key(0, 4))), attempt("control", 1, keys=(key(1, 0),)),
            attempt("control waits", 1, keys=(key(1, 1),)), attempt("probe", 0, keys=()),
        ]  # fmt: skip
        trials = [(0, 0, "own"), (0, 1, "pair"), (0, 2, "pair"), (0, 3, "gone"), (0, 4, "gone"), (1, 0, "control")]
        ended = tuple(judgment(shard, at, name) for shard, at, name in trials)
        ledger.commit(Batch("w", 1, tuple(made), ended, (waiting(1, 1),)))

        def names(before: int = schema.ALL_SHARDS) -> list[str]:
            columns, rows = ledger.attempt_rows(0, 100, before)
            found = [row[columns.index("request_id")] for row in rows]
            assert sum(row[Call._fields.index("n")] for row in ledger.calls(before)) == len(found)
            return found

        everything = [one.request_id for one in made]
        assert names() == everything
        assert names(1) == ["own", "pair", "gone", "probe"]
        # The plan loses its controls, the first of the pair, and both that were asked together.
        ledger.replan([ledger.shards()[0].shard], [(key(0, 0), 0, 0), (key(0, 2), 0, 2)])
        assert names() == everything
        assert names(1) == ["own", "pair", "control waits", "probe"]
