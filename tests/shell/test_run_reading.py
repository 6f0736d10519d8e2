"""What a real run's report says of its replies, against an endpoint that gives bad ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from runs import Workspace, items, model

from runner.simulate import Simulation, running

TRIALS = 400


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, dict[str, Any]]:
    """A run of two judges and 400 items whose replies are bad in every way, the rather the more they say yes."""
    work = Workspace(tmp_path_factory.mktemp("run"))
    work.write_items(items(range(TRIALS // 2)))
    with running(Simulation(malformed=0.15, malformed_skew=4, truncated=0.1, refused=0.04, server_errors=0.02)) as url:
        price = {"input": 1.0, "output": 4.0}
        work.write_config(
            model(url, price=price),
            judges=["yes-no", "correct-and-score"],
            retry={"attempts": 8, "reformat": model(url, "copier", price=price)},
        )
        done = work.run()
    assert done.status in (0, 3), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return work, document


def test_every_reply_and_every_trial_is_counted_once(reported: tuple[Workspace, dict[str, Any]]) -> None:
    work, document = reported
    reading = document["reading"]
    (versions,) = zip(
        *work.query("SELECT DISTINCT parser_version FROM attempts WHERE reading IS NOT NULL"), strict=True
    )
    assert len(versions) == 1
    for first in reading["first_replies"]:
        assert first["replies"] == TRIALS
        assert 0.1 < first["malformed"]["value"] < 0.6
        assert first["malformed"]["low"] < first["malformed"]["value"] < first["malformed"]["high"]
        assert sum(first["reasons"].values()) == first["malformed"]["hits"]
        assert first["cut"]["hits"] >= first["reasons"]["truncated"] > 0
        assert first["refused"]["hits"] > 0
        assert first["parser_version"] == versions[0]
    assert len(reading["first_replies"]) == len(reading["ways"]) == 2
    for entry in reading["ways"]:
        assert sum(way["trials"]["hits"] for way in entry["ways"]) == TRIALS
        names = [way["way"] for way in entry["ways"]]
        assert names[0] == "strict"
        assert "rejudge" in names


def test_calls_by_stage_are_all_calls(reported: tuple[Workspace, dict[str, Any]]) -> None:
    _, document = reported
    found = document["reading"]["calls"]
    assert sum(entry["calls"] for entry in found) == document["requests"]
    assert sum(entry["usage"]["cost_usd"] for entry in found) == pytest.approx(document["cost_usd"])
    steps = {(entry["judge"], entry["step"]): entry for entry in found}
    for judge in ("yes-no", "correct-and-score"):
        first, again, copied = (steps[judge, step] for step in ("first", "rejudge", "reformat"))
        assert (copied["model"], first["model"]) == ("copier", "judge")
        assert first["calls"] == TRIALS + first["failed"]
        assert first["read"] + first["malformed"] + first["refused"] == TRIALS
        assert again["calls"] - again["failed"] == again["read"] + again["malformed"] + again["refused"] > 0


def test_what_a_reader_must_know(reported: tuple[Workspace, dict[str, Any]]) -> None:
    work, document = reported
    notices = " ".join(document["notices"])
    assert "First replies were cut off for their length: " in notices
    assert "of yes-no × judge" in notices
    assert "A larger max_tokens" in notices
    assert "Verdicts that were read strictly and others differ beyond chance, within systems: " in notices
    assert "yes-no × judge: correct 0." in notices
    unreadable = document["reading"]["unreadable"]
    assert {entry["judge"] for entry in unreadable} == {"yes-no", "correct-and-score"}
    assert all(entry["example"] is None or entry["example"].isprintable() for entry in unreadable)
    shown = work.command("report", str(work.out), "--section", "reading", "--section", "costs").stdout
    for title in ("First replies", "Reading", "Unreadable replies", "Calls by stage"):
        assert f"\n{title}\n" in shown
        assert f"## {title}\n" in work.command("report", str(work.out), "--markdown").stdout


def test_the_replies_of_a_run_are_read_alike_by_hand(reported: tuple[Workspace, dict[str, Any]], jurybox: Path) -> None:
    """`jurybox read` says of every stored reply what the run did."""
    work, _ = reported
    rows = work.query(
        "SELECT judge, judge_reply, finish_reason, refusal_text, reasoning_text, reading FROM attempts"
        " WHERE reading IS NOT NULL AND stage <> 'reformat'"
    )
    names = ("judge", "text", "finish_reason", "refusal", "reasoning")
    lines = [json.dumps(dict(zip(names, row[:-1], strict=True))) for row in rows]
    done = subprocess.run(
        [jurybox, "read", "--jsonl"], input="\n".join(lines), capture_output=True, text=True, timeout=60
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    said = [answer["stage"] or f"{answer['state']}:{answer['reason']}" for answer in answers]
    assert len(said) > 2 * TRIALS
    assert said == [row[-1] for row in rows]
