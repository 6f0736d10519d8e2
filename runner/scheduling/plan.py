"""What is to be judged: shards over the staged rows, the content-addressed key of every trial, and what it will cost.

A plan depends on the staged items and the config alone, so that the same command makes the same plan again. Shared by a
session, which carries the plan out, and by `jurybox plan`, which shows it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, product
from pathlib import Path

import numpy as np

from judges import Item, Judge
from judges.injection import VERSION as SIGNS_VERSION
from runner.config import RunConfig
from runner.dataset import Sample, Staged, input_signature
from runner.dataset.staged_items import LAYOUT
from runner.endpoint.judge_model import JudgeModel, prompt_bytes
from runner.messages import JudgeModelId, Shard

MAX_SHARD_TRIALS = 500
MIN_SHARD_TRIALS = 10
SHARDS_PER_WORKER = 4
SHARD_BATCHES = 5
"""Batches in a shard at least, so that it holds enough questions to fill them."""
SAMPLED_PLACES = 20
SAMPLED_ROWS = 10
"""The length of prompts is estimated from so many rows at so many places of the items."""
KEYS_AT_ONCE = 10_000
UNKNOWN_CLUSTER_WORKERS = 16
"""Workers assumed when shards are sized before the cluster is known."""


def shard_size(rows: int, workers: int, batch: int = 1) -> int:
    """Rows per shard, so that every worker gets several and none holds more than 500 trials.

    With batches a shard holds several whole ones: their neighbours come from one shard.
    """
    size = min(MAX_SHARD_TRIALS, max(MIN_SHARD_TRIALS, math.ceil(rows / (workers * SHARDS_PER_WORKER))))
    return max(SHARD_BATCHES, round(size / batch)) * batch if batch > 1 else size


def split_into_shards(
    config: RunConfig,
    judges: Sequence[Judge],
    rows: int,
    size: int,
    trials_in: Callable[[str, int, int], int],
    first_id: int = 0,
    first_row: int = 0,
) -> list[Shard]:
    """All shards of some rows. `trials_in(judge, first_row, rows)` counts the rows of a range that the judge routes."""
    shards: list[Shard] = []
    for first in range(first_row, first_row + rows, size):
        count = min(size, first_row + rows - first)
        for judge in judges:
            if trials := trials_in(judge.name, first, count):
                for model, repeat in product(config.models, range(config.repeats)):
                    shard_id = first_id + len(shards)
                    shards.append(Shard(shard_id, judge.name, model.name, repeat, first, count, trials))
    return shards


def estimate_cost(judge_model: JudgeModel, trials: int, done: int, mean_prompt_bytes: float) -> Estimate:
    """What the trials not yet done will cost at most, at one request each, or one for a whole batch."""
    requests = judge_model.count_requests(trials - done)
    input_tokens = math.ceil(requests * mean_prompt_bytes / 4)
    output_tokens = requests * (judge_model.sampling.max_tokens or 0)
    price = judge_model.model.price
    usd = None if price is None else (input_tokens * price.input + output_tokens * price.output) / 1e6
    names = judge_model.judge.name, judge_model.model.name
    return Estimate(*names, trials, done, requests, input_tokens, output_tokens, usd)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is left to buy of one judge × model: tokens (prompt bytes / 4; at most max_tokens out) and money."""

    judge: str
    model: str
    trials: int
    done: int
    requests: int
    """To be made, at one for each trial or batch that is left."""
    input_tokens: int
    output_tokens: int
    usd: float | None
    """None: the model has no price."""

    def describe(self) -> str:
        """The requests in words, with the trials where a request is of several, and their tokens."""
        left = self.trials - self.done
        calls = f"{self.requests:,} calls" + (f" for {left:,} trials" if self.requests != left else "")
        return f"{calls}, ~{self.input_tokens:,} tokens in, ≤ {self.output_tokens:,} out"


def plan_signature(
    config: RunConfig, judges: Sequence[Judge], base: Path, limit: int | None, sample: Sample | None = None
) -> str:
    """A digest of all that decides which trials there are and where they stand. Equal: the plan is the same."""
    deciding = [
        input_signature(config, base),
        limit,
        None if sample is None else asdict(sample),
        config.repeats,
        [(judge.name, judge.fingerprint) for judge in judges],
        [use.batch for use in config.judges],
        [(model.name, model.model, model.revision) for model in config.models],
        [LAYOUT, SIGNS_VERSION],
        [config.controls, config.seed] if config.controls else None,
    ]
    return hashlib.blake2b(json.dumps(deciding, sort_keys=True).encode(), digest_size=16).hexdigest()


def planned_shards(config: RunConfig, judges: Sequence[Judge], staged: Staged, limit: int | None) -> list[Shard]:
    """All shards over the staged rows, or over the first `limit` of them; then those of the control items."""
    workers = config.workers if config.workers != "auto" else UNKNOWN_CLUSTER_WORKERS
    rows = staged.rows if limit is None else min(limit, staged.rows)
    batch = max((use.batch or judge.batch or 1) for use, judge in zip(config.judges, judges, strict=True))
    size = shard_size(rows, workers, batch)
    shards = split_into_shards(config, judges, rows, size, staged.trial_counts)
    # In shards of their own: those of the items are the same with and without controls.
    shards += split_into_shards(
        config, judges, staged.controls, size, staged.trial_counts, first_id=len(shards), first_row=staged.rows
    )
    return shards


def trial_keys(
    staged: Staged, shards: Sequence[Shard], judge_models: Mapping[JudgeModelId, JudgeModel]
) -> Iterator[tuple[bytes, int, int]]:
    """Every planned trial: its key, shard and position."""
    for shard in shards:
        judge_model = judge_models[shard.judge_model_id]
        for item in staged.items(shard.first_row, shard.rows, shard.judge):
            messages = judge_model.judge.render(item.parse(), item.template)
            yield judge_model.key(item.system, item.id, messages, shard.repeat), shard.id, item.row - shard.first_row


def count_judged_by_shard(judged: Iterable[bytes], trials: Iterable[tuple[bytes, int, int]]) -> dict[int, int]:
    """How many of each shard's trials are judged already, by the keys of all judgments, in any order.

    Holds twice 16 bytes a judgment; a set of them would hold a hundred.
    """
    joined = bytearray()
    for key in judged:
        joined += key
    # numpy takes zero bytes at the end of such a value for padding: among keys of one length that mixes up none.
    known = np.sort(np.frombuffer(joined, dtype="S16"))
    done: Counter[int] = Counter()
    rest = iter(trials if len(known) else ())
    while some := list(islice(rest, KEYS_AT_ONCE)):
        keys = np.array([key for key, _, _ in some], dtype="S16")
        nearest = known[np.minimum(np.searchsorted(known, keys), len(known) - 1)]
        done.update(shard for (_, shard, _), is_judged in zip(some, nearest == keys, strict=True) if is_judged)
    return done


def sample_items(staged: Staged, judge: Judge) -> Iterator[tuple[Item, str]]:
    """Items that the judge routes, from places spread over the whole set, each with its template."""
    step = max(SAMPLED_ROWS, staged.rows // SAMPLED_PLACES)
    for first in range(0, staged.rows, step):
        for item in staged.items(first, min(SAMPLED_ROWS, staged.rows - first), judge.name):
            yield item.parse(), item.template


def estimates(
    shards: Sequence[Shard], done: Mapping[int, int], staged: Staged, judge_models: Mapping[JudgeModelId, JudgeModel]
) -> list[Estimate]:
    """What is left to buy of each judge × model. `done`: judged trials by shard id."""
    mean: dict[str, float] = {}
    made = []
    for (judge, model), judge_model in judge_models.items():
        if judge not in mean:
            mean[judge] = _mean_prompt_bytes(judge_model, staged)
        own = [shard for shard in shards if shard.judge_model_id == (judge, model)]
        trials = sum(shard.trials for shard in own)
        made.append(estimate_cost(judge_model, trials, sum(done.get(shard.id, 0) for shard in own), mean[judge]))
    return made


def _mean_prompt_bytes(judge_model: JudgeModel, staged: Staged) -> float:
    """Bytes of a request's messages, over items sampled from the whole set."""
    items, judge = list(sample_items(staged, judge_model.judge)), judge_model.judge
    if judge_model.batch is None:
        requests = [judge.render(item, template) for item, template in items]
    else:
        batches = [items[at : at + judge_model.batch] for at in range(0, len(items), judge_model.batch)]
        requests = [judge.render_batch([item for item, _ in batch], batch[0][1]) for batch in batches]
    return sum(map(prompt_bytes, requests)) / len(requests) if requests else 0.0
