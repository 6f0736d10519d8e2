"""Several workers and one budget: what the dead may have spent counts and no more, and what can be paid is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from deadly import Deadly
from runs import items, log_of, model
from spending import assert_covered, charged, reserved

from runner.errors import StoppedEarly
from runner.simulate import Simulation, running

PRICE = {"input": 2.5, "output": 10.0}
CAP_USD = 5.0


def test_the_dead_do_not_take_their_grants_along(tmp_path: Path) -> None:
    rows = items(range(20))
    work = Deadly(tmp_path, "q3-atlas", "q8-atlas", "q11-brook", "q17-brook")
    work.write_items(rows)
    with running(Simulation(latency_ms=5, log=tmp_path / "log")) as url:
        work.write_config(
            model(url, price=PRICE, limits={"in_flight": 4}), judges=["./mine.py:judge"], budget={"usd": CAP_USD}
        )
        started = work.judge(1)
        # Each had been granted half of what was left: by now that would be less than a request costs.
        assert CAP_USD / 2 ** (started - 1) < 0.0005
    work.assert_each_trial_judged_once(len(rows))
    assert set(work.poisoned()) == {"q3-atlas", "q8-atlas", "q11-brook", "q17-brook"}
    assert assert_covered(work.out / "run.db", log_of(tmp_path / "log"), PRICE).usd < 0.1
    assert 0 < reserved(work.out / "run.db").usd < CAP_USD


def test_the_last_of_the_money_goes_where_it_can_pay_whoever_holds_the_dear_work(tmp_path: Path) -> None:
    rows = items(range(30))
    work = Deadly(tmp_path)
    work.write_items(rows)
    prices = {"cheap": {"input": 0.01, "output": 0.04}, "dear": {"input": 100.0, "output": 400.0}}
    logs = {name: tmp_path / name for name in prices}
    cheap_log, dear_log = (Simulation(latency_ms=5, log=log) for log in logs.values())
    with running(cheap_log) as cheap, running(dear_log) as dear:
        judges = [
            model(url, name, price=prices[name], limits={"in_flight": 4}, account=name)
            for url, name in ((cheap, "cheap"), (dear, "dear"))
        ]
        work.write_config(*judges, judges=["./mine.py:judge"], budget={"usd": 0.6})
        with pytest.raises(
            StoppedEarly, match=r"the budget of 0\.6 USD is spent but for .* raise budget\.usd to go on"
        ):
            work.judge(3)
        billed = {name: charged(log_of(log), prices[name]) for name, log in logs.items()}
    assert sum(spent.usd for spent in billed.values()) <= 0.6
    judged = dict(work.query("SELECT model, count(*) FROM judgments JOIN shards ON id = shard GROUP BY model"))
    assert judged["cheap"] == len(rows)
    assert 2 <= judged["dear"] < len(rows)
