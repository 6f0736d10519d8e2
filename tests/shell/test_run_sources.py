"""`jurybox run` of items from elsewhere: an object store, the Hub, the log of another evaluation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import DATASET, environment, hub
from objects import s3
from runs import ROOT, Workspace, items, model, stats

from runner.simulate import running

EVALUATIONS = ROOT / "tests" / "evaluations"


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as url:
        yield url


def manifest(work: Workspace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((work.out / "manifest.json").read_text(encoding="utf-8"))
    return found


def test_items_in_s3_are_judged_once_and_a_changed_object_is_judged_anew(work: Workspace, url: str) -> None:
    with s3() as bucket:
        answers = {system: items(range(20), [system]) for system in ("atlas", "brook")}
        for rows in answers.values():
            for row in rows:
                del row["system"]
        keys = {system: bucket.put_rows(f"sweep/{system}.jsonl", rows) for system, rows in answers.items()}
        work.environment = bucket.environment
        work.write_config(model(url), items={"systems": keys})
        before = stats(url)["requests"]
        done = work.run()
        assert done.status == 0, done.stderr
        work.assert_each_trial_judged_once(40)
        assert [(entry["path"], sorted(entry)) for entry in manifest(work)["inputs"]] == [
            (key, ["ETag", "path", "size"]) for key in keys.values()
        ]
        assert work.run().status == 0
        assert stats(url)["requests"] == before + 40, "nothing had changed, and something was asked"

        answers["brook"][3]["response"] = answers["brook"][3]["response"].replace("Answer", "answer")
        bucket.put_rows("sweep/brook.jsonl", answers["brook"])
        assert work.run().status == 0
        assert stats(url)["requests"] == before + 41
        gone = work.command("plan", str(work.config), "--set", "items.systems.brook=s3://answers/none.jsonl")
        assert (gone.status, gone.stdout) == (2, "")
        assert "items.systems.brook: there is no object s3://answers/none.jsonl at http://127.0.0.1" in gone.stderr


def commit(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """A commit of the dataset with these rows as its only split."""
    sha = name * 40
    (folder / sha / "data").mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / sha / "data" / "test.jsonl").write_text(text, encoding="utf-8")
    (folder / sha / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files: [{split: test, path: data/test.jsonl}]\n---\n",
        encoding="utf-8",
    )
    (folder / "main").write_text(sha, encoding="utf-8")
    return sha


@pytest.mark.long
def test_a_dataset_of_the_hub_is_read_at_the_commit_that_the_manifest_names(work: Workspace, url: str) -> None:
    folder = work.folder / "hub"
    rows = items(range(10))
    first = commit(folder, "a", rows)
    with hub(folder) as environment_of_hub:
        work.environment = environment_of_hub
        work.write_config(model(url), items={"hf": {"path": DATASET, "split": "test"}})
        before = stats(url)["requests"]
        done = work.run()
        assert (done.status, done.stderr) == (0, "")
        work.assert_each_trial_judged_once(20)
        assert manifest(work)["inputs"] == [{"path": DATASET, "revision": first}]
        assert work.run().status == 0
        assert stats(url)["requests"] == before + 20

        second = commit(folder, "b", [*rows, *items([10])])
        assert work.run("--set", f"items.hf.revision={first}").status == 0
        assert stats(url)["requests"] == before + 20, "a commit that is named is read, not the branch"
        assert work.run().status == 0
        work.assert_each_trial_judged_once(22)
        assert manifest(work)["inputs"] == [{"path": DATASET, "revision": second}]
        assert stats(url)["requests"] == before + 22

        for key, value, problem in (
            ("path", "example/none", "items.hf.path: no such dataset on the Hub, or it is private"),
            ("revision", "v9", f"items.hf.revision: there is no revision 'v9' of {DATASET}: main"),
            ("split", "dev", f"items.hf.split: there is no split 'dev' of {DATASET}: test"),
            ("config", "other", f"items.hf.config: there is no config 'other' of {DATASET}: default"),
        ):
            wrong = work.command("plan", str(work.config), "--set", f"items.hf.{key}={value}")
            assert (wrong.status, wrong.stdout) == (2, "")
            assert problem in wrong.stderr


def test_a_hub_that_cannot_be_reached_is_told(work: Workspace, url: str) -> None:
    work.write_config(model(url), items={"hf": {"path": DATASET, "split": "test"}})
    offline = environment(work.folder / "cache")
    for more in ({}, {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9"}):
        work.environment = offline | more
        done = work.run()
        assert (done.status, done.stdout) == (2, "")
        assert "items.hf: cannot be opened: " in done.stderr


@pytest.mark.parametrize("name", ["capitals.eval", "capitals.json"])
def test_a_log_of_inspect_is_judged_and_held_against_its_own_scores(work: Workspace, url: str, name: str) -> None:
    shutil.copy(EVALUATIONS / name, work.folder)
    labels = {"correct": {"field": "scores.includes.value", "map": {"C": True, "I": False}}}
    work.write_config(model(url), items={"path": name, "labels": labels, "empty_response": "wrong"})
    before = stats(url)["requests"]
    done = work.run()
    assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(10)
    # The two samples that have no answer are wrong without a call.
    assert stats(url)["requests"] == before + 8
    assert {row["system"] for row in work.results().iter_rows(named=True)} == {"mockllm/model"}


def test_samples_of_lm_eval_are_judged(work: Workspace, url: str) -> None:
    shutil.copytree(EVALUATIONS / "lm-eval", work.folder / "model")
    work.write_config(
        model(url), items={"path": "model/samples_capgen_*.jsonl", "fields": {"question": "doc.question"}}
    )
    done = work.run()
    assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(4)
    assert set(work.results()["system"]) == {"example/dummy"}
