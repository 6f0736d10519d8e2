"""A worker's share of one account's limits, behind one `async with limiter.acquire(tokens)`.

Hides the order in which a request gets its place: one at a time, in the order they came, the first waiting for the end
of a pause and a free place in flight, then for the rates. aiolimiter's own queue would serve small requests before
large ones for ever, lets a rate be set only once, and refuses amounts above its burst; all three end here. Probes,
which show whether an endpoint is there, go before everybody and have a queue of their own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiolimiter import AsyncLimiter

from runner.change_signal import ChangeSignal
from runner.messages import Lease

BURST_S = 0.25
"""A rate may be exceeded by what it allows in this time, or by one request."""
PROBES = 12
"""Halvings with which the room left in a bucket is found: to 0.02 % of a burst."""


class Stopped(Exception):
    """No request may start any more."""


class RateLimiter:
    """One account's limits in one worker. Lets nothing pass before its first lease. Belongs to one event loop."""

    def __init__(self, account: str) -> None:
        self.account = account
        self.in_flight = 0
        self.queued = 0
        """Callers waiting for a place in flight."""
        self.lease = Lease(account, 0)
        self._requests = TokenBucket()
        self._tokens = TokenBucket()
        self._paused_until = 0.0
        self.stopped = False
        """No request may start any more."""
        self._most_in_flight: int | None = None
        # Waiters queue here, so that everything below has at most one caller waiting.
        self._turn = asyncio.Lock()
        self._probes = asyncio.Lock()
        self._paying = asyncio.Lock()
        self._changed = ChangeSignal()
        """Something was given back, applied or stopped."""

    def restrict(self, most_in_flight: int | None) -> None:
        """Give no more places than that, probes aside, until it is said anew; None: as many as the lease has."""
        self._most_in_flight = most_in_flight
        # Whoever pays just now is to look again.
        self._interrupt()

    def apply(self, lease: Lease) -> None:
        """Take a new share. A smaller one holds for what starts from now on; what is in flight ends undisturbed."""
        self.lease = lease
        self._requests.set(lease.requests_per_s)
        self._tokens.set(lease.tokens_per_s)
        self._changed.notify()

    def pause(self, seconds: float) -> None:
        """Start nothing for so long. A pause never ends an earlier, longer one."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    def stop(self) -> None:
        """Let every waiting caller, and every later one, raise Stopped. What is in flight ends undisturbed."""
        self.stopped = True
        self._interrupt()

    @asynccontextmanager
    async def acquire(self, tokens: float = 0.0, *, probe: bool = False) -> AsyncIterator[None]:
        """Wait for a place, and hold it until the block ends. Raises Stopped.

        A probe goes before all others, and is not held: but for that the limits are the same.
        """
        self.queued += 1
        try:
            async with self._probes if probe else self._turn:
                await self._await_place(tokens, probe)
                self.in_flight += 1
        finally:
            self.queued -= 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._changed.notify()

    async def _await_place(self, tokens: float, probe: bool) -> None:
        """Return when a request may start now. A caller cancelled in here has taken no place."""
        loop = asyncio.get_running_loop()
        paid_request, due_tokens = False, tokens
        while True:
            if self.stopped:
                raise Stopped(self.account)
            pause_s = self._paused_until - loop.time()
            places = self.lease.in_flight
            if self._most_in_flight is not None and not probe:
                places = min(self._most_in_flight, places)
            if pause_s > 0 or self.in_flight >= places:
                await self._changed.wait(pause_s if pause_s > 0 else None)
            elif due_tokens > 0:
                async with self._paying:
                    due_tokens -= await self._tokens.take(due_tokens)
            elif not paid_request:
                async with self._paying:
                    paid_request = await self._requests.take(1.0) > 0
            else:
                return

    def _interrupt(self) -> None:
        self._requests.interrupt()
        self._tokens.interrupt()
        self._changed.notify()


class TokenBucket:
    """A rate that can be changed, for one caller at a time, which pays any amount in pieces of at most one burst."""

    def __init__(self) -> None:
        self._per_s: float | None = None
        self._bucket: AsyncLimiter | None = None
        self._set_before = False
        self._waiting: asyncio.Timeout | None = None

    def set(self, per_s: float | None) -> None:
        """Change the rate (None: not limited; 0: nothing passes). A change never grants a fresh burst."""
        if self._set_before and per_s == self._per_s:
            return
        room = self._room() if self._set_before else float("inf")
        self._per_s, self._bucket, self._set_before = per_s, None, True
        if per_s:
            burst = max(1.0, per_s * BURST_S)
            self._bucket = AsyncLimiter(burst, burst / per_s)
            # An empty bucket has room for anything up to its burst: the coroutine ends at its first step.
            with suppress(StopIteration):
                self._bucket.acquire(max(0.0, burst - room)).send(None)
        self.interrupt()

    def interrupt(self) -> None:
        """Let the waiting caller look again at what holds now."""
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def take(self, amount: float) -> float:
        """Pay up to one burst of `amount`, waiting as long as the rate asks; how much was paid (0: interrupted)."""
        if self._per_s is None:
            return amount
        bucket = self._bucket
        piece = 0.0 if bucket is None else min(amount, bucket.max_rate)
        try:
            async with asyncio.timeout(None) as self._waiting:
                if bucket is None:
                    await asyncio.get_running_loop().create_future()
                else:
                    await bucket.acquire(piece)
            return piece
        except TimeoutError:
            return 0.0
        finally:
            self._waiting = None

    def _room(self) -> float:
        """What could pass at once. aiolimiter tells only whether an amount would, so the answer is searched for."""
        if self._bucket is None:
            return 0.0
        low, high = 0.0, self._bucket.max_rate
        for _ in range(PROBES):
            middle = (low + high) / 2
            low, high = (middle, high) if self._bucket.has_capacity(middle) else (low, middle)
        return low
