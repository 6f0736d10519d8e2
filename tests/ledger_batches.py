"""Small real batches for the tests of the ledger."""

from __future__ import annotations

import hashlib
from pathlib import Path

from runner.ledger.ledger import Ledger
from runner.messages import Attempt, Batch, Judgment, PendingTrial, Shard, TrialProgress
from runner.usage import Usage

USAGE = Usage(100, 20, 5, 0, 0.25)


def key(shard: int, position: int) -> bytes:
    return hashlib.blake2b(f"{shard}/{position}".encode(), digest_size=16).digest()


def plan(shards: int = 4, trials: int = 5) -> list[Shard]:
    """Judges j0 and j1 in turn, models m0, m0, m1, m1 in turn."""
    return [Shard(n, f"j{n % 2}", f"m{n // 2 % 2}", 0, n * trials, trials, trials) for n in range(shards)]


def attempt(request: str, shard: int = 0, **changes: object) -> Attempt:
    values = dict(
        request_id=request, keys=(key(0, 0),), judge=f"j{shard % 2}", model=f"m{shard // 2 % 2}", model_id="gpt",
        stage="first", try_=1, state="ok", sent_at=1.5, worker="w", judge_reply="yes", usage=USAGE,
    )  # fmt: skip
    return Attempt(**(values | changes))  # type: ignore[arg-type]


def judgment(shard: int, position: int, request: str | None = None, **changes: object) -> Judgment:
    values = dict(
        shard=shard, position=position, key=key(shard, position), state="scored", reason=None,
        verdict='{"correct": true}', scores='{"correct": 1.0}', template="base", stage="strict", notes=(),
        parser_version="1", structured="off", batch_size=1, batch_position=1, bisect_depth=0, request_id=request,
        official=True, attempts=1, usage=USAGE,
        latency_s=0.5, judged_at=2.5, worker="w",
    )  # fmt: skip
    return Judgment(**(values | changes))  # type: ignore[arg-type]


def waiting(shard: int, position: int, why: str = "malformed", history: TrialProgress | None = None) -> PendingTrial:
    return PendingTrial(shard, position, key(shard, position), why, history or TrialProgress(malformed=1, attempts=1))


def judged(sender: str, seq: int, shard: int, *positions: int) -> Batch:
    """A batch of one request per trial."""
    names = [f"{sender}-{seq}-{position}" for position in positions]
    return Batch(
        sender,
        seq,
        attempts=tuple(attempt(name, shard) for name in names),
        judgments=tuple(judgment(shard, at, name) for at, name in zip(positions, names, strict=True)),
    )


def new_ledger(directory: Path, shards: list[Shard] | None = None) -> Ledger:
    ledger = Ledger(directory / "run.db")
    ledger.set_plan(plan() if shards is None else shards)
    return ledger


def judgments(ledger: Ledger) -> list[dict[str, object]]:
    names, rows = ledger.judgment_rows(0, 1_000_000)
    return [dict(zip(names, row, strict=True)) for row in rows]


def attempts(ledger: Ledger) -> list[dict[str, object]]:
    names, rows = ledger.attempt_rows(0, 1_000_000)
    return [dict(zip(names, row, strict=True)) for row in rows]
