"""The reformat stage in whole runs: a copied verdict is the judge's own or none, and its failures are nobody's."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from runs import Workspace, ended_with_test, finish, items, log_of, model, stats, until

from runner.simulate import Simulation, running

ROWS = items(range(60))
LADDER = (
    "SELECT stage, model, count(*), sum(input_tokens + output_tokens) FROM attempts GROUP BY stage, model "
    "ORDER BY stage, model"
)


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(ROWS)
    return work


def sound(work: Workspace, simulation: dict[str, Any], **config: Any) -> dict[tuple[str, ...], str | None]:
    """The verdicts of a run without faults."""
    other = Workspace(work.folder / "sound")
    other.write_items(ROWS)
    with running(Simulation(**simulation)) as url:
        other.write_config(model(url), **config)
        done = other.run()
        assert done.status == 0, done.stderr
    return other.verdicts()


@pytest.mark.parametrize(
    ("judge", "structured"),
    [
        ("yes-no", "enforced"),
        pytest.param("score-0-5", "enforced", marks=pytest.mark.long),
        pytest.param("correct-and-score", "enforced", marks=pytest.mark.long),
        ("longmemeval-hindsight", "ignored"),
        pytest.param("answer-correctness", "enforced", marks=pytest.mark.long),
    ],
)
def test_a_verdict_in_prose_is_copied_and_bought_no_second_time(work: Workspace, judge: str, structured: str) -> None:
    clean = sound(work, {"structured": structured}, judges=[judge])
    with running(Simulation(structured=structured, mumbled=0.5, max_faults_in_a_row=None)) as url:
        work.write_config(model(url), judges=[judge], retry={"reformat": "same"})
        done = work.run()
        assert done.status == 0, done.stderr
        seen = stats(url)
    work.assert_each_trial_judged_once(len(ROWS))
    assert work.verdicts() == clean
    results = work.results()
    copied = results.filter(results["stage"] == "reformat")
    assert 30 < copied.height < 90
    assert seen["by_fault"]["mumbled"] == len(set(copied["request_id"].to_list()))
    for notes in copied["notes"].to_list():
        assert "reformat:judge" in notes
        assert any(note.startswith("prompt:") for note in notes)
    # The stored reply and the request are the judge's own.
    assert all("in this case." in text for text in copied["judge_reply"].to_list())
    assert work.query("SELECT count(DISTINCT stage) FROM attempts WHERE stage LIKE 'rejudge%'") == [(0,)]
    assert work.query("SELECT count(*) FROM attempts") == [(seen["requests"],)]


def test_the_model_of_the_stage_has_limits_money_and_a_place_in_the_books_of_its_own(work: Workspace) -> None:
    price = {"input": 1.0, "output": 4.0}
    with running(Simulation(mumbled=0.5)) as judge_url, running(Simulation(log=work.folder / "log")) as url:
        cheap = model(url, "cheap", limits={"in_flight": 2}, price={"input": 0.1, "output": 0.4})
        work.write_config(model(judge_url, price=price), retry={"reformat": cheap}, budget={"usd": 5.0})
        done = work.run()
        assert done.status == 0, done.stderr
        assert stats(url)["max_in_flight"]["simulated-cheap"] <= 2
        assert stats(judge_url)["requests"] == len(ROWS)
        asked = log_of(work.folder / "log")
        status = work.command("status", str(work.out))
    copied = len(asked)
    assert 30 < copied < 90
    for entry in asked:
        body = json.loads(entry["body"])
        assert body["temperature"] == 0
        (message,) = body["messages"]
        assert "harbour" not in message["content"]
        assert message["content"].count("in this case.") == 1
    ((requests, usd),) = work.query("SELECT requests, cost_usd FROM spend WHERE model = 'cheap'")
    assert requests == copied
    costs = {(cost["judge"], cost["model"]): cost for cost in done.report["costs"]}
    assert costs["yes-no", "cheap"]["requests"] == copied
    assert done.report["planned"] == len(ROWS)
    assert "yes-no × cheap" in status.stdout
    shown = work.command("report", str(work.out), "--section", "costs")
    assert (shown.status, "cheap" in shown.stdout) == (0, True), shown.stderr
    # What the trials have cost is what was spent, the copies included.
    ((everything,),) = work.query("SELECT sum(cost_usd) FROM spend")
    assert sum(work.results()["cost_usd"].to_list()) == pytest.approx(everything)
    assert usd > 0


def test_a_model_that_lies_is_never_believed(work: Workspace) -> None:
    clean = sound(work, {})
    with running(Simulation(mumbled=0.2, malformed=0.4)) as judge_url, running(Simulation(reformat_lies=True)) as url:
        work.write_config(model(judge_url), retry={"reformat": model(url, "liar")})
        done = work.run()
        assert done.status == 0, done.stderr
        assert stats(url)["requests"] > 30
    assert work.verdicts() == clean
    assert "reformat" not in set(work.results()["stage"])


@pytest.mark.long
@pytest.mark.parametrize("trouble", ["wrong_key", "server_errors", "unknown", "away"])
def test_where_the_model_fails_the_run_goes_on_without_it(work: Workspace, trouble: str) -> None:
    options: dict[str, dict[str, Any]] = {
        "wrong_key": {"api_key": "sk-right"},
        "server_errors": {"server_errors": 1.0, "max_faults_in_a_row": None},
        "unknown": {"only_models": ("another",)},
        "away": {},
    }
    clean = sound(work, {})
    with running(Simulation(**options[trouble])) as url:
        away = url
    with running(Simulation(mumbled=0.5)) as judge_url, running(Simulation(**options[trouble])) as url:
        work.write_config(model(judge_url), retry={"reformat": model(away if trouble == "away" else url, "gone")})
        done = work.run()
        assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(len(ROWS))
    assert work.verdicts() == clean
    results = work.results()
    assert "reformat" not in set(results["stage"])
    assert any(note.startswith("reformat_failed") for notes in results["notes"].to_list() for note in notes)


@pytest.mark.long
@pytest.mark.parametrize("rejudge", [0, 2])
def test_a_stop_makes_no_reply_final_whose_copy_was_not_tried(work: Workspace, rejudge: int) -> None:
    clean = sound(work, {})
    simulation = Simulation(mumbled=1, latency_ms=400, max_faults_in_a_row=None)
    with running(simulation) as url:
        work.write_config(
            model(url, limits={"in_flight": 32}),
            retry={"rejudge": rejudge, "reformat": "same"},
        )
        with ended_with_test(work.start("run", str(work.config), "--local", "--yes", "--quiet")) as process:
            until(lambda: stats(url)["requests"] >= 12, process)
            process.send_signal(signal.SIGINT)
            assert finish(process).status == 130
        waiting = work.query("SELECT count(*) FROM pending")[0][0]
        assert waiting > 0
        assert work.query("SELECT sum(json_extract(history, '$.attempts')) FROM pending") == [(waiting,)]
        assert work.query("SELECT count(*) FROM judgments WHERE state <> 'scored'") == [(0,)]
        # The replies are kept and counted, and none was bought in place of a copy.
        assert work.query("SELECT count(*) FROM attempts WHERE stage = 'first' AND state = 'ok'")[0][0] >= waiting
        assert work.run().status == 0
        requests = stats(url)["requests"]
    work.assert_each_trial_judged_once(len(ROWS))
    assert work.verdicts() == clean
    assert set(work.results()["stage"]) == {"reformat"}
    assert work.query("SELECT count(*) FROM attempts WHERE stage LIKE 'rejudge%'") == [(0,)]
    assert work.query("SELECT count(*) FROM attempts") == [(requests,)]


def test_replies_whose_copy_is_skipped_say_so(work: Workspace) -> None:
    with running(Simulation()) as url:
        away = url
    with running(Simulation(mumbled=1, max_faults_in_a_row=None)) as judge_url:
        work.write_config(
            model(judge_url, limits={"in_flight": 1}),
            retry={"rejudge": 0, "reformat": model(away, "gone")},
            max_unscored=1.0,
        )
        assert work.run().status == 3, "nothing is scored, whatever max_unscored says"
    notes = [" ".join(notes) for notes in work.results()["notes"].to_list()]
    assert all("reformat_failed:1" in each for each in notes)
    assert sum("reformat_skipped:away" in each for each in notes) > len(ROWS) // 2


def test_a_copy_that_was_asked_for_otherwise_says_so(work: Workspace) -> None:
    with running(Simulation(mumbled=1)) as judge_url, running(Simulation(unsupported=("temperature",))) as url:
        work.write_config(model(judge_url), retry={"reformat": model(url, "cheap")})
        done = work.run()
        assert done.status == 0, done.stderr
    for notes in work.results().filter(work.results()["stage"] == "reformat")["notes"].to_list():
        assert "reformat_not_sent:temperature" in notes
        assert "not_sent:temperature" not in notes


@pytest.mark.long
def test_a_budget_that_the_stage_waits_for_ends_the_run_as_any_other(work: Workspace) -> None:
    price = {"input": 1.0, "output": 4.0}
    with running(Simulation(mumbled=0.5)) as judge_url, running() as url:
        cheap = model(url, "cheap", price={"input": 0.1, "output": 0.4})
        work.write_config(model(judge_url, price=price), retry={"reformat": cheap}, budget={"usd": 0.004})
        stopped = work.run()
        assert stopped.status == 4, stopped.stderr
        assert "budget" in stopped.stderr
        assert 0 < stopped.report["done"] < len(ROWS)
        assert work.run("--set", "budget.usd=5").status == 0
    work.assert_each_trial_judged_once(len(ROWS))


@pytest.mark.parametrize("judge", ["yes-no", "longmemeval-hindsight"])
@pytest.mark.long
def test_with_a_third_of_all_replies_malformed_in_many_ways_no_verdict_changes(work: Workspace, judge: str) -> None:
    rows = items(range(200))
    work.write_items(rows)
    before = Workspace(work.folder / "sound")
    before.write_items(rows)
    with running(Simulation(structured="ignored")) as url:
        before.write_config(model(url), judges=[judge])
        assert before.run().status == 0
    faults: dict[str, Any] = {
        "malformed": 0.12,
        "malformed_skew": 3.0,
        "mumbled": 0.12,
        "truncated": 0.03,
        "refused": 0.03,
    }
    with running(Simulation(structured="ignored", **faults)) as url, running() as cheap:
        work.write_config(model(url), judges=[judge], retry={"reformat": model(cheap, "cheap")}, max_unscored=0.5)
        done = work.run()
        assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(len(rows))
    clean, found = before.verdicts(), work.verdicts()
    scored = {trial for trial, verdict in found.items() if verdict is not None}
    assert len(scored) > 0.95 * len(rows)
    assert {trial: found[trial] for trial in scored} == {trial: clean[trial] for trial in scored}
    stages = dict(work.results().group_by("stage").len().rows())
    assert stages["reformat"] > 20
    assert stages["rejudge:1"] > 20
    # What each step of the ladder has cost; the copies are cheap, since neither item nor rubric is in them.
    ladder = {(stage, name): (calls, tokens) for stage, name, calls, tokens in work.query(LADDER)}
    calls, tokens = ladder["reformat", "cheap"]
    assert calls >= stages["reformat"]
    first_calls, first_tokens = ladder["first", "judge"]
    assert (first_calls, set(ladder)) == (
        len(rows),
        {("first", "judge"), ("reformat", "cheap")}
        | {(stage, "judge") for stage in ("rejudge:1", "rejudge:2", "refused:1")}
        | ({("probe", "judge")} if judge == "longmemeval-hindsight" else set()),
    )
    assert tokens > 0 and first_tokens > 0
