"""Secrets that an endpoint wants in a header, a query or the body: sent, and kept nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs import Workspace, items, log_of, model, stats

from runner.simulate import Simulation, running

SECRET, ROTATED = "canary-3f9a", "canary-77b1"
EXTRA: dict[str, Any] = {
    "headers": {"X-Search-Token": "${SEARCH_KEY}", "X-Team": "eval"},
    "query": {"api-version": "7"},
    "body": {"data_sources": [{"type": "azure_search", "authentication": {"key": "${SEARCH_KEY}"}, "top": 3}]},
}


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(items(range(5)))
    work.environment["SEARCH_KEY"] = SECRET
    return work


def keys_sent(work: Workspace) -> list[str]:
    bodies = [json.loads(entry["body"]) for entry in log_of(work.folder / "log")]
    return [body["data_sources"][0]["authentication"]["key"] for body in bodies]


def test_a_key_in_the_body_is_sent_but_kept_nowhere_and_may_change(work: Workspace) -> None:
    with running(Simulation(log=work.folder / "log")) as url:
        work.write_config(model(url, extra=EXTRA))
        done = work.run("--limit", "6")
        assert done.status == 0, done.stderr
        work.environment["SEARCH_KEY"] = ROTATED
        again = work.run()
        assert again.status == 0, again.stderr
        stats(url)
    assert keys_sent(work) == [SECRET] * 6 + [ROTATED] * 4
    work.assert_each_trial_judged_once(10)
    files = [path for path in work.out.rglob("*") if path.is_file()]
    assert [path for path in files if b"canary-" in path.read_bytes()] == []
    manifest = json.loads((work.out / "manifest.json").read_text(encoding="utf-8"))
    extra = manifest["config"]["models"][0]["extra"]
    assert extra == {
        **EXTRA,
        "headers": {**EXTRA["headers"], "X-Team": "(left out)"},
        "query": {"api-version": "(left out)"},
    }
    assert "canary-" not in done.stdout + done.stderr + again.stdout + again.stderr

    other = {**EXTRA, "body": {"data_sources": [{**EXTRA["body"]["data_sources"][0], "top": 5}]}}
    work.write_config(model(url, extra=other))
    assert "holds a run that means something else" in work.run().stderr


def test_what_a_variable_lacks_is_told_before_anything_is_asked(work: Workspace) -> None:
    with running() as url:
        work.write_config(model(url, extra=EXTRA))
        work.environment["SEARCH_KEY"] = ""
        done = work.run()
        assert stats(url)["requests"] == 0
    assert done.status == 2
    assert "model 'judge': the environment variable SEARCH_KEY is not set" in done.stderr
