"""The handle on the aggregator's actor, for the driver and for every worker.

Hides that the actor may be away for a while: it restarts by itself, and a call that failed is made again until it is
answered. That is safe, since a batch that arrives twice is known by its number.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from ray.exceptions import RayError, RayTaskError

from runner.errors import JuryboxError, StoppedEarly
from runner.ledger.aggregator import AggregatorHandle

RECONNECT_S = 0.5
AGGREGATOR_GONE_S = 120.0
"""How long the aggregator may be away before the run stops, resumable."""
CLOSE_S = 1.0
"""How long the aggregator may take to close the ledger, which is left in order without that too."""


class RayAggregator(AggregatorHandle):
    """Calls the actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        loop = asyncio.get_running_loop()
        away_since: float | None = None
        while True:
            try:
                return await getattr(self._actor, method).remote(*args, **kwargs)
            except RayTaskError as error:
                raise cause_of(error) from None
            except RayError as error:
                # It does not mean that the call had no effect.
                away_since = away_since or loop.time()
                if loop.time() - away_since > AGGREGATOR_GONE_S:
                    why = str(error).strip().splitlines()[-1]
                    raise StoppedEarly(
                        f"the aggregator did not come back: {why}; run the same command again to go on"
                    ) from None
                await asyncio.sleep(RECONNECT_S)

    async def close(self) -> None:
        """Lets it close the ledger. One that is away has nothing open; all that it acknowledged is on the disk."""
        with contextlib.suppress(RayError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._actor.close.remote()


def cause_of(error: RayTaskError) -> BaseException:
    """Our own error, where the actor raised one; Ray wraps it in an error of both types."""
    cause = error.cause
    return cause if isinstance(cause, JuryboxError) else error
