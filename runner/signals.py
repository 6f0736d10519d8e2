"""SIGINT and SIGTERM: once to stop in good order, twice to leave at once.

Hides how a signal reaches the loop that judges, and what it means before there is such a loop and after it. Whenever
the process leaves, what was acknowledged is in the ledger.
"""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .errors import Interrupted, JuryboxError, Terminated

RETRY_S = 0.01

_BOTH = (signal.SIGINT, signal.SIGTERM)
_heard = False
"""A signal came: the next one ends the process, also where the judging that the first one stopped is over by then."""


@contextmanager
def stop_on_signal(stop: Callable[[JuryboxError], None], *, is_shown: bool = False) -> Iterator[None]:
    """Meanwhile the first signal stops the judging, by `stop` in the running loop; the second ends the process.

    `is_shown`: the order to stop shows elsewhere on the terminal, where a line of ours would only be in the way.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may take signals; in a notebook's worker thread they stay the notebook's.
        yield
        return
    # Here, since commands that judge nothing take signals too, and need no event loop.
    import asyncio

    global _heard
    _heard = False
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        _leave_if_heard()
        if not is_shown:
            _say("finishing the requests in flight; once more to leave at once")
        kind = Terminated if number == signal.SIGTERM else Interrupted
        loop.call_soon_threadsafe(stop, kind(f"interrupted by {signal.Signals(number).name}"))

    before = {number: signal.signal(number, handle) for number in _BOTH}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def install_handlers() -> None:
    """For a process of its own: the first signal is a KeyboardInterrupt wherever it comes, the second ends the process.

    That holds before the judging begins, and after it has ended.
    """
    told_of_others = sys.unraisablehook
    is_telling = False

    def unraisable(lost: Any) -> None:
        nonlocal is_telling
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            told_of_others(lost)
            return
        # It was raised where Python lets nothing be raised, in a callback of the garbage collector for one. A moment
        # later it is raised elsewhere.
        is_telling = True
        come_again()
        is_telling = False

    def come_again() -> None:
        global _heard
        _heard = False

        def later() -> None:
            time.sleep(RETRY_S)
            os.kill(os.getpid(), signal.SIGINT)

        # A `threading.Timer` waits for its thread, and what is raised meanwhile is lost as well.
        _thread.start_new_thread(later, ())

    def handle(number: int, frame: FrameType | None) -> None:
        if is_telling:
            come_again()
            return
        _leave_if_heard()
        raise KeyboardInterrupt

    sys.unraisablehook = unraisable
    for number in _BOTH:
        signal.signal(number, handle)


def ignore_signals() -> None:
    """Take no more signals: the process is ending, with a status that says why."""
    for number in _BOTH:
        signal.signal(number, signal.SIG_IGN)


def _leave_if_heard() -> None:
    global _heard
    if _heard:
        _say("left at once; what was recorded is kept, and the same command goes on")
        os._exit(Interrupted.exit_status)
    _heard = True


def _say(text: str) -> None:
    """To stderr, past its buffer: the signal may have come in the middle of a write to it."""
    try:
        os.write(sys.stderr.fileno(), f"\njurybox: {text}\n".encode())
    except (OSError, ValueError):
        # Nobody is there to be told.
        return
