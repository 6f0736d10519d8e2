"""Faults of the simulated endpoint: the same on every run, bounded in a row, at the share that was asked for."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import InputError
from runner.simulate import Simulation
from runner.simulate.faults import Faults, malformed_shares


def prompts(count: int) -> list[bytes]:
    return [number.to_bytes(16, "big") for number in range(count)]


def test_the_order_of_arrival_changes_nothing() -> None:
    simulation = Simulation(seed=3, malformed=0.2, resets=0.2, throttled=0.2)
    arrivals = prompts(50) * 6
    runs = []
    for seed in (1, 2):
        shuffled = list(arrivals)
        random.Random(seed).shuffle(shuffled)
        faults, seen = Faults(simulation, 0.6), {digest: list[object]() for digest in prompts(50)}
        for digest in shuffled:
            seen[digest].append(faults.next(digest, True))
        runs.append(seen)
    assert runs[0] == runs[1]


def test_another_seed_draws_other_faults() -> None:
    drawn = []
    for seed in (0, 1):
        faults = Faults(Simulation(seed=seed, resets=0.5), 0.6)
        drawn.append([faults.next(digest, True) is None for digest in prompts(64)])
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_never_more_faults_in_a_row_than_allowed(bound: int) -> None:
    faults = Faults(Simulation(malformed=0.5, server_errors=0.5, max_faults_in_a_row=bound), 0.6)
    drawn = [faults.next(b"x" * 16, True) is None for _ in range(4 * (bound + 1))]
    assert drawn == ([False] * bound + [True]) * 4


def test_without_a_bound_a_share_of_one_never_ends() -> None:
    faults = Faults(Simulation(malformed=1, max_faults_in_a_row=None), 0.6)
    assert all(faults.next(b"x" * 16, True) for _ in range(50))


def test_shares_come_as_asked() -> None:
    shares: dict[str, Any] = {
        "malformed": 0.1,
        "truncated": 0.05,
        "refused": 0.05,
        "server_errors": 0.04,
        "resets": 0.03,
    }
    faults = Faults(Simulation(**shares, hanging=0.02, throttled=0.06), 0.6)
    count = 20_000
    drawn = Counter(fault.kind for digest in prompts(count) if (fault := faults.next(digest, True)))
    for kind, share in {**shares, "hanging": 0.02, "throttled": 0.06}.items():
        assert drawn[kind] / count == pytest.approx(share, abs=0.008), kind


def test_malformed_replies_can_follow_the_verdict() -> None:
    faults = Faults(Simulation(malformed=0.1, malformed_skew=3), 0.5)
    drawn = {verdict: 0 for verdict in (True, False)}
    for number, digest in enumerate(prompts(20_000)):
        drawn[number % 2 == 0] += faults.next(digest, number % 2 == 0) is not None
    assert drawn[True] / drawn[False] == pytest.approx(3, rel=0.15)
    assert sum(drawn.values()) / 20_000 == pytest.approx(0.1, abs=0.01)


@given(share=st.floats(0, 0.3), skew=st.floats(0, 10) | st.just(float("inf")), yes=st.floats(0.35, 0.9))
def test_skew_keeps_the_share_over_all(share: float, skew: float, yes: float) -> None:
    low, high = malformed_shares(share, skew, yes)
    assert 0 <= low <= 1
    assert 0 <= high <= 1
    if high < 1 and low < 1:
        assert low * (1 - yes) + high * yes == pytest.approx(share)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"malformed": 1.5}, "malformed"),
        ({"malformed": 0.6, "resets": 0.6}, "add up"),
        ({"rpm": 0}, "rpm"),
        ({"models": {"a": {"rps": 1}}}, "models.a.rps"),
        ({"structured": "maybe"}, "structured"),
        ({"miscounted": 0.6, "malformed": 0.6}, "add up"),
        ({"miscounted_from": 0}, "miscounted_from"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Simulation(**options)


def test_options_survive_their_journey() -> None:
    simulation = Simulation(models={"a": {"rpm": 600}}, only_models=("a",), malformed_skew=float("inf"), quota=3)
    assert Simulation.model_validate_json(simulation.model_dump_json()) == simulation
    with pytest.raises(InputError, match="latency"):
        Simulation.model_validate_json('{"latency": 3}')
