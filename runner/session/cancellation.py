"""Stopping a run from outside its loop: from another thread, from a notebook's interrupt, before it has begun.

The first order lets what is in flight end, the second gives it up. What was acknowledged is in the ledger either way.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

from runner.errors import Interrupted, JuryboxError

LOOK_UP_S = 0.1

T = TypeVar("T")


class StopSignal:
    """Stops one run; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.why: JuryboxError | None = None
        """The reason that was given, if any was."""
        self._orders: tuple[Callable[[], object], Callable[[], object]] | None = None
        """What stops the running task, and what cancels it."""
        self.left: Future[None] | None = None
        """The end of work that still goes on, though nobody waits for it any more."""

    def stop(self, why: JuryboxError) -> None:
        """Stop in good order, for this reason; said again, at once."""
        with self._lock:
            is_again, self.why = self.why is not None, self.why or why
            if self._orders is not None:
                self._orders[is_again]()

    @contextmanager
    def connected(self, stop: Callable[[JuryboxError], None]) -> Iterator[None]:
        """While the running task judges: `stop` is called in its loop. An order given before counts."""

        def stop_now() -> None:
            assert self.why is not None
            stop(self.why)

        task, call = asyncio.current_task(), asyncio.get_running_loop().call_soon_threadsafe
        assert task is not None
        with self._lock:
            self._orders = lambda: call(stop_now), lambda: call(task.cancel)
            if self.why is not None:
                stop(self.why)
        try:
            yield
        finally:
            with self._lock:
                self._orders = None


def run_in_thread(work: Callable[[], None], signal: StopSignal) -> None:
    """Carry out `work`, which runs a loop of its own, beside whatever loop runs here, and wait for it.

    What interrupts the waiting (Ctrl-C, a notebook's interrupt, a handler of the caller's) gives the signal, and is
    raised once the work has ended; a third time it is raised at once, and the signal has what is `left`.
    """
    done: Future[None] = Future()

    def carry_out() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    # A daemon: whoever insists on leaving is not held up by requests in flight.
    threading.Thread(target=carry_out, name="jurybox", daemon=True).start()
    interrupts: list[BaseException] = []
    while not done.done():
        try:
            # Never for long: Polars' own handler of SIGINT has a wait go on, and Python would not see the signal.
            wait([done], timeout=LOOK_UP_S)
        except BaseException as error:
            interrupts.append(error)
            if len(interrupts) > 2:
                signal.left = done
                raise
            signal.stop(Interrupted("interrupted; the same call goes on"))
    if interrupts:
        raise interrupts[0]
    done.result()


async def run_in_executor_until_stopped(work: Callable[[], T], signal: StopSignal) -> T:
    """Await `work`, which runs a loop of its own, on a thread. Cancelling gives the signal and waits for its end."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
            signal.stop(Interrupted("cancelled; the same call goes on"))
    if cancelled is not None:
        running.exception()  # asked for, so that it is not reported as forgotten
        raise cancelled
    return running.result()
