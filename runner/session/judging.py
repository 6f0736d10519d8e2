"""Judges what a plan leaves to do: in this process or on Ray, until it is done or something stops it.

What asks an endpoint is imported where it is needed: a second of start-up that a run with nothing to do does not pay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from runner.config import RunConfig
from runner.endpoint.judge_model import StructuredModes
from runner.errors import InputError
from runner.filesystem import check_free_space
from runner.ledger.ledger import COPYING_MODEL, Ledger
from runner.signals import stop_on_signal

from .cancellation import StopSignal
from .planning import Plan
from .session import Session

if TYPE_CHECKING:
    from runner.scheduling.driver import Watch
    from runner.scheduling.pool import Pool

log = structlog.get_logger()


def judge_plan(
    session: Session,
    plan: Plan,
    *,
    make_pool: Callable[[], Pool],
    watch: Watch = lambda snapshot, throttled, states, suspected, stopping: None,
    signal: StopSignal | None = None,
    shows_stop: bool = False,
) -> None:
    """Judge what the plan leaves to do; raises why it stopped before the end. `signal` stops it from elsewhere.

    `shows_stop`: `watch` says how far a stop is, so that nothing else has to.
    """
    from runner.scheduling.driver import Driver

    config, run, publisher = session.config, session.run, session.publisher
    check_free_space(run.path)
    with Ledger(run.ledger, checked=True) as ledger:
        modes = StructuredModes(session.judge_models, ledger.meta)
        if (copying := config.reformatter) is not None and copying not in config.models:
            ledger.set_meta(COPYING_MODEL, copying.name)
        publisher.begin(ledger, judging=True)

    def record_modes(settled: StructuredModes) -> None:
        run.write_manifest((run.manifest() or {}) | {"structured": settled.document()})

    async def work() -> None:
        stop = signal or StopSignal()
        # Ray takes some seconds to start. Nothing is in flight meanwhile: a signal has nothing to wait for.
        pool = make_pool()
        with stop_on_signal(stop.stop, is_shown=shows_stop):
            try:
                driver = Driver(
                    config, plan.shards, plan.done, session.judge_models, plan.staged, pool,
                    watch=watch, modes=modes, settled=record_modes,
                )  # fmt: skip
                with stop.connected(driver.stop):
                    async with publisher.run_alongside(pool.aggregator):
                        await driver.run()
            finally:
                await pool.close()

    asyncio.run(work())


def judge_and_show(
    session: Session, plan: Plan, *, address: str | None, local: bool, quiet: bool, signal: StopSignal | None = None
) -> None:
    """`judge_plan` in this process, or on Ray, started here or at `address`; with progress on stderr."""
    from .progress import Progress

    def make_pool() -> Pool:
        if local:
            return local_pool(session)
        from runner.scheduling.cluster import RayPool

        return RayPool(session.config, session.judges, session.run.ledger.absolute(), address=address)

    accounts = {model.name: model.account_name for model in session.config.models}
    with Progress(accounts, quiet=quiet) as progress:
        judge_plan(
            session, plan, make_pool=make_pool, watch=progress.update, signal=signal, shows_stop=progress.is_live
        )


def local_pool(session: Session) -> Pool:
    """Judge in this process, without Ray: nothing shields it from a judge's own code."""
    from runner.scheduling.pool import LocalPool

    if session.run.left_abruptly and any(judge.code for judge in session.judges):
        why = (
            "if a judge's Python code ended it, it will do so again: without --local, on Ray, the item that ends its "
            "worker is found and set aside as poisoned"
        )
        log.warning("last_session_ended_abruptly", directory=str(session.run.path), why=why)
    return LocalPool(session.config, session.judges, session.run.ledger)


def require_keys(config: RunConfig) -> None:
    """InputError where a key is missing on this machine."""
    from runner.endpoint.credentials import check_key

    for model in config.asked_models:
        if problem := check_key(model):
            raise InputError(problem)
