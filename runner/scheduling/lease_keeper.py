"""Keeps every worker's leases renewed, about once a second, and takes in what the workers report in return.

Hides when a worker is asked, that one which no longer answers counts as hung, and that a change of an endpoint's
health ends all waits.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from runner.change_signal import ChangeSignal
from runner.config import Retry
from runner.endpoint.health_monitor import HealthMonitor
from runner.endpoint.leases import LeaseAllocator
from runner.errors import WorkerDied
from runner.messages import LeaseRenewal, WorkerStatus

from .dispatch import Dispatch
from .pool import WorkerHandle
from .run_control import RunControl

RENEWAL_S = 1.0
STOPPING_RENEWAL_S = 0.5
BEAT_S = 1.0
"""Between two looks whether an answer has come."""

log = structlog.get_logger()


def count_silence(waited_s: float) -> float:
    """How much of a wait of one beat that has ended without an answer is silence.

    A process that is held up itself (its machine sleeps, or has too much to do) does not hear: of such a pause no more
    counts than two beats.
    """
    return min(waited_s, 2 * BEAT_S)


@dataclass(slots=True, eq=False)
class LeaseKeeper:
    """The leases of all workers of a run.

    A worker that does not answer for the config's `retry.hang` is killed.
    """

    run: RunControl
    retry: Retry
    allocator: LeaseAllocator
    health: HealthMonitor
    dispatch: Dispatch
    skip_waits: ChangeSignal = field(default_factory=ChangeSignal)
    """Ends all waits between renewals that are under way."""
    _renewing: dict[str, asyncio.Lock] = field(default_factory=dict)
    _senders: dict[str, str] = field(default_factory=dict)
    """Worker → its name in the ledger."""

    def join(self, worker: str) -> None:
        """A worker has started; it may use nothing before its first renewal."""
        self.allocator.join(worker)
        self._renewing[worker] = asyncio.Lock()

    def leave(self, worker: str) -> None:
        """The worker's process is gone."""
        self.allocator.leave(worker)
        self.health.forget(worker)
        self._senders.pop(worker, None)
        del self._renewing[worker]

    def is_starved(self, senders: Collection[str]) -> bool:
        """Whether all workers that hold work are among these, by their names in the ledger."""
        holding = [name for name in self.dispatch.workers if self.dispatch.holding(name)]
        return bool(holding) and all(self._senders.get(name) in senders for name in holding)

    async def keep(self, worker: WorkerHandle) -> None:
        """Renew the worker's leases until this is cancelled. Raises WorkerDied."""
        while True:
            await self.renew(worker)
            await self.skip_waits.wait(RENEWAL_S if self.run.stopped is None else STOPPING_RENEWAL_S)

    async def ensure(self, worker: WorkerHandle, account: str) -> None:
        """Renew now where the worker's last lease of the account lets it send nothing."""
        if not self.allocator.holds(worker.name, account):
            await self.renew(worker)

    async def renew(self, worker: WorkerHandle) -> None:
        """Renew the worker's leases and take in its status. One at a time: each answer belongs to its leases."""
        async with self._renewing[worker.name]:
            demand = self.health.limit_demand({name: self.dispatch.demand(name) for name in self.dispatch.workers})
            for name, held in demand.items():
                self.allocator.set_demand(name, held)
            leases = self.allocator.allocate(worker.name, demand[worker.name])
            leases = self.health.assign_probes(worker.name, leases, asyncio.get_running_loop().time())
            renewal = LeaseRenewal(leases, stop=self.run.stopped is not None, close=self.health.closed)
            status = await self._answer(worker, renewal)
        self._senders[worker.name] = status.sender
        self.allocator.confirm(worker.name, status.accounts)
        now = asyncio.get_running_loop().time()
        self.allocator.observe(worker.name, status.accounts, now)
        working = self.health.working
        for account in self.health.observe(worker.name, status.accounts, now):
            self._close(account)
        if self.health.working > working:
            # Workers that were held back may begin.
            self.skip_waits.notify()

    def refuse(self, account: str, why: str) -> None:
        """The endpoint refuses for a reason that only the user can mend; `why` is in the provider's words."""
        if account not in self.health.closed:
            self.health.close_account(account, why)
            self._close(account)

    def _close(self, account: str) -> None:
        """Go on without this account: its tasks return, nothing more of it is handed out."""
        log.info("account_closed", account=account)
        self.dispatch.close(account)
        self.skip_waits.notify()

    async def _answer(self, worker: WorkerHandle, renewal: LeaseRenewal) -> WorkerStatus:
        loop = asyncio.get_running_loop()
        answer = asyncio.ensure_future(worker.renew(renewal))
        silence_s = 0.0
        try:
            while silence_s < self.retry.hang_s:
                begun = loop.time()
                done, _ = await asyncio.wait({answer}, timeout=BEAT_S)
                if done:
                    return answer.result()
                silence_s += count_silence(loop.time() - begun)
        finally:
            answer.cancel()
        await worker.close()
        raise WorkerDied(f"no sign of life for {self.retry.hang}", "hang")
