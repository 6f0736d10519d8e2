"""Structured output as each endpoint can: found out once, before anything is judged, and kept for the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs import Workspace, items, log_of, model, stats

from judges import load_judge
from runner.simulate import Simulation, running

GROUPS = (
    "multi-session",
    "temporal-reasoning",
    "knowledge-update",
    "single-session-preference",
    "another-group",
)
"""One for each of Hindsight's five templates."""
ROWS = [row | {"group": GROUPS[number % 5]} for number, row in enumerate(items(range(20)))]


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(ROWS)
    return work


def judged(work: Workspace, url: str) -> list[dict[str, Any]]:
    """The bodies of the requests that asked about a trial, all of them."""
    stats(url)
    bodies = [json.loads(entry["body"]) for entry in log_of(work.folder / "log") if entry["status"] == 200]
    return [body for body in bodies if "Answer" in body["messages"][-1]["content"]]


@pytest.mark.parametrize(
    ("endpoint", "mode", "field", "probes"),
    [
        ("enforced", "enforced:json_schema", "response_format", 1),
        ("openai", "enforced:json_schema", "response_format", 1),
        ("vllm", "enforced:vllm", "structured_outputs", 2),
        ("json_object", "json_object", "response_format", 3),
        ("ignored", "ignored", None, 3),
        ("refused", "refused", None, 3),
    ],
)
def test_all_five_templates_of_hindsight_on_each_kind_of_endpoint(
    work: Workspace, endpoint: str, mode: str, field: str | None, probes: int
) -> None:
    with running(Simulation(structured=endpoint, log=work.folder / "log")) as url:
        work.write_config(model(url), judges=["longmemeval-hindsight"])
        done = work.run()
        assert (done.status, done.stderr) == (0, "")
        assert stats(url)["requests"] == len(ROWS) + probes
        asked = judged(work, url)
    work.assert_each_trial_judged_once(len(ROWS))
    results = work.results()
    assert set(results["structured"]) == {mode}
    assert set(results["state"]) == {"scored"}
    assert set(results["template"]) == set(load_judge("longmemeval-hindsight", work.folder).templates)
    hint = load_judge("longmemeval-hindsight", work.folder).json_hint
    assert hint is not None
    hinted = not mode.startswith("enforced")
    for body in asked:
        assert [name for name in ("response_format", "structured_outputs") if name in body] == (
            [field] if field else []
        )
        assert body["messages"][-1]["content"].endswith(hint) == hinted
    assert all(("json_hint" in notes) == hinted for notes in results["notes"].to_list())
    attempts = work.query("SELECT stage, keys, count(*) FROM attempts WHERE stage = 'probe' GROUP BY stage, keys")
    assert attempts == [("probe", b"", probes)]
    manifest = json.loads((work.out / "manifest.json").read_text())
    assert manifest["structured"] == {"longmemeval-hindsight × judge": mode}


def test_what_was_found_holds_when_the_run_goes_on_elsewhere(work: Workspace) -> None:
    with running(Simulation(structured="vllm")) as url:
        work.write_config(model(url), judges=["longmemeval-hindsight"])
        assert work.run("--limit", "10").status == 0
        keys = set(work.results()["key"])
    with running(Simulation(structured="openai")) as url:
        # This endpoint knows no structured_outputs: they are left out, and that is said of these judgments.
        work.write_config(model(url), judges=["longmemeval-hindsight"])
        done = work.run()
        assert done.status == 0, done.stderr
        results = work.results()
    assert keys < set(results["key"])
    assert work.query("SELECT count(*) FROM attempts WHERE stage = 'probe'") == [(2,)]
    modes = dict(results.group_by("structured").len().rows())
    assert modes == {"enforced:vllm": 10, "refused": len(ROWS) - 10}
    left_out = [notes for notes in results["notes"].to_list() if "not_sent:structured_outputs" in notes]
    assert len(left_out) == len(ROWS) - 10


@pytest.mark.long
def test_a_judge_that_requires_it_judges_nothing_where_it_cannot_be_had(work: Workspace) -> None:
    own = load_judge("longmemeval-hindsight", work.folder).source
    (work.folder / "strict.yaml").write_text(own.replace("structured: auto", "structured: require"))
    for endpoint in ("ignored", "refused", "json_object"):
        with running(Simulation(structured=endpoint)) as url:
            work.write_config(model(url), judges=["./strict.yaml"])
            stopped = work.run()
            assert stopped.status == 5
            assert "requires structured output" in stopped.stderr
            assert "json_schema" in stopped.stderr
            assert stopped.report["done"] == 0
            assert stats(url)["requests"] <= 3
    with running(Simulation(structured="vllm")) as url:
        work.write_config(model(url), judges=["./strict.yaml"])
        assert work.run().status == 0
    work.assert_each_trial_judged_once(len(ROWS))


@pytest.mark.parametrize(
    ("endpoint", "mode"), [("vllm", "enforced:vllm"), ("ignored", "ignored"), ("openai", "refused")]
)
def test_words_labels_and_scores_are_kept_to_by_choice_and_regex(work: Workspace, endpoint: str, mode: str) -> None:
    names = ("yes-no", "score-0-5", "choice-ab")
    for name in names:
        source = load_judge(name, work.folder).source
        assert "structured: off" in source
        (work.folder / f"{name}.yaml").write_text(source.replace("structured: off", "structured: auto"))
    work.write_items([row | {"response_a": "one", "response_b": "two"} for row in ROWS])
    with running(Simulation(structured=endpoint, log=work.folder / "log")) as url:
        work.write_config(model(url), judges=[f"./{name}.yaml" for name in names[:2]])
        done = work.run()
        assert done.status == 0, done.stderr
        demanded = {json.dumps(body.get("structured_outputs")) for body in judged(work, url)}
    assert set(work.results()["structured"]) == {mode}
    if mode == "enforced:vllm":
        assert demanded == {'{"choice": ["yes", "no"]}', '{"regex": "(0|1|2|3|4|5)"}'}
    else:
        assert demanded == {"null"}


@pytest.mark.long
def test_probes_bear_the_faults_of_an_endpoint(work: Workspace) -> None:
    faults: dict[str, Any] = {"server_errors": 0.3, "resets": 0.1, "throttled": 0.2, "retry_after_s": 0.01}
    with running(Simulation(**faults)) as url:
        work.write_config(model(url), judges=["longmemeval-hindsight", "correct-and-score"])
        done = work.run()
        assert done.status == 0, done.stderr
    assert set(work.results()["structured"]) == {"enforced:json_schema"}


def test_a_model_that_thinks_and_takes_no_temperature_is_asked_as_it_wants(work: Workspace) -> None:
    with running(Simulation(unsupported=("max_tokens", "temperature"), thinks=30, log=work.folder / "log")) as url:
        sampling = {"max_tokens": 200, "temperature": 0}
        work.write_config(model(url, limits={"in_flight": 2}, sampling=sampling))
        done = work.run()
        assert done.status == 0, done.stderr
        seen = stats(url)
        asked = judged(work, url)
    assert all("max_completion_tokens" in body and "temperature" not in body for body in asked)
    assert len(asked) == len(ROWS)
    # Two things to learn, by at most as many requests as were under way at once.
    assert 2 <= seen["by_status"]["400"] <= 4
    assert work.query("SELECT count(*) FROM attempts WHERE state = 'error' AND status = 400") == [
        (seen["by_status"]["400"],)
    ]
    results = work.results()
    for notes in results["notes"].to_list():
        assert {"sent:max_completion_tokens", "not_sent:temperature"} <= set(notes)
    assert all(text and text.startswith("Let us see.") for text in results["reasoning_text"].to_list())
    flags = {flag["code"]: flag["trials"] for flag in done.report["flags"]}
    assert flags["sent:max_completion_tokens"] == flags["not_sent:temperature"] == len(ROWS)


def test_a_reply_that_is_cut_is_asked_for_with_more_tokens(work: Workspace) -> None:
    with running(Simulation(thinks=30, log=work.folder / "log")) as url:
        work.write_config(model(url, sampling={"max_tokens": 10, "seed": 5}))
        done = work.run()
        assert done.status == 0, done.stderr
        asked = judged(work, url)
    assert {(body["max_tokens"], body["seed"]) for body in asked} == {(10, 5), (20, 6), (40, 7)}
    assert len(asked) == 3 * len(ROWS)
    results = work.results()
    assert set(results["stage"]) == {"rejudge:2"}
    assert all("max_tokens:40" in notes for notes in results["notes"].to_list())
