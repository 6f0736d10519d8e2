"""Every request has an id of its own, however often a trial is asked in the same stage; older ledgers go on too."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from runs import Workspace, ended_with_test, items, model, stats, until

from runner.simulate import Simulation, running


def as_it_was_once(ledger: Path) -> int:
    """Give requests one id by stage and trials, as jurybox once did; how many attempts there are."""
    with closing(sqlite3.connect(ledger)) as old, old:
        old.execute("UPDATE attempts SET request_id = stage || hex(keys) WHERE stage != 'probe'")
        old.execute("UPDATE judgments SET request_id = (SELECT request_id FROM attempts WHERE id = judgments.attempt)")
        [(count,)] = old.execute("SELECT max(id) FROM attempts").fetchall()
    return int(count)


@pytest.mark.long
def test_no_two_sends_are_named_the_same(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    rows = items(range(40))
    work.write_items(rows)
    troubled = Simulation(
        latency_ms=40, malformed=0.3, refused=0.3, miscounted=0.05, server_errors=0.1, throttled=0.1,
        retry_after_s=0.05, max_faults_in_a_row=None, unsupported=("max_tokens",),
    )  # fmt: skip
    with running(troubled) as url:
        work.write_config(
            model(url, limits={"in_flight": 8}),
            judges=["yes-no", {"use": "answer-correctness", "batch": 4}],
            retry={"attempts": 1, "rejudge": 1, "refused": 1},
        )
        with ended_with_test(work.start("run", str(work.config), "--local", "--yes", "--quiet")) as process:
            until(lambda: stats(url)["requests"] >= 60, process)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        old = as_it_was_once(work.out / "run.db")
        ended = work.run()
        assert ended.status in (0, 3), ended.stderr
        retried = work.command("retry", str(work.out), "--state", "malformed,refused,failed", "--local", "--yes")
        assert retried.status in (0, 3), retried.stderr
    work.assert_each_trial_judged_once(2 * len(rows))
    new = f"FROM attempts WHERE id > {old}"
    assert work.query(f"SELECT request_id, try, count(*) {new} GROUP BY 1, 2 HAVING count(*) > 1") == []
    assert work.query(f"SELECT 1 {new} AND request_id IN (SELECT request_id FROM attempts WHERE id <= {old})") == []
    again = f"SELECT stage {new} GROUP BY keys, stage HAVING count(DISTINCT request_id) > 1"
    assert {"rejudge:1", "refused:1"} <= {stage for (stage,) in work.query(again)}, "some are asked so more than once"
    [(sent_twice,)] = work.query(f"SELECT max(try) {new}")
    assert sent_twice > 1, "a 429 is waited out and leaves the request what it is"
    # What decided a judgment is known by its id, also where the ids were not each a request's own.
    decided = "FROM judgments j JOIN attempts a ON a.id = j.attempt WHERE j.request_id"
    assert work.query(f"SELECT count(*) {decided} != a.request_id") == [(0,)]
    assert "nothing changed" in work.command("rescore", str(work.out)).stdout
