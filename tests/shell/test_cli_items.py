"""`jurybox run` and `plan` without a config, and with samples: as typed, in real processes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from runs import Finished, Workspace, items, log_of, model, stats

from runner.simulate import Simulation, running


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def judged(work: Workspace, url: str, *options: str) -> Finished:
    """`jurybox run ITEMS` against the endpoint."""
    arguments = ("--judge", "yes-no", "--model", "m", "--base-url", url, "--out", str(work.out))
    return work.command("run", work.items.name, *arguments, "--local", "--json", "--quiet", *options)


def foreign(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same items under other people's column names."""
    names = {"response": "model_answer", "reference": "gold_answer", "system": "model"}
    return [{names.get(name, name): value for name, value in row.items()} | {"human": True} for row in rows]


def test_items_without_a_config_are_judged_as_by_one_and_the_same_command_resumes(work: Workspace) -> None:
    work.write_items(items(range(10)))
    with running() as url:
        work.write_config(model(url, "m", model="m"))
        work.run("--out", str(work.folder / "by-config"))
        done = judged(work, url)
        asked = stats(url)["requests"]
        again = judged(work, url)
        assert stats(url)["requests"] == asked == 40
    assert (done.status, done.stderr, again.status) == (0, "", 0)
    work.assert_each_trial_judged_once(20)
    keys = {row["key"] for row in work.results().iter_rows(named=True)}
    work.out = work.folder / "by-config"
    assert keys == {row["key"] for row in work.results().iter_rows(named=True)}


def test_fields_labels_several_judges_and_the_default_directory(work: Workspace) -> None:
    work.write_items(foreign(items(range(6))))
    with running() as url:
        done = work.command(
            *("run", "items.jsonl", "--judge", "yes-no", "--judge", "answer-correctness", "--batch", "3"),
            *("--model", "small", "--model", "large", "--base-url", url, "--local", "--json", "--quiet"),
            *("--field", "response=model_answer", "--field", "reference=gold_answer", "--field", "system=model"),
            *("--label", "correct=human"),
        )
        assert done.status == 0, done.stderr
    report = done.report
    assert report["directory"] == "runs/items"
    assert {(r["judge"], r["model"], r["system"]) for r in report["results"]} == {
        (judge, name, system)
        for judge in ("yes-no", "answer-correctness")
        for name in ("small", "large")
        for system in ("atlas", "brook")
    }
    assert {entry["label"] for entry in report["agreement"]} == {"correct"}
    work.out = work.folder / "runs" / "items"
    sizes = work.results().filter(judge="answer-correctness")["batch_size"].unique().to_list()
    assert set(sizes) <= {1, 2, 3} and 3 in sizes


def test_the_openai_key_goes_nowhere_unless_it_is_named(work: Workspace) -> None:
    work.write_items(items(range(2)))
    work.environment["OPENAI_API_KEY"] = "sk-secret"
    with running(Simulation(api_key="sk-secret")) as url:
        refused = judged(work, url)
        assert refused.status == 5, "the simulated endpoint wants the key, and must not have got it"
        assert judged(work, url, "--api-key-env", "OPENAI_API_KEY").status == 0


def test_a_missing_column_is_told_with_the_option_that_names_it(work: Workspace) -> None:
    work.write_items([row | {"prompt": row["question"]} for row in foreign(items(range(2)))])
    done = judged(work, "http://127.0.0.1:1/v1", "--field", "question=promt")
    assert (done.status, done.stdout) == (2, "")
    assert "no column 'response'" in done.stderr and "no column 'promt'" in done.stderr
    assert (
        "the columns are id, question_id, question, gold_answer, model_answer, model, group, human, prompt"
        in done.stderr
    )
    assert "--field response=model_answer --field question=prompt --field reference=gold_answer" in done.stderr
    assert not work.out.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("config.yaml", "--judge", "yes-no"), "--judge is for items without a config"),
        (("config.yaml", "--base-url", "http://127.0.0.1:1"), "--base-url is for items without a config"),
        (("config.yaml", "items.jsonl"), "one config at a time"),
        (("items.jsonl",), "--judge NAME and --model ID must be given"),
        (("items.jsonl", "--judge", "yes-no"), "--model ID must be given"),
        (("items.jsonl", "--judge", "yes-nope", "--model", "m"), "did you mean 'yes-no'?"),
        (("items.jsonl", "--judge", "yes-no", "--model", "m", "--field", "response"), "must look like NAME=COLUMN"),
        (("items.jsonl", "--judge", "yes-no", "--model", "m", "--on", "id"), "--reference and --on belong together"),
        (("items.jsonl", "--judge", "yes-no", "--model", "m", "--batch", "2"), "takes one item a request"),
        (("items.jsonl", "--judge", "yes-no", "--model", "m", "--model", "m"), "names must differ"),
        (("items.jsonl", "--judge", "yes-no", "--model", "m", "--base-url", "host"), "must start with http"),
        (("nothing.jsonl", "--judge", "yes-no", "--model", "m"), "there is no file nothing.jsonl"),
        (("config.yaml", "--limit", "3", "--sample", "3"), "exclude each other"),
        (("config.yaml", "--seed", "3"), "--seed is what --sample is drawn by"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(work: Workspace, arguments: tuple[str, ...], said: str) -> None:
    work.write_items(items(range(2)))
    work.write_config(model("http://127.0.0.1:1/v1"))
    # `plan` reads them with the same code.
    done = work.command("run", *arguments)
    assert (done.status, done.stdout) == (2, "")
    assert said in done.stderr
    assert not work.out.exists() and not (work.folder / "runs").exists()


def test_a_plan_without_a_config_makes_no_call(work: Workspace) -> None:
    work.write_items(items(range(4)))
    with running() as url:
        arguments = ("items.jsonl", "--judge", "yes-no", "--model", "m", "--base-url", url)
        done = work.command("plan", *arguments, "--json", "--set", "repeats=2")
        assert stats(url)["requests"] == 0
    document = json.loads(done.stdout)
    assert (document["items"], document["trials"], document["sample"]) == (8, 16, None)
    assert "What is the name of harbour 0?" in document["prompts"][0]["messages"][0]["content"]


@pytest.mark.long
def test_a_sample_is_paired_stratified_resumed_and_grows_into_the_whole(work: Workspace) -> None:
    work.write_items(items(range(60)))
    with running(Simulation(log=work.folder / "log")) as url:
        work.write_config(model(url))
        planned = work.command("plan", str(work.config), "--sample", "30", "--seed", "7")
        assert "sample of 30 of 120 items, seed 7, 30 trials, 0 already judged" in planned.stdout
        first = work.run("--sample", "30", "--seed", "7")
        drawn = work.results()
        assert stats(url)["requests"] == 30
        assert (first.report["planned"], first.report["complete"]) == (30, True)
        assert first.report["items"]["sample"] == {"items": 30, "of": 120, "requested": 30, "seed": 7}
        assert "A sample of 30 of 120 items, seed 7, was judged." in first.report["notices"]
        assert Counter(drawn["item_group"]) == {"north": 10, "south": 10, "west": 10}
        assert set(Counter(drawn["question_id"]).values()) == {2}

        assert work.run("--sample", "30", "--seed", "7").report == first.report
        assert stats(url)["requests"] == 30
        larger = work.run("--sample", "60", "--seed", "7")
        assert stats(url)["requests"] == 60, "the larger sample holds the smaller one"
        assert larger.report["planned"] == 60
        whole = work.run()
        assert (stats(url)["requests"], whole.report["planned"]) == (120, 120)
        assert whole.report["items"]["sample"] is None
        back = work.run("--sample", "30", "--seed", "7")
        assert stats(url)["requests"] == 120
        assert back.report["results"] == first.report["results"]
    bodies = [entry["body"] for entry in log_of(work.folder / "log")]
    assert len(set(bodies)) == len(bodies), "an item was asked about twice"
    assert set(work.results()["key"]) == set(drawn["key"])


def test_bad_and_repeated_rows_are_out_before_the_sample_is_drawn(work: Workspace) -> None:
    rows = items(range(20))
    work.write_items([*rows, *rows, {"id": "bad"}])
    with running() as url:
        work.write_config(model(url), items={"path": "items.jsonl", "on_bad": "skip"})
        done = work.run("--sample", "10")
    assert done.report["items"]["sample"]["of"] == 40
    assert (done.report["items"]["duplicates"], done.report["items"]["rejects"]) == (40, 1)
    work.assert_each_trial_judged_once(10)
    assert sum(result["planned"] for result in done.report["results"]) == 10
