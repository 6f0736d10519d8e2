"""Whether a run goes on: the order to stop, the end, and the news for which everybody waits who has nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from runner.errors import JuryboxError

log = structlog.get_logger()


class RunControl:
    """Shared by the parts of one run, on one event loop."""

    def __init__(self) -> None:
        self.stopped: JuryboxError | None = None
        """Why nothing more is started; None: the run goes on."""
        self.stopped_at = 0.0
        """The loop's time of the order to stop."""
        self.ended = False
        """Nothing is left to do."""
        self._changed = asyncio.Condition()
        self._listeners: list[Callable[[], None]] = []

    def on_stop(self, listener: Callable[[], None]) -> None:
        """Call `listener` once the order to stop has come, and at the end."""
        self._listeners.append(listener)

    def stop(self, why: JuryboxError) -> None:
        """Start nothing more and let what is in flight end. The first reason stands."""
        if self.stopped is None:
            log.info("stopping", why=why.message)
            self.stopped = why
            self.stopped_at = asyncio.get_running_loop().time()
            self._call_listeners()

    async def end(self) -> None:
        """Nothing is left to do: all that goes on for this run is to return."""
        self.ended = True
        self._call_listeners()
        await self.notify()

    async def notify(self) -> None:
        """Let everybody look again at what there is to do."""
        async with self._changed:
            self._changed.notify_all()

    async def wait_for_change(self, timeout_s: float | None = None) -> None:
        """Return when there may be news, at the latest after `timeout_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait()

    def _call_listeners(self) -> None:
        for listener in self._listeners:
            listener()
