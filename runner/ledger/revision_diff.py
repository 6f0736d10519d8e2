"""What a revision changed: how many judgments went from what to what, each with a few examples, and where verdicts
stood. Pure.

Hides how detailed it is: verdicts in full while they are short and few, by their states alone beyond that, so that the
account of a million changed judgments stays a page.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from runner.messages import JudgeModelId, Judgment

EXAMPLES = 3
"""Trials named for each change."""
VERDICTS = 100
"""Different changes of one judge × model that are told apart by their verdicts."""
LONGEST = 80
"""A longer verdict is not shown in a line."""

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class JudgmentState:
    """How a trial stands: with a judgment, or `waiting` for one."""

    state: str
    reason: str | None = None
    verdict: str | None = None
    """JSON object."""
    scores: str | None = None
    """JSON object."""

    def same(self, other: JudgmentState) -> bool:
        """Whether both say the same of the trial; the reason why a reply is malformed counts too."""
        return self == other or self.document() == other.document()

    def document(self) -> dict[str, Any]:
        texts = {"verdict": self.verdict, "scores": self.scores}
        return asdict(self) | {name: None if text is None else json.loads(text) for name, text in texts.items()}


WAITING = JudgmentState("waiting")


@dataclass(slots=True)
class VerdictCounts:
    """The verdicts that were read at one stage."""

    new: int = 0
    """There was none before."""
    changed: int = 0
    """By the stage at which they are read now."""
    gone: int = 0
    """By the stage at which they were read before."""
    same: int = 0
    """By the stage at which they are read now."""


@dataclass(slots=True)
class ChangeCounts:
    """The judgments of one judge × model."""

    changed: int = 0
    unchanged: int = 0
    read_otherwise: int = 0
    """Of the unchanged: read by another stage or with other notes."""
    kept: int = 0
    """Of the unchanged: could not be read again, and stand as they were."""
    stages: dict[str, VerdictCounts] = field(default_factory=dict)
    """Stage → its verdicts, where replies were read again."""


@dataclass(slots=True)
class _Change:
    trials: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)


class RevisionDiff:
    """Counts what is added; `name` tells (system, item id) of the trial at (shard, position)."""

    def __init__(self, name: Callable[[Place], tuple[str, str] | None]) -> None:
        self._name = name
        self.judge_models: defaultdict[JudgeModelId, ChangeCounts] = defaultdict(ChangeCounts)
        self._changes: defaultdict[JudgeModelId, dict[tuple[JudgmentState, JudgmentState], _Change]] = defaultdict(dict)

    @property
    def changed(self) -> int:
        return sum(counted.changed for counted in self.judge_models.values())

    def add(self, of: JudgeModelId, before: JudgmentState, after: JudgmentState, place: Place, key: bytes) -> None:
        """Counts a trial of this judge × model whose judgment was `before` and is `after`."""
        if before.same(after):
            self.judge_models[of].unchanged += 1
            return
        self.judge_models[of].changed += 1
        changes = self._changes[of]
        step = (before, after)
        if step not in changes and len(changes) >= VERDICTS:
            step = (JudgmentState(before.state, before.reason), JudgmentState(after.state, after.reason))
        change = changes.setdefault(step, _Change())
        change.trials += 1
        if len(change.examples) < EXAMPLES:
            item = dict(zip(("system", "item_id"), self._name(place) or (), strict=False))
            change.examples.append(item | {"key": key.hex()})

    def add_reading(self, of: JudgeModelId, before: Judgment | None, after: Judgment) -> None:
        """Counts at which stage a trial of this judge × model had its verdict, and has it now."""
        was, now = before.verdict if before is not None else None, after.verdict
        at = after if now is not None or before is None else before
        if at.verdict is None or at.stage is None:
            return
        counted = self.judge_models[of].stages.setdefault(at.stage, VerdictCounts())
        if now is None:
            counted.gone += 1
        elif was is None:
            counted.new += 1
        elif was == now or json.loads(was) == json.loads(now):
            counted.same += 1
        else:
            counted.changed += 1

    def document(self) -> dict[str, Any]:
        return {
            "changed": self.changed,
            "unchanged": sum(counted.unchanged for counted in self.judge_models.values()),
            "judge_models": [
                {"judge": judge, "model": model, **asdict(counted)}
                for (judge, model), counted in sorted(self.judge_models.items())
            ],
            "changes": [
                {"judge": judge, "model": model, "from": before.document(), "to": after.document(), **asdict(change)}
                for (judge, model), changes in sorted(self._changes.items())
                for (before, after), change in sorted(changes.items(), key=lambda entry: -entry[1].trials)
            ],
        }


def as_text(document: Mapping[str, Any]) -> str:
    """The document of `RevisionDiff` as a person reads it."""
    lines = []
    for counted in document["judge_models"]:
        judged = counted["changed"] + counted["unchanged"]
        parts = [f"{counted['changed']:,} of {judged:,} changed", f"{counted['unchanged']:,} unchanged"]
        if counted["read_otherwise"]:
            parts.append(f"{counted['read_otherwise']:,} of these read another way")
        if counted["kept"]:
            parts.append(f"{counted['kept']:,} of these kept as they were")
        lines.append(f"{counted['judge']} × {counted['model']}: {', '.join(parts)}")
        lines += _stage_lines(counted["stages"])
        for change in document["changes"]:
            if (change["judge"], change["model"]) == (counted["judge"], counted["model"]):
                before, after = _state_text(change["from"]), _state_text(change["to"])
                if before == after:
                    same_verdict = change["from"]["verdict"] == change["to"]["verdict"]
                    after += " with other scores" if same_verdict else " in another part"
                names = [entry.get("item_id", entry["key"]) for entry in change["examples"]]
                more = ", …" if change["trials"] > len(names) else ""
                lines.append(f"  {change['trials']:>9,}  {before} → {after}  ({', '.join(names)}{more})")
    return "\n".join(lines)


def _stage_lines(stages: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A table of the stages at which verdicts are new, changed or gone; none where no verdict is."""
    columns = ("new", "changed", "gone", "same")
    rows = [
        (*(f"{counts[name]:,}" for name in columns), stage)
        for stage, counts in sorted(stages.items())
        if counts["new"] or counts["changed"] or counts["gone"]
    ]
    head = [(*columns, "verdicts read as")] if rows else []
    return ["  " + "  ".join((*(f"{cell:>9}" for cell in cells), stage)) for *cells, stage in head + rows]


def _state_text(state: Mapping[str, Any]) -> str:
    if state["verdict"] is not None:
        verdict = json.dumps(state["verdict"], ensure_ascii=False)
        return verdict if len(verdict) <= LONGEST else f"{verdict[: LONGEST - 2]} …"
    return f"{state['state']} ({state['reason']})" if state["reason"] else str(state["state"])
