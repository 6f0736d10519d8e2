"""One account as one worker sees it: its limiter, and how its endpoint has fared.

Hides what counts as trouble of the endpoint itself, and what the driver is told of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from .asked import Asked
from .client import Client, EndpointError
from .completion import Completion
from .limiter import Limiter, Slot, Stopped
from .outbox import Outbox
from .policy import ErrorKind
from .protocol import AccountNews
from .usage import NOTHING

OUTAGE_AFTER = 20
"""Failures in a row, with no success between them, after which they may be the endpoint's own."""


@dataclass(slots=True)
class Place:
    """Leave to send one request, now. Only here requests go out."""

    asked: Asked
    slot: Slot
    sent: bool = False

    async def complete(self, client: Client, keep: Collection[str] = ()) -> Completion:
        """Send it, at most once, and count what it cost: in doubt all that it may have."""
        self.sent = True
        self.slot.settle(self.asked.bound.usd)
        try:
            completion = await client.complete(self.asked.body, keep)
        except EndpointError as error:
            if not error.may_be_billed:
                self.slot.settle(0.0)
            raise
        if completion.counted:
            self.slot.settle(completion.usage.cost_usd)
        return completion


@dataclass(slots=True)
class Account:
    """Counts since the last tick or the last success, and whether the account is closed."""

    limiter: Limiter
    outbox: Outbox
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    succeeded: int = 0
    answered: int = 0
    throttled: int = 0
    failing: int = 0
    unreachable: int = 0
    last_error: str | None = None
    action_needed: str | None = None
    succeeded_at: float = float("-inf")
    """Of the loop's clock."""
    probe_at: float = 0.0
    """No probe before this moment of the loop's clock."""
    held_off_at: float = float("-inf")
    probing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_down(self) -> bool:
        """Whether the endpoint itself may be in trouble: then what fails says nothing about the trial that met it."""
        return self.failing >= OUTAGE_AFTER

    @asynccontextmanager
    async def place(self, asked: Asked) -> AsyncIterator[Place]:
        """Room for one request in the limits, and in what the ledger has reserved. Raises Stopped."""
        async with self.limiter.slot(asked.tokens, asked.usd) as slot:
            await self.outbox.hold(asked.task.model, asked.bound)
            place = Place(asked, slot)
            try:
                if self.limiter.stopped:
                    raise Stopped(self.limiter.account)
                yield place
            finally:
                self.outbox.over(asked.task.model, NOTHING if place.sent else asked.bound)

    def saw_success(self) -> None:
        """A good reply came."""
        self.succeeded += 1
        self.answered += 1
        self.limiter.open_up()
        self.failing = self.unreachable = 0
        self.succeeded_at = asyncio.get_running_loop().time()

    def saw_error(self, error: EndpointError) -> None:
        """A request failed."""
        self.last_error = f"{error.kind.value}: {error.message}"
        if error.status is not None:
            self.answered += 1
            self.limiter.open_up()
            self.unreachable = 0
        if error.kind is ErrorKind.THROTTLED:
            self.throttled += 1
        elif error.kind is ErrorKind.UNREACHABLE:
            self.unreachable += 1
            self.failing += 1
        elif error.kind is not ErrorKind.BAD_REQUEST:
            self.failing += 1

    def hold_off(self, sent_at: float, seconds: float) -> None:
        """Start nothing for so long, because of a reply to what was sent at `sent_at` (of the loop's clock).

        What was under way together learns of the same limit: its replies do not make the pause longer.
        """
        if sent_at > self.held_off_at:
            self.held_off_at = asyncio.get_running_loop().time()
            self.limiter.pause(seconds)

    async def wait(self, seconds: float) -> None:
        """Sleep without holding a slot; the order to stop ends it."""
        try:
            async with asyncio.timeout(seconds):
                await self.closed.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """Start no request of this account any more."""
        self.closed.set()
        self.limiter.stop()

    def news(self, name: str) -> AccountNews:
        """What the driver is told; counts that are per tick begin anew."""
        news = AccountNews(
            account=name,
            succeeded=self.succeeded,
            answered=self.answered,
            throttled=self.throttled,
            failing=self.failing,
            unreachable=self.unreachable,
            last_error=self.last_error,
            in_flight=self.limiter.in_flight,
            queued=self.limiter.queued,
            spent_usd=self.limiter.spent_usd,
            wants_usd=self.limiter.wants_usd,
        )
        self.succeeded = self.answered = self.throttled = 0
        return news
