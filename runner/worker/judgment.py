"""The one place where a trial's outcome becomes its judgment: after a reply, a death of its worker, or a new reading.

Hides which stage and which notes a judgment names. Pure, but for the clock that stamps it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judges import PARSER_VERSION, Item, Judge, Outcome, Provenance, Scored, reason_of
from runner.messages import BLOCK_MARKER, Judgment, TrialProgress


@dataclass(frozen=True, slots=True)
class DecidingRequest:
    """What a judgment says of the request that decided it."""

    stage: str
    worker: str
    request_id: str | None = None
    """None: no call was made."""
    latency_s: float | None = None
    batch_size: int = 1
    batch_position: int = 1
    """From 1."""
    bisect_depth: int = 0
    notes: tuple[str, ...] = ()
    """How it was asked, not how its reply was read."""


def build_judgment(
    outcome: Outcome,
    request: DecidingRequest,
    *,
    shard: int,
    position: int,
    key: bytes,
    template: str,
    structured: str,
    history: TrialProgress,
    judge: Judge,
    item: Item | None,
) -> Judgment:
    """The judgment on a trial. `item` is None where the judge must not look at it."""
    verdict: Mapping[str, Any] | None = None
    scores: Mapping[str, float] | None = None
    stage, notes = request.stage, request.notes
    if item is not None and request.batch_size == 1 and judge.has_block_marker(item, template):
        notes += (BLOCK_MARKER,)
    if isinstance(outcome, Scored):
        assert item is not None
        verdict, scores = outcome.verdict, judge.scores(outcome.verdict, item)
        stage, reading_notes = verdict_stage(stage, outcome.provenance)
        notes += reading_notes
    return Judgment(
        shard=shard,
        position=position,
        key=key,
        state=outcome.state,
        reason=reason_of(outcome),
        verdict=None if verdict is None else json.dumps(dict(verdict), ensure_ascii=False),
        scores=None if scores is None else json.dumps(scores),
        template=template,
        stage=stage,
        notes=notes,
        parser_version=PARSER_VERSION,
        structured=structured,
        batch_size=request.batch_size,
        batch_position=request.batch_position,
        bisect_depth=request.bisect_depth,
        request_id=request.request_id,
        official=history.official,
        attempts=history.attempts,
        usage=history.usage,
        latency_s=request.latency_s,
        judged_at=time.time(),
        worker=request.worker,
    )


def request_notes(json_hint: bool, history: TrialProgress, notes: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The notes on how a trial was asked; `notes`: those of the very request that decided."""
    notes = ("json_hint", *notes) if json_hint else notes
    return (*notes, f"reformat_failed:{history.reformat_failed}") if history.reformat_failed else notes


def verdict_stage(asked: str, provenance: Provenance) -> tuple[str, tuple[str, ...]]:
    """The stage that a verdict's judgment names, of how it was asked for and how it was read; and notes, which name the
    other of the two."""
    if asked == "first":
        return provenance.stage, provenance.notes
    if provenance.stage == "reformat":
        return provenance.stage, (*provenance.notes, f"asked:{asked}")
    return asked, (*provenance.notes, f"read:{provenance.stage}")
