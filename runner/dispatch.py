"""Which worker gets which task, and what is handed out again when a worker dies.

Pure: a state machine over task ids. One queue per account, and a bound per worker and account, so that a slow model
never holds up another. Every task is in exactly one place: queued, held by one worker, or finished.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Work:
    """A task as the dispatch sees it: its account's queue, and how many requests it takes."""

    id: int
    account: str
    requests: int
    """How many requests its trials take, at one call each and at most."""
    payload: Hashable
    """What the driver makes the task from: a shard, or trials that wait in the ledger."""


@dataclass(slots=True)
class _Worker:
    held: dict[int, Work] = field(default_factory=dict)
    per_account: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)


class Dispatch:
    """Queues and holdings.

    A worker gets work of an account while it holds less than `depth` tasks of it, or less than `fill` requests (by
    account): both keep its pipe full, across the ends of tasks and where tasks are small.
    """

    def __init__(self, depth: int = 2, fill: Mapping[str, int] | None = None) -> None:
        self._depth = depth
        self._fill = fill or {}
        self._queues: dict[str, deque[Work]] = {}
        self._workers: dict[str, _Worker] = {}
        self._closed: set[str] = set()

    def add(self, work: Iterable[Work], *, first: bool = False) -> None:
        """Queue work at the end of its account's queue, or at its front."""
        for entry in work:
            queue = self._queues.setdefault(entry.account, deque())
            if first:
                queue.appendleft(entry)
            else:
                queue.append(entry)

    def join(self, worker: str) -> None:
        """A worker is ready for work."""
        self._workers[worker] = _Worker()

    def next(self, worker: str) -> Work | None:
        """The next work for this worker, which holds it from now on; None where it has enough or none is left.

        The account of which it holds least comes first, so that all its models keep busy.
        """
        state = self._workers[worker]
        open_accounts = [
            account
            for account, queue in self._queues.items()
            if queue
            and account not in self._closed
            and (state.per_account[account] < self._depth or state.requests[account] < self._fill.get(account, 0))
        ]
        if not open_accounts:
            return None
        account = min(open_accounts, key=lambda name: (state.per_account[name], name))
        work = self._queues[account].popleft()
        state.held[work.id] = work
        state.per_account[account] += 1
        state.requests[account] += work.requests
        return work

    def finished(self, worker: str, work_id: int) -> None:
        """The worker has ended this work, with whatever result."""
        state = self._workers[worker]
        work = state.held.pop(work_id)
        state.per_account[work.account] -= 1
        state.requests[work.account] -= work.requests

    def died(self, worker: str) -> list[Work]:
        """The worker is gone: what it held goes to the front of the queues, and is returned."""
        lost = list(self._workers.pop(worker).held.values())
        self.add(reversed(lost), first=True)
        return lost

    def close(self, account: str) -> None:
        """Hand out nothing more of this account (its endpoint needs the user's action)."""
        self._closed.add(account)

    def demand(self, worker: str) -> dict[str, int]:
        """How many requests the worker has before it, by account."""
        return dict(self._workers[worker].requests)

    def queued(self, account: str) -> int:
        """Tasks that nobody holds yet."""
        return len(self._queues.get(account, ()))

    def held(self, account: str) -> int:
        """Tasks that some worker holds."""
        return sum(state.per_account[account] for state in self._workers.values())

    @property
    def none_held(self) -> bool:
        """No worker holds anything."""
        return not any(state.held for state in self._workers.values())

    @property
    def idle(self) -> bool:
        """Nothing is held, and nothing is queued that may be handed out."""
        return self.none_held and not any(q for account, q in self._queues.items() if account not in self._closed)

    @property
    def workers(self) -> list[str]:
        """All workers that have joined and not died."""
        return list(self._workers)
