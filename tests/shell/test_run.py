"""`jurybox run` in one process: faults change nothing but the bill, and only what is missing is ever asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import Workspace, items, log_of, model, stats, trial_of

from runner.simulate import Simulation, running

FAULTS: dict[str, Any] = {
    "malformed": 0.05,
    "malformed_skew": 3.0,
    "server_errors": 0.03,
    "resets": 0.02,
    "throttled": 0.03,
    "retry_after_s": 0.01,
}
ITEMS = items(range(150))


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[str, Any]]:
    """A finished run without any fault, and its report."""
    work = Workspace(tmp_path_factory.mktemp("clean"))
    work.write_items(ITEMS)
    with running(Simulation(log=work.folder / "log")) as url:
        work.write_config(model(url))
        done = work.run()
        assert (done.status, done.stderr) == (0, "")
        assert stats(url)["requests"] == len(ITEMS)
    work.assert_each_trial_judged_once(len(ITEMS))
    return work, done.report


def scores(report: dict[str, Any]) -> list[Any]:
    """The numbers of a report that faults must not change."""
    keys = ("system", "planned", "scored", "scores", "macro")
    return [
        [result[key] for key in keys] + [group["scores"] for group in result["groups"]] for result in report["results"]
    ]


def test_a_fault_free_run_reports_what_the_endpoint_said(clean: tuple[Workspace, dict[str, Any]]) -> None:
    work, report = clean
    assert (report["complete"], report["planned"], report["done"], report["unscored"]) == (True, 300, 300, 0)
    assert report["simulated"]
    right = {"atlas": 0, "brook": 0}
    for (system, *_), verdict in work.verdicts().items():
        right[system] += verdict == '{"correct": true}'
    assert {r["system"]: r["scores"]["correct"]["share"]["hits"] for r in report["results"]} == right
    # Neither all right nor all wrong, or the tests that compare with this run would show nothing.
    assert 30 < min(right.values()) <= max(right.values()) < 120
    assert {trial_of(entry["body"]) for entry in log_of(work.folder / "log")} == {row["id"] for row in ITEMS}


def test_faults_change_no_verdict_and_no_metric(clean: tuple[Workspace, dict[str, Any]], work: Workspace) -> None:
    work.write_items(ITEMS)
    with running(Simulation(**FAULTS)) as url:
        work.write_config(model(url))
        done = work.run()
        seen = stats(url)
    assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(len(ITEMS))
    assert set(seen["by_fault"]) == {"malformed", "server_errors", "resets", "throttled"}
    # Every fault cost one more request, and nothing else did; every request is an attempt in the ledger.
    assert seen["requests"] == len(ITEMS) + sum(seen["by_fault"].values())
    assert work.query("SELECT count(*) FROM attempts") == [(seen["requests"],)]
    assert work.verdicts() == clean[0].verdicts()
    assert scores(done.report) == scores(clean[1])


def test_what_has_no_score_is_counted_and_decides_the_exit_status(
    clean: tuple[Workspace, dict[str, Any]], work: Workspace
) -> None:
    work.write_items(ITEMS)
    with running(Simulation(**FAULTS, refused=0.06, truncated=0.01)) as url:
        work.write_config(model(url), max_unscored=0.5)
        done = work.run()
        asked = stats(url)["requests"]
        assert done.status == 0, done.stderr
        work.assert_each_trial_judged_once(len(ITEMS))
        verdicts, sound = work.verdicts(), clean[0].verdicts()
        unscored = {trial for trial, verdict in verdicts.items() if verdict is None}
        assert 0 < len(unscored) < 60
        assert {trial: verdicts[trial] for trial in verdicts.keys() - unscored} == {
            trial: sound[trial] for trial in sound.keys() - unscored
        }
        assert done.report["unscored"] == len(unscored)
        for result in done.report["results"]:
            accuracy, strict = (result["scores"]["correct"][name] for name in ("share", "strict"))
            assert (accuracy["n"], strict["n"]) == (result["scored"], result["planned"])
            assert accuracy["hits"] == strict["hits"]
        states = set(work.results()["state"])
        assert states == {"scored", "refused"}

        just_enough = (len(unscored) + 0.5) / len(ITEMS)
        assert work.run("--set", f"max_unscored={just_enough}").status == 0
        too_few = (len(unscored) - 0.5) / len(ITEMS)
        again = work.run("--set", f"max_unscored={too_few}")
        assert again.status == 3
        assert again.report["over_limit"] == [
            {"judge": "yes-no", "model": "judge", "unscored": len(unscored), "planned": len(ITEMS)}
        ]
        assert stats(url)["requests"] == asked


def test_a_finished_run_asks_nothing_and_does_not_start_ray(work: Workspace) -> None:
    work.write_items(items(range(10)))
    with running() as url:
        work.write_config(model(url))
        first = work.run()
        assert first.status == 0
        # Without --local: this run would be on Ray, which cannot be imported here.
        again = work.command("run", str(work.config), "--json")
        assert again.status == 0
        assert "nothing to do: all 20 trials are judged" in again.stderr
        assert again.report == first.report
        assert stats(url)["requests"] == 20


def test_changed_inputs_buy_exactly_the_difference(work: Workspace) -> None:
    with running(Simulation(log=work.folder / "log")) as url:
        work.write_config(model(url))
        work.write_items(items(range(40)))
        assert work.run("--limit", "30").status == 0
        assert stats(url)["requests"] == 30
        assert work.results().height == 30
        assert work.run().status == 0
        assert stats(url)["requests"] == 80

        before = work.verdicts()
        edited = items(range(50))
        edited[7]["response"] += " Or is it?"
        edited.reverse()
        work.write_items(edited)
        done = work.run()
        assert done.status == 0
        assert done.report["planned"] == 100
        asked = [trial_of(entry["body"]) for entry in sorted(log_of_all(work, url), key=lambda e: e["n"])[80:]]
        assert sorted(asked) == sorted([edited[-8]["id"], *(row["id"] for row in items(range(40, 50)))])
        work.assert_each_trial_judged_once(100)
        after = work.verdicts()
        kept = [trial for trial in before if trial[1] != edited[-8]["id"]]
        assert len(kept) == 79
        assert {trial: after[trial] for trial in kept} == {trial: before[trial] for trial in kept}

        # Taken out again, and back: what was paid is not paid twice.
        work.write_items(items(range(20, 40)))
        assert work.run().report["planned"] == 40
        work.write_items(edited)
        assert work.run().report["planned"] == 100
        assert stats(url)["requests"] == 101
        assert work.verdicts() == after


def log_of_all(work: Workspace, url: str) -> list[dict[str, Any]]:
    """The log, with every request that has ended."""
    stats(url)
    return log_of(work.folder / "log")
