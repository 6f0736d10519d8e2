"""The run's money: what was spent, and what each worker may still spend, so that the cap holds whatever happens.

Pure. Hides how a cap is kept by workers that settle what they spent about once a second: each is granted a sum in
advance, counted as spent until it is known not to be. Grants shrink with what is left, so money does not lie idle with
one worker while another waits; the last of it is taken back from whoever has nothing in flight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from runner.messages import AccountStats

DUST_USD = 1e-9
"""Sums are compared with this tolerance."""


class Remainder(NamedTuple):
    """What is left of the cap where that pays for nothing more: the cheapest request may come to `next_usd`."""

    left_usd: float
    next_usd: float


@dataclass(slots=True)
class _Purse:
    """One worker's money for one account. `granted`: its last lease. `counted`: what it may come to spend at most."""

    wanted: bool = False
    """The worker holds trials of the account."""
    granted: float = 0.0
    counted: float = 0.0
    spent: float = 0.0
    wants: float = 0.0
    """Missing for the worker's next request above `granted`."""
    in_flight: int = 0

    @property
    def needs(self) -> float:
        """What the next request costs at most, where the worker waits for money with nothing in flight."""
        return self.granted + self.wants - self.spent


class SpendingCap:
    """Cap, grants and what came of them. Without a cap every grant is None."""

    def __init__(self, cap_usd: float | None, spent_usd: float) -> None:
        self._cap = cap_usd
        self._settled = spent_usd
        self._purses: dict[tuple[str, str], _Purse] = {}
        self._gone: dict[str, float] = {}

    def join(self, worker: str, accounts: Iterable[str]) -> None:
        """A worker has started, with nothing spent."""
        for account in accounts:
            self._purses[worker, account] = _Purse()

    def leave(self, worker: str) -> None:
        """The worker is gone: all that it may have spent counts as spent."""
        for key in [key for key in self._purses if key[0] == worker]:
            self._gone[worker] = self._gone.get(worker, 0.0) + self._purses.pop(key).counted

    def settle(self, worker: str, usd: float) -> None:
        """What a worker that left has really spent."""
        if self._gone.pop(worker, None) is not None:
            self._settled += usd

    def note(self, worker: str, account: str, wanted: bool) -> None:
        """Whether the worker holds trials of the account."""
        self._purses[worker, account].wanted = wanted

    def waits(self, worker: str, account: str) -> bool:
        """Whether a request of the account waits for money there, or is in flight."""
        purse = self._purses[worker, account]
        return purse.wants > 0 or purse.in_flight > 0

    def acknowledged(self, worker: str, account: str, news: AccountStats | None) -> None:
        """The worker has taken its last grant. With nothing in flight, no more than that can still be spent."""
        purse = self._purses[worker, account]
        if news is not None:
            purse.spent, purse.wants, purse.in_flight = news.spent_usd, news.wants_usd, news.in_flight
        if purse.in_flight == 0:
            purse.counted = purse.granted
        # A request may cost more than it was taken for.
        purse.counted = max(purse.counted, purse.spent)

    def grant(self, worker: str, account: str) -> float | None:
        """What the worker may have spent and reserved for the account since its start, in all."""
        if self._cap is None:
            return None
        purse = self._purses[worker, account]
        if self._gives_back(purse):
            purse.granted, purse.wants = purse.spent, 0.0
        elif purse.wanted:
            self._top_up(purse)
        purse.counted = max(purse.counted, purse.granted)
        return purse.granted

    def exhausted(self) -> Remainder | None:
        """What is left, where every worker with work waits for more than that, with nothing in flight anywhere."""
        wanted = [purse for purse in self._purses.values() if purse.wanted]
        if self._cap is None or not wanted or any(purse.in_flight for purse in self._purses.values()):
            return None
        if not all(purse.wants > 0 for purse in wanted):
            return None
        spent = self._settled + sum(self._gone.values()) + sum(purse.spent for purse in self._purses.values())
        left, cheapest = self._cap - spent, min(purse.needs for purse in wanted)
        return Remainder(max(0.0, left), cheapest) if left + DUST_USD < cheapest else None

    def _free(self) -> float:
        assert self._cap is not None
        counted = sum(purse.counted for purse in self._purses.values())
        return max(0.0, self._cap - self._settled - sum(self._gone.values()) - counted)

    def _top_up(self, purse: _Purse) -> None:
        free = self._free()
        workers = sum(other.wanted for other in self._purses.values())
        chunk = free / (2 * workers)
        # What is counted for this purse already may be granted again without taking anything from the others.
        most = purse.counted + free
        if purse.wants > 0:
            wanted = purse.granted + max(purse.wants, chunk)
            least = purse.granted + purse.wants
            # Less than the next request needs would lie idle.
            if least <= most + DUST_USD:
                purse.granted, purse.wants = min(wanted, most), 0.0
        elif purse.granted - purse.spent < chunk / 2:
            purse.granted = min(purse.spent + chunk, most)

    def _gives_back(self, purse: _Purse) -> bool:
        """Whether the purse's unspent money is better elsewhere: it has no work, or it cannot pay while others wait."""
        if purse.in_flight or purse.granted <= purse.spent:
            return False
        if not purse.wanted:
            return True
        if not purse.wants:
            return False
        blocked = [other for other in self._purses.values() if other.wants > 0 and not other.in_flight]
        # The cheapest request is what the last of the money can pay for, if anything.
        first = min(blocked, key=lambda other: other.needs)
        return purse is not first and self._free() + DUST_USD < first.wants
