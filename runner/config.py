"""The config file as frozen, strictly typed records: what a run means, and how it is to be carried out.

Every wrong key is an error that names its path and, where one is near, the name that was meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from judges import MAX_BATCH, JudgeError, Sampling
from judges.strict_yaml import parse_value, parse_yaml
from judges.validation_errors import explain

from .env_secrets import find_secret, looks_like_key
from .errors import ConfigError
from .items_config import ConfigRecord, Items

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Entry = TypeVar("Entry")
MOST_IN_FLIGHT = 100_000
"""Each is an open connection: a number above it is a slip."""
NonEmpty = Annotated[list[Entry], Field(min_length=1)]
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
Structured = Literal["auto", "json_schema", "json_object", "vllm", "off"]
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Limits(ConfigRecord):
    """What the account allows, over the whole cluster."""

    rpm: Positive | None = None
    """Requests a minute."""
    tpm: Positive | None = None
    """Tokens a minute, of prompts and replies."""
    in_flight: Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)] = 256
    """Requests at once."""


class Price(ConfigRecord):
    """USD per million tokens."""

    input: Annotated[float, Field(ge=0)]
    """Of the prompt."""
    output: Annotated[float, Field(ge=0)]
    """Of the reply, reasoning included."""
    cached_input: Annotated[float, Field(ge=0)] | None = None
    """Of the part of the prompt that the endpoint had cached; by default as `input`."""


class Extra(ConfigRecord):
    """What some endpoints want besides: Azure-style headers and queries, own body fields. Secrets as `${NAME}`."""

    headers: dict[str, str] = Field(default_factory=dict)
    """HTTP headers of each request."""
    query: dict[str, str] = Field(default_factory=dict)
    """Parameters of the query, such as `api-version`."""
    body: dict[str, Any] = Field(default_factory=dict)
    """Fields of the request's body, such as `reasoning_effort`."""

    @field_validator("body")
    @classmethod
    def _own_fields(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted({"model", "messages", "response_format", "stream", "n"} & set(value)):
            raise ValueError(f"{taken[0]!r} is set by jurybox itself")
        return value

    @field_validator("headers", "query", "body")
    @classmethod
    def _no_secrets(cls, value: dict[str, Any]) -> dict[str, Any]:
        if place := find_secret(value):
            raise ValueError(f"{place} looks like a secret: put it in an environment variable, and write ${{ITS_NAME}}")
        return value


class Model(ConfigRecord):
    """A judge model: the served model, its endpoint, sampling, limits and prices, under a short name."""

    name: Annotated[str, Field(min_length=1)]
    """The short name, which stands in results and reports."""
    model: Annotated[str, Field(min_length=1)]
    """What the endpoint calls the model."""
    revision: str | None = None
    """A version of the model that its id does not tell; part of the trial's key."""
    base_url: str = "https://api.openai.com/v1"
    """An OpenAI-compatible endpoint, up to and with `/v1` or whatever stands before `/chat/completions`."""
    api_key_env: str | None = None
    """The NAME of the environment variable that holds the key, never the key."""
    api_key_file: str | None = None
    """A file that holds the key, instead of `api_key_env`; on a cluster each node has one of its own."""
    account: str | None = None
    """What the provider's limits apply to; models of one account share them. By default the model's own name."""
    limits: Limits = Limits()
    price: Price | None = None
    """Without it costs are unknown, and `budget.usd` cannot be kept."""
    sampling: Sampling = Sampling()
    """Laid over the judge's own; the entry of `judges` is laid over both."""
    structured: Structured = "auto"
    """How judges whose `structured` is auto or require have their form enforced here; auto: as the endpoint can."""
    timeout_s: Positive = 120.0
    """From sending a request to the last byte of its reply."""
    extra: Extra = Extra()

    @property
    def account_name(self) -> str:
        """What the limits apply to: `account`, else the model's own name."""
        return self.account or self.name

    @field_validator("structured", mode="before", json_schema_input_type=Structured | Literal[False])
    @classmethod
    def _off(cls, value: Any) -> Any:
        # YAML 1.1 takes a bare `off` for false; only one thing can be meant.
        return "off" if value is False else value

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str) -> str:
        match = re.match(r"https?://([^/@]*@)?[^/\s?#]+", value)
        if not match:
            raise ValueError("must start with http:// or https:// and name a host")
        if "?" in value or "#" in value:
            raise ValueError("must end with its path; put a query into extra.query")
        if match.group(1):
            raise ValueError("must not hold credentials: name the variable that does with api_key_env")
        return value.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _variable(cls, value: str | None) -> str | None:
        if value is not None and (looks_like_key(value) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value)):
            raise ValueError("must be the NAME of an environment variable, not the key itself")
        return value

    @field_validator("api_key_file")
    @classmethod
    def _file(cls, value: str | None) -> str | None:
        if value is not None and looks_like_key(value):
            raise ValueError("must be the path of a file that holds the key, not the key itself")
        return value

    @model_validator(mode="after")
    def _one_key(self) -> Model:
        if self.api_key_env and self.api_key_file:
            raise ValueError("give either api_key_env or api_key_file")
        return self


class JudgeUse(ConfigRecord):
    """A judge of the run: its name or path, and what this run sets differently."""

    use: str
    """The name of a shipped judge, or a path: `./mine.yaml`, `./mine.py:judge`."""
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)] | None = None
    """Items in a request of a judge that takes several; by default as many as the judge says."""
    sampling: Sampling = Sampling()
    """Laid over the judge's and the model's."""


MIN_HANG_S = 3.0
SAME = "same"
"""As `retry.reformat`: the judge model of the trial."""


class Retry(ConfigRecord):
    """How often a trial is tried before its outcome stands."""

    attempts: Annotated[int, Field(ge=1)] = 6
    """Sends of one request that failed for a reason of its own (5xx, reset, timeout); 429 and outages do not count."""
    rejudge: Annotated[int, Field(ge=0)] = 2
    """Fresh requests after a reply that could not be read."""
    refused: Annotated[int, Field(ge=0)] = 1
    """Fresh requests after a refusal (not after a content filter)."""
    reformat: str | Model | None = None
    """The model that copies the verdict out of a reply that cannot be read: a name of `models`, `same` (the judge model
    itself), another model id, or a model of its own; null leaves that stage out."""
    reread: Share = 0.0
    """Share of the verdicts read out of a longer reply (`tolerant:label`, `tolerant:lead`, …) that are checked by one
    more request each, which asks for the bare verdict: no verdict changes by it, and the report says how many came out
    the same. `plan` does not count these requests."""
    max_outage: str = "30m"
    """How long a whole endpoint may be unreachable, or answer 429s alone, before the run stops, resumable."""
    hang: str = "60s"
    """How long a worker may give no sign of life before it is killed: code of a judge that never returns holds up all
    that its worker does. The trial that does so is recorded as poisoned."""

    @field_validator("max_outage", "hang")
    @classmethod
    def _duration(cls, value: str, info: ValidationInfo) -> str:
        if not _DURATION.fullmatch(value):
            raise ValueError("must be a duration such as 90s, 30m or 2h")
        if info.field_name == "hang" and _seconds(value) < MIN_HANG_S:
            raise ValueError(f"must be at least {MIN_HANG_S:g}s: workers are asked for a sign of life once a second")
        return value

    @property
    def max_outage_s(self) -> float:
        """`max_outage` in seconds."""
        return _seconds(self.max_outage)

    @property
    def hang_s(self) -> float:
        """`hang` in seconds."""
        return _seconds(self.hang)


def _seconds(duration: str) -> float:
    match = _DURATION.fullmatch(duration)
    assert match is not None
    return float(match.group(1)) * _SECONDS[match.group(2)]


class Budget(ConfigRecord):
    """What the run may take at most, every attempt of every session counted: probes, copies and repeats too.

    A request goes out only where the most that it can come to is still within all of them. What may have been billed
    without an answer counts in full.
    """

    usd: Positive | None = None
    """Money, by the models' prices: each must have one."""
    requests: Annotated[int, Field(ge=1)] | None = None
    """Requests that an endpoint received."""
    tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens, in and out. What a request takes is known beforehand only as a bound: a byte of the prompt counts as one,
    a reply as long as its max_tokens."""


class RunConfig(ConfigRecord):
    """One run: items × judges × models × repeats."""

    name: Annotated[str, Field(min_length=1)]
    """The run's name."""
    items: Items
    judges: NonEmpty[JudgeUse]
    """Who judges: names or paths, or mappings that say what this run sets differently."""
    models: NonEmpty[Model]
    """The judge models; a mere id stands for a model of OpenAI with the key in OPENAI_API_KEY."""
    repeats: Annotated[int, Field(ge=1)] = 1
    """How often each item is judged by each judge and model."""
    retry: Retry = Retry()
    controls: Share = 0.0
    """Control items to be added, as a share of the items; they are judged, and reported apart."""
    seed: int = 0
    """What samples, batches and control items are drawn by."""
    max_unscored: Share = 0.01
    """Share of trials without a score, of any judge × model, above which the run ends with status 3. Whatever it is, a
    run does where those without a score could move a result by more than its interval is wide, or where a judge named
    sentences that the items do not have."""
    budget: Budget = Budget()
    workers: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    """Worker processes, over the whole cluster; `auto`: one a processor core, those of nodes that join among them."""
    out: str | None = None
    """The run directory; by default `runs/NAME` in the folder where the command runs."""
    publish: str | None = None
    """A directory (relative to the config), or a URL of s3:// or gs://, to which what is judged is mirrored."""

    @field_validator("publish")
    @classmethod
    def _place(cls, value: str | None) -> str | None:
        scheme, mark, rest = ("." if value is None else value).partition("://")
        bucket = rest.partition("/")[0]
        if not scheme.strip() or (mark and scheme not in ("s3", "gs")):
            raise ValueError("must be a directory, or a URL of s3:// or gs://")
        if "@" in bucket or ":" in bucket:
            raise ValueError("must not hold credentials; they come from the environment or a profile")
        if mark and (not bucket or "?" in rest or "#" in rest):
            raise ValueError(f"must name a bucket, and a folder in it if you like, as in {scheme}://bucket/folder")
        return value

    @field_validator("judges", mode="before", json_schema_input_type=NonEmpty[str | JudgeUse])
    @classmethod
    def _judge_names(cls, value: Any) -> Any:
        if isinstance(value, list):
            return [{"use": entry} if isinstance(entry, str) else entry for entry in value]
        return value

    @field_validator("models", mode="before", json_schema_input_type=NonEmpty[str | Model])
    @classmethod
    def _model_names(cls, value: Any) -> Any:
        if isinstance(value, list):
            return [
                {"name": entry, "model": entry, "api_key_env": "OPENAI_API_KEY"} if isinstance(entry, str) else entry
                for entry in value
            ]
        return value

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        names = [model.name for model in self.asked_models]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"models: two entries are named {sorted(twice)[0]!r}; names must differ")
        limits: dict[str, tuple[str, Limits]] = {}
        for model in self.asked_models:
            first, known = limits.setdefault(model.account_name, (model.name, model.limits))
            if known != model.limits:
                raise ValueError(
                    f"models: {first!r} and {model.name!r} share the account {model.account_name!r} "
                    "but differ in limits; an account has one set of limits"
                )
        if self.budget.usd is not None and (free := [m.name for m in self.asked_models if m.price is None]):
            raise ValueError(f"budget.usd needs a price for every model; {free[0]!r} has none")
        return self

    def model(self, name: str) -> Model:
        """The judge model of that short name."""
        return next(model for model in self.models if model.name == name)

    @property
    def reformatter(self) -> Model | None:
        """The model of the reformat stage; None where there is no such stage, or each judge model does it itself."""
        named = self.retry.reformat
        if not isinstance(named, str) or named == SAME:
            return named if isinstance(named, Model) else None
        known = [model for model in self.models if model.name == named]
        return known[0] if known else Model(name=named, model=named, api_key_env="OPENAI_API_KEY")

    @property
    def asked_models(self) -> list[Model]:
        """The judge models, and that of the reformat stage where it is none of them."""
        extra = self.reformatter
        return self.models if extra is None or extra in self.models else [*self.models, extra]

    def accounts(self) -> dict[str, Limits]:
        """Account name → its limits."""
        return {model.account_name: model.limits for model in self.asked_models}


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a config file and apply `a.b=c` overrides (values are YAML; list entries by number)."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    try:
        data = parse_yaml(text, str(path), "name, items, judges, models")
    except JudgeError as error:
        raise ConfigError(error.message) from None
    return parse_config(data, str(path), overrides)


def parse_config(data: Mapping[str, Any], source: str = "config", overrides: Sequence[str] = ()) -> RunConfig:
    """Validate a config given as plain data, with overrides set in it; all errors are told at once, a line each."""
    for override in overrides:
        _apply_override(data, override)
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(explain(error, RunConfig, source).message) from None


def _apply_override(data: Mapping[str, Any], override: str) -> None:
    """Set one key of a config's data, as `--set a.b=value` says it."""
    path, equals, raw = override.partition("=")
    if not equals or not path:
        raise ConfigError(f"--set {override}: must look like a.b=value")
    try:
        value = parse_value(raw, f"--set {path}")
    except JudgeError as error:
        raise ConfigError(error.message) from None
    target: Any = data
    parts = path.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(target, list | dict):
            raise ConfigError(f"--set {override}: {'.'.join(parts[:depth])} is not a mapping")
        if isinstance(target, list) and (not part.isdigit() or int(part) >= len(target)):
            raise ConfigError(f"--set {override}: {'.'.join(parts[:depth])} has no entry {part!r}")
        key: Any = int(part) if isinstance(target, list) else part
        if depth == len(parts) - 1:
            target[key] = value
        else:
            target = target[key] if isinstance(target, list) else target.setdefault(key, {})
