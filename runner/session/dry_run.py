"""What `jurybox plan` shows without a call: trials, what is done, tokens, cost, one rendered prompt per template."""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runner.config import RunConfig
from runner.dataset import Sample, SampleSummary, Staged, stage
from runner.endpoint.judge_model import Messages, judge_models
from runner.ledger.ledger import Ledger
from runner.ledger.run_directory import RunDirectory, check_same_meaning, manifest_of
from runner.report.input_notices import input_notices
from runner.scheduling.plan import (
    Estimate,
    count_judged_by_shard,
    estimates,
    plan_signature,
    planned_shards,
    trial_keys,
)
from runner.usage import usd_at_most

from .session import load_judges


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """One template, filled in with the first item that is routed to it."""

    judge: str
    template: str
    item_id: str
    trials: int
    messages: Messages


@dataclass(frozen=True, slots=True)
class Preview:
    """A run before it is paid for."""

    items: int
    sample: SampleSummary | None
    """The items are a sample of those that there are."""
    trials: int
    judged: int
    estimates: list[Estimate]
    sampling: dict[str, dict[str, Any]]
    """`judge × model` → the resolved sampling."""
    structured: dict[str, str]
    prompts: list[PromptPreview]
    notes: list[str]

    def document(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        items = f"{self.items:,} items" if self.sample is None else str(self.sample)
        lines = [f"{items}, {self.trials:,} trials, {self.judged:,} already judged"]
        for entry in self.estimates:
            name = f"{entry.judge} × {entry.model}"
            cost = "no price given" if entry.usd is None else f"≤ {usd_at_most(entry.usd)} if none is repeated"
            lines.append(f"  {name}: {entry.describe()}, {cost}")
            sampling = json.dumps(self.sampling[name], ensure_ascii=False)
            lines.append(f"    sampling {sampling}, structured output {self.structured[name]}")
        lines += [f"note: {note}" for note in self.notes]
        for prompt in self.prompts:
            lines.append(f"\n--- {prompt.judge} / {prompt.template}: {prompt.trials:,} items, here {prompt.item_id}")
            lines += [f"[{message['role']}]\n{message['content']}" for message in prompt.messages]
        return "\n".join(lines)


def preview(config: RunConfig, base: Path, directory: Path, limit: int | None, sample: Sample | None = None) -> Preview:
    """Stage the items in a scratch directory, plan, and see what the run directory's ledger has of it."""
    judges = load_judges(config, base)
    of_config = judge_models(config, judges)
    run = RunDirectory(directory)
    if (manifest := run.manifest()) is not None:
        check_same_meaning(directory, manifest["meaning"], manifest_of(config, judges, of_config)["meaning"])
    with tempfile.TemporaryDirectory(prefix="jurybox-plan-") as scratch:
        staged = stage(config, judges, base, Path(scratch) / "items", sample, limit)
        shards = planned_shards(config, judges, staged, limit)
        done: dict[int, int] = {}
        if run.ledger.is_file():
            with Ledger(run.ledger, read_only=True) as ledger:
                if ledger.meta("plan") == plan_signature(config, judges, base, limit, sample):
                    done = {row.shard.id: row.done for row in ledger.shards()}
                else:
                    done = count_judged_by_shard(ledger.judged_keys(), trial_keys(staged, shards, of_config))
        prompts = [prompt for judge in judges for prompt in _prompts(staged, judge)]
        notes = [
            f"{count:,} items judged by {judge.name}: {text}"
            for judge in judges
            for text, count in staged.judges[judge.name]["cautions"].items()
        ]
        notes += [
            f"{unrouted:,} items are not routed by {judge.name} and left out"
            for judge in judges
            if (unrouted := staged.judges[judge.name]["unrouted"])
        ]
        notes += input_notices(config, {judge.name: judge for judge in judges}, staged)
        if staged.controls:
            notes.append(f"{staged.controls:,} control items are among the trials; they count in no result")
        names = {f"{judge} × {model}": each for (judge, model), each in of_config.items()}
        return Preview(
            staged.rows, staged.sample, sum(shard.trials for shard in shards), sum(done.values()),
            estimates(shards, done, staged, of_config), {name: each.sampling.body() for name, each in names.items()},
            {name: each.structured for name, each in names.items()}, prompts, notes,
        )  # fmt: skip


def _prompts(staged: Staged, judge: Any) -> list[PromptPreview]:
    """The first item of every template, and how many items each has."""
    first: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for start in range(0, staged.rows, 2_000):
        rows = min(2_000, staged.rows - start)
        column = staged.frame(start, rows, [f"template:{judge.name}"]).to_series()
        for template, count in column.drop_nulls().value_counts().iter_rows():
            counts[template] = counts.get(template, 0) + count
            if template not in first:
                items = staged.items(start, rows, judge.name)
                first[template] = next(item.parse() for item in items if item.template == template)
    return [
        PromptPreview(judge.name, name, item.id, counts[name], judge.render(item, name))
        for name, item in sorted(first.items())
    ]
