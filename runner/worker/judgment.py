"""The one place where a trial's outcome becomes its judgment: after a reply, a death of its worker, or a new reading.

Hides which stage and which notes a judgment names. Pure, but for the clock that stamps it.
"""

import json
import time

from judges import PARSER_VERSION, Item, Judge, Outcome, Provenance, Scored, reason_of
from runner.messages import BLOCK_MARKER, Judgment, TrialProgress


def build_judgment(
    outcome: Outcome,
    judge: Judge,
    item: Item | None,
    history: TrialProgress,
    *,
    shard: int,
    position: int,
    key: bytes,
    template: str,
    structured: str,
    stage: str,
    worker: str,
    request_id: str | None = None,
    latency_s: float | None = None,
    batch_size: int = 1,
    batch_position: int = 1,
    bisect_depth: int = 0,
    notes: tuple[str, ...] = (),
) -> Judgment:
    """The judgment on a trial. `item` is None where the judge must not look at it.

    `stage` and all below it are of the request that decided; `notes`: how it was put, not how its reply was read.
    """
    verdict: str | None = None
    scores: str | None = None
    if item is not None and batch_size == 1 and judge.has_block_marker(item, template):
        notes += (BLOCK_MARKER,)
    if isinstance(outcome, Scored):
        assert item is not None
        verdict = json.dumps(dict(outcome.verdict), ensure_ascii=False)
        scores = json.dumps(judge.scores(outcome.verdict, item))
        stage, reading_notes = verdict_stage(stage, outcome.provenance)
        notes += reading_notes
    return Judgment(
        shard, position, key, outcome.state, reason_of(outcome), verdict, scores, template, stage, notes,
        PARSER_VERSION, structured, batch_size, batch_position, bisect_depth, request_id,
        official=history.official, attempts=history.attempts, usage=history.usage,
        latency_s=latency_s, judged_at=time.time(), worker=worker,
    )  # fmt: skip


def request_notes(json_hint: bool, history: TrialProgress, notes: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The notes on how a trial's requests were put; `notes`: those of the very request that decided."""
    notes = ("json_hint", *notes) if json_hint else notes
    return (*notes, f"reformat_failed:{history.reformat_failed}") if history.reformat_failed else notes


def verdict_stage(request_stage: str, provenance: Provenance) -> tuple[str, tuple[str, ...]]:
    """The stage that a verdict's judgment names, its request's or its reading's; and notes, which name the other."""
    if request_stage == "first":
        return provenance.stage, provenance.notes
    if provenance.stage == "reformat":
        return provenance.stage, (*provenance.notes, f"asked:{request_stage}")
    return request_stage, (*provenance.notes, f"read:{provenance.stage}")
