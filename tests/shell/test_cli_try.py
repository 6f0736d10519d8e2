"""`jurybox try`: one real call, shown whole, and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs import Workspace, items, judging, log_of, model, stats

from runner.simulate import Simulation, running


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(items(range(5)))
    return work


def tried(work: Workspace, *options: str) -> list[dict[str, Any]]:
    """What `try CONFIG --json` says."""
    done = work.command("try", str(work.config), "--json", *options)
    assert done.status == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["tried"]
    return found


def test_what_is_shown_is_what_was_sent_and_what_a_run_would_send(work: Workspace) -> None:
    with running(Simulation(log=work.folder / "log")) as url:
        work.write_config(model(url), model(url, "other"), judges=["yes-no", "answer-correctness", "correct-and-score"])
        found = tried(work)
        stats(url)
        bodies = [json.loads(entry["body"]) for entry in judging(log_of(work.folder / "log"))]
        assert [each["request"] for each in found] == bodies
        assert not work.out.exists()
        assert {path.name for path in work.folder.iterdir()} == {"log", "items.jsonl", "config.yaml", "without-ray"}
        work.run("--limit", "1", "--set", "judges=[yes-no]")
        stats(url)
        assert json.loads(log_of(work.folder / "log")[-1]["body"])["messages"] == found[0]["request"]["messages"]
    assert [(each["judge"], each["model"]) for each in found] == [
        (judge, name) for judge in ("yes-no", "answer-correctness", "correct-and-score") for name in ("judge", "other")
    ]
    assert {each["item_id"] for each in found} == {"q0-atlas"}
    for each in found:
        assert each["reply"]["text"] and each["reply"]["finish_reason"] == "stop"
        assert (each["reading"]["state"], each["reading"]["stage"], each["error"]) == ("scored", "strict", None)
        assert set(each["reading"]["scores"]) == {
            "yes-no": {"correct"}, "answer-correctness": {"score"}, "correct-and-score": {"correct", "score"},
        }[each["judge"]]  # fmt: skip


def test_an_item_a_judge_and_a_model_can_be_chosen(work: Workspace) -> None:
    with running() as url:
        work.write_config(model(url), model(url, "other"), judges=["yes-no", "score-0-5"])
        (found,) = tried(work, "--item", "q3-brook", "--judge", "score-0-5", "--model", "other")
        assert (found["judge"], found["model"], found["item_id"]) == ("score-0-5", "other", "q3-brook")
        assert stats(url)["requests"] == 1
    for option, said in (("--item", "no item has this id"), ("--judge", "it has yes-no, score-0-5")):
        done = work.command("try", str(work.config), option, "nope")
        assert (done.status, done.stdout) == (2, "")
        assert said in done.stderr


def test_items_without_a_config(work: Workspace) -> None:
    with running() as url:
        arguments = ("items.jsonl", "--judge", "yes-no", "--model", "m", "--base-url", url)
        done = work.command("try", *arguments)
    assert (done.status, done.stderr) == (0, "")
    shown = done.stdout.splitlines()
    assert shown[0] == "=== yes-no × m: item q0-atlas (system atlas, group north), template base"
    assert shown[2] == "[user]"
    assert "Response: Answer 0 of atlas: {it} is Port 1." in shown
    assert shown[-3:-1] in (["[text]", "yes"], ["[text]", "no"])
    assert shown[-1].startswith("--- read as scored: ")


def test_a_reply_without_a_verdict_is_shown_and_is_no_success(work: Workspace) -> None:
    with running(Simulation(truncated=1)) as url:
        work.write_config(model(url))
        done = work.command("try", str(work.config))
    assert done.status == 3
    assert "finish_reason length" in done.stdout
    assert "--- read as malformed: truncated" in done.stdout
    assert "this is no score" in done.stdout


@pytest.mark.parametrize(
    ("endpoint", "status", "said"),
    [
        ({"api_key": "right"}, 5, "Incorrect API key"),
        ({"only_models": ("another",)}, 5, "does not exist"),
        ({"quota": 0}, 5, "quota"),
        ({"throttled": 1.0}, 4, "Rate limit"),
        ({"server_errors": 1.0}, 4, "http://127.0.0.1"),
        (None, 4, "Cannot connect"),
    ],
)
def test_the_endpoints_trouble_is_told_with_its_exit_status(
    work: Workspace, endpoint: dict[str, Any] | None, status: int, said: str
) -> None:
    with running(Simulation(**endpoint) if endpoint else Simulation()) as url:
        if endpoint is None:
            url = "http://127.0.0.1:1/v1"
        work.write_config(model(url))
        done = work.command("try", str(work.config))
        as_json = work.command("try", str(work.config), "--json")
    assert done.status == status, done.stderr
    assert said.lower() in done.stderr.lower()
    assert "What is the name of harbour 0?" in done.stdout, "the prompt is shown whatever comes of it"
    assert as_json.status == status
    assert json.loads(as_json.stdout)["tried"][0]["error"]["message"]


def test_a_bad_row_is_named_unless_another_item_is_wanted(work: Workspace) -> None:
    work.write_items([{"id": "bad", "question": "q"}, *items(range(2))])
    with running() as url:
        work.write_config(model(url))
        done = work.command("try", str(work.config))
        assert done.status == 2
        assert "items.jsonl:1: no response" in done.stderr
        assert tried(work, "--item", "q1-atlas")[0]["item_id"] == "q1-atlas"
        work.write_config(model(url), items={"path": "items.jsonl", "on_bad": "skip"})
        assert tried(work)[0]["item_id"] == "q0-atlas"


def test_a_missing_key_is_told_before_any_call(work: Workspace) -> None:
    with running() as url:
        work.write_config(model(url, api_key_env="NOT_SET"))
        done = work.command("try", str(work.config))
        assert stats(url)["requests"] == 0
    assert (done.status, done.stdout) == (2, "")
    assert "NOT_SET is not set" in done.stderr


def test_a_slip_in_a_judges_code_is_told_as_a_run_tells_it(work: Workspace) -> None:
    code = (
        "from pathlib import Path\nfrom judges import Judge, load_judge, parse_judge\n"
        "class Slip(Judge):\n    def scores(self, verdict, item):\n        return {'correct': 1 / 0}\n"
        "judge = parse_judge(load_judge('yes-no', Path()).source, 'slip', Slip)\n"
    )
    (work.folder / "mine.py").write_text(code, encoding="utf-8")
    with running() as url:
        work.write_config(model(url), judges=["./mine.py:judge"])
        done = work.command("try", str(work.config))
        as_json = work.command("try", str(work.config), "--json")
        ran = work.run()
    words = "ZeroDivisionError: division by zero"
    assert done.stdout.splitlines()[-1] == f"--- read as failed: judge_code ({words}); this is no score"
    assert done.stderr == f"jurybox: judge 'yes-no': its code cannot deal with this reply: {words}\n"
    assert (done.status, as_json.status, ran.status) == (5, 5, 5)
    assert json.loads(as_json.stdout)["tried"][0]["reading"]["reason"] == "judge_code"
    assert words in ran.stderr
