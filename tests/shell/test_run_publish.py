"""`publish:` a run is mirrored while it is judged, whatever dies on the way, and comes back from there."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from objects import BUCKET, Bucket, s3
from polars.testing import assert_frame_equal
from runs import Workspace, items, judging, log_of, model, stats, trial_of
from structlog.testing import capture_logs

import jurybox
from runner.errors import ConfigError, InputError, MeaningChanged, StoppedEarly
from runner.session.run_status import status_of
from runner.session.session import reopen
from runner.simulate import Simulation, running

ITEMS = items(range(100))
IN_FLIGHT = 8


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(ITEMS)
    return work


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with s3() as bucket:
        yield bucket


def test_killed_at_every_step_of_publishing(work: Workspace, tmp_path: Path) -> None:
    work.publish_often()
    places = ("after-mark", "after-tmp", "after-rename", "before-delete")
    points = tmp_path / "points"
    points.mkdir()
    work.environment["JURYBOX_FAILPOINTS"] = str(points)
    with running(Simulation(latency_ms=40, malformed=0.1, log=tmp_path / "log")) as url:
        work.write_config(model(url, limits={"in_flight": IN_FLIGHT}), publish="mirror")
        for number, place in enumerate(places):
            # The first segments of all hold nothing yet; later ones, judgments of the middle of the run.
            (points / place).write_text("1" if number else "3")
            assert work.run().status == -9, place
        done = work.run()
        assert done.status == 0, done.stderr
        asked = stats(url)["requests"]
    work.assert_each_trial_judged_once(len(ITEMS))
    work.assert_mirrored()
    needed = len(ITEMS) + sum(1 for entry in log_of(tmp_path / "log") if entry["fault"])
    # A death costs what is in flight, and what was answered and not committed yet.
    assert needed <= asked <= needed + len(places) * 4 * IN_FLIGHT


def test_a_lost_directory_comes_back_from_a_bucket(work: Workspace, bucket: Bucket, tmp_path: Path) -> None:
    work.publish_often()
    work.environment.update(bucket.environment)
    secret = "canary-5f1c"
    limits = {"in_flight": IN_FLIGHT}
    keys: dict[str, Any] = {"publish": f"s3://{BUCKET}/mirrors", "name": "lost one"}
    points = tmp_path / "points"
    points.mkdir()
    (points / "after-mark").write_text("6")
    with running(Simulation(latency_ms=40, malformed=0.2, max_faults_in_a_row=9, log=tmp_path / "log")) as url:
        work.write_config(model(url, limits=limits, extra={"headers": {"X-Tenant": secret}}), **keys)
        work.environment["JURYBOX_FAILPOINTS"] = str(points)
        assert work.run().status == -9
        published = [name for name in bucket.names("mirrors/lost_one/results") if name.endswith(".parquet")]
        before = {row["key"]: row for name in published for row in bucket.rows(name)}
        asked = stats(url)["requests"]
        assert 0 < len(before) < len(ITEMS)

        shutil.rmtree(work.out)
        done = work.command("run", str(work.config), "--local", "--yes")
        assert done.status == 0, done.stderr
        assert f"rebuilt from s3://{BUCKET}/mirrors/lost_one, {len(before)} judgments and " in done.stderr
        stats(url)
    again = {trial_of(entry["body"]) for entry in judging(log_of(tmp_path / "log")) if entry["n"] > asked}
    assert again.isdisjoint(row["item_id"] for row in before.values())
    work.assert_each_trial_judged_once(len(ITEMS))
    after = {row["key"]: row for row in work.results().iter_rows(named=True)}
    same = ("state", "verdict", "attempts", "cost_usd", "judged_at", "attempt_id", "worker", "judge_reply")
    assert all(after[key][name] == row[name] for key, row in before.items() for name in same)
    assert work.query("SELECT sum(requests) FROM spend") == work.query("SELECT count(*) FROM attempts")
    names = bucket.names("mirrors/lost_one")
    whole = max(name.rpartition("/")[0] for name in names if name.endswith("_complete"))
    there = [row for name in names if name.startswith(whole) and name.endswith("parquet") for row in bucket.rows(name)]
    assert sorted(row["key"] for row in there) == sorted(after)
    assert not [name for name in names if secret.encode() in bucket.get(name)]


def judge(
    work: Workspace, limit: int | None = None, out: str = "run", publish: str | None = "mirror", **changes: Any
) -> None:
    """`jurybox.run` of the config, in this process."""
    config = yaml.safe_load(work.config.read_text()) | {"publish": publish and str(work.folder / publish)}
    config["items"]["path"] = str(work.items)
    config["models"][0] |= changes
    jurybox.run(config, limit=limit, out=work.folder / out)


@pytest.mark.parametrize("publish", ["mirror", None])
def test_whoever_looks_at_a_run_without_its_ledger_is_told_how_it_comes_back(
    work: Workspace, publish: str | None
) -> None:
    way = f"makes it anew from {work.folder}/mirror/tested" if publish else "begin anew with the run's own command"
    with running() as url:
        work.write_config(model(url))
        judge(work, 30, publish=publish)
        (work.out / "run.db").unlink()
        for look in (status_of, jurybox.load, lambda run: reopen(run).__enter__()):
            with pytest.raises(InputError, match=f"run.db is lost; .*{way}"):
                look(work.out)
        assert not (work.out / "run.db").exists(), "an empty one would not be made anew"
        judge(work, 30, publish=publish)
        assert stats(url)["requests"] == (30 if publish else 60)


def test_a_directory_from_which_the_run_went_on_elsewhere_ends(work: Workspace) -> None:
    with running() as url:
        work.write_config(model(url))
        judge(work, 50)
        work.out.rename(work.folder / "kept")
        judge(work, 120)
        assert stats(url)["requests"] == 120
        with capture_logs() as told:
            judge(work, 50, "kept")
        assert [entry["event"] for entry in told] == ["publishing_ended"], "also where nothing is to be judged"
        assert f"the run was rebuilt from it at {platform.node()}:{work.out}" in told[0]["why"]
        with pytest.raises(ConfigError) as refused:
            judge(work, 130, "kept")
        assert f"the run was rebuilt from it at {platform.node()}:{work.out}" in str(refused.value)

        # Published to another place, it goes on by itself.
        judge(work, 60, "kept", publish="elsewhere")
        assert stats(url)["requests"] == 120 + 10
    elsewhere = pl.read_parquet(work.folder / "elsewhere/tested/attempts/*.parquet")
    assert sorted(elsewhere["attempt_id"]) == list(range(1, 61))


def test_another_run_of_the_same_name_is_refused_before_anything_is_paid(work: Workspace) -> None:
    with running() as url:
        work.write_config(model(url))
        judge(work, 10)
        judge(work, 10, "other", publish=None)
        assert stats(url)["requests"] == 20
        with pytest.raises(ConfigError, match="holds another run of this name"):
            judge(work, 20, "other")
        with pytest.raises(MeaningChanged, match="mirror/tested: holds a run that means something else"):
            judge(work, 20, "third", model="simulated-else")
        assert stats(url)["requests"] == 20
        judge(work, 12)

        # What was judged while it was published nowhere, or elsewhere, is there when it comes back.
        judge(work, 14, publish=None)
        judge(work, 15)
        work.assert_mirrored()
        judge(work, 16, publish="elsewhere")
        judge(work, 17)
        assert stats(url)["requests"] == 10 + 17
    work.assert_mirrored()


def test_a_place_that_takes_nothing_stops_no_judging(work: Workspace) -> None:
    in_the_way = work.folder / "mirror" / "tested" / "attempts"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("a file where a folder should be")
    with running() as url:
        work.write_config(model(url), publish="mirror")
        work.publish_often()
        done = work.command("run", str(work.config), "--local", "--yes", "--json")
        assert done.status == 4
        assert done.report["status"].startswith("complete")
        assert done.stderr.count("publishing_failed") == 1
        assert f"publishing is behind by {2 * len(ITEMS)} judgments and requests: {in_the_way.parent}" in done.stderr
        assert "published:" not in done.stderr
        assert json.loads(work.command("status", str(work.out), "--json").stdout)["publishing"]["behind"] == 2 * len(
            ITEMS
        )
        assert "the same command publishes them" in done.stderr
        asked = stats(url)["requests"]

        with pytest.raises(StoppedEarly, match="publishing is behind by"):
            judge(work)
        in_the_way.unlink()
        judge(work)
        assert stats(url)["requests"] == asked
        work.assert_mirrored()

        # With nothing to publish, nothing is asked of the place.
        shutil.rmtree(work.folder / "mirror")
        judge(work)
        assert stats(url)["requests"] == asked
        assert not (work.folder / "mirror").exists()


@pytest.mark.long
def test_a_retry_and_a_changed_plan_are_editions(work: Workspace, tmp_path: Path) -> None:
    with running(Simulation(malformed=0.5, max_faults_in_a_row=1, latency_ms=100)) as url:
        limits = {"in_flight": 4}
        work.write_config(model(url, limits=limits), publish="mirror", retry={"rejudge": 0}, max_unscored=1.0)
        judge(work, 60)
        work.assert_mirrored()
        work.publish_often()
        points = tmp_path / "points"
        points.mkdir()
        (points / "before-delete").write_text("1")
        work.environment["JURYBOX_FAILPOINTS"] = str(points)
        killed = work.command("retry", str(work.out), "--state", "malformed", "--local", "--yes", "--quiet")
        assert killed.status == -9
    renewed = work.mirrored("renewed/r00002")
    assert len(renewed) > 0
    assert set(renewed["revision"]) == {2}

    # The machine is lost in the middle of the retry: what it had brought is there, and stands.
    shutil.rmtree(work.out)
    with running() as url:
        work.write_config(model(url), publish="mirror", retry={"rejudge": 0}, max_unscored=1.0)
        judge(work, 60)
        assert stats(url)["requests"] == 0
        rows = work.results()
        assert set(rows["revision"]) == {2}
        assert work.query("SELECT number, kind FROM revisions") == [(2, "retry")]
        assert set(rows.filter(pl.col("key").is_in(renewed["key"].to_list()))["state"]) == {"scored"}
        left = rows.filter(state="malformed").height
        assert work.command("retry", str(work.out), "--state", "malformed", "--local", "--yes").status == 0
        assert stats(url)["requests"] == left
        assert set(work.results()["state"]) == {"scored"}
        work.assert_mirrored()
        assert set(work.mirrored()["revision"]) == {3 if left else 2}
        before = work.results()
        revisions = work.query("SELECT * FROM revisions")
        shutil.rmtree(work.out)
        judge(work, 60)
        assert_frame_equal(work.results(), before)
        assert work.query("SELECT * FROM revisions") == revisions

        judge(work, 40)
        work.assert_mirrored()
        mirror = work.folder / "mirror" / "tested"
        stands = json.loads((mirror / "manifest.json").read_text())["results"]
        assert stands == max(str(path.parent.relative_to(mirror)) for path in mirror.glob("results/*/_complete"))
        assert work.mirrored().height == 40
