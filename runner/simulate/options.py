"""What a simulated endpoint is asked to do: one frozen record, checked when it is made.

It travels as JSON to the endpoint's own process. A wrong option is an InputError, wherever the record is made.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from runner.errors import InputError

FAULTS = (
    *("malformed", "truncated", "refused", "server_errors", "resets"),
    *("hanging", "throttled", "miscounted", "mumbled"),
)
"""The options that are shares of the requests, in the order in which they are drawn."""

STRUCTURED = {
    "enforced": {"json_schema", "json_object", "vllm"},
    "ignored": set[str](),
    "refused": set[str](),
    "openai": {"json_schema", "json_object"},
    "vllm": {"vllm"},
    "json_object": {"json_object"},
}
"""What an endpoint may make of demands for structure → the ways that it enforces."""

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class ModelLimits(_Options):
    """What one model name has of its own."""

    rpm: Positive | None = None
    tpm: Positive | None = None
    in_flight: Positive | None = None
    latency_ms: NotNegative | None = None


class Simulation(_Options):
    """How the endpoint answers. Everything that is drawn is drawn from the seed and the prompt."""

    seed: int = 0
    yes: Share = 0.6
    """Share of the prompts whose verdict is yes; on a scale: a score above the middle. The last user message alone
    decides which, and of a batch each block without its number."""

    latency_ms: NotNegative = 0.0
    """Median time to a reply; log-normal, with the standard deviation `latency_spread` of its logarithm."""
    latency_spread: NotNegative = 0.3

    rpm: Positive | None = None
    """Requests a minute for each model name, from a bucket that holds `burst_s` seconds of them. Above: 429."""
    tpm: Positive | None = None
    """Tokens a minute, prompt and reply."""
    in_flight: Annotated[int, Field(gt=0)] | None = None
    burst_s: Positive = 1.0
    models: dict[str, ModelLimits] = {}
    """Model name → its own `rpm`, `tpm`, `in_flight`, `latency_ms`, in place of those for all."""

    malformed: Share = 0.0
    """Shares of requests. Malformed: a reply with no readable verdict in it."""
    truncated: Share = 0.0
    """Cut before the verdict, finish_reason `length`."""
    refused: Share = 0.0
    """Declined: in `message.refusal`, as plain text, or by the content filter."""
    server_errors: Share = 0.0
    """500, 502 or 503."""
    resets: Share = 0.0
    """The connection is dropped without a reply."""
    hanging: Share = 0.0
    """No reply until the client goes away."""
    throttled: Share = 0.0
    """429 with Retry-After `retry_after_s`, whatever the limits."""
    retry_after_s: NotNegative = 0.2
    miscounted: Share = 0.0
    """Lists of scores that are too long, too short, or numbered otherwise than what they score."""
    miscounted_from: Annotated[int, Field(ge=1)] = 2
    """The fewest scores asked for at once where that happens; 1: also where one is asked for."""
    mumbled: Share = 0.0
    """The verdict in prose, which a model can make out and a careful reader should not."""
    reformat_lies: bool = False
    """Whether who is asked to copy a verdict out of a text says another, or makes one up."""
    malformed_skew: NotNegative = 1.0
    """How many times likelier a malformed reply is where the verdict is yes; the share over all prompts stays."""
    max_faults_in_a_row: Annotated[int, Field(ge=0)] | None = 2
    """After that many faults one prompt gets a sound reply; None: no such bound."""

    api_key: str | None = None
    """The only key that is accepted; None: none is asked for."""
    only_models: tuple[str, ...] | None = None
    """The model names that exist; None: all do."""
    quota: Annotated[int, Field(ge=0)] | None = None
    """Replies until the account's quota is used up and every request is answered 429 `insufficient_quota`."""
    structured: Literal["enforced", "ignored", "refused", "openai", "vllm", "json_object"] = "enforced"
    """What becomes of a `response_format` or `structured_outputs`: enforced, ignored, or refused with 400. `openai`
    enforces and knows only the former, `vllm` the latter; `json_object` enforces no schema and ignores the latter."""
    unsupported: tuple[str, ...] = ()
    """Parameters that are refused with 400, in OpenAI's words."""
    thinks: Annotated[int, Field(ge=0)] = 0
    """Tokens of reasoning before each reply: where `max_tokens` leaves no room for more, the reply is cut there."""

    replay: Path | None = None
    """JSONL of {question, response, reply}: answer from these and from nothing else. A batch is answered block by
    block, from replies that are numbers, or true and false for the ends of the scale."""
    log: Path | None = None
    """JSONL, one line for each request when it ends."""
    log_bodies: bool = True

    @model_validator(mode="after")
    def _check_sum(self) -> Simulation:
        if math.fsum(getattr(self, name) for name in FAULTS) > 1 + 1e-9:
            raise InputError(f"simulate: the shares of {', '.join(FAULTS)} add up to more than 1")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, options: Any, check: ModelWrapValidatorHandler[Simulation]) -> Simulation:
        try:
            return check(options)
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"simulate: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def of_model(self, model: str, name: str) -> float | None:
        own: float | None = getattr(self.models.get(model), name, None)
        value: float | None = getattr(self, name) if own is None else own
        return value
