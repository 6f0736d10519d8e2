"""`jurybox retry`: what ended without a score is judged again, and no old judgment is lost on the way."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from runs import Finished, Workspace, ended_with_test, finish, items, model, stats, until

from runner.simulate import Simulation, running

ITEMS = items(range(60))
CONFIG: dict[str, Any] = {"max_unscored": 0.9, "retry": {"rejudge": 0, "refused": 0}}
SLOW = Simulation(latency_ms=400, latency_spread=0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A finished run in which many replies could not be read, and some were refusals."""
    work = Workspace(tmp_path_factory.mktemp("finished"))
    work.write_items(ITEMS)
    with running(Simulation(malformed=0.4, refused=0.2)) as url:
        work.write_config(model(url), **CONFIG)
        assert work.run().status == 0
    return work


@pytest.fixture
def work(finished: Workspace, tmp_path: Path) -> Workspace:
    """A copy of it."""
    work = Workspace(tmp_path)
    work.items.write_bytes(finished.items.read_bytes())
    work.config.write_bytes(finished.config.read_bytes())
    shutil.copytree(finished.out, work.out)
    return work


def at(work: Workspace, url: str, **keys: Any) -> None:
    """The endpoint is elsewhere now: in the config as in the manifest."""
    config = yaml.safe_load(work.config.read_text())
    config["out"] = str(work.out)
    manifest = json.loads((work.out / "manifest.json").read_text())
    for models in (config["models"], manifest["config"]["models"]):
        models[0] |= {"base_url": url, "limits": {"in_flight": 4}} | keys
    work.config.write_text(yaml.safe_dump(config))
    (work.out / "manifest.json").write_text(json.dumps(manifest))


def arguments(work: Workspace, state: str, *more: str) -> tuple[str, ...]:
    return ("retry", str(work.out), "--state", state, "--local", "--yes", "--quiet", *more)


def retry(work: Workspace, state: str, *more: str) -> Finished:
    return work.command(*arguments(work, state, *more))


def keys(work: Workspace, *states: str) -> set[str]:
    return set(work.results().filter(pl.col("state").is_in(states))["key"])


def judgments(work: Workspace) -> list[tuple[Any, ...]]:
    return work.query("SELECT * FROM judgments ORDER BY shard, position")


def test_exactly_the_trials_of_the_state_are_asked_again_and_replaced(work: Workspace) -> None:
    before = work.results()
    malformed, refused = keys(work, "malformed"), keys(work, "refused")
    assert len(malformed) > 10 and len(refused) > 5
    with running() as url:
        at(work, url)
        done = retry(work, "malformed", "--json")
        assert done.status == 0, done.stderr
        assert stats(url)["requests"] == len(malformed)
        document = json.loads(done.stdout)
        assert (document["revision"], document["new"], document["kind"]) == (2, True, "retry")
        assert (document["retried"], document["changed"], document["unchanged"]) == (len(malformed), len(malformed), 0)
        assert {(c["from"]["state"], c["to"]["state"]) for c in document["changes"]} == {("malformed", "scored")}

        after = work.results()
        assert set(after["revision"]) == {2} and keys(work, "malformed") == set() and keys(work, "refused") == refused
        same = [name for name in before.columns if name != "revision"]
        rest = ~pl.col("key").is_in(list(malformed))
        assert after.filter(rest).select(same).equals(before.filter(rest).select(same))
        again = after.filter(~rest)
        assert set(again["stage"]) == {"retry:2"} and set(again["attempts"]) == {2}
        work.assert_each_trial_judged_once(len(ITEMS))
        assert work.query("SELECT count(*) FROM attempts WHERE length(keys) > 0") == [(len(ITEMS) + len(malformed),)]

        nothing = retry(work, "malformed,failed")
        assert (nothing.status, nothing.stdout) == (0, "nothing changed: revision 2 stands\n")
        assert stats(url)["requests"] == len(malformed)
        told = retry(work, "refused, malformed")
        assert told.stdout.startswith(f"revision 3: judged again\nyes-no × judge: {len(refused)} of {len(refused)} ")
        assert "refused (" in told.stdout and '→ {"correct": ' in told.stdout
        assert [made["revision"] for made in json.loads((work.out / "manifest.json").read_text())["revisions"]] == [
            2,
            3,
        ]
        # A reader of today's finds nothing to change in any of it.
        assert work.command("rescore", str(work.out)).stdout.startswith("nothing changed: revision 3")


def test_what_comes_out_the_same_is_a_judgment_too(work: Workspace) -> None:
    malformed = keys(work, "malformed")
    with running(Simulation(malformed=1.0, max_faults_in_a_row=99)) as url:
        at(work, url)
        manifest = json.loads((work.out / "manifest.json").read_text())
        manifest["config"]["max_unscored"] = 0.01
        (work.out / "manifest.json").write_text(json.dumps(manifest))
        done = retry(work, "malformed", "--json")
        assert stats(url)["requests"] == len(malformed)
    assert done.status == 3, done.stderr
    assert keys(work, "malformed") == malformed
    assert set(work.results()["revision"]) == {2}


def test_killed_in_the_middle_the_old_judgments_stand_and_the_run_goes_on(work: Workspace) -> None:
    before, published = judgments(work), work.results()
    malformed = keys(work, "malformed")
    with running(SLOW) as url:
        at(work, url)
        process = work.start(*arguments(work, "malformed"))
        with ended_with_test(process):
            until(lambda: work.query("SELECT count(*) FROM renewed")[0][0] >= 6, process)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        arrived = work.query("SELECT count(*) FROM renewed")[0][0]
        assert 6 <= arrived < len(malformed)
        assert judgments(work) == before
        assert work.results().equals(published)
        report = work.command("report", str(work.out), "--json").report
        assert (report["complete"], report["revision"]) == (True, 1)
        status = work.command("status", str(work.out))
        assert f"{len(malformed)} of these are being judged again" in status.stdout

        # What came takes effect with whatever command comes next; the rest is asked by the run's own.
        done = work.run("--local")
        assert done.status == 0, done.stderr
        assert stats(url)["requests"] <= len(malformed) + 4
    assert keys(work, "malformed") == set()
    assert set(work.results()["revision"]) == {3}
    work.assert_each_trial_judged_once(len(ITEMS))
    old = {key: state for key, state in zip(published["key"], published["state"], strict=True) if key not in malformed}
    now = {key: state for key, state in zip(*(work.results()[name] for name in ("key", "state")), strict=True)}
    assert {key: now[key] for key in old} == old
    assert work.command("status", str(work.out), "--json").report["again"] == 0


@pytest.mark.long
def test_interrupted_it_keeps_what_came_and_the_same_command_asks_only_the_rest(work: Workspace) -> None:
    malformed, states = keys(work, "malformed"), dict(zip(*(work.results()[n] for n in ("key", "state")), strict=True))
    with running(SLOW) as url:
        at(work, url)
        process = work.start(*arguments(work, "malformed", "--json"))
        with ended_with_test(process):
            until(lambda: work.query("SELECT count(*) FROM renewed")[0][0] >= 4, process)
            process.send_signal(signal.SIGINT)
            stopped = finish(process)
        assert stopped.status == 130, stopped.stderr
        document = json.loads(stopped.stdout)
        came = stats(url)["requests"]
        assert (document["revision"], document["changed"]) == (2, came) and 4 <= came < len(malformed)
        left = keys(work, "malformed")
        assert len(left) == len(malformed) - came, "the others keep their judgments"
        assert set(work.results()["revision"]) == {2}

        done = retry(work, "malformed", "--json")
        assert done.status == 0, done.stderr
        assert json.loads(done.stdout)["changed"] == len(left)
        assert stats(url)["requests"] == len(malformed), "nothing was asked twice"
    assert keys(work, "malformed") == set() and set(work.results()["revision"]) == {3}
    now = dict(zip(*(work.results()[name] for name in ("key", "state")), strict=True))
    assert {key: state for key, state in now.items() if key not in malformed} == {
        key: state for key, state in states.items() if key not in malformed
    }


def test_an_endpoint_that_is_away_costs_no_judgment(work: Workspace) -> None:
    before, published = judgments(work), work.results()
    at(work, "http://127.0.0.1:9/v1")
    done = retry(work, "malformed,refused", "--json")
    assert done.status == 4, done.stderr
    assert json.loads(done.stdout)["new"] is False
    assert judgments(work) == before and work.results().equals(published)


@pytest.mark.long
def test_a_batch_is_asked_again_as_it_was_composed(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(20)))
    judges = [{"use": "answer-correctness", "batch": 5}]
    with running(Simulation(malformed=0.7, max_faults_in_a_row=99)) as url:
        work.write_config(model(url), judges=judges, **CONFIG)
        assert work.run().status == 0
    malformed = keys(work, "malformed")
    with running() as url:
        at(work, url)
        done = retry(work, "malformed")
        assert done.status == 0, done.stderr
        asked = stats(url)["requests"]
    # Those of one batch share a request again.
    assert len(malformed) > 8 and asked < len(malformed)
    assert {stage for (stage,) in work.query("SELECT stage FROM judgments WHERE revision = 2")} == {"retry:2"}
    assert max(work.results().filter(pl.col("stage") == "retry:2")["batch_size"]) > 1
    assert set(work.results()["state"]) == {"scored"}
    assert work.command("rescore", str(work.out)).stdout.startswith("nothing changed: revision 2")


def test_what_cannot_be_meant_is_an_error_before_anything_is_asked(work: Workspace) -> None:
    for options, words in (
        (("--state", "scored"), "what has a score is not judged again"),
        (("--state", "malfromed"), "must be of malformed, failed, refused, poisoned"),
        (("--state", ","), "name one of"),
        (("--state", "malformed", "--judge", "nobody"), "--judge nobody: the run has yes-no"),
        (("--state", "malformed", "--model", "gpt"), "--model gpt: the run has judge"),
    ):
        done = work.command("retry", str(work.out), *options, "--local", "--yes")
        assert done.status == 2 and words in done.stderr, done.stderr
    assert work.query("SELECT count(*) FROM pending") == [(0,)]


def test_headers_that_the_manifest_leaves_out_are_taken_from_the_config(work: Workspace) -> None:
    malformed = keys(work, "malformed")
    with running() as url:
        at(work, url, extra={"headers": {"x-team": "(left out)"}})
        refused = retry(work, "malformed")
        assert refused.status == 2 and "does not keep; name the run's config with --config" in refused.stderr
        config = yaml.safe_load(work.config.read_text())
        config["models"][0]["extra"]["headers"]["x-team"] = "blue"
        work.config.write_text(yaml.safe_dump(config))
        done = retry(work, "malformed", "--config", str(work.config))
        assert done.status == 0, done.stderr
        assert stats(url)["requests"] == len(malformed)
    config["models"][0]["model"] = "another"
    work.config.write_text(yaml.safe_dump(config))
    other = retry(work, "refused", "--config", str(work.config))
    assert other.status == 2 and "holds a run that means something else" in other.stderr
