"""Whether an account is worth going on with: never reached, away too long, or waiting for its user."""

from __future__ import annotations

from typing import Any

from runner.config import parse_config
from runner.endpoint.health_monitor import NEVER_REACHED_S, STARTERS, HealthMonitor
from runner.messages import AccountStats, Lease


def outlook(**retry: Any) -> HealthMonitor:
    model = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    return HealthMonitor(
        parse_config(
            {
                "name": "t",
                "items": {"path": "x"},
                "judges": ["yes-no"],
                "models": [
                    {"name": "a", **model, "account": "shared"},
                    {"name": "b", **model, "model": "n", "account": "shared"},
                ],
                "retry": retry,
            }
        )
    )


def news(**seen: Any) -> list[AccountStats]:
    return [AccountStats("shared", **seen)]


def test_an_endpoint_that_never_answers_is_given_up_after_a_few_probes() -> None:
    seen = outlook()
    assert seen.observe("w", news(failing=2, unreachable=2, last_error="refused"), 0.0) == []
    assert seen.observe("w", news(failing=9, unreachable=9), NEVER_REACHED_S - 0.1) == []
    assert seen.observe("w", news(failing=9, unreachable=9), NEVER_REACHED_S) == ["shared"]
    assert "never reached" in seen.given_up["shared"]
    assert "refused" in seen.given_up["shared"]
    assert seen.closed == ("shared",)


def test_an_endpoint_that_answered_once_is_waited_for_until_max_outage() -> None:
    seen = outlook(max_outage="60s")
    seen.observe("w", news(succeeded=1, answered=1), 0.0)
    assert seen.observe("w", news(failing=50, unreachable=50), 10.0) == []
    assert seen.observe("w", news(failing=90, unreachable=90), 69.0) == []
    assert seen.observe("w", news(failing=90, unreachable=90), 70.0) == ["shared"]
    assert "60s" in seen.given_up["shared"]


def test_one_success_at_any_worker_ends_the_trouble() -> None:
    seen = outlook(max_outage="60s")
    seen.observe("w1", news(failing=5), 0.0)
    seen.observe("w2", news(succeeded=3, answered=3), 50.0)
    assert seen.observe("w1", news(failing=6), 61.0) == []


def test_an_endpoint_that_nobody_asks_any_more_is_not_away() -> None:
    seen = outlook(max_outage="60s")
    seen.observe("w1", news(succeeded=3, answered=3), 0.0)
    for now in range(200):
        # Its last request there failed and was put off; another worker had its last try. Both have other work since.
        seen.limit_demand({"w1": {"other": 5}, "w2": {"other": 5, "shared": 0}})
        assert seen.observe("w2", news(failing=6), float(now)) == []
    seen.limit_demand({"w1": {"other": 5}, "w2": {"shared": 1}})
    seen.observe("w2", news(failing=7), 200.0)
    assert seen.observe("w2", news(failing=8), 260.0) == ["shared"], "asked again, it is away"


def test_429s_are_no_outage_as_long_as_something_is_let_through() -> None:
    seen = outlook(max_outage="60s")
    for now in range(0, 600, 10):
        through = now % 50 == 40
        told = news(answered=5 + through, succeeded=int(through), throttled=5, put_off=now % 50)
        assert seen.observe("w", told, float(now)) == []
    assert seen.throttled == {"shared": 300}


def test_an_endpoint_that_answers_nothing_but_429s_is_given_up_after_max_outage() -> None:
    seen = outlook(max_outage="60s")
    seen.observe("w", news(succeeded=1, answered=1), 0.0)
    words = "throttled: HTTP 429: slow down, Retry-After 3600 s"
    assert seen.observe("w", news(answered=3, throttled=3, put_off=3, last_error=words), 5.0) == []
    # Asked to wait for so long, it sends nothing meanwhile.
    for now in range(6, 65):
        assert seen.observe("w", news(put_off=3, last_error=words), float(now)) == []
    assert seen.observe("w", news(put_off=3, last_error=words), 65.0) == ["shared"]
    assert f"answered nothing but 429s for 60s ({words})" in seen.given_up["shared"]


def test_what_one_worker_gets_through_counts_for_those_that_get_429s() -> None:
    seen = outlook(max_outage="60s")
    for now in range(0, 600, 30):
        assert seen.observe("w1", news(answered=1, throttled=1, put_off=now + 1), float(now)) == []
        seen.observe("w2", news(answered=1, succeeded=1), float(now + 1))
    # It has nothing left to ask there, and neither has the other: no trouble.
    seen.limit_demand({"w1": {"other": 1}, "w2": {"other": 1}})
    assert seen.observe("w1", news(put_off=601), 700.0) == []
    assert seen.observe("w1", news(put_off=601), 900.0) == []


def test_429s_and_failures_in_turn_are_an_outage_too() -> None:
    seen = outlook(max_outage="60s")
    for now in range(0, 60, 2):
        assert seen.observe("w", news(answered=1, throttled=1, put_off=1 + now), float(now)) == []
        assert seen.observe("w", news(answered=1, failing=1, put_off=1 + now, last_error="server"), now + 1.0) == []
    assert seen.observe("w", news(answered=1, failing=1, put_off=60, last_error="server"), 60.0) == ["shared"]
    assert "gave no good reply for 60s (server)" in seen.given_up["shared"]


def test_what_takes_no_requests_now_is_said() -> None:
    seen = outlook(max_outage="60s")
    seen.observe("w", news(succeeded=1, answered=1), 0.0)
    assert seen.states == {}
    seen.observe("w", news(failing=10, is_open=True), 1.0)
    assert seen.states == {}, "whether it is away is not known yet"
    seen.observe("w", news(failing=11, is_open=True, probes=1), 2.0)
    assert seen.states == {"shared": "endpoint away, probing"}
    seen.observe("w", news(succeeded=1, answered=1), 3.0)
    assert seen.states == {}
    seen.observe("w", news(failing=11, is_open=True, probes=1), 4.0)
    seen.observe("w", news(failing=12, is_open=True, probes=2), 64.0)
    assert seen.states == {"shared": "stopped"}


def test_what_a_dead_worker_saw_is_forgotten() -> None:
    seen = outlook(max_outage="60s")
    seen.observe("w1", news(failing=5), 0.0)
    seen.forget("w1")
    assert seen.observe("w2", news(), 100.0) == []


def test_action_needed_closes_the_account_with_the_first_words() -> None:
    seen = outlook()
    seen.close_account("shared", "a: Incorrect API key")
    seen.close_account("shared", "b: later words")
    assert seen.action_needed == {"shared": "a: Incorrect API key"}
    assert seen.closed == ("shared",)


def test_an_endpoint_that_has_not_shown_that_it_works_is_asked_by_a_few_workers() -> None:
    seen = outlook()
    demand = {f"w{n}": {"shared": 5, "other": 1} for n in range(6)} | {"idle": {"other": 1}}
    first = seen.limit_demand(demand)
    assert [worker for worker, held in first.items() if "shared" in held] == [f"w{n}" for n in range(STARTERS)]
    assert all("other" in held for held in first.values())
    # One that has nothing left makes room for another.
    assert "shared" in seen.limit_demand(demand | {"w0": {}})[f"w{STARTERS}"]
    seen.observe("w1", news(answered=1), 0.0)
    assert seen.working == 0
    seen.observe("w1", news(answered=1, succeeded=1), 0.0)
    assert seen.working == 1
    assert seen.limit_demand(demand) == demand


def test_an_endpoint_that_is_away_is_probed_by_one_worker_at_a_time() -> None:
    seen, leases = outlook(), (Lease("shared", 4), Lease("other", 4))

    def turns(now_s: float) -> list[str]:
        return [w for w in ("a", "b") if any(lease.probe for lease in seen.assign_probes(w, leases, now_s))]

    assert turns(0.0) == []
    for worker in ("a", "b"):
        seen.observe(worker, news(failing=12, is_open=True, probes=1), 0.0)
    assert turns(0.5) == []
    assert turns(1.0) == ["a"]
    seen.observe("a", news(failing=13, is_open=True, probes=2), 1.2)
    assert turns(2.0) == []
    assert turns(3.2) == ["b"]
    seen.observe("b", news(succeeded=1, answered=1), 3.5)
    assert turns(3.6) == ["a"], "it is back: whoever was held asks"
