"""Which worker gets which task.

Pure: a state machine over task ids. One queue per account, and a bound per worker and account, so that a slow model
never holds up another. Every task is in exactly one place: queued, held by one worker, or finished. Work that is
suspected of killing workers has a queue of its own: it goes to workers that had nothing before it and get nothing
beside it.
"""

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
    deaths: int = 0
    """Workers that died while they held it; of work that goes out alone, since it holds no more than now."""
    isolated: bool = False
    """It is suspected of killing workers."""


@dataclass(slots=True)
class _Worker:
    fresh: bool = True
    """It was handed nothing yet."""
    solo: bool = False
    """It was handed suspected work, and gets nothing else."""
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
        self._suspects: deque[Work] = deque()
        self._workers: dict[str, _Worker] = {}
        self._closed: set[str] = set()

    def add(self, work: Iterable[Work], *, first: bool = False) -> None:
        """Queue work at the end of its account's queue, or at its front. Suspected work has a queue of its own."""
        entries = list(work)
        for entry in reversed(entries) if first else entries:
            queue = self._suspects if entry.isolated else self._queues.setdefault(entry.account, deque())
            if first:
                queue.appendleft(entry)
            else:
                queue.append(entry)

    def join(self, worker: str) -> None:
        """A worker is ready for work."""
        self._workers[worker] = _Worker()

    def next(self, worker: str) -> Work | None:
        """The next work for this worker, which holds it from now on; None where it has enough or none is left.

        The account of which it holds least comes first, so that all its models keep busy. A worker that has had no work
        yet is the one for suspected work.
        """
        state = self._workers[worker]
        if state.fresh and (suspect := self._next_suspect(worker)) is not None:
            state.solo = True
            return self._hand_out(state, suspect)
        if state.solo:
            return None
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
        return self._hand_out(state, self._queues[account].popleft())

    def is_worn_out(self, worker: str, coming: int) -> bool:
        """Whether a fresh worker would be of more use than this one, of which `coming` are on their way already."""
        state = self._workers[worker]
        if state.fresh or state.held:
            return False
        fresh = coming + sum(other.fresh for other in self._workers.values())
        return state.solo or (len(self._open_suspects) > fresh and not self._any_queued)

    def _next_suspect(self, worker: str) -> Work | None:
        """Suspected work for a fresh worker, where others see to the rest, or there is no rest."""
        others = any(not state.solo for name, state in self._workers.items() if name != worker)
        if (self._any_queued and not others) or not self._open_suspects:
            return None
        suspect = self._open_suspects[0]
        self._suspects.remove(suspect)
        return suspect

    def _hand_out(self, state: _Worker, work: Work) -> Work:
        state.fresh = False
        state.held[work.id] = work
        state.per_account[work.account] += 1
        state.requests[work.account] += work.requests
        return work

    def finish(self, worker: str, work_id: int) -> None:
        """The worker has ended this work, with whatever result."""
        state = self._workers[worker]
        work = state.held.pop(work_id)
        state.per_account[work.account] -= 1
        state.requests[work.account] -= work.requests

    def holding(self, worker: str) -> list[Work]:
        """What the worker holds, in the order in which it got it."""
        return list(self._workers[worker].held.values())

    def leave(self, worker: str, again: Iterable[Work] = ()) -> None:
        """The worker is gone, and what it held with it. `again` is queued in its place, before all others."""
        del self._workers[worker]
        self.add(again, first=True)

    def close(self, account: str) -> None:
        """Hand out nothing more of this account (its endpoint needs the user's action)."""
        self._closed.add(account)

    def demand(self, worker: str) -> dict[str, int]:
        """How many requests the worker has before it, by account."""
        return dict(self._workers[worker].requests)

    def queued(self, account: str) -> int:
        """Tasks that nobody holds yet, without suspected ones."""
        return len(self._queues.get(account, ()))

    def suspected(self, account: str) -> int:
        """Suspected tasks that nobody holds yet."""
        return sum(work.account == account for work in self._suspects)

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
        return self.none_held and not self._any_queued and not self._open_suspects

    @property
    def _any_queued(self) -> bool:
        """Whether unsuspected work may be handed out."""
        return any(queue for account, queue in self._queues.items() if account not in self._closed)

    @property
    def _open_suspects(self) -> list[Work]:
        return [work for work in self._suspects if work.account not in self._closed]

    @property
    def workers(self) -> list[str]:
        """All workers that have joined and not died."""
        return list(self._workers)
