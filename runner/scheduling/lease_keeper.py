"""Keeps every worker's leases renewed, about once a second, and takes in what the workers report in return.

Hides when a worker is asked, that one which no longer answers counts as hung, and that a change of an endpoint's
health ends all waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

import structlog

from runner.config import Retry
from runner.endpoint.health_monitor import HealthMonitor
from runner.endpoint.leases import LeaseAllocator
from runner.errors import WorkerDied
from runner.messages import LeaseRenewal, WorkerStatus

from .dispatch import Dispatch
from .heartbeat_timer import BEAT_S, HeartbeatTimer
from .pool import WorkerHandle
from .run_control import RunControl

RENEWAL_S = 1.0
STOPPING_RENEWAL_S = 0.5

log = structlog.get_logger()


class LeaseKeeper:
    """The leases of all workers of a run.

    A worker that does not answer for the config's `retry.hang` is killed.
    """

    def __init__(
        self, run: RunControl, retry: Retry, allocator: LeaseAllocator, health: HealthMonitor, dispatch: Dispatch
    ) -> None:
        self._run = run
        self._retry = retry
        self._allocator = allocator
        self._health = health
        self._dispatch = dispatch
        self._renewing: dict[str, asyncio.Lock] = {}
        self._senders: dict[str, str] = {}
        """Worker → its name in the ledger."""
        self._no_more_waits = asyncio.Event()

    def join(self, worker: str) -> None:
        """A worker has started; it may use nothing before its first renewal."""
        self._allocator.join(worker)
        self._renewing[worker] = asyncio.Lock()

    def leave(self, worker: str) -> None:
        """The worker's process is gone."""
        self._allocator.leave(worker)
        self._health.forget(worker)
        self._senders.pop(worker, None)
        del self._renewing[worker]

    def is_starved(self, senders: Collection[str]) -> bool:
        """Whether all workers that hold work are among these, by their names in the ledger."""
        holding = [name for name in self._dispatch.workers if self._dispatch.holding(name)]
        return bool(holding) and all(self._senders.get(name) in senders for name in holding)

    async def keep(self, worker: WorkerHandle) -> None:
        """Renew the worker's leases until this is cancelled. Raises WorkerDied."""
        while True:
            await self.renew(worker)
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEWAL_S if self._run.stopped is None else STOPPING_RENEWAL_S):
                    await self._no_more_waits.wait()

    async def ensure(self, worker: WorkerHandle, account: str) -> None:
        """Renew now where the worker's last lease of the account lets it send nothing."""
        if not self._allocator.holds(worker.name, account):
            await self.renew(worker)

    async def renew(self, worker: WorkerHandle) -> None:
        """Renew the worker's leases and take in its status. One at a time: each answer belongs to its leases."""
        async with self._renewing[worker.name]:
            demand = self._health.limit_demand({name: self._dispatch.demand(name) for name in self._dispatch.workers})
            for name, held in demand.items():
                self._allocator.set_demand(name, held)
            leases = self._allocator.allocate(worker.name, demand[worker.name])
            leases = self._health.assign_probes(worker.name, leases, asyncio.get_running_loop().time())
            renewal = LeaseRenewal(leases, stop=self._run.stopped is not None, close=self._health.closed)
            status = await self._answer(worker, renewal)
        self._senders[worker.name] = status.sender
        self._allocator.confirm(worker.name, status.accounts)
        now = asyncio.get_running_loop().time()
        self._allocator.observe(worker.name, status.accounts, now)
        working = self._health.working
        for account in self._health.observe(worker.name, status.accounts, now):
            self.close_account(account)
        if self._health.working > working:
            # Workers that were held back may begin.
            self.skip_waits()

    def refuse(self, account: str, why: str) -> None:
        """The endpoint refuses for a reason that only the user can mend; `why` is in the provider's words."""
        if account not in self._health.closed:
            self._health.close_account(account, why)
            self.close_account(account)

    def close_account(self, account: str) -> None:
        """Go on without this account: its tasks return, nothing more of it is handed out."""
        log.info("account_closed", account=account)
        self._dispatch.close(account)
        self.skip_waits()

    def skip_waits(self) -> None:
        """End all waits between renewals that are under way; later ones are not affected."""
        self._no_more_waits.set()
        self._no_more_waits = asyncio.Event()

    async def _answer(self, worker: WorkerHandle, renewal: LeaseRenewal) -> WorkerStatus:
        loop = asyncio.get_running_loop()
        answer = asyncio.ensure_future(worker.renew(renewal))
        timer = HeartbeatTimer(self._retry.hang_s)
        try:
            while not timer.is_death:
                begun = loop.time()
                done, _ = await asyncio.wait({answer}, timeout=BEAT_S)
                if done:
                    return answer.result()
                timer.beat(loop.time() - begun)
        finally:
            answer.cancel()
        await worker.close()
        raise WorkerDied(f"no sign of life for {self._retry.hang}", "hang")
