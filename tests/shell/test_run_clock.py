"""The clock on the wall is set a day back and forth throughout a run: nothing but columns of the ledger can tell."""

from __future__ import annotations

import ast
import itertools
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from runs import ROOT, Workspace, items, model, stats

from runner.config import load_config
from runner.endpoint import response as completion
from runner.session.judging import judge_plan, local_pool
from runner.session.planning import plan_run
from runner.session.session import Session
from runner.simulate import Simulation, running

DAY_S = 86_400.0
ROWS = items(range(100))
RPM = 3000

WALL_CLOCK = {
    "runner.endpoint.response": "Retry-After as a date, from an endpoint that does not tell its own time",
    "runner.ledger.ledger": "retired_at",
    "runner.ledger.revisions": "made_at",
    "runner.publishing.restore": "retired_at, made_at",
    "runner.session.run_status": "how long ago sent_at is, for the rate that `status` says",
    "runner.worker.judgment": "judged_at",
    "runner.worker.sending": "sent_at",
}
"""Who may look at the clock on the wall → the column that it is for."""


def test_only_columns_hold_the_time_of_day() -> None:
    used = set()
    for path in [*(ROOT / "runner").rglob("*.py"), *(ROOT / "judges").rglob("*.py"), ROOT / "jurybox.py"]:
        if path.is_relative_to(ROOT / "runner" / "simulate"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in (
                *("time.time", "time.time_ns", "time.localtime", "time.gmtime"),
                *("datetime.now", "datetime.utcnow", "datetime.today", "datetime.datetime.now", "date.today"),
            ):
                used.add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert used == WALL_CLOCK.keys(), "wait and measure by time.monotonic or the loop's clock"


def test_a_clock_that_jumps_a_day_back_and_forth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    jumps = itertools.cycle((0.0, DAY_S, -DAY_S))

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Jumping:
            return super().now(tz) + timedelta(seconds=next(jumps))

    work = Workspace(tmp_path)
    work.write_items(ROWS)
    simulation = Simulation(latency_ms=20, malformed=0.05, throttled=0.05, server_errors=0.03, rpm=1.2 * RPM)
    with running(simulation) as url:
        work.write_config(model(url, limits={"in_flight": 8, "rpm": RPM}))
        with monkeypatch.context() as patch, Session(load_config(work.config), tmp_path, work.out) as session:
            patch.setattr(time, "time", lambda: real() + next(jumps))
            patch.setattr(completion, "datetime", Jumping)
            judge_plan(session, plan_run(session), make_pool=lambda: local_pool(session))
            assert session.finish().complete
        seen = stats(url)
    work.assert_each_trial_judged_once(len(ROWS))
    times = [row[0] for row in work.query("SELECT sent_at FROM attempts ORDER BY id")]
    assert max(times) - min(times) > DAY_S, "the clock did jump"
    # Nobody asked faster, gave up earlier or asked again because of it.
    assert seen["max_in_flight"]["simulated-judge"] <= 8
    assert sum(seen["by_limit"].values()) <= 5
    assert seen["requests"] == len(ROWS) + sum(seen["by_fault"].values()) + sum(seen["by_limit"].values())

    calm = Workspace(tmp_path / "calm")
    calm.write_items(ROWS)
    with running(Simulation(malformed=0.05)) as url:
        calm.write_config(model(url))
        assert calm.run().status == 0
    assert work.results()["item_id"].to_list() == calm.results()["item_id"].to_list()
    assert work.verdicts() == calm.verdicts()
