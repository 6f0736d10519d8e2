"""The limits that a provider puts on one model name: token buckets for requests and tokens, and a count in flight.

Pure: the clock is given with every call. Hides how a bucket fills and how the headers that tell of it are written.
"""

import math
from dataclasses import dataclass

Headers = list[tuple[bytes, bytes]]


class SimulatedBucket:
    """Fills at `per_minute` up to `burst_s` seconds' worth.

    An amount above the capacity goes through a full bucket and leaves it in debt, so that the rate holds and no request
    is too large to be ever let through.
    """

    __slots__ = ("_at", "capacity", "level", "per_minute", "rate")

    def __init__(self, per_minute: float, burst_s: float, now: float) -> None:
        self.per_minute = per_minute
        self.rate = per_minute / 60.0
        self.capacity = max(1.0, self.rate * burst_s)
        self.level = self.capacity
        self._at = now

    def wait(self, amount: float, now: float) -> float:
        """Seconds until `amount` could be taken; 0 if now."""
        self.level = min(self.capacity, self.level + (now - self._at) * self.rate)
        self._at = now
        lacking = min(amount, self.capacity) - self.level
        # A request that comes back after exactly the time it was told must not fail by rounding.
        return lacking / self.rate if lacking > 1e-6 * self.capacity else 0.0

    def take(self, amount: float) -> None:
        self.level -= amount

    def headers(self, kind: bytes) -> Headers:
        full_in = (self.capacity - self.level) / self.rate
        return [
            (b"x-ratelimit-limit-" + kind, b"%d" % self.per_minute),
            (b"x-ratelimit-remaining-" + kind, b"%d" % max(0, math.floor(self.level + 1e-6))),
            (b"x-ratelimit-reset-" + kind, b"%.3fs" % max(0.0, full_in)),
        ]


@dataclass(frozen=True, slots=True)
class Throttled:
    limit: str
    """requests, tokens or in_flight."""
    retry_after_s: float


class Gate:
    """All limits of one model name."""

    __slots__ = ("_buckets", "_capacity", "_wait_s", "in_flight", "max_in_flight")

    def __init__(
        self,
        *,
        rpm: float | None,
        tpm: float | None,
        in_flight: float | None,
        burst_s: float,
        busy_wait_s: float,
        now: float,
    ) -> None:
        rates = {"requests": rpm, "tokens": tpm}
        self._buckets = {kind: SimulatedBucket(rate, burst_s, now) for kind, rate in rates.items() if rate is not None}
        self._capacity = in_flight
        self._wait_s = max(0.05, busy_wait_s)
        self.in_flight = 0
        self.max_in_flight = 0

    def enter(self, tokens: float, now: float) -> Throttled | None:
        """Let a request in and charge it, or say which limit it is over. Whoever is let in must `leave`."""
        if self._capacity is not None and self.in_flight >= self._capacity:
            return Throttled("in_flight", self._wait_s)
        amounts = {"requests": 1.0, "tokens": tokens}
        over = max(
            (Throttled(kind, bucket.wait(amounts[kind], now)) for kind, bucket in self._buckets.items()),
            key=lambda limit: limit.retry_after_s,
            default=None,
        )
        if over is not None and over.retry_after_s:
            return over
        for kind, bucket in self._buckets.items():
            bucket.take(amounts[kind])
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        return None

    def leave(self) -> None:
        self.in_flight -= 1

    def headers(self) -> Headers:
        return [header for kind, bucket in self._buckets.items() for header in bucket.headers(kind.encode())]


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """The Retry-After header, rounded up to a millisecond so that coming back in time is never too early."""
    return (b"retry-after", b"%.3f" % (math.ceil(seconds * 1000) / 1000))
