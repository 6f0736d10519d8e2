"""The loop of a run: hands tasks to workers, renews leases, takes up what waits in the ledger, and ends in good order.

It knows a Pool and no Ray. Decisions are made elsewhere (dispatch: who gets what; budget: how much of each limit;
outlook: whether an account is worth going on with; policy: retry or not; ledger: what is finished); here they meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog

from .assemble import TASK_TRIALS, Again, Assembler, Fresh, Probe
from .batches import requests_of
from .budget import Budget
from .config import RunConfig
from .dispatch import Dispatch, Work
from .errors import ActionNeeded, ConfigError, Interrupted, JuryboxError, StoppedEarly, WorkerDied, weightiest
from .modes import Modes
from .outlook import Outlook
from .plan import Pair, Shard
from .pool import Pool, WorkerHandle
from .protocol import Snapshot, Tick
from .stage import Staged

TICK_S = 1.0
WATCH_S = 0.5
GRACE_S = 30.0
"""How long requests in flight may take to end after the order to stop."""
PREFLIGHT_S = 30.0
"""How long the first workers wait for the others to start before they judge."""
DEATHS_IN_A_ROW = 8
"""Workers that die without a single task ended between them."""
JUDGE_AGAIN = ("malformed", "refused", "halved", "retry")
LAST_TRY = ("parked",)

log = structlog.get_logger()
Watch = Callable[[Snapshot, Mapping[str, int]], None]


class Driver:
    """Carries out one plan on one pool. `watch` is called twice a second with the live counts and the 429s by account.

    `done` holds the judged trials of each shard, by shard id, as the ledger has them at the start.
    """

    def __init__(
        self,
        config: RunConfig,
        shards: Mapping[int, Shard],
        done: Mapping[int, int],
        pairs: Mapping[tuple[str, str], Pair],
        staged: Staged,
        pool: Pool,
        *,
        spent_usd: float = 0.0,
        watch: Watch = lambda snapshot, throttled: None,
        modes: Modes | None = None,
        settled: Callable[[Modes], None] = lambda modes: None,
    ) -> None:
        """`settled` is called whenever the mode of a judge and a model was found out; `modes` are known before."""
        self._modes = Modes(pairs) if modes is None else modes
        self._settled = settled
        self._of = {model.name: [pair for pair in pairs if pair[1] == model.name] for model in config.models}
        self._config = config
        self._pool = pool
        self._watch = watch
        places = {name: -(-limits.in_flight // pool.size) for name, limits in config.accounts().items()}
        self._dispatch = Dispatch(fill={account: 2 * count for account, count in places.items()})
        on_call = config.reformatter.account_name if config.reformatter else None
        self._budget = Budget(config.accounts(), config.budget.usd, spent_usd, on_call)
        self._outlook = Outlook(config)
        self._assembler = Assembler(shards, pairs, config.seed, staged, pool.aggregator, self._modes)
        self._ticking: dict[str, asyncio.Lock] = {}
        self._changed = asyncio.Condition()
        self._hurry = asyncio.Event()
        self._stop: JuryboxError | None = None
        self._stopped_at = 0.0
        self._ended = False
        self._deaths = 0
        self._died_at = 0.0
        self._starting: set[asyncio.Task[None]] = set()
        self._ready = 0
        self._go = asyncio.Event()
        self._work_ids = 0
        self._unsettled: dict[tuple[str, str], list[Work]] = {}
        """Work that waits until it is known how structured output is enforced."""
        for shard in (shard for shard in shards.values() if done.get(shard.id, 0) < shard.trials):
            pair = (shard.judge, shard.model)
            fresh = Fresh(shard)
            work = self._work(shard.model, requests_of(shard.trials, pairs[pair].batch), fresh)
            self._unsettled[pair].append(work) if self._is_unsettled(pair) else self._dispatch.add([work])

    def stop(self, why: JuryboxError) -> None:
        """Start nothing more, let what is in flight end, and raise `why` from `run`. The first reason stands."""
        if self._stop is None:
            log.info("stopping", why=why.message)
            self._stop = why
            self._stopped_at = asyncio.get_running_loop().time()
            self._be_quick()

    async def run(self) -> None:
        """Judge until every trial has a judgment; raises why it could not."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._pool.size):
                    group.create_task(self._keep_worker())
                group.create_task(self._keep_watch())
        except* JuryboxError as errors:
            raise weightiest(errors) from None
        needed = self._outlook.action_needed
        if needed and not isinstance(self._stop, Interrupted):
            raise ActionNeeded("; ".join(needed))
        if self._stop is not None:
            raise self._stop
        if given_up := self._outlook.given_up:
            raise StoppedEarly("; ".join(given_up))

    # ---- a worker's life ---------------------------------------------------------------------------------------

    async def _keep_worker(self) -> None:
        """Keep one place of the pool filled: when its worker dies, a replacement takes over."""
        while not self._ended and self._stop is None:
            name = ""
            begun = asyncio.get_running_loop().time()
            try:
                worker = await self._start_worker()
                name = worker.name
                self._dispatch.join(name)
                self._budget.join(name)
                self._ticking[name] = asyncio.Lock()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._keep_ticking(worker))
                    group.create_task(self._feed(worker, group))
            except* WorkerDied as deaths:
                self._bury(name, begun, str(weightiest(deaths)))
            await self._wake()

    async def _start_worker(self) -> WorkerHandle:
        """A new worker, once there is room for it. The end of the run does not wait for room."""
        task = asyncio.current_task()
        assert task is not None
        self._starting.add(task)
        try:
            worker = await self._pool.add_worker()
        except ConfigError as error:
            if self._go.is_set():
                raise StoppedEarly(error.message) from None
            raise
        finally:
            self._starting.discard(task)
        log.info("worker_started", worker=worker.name)
        self._ready += 1
        if self._ready >= self._pool.size:
            self._go.set()
        return worker

    def _bury(self, name: str, begun: float, why: str) -> None:
        """What a dead worker held goes out again. Workers that lived side by side and died together count once."""
        log.warning("worker_died", worker=name, why=why)
        if begun >= self._died_at:
            self._deaths += 1
            self._died_at = asyncio.get_running_loop().time()
        if self._deaths >= DEATHS_IN_A_ROW:
            self.stop(StoppedEarly(f"{self._deaths} workers died one after another; the last: {why}"))
        if name:
            for work in self._dispatch.died(name):
                self._assembler.ended(work.id)
            self._budget.leave(name)
            self._outlook.forget(name)
            del self._ticking[name]

    async def _feed(self, worker: WorkerHandle, group: asyncio.TaskGroup) -> None:
        # Nothing is paid before every node has shown that it has the keys, or has had its time to.
        with suppress(TimeoutError):
            async with asyncio.timeout(PREFLIGHT_S):
                await self._go.wait()
        self._go.set()
        while not self._ended:
            work = None if self._stop else self._dispatch.next(worker.name)
            if work is not None:
                group.create_task(self._carry_out(worker, work))
                continue
            async with self._changed:
                await self._changed.wait()

    async def _carry_out(self, worker: WorkerHandle, work: Work) -> None:
        task = await self._assembler.task(work)
        if task is not None:
            if not self._budget.holds(worker.name, work.account):
                await self._tick(worker)
            report = await worker.run(task)
            self._deaths = 0
            log.debug(
                "task_done", worker=worker.name, judge=task.judge, model=task.model,
                judged=report.judged, waiting=report.waiting, left=report.left,
            )  # fmt: skip
            if report.broken is not None:
                self.stop(ActionNeeded(report.broken))
            if report.action_needed is not None and work.account not in self._outlook.closed:
                self._outlook.needs_action(work.account, report.action_needed)
                self._close(work.account)
            if task.probe and report.structured is not None:
                await self._pool.aggregator.keep(*self._modes.found((task.judge, task.model), report.structured))
                log.info("structured", judge=task.judge, model=task.model, mode=report.structured)
                self._settled(self._modes)
                self._dispatch.add(self._unsettled.pop((task.judge, task.model)))
        self._assembler.ended(work.id)
        self._dispatch.finished(worker.name, work.id)
        await self._wake()

    # ---- leases ------------------------------------------------------------------------------------------------

    async def _keep_ticking(self, worker: WorkerHandle) -> None:
        while not self._ended:
            await self._tick(worker)
            await self._pause(TICK_S if self._stop is None else WATCH_S)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            return

    def _be_quick(self) -> None:
        """End all pauses that are under way; later ones are not affected."""
        self._hurry.set()
        self._hurry = asyncio.Event()

    async def _tick(self, worker: WorkerHandle) -> None:
        """Renew the worker's leases and hear its news. One at a time, so that each answer belongs to its leases."""
        async with self._ticking[worker.name]:
            for name in self._dispatch.workers:
                self._budget.note(name, self._dispatch.demand(name))
            leases = self._budget.leases(worker.name, self._dispatch.demand(worker.name))
            news = await worker.tick(Tick(leases, stop=self._stop is not None, close=self._outlook.closed))
        self._budget.acknowledged(worker.name, news.accounts)
        now = asyncio.get_running_loop().time()
        for account in self._outlook.heard(worker.name, news.accounts, now):
            self._close(account)
        if self._budget.exhausted():
            self.stop(StoppedEarly(f"the budget of {self._config.budget.usd} USD is spent; raise budget.usd to go on"))

    def _close(self, account: str) -> None:
        """Go on without this account: its tasks return, nothing more of it is handed out."""
        log.info("account_closed", account=account)
        self._dispatch.close(account)
        self._be_quick()

    # ---- what is left ------------------------------------------------------------------------------------------

    async def _keep_watch(self) -> None:
        """Report progress, take up what waits in the ledger, and see the end."""
        while not self._ended:
            # Before the snapshot: what a task left waiting is recorded before the task ends.
            was_idle = self._dispatch.idle
            snapshot = await self._pool.aggregator.snapshot()
            self._watch(snapshot, self._outlook.throttled)
            if self._stop is None:
                open_work = [self._take_up(account, snapshot) for account in self._config.accounts()]
                self._ended = not any(open_work) and was_idle and self._dispatch.idle
                # Tickets may have been added: whoever has room is to take them.
                await self._wake()
            else:
                self._ended = self._dispatch.none_held
                if asyncio.get_running_loop().time() - self._stopped_at > GRACE_S:
                    raise self._stop
            if self._ended:
                self._go.set()
                for starting in self._starting:
                    starting.cancel()
                self._be_quick()
                await self._wake()
                return
            try:
                async with asyncio.timeout(WATCH_S), self._changed:
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _take_up(self, account: str, snapshot: Snapshot) -> bool:
        """Queue tickets for trials that wait in the ledger, once the account's queue runs dry; False: none is left.

        Trials put off to the end come last, when nothing else of their account is under way.
        """
        if account in self._outlook.closed:
            return False
        queued, held = self._dispatch.queued(account), self._dispatch.held(account)
        models = [model.name for model in self._config.models if model.account_name == account]
        waiting = {m: sum(t.waiting for (_, name), t in snapshot.tallies.items() if name == m) for m in models}
        parked = {m: sum(t.parked for (_, name), t in snapshot.tallies.items() if name == m) for m in models}
        if not queued:
            for model in models:
                if not waiting[model] + parked[model] or any([self._is_unsettled(pair) for pair in self._of[model]]):
                    continue
                if waiting[model] > self._assembler.handed(model):
                    self._dispatch.add([self._work(model, TASK_TRIALS, Again(model, JUDGE_AGAIN))])
                elif parked[model] and not held and not any(waiting.values()):
                    self._dispatch.add([self._work(model, TASK_TRIALS, Again(model, LAST_TRY))])
        return bool(queued or held or any(waiting.values()) or any(parked.values()))

    def _is_unsettled(self, pair: tuple[str, str]) -> bool:
        """Whether it is not known how structured output is enforced for the pair; then that is found out."""
        if pair in self._modes:
            return False
        if pair not in self._unsettled:
            self._unsettled[pair] = []
            self._dispatch.add([self._work(pair[1], 1, Probe(*pair))])
        return True

    def _work(self, model: str, requests: int, payload: Fresh | Again | Probe) -> Work:
        self._work_ids += 1
        return Work(self._work_ids, self._config.model(model).account_name, requests, payload)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()
