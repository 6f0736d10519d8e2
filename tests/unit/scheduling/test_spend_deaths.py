"""Workers that die while others go on: what they had been granted is free again, but for what they may have spent."""

from __future__ import annotations

from pathlib import Path

from deadly import Deadly
from runs import items, log_of, model
from spending import assert_covered, reserved

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
