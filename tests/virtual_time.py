"""An event loop whose clock jumps from timer to timer: hours pass at once, and a wait that nobody ends is an error."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class JumpingSelector(selectors.DefaultSelector):
    """Waits for nothing: waiting moves the clock. A turn of the loop takes a microsecond, as no real one takes none."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits for something that nobody will do"
        self.now += max(1e-6, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time: hours pass at once, and exactly."""

    def __init__(self) -> None:
        self.clock = JumpingSelector()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(test())
