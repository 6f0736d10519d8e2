"""One account as one worker sees it: its limiter, and how its endpoint has fared.

Hides what counts as trouble of the endpoint itself, when requests are held because of it, and what the driver is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from runner.endpoint.circuit_breaker import CircuitBreaker
from runner.endpoint.client import Client, EndpointError
from runner.endpoint.rate_limiter import RateLimiter, Stopped
from runner.endpoint.response import Completion
from runner.endpoint.retry_policy import OUTAGE_ERRORS, ErrorKind
from runner.messages import NOTHING, AccountStats, Lease

from .admission import Capacity, Reservations
from .request import JudgeRequest

FIRST_REQUESTS = 3
"""In flight to an endpoint that has not shown yet, or not again, that it works: a wrong key fails them all."""
STORM = 5
"""429s in a row. Fewer between replies hold up nothing but their own requests."""
STORM_PAUSE_S = 1.0
"""At least; by then the driver has heard of it, and the lease is another."""


@dataclass(slots=True)
class SendPermit:
    """Leave to send one request, now. Only here requests go out."""

    asked: JudgeRequest
    capacity: Capacity
    sent: bool = False

    async def complete(self, client: Client, keep: Collection[str] = ()) -> Completion:
        """Send it, at most once."""
        self.sent = True
        with self.capacity.count_in_flight():
            return await client.complete(self.asked.body, keep)


@dataclass(slots=True)
class Account:
    """Counts since the last tick, and whether the account is open, held while its endpoint is away, or closed."""

    limiter: RateLimiter
    reservations: Reservations
    capacity: Capacity
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    succeeded: int = 0
    answered: int = 0
    throttled: int = 0
    unreachable: int = 0
    last_error: str | None = None
    action_needed: str | None = None
    succeeded_at: dict[str, float] = field(default_factory=dict)
    """Model → the last moment of the loop's clock at which something was sent that got a good reply."""
    probed: tuple[float, EndpointError | None] = (float("-inf"), None)
    """When the last probe was sent, and how it ended."""
    probing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _unpaid: int = 0
    """Requests that wait for more of the budget than is left."""
    _sleeping: int = 0
    _has_turn: bool = False
    _throttled_in_a_row: int = 0
    _refused_in_a_row: int = 0
    _held_off_at: float = float("-inf")
    _verdict: asyncio.Future[bool] | None = None
    """While the breaker is open: whether the endpoint is away."""
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def wants_probe(self) -> bool:
        """Whether a probe is due: at once when the breaker opens, then whenever the driver gives the turn."""
        return self.breaker.is_open and not self.closed.is_set() and (self._has_turn or not self.breaker.probes)

    async def is_away(self) -> bool:
        """Whether the endpoint is away, so that what just failed there says nothing of the request. May wait."""
        return self._verdict is not None and await asyncio.shield(self._verdict)

    @asynccontextmanager
    async def acquire(self, asked: JudgeRequest, *, probe: bool = False) -> AsyncIterator[SendPermit]:
        """Room for one request in the limits, and in what the ledger has reserved. Raises Stopped."""
        permit, is_reserved = SendPermit(asked, self.capacity), False
        try:
            while True:
                async with self.limiter.acquire(asked.tokens, probe=probe):
                    is_reserved = is_reserved or await self.reservations.reserve(asked.bound)
                    if self.limiter.stopped:
                        raise Stopped(self.limiter.account)
                    if is_reserved:
                        yield permit
                        return
                # What waits for more of the budget than is left keeps no place from what could be paid.
                self._unpaid += 1
                try:
                    is_reserved = await self.reservations.reserve(asked.bound, self.closed)
                finally:
                    self._unpaid -= 1
        finally:
            if is_reserved:
                self.reservations.release(NOTHING if permit.sent else asked.bound)

    @property
    def expects_more(self) -> bool:
        """Whether requests are under way that do not wait for more of the budget than is left, or not behind one."""
        return self._sleeping > 0 or (self.limiter.queued > 0 and not self._unpaid)

    def record_success(self, model: str, sent_s: float) -> None:
        """A good reply came, to what was sent at a moment of the loop's clock."""
        self.succeeded += 1
        self.answered += 1
        self.unreachable = self._throttled_in_a_row = self._refused_in_a_row = 0
        self.succeeded_at[model] = max(sent_s, self.succeeded_at.get(model, sent_s))
        self._saw_answer(good=True)

    def record_error(self, error: EndpointError, *, probe: bool = False) -> None:
        """A request failed; `probe`: a harmless one."""
        self._count(error)
        if error.kind not in OUTAGE_ERRORS:
            self._saw_answer(good=False)
        elif self.breaker.record_probe_failure() if probe else self.breaker.record_failure():
            self.limiter.restrict(0)
            self._verdict = asyncio.get_running_loop().create_future()
            self.notify()
        if probe and self._verdict is not None and not self._verdict.done():
            self._verdict.set_result(True)

    def needs_probe(self, kind: ErrorKind, model: str) -> bool:
        """Whether a refusal may be of this one request, or of all: then a probe is to show it.

        Several in a row look like a key that was taken back, which fails all that is sent: they hold up the others.
        """
        if kind in (ErrorKind.AUTH, ErrorKind.UNKNOWN_MODEL) and model not in self.succeeded_at:
            return False
        self._refused_in_a_row += 1
        if self._refused_in_a_row > 1:
            self.limiter.restrict(0)
        return True

    def record_copy_failure(self, error: EndpointError) -> None:
        """A request of the reformat stage failed, which leaves an endpoint alone by itself."""
        self._count(error)

    def record_probe_end(self, sent_s: float, error: EndpointError | None) -> None:
        """A harmless request has ended, whatever it showed."""
        self._has_turn = False
        self.probed = sent_s, error

    def pause(self, sent_at: float, seconds: float) -> None:
        """Start nothing for so long, where the last replies were all 429, this one to what was sent at `sent_at`.

        What was under way together learns of the same limit: its replies do not make the pause longer.
        """
        if self._throttled_in_a_row >= STORM and sent_at > self._held_off_at:
            self._held_off_at = asyncio.get_running_loop().time()
            self.limiter.pause(max(seconds, STORM_PAUSE_S))
            if not self.breaker.is_open:
                self.limiter.restrict(FIRST_REQUESTS)

    def resume(self, works: bool) -> None:
        """What was held because of a doubt goes on, with care unless the endpoint works."""
        if works:
            self._refused_in_a_row = 0
            self.limiter.lift_warm_up()
        elif not self.breaker.is_open:
            self.limiter.restrict(FIRST_REQUESTS)

    async def sleep(self, seconds: float) -> None:
        """Sleep without holding a slot; the order to stop ends it."""
        self._sleeping += 1
        try:
            async with asyncio.timeout(seconds):
                await self.closed.wait()
        except TimeoutError:
            return
        finally:
            self._sleeping -= 1

    def apply(self, lease: Lease) -> None:
        """Take new shares, and the turn to probe."""
        self.limiter.apply(lease)
        if lease.probe:
            self._has_turn = True
            self.notify()

    def close(self) -> None:
        """Start no request of this account any more."""
        self.closed.set()
        self.limiter.stop()
        self.reservations.notify()
        if self._verdict is not None and not self._verdict.done():
            self._verdict.set_result(True)
        self.notify()

    def notify(self) -> None:
        """Let whoever waits in `stirred` look again."""
        self._stirred.set()
        self._stirred = asyncio.Event()

    async def wait_for_change(self) -> None:
        """Return when a probe may be due, or no longer."""
        await self._stirred.wait()

    def stats(self, name: str) -> AccountStats:
        """What the driver is told; counts that are per tick begin anew."""
        news = AccountStats(
            account=name,
            succeeded=self.succeeded,
            answered=self.answered,
            throttled=self.throttled,
            failing=self.breaker.failures,
            is_open=self.breaker.is_open,
            probes=self.breaker.probes,
            has_turn=self._has_turn,
            put_off=self._throttled_in_a_row,
            unreachable=self.unreachable,
            last_error=self.last_error,
            in_flight=self.limiter.in_flight,
            queued=self.limiter.queued,
        )
        self.succeeded = self.answered = self.throttled = 0
        return news

    def _count(self, error: EndpointError) -> None:
        self.last_error = f"{error.kind.value}: {error.told}"
        if error.status is not None:
            self.answered += 1
            self.unreachable = 0
        if error.kind is ErrorKind.THROTTLED:
            self.throttled += 1
            self._throttled_in_a_row += 1
        elif error.kind is ErrorKind.UNREACHABLE:
            self.unreachable += 1
        elif error.kind not in OUTAGE_ERRORS:
            self._throttled_in_a_row = 0

    def _saw_answer(self, good: bool) -> None:
        was_open, was_away = self.breaker.is_open, self.breaker.record_success()
        if was_away or (was_open and not good):
            # An endpoint that is only just back is not asked everything at once.
            self.limiter.restrict(FIRST_REQUESTS)
        elif good:
            self.limiter.lift_warm_up()
        if self._verdict is not None:
            if not self._verdict.done():
                self._verdict.set_result(False)
            self._verdict = None
