"""What an endpoint replied, as a value: a Completion, or the kind of error that its words and status mean.

Pure. Hides how providers differ: content as text, null or parts, reasoning under several names, usage with holes, and
the ways in which they say "too fast", "no money", "no such model" and "our filter stopped this". Also what the user is
told of a refusal that only they can mend: without secrets, for a `base_url` has neither credentials nor a query, and
the provider's words come without keys.
"""

import http.client
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeGuard

import orjson

from judges import Reply
from runner.config import Model, Price
from runner.usage import Usage

from .retry_policy import ErrorKind

MESSAGE_CHARS = 500
NO_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"}
NO_MODEL = {"model_not_found", "deploymentnotfound", "unknown_model"}
NO_KEY = {"invalid_api_key", "authentication_error", "invalid_authentication"}
FILTERED = {"content_filter", "content_policy_violation", "responsibleaipolicyviolation"}
GAVE_UP_WAITING = (504, 524)
"""A gateway's words for a server that may still be at work; the second is not in the standard."""
TOO_FAST = (429, 498, 529)
"""The last two are not in the standard; some providers send them for 429's meaning: no capacity, overloaded."""
PASSING = (409, 423, 424, 425, 499)
"""Of 4xx those that lay nothing to the request: a conflict, a lock, a failure behind it, too early, broken off."""
GIVEN, PRODUCED = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")
MOST_TOKENS = 1e9
"""More than any request can take: a number above it is no count of tokens."""
_KEYLIKE = re.compile(r"(?i)\bbearer\s+\S+|\bsk-[\w*.-]{6,}")


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply. Text, reasoning and refusal as the endpoint sent them."""

    text: str | None
    reasoning: str | None
    refusal: str | None
    finish_reason: str | None
    served_model: str | None
    system_fingerprint: str | None
    usage: Usage
    latency_s: float
    notes: tuple[str, ...] = ()
    """How the request as sent differs from what was wanted, because this endpoint takes it only so."""
    counted: bool = True
    """Whether it tells all that it took; if not, its usage is less than that, or nothing."""

    @property
    def reply(self) -> Reply:
        """What a judge reads."""
        return Reply(self.text, self.finish_reason, self.refusal, self.reasoning)


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """Why there is no completion, in the provider's words, uncut and with whatever they repeat."""

    kind: ErrorKind
    message: str
    param: str | None = None
    """The parameter of the request that they name, if they do so apart."""
    codes: frozenset[str] = frozenset()


class EndpointError(Exception):
    """A request without a completion. Survives pickling, and holds no key."""

    def __init__(
        self, kind: ErrorKind, message: str, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(kind, message, status, retry_after_s)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s
        self.will_adapt = False
        """The same request, sent again, will be put as this endpoint wants it."""

    @property
    def may_be_billed(self) -> bool:
        """Whether the request may have been carried out although nothing usable came back."""
        if self.kind is ErrorKind.SERVER:
            return self.status in GAVE_UP_WAITING
        return self.kind in (ErrorKind.TIMEOUT, ErrorKind.CONNECTION, ErrorKind.BAD_REPLY)

    @property
    def description(self) -> str:
        """The provider's words, with the status they came with, and how long it asks to be left alone."""
        status = "" if self.status is None or self.message.startswith("HTTP ") else f"HTTP {self.status}: "
        wait = "" if self.retry_after_s is None else f", Retry-After {self.retry_after_s:g} s"
        return f"{status}{self.message}{wait}"

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}"


def shorten(message: str, secrets: tuple[str, ...]) -> str:
    """One line of at most 500 characters without keys. Secrets go first: a cut one would not be known again."""
    for secret in secrets:
        message = message.replace(secret, "[redacted]")
    message = " ".join(_KEYLIKE.sub("[redacted]", message).split())
    return message if len(message) <= MESSAGE_CHARS else message[: MESSAGE_CHARS - 1] + "…"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by `retry-after-ms` or `retry-after` (seconds or an HTTP date); None if neither can be read."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after", "")
    if (seconds := _number(value)) is not None:
        return max(0.0, seconds)
    try:
        then = _date(value)
        # The provider's own clock, where it tells it: ours may be wrong.
        now = _date(headers["date"]) if "date" in headers else datetime.now(UTC)
    except ValueError:
        return None
    return max(0.0, (then - now).total_seconds())


def classify_error(status: int, body: bytes) -> ErrorDetail | Completion:
    """What a reply with an error status means. A provider's content filter is a refusal, and so a completion."""
    try:
        data = _loads(body)
    except ValueError:
        data = None
    return _classify(status, data, body.decode("utf-8", "replace"))


def read_completion(body: bytes, price: Price | None, latency_s: float) -> Completion | ErrorDetail:
    """Read the body of a reply with status 200."""
    try:
        data = _loads(body)
    except ValueError:
        return _bad_reply("the reply is not JSON", body)
    choices = data.get("choices") if isinstance(data, dict) else None
    choice = _first(choices) if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    # Routers answer 200 and put the failure of the provider behind them into the body.
    failed = next((part for part in (data, choice) if isinstance(part, dict) and part.get("error")), None)
    if failed is not None and (failed is choice or choice is None):
        error = failed["error"]
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code <= 599 else 200
        return _classify(status, failed, "")
    if not isinstance(data, dict) or not isinstance(choice, dict) or not isinstance(message, dict):
        return _bad_reply("the reply holds no choices with a message", body)
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        return ErrorDetail(ErrorKind.BAD_REPLY, f"the reply's content is a {type(content).__name__}")
    text, reasoning, refusal = _parts(content) if isinstance(content, list) else (content, None, None)
    return Completion(
        text=text,
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")) or reasoning,
        refusal=_text(message.get("refusal")) or refusal,
        finish_reason=_text(choice.get("finish_reason")),
        served_model=_text(data.get("model")),
        system_fingerprint=_text(data.get("system_fingerprint")),
        usage=_usage(data.get("usage"), price),
        latency_s=latency_s,
        counted=_tells_all(data.get("usage")),
    )


def _bad_reply(problem: str, body: bytes) -> ErrorDetail:
    return ErrorDetail(ErrorKind.BAD_REPLY, f"{problem}: {body[:MESSAGE_CHARS].decode('utf-8', 'replace')}")


def _first(choices: list[Any]) -> Any:
    """The choice of index 0, wherever it stands; the first where none says so."""
    return next((each for each in choices if isinstance(each, dict) and each.get("index") == 0), choices[0])


def _classify(status: int, data: Any, raw: str) -> ErrorDetail | Completion:
    """What a body with an error in it means; `raw` is it as text."""
    if isinstance(data, list) and len(data) == 1:
        # As Gemini wraps its errors.
        data = data[0]
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        error = {"message": error} if error else data if isinstance(data, dict) else {}
    inner = error.get("innererror")
    names = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    codes = frozenset(name.lower() for name in names if isinstance(name, str))
    words = error.get("message") or error.get("detail") or raw
    message = words if isinstance(words, str) else json.dumps(words, ensure_ascii=False)
    if not message.strip():
        message = f"HTTP {status} {http.client.responses.get(status, '')}".rstrip()
    metadata = error.get("metadata")
    moderated = status == 403 and isinstance(metadata, dict) and "flagged_input" in metadata
    if moderated or (status in (400, 403) and codes & FILTERED):
        return Completion(None, None, message, "content_filter", None, None, Usage(), 0.0)
    if 300 <= status < 400 and not codes & NO_MONEY:
        message = f"the endpoint redirects elsewhere, set base_url to it: {message}"
    return ErrorDetail(_kind(status, codes), message, _text(error.get("param")), codes)


def _kind(status: int, codes: frozenset[str]) -> ErrorKind:
    if status < 500 and (status == 402 or codes & NO_MONEY):
        return ErrorKind.QUOTA
    if status in TOO_FAST:
        return ErrorKind.THROTTLED
    if status < 300:
        return ErrorKind.BAD_REPLY
    if status < 400:
        return ErrorKind.UNKNOWN_MODEL
    if status in (401, 407) or (status < 500 and codes & NO_KEY):
        return ErrorKind.AUTH
    if status == 403 and not codes & NO_MODEL:
        return ErrorKind.FORBIDDEN
    if status in (404, 405, 410) or (status < 500 and codes & NO_MODEL):
        return ErrorKind.UNKNOWN_MODEL
    if status == 408:
        return ErrorKind.TIMEOUT
    if status in PASSING or status >= 500:
        return ErrorKind.SERVER
    return ErrorKind.BAD_REQUEST


def _loads(body: bytes) -> Any:
    """JSON; where orjson refuses what Python's reader takes (lone surrogates, NaN), the latter, made storable."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            return _storable(json.loads(body))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_storable(entry) for entry in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(entry) for key, entry in value.items()}
    return value


def _parts(parts: list[Any]) -> tuple[str | None, str | None, str | None]:
    """Text, reasoning and refusal of a content given in parts."""
    pieces: dict[str, list[str]] = {"text": [], "thinking": [], "refusal": []}
    for part in parts:
        if isinstance(part, str):
            pieces["text"].append(part)
        elif isinstance(part, dict):
            for kind, texts in pieces.items():
                value = part.get(kind)
                if isinstance(value, list):
                    value = _parts(value)[0]
                if isinstance(value, str):
                    texts.append(value)
                    break
    text, thinking, refusal = ("".join(texts) if texts else None for texts in pieces.values())
    return text, thinking, refusal


def _usage(usage: Any, price: Price | None) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    given, produced = _count(usage, *GIVEN), _count(usage, *PRODUCED)
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
    cached = min(cached, given)
    cost = 0.0
    if price is not None:
        cached_price = price.input if price.cached_input is None else price.cached_input
        cost = ((given - cached) * price.input + cached * cached_price + produced * price.output) / 1e6
    reasoning = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    return Usage(given, cached, produced, reasoning, cost)


def _tells_all(usage: Any) -> bool:
    """Whether the tokens of both sides stand there. No prompt is of no tokens, but a reply may be."""
    return _count(usage, *GIVEN) > 0 and any(_is_count(_number(usage.get(name))) for name in PRODUCED)


def _is_count(number: float | None) -> TypeGuard[float]:
    return number is not None and 0 <= number <= MOST_TOKENS


def _count(record: Any, *names: str) -> int:
    for name in names if isinstance(record, dict) else ():
        number = _number(record.get(name))
        if _is_count(number) and number > 0:
            return round(number)
    return 0


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _date(value: str) -> datetime:
    date = parsedate_to_datetime(value)
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def action_message(model: Model, error: EndpointError, about: str = "") -> str:
    """One line: address, status, model, the provider's words, the setting. `about`: what is known besides."""
    status = "refuses" if error.status is None else f"answers HTTP {error.status}"
    what = f"{model.name}: {about}" if about else model.name
    return (
        f"{what}: {model.base_url} {status} for the model {model.model}: {error.message} "
        f"(look at {_setting(model, error.kind)})"
    )


def _setting(model: Model, kind: ErrorKind) -> str:
    # Some say by a 400 that the key is not valid, or its credit used up.
    or_key = f", or {_key(model)}" if model.api_key_env or model.api_key_file else ""
    settings = {
        ErrorKind.AUTH: _key(model),
        ErrorKind.FORBIDDEN: f"what the key may do, {_key(model)}",
        ErrorKind.QUOTA: f"the credit of the key's account, {_key(model)}",
        ErrorKind.UNKNOWN_MODEL: f"model: {model.model} and base_url",
    }
    return settings.get(kind, f"sampling, structured and extra{or_key}")


def _key(model: Model) -> str:
    if model.api_key_env:
        return f"api_key_env: {model.api_key_env}"
    if model.api_key_file:
        return f"api_key_file: {model.api_key_file}"
    if model.extra.headers or model.extra.query:
        return "extra, since api_key_env is not set"
    return "api_key_env, which is not set: no key is sent"
