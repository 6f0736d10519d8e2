"""What leaves a worker where its ledger is gone for good: the one error that says so, whatever it was doing."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from judges import load_judge
from runner.config import parse_config
from runner.errors import StoppedEarly
from runner.messages import Ack, Batch, Lease, LeaseRenewal, Task
from runner.worker.worker import Worker


async def test_a_ledger_that_is_gone_ends_a_probe_with_its_own_error() -> None:
    model = {"name": "m", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    config = parse_config({"name": "t", "items": {"path": "x"}, "judges": ["correct-and-score"], "models": [model]})

    async def gone(batch: Batch) -> Ack:
        raise StoppedEarly("the aggregator did not come back")

    worker = Worker("w", config, [load_judge("correct-and-score", Path())], gone)
    await worker.renew(LeaseRenewal((Lease("m", in_flight=1),)))
    with pytest.raises(StoppedEarly, match="did not come back"):
        await worker.run(Task(1, "correct-and-score", "m", 0, (), probe=True))
    assert gc.get_freeze_count() > 0
    await worker.close()
    assert gc.get_freeze_count() == 0, "the collector sees all of the process again"
