"""One account in one worker: carries out what its circuit breaker says, and reports to the driver.

Hides the leave to send (a place in the limits, a reservation in the ledger), and how each end of a send reaches the
breaker, the evidence and the counts.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from runner.change_signal import ChangeSignal
from runner.endpoint.circuit_breaker import CircuitBreaker, Evidence, Health
from runner.endpoint.client import Client
from runner.endpoint.rate_limiter import RateLimiter, Stopped
from runner.endpoint.response import Completion, EndpointError
from runner.endpoint.retry_policy import Decision, EndpointStatus, ErrorKind
from runner.messages import AccountStats, Lease
from runner.usage import NOTHING

from .admission import Admission
from .request import JudgeRequest
from .sending import Send, SendOnce, SendPolicy, give_up

STORM_PAUSE_S = 1.0
"""At least; by then the driver knows of the 429s, and the lease is another."""


class Sender(Enum):
    """Whose request it is: that decides what its end says of the endpoint."""

    TRIAL = "trial"
    PROBE = "probe"
    """Harmless: where it fails, the endpoint is at fault."""
    COPY = "copy"
    """The reformat stage's, which leaves an endpoint alone by itself."""
    REREAD = "reread"
    """A check of a verdict, which is given up where it fails, or the budget is used up."""


@dataclass(slots=True)
class _Seen:
    """What came back since the last renewal."""

    succeeded: int = 0
    answered: int = 0
    throttled: int = 0
    last_error: str | None = None
    """Of all, whenever it was."""


@dataclass(slots=True)
class Account:
    """One account of the worker's. Belongs to one event loop."""

    limiter: RateLimiter
    admission: Admission
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    evidence: Evidence = field(default_factory=Evidence)
    probing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One probe at a time: it shows the same to all who want to know."""
    changed: ChangeSignal = field(default_factory=ChangeSignal)
    """A probe may be due, or no longer."""
    _seen: _Seen = field(default_factory=_Seen)
    _unpaid: int = 0
    """Requests that wait for more of the budget than is left."""
    _backing_off: int = 0
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _verdict: asyncio.Future[bool] | None = None
    """While the endpoint is SUSPECT: whether it is away."""

    def __post_init__(self) -> None:
        self.limiter.restrict(self.breaker.most_in_flight)

    def policy(
        self,
        client: Client,
        sender: Sender,
        decide: Callable[[EndpointError, Send], Awaitable[Decision]] = give_up,
        acquire: Callable[[JudgeRequest], AbstractAsyncContextManager[SendOnce]] | None = None,
    ) -> SendPolicy:
        """The policy of one who sends within this account's limits; `acquire`: with conditions of its own besides."""
        leave = acquire or partial(self.acquire, client=client, sender=sender)
        return SendPolicy(leave, decide, self.admission.outbox.note, self.back_off)

    @asynccontextmanager
    async def acquire(self, request: JudgeRequest, client: Client, sender: Sender) -> AsyncIterator[SendOnce]:
        """Room for one request in the limits, and in what the ledger has reserved. Raises Stopped."""
        is_reserved = was_sent = False

        async def complete() -> Completion:
            nonlocal was_sent
            was_sent = True
            return await self._send(request, client, sender)

        try:
            while True:
                async with self.limiter.acquire(request.tokens, probe=sender is Sender.PROBE):
                    is_reserved = is_reserved or await self.admission.reserve(request.bound)
                    if self.limiter.stopped:
                        raise Stopped(self.limiter.account)
                    if is_reserved:
                        yield complete
                        return
                if sender is Sender.REREAD:
                    raise Stopped("the budget")
                # What waits for more of the budget than is left keeps no place from what could be paid.
                self._unpaid += 1
                try:
                    is_reserved = await self.admission.reserve(request.bound, self._ended)
                finally:
                    self._unpaid -= 1
        finally:
            if is_reserved:
                self.admission.outbox.pool.release(NOTHING if was_sent else request.bound)

    @property
    def expects_more(self) -> bool:
        """Whether requests are under way that do not wait for more of the budget than is left, or not behind one."""
        return self._backing_off > 0 or (self.limiter.queued > 0 and not self._unpaid)

    async def _send(self, request: JudgeRequest, client: Client, sender: Sender) -> Completion:
        """Send the request, with leave. Only here requests go out."""
        sent_s = asyncio.get_running_loop().time()
        try:
            with self.admission.count_in_flight():
                completion = await client.complete(request.body, request.keep)
        except EndpointError as error:
            self._record_error(error, sender)
            raise
        self._seen.succeeded += 1
        self._seen.answered += 1
        judge = None if sender is Sender.COPY else request.task.judge
        self.evidence.record_success(request.task.model, judge, sent_s)
        self._become(self.breaker.after_good_reply())
        return completion

    def _record_error(self, error: EndpointError, sender: Sender) -> None:
        answered = error.status is not None
        self._seen.last_error = f"{error.kind.value}: {error.description}"
        self._seen.answered += answered
        self._seen.throttled += error.kind is ErrorKind.THROTTLED
        after = {
            Sender.TRIAL: self.breaker.after_error,
            Sender.PROBE: self.breaker.after_probe_error,
            Sender.COPY: self.breaker.after_copy_error,
            Sender.REREAD: self.breaker.after_copy_error,
        }[sender]
        self._become(after(error.kind, answered))

    async def is_away(self) -> bool:
        """Whether the endpoint is away, so that what just failed there says nothing of the request. May wait.

        Nor does what fails after the end: whoever sends next, in a later session, has all attempts before it.
        """
        if self._verdict is not None:
            return await asyncio.shield(self._verdict)
        return self.breaker.health is Health.AWAY or self.breaker.has_ended

    def begin_check(self, kind: ErrorKind, model: str) -> bool:
        """Whether a refusal may be of this one request, or of all: then a probe is to show it, and `end_check` is due.

        A model that never gave a good reply is not known to the endpoint, or its key is not.
        """
        if kind in (ErrorKind.AUTH, ErrorKind.UNKNOWN_MODEL) and not self.evidence.has_worked(model):
            return False
        self._become(self.breaker.after_refusal())
        return True

    def end_check(self, status: EndpointStatus) -> None:
        """What a probe has shown because of a refusal: what was held goes on, with care unless the endpoint works."""
        self._become(self.breaker.after_check(status))

    async def back_off(self, error: EndpointError, delay_s: float, send: Send) -> None:
        """Wait without holding a place; the end of the account ends it. A storm of 429s holds up all others too."""
        if error.kind is ErrorKind.THROTTLED and self.breaker.is_storm(send.sent_s):
            self.limiter.pause(max(error.retry_after_s or delay_s, STORM_PAUSE_S))
            self._become(self.breaker.after_storm(asyncio.get_running_loop().time()))
        # Where the breaker is open, it holds up the next send for as long as that lasts.
        if not self.breaker.is_open:
            self._backing_off += 1
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(delay_s):
                        await self._ended.wait()
            finally:
                self._backing_off -= 1

    def apply(self, lease: Lease) -> None:
        """Take new shares, and the turn to probe."""
        self.limiter.apply(lease)
        if lease.probe:
            self._become(self.breaker.with_turn())
            self.changed.notify()

    def stop(self, action_needed: str | None = None) -> None:
        """Start no request any more; `action_needed`: what the user must mend first."""
        self._become(self.breaker.stop(action_needed))
        self.limiter.stop()
        self._ended.set()
        self.admission.outbox.changed.notify()

    def stats(self) -> AccountStats:
        """What the driver learns; the counts begin anew."""
        seen, breaker = self._seen, self.breaker
        self._seen = _Seen(last_error=seen.last_error)
        return AccountStats(
            self.limiter.account, seen.succeeded, seen.answered, seen.throttled,
            failing=breaker.failures, is_open=breaker.is_open, probes=breaker.failed_probes, has_turn=breaker.has_turn,
            put_off=breaker.throttles, unreachable=breaker.unreachable,
            last_error=seen.last_error, in_flight=self.limiter.in_flight,
        )  # fmt: skip

    def _become(self, breaker: CircuitBreaker) -> None:
        """Carry out what a transition of the breaker means."""
        before, self.breaker = self.breaker.health, breaker
        if breaker.health is before:
            return
        self.limiter.restrict(breaker.most_in_flight)
        if self._verdict is not None:
            self._verdict.set_result(breaker.health is Health.AWAY or breaker.has_ended)
            self._verdict = None
        if breaker.health is Health.SUSPECT:
            self._verdict = asyncio.get_running_loop().create_future()
        self.changed.notify()
