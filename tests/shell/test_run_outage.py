"""Trials that always fail beside trials that do not, and endpoints that never work: whose fault is whose."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from plain_endpoint import answering, saying


def serving(works: Callable[[str], bool], status: int = 500) -> AbstractContextManager[str]:
    """An endpoint that answers yes to the prompts that `works` accepts, and with an error to the others."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        ok = works(body["messages"][-1]["content"])
        return saying("Yes") if ok else (status, {"error": {"message": "out of order"}})

    return answering(answer)


def judged(folder: Path, url: str, items: int, max_outage: str) -> tuple[int, str, dict[str, int]]:
    """Exit status, stderr and judgments by state of a run over `items` numbered questions."""
    rows = [{"id": str(n), "question": f"q{n}", "reference": "a", "response": "b"} for n in range(items)]
    (folder / "items.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    config = {
        "name": "outage",
        "items": {"path": "items.jsonl"},
        "judges": ["yes-no"],
        "models": [{"name": "m", "model": "m", "base_url": url, "limits": {"in_flight": 16}}],
        "retry": {"attempts": 2, "max_outage": max_outage},
        "max_unscored": 0.001,
    }
    (folder / "run.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "runner", "run", str(folder / "run.yaml")]
    options = ["--local", "--yes", "--quiet", "--out", str(folder / "run")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
    with sqlite3.connect(folder / "run" / "run.db") as ledger:
        states = dict(ledger.execute("SELECT state, count(*) FROM judgments GROUP BY state"))
    ledger.close()
    return done.returncode, done.stderr, states


def number(prompt: str) -> int | None:
    """Which question a prompt asks; None for a prompt of another kind."""
    match = re.search(r"Question: q(\d+)\n", prompt)
    return int(match.group(1)) if match else None


def test_many_failing_items_at_the_front_do_not_hold_up_the_others(tmp_path: Path) -> None:
    with serving(lambda prompt: (number(prompt) or 0) >= 30 or number(prompt) is None) as url:
        status, _, states = judged(tmp_path, url, 60, "5m")
    assert states == {"scored": 30, "failed": 30}
    assert status == 3


def test_an_endpoint_that_never_works_fails_no_trial(tmp_path: Path) -> None:
    with serving(lambda prompt: False) as url:
        status, stderr, states = judged(tmp_path, url, 2, "6s")
    assert states == {}
    assert status == 4
    assert "out of order" in stderr
    with serving(lambda prompt: True) as url:
        status, _, states = judged(tmp_path, url, 2, "6s")
    assert states == {"scored": 2}
    assert status == 0


def test_an_endpoint_that_comes_to_reject_everything_fails_no_trial(tmp_path: Path) -> None:
    """As some providers say it with a 400 that the credit is used up, or that the model is gone."""
    asked: list[str] = []
    rejected: list[str] = []

    def works(prompt: str) -> bool:
        asked.append(prompt)
        # One request is at fault itself, as a probe has shown before all are rejected.
        is_shown = any(number(before) is None for before in asked[:-1])
        if is_shown and len(asked) > 40:
            rejected.append(prompt)
        return number(prompt) != 3 and not rejected

    # So many that the probe comes before the last of them, however busy the machine is.
    with serving(works, 400) as url:
        status, stderr, states = judged(tmp_path, url, 600, "5m")
    assert status == 5
    assert f"m: every request of yes-no is rejected: {url} answers HTTP 400 for the model m: out of order" in stderr
    assert states["failed"] == 1, states
    assert 30 <= states["scored"] < 599
    assert len(rejected) <= 2 * 16, "those in flight, and a few that show it"
    with serving(lambda prompt: number(prompt) != 3, 400) as url:
        status, _, states = judged(tmp_path, url, 600, "5m")
    assert states == {"scored": 599, "failed": 1}
    assert status == 3
