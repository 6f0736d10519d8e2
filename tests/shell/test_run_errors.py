"""What can be wrong with a run: one clear line each, the right exit status, and nothing lost."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import Finished, Workspace, items, model, stats

from runner.simulate import Simulation, running

KEY_VARIABLE = "JURYBOX_TESTS_JUDGE"
ROWS = items(range(30))


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(ROWS)
    return work


@pytest.fixture(scope="module")
def untouched() -> Iterator[str]:
    """An endpoint that must not be asked anything."""
    with running() as url:
        yield url
        assert stats(url)["requests"] == 0


@pytest.fixture
def dead() -> Iterator[str]:
    """The address of an endpoint where nobody listens: the port is taken and stays so."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def assert_one_line(finished: Finished, status: int, *words: str) -> None:
    assert finished.status == status, finished.stderr
    assert re.fullmatch(r"jurybox: [^\n]+\n", finished.stderr), finished.stderr
    for word in words:
        assert word in finished.stderr


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("models.0.limit={rpm: 5}", ["models.0.limit: unknown key", "'limits'"]),
        ("models.0.limits.rpm=yes", ["models.0.limits.rpm", "quote the word"]),
        ("judges=[longmemeval-papr]", ["longmemeval-papr", "longmemeval-paper"]),
        ("judges=[./nowhere.yaml]", ["nowhere.yaml"]),
        ("items.path=nowhere.jsonl", ["nowhere.jsonl"]),
        (f"models.0.api_key_env={KEY_VARIABLE}", [KEY_VARIABLE]),
        ("out=items.jsonl/run", ["items.jsonl/run"]),
    ],
)
def test_what_is_wrong_before_the_first_call(work: Workspace, untouched: str, override: str, words: list[str]) -> None:
    work.write_config(model(untouched))
    assert_one_line(work.run("--set", override), 2, *words)


def test_a_config_that_is_not_there(work: Workspace) -> None:
    assert_one_line(work.run(), 2, str(work.config))


def test_bad_rows_are_named_before_the_first_call(work: Workspace, untouched: str) -> None:
    with work.items.open("a") as file:
        file.write('{"id": "q98", "question": \n')
        file.write('{"id": "q99", "question_id": "q99", "question": "Which?", "response": "?", "system": "atlas"}\n')
    work.write_config(model(untouched))
    refused = work.run()
    assert refused.status == 2
    assert refused.stderr.startswith("jurybox: ")
    for number, words in ((1, "not JSON"), (2, "q99.*reference")):
        assert re.search(rf"items\.jsonl:{len(ROWS) + number}: .*{words}", refused.stderr), refused.stderr


def test_a_wrong_key_stops_the_run_until_it_is_right(work: Workspace) -> None:
    with running(Simulation(api_key="sk-right")) as url:
        work.write_config(model(url, api_key_env=KEY_VARIABLE))
        work.environment[KEY_VARIABLE] = "sk-wrong"
        stopped = work.run()
        words = f"judge: {url} answers HTTP 401 for the model simulated-judge: Incorrect API key provided"
        assert_one_line(stopped, 5, words, f"(look at api_key_env: {KEY_VARIABLE})")
        assert "sk-wrong" not in stopped.stderr
        assert stopped.report["done"] == 0
        refused = stats(url)["requests"]
        assert 1 <= refused <= 4, "a handful"

        work.environment[KEY_VARIABLE] = "sk-right"
        done = work.run()
        assert done.status == 0, done.stderr
        assert stats(url)["requests"] == refused + len(ROWS)
    work.assert_each_trial_judged_once(len(ROWS))


def test_an_unknown_model_is_told_in_the_words_of_the_provider(work: Workspace) -> None:
    with running(Simulation(only_models=("another",))) as url:
        work.write_config(model(url))
        words = (
            f"judge: {url} answers HTTP 404 for the model simulated-judge: The model `simulated-judge` does not exist"
        )
        assert_one_line(work.run(), 5, words, "(look at model: simulated-judge and base_url)")
        assert stats(url)["requests"] <= 4


def test_an_endpoint_that_rejects_what_every_request_holds_fails_no_trial(work: Workspace) -> None:
    with running(Simulation(unsupported=("logit_bias",))) as url:
        work.write_config(model(url, extra={"body": {"logit_bias": {}}}))
        stopped = work.run()
        words = f"judge: every request of yes-no is rejected: {url} answers HTTP 400 for the model simulated-judge: "
        assert_one_line(stopped, 5, words, "logit_bias")
        assert stopped.report["done"] == 0
        work.write_config(model(url, "other"))
        assert work.run().status == 0


def test_a_form_that_the_config_demands_and_the_endpoint_rejects_is_told_before_anything_is_judged(
    work: Workspace,
) -> None:
    with running(Simulation(structured="refused")) as url:
        work.write_config(model(url, structured="json_schema"), judges=["longmemeval-hindsight"])
        stopped = work.run()
        assert_one_line(stopped, 5, "every request of longmemeval-hindsight is rejected", "response_format", "auto")
        assert stopped.report["done"] == 0
        assert stats(url)["requests"] == 1
        assert work.run("--set", "models.0.structured=off").status == 0
    work.assert_each_trial_judged_once(len(ROWS))


def test_a_used_up_quota_keeps_what_was_paid(work: Workspace) -> None:
    with running(Simulation(quota=25)) as url:
        work.write_config(model(url, limits={"in_flight": 4}))
        stopped = work.run()
        assert_one_line(stopped, 5, f"{url} answers HTTP 429", "You exceeded your current quota", "the credit of")
        assert (stopped.report["done"], stopped.report["planned"]) == (25, len(ROWS))
        assert stats(url)["requests"] <= 25 + 4
    with running() as url:
        assert work.run("--set", f"models.0.base_url={url}").status == 0
        assert stats(url)["requests"] == len(ROWS) - 25
    work.assert_each_trial_judged_once(len(ROWS))


def test_a_dead_endpoint_holds_up_no_other_model(work: Workspace, dead: str) -> None:
    with running() as url:
        work.write_config(model(dead, "gone"), model(url, "alive"))
        stopped = work.run()
        assert_one_line(stopped, 4, f"gone: {dead} was never reached", "run the same command")
        done = {r["model"]: (r["scored"], r["not_done"]) for r in stopped.report["results"] if r["system"] == "atlas"}
        assert done == {"gone": (0, 30), "alive": (30, 0)}
        assert stats(url)["requests"] == len(ROWS)
        assert work.run("--set", f"models.0.base_url={url}").status == 0
        assert stats(url)["requests"] == 2 * len(ROWS)
    work.assert_each_trial_judged_once(2 * len(ROWS))


def test_a_problem_that_needs_the_user_outweighs_an_outage(work: Workspace, dead: str) -> None:
    with running(Simulation(only_models=("another",))) as url:
        work.write_config(model(dead, "gone"), model(url, "unknown"))
        assert_one_line(work.run(), 5, "The model `simulated-unknown` does not exist")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "judges=[{use: yes-no, sampling: {temperature: 1}}]",
            ["sampling of yes-no × judge.temperature: was 0.0, is 1.0"],
        ),
        ("models.0.model=simulated-other", ["models.judge.model", "was simulated-judge, is simulated-other"]),
        ("items.fields={reference: question}", ["items.fields.reference: was not set, is question"]),
    ],
)
def test_another_meaning_in_the_same_directory(
    finished: tuple[Workspace, str], override: str, words: list[str]
) -> None:
    work, url = finished
    before = (work.query("SELECT * FROM judgments"), work.results().rows(), stats(url)["requests"])
    refused = work.run("--set", override)
    assert refused.status == 2
    for word in [*words, "--out"]:
        assert word in refused.stderr
    assert before == (work.query("SELECT * FROM judgments"), work.results().rows(), stats(url)["requests"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, str]]:
    work = Workspace(tmp_path_factory.mktemp("finished"))
    work.write_items(ROWS)
    with running() as url:
        work.write_config(model(url))
        assert work.run().status == 0
        yield work, url


def test_operational_keys_may_change(finished: tuple[Workspace, str]) -> None:
    work, url = finished
    asked = stats(url)["requests"]
    overrides = [
        "models.0.limits={rpm: 60}",
        "retry={attempts: 2}",
        "workers=1",
        "models.0.price={input: 1, output: 2}",
    ]
    again = work.run(*(part for override in overrides for part in ("--set", override)))
    assert (again.status, stats(url)["requests"]) == (0, asked)


def test_money_stops_at_the_cap_and_goes_on_when_it_is_raised(work: Workspace) -> None:
    price = {"input": 150.0, "output": 150.0}
    with running(Simulation(malformed=0.1)) as url:

        def paid() -> float:
            tokens: dict[str, Any] = stats(url)["tokens"]
            return float(tokens["prompt"] * price["input"] + tokens["completion"] * price["output"]) / 1e6

        work.write_config(model(url, price=price, limits={"in_flight": 8}), budget={"usd": 0.5})
        stopped = work.run()
        assert_one_line(stopped, 4, "the budget of 0.5 USD is spent", "budget.usd")
        assert 0 < stopped.report["done"] < len(ROWS)
        assert 0.35 < paid() <= 0.5
        assert stopped.report["cost_usd"] == pytest.approx(paid())

        # The same cap again buys nothing more.
        before = stats(url)["requests"]
        assert work.run().status == 4
        assert stats(url)["requests"] == before

        done = work.run("--set", "budget.usd=50")
        assert done.status == 0, done.stderr
        assert done.report["cost_usd"] == pytest.approx(paid())
    work.assert_each_trial_judged_once(len(ROWS))
