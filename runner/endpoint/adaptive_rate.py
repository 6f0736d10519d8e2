"""How many requests a second an account takes, learnt from its 429s where the config's limits are above the real ones.

Pure: time comes in as a number. Hides how a limit differs from throttles that have nothing to do with the rate. What
was let through is the best guess at the limit: too many 429s cut the rate to a little less than that, at most once
until the cut has shown its effect; rounds without raise it again, faster the longer none comes. Where slower is no
better, the throttles are not ours to mend: the rate is given back, and so many of them are taken as usual there.
"""

from dataclasses import dataclass, field

from runner.messages import AccountStats

ROUND_S = 1.0
ROUND_REQUESTS = 20
LONGEST_ROUND_S = 10.0
"""A round lasts a second, and on until it has seen so many requests, but no longer than this."""
SETTLE_S = 2.5
"""Until all workers have taken a new rate, what was sent before is answered, and a pause because of it is over."""
TOLERATED = 0.05
"""Share of 429s up to which nothing is done: each holds up its own request only."""
FEWEST = 3
BELOW = 0.9
"""Of what was let through: the rate after a cut."""
STEPS = (0.05, 0.25)
"""Of that rate: by how much, at least and at most, a round without 429s raises it. Half the share of 429s that led to
the cut, for what a wave and a pause let through is a poor guess; doubled after each `FASTER_AFTER` of such rounds."""
FASTER_AFTER = 10
USED = 0.8
"""Of the rate: what must have been sent for the round to show that more would be taken."""
IN_VAIN = 3
NO_BETTER = 0.7
"""After so many cuts, none of which took the share of 429s below this part of what it was: it is not the rate."""
MOST = 0.5
"""Unless that share is above this: what lets little through is left in peace."""
SLOWEST_PER_S = 0.05


@dataclass(slots=True)
class AdaptiveRate:
    """One account's, over all workers."""

    per_s: float | None = None
    """What may be sent; None: nothing has shown a limit."""
    _in_flight: dict[str, int] = field(default_factory=dict)
    _since_s: float | None = None
    _in_flight_before: int = 0
    _answered: int = 0
    _throttled: int = 0
    _not_before_s: float = float("-inf")
    _step: float = 0.0
    _clean: int = 0
    _tolerated: float = TOLERATED
    _cuts: int = 0
    _first_cut: tuple[float | None, float] = (None, 0.0)
    """The rate before the first of these cuts, and the share of 429s that led to it."""

    def observe(self, worker: str, stats: AccountStats, now_s: float) -> None:
        """Take in what a worker saw of the account since its last report."""
        self._in_flight[worker] = stats.in_flight
        if now_s < self._not_before_s:
            return
        if self._since_s is None:
            self._begin(now_s)
            return
        self._answered += stats.answered
        self._throttled += stats.throttled
        took_s = now_s - self._since_s
        # Throttles come at once, replies later: what is still in flight was let through.
        passed = max(0, self._answered - self._throttled + self._now_in_flight - self._in_flight_before)
        sent = passed + self._throttled
        if not sent:
            # Nothing to go by yet: idle time would make what follows look slow.
            self._begin(now_s)
            return
        if took_s < ROUND_S or (sent < ROUND_REQUESTS and took_s < LONGEST_ROUND_S):
            return
        share = self._throttled / sent
        if self._throttled >= FEWEST and share > self._tolerated:
            self._cut(passed / took_s, sent / took_s, share)
            self._not_before_s, self._since_s = now_s + SETTLE_S, None
            return
        if share <= self._tolerated / 2:
            self._cuts = 0
            if self.per_s is not None and sent / took_s >= USED * self.per_s:
                self.per_s += self._step * 2 ** min(self._clean // FASTER_AFTER, 10)
                self._clean += 1
        self._begin(now_s)

    def cap(self, rpm: float | None) -> float | None:
        """Requests a minute that may be sent where the config allows `rpm`."""
        if self.per_s is None:
            return rpm
        return 60 * self.per_s if rpm is None else min(rpm, 60 * self.per_s)

    def forget(self, worker: str) -> None:
        """The worker is gone, and with it what it had in flight."""
        self._in_flight_before -= self._in_flight.pop(worker, 0)

    @property
    def _now_in_flight(self) -> int:
        return sum(self._in_flight.values())

    def _begin(self, now_s: float) -> None:
        self._since_s, self._in_flight_before = now_s, self._now_in_flight
        self._answered = self._throttled = 0

    def _cut(self, passed_per_s: float, sent_per_s: float, share: float) -> None:
        before, first_share = self._first_cut
        if not self._cuts or share < NO_BETTER * first_share:
            self._cuts, before, first_share = 0, self.per_s, share
            self._first_cut = before, first_share
        self._cuts += 1
        self._clean = 0
        if self._cuts > IN_VAIN and share <= MOST:
            self.per_s, self._cuts, self._tolerated = before, 0, min(1.0, 1.5 * share)
        else:
            slower = BELOW * passed_per_s if passed_per_s > 0 else sent_per_s / 2
            self.per_s = max(SLOWEST_PER_S, slower if self.per_s is None else min(slower, BELOW * self.per_s))
        low, high = STEPS
        self._step = min(high, max(low, share / 2)) * (self.per_s or 0.0)
