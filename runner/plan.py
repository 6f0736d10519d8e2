"""What is to be judged: shards over the staged rows, the content-addressed key of every trial, and what it will cost.

Pure. A plan depends on the staged items and the config alone, so that the same command makes the same plan again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judges import Constraint, Judge, Sampling, constraint_of

from . import structured
from .batches import requests_of
from .config import Model, RunConfig
from .errors import ConfigError

MAX_SHARD_TRIALS = 500
MIN_SHARD_TRIALS = 10
SHARDS_PER_WORKER = 4
SHARD_BATCHES = 5
"""Batches in a shard at least, so that it holds enough questions to fill them."""

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of staged rows under one judge, model and repeat. A trial's position is its row − first_row."""

    id: int
    judge: str
    model: str
    repeat: int
    first_row: int
    rows: int
    trials: int
    """Rows that the judge routes; the others are no trials."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One judge asked of one model, with everything that the two and the config settle between them."""

    judge: Judge
    model: Model
    sampling: Sampling
    """The judge's, then the model's, then the config's `judges:` entry; later wins."""
    structured: str
    """How its form is to be enforced: `auto`, one of `structured.ways`, or `off`."""
    batch: int | None = None
    """Items in a request; None: the judge takes one at a time."""
    mode: str = "off"
    """How it is enforced in this run, as its first probe has shown: what the column `structured` of results holds."""
    _of_all: dict[int, bytes] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Repeat → what stands in the keys of all its trials."""

    @property
    def json_hint(self) -> bool:
        """Whether the judge's hint that asks for JSON is appended: it wants an object, and no schema is enforced."""
        wanted = self.judge.structured != "off" and self.judge.json_hint is not None
        return wanted and not structured.is_enforced(self.mode)

    @property
    def kept(self) -> tuple[str, ...]:
        """What no request of this pair may be sent without."""
        return structured.FIELDS if self.judge.structured == "require" else ()

    @property
    def constraint(self) -> Constraint:
        """The form of the judge's reply about one item."""
        return constraint_of(self.judge.reads)

    @property
    def settings(self) -> dict[str, object]:
        """What is sent besides the messages and changes the answer: the sampling, with the extra body over it."""
        return {**self.sampling.body(), **self.model.extra.body}

    def key(self, system: str, item_id: str, messages: Messages, repeat: int) -> bytes:
        """The trial's key: 128-bit blake2b over length-prefixed parts (design: exactly what changes an answer).

        `messages` are the trial's own, without a json_hint; of a batched judge those of a batch of one: the size of
        the batches is a part of the key, neighbours and places in the batch are not.
        """
        of_all = self._of_all.get(repeat)
        if of_all is None:
            of_all = self._of_all[repeat] = self._parts_of_all(repeat)
        text = json.dumps([dict(message) for message in messages], sort_keys=True, ensure_ascii=False)
        own = b"".join(map(_prefixed, (system, item_id, self.judge.name, text)))
        return hashlib.blake2b(own + of_all, digest_size=16).digest()

    def _parts_of_all(self, repeat: int) -> bytes:
        parts = (
            self.judge.reading_spec,
            self.model.model,
            self.model.revision or "",
            json.dumps(self.settings, sort_keys=True),
            str(repeat),
            *([] if self.batch is None else [str(self.batch)]),
        )
        return b"".join(map(_prefixed, parts))

    def body(self, messages: Messages, count: int = 1, sampling: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The request body for an OpenAI-compatible chat completion about `count` items.

        `sampling` is laid over the pair's own.
        """
        way = structured.way_of(self.mode)
        return {
            "model": self.model.model,
            "messages": list(messages),
            **self.sampling.body(),
            **(sampling or {}),
            **(structured.demand(way, constraint_of(self.judge.reads, count), self.judge.name) if way else {}),
        }

    def canary(self, way: str) -> dict[str, Any]:
        """The request body that shows what this endpoint makes of one way to ask for the judge's form."""
        tokens = max(self.sampling.max_tokens or 0, structured.CANARY_TOKENS)
        return {
            **replace(self, mode="off").body(structured.canary(way), sampling={"max_tokens": tokens}),
            **structured.demand(way, self.constraint, self.judge.name),
        }


def _prefixed(part: str) -> bytes:
    """A part of a key with its length before it."""
    data = part.encode()
    return len(data).to_bytes(8, "big") + data


def pairs(config: RunConfig, judges: Sequence[Judge]) -> dict[tuple[str, str], Pair]:
    """Every (judge name, model name) of the run. `judges` are those of `config.judges`, in its order."""
    made: dict[tuple[str, str], Pair] = {}
    meanings: dict[tuple[str, str, str, str], str] = {}
    for use, judge in zip(config.judges, judges, strict=True):
        for model in config.models:
            if (judge.name, model.name) in made:
                raise ConfigError(f"judges: two entries are named {judge.name!r}; names must differ")
            sampling = use.sampling.over(model.sampling.over(judge.sampling))
            how = structured.setting(judge.structured, model.structured, constraint_of(judge.reads))
            if judge.structured == "require" and how == structured.OFF:
                raise ConfigError(
                    f"models: judge {judge.name!r} requires structured output; {model.name!r} says "
                    f"{model.structured}" + ("" if model.structured == "off" else ", which is for objects")
                )
            if use.batch is not None and judge.batch is None:
                raise ConfigError(f"judges: {judge.name!r} takes one item at a time; batch is for judges with blocks")
            batch = None if judge.batch is None else use.batch or judge.batch
            pair = Pair(judge, model, sampling, how, batch)
            settings = json.dumps(pair.settings, sort_keys=True)
            meaning = (judge.name, model.model, model.revision or "", settings)
            if (other := meanings.setdefault(meaning, model.name)) != model.name:
                raise ConfigError(
                    f"models: {other!r} and {model.name!r} mean the same for judge {judge.name!r}: "
                    f"both ask {model.model!r} with equal sampling; their trials would have equal keys"
                )
            made[judge.name, model.name] = pair
    return made


def shard_size(rows: int, workers: int, batch: int = 1) -> int:
    """Rows per shard, so that every worker gets several and none holds more than 500 trials.

    With batches a shard holds several whole ones: their neighbours come from one shard.
    """
    size = min(MAX_SHARD_TRIALS, max(MIN_SHARD_TRIALS, math.ceil(rows / (workers * SHARDS_PER_WORKER))))
    return max(SHARD_BATCHES, round(size / batch)) * batch if batch > 1 else size


def make_shards(
    config: RunConfig,
    judges: Sequence[Judge],
    rows: int,
    size: int,
    trials_in: Callable[[str, int, int], int],
) -> list[Shard]:
    """All shards of the run. `trials_in(judge, first_row, rows)` counts the rows of a range that the judge routes."""
    shards: list[Shard] = []
    for first in range(0, rows, size):
        count = min(size, rows - first)
        for judge in judges:
            trials = trials_in(judge.name, first, count)
            if not trials:
                continue
            for model in config.models:
                for repeat in range(config.repeats):
                    shards.append(Shard(len(shards), judge.name, model.name, repeat, first, count, trials))
    return shards


def estimate_tokens(text_bytes: int) -> int:
    """Tokens of a prompt by the rule of thumb of four bytes each; replies bring the true count."""
    return math.ceil(text_bytes / 4)


def prompt_bytes(messages: Messages) -> int:
    """Bytes of UTF-8 that a request's messages hold."""
    return sum(len(message["content"].encode()) for message in messages)


def estimate(pair: Pair, trials: int, done: int, mean_prompt_bytes: float) -> Estimate:
    """What the trials not yet done will cost at most, at one request each, or one for a whole batch."""
    requests = requests_of(trials - done, pair.batch)
    given = math.ceil(requests * mean_prompt_bytes / 4)
    taken = requests * (pair.sampling.max_tokens or 0)
    price = pair.model.price
    usd = None if price is None else (given * price.input + taken * price.output) / 1e6
    return Estimate(pair.judge.name, pair.model.name, trials, done, requests, given, taken, usd)


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

    @property
    def calls(self) -> str:
        """The requests in words, with the trials where a request is of several."""
        left = self.trials - self.done
        return f"{self.requests:,} calls" + (f" for {left:,} trials" if self.requests != left else "")
