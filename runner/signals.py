"""SIGINT and SIGTERM: once to stop in good order, twice to leave at once.

Hides how a signal reaches the loop that judges, and what it means before there is such a loop and after it. Whenever
the process leaves, what was acknowledged is in the ledger.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from .errors import Interrupted, JuryboxError, Terminated

_BOTH = (signal.SIGINT, signal.SIGTERM)
_is_second = False
"""Whether the next signal ends the process: one came before, be the judging that it stopped over by then or not."""


class InterruptHandler:
    """While this context is entered, the first signal stops the judging and the second ends the process.

    To be entered inside the loop; `stop` is called there.
    """

    def __init__(self, stop: Callable[[JuryboxError], None]) -> None:
        self._stop = stop
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread may take signals; in a notebook's worker thread they stay the notebook's.
            return
        # Here, since commands that judge nothing take signals too, and need no event loop.
        import asyncio

        global _is_second
        _is_second = False
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            _leave_if_second()
            _say("finishing the requests in flight; once more to leave at once")
            kind = Terminated if number == signal.SIGTERM else Interrupted
            loop.call_soon_threadsafe(self._stop, kind(f"interrupted by {signal.Signals(number).name}"))

        for number in _BOTH:
            self._before[number] = signal.signal(number, handle)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def install_handlers() -> None:
    """For a process of its own: the first signal is a KeyboardInterrupt wherever it comes, the second ends the process.

    That holds before the judging begins, and after it has ended.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        _leave_if_second()
        raise KeyboardInterrupt

    for number in _BOTH:
        signal.signal(number, handle)


def ignore_signals() -> None:
    """Take no more signals: the process is ending, with a status that says why."""
    for number in _BOTH:
        signal.signal(number, signal.SIG_IGN)


def _leave_if_second() -> None:
    global _is_second
    if _is_second:
        _say("left at once; what was recorded is kept, and the same command goes on")
        os._exit(Interrupted.exit_status)
    _is_second = True


def _say(text: str) -> None:
    """To stderr, past its buffer: the signal may have come in the middle of a write to it."""
    try:
        os.write(sys.stderr.fileno(), f"\njurybox: {text}\n".encode())
    except (OSError, ValueError):
        # Nobody is there to read it.
        return
