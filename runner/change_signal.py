"""A signal that something has changed, for all who wait on one event loop."""

import asyncio


class ChangeSignal:
    """Wakes all who wait for the next change. Nothing is kept: who comes later waits for the one after it."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Something has changed."""
        for change in self._waiting:
            if not change.done():
                change.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Return at the next change, or after `timeout_s`; whether it was a change."""
        change = asyncio.get_running_loop().create_future()
        self._waiting.add(change)
        try:
            async with asyncio.timeout(timeout_s):
                await change
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(change)
        return True
