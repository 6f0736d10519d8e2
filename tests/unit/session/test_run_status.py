"""What `status` says of money and of requests in flight, while a process is at work and after one has ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

from judged_run import Run, jsonl, judged_run, scored

from runner.ledger.run_directory import RunDirectory
from runner.messages import Batch
from runner.session.run_status import status_of
from runner.usage import CostBound


def made(tmp_path: Path) -> Run:
    rows = [{"id": f"q{k}", "question": "Why?", "reference": "so", "response": "so"} for k in range(4)]
    jsonl(tmp_path / "items.jsonl", rows)
    run = judged_run(tmp_path, {"path": "items.jsonl"}, lambda row: scored(True), models=["paid", "local"])
    run.ledger.commit(Batch("w", 1, reserved=CostBound(1, 1_000, 1_010_100)))
    config = {"models": [{"name": "paid", "price": {"input": 1.0}}, {"name": "local", "price": None}]}
    (run.path / "manifest.json").write_text(json.dumps({"format": 1, "name": "small", "config": config}))
    return run


def test_requests_in_flight_belong_to_a_process_that_is_at_work(tmp_path: Path) -> None:
    directory = RunDirectory(made(tmp_path).path)
    directory.create()
    with directory.lock():
        assert directory.worker_pid() is not None
        status = status_of(directory.path)
        assert status.running and "when a process ended" not in status.text()
        assert "Up to $0.00102 (1 request, 1,000 tokens) more may be billed: requests in flight now" in status.text()
    assert directory.worker_pid() is None
    assert "may have been billed: requests in flight when a process ended" in status_of(directory.path).text()
    # A killed process leaves its number behind.
    (directory.path / "lock").write_text(str(os.getpid()))
    assert directory.worker_pid() is None


def test_a_model_without_a_price_shows_no_cost(tmp_path: Path) -> None:
    run = made(tmp_path)
    status = status_of(run.path)
    assert status.text().startswith("small: complete, 8 of 8 trials judged, spent ≥ $0.00400; no price for local")
    document = status.document()
    assert (document["unpriced"], document["running"]) == (["local"], False)
    config = {"models": [{"name": name, "price": None} for name in ("paid", "local")]}
    (run.path / "manifest.json").write_text(json.dumps({"format": 1, "name": "small", "config": config}))
    status = status_of(run.path)
    assert status.cost_usd is None
    assert ", no price for " in status.text() and "$0" not in status.text().splitlines()[0]
