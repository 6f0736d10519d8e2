"""Suspects: whatever dies in whatever order, every trial ends, the guilty are found soon, and nobody else is blamed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from math import ceil, log2

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import Death
from runner.messages import TrialPosition
from runner.scheduling.dispatch import Dispatch, Work
from runner.scheduling.poison_search import (
    IDLE_IN_A_ROW,
    POISONED_IN_A_ROW,
    CrashLoopDetector,
    TrialSubset,
    decide_after_death,
)

SHARD_ROWS = 16


@dataclass
class Run:
    """A driver without a clock: tasks of requests, workers that hold them, and what the ledger would hold."""

    shards: int
    batch: int
    places: int
    poison: frozenset[TrialPosition]
    ids: count[int] = field(default_factory=lambda: count(1))
    judged: Counter[TrialPosition] = field(default_factory=Counter)
    poisoned: list[TrialPosition] = field(default_factory=list)
    deaths: int = 0
    asked: Counter[TrialPosition] = field(default_factory=Counter)
    in_flight_at_deaths: int = 0

    def __post_init__(self) -> None:
        self.dispatch = Dispatch(depth=2)
        self.dispatch.add(Work(next(self.ids), "a", SHARD_ROWS, shard) for shard in range(self.shards))
        self.names = count(1)
        for _ in range(self.places):
            self.dispatch.join(f"w{next(self.names)}")
        self.tasks: dict[int, list[list[TrialPosition]]] = {}

    @property
    def trials(self) -> int:
        return self.shards * SHARD_ROWS

    def requests(self, work: Work) -> list[list[TrialPosition]]:
        """What the assembler would make of it: without what is recorded, a shard's trials in batches."""
        if isinstance(work.payload, TrialSubset):
            places = set(work.payload.trials)
        else:
            assert isinstance(work.payload, int)
            places = {(work.payload, position) for position in range(SHARD_ROWS)}
        open_places = sorted(place for place in places if not self.judged[place])
        by_batch: dict[tuple[int, int], list[TrialPosition]] = {}
        for place in open_places:
            by_batch.setdefault((place[0], place[1] // self.batch), []).append(place)
        return list(by_batch.values())

    def hand_out(self) -> None:
        served: set[str] = set()
        while not served.issuperset(self.dispatch.workers):
            name = next(name for name in self.dispatch.workers if name not in served)
            served.add(name)
            while (work := self.dispatch.next(name)) is not None:
                requests = self.requests(work)
                if not requests:
                    self.dispatch.finish(name, work.id)
                    continue
                self.tasks[work.id] = requests
                self.asked.update(place for request in requests for place in request)
            if self.dispatch.is_worn_out(name, self.places - len(self.dispatch.workers)):
                self.dispatch.leave(name)
                self.dispatch.join(f"w{next(self.names)}")

    def answer(self, name: str, work: Work, at: int) -> None:
        """One request is answered. Poison kills the worker that reads the reply."""
        requests = self.tasks[work.id]
        request = requests[at % len(requests)]
        if not self.poison.isdisjoint(request):
            self.die(name, "crash")
            return
        requests.remove(request)
        self.judged.update(request)
        if not requests:
            del self.tasks[work.id]
            self.dispatch.finish(name, work.id)

    def die(self, name: str, death: Death) -> None:
        again: list[Work] = []
        for work in self.dispatch.holding(name):
            left = self.tasks.pop(work.id)
            self.in_flight_at_deaths += sum(map(len, left))
            # What was sent holds what is recorded by now too.
            done = [[place] for place in self.sent_of(work) if self.judged[place]]
            fate = decide_after_death(work, death, sum(map(len, [*left, *done])), left, self.ids.__next__)
            assert not fate.hopeless
            if fate.poisoned is not None:
                self.poisoned.append(fate.poisoned)
                self.judged[fate.poisoned] += 1
            again += fate.again
        if death != "node":
            self.deaths += 1
        self.dispatch.leave(name, again)
        self.dispatch.join(f"w{next(self.names)}")

    def sent_of(self, work: Work) -> list[TrialPosition]:
        if isinstance(work.payload, TrialSubset):
            return list(work.payload.trials)
        assert isinstance(work.payload, int)
        return [(work.payload, position) for position in range(SHARD_ROWS)]

    def turn(self, rng: random.Random, node_losses: bool) -> None:
        self.hand_out()
        holding = [name for name in self.dispatch.workers if self.dispatch.holding(name)]
        assert holding, "there is work, and nobody has it"
        name = rng.choice(holding)
        if node_losses and rng.random() < 0.1:
            self.die(name, "node")
            return
        work = rng.choice(self.dispatch.holding(name))
        self.answer(name, work, rng.randrange(100))


places = st.tuples(st.integers(0, 2), st.integers(0, SHARD_ROWS - 1))


@settings(deadline=None, max_examples=150)
@given(
    poison=st.frozensets(places, max_size=5),
    batch=st.sampled_from([1, 1, 4]),
    workers=st.integers(1, 4),
    node_losses=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_exactly_the_guilty_are_poisoned_and_soon(
    poison: frozenset[TrialPosition], batch: int, workers: int, node_losses: bool, seed: int
) -> None:
    run, rng = Run(3, batch, workers, poison), random.Random(seed)
    while not run.dispatch.idle or run.judged.total() < run.trials:
        run.turn(rng, node_losses)
    assert sorted(run.poisoned) == sorted(poison)
    assert run.judged.total() == run.trials and set(run.judged.values()) == {1}
    # As usual, twice; then one death for each halving of a task down to one trial, and one more of that.
    assert run.deaths <= len(poison) * (2 + 1 + ceil(log2(SHARD_ROWS)) + 1)
    assert run.asked.total() <= run.trials + run.in_flight_at_deaths


@settings(deadline=None, max_examples=60)
@given(workers=st.integers(1, 3), kills=st.lists(st.integers(0, 30), max_size=12), seed=st.integers(0, 2**32))
def test_the_innocent_outlive_deaths_from_outside(workers: int, kills: list[int], seed: int) -> None:
    run, rng = Run(2, 1, workers, frozenset()), random.Random(seed)
    turns = 0
    while run.judged.total() < run.trials:
        run.turn(rng, node_losses=False)
        run.hand_out()
        for name in [name for name in run.dispatch.workers if run.dispatch.holding(name)][: kills.count(turns)]:
            # Whoever kills from outside does not wait for a trial to be alone.
            if not any(work.isolated and len(run.tasks[work.id]) == 1 for work in run.dispatch.holding(name)):
                run.die(name, "crash")
        turns += 1
    assert run.poisoned == []


def test_a_node_that_is_lost_blames_nobody() -> None:
    trial = [[(0, 0)]]
    work = Work(1, "a", 1, TrialSubset("shard", ((0, 0),)), deaths=1, isolated=True)
    for _ in range(10):
        (work,) = decide_after_death(work, "node", 1, trial, count(2).__next__).again
    assert decide_after_death(work, "hang", 1, trial, count(2).__next__).poisoned == (0, 0)


def test_a_death_counts_only_for_a_trial_that_was_alone_with_the_worker() -> None:
    work = Work(1, "a", 2, TrialSubset("shard", ((0, 0), (0, 1))), deaths=0, isolated=True)
    (work,) = decide_after_death(work, "crash", 2, [[(0, 1)]], count(2).__next__).again
    assert (work.deaths, work.isolated) == (0, True)
    (work,) = decide_after_death(work, "crash", 1, [[(0, 1)]], count(3).__next__).again
    assert work.deaths == 1
    assert decide_after_death(work, "crash", 1, [], count(3).__next__).again == (), "it was recorded after all"


def test_a_batch_is_halved_by_its_trials() -> None:
    batch = [(0, n) for n in range(5)]
    work = Work(1, "a", 1, "shard", isolated=True)
    halves = decide_after_death(work, "crash", len(batch), [batch], count(2).__next__).again
    assert [half.payload for half in halves] == [
        TrialSubset("shard", tuple(batch[:3])),
        TrialSubset("shard", tuple(batch[3:])),
    ]
    assert {half.requests for half in halves} == {1} and all(half.isolated for half in halves)


def test_work_without_trials_that_kills_every_worker_is_hopeless() -> None:
    work = Work(1, "a", 1, "probe")
    for alone in (False, True, True):
        (work,) = decide_after_death(work, "crash", 0, [], count(2).__next__).again
        assert work.isolated is alone
    assert decide_after_death(work, "crash", 0, [], count(2).__next__).hopeless


def test_workers_that_cannot_live_at_all_end_the_run() -> None:
    streak = CrashLoopDetector()
    for n in range(IDLE_IN_A_ROW - 1):
        streak.record_idle_death(begun=n, now=n + 0.5)
    # Those that were started before the last death lived side by side with it.
    streak.record_idle_death(begun=0, now=IDLE_IN_A_ROW)
    assert streak.verdict is None
    streak.record_idle_death(begun=IDLE_IN_A_ROW, now=IDLE_IN_A_ROW + 1)
    assert streak.verdict is not None
    streak.record_progress()
    assert streak.verdict is None


def test_a_judge_that_no_trial_survives_ends_the_run() -> None:
    streak = CrashLoopDetector()
    for _ in range(POISONED_IN_A_ROW):
        assert streak.verdict is None
        streak.record_poisoned()
    assert streak.verdict is not None and "jurybox retry --state poisoned" in streak.verdict
