"""A writer that is killed and started again: what it acknowledged is there, once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.ledger.ledger import Ledger

pytestmark = pytest.mark.chaos

ROOT = Path(__file__).parents[2]
BATCH = 20
SHARD = 500

WRITER = """
import sys
from pathlib import Path
from runner.ledger.aggregator import Aggregator
from runner.ledger.ledger import Ledger
from runner.messages import Shard
from runner.messages import Attempt, Batch, Judgment, PendingTrial, TrialProgress, Usage

path, first, size, shard_size = Path(sys.argv[1]), *map(int, sys.argv[2:])
with Ledger(path) as ledger:
    if not ledger.shards():
        ledger.set_plan(Shard(n, "j", "m", 0, n * shard_size, shard_size, shard_size) for n in range(1000))
aggregator = Aggregator(path)
seq = first
while True:
    trials = [divmod(n, shard_size) for n in range((seq - 1) * size, seq * size)]
    names = [f"{shard}/{at}" for shard, at in trials]
    keys = [name.encode().rjust(16) for name in names]
    aggregator.record(Batch(
        "w", seq,
        tuple(Attempt(name, (key,), "j", "m", "id", "first", 1, "ok", 0.0, "w", usage=Usage(1, 0, 1, 0, 0.5),
                      judge_reply="yes " * 200) for name, key in zip(names, keys)),
        tuple(Judgment(*trial, key, "scored", None, "{}", "{}", "t", "strict", (), "1", "off", 1, 1, 0, name, None,
                       1, Usage(), None, 0.0, "w") for trial, key, name in zip(trials, keys, names)),
        (PendingTrial(999, seq % shard_size, bytes(16), "parked", TrialProgress()),),
    ))
    sys.stdout.write(f"{seq}\\n")
    sys.stdout.flush()
    seq += 1
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    chance = random.Random(7)
    acknowledged = 0
    for _ in range(15):
        # From the batch before: a sender that did not read its last acknowledgement sends that batch again.
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(max(acknowledged, 1)), str(BATCH), str(SHARD)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert writer.stdout is not None
        for _ in range(chance.randint(1, 60)):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout:
            if line.endswith("\n"):
                acknowledged = int(line)
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()

        with Ledger(path) as ledger:
            names, rows = ledger.judgment_rows(0, 1000)
            places = [(row[0], row[1]) for row in rows]
            at_least = [divmod(n, SHARD) for n in range(acknowledged * BATCH)]
            assert places[: len(at_least)] == at_least, "an acknowledged judgment is lost"
            assert len(places) in (len(at_least), len(at_least) + BATCH), "half a batch, or a double one"
            assert [row.done for row in ledger.shards()] == [len(ledger.done_positions(shard)) for shard in range(1000)]
            columns, attempts = ledger.attempt_rows(0, 1_000_000)
            requests = [row[columns.index("request_id")] for row in attempts]
            assert len(requests) == len(set(requests)) == len(places) == ledger.spend()["m"].requests
            by_id = dict(zip((row[0] for row in attempts), requests, strict=True))
            assert all(by_id[row[names.index("attempt")]] == f"{row[0]}/{row[1]}" for row in rows)
            assert ledger.spend()["m"].usage.cost_usd == 0.5 * len(places)
    assert acknowledged > 100
