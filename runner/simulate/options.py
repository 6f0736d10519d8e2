"""What a simulated endpoint is asked to do: one frozen record, checked when it is made.

It travels as JSON to the endpoint's own process; nothing else of the package knows how options are written down.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.errors import InputError

SHARES = (
    "malformed",
    "truncated",
    "refused",
    "server_errors",
    "resets",
    "hanging",
    "throttled",
    "miscounted",
    "mumbled",
)
"""The faults whose share of the requests is an option."""

MODEL_LIMITS = ("rpm", "tpm", "in_flight", "latency_ms")
"""What `models` may set for a single model name."""

STRUCTURED = {
    "enforced": {"json_schema", "json_object", "vllm"},
    "ignored": set[str](),
    "refused": set[str](),
    "openai": {"json_schema", "json_object"},
    "vllm": {"vllm"},
    "json_object": {"json_object"},
}
"""What an endpoint may make of demands for structure → the ways that it enforces."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """How the endpoint answers. Everything that is drawn is drawn from the seed and the prompt."""

    seed: int = 0
    yes: float = 0.6
    """Share of the prompts whose verdict is yes; on a scale: a score above the middle. The last user message alone
    decides which, and of a batch each block without its number."""

    latency_ms: float = 0.0
    """Median time to a reply; log-normal, with the standard deviation `latency_spread` of its logarithm."""
    latency_spread: float = 0.3

    rpm: float | None = None
    """Requests a minute for each model name, from a bucket that holds `burst_s` seconds of them. Above: 429."""
    tpm: float | None = None
    """Tokens a minute, prompt and reply."""
    in_flight: int | None = None
    burst_s: float = 1.0
    models: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Model name → its own `rpm`, `tpm`, `in_flight`, `latency_ms`, in place of those for all."""

    malformed: float = 0.0
    """Shares of requests. Malformed: a reply with no readable verdict in it."""
    truncated: float = 0.0
    """Cut before the verdict, finish_reason `length`."""
    refused: float = 0.0
    """Declined: in `message.refusal`, as plain text, or by the content filter."""
    server_errors: float = 0.0
    """500, 502 or 503."""
    resets: float = 0.0
    """The connection is dropped without a reply."""
    hanging: float = 0.0
    """No reply until the client goes away."""
    throttled: float = 0.0
    """429 with Retry-After `retry_after_s`, whatever the limits."""
    retry_after_s: float = 0.2
    miscounted: float = 0.0
    """Lists of scores that are too long, too short, or numbered otherwise than what they score."""
    miscounted_from: int = 2
    """The fewest scores asked for at once where that happens; 1: also where one is asked for."""
    mumbled: float = 0.0
    """The verdict in prose, which a model can make out and a careful reader should not."""
    reformat_lies: bool = False
    """Whether who is asked to copy a verdict out of a text says another, or makes one up."""
    malformed_skew: float = 1.0
    """How many times likelier a malformed reply is where the verdict is yes; the share over all prompts stays."""
    max_faults_in_a_row: int | None = 2
    """After that many faults one prompt gets a sound reply; None: no such bound."""

    api_key: str | None = None
    """The only key that is accepted; None: none is asked for."""
    only_models: tuple[str, ...] | None = None
    """The model names that exist; None: all do."""
    quota: int | None = None
    """Replies until the account's quota is used up and every request is answered 429 `insufficient_quota`."""
    structured: str = "enforced"
    """What becomes of a `response_format` or `structured_outputs`: enforced, ignored, or refused with 400. `openai`
    enforces and knows only the former, `vllm` the latter; `json_object` enforces no schema and ignores the latter."""
    unsupported: tuple[str, ...] = ()
    """Parameters that are refused with 400, in OpenAI's words."""
    thinks: int = 0
    """Tokens of reasoning before each reply: where `max_tokens` leaves no room for more, the reply is cut there."""

    replay: Path | None = None
    """JSONL of {question, response, reply}: answer from these and from nothing else. A batch is answered block by
    block, from replies that are numbers, or true and false for the ends of the scale."""
    log: Path | None = None
    """JSONL, one line for each request when it ends."""
    log_bodies: bool = True

    def __post_init__(self) -> None:
        for name in (*SHARES, "yes"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"simulate: {name} is a share from 0 to 1, not {getattr(self, name)}")
        if math.fsum(getattr(self, name) for name in SHARES) > 1 + 1e-9:
            raise InputError(f"simulate: the shares of {', '.join(SHARES)} add up to more than 1")
        for name in (
            "thinks",
            "latency_ms",
            "latency_spread",
            "retry_after_s",
            "malformed_skew",
            "quota",
            "max_faults_in_a_row",
        ):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InputError(f"simulate: {name} cannot be negative")
        for name in ("rpm", "tpm", "in_flight", "burst_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError(f"simulate: {name} must be above 0")
        if self.miscounted_from < 1:
            raise InputError("simulate: miscounted_from must be at least 1")
        if self.structured not in STRUCTURED:
            raise InputError(f"simulate: structured is one of {', '.join(STRUCTURED)}, not {self.structured!r}")
        for model, limits in self.models.items():
            for name, value in limits.items():
                if name not in MODEL_LIMITS:
                    raise InputError(f"simulate: models.{model}.{name}: only {', '.join(MODEL_LIMITS)} can be set")
                if value < 0 or (value == 0 and name != "latency_ms"):
                    raise InputError(f"simulate: models.{model}.{name} must be above 0")

    def of_model(self, model: str, name: str) -> float | None:
        """A limit as it stands for one model name."""
        value: float | None = self.models.get(model, {}).get(name, getattr(self, name))
        return value

    def to_json(self) -> str:
        """All options as a JSON object."""
        options = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return json.dumps({name: str(value) if isinstance(value, Path) else value for name, value in options.items()})

    @classmethod
    def from_json(cls, text: str) -> Simulation:
        """The record that `to_json` wrote; options that are absent have their defaults."""
        try:
            options: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise InputError(f"simulate: the options are no JSON: {error}") from None
        unknown = sorted(set(options) - {f.name for f in dataclasses.fields(cls)})
        if unknown:
            raise InputError(f"simulate: unknown option {unknown[0]!r}")
        for name in ("replay", "log"):
            if options.get(name) is not None:
                options[name] = Path(options[name])
        for name in ("only_models", "unsupported"):
            if options.get(name) is not None:
                options[name] = tuple(options[name])
        return cls(**options)
