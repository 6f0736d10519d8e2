"""One way to log, so that no line can hold a secret or disturb stdout.

Events with key=value pairs go to stderr, or JSON lines where asked. Hides structlog's and logging's set-up, keeps other
libraries quiet, and takes out whatever looks like a key before a line is written.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from .errors import ConfigError

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
VARIABLE = "JURYBOX_LOG"
HIDDEN = "[hidden]"

# Their debug and info lines repeat whole requests, or report every connection.
_NOISY = ("aiohttp", "asyncio", "filelock", "httpcore2", "httpx2", "openai", "ray", "urllib3", "uvicorn")

_SECRET_NAME = re.compile(r"(?i)(authorization|cookie|password|secret|api[-_ ]?key|access[-_]?key|(?:^|_)token$)")
_SECRETS = (
    re.compile(
        r"(?i)((?:authorization|api[-_]?key|password|secret)[\"']?\s*[:=]\s*[\"']?)(?:(?:bearer|basic)\s+)?[^\s\"',}]+"
    ),
    re.compile(r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(r"()\b(?:sk|gsk|hf|xai|nvapi)[-_][A-Za-z0-9_-]{8,}"),
    re.compile(r"()\bAIza[A-Za-z0-9_-]{20,}"),
    re.compile(r"(https?://)[^/@\s]+(?=@)"),
    re.compile(r"(?i)([?&](?:api[-_]?key|key|token|sig|signature)=)[^&\s\"']+"),
)
_FIELDS = structlog.processors.LogfmtRenderer(bool_as_flag=False)
_JSON = structlog.processors.JSONRenderer(ensure_ascii=False)


def configure(level: str | None = None, *, libraries: bool = True) -> None:
    """Send events of `level` and above to stderr. JURYBOX_LOG (`debug`; `info,json`) counts where no level is given,
    else warnings are logged. Without `libraries` the logging of everything else stays as the process has it."""
    words = [word for word in os.environ.get(VARIABLE, "").lower().replace(" ", "").split(",") if word]
    for word in words:
        if word not in LEVELS and word != "json":
            raise ConfigError(f"{VARIABLE}: {word!r} is none of {', '.join(LEVELS)}, json")
    chosen = level or next((word for word in words if word in LEVELS), "warning")
    renderer: Processor = _JSON if "json" in words else _render_line
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_event,
    ]
    stderr = cast(TextIO, _Stderr())
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[chosen]),
        logger_factory=structlog.PrintLoggerFactory(stderr),
        cache_logger_on_first_use=False,
    )
    if not libraries:
        return
    handler = logging.StreamHandler(stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def redact(text: str) -> str:
    """The text without anything that looks like a key."""
    for pattern in _SECRETS:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return text


class _Stderr:
    """The stderr of the moment of writing: live bars put their own in its place while they are shown."""

    def write(self, text: str) -> int:
        # No line of a log is worth the end of a run: it may go to a file on a full disk.
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    redacted: EventDict = _redact_value(event)
    return redacted


def _redact_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {
                redact(str(k)): HIDDEN if _SECRET_NAME.search(str(k)) else _redact_value(v) for k, v in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [_redact_value(entry) for entry in value]
        case bytes():
            return redact(value.decode("utf-8", "replace"))
        case _:
            return redact(str(value))


def _render_line(logger: WrappedLogger, method: str, event: EventDict) -> str:
    head = [str(event.pop(name, "")) for name in ("timestamp", "level", "event")]
    trace = event.pop("exception", None)
    line = " ".join(filter(None, [*head, str(_FIELDS(logger, method, event))]))
    return f"{line}\n{trace}" if trace else line
