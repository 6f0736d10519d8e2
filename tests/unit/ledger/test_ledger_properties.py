"""Whatever batches come, in whatever order and however often: one judgment per trial, and every count is right."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_batches import attempt, attempts, judgment, judgments, new_ledger, waiting

from runner.ledger.ledger import Ledger
from runner.messages import Batch, PendingTrial, Shard, Tally, TrialProgress

STATES = ("scored", "malformed", "refused", "failed", "poisoned")

place = st.tuples(st.integers(0, 3), st.integers(0, 4))
judged = st.tuples(place, st.sampled_from(STATES), st.booleans())
waits = st.tuples(place, st.sampled_from(("malformed", "refused", "parked")), st.integers(0, 3))
step = st.tuples(
    st.sampled_from("abc"),
    st.lists(judged, max_size=6),
    st.lists(waits, max_size=3),
    st.sampled_from(("", "again", "reopen", "reopen and again")),
)

Place = tuple[int, int]
Step = tuple[str, list[tuple[Place, str, bool]], list[tuple[Place, str, int]], str]


def total(left: Tally, right: Tally) -> Tally:
    return Tally(*(getattr(left, name.name) + getattr(right, name.name) for name in fields(Tally)))


@settings(deadline=None, max_examples=60)
@given(st.lists(step, max_size=12))
def test_random_batches(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        ledger = new_ledger(Path(directory))
        live = ledger.tallies()
        seqs: Counter[str] = Counter()
        first: dict[tuple[int, int], tuple[str, str]] = {}
        pending: dict[tuple[int, int], tuple[str, int]] = {}
        late = requests = 0
        for sender, trials, later, after in steps:
            seqs[sender] += 1
            made, found, duplicates = [], [], 0
            for index, (at, state, called) in enumerate(trials):
                request = f"{sender}-{seqs[sender]}-{index}"
                if called:
                    made.append(attempt(request, at[0]))
                found.append(judgment(*at, request if called else None, state=state, worker=request))
                if at in first:
                    duplicates += 1
                    late += called
                else:
                    first[at] = (state, request)
                    pending.pop(at, None)
            for at, why, times in later:
                if at not in first:
                    pending[at] = (why, times)
            requests += len(made)
            batch = Batch(
                sender, seqs[sender], tuple(made), tuple(found),
                tuple(waiting(*at, why, TrialProgress(malformed=times)) for at, why, times in later),
            )  # fmt: skip
            recorded = ledger.commit(batch)
            assert recorded.ack.duplicates == duplicates
            for pair, change in recorded.changes.items():
                live[pair] = total(live[pair], change)
            if "reopen" in after:
                ledger.close()
                ledger = Ledger(Path(directory) / "run.db")
            if "again" in after:
                assert ledger.commit(batch).changes == {}

            assert ledger.tallies() == live
            done = Counter(shard for shard, _ in first)
            assert [row.done for row in ledger.shards()] == [done[shard] for shard in range(4)]
        for shard in range(4):
            assert ledger.done_positions(shard) == {at[1] for at in first if at[0] == shard}
            assert ledger.pending_positions(shard) == {at[1] for at in pending if at[0] == shard}
        out = {
            (shard, position): (why, history.malformed)
            for model in ("m0", "m1")
            for why in ("malformed", "refused", "parked")
            for shard, position, history in ledger.pending_trials(model, (why,), 99)
        }
        assert out == pending
        rows = judgments(ledger)
        assert {(row["shard"], row["position"]): (row["state"], row["worker"]) for row in rows} == first
        assert len(rows) == len(first)
        assert len(attempts(ledger)) == requests == sum(spend.requests for spend in ledger.spend().values())
        assert sum(row["late_duplicate"] for row in attempts(ledger)) == late  # type: ignore[misc]
        ledger.close()


def key(name: int) -> bytes:
    return name.to_bytes(16, "big")


def laid_out(names: Iterable[int]) -> tuple[list[Shard], dict[int, tuple[int, int]]]:
    """Trials in shards of three, in the order given: name → place."""
    places = {name: (n // 3, n % 3) for n, name in enumerate(names)}
    sizes = Counter(shard for shard, _ in places.values())
    return [Shard(n, f"j{n}", "m", 0, 3 * n, 3, size) for n, size in sorted(sizes.items())], places


names = st.lists(st.integers(0, 12), unique=True, max_size=12)


@settings(deadline=None, max_examples=60)
@given(
    names, st.lists(st.tuples(names, st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12))), min_size=1, max_size=4)
)
def test_changed_plans_keep_what_was_judged(
    start: list[int], changes: list[tuple[list[int], set[int], set[int]]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        shards, places = laid_out(start)
        with new_ledger(Path(directory), shards) as ledger:
            ever: set[int] = set()
            waits: set[int] = set()
            for seq, (wanted, to_judge, to_wait) in enumerate(changes, 1):
                fresh = [name for name in places if name in to_judge - ever]
                waits |= {name for name in places if name in to_wait - ever}
                found = tuple(judgment(*places[name], key=key(name), template=str(name)) for name in fresh)
                later = tuple(
                    PendingTrial(*places[name], key(name), "malformed", TrialProgress(name)) for name in sorted(waits)
                )
                ledger.commit(Batch("w", seq, (), found, later))
                ever |= set(fresh)
                waits -= ever

                shards, places = laid_out(wanted)
                carried = ledger.replan(shards, [(key(name), *at) for name, at in places.items()])
                waits &= set(wanted)
                assert carried == len(ever & set(wanted))
                moved = {(row["shard"], row["position"]): row["template"] for row in judgments(ledger)}
                assert moved == {places[name]: str(name) for name in ever & set(wanted)}
                assert sorted(ledger.judged_keys()) == sorted(map(key, ever)), "nothing judged is ever lost"
                assert {row.shard.id: row.done for row in ledger.shards()} == {
                    shard.id: sum(1 for at in moved if at[0] == shard.id) for shard in shards
                }
                assert {(at[0], at[1]): at[2].malformed for at in ledger.pending_trials("m", ("malformed",), 99)} == {
                    places[name]: name for name in waits
                }
                assert sum(tally.done for tally in ledger.tallies().values()) == carried
