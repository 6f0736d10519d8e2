"""What one worker may spend: reserved in the ledger before it is spent, in portions that keep ahead of its requests.

Pure. Hides how large a portion is: what requests wait for, and what more will be sent until the
next portion is there, by how many went out between two batches of late. So few requests wait, and no more than about
twice what is in flight is reserved should the process die. A portion is no single request's: what none of them takes
goes back when the work is done. Near the end of the run's budget portions shrink to what waits and can be paid, the
cheapest first; all else goes back at once, so that nothing lies idle here while another worker could use it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field

from runner.messages import Ack, Attempt
from runner.usage import NOTHING, CostBound, cost_of

BATCHES = 2
"""A portion lasts for so many: until the next is asked for, and until that is there."""
FADING = 0.75
"""What remains of the most that went out between two batches, from one to the next."""
LITTLE = 64
"""Requests. So many too many stay reserved: work goes by fits and starts."""
MOST_AHEAD = 3
"""Times as many requests as were ever in flight: more are never reserved ahead."""
AHEAD_SHARE = 16
"""One part in so many of what is left of the budget is the most that one worker reserves ahead."""


@dataclass(slots=True)
class ReservationPool:
    """One worker's reservations.

    Before a request: `take`, or `wait` and, once a portion came, `try_take`. After it: `release`.
    """

    free: CostBound = NOTHING
    """Reserved in the ledger, and in no request."""
    left: CostBound | None = None
    """Of the budget, as of the last acknowledgement; None: it has no end, or is not known yet."""
    is_quiet: bool = False
    """No request is on its way to those that wait; said once, for the next portion."""
    _waiting: Counter[CostBound] = field(default_factory=Counter)
    _waiting_sum: CostBound = NOTHING
    _taken: CostBound = NOTHING
    """Since the last portion was asked for."""
    _most: CostBound = NOTHING
    """Taken between two batches lately."""
    _open: int = 0
    """Requests that have taken something and are not over."""
    _most_open: int = 0
    """With those that wait."""
    _users: int = 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Requests may come. Outside of all such blocks what is free is given back."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    @property
    def is_awaited(self) -> bool:
        """Whether a request waits that the next portion may pay for."""
        return bool(self._waiting_sum) and not self.is_blocked

    @property
    def is_blocked(self) -> bool:
        """Whether requests wait, and what is left pays for none of them."""
        return bool(self._waiting_sum) and not self._payable(self._within_reach())

    @property
    def is_surplus(self) -> bool:
        """Whether the next portion gives something back."""
        return not self._users and bool(self.free)

    def is_within_reach(self, bound: CostBound) -> bool:
        """Whether what is left pays for a request, as far as is known here."""
        within_reach = self._within_reach()
        return within_reach is None or within_reach.covers(bound)

    def take(self, bound: CostBound) -> bool:
        """For a request that comes just now: whether it may be sent. What others wait for, and can get, is theirs."""
        if not self.free.covers(self._payable(self._within_reach()) + bound):
            return False
        self._give(bound)
        return True

    def wait(self, bound: CostBound) -> None:
        """Have it reserved with the next portion."""
        self._waiting[bound] += 1
        self._waiting_sum += bound
        self._most_open = max(self._most_open, self._open + self._waiting_sum.requests)

    def try_take(self, bound: CostBound) -> bool:
        """For a request that waited: whether it may be sent now. It waits on otherwise."""
        if not self.free.covers(bound):
            return False
        self.give_up(bound)
        self._give(bound)
        return True

    def give_up(self, bound: CostBound) -> None:
        """A request that waited waits no more."""
        self._waiting[bound] -= 1
        if not self._waiting[bound]:
            del self._waiting[bound]
        self._waiting_sum -= bound

    def release(self, unsent: CostBound = NOTHING) -> None:
        """A request that was given its bound has ended; `unsent` is that bound where it never went out."""
        self._open -= 1
        self.free += unsent

    def next_portion(self, attempts: Iterable[Attempt] = ()) -> tuple[CostBound, CostBound | None]:
        """What goes into the next batch as `reserved` and `starved`. What it gives back can be taken no more.

        `attempts` are in that batch: what was reserved for them and they did not take is free again.
        """
        is_quiet, self.is_quiet = self.is_quiet, False
        if self.left is not None:
            for attempt in attempts:
                usage = attempt.usage
                taken = cost_of(attempt.is_settled, usage.input_tokens + usage.output_tokens, usage.cost_usd)
                self.left += attempt.freed - taken
        within_reach = self._within_reach()
        payable, ahead = self._payable(within_reach), self._ahead()
        is_scarce = payable != self._waiting_sum
        if within_reach is not None:
            share = CostBound(*(part // AHEAD_SHARE for part in astuple(within_reach)))
            is_scarce = is_scarce or not share.covers(self.free) or not share.covers(ahead)
            ahead = ahead.for_requests(min(ahead.requests, share.holds(ahead.for_requests(1)))) if ahead else ahead
        wanted = payable + ahead if self._users else NOTHING
        more = wanted - self.free
        if self._users and not is_scarce:
            more = more.above_zero()
            if not more and self.free.requests > 2 * wanted.requests + LITTLE:
                more = wanted - self.free
        self.free += more - more.above_zero()
        is_starved = is_quiet and self._waiting and not payable and not self._open
        return more, min(self._waiting, key=lambda bound: bound.price) if is_starved else None

    def confirm(self, ack: Ack) -> None:
        """A batch is acknowledged: what it was granted is in the ledger."""
        self.free += ack.granted
        self.left = ack.left

    def _give(self, bound: CostBound) -> None:
        self.free -= bound
        self._taken += bound
        self._open += 1
        self._most_open = max(self._most_open, self._open)

    def _within_reach(self) -> CostBound | None:
        """What this worker could have in all; None: as much as it likes."""
        return None if self.left is None else self.left.above_zero() + self.free

    def _payable(self, within_reach: CostBound | None) -> CostBound:
        """Of what requests wait for as much as can be had, the cheapest first."""
        if within_reach is None or within_reach.covers(self._waiting_sum):
            return self._waiting_sum
        payable = NOTHING
        for bound, count in sorted(self._waiting.items(), key=lambda entry: entry[0].price):
            payable += bound.for_requests(bound.requests * min(count, (within_reach - payable).holds(bound)))
        return payable

    def _ahead(self) -> CostBound:
        """What will be taken until the next portion is there, if it goes on as of late. Once for each portion."""
        fading = self._most.for_requests(math.ceil(self._most.requests * FADING))
        self._most = max(self._taken, fading, key=lambda bound: bound.requests)
        self._taken = NOTHING
        return self._most.for_requests(min(BATCHES * self._most.requests, max(LITTLE, MOST_AHEAD * self._most_open)))
