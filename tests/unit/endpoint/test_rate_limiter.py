"""Rates, places, order and cancellation of the limiter, on a loop whose clock jumps from timer to timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from virtual_time import run

from runner.endpoint.rate_limiter import BURST_S, RateLimiter, Stopped
from runner.messages import Lease


def now() -> float:
    return asyncio.get_running_loop().time()


def leased(in_flight: int = 10**6, **limits: float | None) -> RateLimiter:
    limiter = RateLimiter("a")
    limiter.apply(Lease("a", in_flight, **limits))  # type: ignore[arg-type]
    return limiter


async def settled() -> None:
    """Let every task go as far as it can now."""
    for _ in range(20):
        await asyncio.sleep(0)


async def start_times(limiter: RateLimiter, requests: int, tokens: float = 0.0) -> list[float]:
    times: list[float] = []

    async def one() -> None:
        async with limiter.acquire(tokens):
            times.append(now())

    async with asyncio.TaskGroup() as group:
        for _ in range(requests):
            group.create_task(one())
    return times


def most_in(times: list[float], window_s: float) -> int:
    return max(sum(start <= other < start + window_s for other in times) for start in times)


@pytest.mark.parametrize("per_s", [0.05, 0.9, 3.0, 40.0, 500.0])
def test_a_request_rate_holds_and_is_used(per_s: float) -> None:
    async def test() -> None:
        times = await start_times(leased(requests_per_s=per_s), 200)
        burst = max(1.0, per_s * BURST_S)
        for window_s in (1.0, 60.0):
            assert most_in(times, window_s) <= per_s * window_s + burst + 1
        assert times[-1] == pytest.approx((200 - burst) / per_s, rel=0.02)

    run(test)


def test_a_token_rate_holds_for_requests_larger_than_its_burst() -> None:
    async def test() -> None:
        times = await start_times(leased(tokens_per_s=500.0), 20, tokens=2000.0)
        assert times[-1] == pytest.approx((20 * 2000 - 500 * BURST_S) / 500, rel=0.01)
        assert most_in(times, 60.0) * 2000 <= 500 * 60 + 2000

    run(test)


def test_both_rates_hold_together() -> None:
    async def test() -> None:
        times = await start_times(leased(requests_per_s=10.0, tokens_per_s=100.0), 50, tokens=20.0)
        assert times[-1] == pytest.approx(50 * 20 / 100, rel=0.05)

    run(test)


def test_a_large_request_is_not_overtaken() -> None:
    async def test() -> None:
        limiter, order = leased(tokens_per_s=10.0), []

        async def one(name: str, tokens: float) -> None:
            async with limiter.acquire(tokens):
                order.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(one("small 0", 1))
            group.create_task(one("large", 500))
            for n in range(1, 50):
                group.create_task(one(f"small {n}", 1))
        assert order[:3] == ["small 0", "large", "small 1"]

    run(test)


def test_no_more_than_leased_are_in_flight_and_a_smaller_lease_waits_for_them() -> None:
    async def test() -> None:
        limiter, most = leased(in_flight=3), 0
        leave = asyncio.Event()

        async def one() -> None:
            nonlocal most
            async with limiter.acquire():
                most = max(most, limiter.in_flight)
                await leave.wait()

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(one())
            await settled()
            assert (limiter.in_flight, limiter.queued) == (3, 5)
            limiter.apply(Lease("a", 4))
            await settled()
            assert (limiter.in_flight, limiter.queued) == (4, 4)
            limiter.apply(Lease("a", 1))
            leave.set()
            await settled()
        assert (limiter.in_flight, limiter.queued, most) == (0, 0, 4)

    run(test)


def test_nothing_passes_before_the_first_lease_or_with_an_empty_one() -> None:
    async def test() -> None:
        limiter = RateLimiter("a")
        waiting = asyncio.create_task(start_times(limiter, 1))
        await settled()
        limiter.apply(Lease("a", 5, 0.0, 0.0))
        await settled()
        assert limiter.queued == 1
        limiter.apply(Lease("a", 5, 1.0, None))
        assert await waiting == [pytest.approx(1.0, abs=0.01)]

    run(test)


def test_changing_a_rate_grants_no_fresh_burst() -> None:
    async def test() -> None:
        limiter, times = leased(requests_per_s=100.0), []
        per_s = 100.0
        ends = now() + 10

        async def one() -> None:
            async with limiter.acquire():
                times.append(now())

        async def ask() -> None:
            while now() < ends:
                await one()

        async def change() -> None:
            nonlocal per_s
            while now() < ends:
                await asyncio.sleep(0.1)
                per_s = 180.0 - per_s
                limiter.apply(Lease("a", 10**6, per_s))

        async with asyncio.TaskGroup() as group:
            group.create_task(change())
            for _ in range(3):
                group.create_task(ask())
        # Half of the time 100 a second, half of it 80, and one burst.
        assert 880 <= len(times) <= 900 + 25 + 3

    run(test)


def test_a_raised_rate_reaches_a_request_that_waits_at_the_old_one() -> None:
    async def test() -> None:
        limiter = leased(requests_per_s=0.001)
        waiting = asyncio.create_task(start_times(limiter, 3))
        await settled()
        limiter.apply(Lease("a", 9, 10.0))
        assert (await waiting)[-1] == pytest.approx(0.2, abs=0.02)

    run(test)


def test_an_idle_limiter_keeps_its_burst_over_a_change() -> None:
    async def test() -> None:
        limiter = leased(requests_per_s=100.0)
        limiter.apply(Lease("a", 100, 200.0))
        times = await start_times(limiter, 60)
        assert sum(time < 0.004 for time in times) in (24, 25)

    run(test)


def test_a_request_that_fails_gives_its_place_back() -> None:
    async def test() -> None:
        limiter = leased(in_flight=1)
        with pytest.raises(RuntimeError):
            async with limiter.acquire():
                raise RuntimeError
        assert limiter.in_flight == 0
        await start_times(limiter, 1)

    run(test)


def test_a_pause_holds_everybody_back() -> None:
    async def test() -> None:
        limiter = leased()
        limiter.pause(5.0)
        limiter.pause(2.0)
        waiting = asyncio.create_task(start_times(limiter, 3))
        await settled()
        assert limiter.queued == 3
        assert await waiting == pytest.approx([5.0] * 3, abs=0.01)

    run(test)


@pytest.mark.parametrize("limits", [{"requests_per_s": 0.001}, {"in_flight": 1}, {"tokens_per_s": 0.1}])
def test_stop_ends_all_waiting_and_lets_what_runs_end(limits: dict[str, Any]) -> None:
    async def test() -> None:
        limiter = leased(**limits)
        leave = asyncio.Event()

        async def one() -> None:
            async with limiter.acquire(tokens=10.0):
                await leave.wait()

        tasks = [asyncio.create_task(one()) for _ in range(5)]
        await settled()
        running = limiter.in_flight
        limiter.stop()
        limiter.apply(Lease("a", 100))
        await settled()
        assert (limiter.in_flight, limiter.queued, limiter.stopped) == (running, 0, True)
        leave.set()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(end, Stopped) for end in ends) == 5 - running
        with pytest.raises(Stopped):
            async with limiter.acquire():
                raise AssertionError

    run(test)


@pytest.mark.parametrize(
    "limits", [{"requests_per_s": 1.0}, {"in_flight": 1}, {"tokens_per_s": 10.0}, {"in_flight": 0}]
)
def test_the_cancelled_give_everything_back(limits: dict[str, Any]) -> None:
    async def test() -> None:
        limiter = leased(**limits)
        held: Awaitable[None] = asyncio.create_task(hold(limiter))
        await settled()
        waiting = [asyncio.create_task(hold(limiter)) for _ in range(6)]
        await settled()
        # The first in the queue, one within it, and the rest a little later.
        for doomed in (waiting[0], waiting[3], *waiting[4:]):
            doomed.cancel()
            await settled()
        assert limiter.queued == 2 + (limits.get("in_flight") == 0)
        for task in (held, *waiting):
            task.cancel()  # type: ignore[attr-defined]
        await asyncio.gather(held, *waiting, return_exceptions=True)
        assert (limiter.in_flight, limiter.queued) == (0, 0)
        limiter.apply(Lease("a", 1, limits.get("requests_per_s"), limits.get("tokens_per_s")))
        began = now()
        async with limiter.acquire(tokens=2.0):
            pass
        assert now() - began <= 2.0

    run(test)


async def hold(limiter: RateLimiter) -> None:
    async with limiter.acquire(tokens=2.0):
        await asyncio.sleep(1000)


def test_an_endpoint_that_has_not_answered_yet_gets_a_few_requests_only() -> None:
    async def test() -> None:
        limiter = leased(in_flight=5)
        limiter.restrict(2)
        release = asyncio.Event()

        async def one() -> None:
            async with limiter.acquire():
                await release.wait()

        async with asyncio.TaskGroup() as group:
            for _ in range(9):
                group.create_task(one())
            await settled()
            assert limiter.in_flight == 2
            limiter.restrict(None)
            await settled()
            assert limiter.in_flight == 5
            release.set()

    run(test)


@pytest.mark.parametrize("limits", [{}, {"requests_per_s": 2.0}])
def test_a_probe_passes_while_the_others_are_held(limits: dict[str, Any]) -> None:
    async def test() -> None:
        limiter = leased(in_flight=5, **limits)
        limiter.restrict(0)
        waiting = [asyncio.create_task(hold(limiter)) for _ in range(4)]
        await settled()
        assert (limiter.in_flight, limiter.queued) == (0, 4)
        begun = now()
        for _ in range(3):
            async with limiter.acquire(2.0, probe=True):
                assert (limiter.in_flight, limiter.queued) == (1, 4)
        # A probe keeps to the rates like anything else.
        assert now() - begun >= (1.0 if limits else 0.0)
        limiter.restrict(None)
        if not limits:
            await settled()
            assert limiter.in_flight == 4
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert (limiter.in_flight, limiter.queued) == (0, 0)

    run(test)


def test_holding_reaches_a_request_that_waits_for_its_rate() -> None:
    async def test() -> None:
        limiter = leased(in_flight=5, requests_per_s=1.0)
        async with limiter.acquire():
            pass
        waiting = asyncio.create_task(start_times(limiter, 1))
        await settled()
        limiter.restrict(0)
        await asyncio.sleep(60)
        assert not waiting.done()
        limiter.restrict(None)
        assert await waiting == [pytest.approx(60.0, abs=0.1)]

    run(test)
