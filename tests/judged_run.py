"""A run that was judged without an endpoint: real config, staged items, plan and ledger; only the replies are given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judges import Judge, load_judge
from runner.config import RunConfig, parse_config
from runner.dataset import Staged, stage
from runner.ledger.ledger import Ledger
from runner.messages import Attempt, Batch, Judgment, Shard
from runner.publishing.result_frames import judgment_frames
from runner.report import Report, build
from runner.scheduling.plan import planned_shards, shard_size, split_into_shards
from runner.usage import Usage

USAGE = Usage(100, 20, 2, 0, 0.001)

Ending = Mapping[str, Any] | None
"""What is to be recorded of a trial, as changes to a scored yes; None: nothing yet."""


@dataclass(frozen=True)
class Run:
    path: Path
    config: RunConfig
    judges: dict[str, Judge]
    staged: Staged
    ledger: Ledger

    def report(self) -> Report:
        return build(self.config.name, self.path, self.config, self.judges, self.staged, self.ledger)

    def rows(self, **keywords: Any) -> list[dict[str, Any]]:
        """All trials as dicts."""
        made = judgment_frames(self.staged, self.ledger, self.config, self.judges, **keywords)
        return [row for frame in made for row in frame.iter_rows(named=True)]


def scored(correct: bool, **changes: Any) -> dict[str, Any]:
    value = json.dumps({"correct": correct})
    return {"verdict": value, "scores": json.dumps({"correct": float(correct)}), "official": correct, **changes}


def unscored(state: str, reason: str, official: bool | None = None) -> dict[str, Any]:
    empty = {"verdict": None, "scores": None, "stage": None}
    return {"state": state, "reason": reason, "official": official, **empty}


def jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def judged_run(
    directory: Path,
    items: Mapping[str, Any],
    ending: Callable[[Mapping[str, Any]], Ending],
    *,
    judges: Sequence[str] = ("yes-no",),
    models: Sequence[str] = ("gpt",),
    size: int | None = None,
    fingerprint: str | None = "fp_1",
    limit: int | None = None,
    **config: Any,
) -> Run:
    """Stage, plan, and record what `ending` says of each trial: a staged row with judge, model and repeat."""
    priced = [
        {
            "name": name,
            "model": f"{name}-2024",
            "price": {"input": 1.0, "output": 2.0},
            "base_url": "http://127.0.0.1:9",
        }
        for name in models
    ]
    parsed = parse_config({"name": "small", "items": items, "judges": list(judges), "models": priced, **config})
    loaded = [load_judge(name, directory) for name in judges]
    staged = stage(parsed, loaded, directory, directory / "run" / "items", limit=limit)
    if parsed.controls or limit is not None:
        shards = planned_shards(parsed, loaded, staged, limit)
    else:
        shards = split_into_shards(parsed, loaded, staged.rows, size or shard_size(staged.rows, 2), staged.trial_counts)
    ledger = Ledger(directory / "run" / "run.db")
    ledger.set_plan(shards)
    for seq, shard in enumerate(shards, 1):
        attempts: list[Attempt] = []
        judgments: list[Judgment] = []
        for row in staged.frame(shard.first_row, shard.rows).iter_rows(named=True):
            template = row[f"template:{shard.judge}"]
            trial = {**row, "judge": shard.judge, "model": shard.model, "repeat": shard.repeat}
            told = ending(trial) if template is not None else None
            if told is None:
                continue
            request = f"{shard.id}-{row['row']}"
            key = trial_key(shard.id, row["row"])
            ended = dict(told)
            changes = {"error": ended.pop("error", None), "judge_reply": ended.pop("reply", "Yes.")}
            attempts.append(replace(_attempt(shard, request, key, fingerprint), **changes))
            usual: dict[str, Any] = dict(
                shard=shard.id, position=row["row"] - shard.first_row, key=key, state="scored", reason=None,
                template=template, stage="strict", notes=(), parser_version="1", structured="off",
                batch_size=1, batch_position=1, bisect_depth=0, request_id=request,
                attempts=1, usage=USAGE, latency_s=0.5, judged_at=1e9 + 0.25, worker="w",
            )  # fmt: skip
            judgments.append(Judgment(**(usual | ended)))
        ledger.commit(Batch("test", seq, tuple(attempts), tuple(judgments)))
    return Run(directory / "run", parsed, {judge.name: judge for judge in loaded}, staged, ledger)


def trial_key(shard: int, row: int) -> bytes:
    """The key under which the trial of a staged row is recorded."""
    return (shard * 1_000_000 + row).to_bytes(16, "big")


def _attempt(shard: Shard, request: str, key: bytes, fingerprint: str | None) -> Attempt:
    return Attempt(
        request_id=request, keys=(key,), judge=shard.judge, model=shard.model, model_id=f"{shard.model}-2024",
        stage="first", try_=1, state="ok", sent_at=1e9, worker="w", served_model=f"{shard.model}-served",
        system_fingerprint=fingerprint, judge_reply="Yes.", finish_reason="stop", usage=USAGE, latency_s=0.5,
    )  # fmt: skip
