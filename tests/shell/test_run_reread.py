"""A share of tolerant verdicts is judged again at the strict form: counted in the report, and no verdict's business."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from plain_endpoint import Answer, answering, saying
from runs import Workspace, items, model, trial_of

from runner.stats.estimators import wilson

TRIALS = 60
DEMAND = "Answer with exactly one word: yes or no."
PRICE = {"input": 1.0, "output": 4.0}
STAGES = "SELECT stage, state, reading, same_verdict, count(*) FROM attempts GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(items(range(TRIALS // 2)))
    return work


def wordy(seen: Counter[Any], failing: bool = False) -> Answer:
    """Says yes and why, or no in a last line to `brook`; a bare word on demand, another one to each third question."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = json.dumps(body)
        if " of atlas" not in text and " of brook" not in text:
            seen["control", DEMAND in text] += 1
            return saying("Yes, it may be.")
        trial = trial_of(text)
        is_no = trial.endswith("brook")
        if DEMAND not in text:
            seen["first"] += 1
            return saying("It names another port.\nNo" if is_no else "Yes, the port is right.")
        seen["reread"] += 1
        seen["trial", trial] += 1
        if failing:
            return 500, {"error": {"message": "boom"}}
        number = int(trial[1:].partition("-")[0])
        if number % 10 == 9:
            return saying("I would rather not choose a word here.")
        return saying("no" if is_no != (number % 3 == 0) else "yes")

    return answer


def trials_in(seen: Counter[Any]) -> int:
    """How many trials' verdicts were checked, each of them once."""
    found = [n for name, n in seen.items() if name[0] == "trial"]
    assert set(found) <= {1}
    return len(found)


def test_tolerant_verdicts_are_checked_once_and_stand(work: Workspace) -> None:
    seen: Counter[Any] = Counter()
    with answering(wordy(seen)) as url:
        work.write_config(model(url, price=PRICE), retry={"reread": 1.0}, controls=0.1)
        done = work.run()
        assert done.status in (0, 3), done.stderr
        sent = Counter(seen)
        again = work.run()
        assert (again.status, seen) == (done.status, sent)
    assert (sent["first"], sent["reread"], trials_in(sent)) == (TRIALS, TRIALS, TRIALS)
    assert sent["control", False] > 0 == sent["control", True]
    assert work.query("SELECT count(*) FROM pending") == [(0,)]
    results = work.results().filter(~work.results()["is_control"])
    assert Counter(results["stage"]) == {"tolerant:lead": 30, "tolerant:last": 30}
    assert Counter(zip(results["system"], results["verdict"], strict=True)) == {
        ("atlas", '{"correct": true}'): 30, ("brook", '{"correct": false}'): 30,
    }  # fmt: skip
    # Each place's numbers 0 to 29: three unread (9, 19, 29), of the others ten differ but 9.
    unread, other, same = ("malformed:no_verdict", None, 3), ("strict", 0, 9), ("strict", 1, 18)
    assert [row for row in work.query(STAGES) if row[0].startswith("reread")] == [
        (stage, "ok", *each) for stage in ("reread:last", "reread:lead") for each in (unread, other, same)
    ]
    low, high = wilson(18 / 27, 27)
    for entry, place in zip(done.report["reading"]["rereads"], ("last", "lead"), strict=True):
        assert (entry["place"], entry["unread"]) == (place, 3)
        assert entry["same"] == {"hits": 18, "n": 27, "value": 18 / 27, "low": low, "high": high}
        assert entry["differ"]["hits"] == 9
    # What they cost is in the books, and in no trial's.
    ((requests, usd),) = work.query("SELECT sum(requests), sum(cost_usd) FROM spend")
    assert requests == 2 * TRIALS + sent["control", False] == done.report["requests"]
    assert usd == pytest.approx(done.report["cost_usd"])
    assert set(work.results()["attempts"]) == {1}
    (calls,) = (entry for entry in done.report["reading"]["calls"] if entry["step"] == "reread")
    assert (calls["calls"], calls["read"], calls["malformed"]) == (TRIALS, TRIALS - 6, 6)
    assert not any("rather not" in (entry["example"] or "") for entry in done.report["reading"]["unreadable"])
    shown = work.command("report", str(work.out), "--section", "reading").stdout
    assert "\nChecked verdicts\n" in shown
    assert "66.67%" in shown


def test_a_share_is_drawn_and_none_by_default(work: Workspace) -> None:
    for share, least, most in ((0.3, 8, 30), (0.0, 0, 0)):
        seen: Counter[Any] = Counter()
        other = Workspace(work.folder / str(share))
        other.write_items(items(range(TRIALS // 2)))
        with answering(wordy(seen)) as url:
            other.write_config(model(url), **({"retry": {"reread": share}} if share else {}))
            assert other.run().status == 0
        assert least <= seen["reread"] <= most
        assert trials_in(seen) == seen["reread"]


def test_a_check_that_fails_harms_nothing(work: Workspace) -> None:
    seen: Counter[Any] = Counter()
    with answering(wordy(seen, failing=True)) as url:
        work.write_config(model(url), retry={"reread": 0.2, "attempts": 2})
        done = work.run()
    assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(TRIALS)
    rereads = "FROM attempts WHERE stage LIKE 'reread:%' AND state = 'error'"
    failed = work.query(f"SELECT count(*), count(DISTINCT request_id), max(try) {rereads}")
    assert failed == [(seen["reread"], seen["reread"] // 2, 2)]
    assert done.report["reading"]["rereads"] == []


def test_a_budget_that_is_used_up_ends_the_checks_and_not_the_run(work: Workspace) -> None:
    seen: Counter[Any] = Counter()
    with answering(wordy(seen)) as url:
        work.write_config(model(url, limits={"in_flight": 4}), retry={"reread": 1.0}, budget={"requests": TRIALS + 20})
        done = work.run()
    assert seen["first"] + seen["reread"] <= TRIALS + 20
    # Checks are paid as they come: the trials behind them may find nothing left, and then the run can be resumed.
    assert done.status in (0, 4), done.stderr
    assert (done.status == 4) == (done.report["done"] < TRIALS)


def test_with_all_trials_judged_a_check_that_cannot_be_paid_is_left_out(work: Workspace) -> None:
    seen: Counter[Any] = Counter()
    work.write_items(items([0], ["atlas"]))
    with answering(wordy(seen)) as url:
        work.write_config(model(url), retry={"reread": 1.0}, budget={"requests": 1})
        done = work.run()
    assert (done.status, seen["first"], seen["reread"]) == (0, 1, 0), done.stderr
