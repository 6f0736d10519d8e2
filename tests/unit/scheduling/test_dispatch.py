"""Dispatch: no work is lost, none is in two places, a slow account never holds up another."""

from __future__ import annotations

import random

import pytest

from runner.scheduling.dispatch import Dispatch, Work


def work(number: int, account: str = "a") -> Work:
    return Work(number, account, 1, number)


def test_a_worker_gets_up_to_depth_of_each_account() -> None:
    dispatch = Dispatch(depth=2)
    dispatch.add([work(n, "slow") for n in range(5)] + [work(n, "fast") for n in range(5, 10)])
    dispatch.join("w")
    got = [dispatch.next("w") for _ in range(5)]
    assert [entry.account for entry in got if entry] == ["fast", "slow", "fast", "slow"]
    assert got[4] is None


def test_a_full_account_does_not_hold_up_another() -> None:
    dispatch = Dispatch(depth=1)
    dispatch.add([work(1, "slow"), work(2, "slow"), work(3, "fast"), work(4, "fast")])
    dispatch.join("w")
    held = {entry.account: entry for entry in (dispatch.next("w"), dispatch.next("w")) if entry}
    dispatch.finish("w", held["fast"].id)
    again = dispatch.next("w")
    assert again is not None and again.account == "fast"


def test_a_dead_workers_work_goes_to_the_front_in_its_order() -> None:
    dispatch = Dispatch(depth=2)
    dispatch.add([work(n) for n in range(4)])
    dispatch.join("dies")
    dispatch.next("dies")
    dispatch.next("dies")
    lost = dispatch.holding("dies")
    assert [entry.id for entry in lost] == [0, 1]
    dispatch.leave("dies", lost)
    dispatch.join("lives")
    got = [dispatch.next("lives") for _ in range(2)]
    assert [entry.id for entry in got if entry] == [0, 1]


def test_a_closed_account_hands_out_nothing_and_does_not_keep_the_run_alive() -> None:
    dispatch = Dispatch()
    dispatch.add([work(1, "closed")])
    dispatch.join("w")
    dispatch.close("closed")
    assert dispatch.next("w") is None
    assert dispatch.idle


def suspect(number: int, account: str = "a") -> Work:
    return Work(number, account, 1, number, isolated=True)


def test_suspected_work_goes_to_a_worker_that_had_none_and_gets_no_more() -> None:
    dispatch = Dispatch()
    dispatch.join("busy")
    dispatch.add([work(1), work(2)])
    assert dispatch.next("busy") == work(1)
    dispatch.add([suspect(3), suspect(4)])
    dispatch.join("fresh")
    assert dispatch.next("fresh") == suspect(3)
    assert dispatch.next("fresh") is None, "nothing beside it"
    assert dispatch.next("busy") == work(2)
    assert dispatch.next("busy") is None, "it has had other work"
    assert (dispatch.queued("a"), dispatch.suspected("a"), dispatch.idle) == (0, 1, False)
    dispatch.finish("fresh", 3)
    assert dispatch.next("fresh") is None, "nothing after it"
    assert dispatch.is_worn_out("fresh", coming=0) and not dispatch.is_worn_out("busy", coming=0)


def test_the_only_worker_sees_to_the_innocent_first() -> None:
    dispatch = Dispatch(depth=1)
    dispatch.add([suspect(1), work(2)])
    dispatch.join("only")
    assert dispatch.next("only") == work(2)
    assert not dispatch.is_worn_out("only", coming=0), "it holds work"
    dispatch.finish("only", 2)
    assert dispatch.next("only") is None
    assert dispatch.is_worn_out("only", coming=0), "one in its place would be fresh"
    dispatch.leave("only")
    dispatch.join("next")
    assert dispatch.next("next") == suspect(1)


def test_no_more_workers_make_room_than_there_are_suspects() -> None:
    dispatch = Dispatch(depth=1)
    dispatch.add([work(n) for n in range(3)])
    for n in range(3):
        dispatch.join(f"w{n}")
        assert dispatch.next(f"w{n}") == work(n)
        dispatch.finish(f"w{n}", n)
    dispatch.add([suspect(5)])
    assert dispatch.is_worn_out("w0", coming=0)
    dispatch.leave("w0")
    assert not dispatch.is_worn_out("w1", coming=1)
    dispatch.join("fresh")
    assert not dispatch.is_worn_out("w1", coming=0)


def test_suspects_of_a_closed_account_wait_for_another_session() -> None:
    dispatch = Dispatch()
    dispatch.add([suspect(1, "closed"), suspect(2)])
    dispatch.close("closed")
    dispatch.join("w")
    assert dispatch.next("w") == suspect(2)
    dispatch.finish("w", 2)
    assert dispatch.idle


@pytest.mark.parametrize("seed", range(200))
def test_random_schedules_conserve_work(seed: int) -> None:
    rng = random.Random(seed)
    dispatch = Dispatch(depth=rng.randint(1, 3))
    accounts = ["a", "b", "c"][: rng.randint(1, 3)]
    total = rng.randint(1, 40)
    dispatch.add(work(n, rng.choice(accounts)) for n in range(total))
    held: dict[str, set[int]] = {}
    done: set[int] = set()
    joined = 0
    while len(done) < total:
        if not held or (rng.random() < 0.1 and len(held) < 5):
            joined += 1
            held[f"w{joined}"] = set()
            dispatch.join(f"w{joined}")
        name = rng.choice(sorted(held))
        action = rng.random()
        if action < 0.1:
            lost = dispatch.holding(name)
            assert {entry.id for entry in lost} == held.pop(name)
            dispatch.leave(name, lost)
        elif action < 0.6:
            if (entry := dispatch.next(name)) is not None:
                assert entry.id not in done
                assert all(entry.id not in other for other in held.values())
                held[name].add(entry.id)
        elif held[name]:
            number = rng.choice(sorted(held[name]))
            held[name].remove(number)
            dispatch.finish(name, number)
            done.add(number)
        assert sum(dispatch.held(a) + dispatch.queued(a) for a in accounts) == total - len(done)
    assert dispatch.none_held
    assert dispatch.idle
