"""When an endpoint counts as away, and who asks whether it is back.

Pure: time comes in as a number. A worker's `CircuitBreaker` opens after so many failures in a row; from then on nothing
but harmless probes goes out there, the first at once, since it may be the requests that are at fault and not the
endpoint. Where that fails too, the driver's `ProbeScheduler` gives the turns: one probe at a time over all workers,
ever more seldom.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OPEN_AFTER = 10
"""Failures in a row, with no reply to anything between them, after which a probe is to show whose fault they are."""
OPEN_AFTER_AT_MOST = 160
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


@dataclass(slots=True)
class CircuitBreaker:
    """One account's, in one worker."""

    failures: int = 0
    """Since anything was answered there."""
    is_open: bool = False
    probes: int = 0
    """Probes that failed since it opened. With one the endpoint is known to be away."""
    _after: int = OPEN_AFTER

    def record_failure(self) -> bool:
        """A request failed as it would if the endpoint were away; whether the breaker opened because of it."""
        self.failures += 1
        if self.is_open or self.failures < self._after:
            return False
        self.is_open, self.probes = True, 0
        return True

    def record_probe_failure(self) -> bool:
        """A harmless request failed: that is the endpoint's fault. Whether the breaker opened because of it."""
        opened = not self.is_open
        self.probes = 1 if opened else self.probes + 1
        self.failures += 1
        self.is_open = True
        return opened

    def record_success(self) -> bool:
        """The endpoint is there; whether it had been away.

        Where the very first probe shows that, requests fail for reasons of their own. As long as nothing else succeeds
        there, it takes more of them to ask again.
        """
        away = self.is_open and self.probes > 0
        false_alarm = self.is_open and not away
        self._after = min(2 * self._after, OPEN_AFTER_AT_MOST) if false_alarm else OPEN_AFTER
        self.failures = self.probes = 0
        self.is_open = False
        return away


@dataclass(slots=True)
class ProbeScheduler:
    """The turns to probe one account, over all workers: after 1, 2, 4, … 60 s, and for all once one got through.

    Turns go round, for the way to the endpoint may be broken for one worker alone.
    """

    _down: dict[str, int] = field(default_factory=dict)
    """Worker whose breaker is open → its failed probes."""
    _pause_s: float = FIRST_PAUSE_S
    _due_s: float = 0.0
    _asked: str | None = None
    """Who has the turn and has not told yet what came of it."""
    _last: str | None = None
    _is_back: bool = False

    def observe(
        self, worker: str, is_open: bool, probes: int, succeeded: bool, now_s: float, *, has_turn: bool = False
    ) -> None:
        """A worker's news: whether its breaker is open, its failed probes, and whether anything succeeded.

        `has_turn`: it was given the turn, and has not probed since. What came of a turn shows in nothing else for sure:
        a breaker that closed and opened again between two ticks may tell of as many failed probes as before.
        """
        self._is_back = self._is_back or succeeded
        if not is_open:
            self._gone(worker)
            return
        if not self._down:
            self._pause_s, self._due_s = FIRST_PAUSE_S, now_s + FIRST_PAUSE_S
        if self._down.get(worker) != probes:
            self._is_back = False
        self._down[worker] = probes
        if worker == self._asked and not has_turn:
            self._asked = None
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._due_s = now_s + self._pause_s

    def assign_turn(self, worker: str, now_s: float) -> bool:
        """Whether this worker is to probe now. It is asked once, until it has told what came of it."""
        if worker not in self._down:
            return False
        if self._is_back:
            return True
        if self._asked is not None or now_s < self._due_s or (worker == self._last and len(self._down) > 1):
            return False
        self._asked = self._last = worker
        return True

    @property
    def is_away(self) -> bool:
        """Whether a probe has shown that it is, and nothing got through since."""
        return not self._is_back and any(self._down.values())

    def forget(self, worker: str) -> None:
        """The worker is gone."""
        self._gone(worker)

    def _gone(self, worker: str) -> None:
        self._down.pop(worker, None)
        if worker == self._asked:
            self._asked = None
