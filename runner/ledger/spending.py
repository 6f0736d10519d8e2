"""What the run has spent, what is reserved for requests that may yet be billed, and what its budget leaves.

The one owner of the budget: a request is sent only with a reservation that was granted here, durably, before. Hides how
settled usage and open reservations come to one sum in whole numbers of requests, tokens and billionths of a dollar, and
when a run can go no further although trials are left.
"""

import math
from dataclasses import astuple

from runner.config import Budget
from runner.messages import Ack, Batch
from runner.usage import NOTHING, CostBound, cost_of

from . import schema
from .database import Database

NO_BUDGET = Budget()
UNLIMITED = 2**62
"""Stands for a unit without a cap."""


class Spending:
    """The sums as the ledger has them, and the budget that they are kept to."""

    def __init__(self, db: Database, budget: Budget) -> None:
        self._db = db
        self._cap = None if budget == NO_BUDGET else _cap(budget)

    def settled(self) -> CostBound:
        (settled,) = self._db.rows(schema.SETTLED)
        return cost_of(*settled)

    def reserved(self) -> CostBound:
        """What may have been billed beyond all that is settled, by requests of dead senders mostly, or may yet be."""
        (bound,) = self._db.rows(schema.RESERVED)
        return CostBound(*bound)

    def left(self) -> CostBound | None:
        """What is neither spent nor reserved; below zero where the budget was lowered since. None: no budget."""
        return None if self._cap is None else self._cap - self.settled() - self.reserved()

    def reserve(self, batch: Batch) -> CostBound:
        """Free what the batch settles and gives back, and grant what it asks for: all of it, or nothing.

        To be called in the transaction that records the batch, once its attempts are in the table of what was spent.
        """
        requested = batch.reserved.above_zero()
        change = batch.reserved - requested - sum((attempt.freed for attempt in batch.attempts), NOTHING)
        left = self.left()
        granted = requested if left is None or (left - change).above_zero().covers(requested) else NOTHING
        if change or granted:
            self._db.change(schema.ADD_RESERVED, batch.sender, *astuple(change + granted))
        return granted


class Starvation:
    """Which senders wait for more than is left, with nothing in flight: what their last batches say, in order.

    What a batch frees may pay for what others wait for, and so they have to say it again.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._left = NOTHING
        self._waiting: dict[str, CostBound] = {}

    def observe(self, batch: Batch, ack: Ack) -> None:
        if ack.left is None:
            return
        if not self._left.covers(ack.left):
            self._waiting.clear()
        elif batch.starved is not None:
            self._waiting[batch.sender] = batch.starved
        else:
            self._waiting.pop(batch.sender, None)
        self._left = ack.left

    @property
    def senders(self) -> frozenset[str]:
        return frozenset(self._waiting)

    def describe(self) -> str | None:
        """What is left, and what the cheapest request that waits may cost; None: no sender is starved."""
        if not self._waiting:
            return None
        needed, left = min(self._waiting.values(), key=lambda bound: bound.price), self._left.above_zero()
        budget = self._budget
        if budget.usd is not None and needed.nano_usd > left.nano_usd:
            unit, cap, rest, most = "usd", f"{budget.usd} USD", f"{left.usd:.2g} USD", f"{needed.usd:.2g} USD"
        elif budget.tokens is not None and needed.tokens > left.tokens:
            unit, cap = "tokens", f"{budget.tokens:,} tokens"
            rest, most = f"{left.tokens:,} tokens", f"{needed.tokens:,} tokens"
        else:
            unit, cap, rest, most = "requests", f"{budget.requests:,} requests", f"{left.requests:,}", "1"
        spent = f"the budget of {cap} is spent but for {rest}"
        return f"{spent}, and the next request may cost {most}; raise budget.{unit} to go on"


def _cap(budget: Budget) -> CostBound:
    nano_usd = UNLIMITED if budget.usd is None else math.floor(budget.usd * 1e9)
    return CostBound(budget.requests or UNLIMITED, budget.tokens or UNLIMITED, nano_usd)
