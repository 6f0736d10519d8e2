"""Whether a run goes on: the order to stop, its grace, the end, and the news for which everybody waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from runner.change_signal import ChangeSignal
from runner.errors import JuryboxError, Terminated

GRACE_S = 30.0
"""How long requests in flight may take to end, and to be recorded, after the order to stop."""
SHORT_GRACE_S = 8.0
"""The same where nobody will wait for long (a container is killed ten seconds after SIGTERM), or nothing more can be
recorded."""

log = structlog.get_logger()


class RunControl:
    """Shared by the parts of one run, on one event loop. `on_stop` is called at the order to stop, and at the end."""

    def __init__(self) -> None:
        self.stopped: JuryboxError | None = None
        """Why nothing more is started; None: the run goes on."""
        self.ended = False
        """Nothing is left to do."""
        self.changed = ChangeSignal()
        """There may be something to do, or the end."""
        self.on_stop: Callable[[], None] = lambda: None
        self._stopped_at = 0.0
        self._is_urgent = False
        self._time_left: asyncio.Timeout | None = None

    def stop(self, why: JuryboxError) -> None:
        """Start nothing more and let what is in flight end. The first reason stands."""
        if self.stopped is None:
            log.info("stopping", why=why.message)
            self.stopped = why
            self._stopped_at = asyncio.get_running_loop().time()
            self._limit_time()
            self.on_stop()

    def hurry(self, is_urgent: bool) -> None:
        """Whether nothing more can be recorded, so that the grace is short."""
        self._is_urgent = is_urgent
        self._limit_time()

    @property
    def grace_s(self) -> float:
        """How long is waited after the order to stop."""
        return SHORT_GRACE_S if self._is_urgent or isinstance(self.stopped, Terminated) else GRACE_S

    @property
    def grace_left_s(self) -> float | None:
        """How long is still waited; None before the order to stop."""
        if self.stopped is None:
            return None
        return max(0.0, self._stopped_at + self.grace_s - asyncio.get_running_loop().time())

    @asynccontextmanager
    async def limit_grace(self) -> AsyncIterator[asyncio.Timeout]:
        """A block that ends with TimeoutError when the order to stop has had its grace."""
        async with asyncio.timeout(None) as self._time_left:
            self._limit_time()
            try:
                yield self._time_left
            finally:
                self._time_left = None

    def end(self) -> None:
        """Nothing is left to do: all that goes on for this run is to return."""
        self.ended = True
        self.on_stop()
        self.changed.notify()

    def _limit_time(self) -> None:
        if self._time_left is not None and self.stopped is not None:
            self._time_left.reschedule(self._stopped_at + self.grace_s)
