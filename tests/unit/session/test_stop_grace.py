"""A run that is to stop while its aggregator is away: it keeps its grace, and what was acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runs import Workspace, items, log_of, model, stats, trial_of

from runner.config import load_config
from runner.errors import Interrupted, JuryboxError, Terminated
from runner.scheduling import run_control
from runner.scheduling.pool import LocalPool
from runner.session.cancellation import StopSignal
from runner.session.judging import judge_plan
from runner.session.planning import plan_run
from runner.session.session import Session
from runner.simulate import Simulation, running

ROWS = items(range(60), systems=["atlas"])
BATCHES = 4


class _Leaving:
    """The real aggregator until it has taken some batches; then it answers nothing more, and the run is to stop."""

    def __init__(self, there: Any, switch: StopSignal, why: JuryboxError) -> None:
        self._there = there
        self._switch = switch
        self._why = why
        self._taken = 0

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            self._taken += name == "record"
            if self._taken > BATCHES:
                self._switch.stop(self._why) if self._switch.why is None else None
                await asyncio.get_running_loop().create_future()
            return await getattr(self._there, name)(*arguments)

        return call

    async def close(self) -> None:
        await self._there.close()


class _Pool(LocalPool):
    def __init__(self, session: Session, switch: StopSignal, why: JuryboxError) -> None:
        super().__init__(session.config, session.judges, session.run.ledger)
        leaving: Any = _Leaving(self.aggregator, switch, why)
        self.aggregator = leaving


@pytest.mark.parametrize("why", [Interrupted("interrupted by SIGINT"), Terminated("interrupted by SIGTERM")])
def test_a_stop_keeps_its_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: JuryboxError) -> None:
    monkeypatch.setattr(run_control, "GRACE_S", 0.3)
    monkeypatch.setattr(run_control, "SHORT_GRACE_S", 0.2)
    within = "0.2 s" if isinstance(why, Terminated) else "0.3 s"
    work, switch = Workspace(tmp_path), StopSignal()
    work.write_items(ROWS)
    with running(Simulation(latency_ms=20, log=tmp_path / "log")) as url:
        # Published too: whoever publishes asks the aggregator as well.
        work.write_config(model(url, limits={"in_flight": 4}), publish=str(tmp_path / "mirror"))
        with Session(load_config(work.config), tmp_path, work.out) as session:
            plan = plan_run(session)
            with pytest.raises(type(why), match=f"{why.message}; what was not recorded within {within} is asked again"):
                judge_plan(session, plan, make_pool=lambda: _Pool(session, switch, why), signal=switch)
            session.finish()
        judged = {row[0] for row in work.results().filter(state="scored").select("item_id").iter_rows()}
        assert 0 < len(judged) < len(ROWS)
        asked = stats(url)["requests"]
        assert work.run().status == 0
    work.assert_each_trial_judged_once(len(ROWS))
    work.assert_mirrored()
    again = {trial_of(entry["body"]) for entry in log_of(tmp_path / "log") if entry["n"] > asked}
    assert judged.isdisjoint(again)
