"""A run whose replies are given: real items, plan, keys and ledger, so that replies can be read without a call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.config import parse_config
from runner.dataset import Staged, stage
from runner.endpoint.judge_model import JudgeModel, judge_models
from runner.ledger.ledger import Ledger
from runner.ledger.revisions import Revision
from runner.messages import Attempt, Batch, Judgment, PendingTrial, TrialProgress
from runner.scheduling.plan import planned_shards, trial_keys
from runner.session.rescore import rescore_ledger
from runner.session.session import load_judges
from runner.usage import Usage

USAGE = Usage(100, 0, 2, 0, 0.001)


@dataclass
class Replied:
    """A run in a directory, to which replies and judgments are given by item id."""

    staged: Staged
    ledger: Ledger
    judge_models: dict[tuple[str, str], JudgeModel]
    keys: dict[str, tuple[bytes, int, int]]
    """Item id → key, shard, position."""
    judge: str
    sent: int = 0
    recorded: int = 0

    def reply(self, ids: str, text: str | None, stage: str = "first", **changes: Any) -> Attempt:
        """A reply to the trials of these items, named by a letter each."""
        self.sent += 1
        usual: dict[str, Any] = dict(
            request_id=f"request {self.sent}", keys=tuple(self.keys[id_][0] for id_ in ids), judge=self.judge,
            model="m", model_id="m", stage=stage, try_=1, state="ok", sent_at=1e9, worker="w", judge_reply=text,
            finish_reason="stop", usage=USAGE, latency_s=0.5, reading="as then", parser_version="1",
        )  # fmt: skip
        return Attempt(**(usual | changes))

    def judgment(self, id_: str, decided: Attempt | None, **changes: Any) -> Judgment:
        """The judgment of an item's trial, by an older reader; `decided` by this attempt."""
        key, shard, position = self.keys[id_]
        size = len(decided.keys) if decided else 1
        usual: dict[str, Any] = dict(
            shard=shard, position=position, key=key, state="malformed", reason="no_verdict", verdict=None, scores=None,
            template="base", stage=decided.stage if decided else None, notes=(), parser_version="1", structured="off",
            batch_size=size, batch_position=decided.keys.index(key) + 1 if decided else 1, bisect_depth=0,
            request_id=decided.request_id if decided else None, official=None, attempts=1, usage=USAGE,
            latency_s=decided.latency_s if decided else None, judged_at=1e9, worker="w",
        )  # fmt: skip
        return Judgment(**(usual | changes))

    def waiting(self, id_: str, why: str = "malformed", **history: Any) -> PendingTrial:
        key, shard, position = self.keys[id_]
        return PendingTrial(shard, position, key, why, TrialProgress(malformed=1, attempts=1, usage=USAGE, **history))

    def record(
        self, attempts: Sequence[Attempt], judgments: Sequence[Judgment] = (), waiting: Sequence[PendingTrial] = ()
    ) -> None:
        self.recorded += 1
        self.ledger.commit(Batch("worker", self.recorded, tuple(attempts), tuple(judgments), tuple(waiting)))

    def rescore(self) -> tuple[dict[str, Any], Revision | None]:
        changes, revision = rescore_ledger(self.ledger, self.staged, self.judge_models, self.name)
        return changes.document(), revision

    def name(self, place: tuple[int, int]) -> tuple[str, str]:
        return next(("system", id_) for id_, (_, *at) in self.keys.items() if tuple(at) == place)

    def judged(self, id_: str) -> dict[str, Any]:
        """What the ledger holds of an item's trial, with what its JSON says."""
        names, rows = self.ledger.judgment_rows(0, 1_000_000)
        key = self.keys[id_][0]
        found = [dict(zip(names, row, strict=True)) for row in rows if row[names.index("key")] == key]
        assert len(found) <= 1
        return {
            name: json.loads(value) if name in ("verdict", "scores", "notes") and value is not None else value
            for row in found
            for name, value in row.items()
        }

    def shows(self, id_: str, **columns: Any) -> None:
        """Assert that the trial's judgment has these columns."""
        held = self.judged(id_)
        assert {name: held.get(name) for name in columns} == columns


def scored(verdict: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """What is recorded of a trial with a score."""
    scores = {name: float(value) for name, value in verdict.items()}
    return {
        "state": "scored", "reason": None, "verdict": json.dumps(verdict), "scores": json.dumps(scores),
        "stage": "strict", **changes,
    }  # fmt: skip


def replied_run(directory: Path, judge: str = "yes-no", ids: str = "abcdefgh", **row: Any) -> Replied:
    """A run of one judge and one model over items with these one-letter ids, each its own question."""
    rows = [
        {"id": id_, "question": f"{id_}?", "reference": id_.upper(), "response": f"It is {id_}.", "group": "g"} | row
        for id_ in ids
    ]
    path = directory / "items.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    config = parse_config(
        {
            "name": "replied",
            "items": {"path": path.name},
            "judges": [judge],
            "models": [{"name": "m", "model": "m", "base_url": "http://127.0.0.1:9"}],
        }
    )
    judges = load_judges(config, directory)
    staged = stage(config, judges, directory, directory / "run" / "items")
    made = judge_models(config, judges)
    shards = planned_shards(config, judges, staged, None)
    ledger = Ledger(directory / "run" / "run.db")
    ledger.set_plan(shards)
    names = {row: id_ for row, id_ in enumerate(staged.frame(0, staged.rows, ["id"])["id"])}
    first = {shard.id: shard.first_row for shard in shards}
    keys = {
        names[first[shard] + position]: (key, shard, position)
        for key, shard, position in trial_keys(staged, shards, made)
    }
    return Replied(staged, ledger, made, keys, judges[0].name)
