"""How fast the ledger takes in judged trials, and whether that stays so as it grows.

    python scripts/bench_ledger.py [--at 0 1000000 5000000 10000000] [--batch 100 500] [--insert-only] [--directory DIR]

Every trial is one attempt row and one judgment row. Batches come from eight senders in turn, each working off its own
shard of 500, as in a run. Each line is measured over 20,000 trials.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runner.ledger.aggregator import Aggregator
from runner.ledger.ledger import Ledger
from runner.messages import Attempt, Batch, Judgment, Shard
from runner.usage import Usage

SHARD = 500
SENDERS = 8
MEASURED = 20_000


class Source:
    """Batches without end; the n-th trial has the same key in every run."""

    def __init__(self, reply: str) -> None:
        self._reply = reply
        self._shard = 0
        self._seqs = [0] * SENDERS
        self._usage = Usage(900, 0, 5, 0, 0.0023)

    def batches(self, trials: int, size: int) -> Iterator[Batch]:
        """The next trials (whole rounds of all senders), so many in a batch."""
        for _ in range(-(-trials // (SENDERS * SHARD))):
            for start in range(0, SHARD, size):
                for sender in range(SENDERS):
                    self._seqs[sender] += 1
                    yield self._batch(sender, self._shard + sender, range(start, start + size))
            self._shard += SENDERS

    def _batch(self, sender: int, shard: int, positions: range) -> Batch:
        places = [(shard, position) for position in positions]
        keys = [key_of(*place) for place in places]
        return Batch(
            f"w{sender}",
            self._seqs[sender],
            tuple(
                Attempt(
                    key.hex(), (key,), "longmemeval-paper", "gpt-4o", "gpt-4o-2024-08-06", "first", 1, "ok",
                    1.7e9, f"w{sender}", served_model="gpt-4o-2024-08-06", status=200, finish_reason="stop",
                    judge_reply=self._reply, usage=self._usage, latency_s=0.8,
                )
                for key in keys
            ),
            tuple(
                Judgment(
                    *place, key, "scored", None, '{"correct": true}', '{"correct": 1.0}', "base", "strict", (),
                    "1", "off", 1, 1, 0, key.hex(), True, 1, self._usage, 0.8, 1.7e9, f"w{sender}",
                )
                for place, key in zip(places, keys, strict=True)
            ),
        )  # fmt: skip


def key_of(shard: int, position: int) -> bytes:
    """The key of the trial at a place."""
    return hashlib.blake2b(f"{(shard, position)}".encode(), digest_size=16).digest()


def measure(aggregator: Aggregator, source: Source, size: int) -> str:
    """Records so many trials in batches of that size: what a trial and a batch cost."""
    work = list(source.batches(MEASURED, size))
    times = []
    cpu = time.process_time()
    for batch in work:
        began = time.perf_counter()
        aggregator.record(batch)
        times.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    p99 = statistics.quantiles(times, n=100)[98]
    return (
        f"| {size} | {MEASURED / sum(times):,.0f} | {1e6 * sum(times) / MEASURED:.1f} | {1e6 * cpu / MEASURED:.1f}"
        f" | {1000 * statistics.median(times):.2f} | {1000 * p99:.2f} |"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--at", type=int, nargs="+", default=[0, 1_000_000], help="trials in the ledger when measured")
    options.add_argument("--batch", type=int, nargs="+", default=[100, 500], help="trials a batch; each divides 500")
    options.add_argument("--reply-bytes", type=int, default=200)
    options.add_argument("--insert-only", action="store_true", help="measure nothing that reads or changes the plan")
    options.add_argument("--directory", type=Path, help="where the ledger is made (default: a temporary directory)")
    given = options.parse_args()

    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        path = Path(directory) / "run.db"
        measured = len(given.at) * len(given.batch) * MEASURED
        shards = [
            Shard(n, "longmemeval-paper", "gpt-4o", 0, n * SHARD, SHARD, SHARD)
            for n in range((max(given.at) + measured) // SHARD + SENDERS)
        ]
        with Ledger(path) as ledger:
            ledger.set_plan(shards)
        aggregator = Aggregator(path)
        source = Source("x" * given.reply_bytes)
        say("| trials in the ledger | a batch | trials/s | us a trial | CPU us a trial | p50 ms a batch | p99 ms |")
        say("|---" * 7 + "|")
        done = 0
        for at in sorted(given.at):
            for batch in source.batches(at - done, SHARD) if at > done else ():
                aggregator.record(batch)
                done += len(batch.judgments)
            for size in given.batch:
                say(f"| {done:,} {measure(aggregator, source, size)}")
                done += MEASURED
        aggregator.close()
        say(f"file: {path.stat().st_size / 1e6:,.0f} MB, {path.stat().st_size / done:.0f} bytes a trial")
        if not given.insert_only:
            read(path, shards)


def read(path: Path, shards: Sequence[Shard]) -> None:
    """What reading a ledger of that size takes, and the worst change of its plan."""
    began = time.perf_counter()
    ledger = Ledger(path)
    timed("open, with quick_check", began)
    began = time.perf_counter()
    ledger.tallies()
    timed("tallies", began)
    began = time.perf_counter()
    keys = sum(1 for _ in ledger.judged_keys())
    timed("judged_keys", began)
    began = time.perf_counter()
    for first in range(0, len(shards), 100):
        ledger.judgment_rows(first, first + 99)
    timed("all judgment_rows", began)
    # Every trial has another place.
    moved = ((key_of(*divmod(n, SHARD)), *divmod(keys - 1 - n, SHARD)) for n in range(keys))
    began = time.perf_counter()
    ledger.replan(shards, moved)
    timed("replan, every trial moved", began)
    ledger.close()


def say(line: str) -> None:
    """A line on stdout."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def timed(what: str, began: float) -> None:
    """How long something took that began then."""
    say(f"{what}: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
