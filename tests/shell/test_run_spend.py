"""Processes killed in the middle: what the endpoint has charged lies between what is settled and that with what may be.

And the cap on money holds with every request counted, whoever died.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from plain_endpoint import answering, saying
from runs import DEADLINE_S, Workspace, ended_with_test, items, log_of, model, stats, until
from spending import assert_covered, charged, reserved

from runner.simulate import Simulation, running

PRICE = {"input": 2.5, "output": 10.0}
FAULTS: dict[str, Any] = {"resets": 0.03, "malformed": 0.05, "server_errors": 0.03}


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def kill(work: Workspace, url: str, moment: int | str, *, unless: int | None = None) -> None:
    """Run until so many more requests have come, or until a failpoint, passed so often; it is killed there.

    `unless`: the exit status with which it may have ended before.
    """
    before = stats(url)["requests"]
    armed = work.folder / "failpoints"
    armed.mkdir(exist_ok=True)
    work.environment["JURYBOX_FAILPOINTS"] = str(armed)
    if isinstance(moment, str):
        name, passes = moment.split(":")
        (armed / name).write_text(passes)
    with ended_with_test(work.start("run", str(work.config), "--local", "--yes", "--quiet")) as process:
        if isinstance(moment, int):
            until(lambda: stats(url)["requests"] >= before + moment, process)
            process.kill()
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode in (-signal.SIGKILL, unless)
    for left in armed.iterdir():
        left.unlink()
    quiet(url)


def quiet(url: str) -> None:
    """Wait for the end of what is under way at the endpoint: it does not care whether anybody waits for its replies."""
    deadline = time.monotonic() + DEADLINE_S
    while stats(url)["open"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_killed_at_any_moment_the_endpoints_log_is_within_what_is_settled_and_reserved(work: Workspace) -> None:
    rows = items(range(150))
    work.write_items(rows)
    log = work.folder / "log"
    ledger = work.out / "run.db"
    with running(Simulation(latency_ms=30, log=log, **FAULTS)) as url:
        work.write_config(model(url, price=PRICE, limits={"in_flight": 16}))
        for moment in (1, "before-commit:3", "after-commit:3", 60):
            kill(work, url, moment)
            assert_covered(ledger, log_of(log), PRICE)
        left = reserved(ledger)
        assert left.requests >= 3
        status = work.command("status", str(work.out), "--json")
        assert status.report["unsettled"] == {"requests": left.requests, "tokens": left.tokens, "cost_usd": left.usd}

        done = work.run()
        assert done.status == 0, done.stderr
        quiet(url)
    work.assert_each_trial_judged_once(len(rows))
    assert_covered(ledger, log_of(log), PRICE)
    # The last session ended in good order: of what it reserved nothing is left, but for what was lost on the way.
    ((lost,),) = work.query("SELECT count(*) FROM attempts WHERE error LIKE 'connection:%'")
    still = reserved(ledger)
    assert left.requests <= still.requests <= left.requests + lost
    assert done.report["unsettled"]["requests"] == still.requests
    (said,) = [notice for notice in done.report["notices"] if "may have been billed" in notice]
    assert f"{still.requests} requests, {still.tokens:,} tokens" in said


@pytest.mark.long
def test_a_cap_on_money_holds_at_the_endpoint_whoever_is_killed(work: Workspace) -> None:
    cap = 0.04
    # A reply is one token long, and may be four: a request can come to four times what it costs.
    price = {"input": 0.01, "output": 100.0}
    work.write_items(items(range(300)))
    log = work.folder / "log"
    ledger = work.out / "run.db"
    with running(Simulation(latency_ms=30, log=log)) as url:
        judge = model(url, price=price, limits={"in_flight": 4}, sampling={"max_tokens": 4})
        work.write_config(judge, budget={"usd": cap})
        for moment in (20, "after-commit:2"):
            # Where commits are slow, more is reserved ahead: of so little money that may be all that is left.
            kill(work, url, moment, unless=4)
            assert assert_covered(ledger, log_of(log), price).usd <= cap
        before = reserved(ledger).usd
        assert before > 0
        stopped = work.run()
        assert stopped.status == 4, stopped.stderr
        assert f"the budget of {cap} USD is spent" in stopped.stderr
        quiet(url)
        billed = assert_covered(ledger, log_of(log), price)
        assert billed.usd <= cap
        assert billed.usd + before > cap * 0.9, "the money goes where it can"


def test_a_cap_on_money_holds_where_every_byte_is_billed_as_a_token(work: Workspace) -> None:
    cap = 0.02
    price = {"input": 2.5, "output": 10.0}
    work.write_items(items(range(300)))
    billed: list[float] = []

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        given = len(body["messages"][-1]["content"].encode())
        billed.append((given * price["input"] + price["output"]) / 1e6)
        return saying("Yes", prompt_tokens=given)

    with answering(answer) as url:
        work.write_config(model(url, price=price, limits={"in_flight": 16}), budget={"usd": cap})
        stopped = work.run()
    assert stopped.status == 4, stopped.stderr
    assert f"the budget of {cap} USD is spent but for" in stopped.stderr
    assert cap * 0.8 < sum(billed) <= cap


@pytest.mark.parametrize(("unit", "cap", "next_most"), [("requests", 40, 0), ("tokens", 15_000, 1200)])
def test_a_cap_on_requests_or_tokens_holds_at_the_endpoint_and_a_larger_one_goes_on(
    work: Workspace, unit: str, cap: int, next_most: int
) -> None:
    """Requests that failed or brought no verdict count as all others do."""
    rows = items(range(60))
    faults: dict[str, Any] = {"malformed": 0.1, "throttled": 0.05, "server_errors": 0.05}
    log = work.folder / "log"
    undisturbed = Workspace(work.folder / "undisturbed")
    with running(Simulation(**faults)) as url:
        undisturbed.write_items(rows)
        undisturbed.write_config(model(url, limits={"in_flight": 8}))
        assert undisturbed.run().status == 0
    work.write_items(rows)
    with running(Simulation(log=log, **faults)) as url:

        def taken() -> int:
            return int(getattr(charged(log_of(log), PRICE), unit))

        work.write_config(model(url, limits={"in_flight": 8}), budget={unit: cap})
        stopped = work.run()
        assert stopped.status == 4, stopped.stderr
        assert f"the budget of {cap:,} {unit} is spent but for" in stopped.stderr
        assert f"raise budget.{unit}" in stopped.stderr
        assert cap - next_most <= taken() <= cap
        assert 0 < stopped.report["done"] < len(rows)

        before = taken()
        assert work.run().status == 4
        assert taken() == before, "the same cap again buys nothing more"

        done = work.run("--set", f"budget.{unit}={20 * cap}")
        assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(len(rows))
    assert work.verdicts() == undisturbed.verdicts()


def test_a_run_without_trouble_leaves_nothing_reserved_and_says_nothing(work: Workspace) -> None:
    work.write_items(items(range(20)))
    log = work.folder / "log"
    with running(Simulation(log=log, malformed=0.1)) as url:
        work.write_config(model(url, price=PRICE))
        done = work.run()
        assert done.status == 0, done.stderr
    billed = assert_covered(work.out / "run.db", log_of(log), PRICE)
    assert done.report["cost_usd"] == pytest.approx(billed.usd)
    assert done.report["unsettled"] == {"requests": 0, "tokens": 0, "cost_usd": 0.0}
    assert "billed" not in done.stdout
