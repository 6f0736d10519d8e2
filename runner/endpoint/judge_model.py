"""A judge with one of its models: what the two and the config settle between them, and how its requests are written.

Pure. Hides what goes into a trial's key, and that how structured output is enforced is found out once: the first
probe's result is kept in the ledger, so that every worker and every later session sends the same; a config that sets
another `structured` has it probed anew.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judges import Constraint, Judge, Sampling, constraint_of
from runner.config import Model, RunConfig
from runner.errors import ConfigError
from runner.messages import JudgeModelId

from . import structured_output

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """One judge with one model, and everything that the two and the config settle between them."""

    judge: Judge
    model: Model
    sampling: Sampling
    """The judge's, then the model's, then the config's `judges:` entry; later wins."""
    structured: str
    """How its form is to be enforced: `auto`, one of `structured_output.mechanisms`, or `off`."""
    batch: int | None = None
    """Items in a request; None: the judge takes one at a time."""
    mode: str = "off"
    """How it is enforced in this run, as its first probe has shown: what the column `structured` of results holds."""
    _of_all: dict[int, bytes] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Repeat → what stands in the keys of all its trials."""

    def count_requests(self, trials: int) -> int:
        """How many requests so many trials take at one call each."""
        return trials if self.batch is None else math.ceil(trials / self.batch)

    @property
    def json_hint(self) -> bool:
        """Whether the judge's hint that asks for JSON is appended: it wants an object, and no schema is enforced."""
        wanted = self.judge.structured != "off" and self.judge.json_hint is not None
        return wanted and not structured_output.is_enforced(self.mode)

    @property
    def required_fields(self) -> tuple[str, ...]:
        """What none of its requests may be sent without."""
        return structured_output.FIELDS if self.judge.structured == "require" else ()

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
        if repeat not in self._of_all:
            model, settings = self.model, json.dumps(self.settings, sort_keys=True)
            parts = [self.judge.reading_spec, model.model, model.revision or "", settings, str(repeat)]
            self._of_all[repeat] = _prefixed(*parts, *([] if self.batch is None else [str(self.batch)]))
        text = json.dumps([dict(message) for message in messages], sort_keys=True, ensure_ascii=False)
        own = _prefixed(system, item_id, self.judge.name, text)
        return hashlib.blake2b(own + self._of_all[repeat], digest_size=16).digest()

    def body(self, messages: Messages, count: int = 1, sampling: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The request body for an OpenAI-compatible chat completion about `count` items.

        `sampling` is laid over its own.
        """
        body = {"model": self.model.model, "messages": list(messages), **self.sampling.body(), **(sampling or {})}
        if mechanism := structured_output.mechanism_of(self.mode):
            form = constraint_of(self.judge.reads, count)
            body |= structured_output.request_fields(mechanism, form, self.judge.name)
        return body

    def mode_probe(self, mechanism: str) -> dict[str, Any]:
        """The request body that shows what this endpoint makes of one way to ask for the judge's form."""
        tokens = max(self.sampling.max_tokens or 0, structured_output.CANARY_TOKENS)
        return {
            **replace(self, mode="off").body(structured_output.canary_body(mechanism), sampling={"max_tokens": tokens}),
            **structured_output.request_fields(mechanism, self.constraint, self.judge.name),
        }


def _prefixed(*parts: str) -> bytes:
    """Parts of a key, each with its length before it."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in map(str.encode, parts))


def judge_models(config: RunConfig, judges: Sequence[Judge]) -> dict[JudgeModelId, JudgeModel]:
    """Every (judge name, model name) of the run. `judges` are those of `config.judges`, in its order."""
    known: dict[JudgeModelId, JudgeModel] = {}
    meanings: dict[tuple[str, str, str, str], str] = {}
    for use, judge in zip(config.judges, judges, strict=True):
        for model in config.models:
            if (judge.name, model.name) in known:
                raise ConfigError(f"judges: two entries are named {judge.name!r}; names must differ")
            sampling = use.sampling.over(model.sampling.over(judge.sampling))
            form = constraint_of(judge.reads)
            structured = structured_output.effective_setting(judge.structured, model.structured, form)
            if judge.structured == "require" and structured == structured_output.OFF:
                raise ConfigError(
                    f"models: judge {judge.name!r} requires structured output; {model.name!r} says "
                    f"{model.structured}" + ("" if model.structured == "off" else ", which is for objects")
                )
            if use.batch is not None and judge.batch is None:
                raise ConfigError(f"judges: {judge.name!r} takes one item at a time; batch is for judges with blocks")
            batch = None if judge.batch is None else use.batch or judge.batch
            judge_model = JudgeModel(judge, model, sampling, structured, batch)
            settings = json.dumps(judge_model.settings, sort_keys=True)
            meaning = (judge.name, model.model, model.revision or "", settings)
            if (other := meanings.setdefault(meaning, model.name)) != model.name:
                raise ConfigError(
                    f"models: {other!r} and {model.name!r} mean the same for judge {judge.name!r}: "
                    f"both ask {model.model!r} with equal sampling; their trials would have equal keys"
                )
            known[judge.name, model.name] = judge_model
    return known


def prompt_bytes(messages: Messages) -> int:
    """Bytes of UTF-8 that a request's messages hold."""
    return sum(len(message["content"].encode()) for message in messages)


class StructuredModes(dict[JudgeModelId, str]):
    """Judge and model → effective mode, where it is known."""

    def __init__(
        self, judge_models: Mapping[JudgeModelId, JudgeModel], kept: Callable[[str], str | None] = lambda key: None
    ) -> None:
        """`kept`: what was kept under a key in earlier sessions."""
        super().__init__()
        self._judge_models = judge_models
        for name, own in judge_models.items():
            if not structured_output.mechanisms(own.structured, own.constraint):
                self[name] = structured_output.OFF
            elif (text := kept(_key(name))) is not None:
                stored = json.loads(text)
                if stored["setting"] == own.structured:
                    self[name] = stored["mode"]

    def record(self, name: JudgeModelId, mode: str) -> tuple[str, str]:
        """Take in what a probe has shown; the key and the text to keep it under."""
        self[name] = mode
        return _key(name), json.dumps({"setting": self._judge_models[name].structured, "mode": mode})

    def document(self) -> dict[str, str]:
        """As the manifest says it."""
        return {f"{judge} × {model}": mode for (judge, model), mode in sorted(self.items())}


def _key(name: JudgeModelId) -> str:
    return f"structured {json.dumps(name)}"
