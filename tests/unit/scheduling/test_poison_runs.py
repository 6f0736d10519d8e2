"""Deaths in a whole run: trials of every kind that kill their workers are recorded as poisoned, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from deadly import Deadly
from mortal_pool import MortalPool
from runs import items, log_of, model, stats, trial_of
from structlog.testing import capture_logs

from runner.errors import ConfigError, StoppedEarly
from runner.scheduling.pool import WorkerHandle
from runner.simulate import Simulation, running


@pytest.mark.parametrize("workers", [1, 3])
def test_trials_that_kill_their_workers_are_poisoned_and_the_others_scored(tmp_path: Path, workers: int) -> None:
    rows = items(range(30))
    deadly = {"q3-atlas", "q3-brook", "q27-brook"}
    work = Deadly(tmp_path, *deadly)
    work.write_items(rows)
    in_flight = 12
    with running(Simulation(latency_ms=5, log=tmp_path / "log")) as url:
        work.write_config(model(url, limits={"in_flight": in_flight}), judges=["./mine.py:judge"])
        started = work.judge(workers)
        assert len(rows) < stats(url)["requests"] <= len(rows) + started * in_flight
        work.assert_each_trial_judged_once(len(rows))
        assert set(work.results()["state"]) == {"scored", "poisoned"}
        found = work.poisoned()
        assert set(found) == deadly
        assert {(row["reason"], tuple(row["notes"]), row["attempts"]) for row in found.values()} == {
            ("crash", ("died:it is said to have died",), 0)
        }

        # Judged again while they kill still: the same; and when they do no more, they are scored under their old keys.
        work.judge(workers, retry="poisoned")
        assert set(work.poisoned()) == deadly
        work.deadly.write_text("")
        work.judge(workers, retry="poisoned")
    work.assert_each_trial_judged_once(len(rows))
    keys = dict(work.results().select("item_id", "key").iter_rows())
    assert work.poisoned() == {}
    assert {name: keys[name] for name in deadly} == {name: row["key"] for name, row in found.items()}


def test_the_search_for_a_poison_is_told(tmp_path: Path) -> None:
    deadly = {"q3-atlas", "q17-brook"}
    work = Deadly(tmp_path, *deadly)
    rows = items(range(20))
    work.write_items(rows)
    with running(Simulation(latency_ms=5)) as url, capture_logs() as told:
        work.write_config(model(url, limits={"in_flight": 8}), judges=["./mine.py:judge"])
        work.judge(2)
    pair = {"judge": "deadly", "model": "judge"}
    searches = [entry for entry in told if entry["event"] == "trials_suspected"]
    assert searches[0]["log_level"] == "warning"
    assert all(entry.items() >= pair.items() and 0 < entry["trials"] <= len(rows) for entry in searches)
    for name in deadly:
        about = [(entry["event"], entry["log_level"]) for entry in told if entry.get("item") == name]
        assert about == [("trial_died_alone", "warning"), ("trial_poisoned", "warning")]
    alone = [entry for entry in told if entry["event"] == "trial_died_alone"]
    assert {(entry["deaths"], entry["of"]) for entry in alone} == {(1, 2)}
    assert all(entry.items() >= pair.items() for entry in alone)
    # As the progress has it: somebody is suspected, and in the end nobody is any more.
    assert {*work.suspected[0], *work.suspected[-1]} == set()
    assert {pair for seen in work.suspected for pair in seen} == {("deadly", "judge")}


def test_a_poison_that_shows_only_when_a_trial_is_judged_again(tmp_path: Path) -> None:
    rows = items(range(20))
    again = {"q3-atlas", "q17-brook"}
    work = Deadly(tmp_path, *(f"again:{name}" for name in again))
    work.write_items(rows)
    with running(Simulation(latency_ms=5, malformed=0.2)) as url:
        work.write_config(model(url, limits={"in_flight": 8}), judges=["./mine.py:judge"], retry={"rejudge": 4})
        work.judge(2)
    work.assert_each_trial_judged_once(len(rows))
    found = work.poisoned()
    assert set(found) == again
    # Its first reply was paid for, and counts.
    assert {(row["attempts"], row["stage"]) for row in found.values()} == {(1, "rejudge:1")}
    assert all(row["input_tokens"] for row in found.values())


def test_a_member_of_a_batch_is_found_and_its_neighbours_are_judged(tmp_path: Path) -> None:
    rows = items(range(40), systems=["atlas"])
    work = Deadly(tmp_path, "q11-atlas", base="answer-correctness")
    work.write_items(rows)
    with running(Simulation(latency_ms=5)) as url:
        work.write_config(model(url), judges=[{"use": "./mine.py:judge", "batch": 8}])
        work.judge(2)
    work.assert_each_trial_judged_once(len(rows))
    assert set(work.poisoned()) == {"q11-atlas"}
    scored = work.results().filter(state="scored")
    assert scored.height == len(rows) - 1
    assert scored["batch_size"].max() == 8


def test_a_trial_that_kills_when_it_is_rendered_is_poisoned_without_a_call(tmp_path: Path) -> None:
    rows = items(range(10))
    work = Deadly(tmp_path)
    work.write_items(rows)
    with running(Simulation(log=tmp_path / "log")) as url:
        work.write_config(model(url), judges=["./mine.py:judge"])
        # The estimate renders some items too, before any worker does.
        work.judge(2, planned=lambda: work.deadly.write_text("render:q4-atlas"))
        stats(url)
    work.assert_each_trial_judged_once(len(rows))
    assert set(work.poisoned()) == {"q4-atlas"}
    assert "q4-atlas" not in {trial_of(entry["body"]) for entry in log_of(tmp_path / "log")}


def test_a_judge_that_nobody_survives_ends_the_run(tmp_path: Path) -> None:
    work = Deadly(tmp_path, "all")
    work.write_items(items(range(50)))
    with running(Simulation(latency_ms=5)) as url:
        work.write_config(model(url), judges=["./mine.py:judge"])
        with pytest.raises(StoppedEarly, match="8 trials one after another killed the workers"):
            work.judge(2)
    assert work.query("SELECT count(*) FROM judgments WHERE state <> 'poisoned'") == [(0,)]


def test_a_worker_that_cannot_follow_leaves_the_others_their_requests_in_flight(tmp_path: Path) -> None:
    class Alone(MortalPool):
        """Nobody can take a dead worker's place: the machine that is left has no key."""

        async def add_worker(self) -> WorkerHandle:
            if self.started == self.size:
                raise ConfigError("there is no key here")
            return await super().add_worker()

    work = Deadly(tmp_path, "q0-atlas")
    work.write_items(items(range(40)))
    with running(Simulation(latency_ms=300)) as url:
        work.write_config(model(url, limits={"in_flight": 12}), judges=["./mine.py:judge"])
        with pytest.raises(StoppedEarly, match="no key here"):
            work.judge(2, kind=Alone)
    # What was reserved and never settled is in doubt: that of the dead one only.
    assert len(work.query("SELECT DISTINCT sender FROM reserved WHERE requests > 0")) == 1
