"""How fast the ledger takes in judged trials, and whether that stays so as it grows.

    python scripts/bench_ledger.py [--fill 1000000] [--batch 100] [--reply-bytes 200] [--directory DIR]

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
from collections.abc import Iterator
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runner.aggregator import Aggregator
from runner.ledger import Ledger
from runner.plan import Shard
from runner.protocol import Attempt, Batch, Judgment, Usage

SHARD = 500
SENDERS = 8
MEASURED = 20_000


def batches(size: int, reply: str) -> Iterator[Batch]:
    """Batches without end; the n-th trial has the same key in every run."""
    usage = Usage(900.0, 0.0, 5.0, 0.0, 0.0023)
    for first_shard in count(0, SENDERS):
        for start in range(0, SHARD, size):
            seq = first_shard // SENDERS * (SHARD // size) + start // size + 1
            for sender in range(SENDERS):
                shard = first_shard + sender
                places = [(shard, position) for position in range(start, start + size)]
                keys = [hashlib.blake2b(f"{place}".encode(), digest_size=16).digest() for place in places]
                yield Batch(
                    f"w{sender}",
                    seq,
                    tuple(
                        Attempt(
                            key.hex(), (key,), "longmemeval-paper", "gpt-4o", "gpt-4o-2024-08-06", "first", 1, "ok",
                            1.7e9, f"w{sender}", served_model="gpt-4o-2024-08-06", status=200, finish_reason="stop",
                            answer_text=reply, usage=usage, latency_s=0.8,
                        )
                        for key in keys
                    ),
                    tuple(
                        Judgment(
                            *place, key, "scored", None, '{"correct": true}', '{"correct": 1.0}', "base", "strict", (),
                            "1", "off", 1, 1, 0, key.hex(), True, 1, usage, 0.8, 1.7e9, f"w{sender}",
                        )
                        for place, key in zip(places, keys, strict=True)
                    ),
                )  # fmt: skip


def measure(aggregator: Aggregator, source: Iterator[Batch], trials: int, size: int) -> str:
    """Records that many trials; trials a second, and the time of one batch."""
    work = [next(source) for _ in range(trials // size)]
    times = []
    for batch in work:
        began = time.perf_counter()
        aggregator.record(batch)
        times.append(time.perf_counter() - began)
    p99 = statistics.quantiles(times, n=100)[98]
    return (
        f"{trials / sum(times):>9,.0f} trials/s   p50 {1000 * statistics.median(times):.2f} ms"
        f"   p99 {1000 * p99:.2f} ms a batch of {size}"
    )


def timed(what: str, began: float) -> None:
    sys.stdout.write(f"{what:<40}{time.perf_counter() - began:>9.2f} s\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--fill", type=int, default=1_000_000, help="trials in the ledger at the second measurement")
    options.add_argument("--batch", type=int, default=100, help="trials a batch; divides 500")
    options.add_argument("--reply-bytes", type=int, default=200)
    options.add_argument("--directory", type=Path, help="where the ledger is made (default: a temporary directory)")
    given = options.parse_args()

    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        path = Path(directory) / "run.db"
        shards = [
            Shard(n, "longmemeval-paper", "gpt-4o", 0, n * SHARD, SHARD, SHARD)
            for n in range((given.fill + 4 * MEASURED) // SHARD + SENDERS)
        ]
        with Ledger(path) as ledger:
            ledger.set_plan(shards)
        aggregator = Aggregator(path)
        source = batches(given.batch, "x" * given.reply_bytes)
        sys.stdout.write(f"{'at 0':<14}{measure(aggregator, source, MEASURED, given.batch)}\n")
        began = time.perf_counter()
        while aggregator.snapshot().tallies["longmemeval-paper", "gpt-4o"].done < given.fill:
            measure(aggregator, source, min(given.fill, MEASURED), given.batch)
        timed(f"filling to {given.fill:,}", began)
        sys.stdout.write(f"{f'at {given.fill:,}':<14}{measure(aggregator, source, MEASURED, given.batch)}\n")
        aggregator.close()
        sys.stdout.write(f"{'file':<40}{path.stat().st_size / 1e6:>9.0f} MB\n")
        began = time.perf_counter()
        ledger = Ledger(path)
        timed("open, with quick_check", began)
        began = time.perf_counter()
        ledger.tallies()
        timed("tallies", began)
        began = time.perf_counter()
        keys = list(ledger.judged_keys())
        timed("judged_keys", began)
        began = time.perf_counter()
        for first in range(0, len(shards), 100):
            ledger.judgment_rows(first, first + 99)
        timed("all judgment_rows", began)
        # The worst change of a plan: every trial has another place.
        moved = [(key, *divmod(len(keys) - 1 - n, SHARD)) for n, key in enumerate(keys)]
        began = time.perf_counter()
        ledger.replan(shards, moved)
        timed("replan, every trial moved", began)
        ledger.close()


if __name__ == "__main__":
    main()
