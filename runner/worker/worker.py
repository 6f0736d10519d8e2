"""A worker: takes tasks from the driver, judges their trials on its own event loop, and keeps to its leases.

Hides everything between "judge these trials" and "each is judged, waits in the ledger, or is left". Only bugs and a
ledger that is gone for good leave `run`.
"""

import asyncio
import gc
import uuid
from collections.abc import Sequence
from dataclasses import replace

from judges import Judge
from runner.config import RunConfig
from runner.endpoint.client import Client
from runner.endpoint.credentials import check_key
from runner.endpoint.judge_model import judge_models
from runner.endpoint.rate_limiter import RateLimiter, Stopped
from runner.errors import JuryboxError, weightiest
from runner.messages import LeaseRenewal, Task, TaskReport, Trial, WorkerStatus

from .account import Account
from .admission import Admission
from .outbox import Outbox, SendBatch
from .probes import NeedsAction, Prober
from .reformat import Reformatter
from .request import item_of
from .trial import TrialEnd, TrialJudge


class Worker:
    """Judges tasks. `send` hands a batch to the aggregator and returns its acknowledgement."""

    def __init__(self, name: str, config: RunConfig, judges: Sequence[Judge], send: SendBatch) -> None:
        self.name = name
        self._config = config
        self._judge_models = judge_models(config, judges)
        self._outbox = Outbox(f"{name}-{uuid.uuid4().hex[:12]}", send)
        accounts = self._accounts = dict[str, Account]()
        self._admission = Admission(self._outbox, lambda: any(each.expects_more for each in accounts.values()))
        self._probers: dict[str, Prober] = {}
        self._reformatter = Reformatter(config, self._account)
        self._trial_judge = TrialJudge(
            name, config, self._outbox, self._reformatter,
            places=lambda: sum(each.limiter.lease.in_flight for each in accounts.values()),
        )  # fmt: skip
        self._stopping = False
        # What was imported stays. Without this the collector looks at all of it again and again: 7 % of a run's CPU.
        gc.collect()
        gc.freeze()

    def check(self) -> list[str]:
        """What is missing on this machine before anything can be paid: a key's variable or file. Empty: nothing."""
        return [problem for model in self._config.asked_models if (problem := check_key(model))]

    async def run(self, task: Task) -> TaskReport:
        """Do a task; returns when all that came of it is acknowledged."""
        prober = self._prober(task.model)
        mode: str | None = None
        ends: list[TrialEnd] = []
        try:
            with self._outbox.pool.in_use():
                if task.probe:
                    mode = await self._detect_mode(task, prober)
                else:
                    ends = await self._judge(task, prober)
        except* JuryboxError as errors:
            # Naked: a group of them would not be known for what it is beyond this process.
            raise weightiest(errors) from None
        await self._outbox.drain()
        judged, waiting, left = (ends.count(end) for end in (TrialEnd.JUDGED, TrialEnd.WAITING, TrialEnd.LEFT))
        needed, broken = prober.account.breaker.action_needed, self._trial_judge.broken
        return TaskReport(judged, waiting, left, action_needed=needed, broken=broken, structured=mode)

    async def keys(self, task: Task) -> list[bytes]:
        """The keys of a task's trials, in order."""
        own = self._judge_models[task.judge, task.model]
        return [
            own.key(trial.system, trial.item_id, own.judge.render(item_of(trial), trial.template), task.repeat)
            for trial in task.trials
        ]

    async def renew(self, renewal: LeaseRenewal) -> WorkerStatus:
        """Take new leases, or the order to stop; report what was seen since the last renewal."""
        for lease in renewal.leases:
            self._account(lease.account).apply(lease)
        if renewal.stop:
            self._stopping = True
            self._admission.stop_waiting()
        for name, account in self._accounts.items():
            if self._stopping or name in renewal.close:
                account.stop()
        stats = tuple(account.stats() for account in self._accounts.values())
        return WorkerStatus(accounts=stats, sender=self._outbox.sender)

    async def close(self) -> None:
        """Close the connections. Tasks have returned before."""
        # In a notebook the process goes on, and what a run leaves in circles must not stay.
        gc.unfreeze()
        await self._reformatter.close()
        for prober in self._probers.values():
            await prober.client.aclose()

    async def _judge(self, task: Task, prober: Prober) -> list[TrialEnd]:
        """The ends of the task's trials."""
        judge_model = replace(self._judge_models[task.judge, task.model], mode=task.structured)
        ends: list[TrialEnd] = []

        async def judge(trials: tuple[Trial, ...]) -> None:
            ends.extend([await self._trial_judge.judge(task, trials, judge_model, prober)] * len(trials))

        async with prober.probe_while_open(task, judge_model), asyncio.TaskGroup() as group:
            for trials in task.requests:
                group.create_task(judge(trials))
        return ends

    async def _detect_mode(self, task: Task, prober: Prober) -> str | None:
        """Find out how structured output is enforced for a judge and a model; None where that came to no end."""
        judge_model = self._judge_models[task.judge, task.model]
        async with prober.probe_while_open(task, judge_model):
            try:
                return await prober.detect_structured_mode(task, judge_model)
            except NeedsAction as needed:
                prober.account.stop(str(needed))
            except Stopped:
                pass
        return None

    def _account(self, name: str) -> Account:
        if name not in self._accounts:
            self._accounts[name] = account = Account(RateLimiter(name), self._admission)
            if self._stopping:
                account.stop()
        return self._accounts[name]

    def _prober(self, model_name: str) -> Prober:
        if model_name not in self._probers:
            model = self._config.model(model_name)
            self._probers[model_name] = Prober(self.name, Client(model), self._account(model.account_name))
        return self._probers[model_name]
