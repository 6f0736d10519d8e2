"""What the endpoint remembers of the requests: counts for `GET /stats`, and the request log.

A test reads the log to prove what was sent and when, so a line holds the body exactly as it came. It never holds
headers: there the keys are. Hides the file, and how its lines are there for a reader at once although no line is
written by itself: all requests that end in one turn of the event loop are.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import orjson

from runner.errors import InputError

from .endpoint import Answer

BUFFER = 1 << 20


class RequestLog:
    def __init__(self, path: Path | None, *, bodies: bool) -> None:
        self._bodies = bodies
        try:
            self._file = path.open("wb", buffering=BUFFER) if path is not None else None
        except OSError as error:
            raise InputError(f"simulate: cannot write the request log {path}: {error.strerror}") from None
        self._is_due = False
        self.requests = 0
        self.open = 0
        self.statuses: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.limits: Counter[str] = Counter()

    def begin(self) -> int:
        """Count a request; its number from 1."""
        self.requests += 1
        self.open += 1
        return self.requests

    def end(
        self, number: int, arrived: float, now: float, answer: Answer, status: int | None, body: bytes | bytearray
    ) -> None:
        """Count how a request ended, and log it. `status` is None where no reply was given, whatever was the answer."""
        self.open -= 1
        self.statuses["none" if status is None else str(status)] += 1
        self.faults.update([answer.fault] if answer.fault else ())
        self.limits.update([answer.limit] if answer.limit else ())
        if self._file is None:
            return
        line: dict[str, Any] = {"n": number, "time": arrived, "seconds": now - arrived, "model": answer.model}
        line |= {"prompt": answer.digest.hex(), "status": status, "fault": answer.fault, "limit": answer.limit}
        line |= {"in_flight": answer.in_flight}
        line |= dict(zip(("prompt_tokens", "completion_tokens"), answer.billed, strict=True))
        if self._bodies:
            line["body"] = bytes(body).decode("utf-8", errors="replace")
        self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Put every line where a reader of the log finds it, even if this process is killed."""
        self._is_due = False
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
