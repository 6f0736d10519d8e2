"""One session on a run directory: check everything, stage, plan or resume, judge, publish, report.

What `jurybox run` and `jurybox.run()` have in common; the command line adds words and exit statuses.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from judges import Judge, JudgeError, load_judge

from .config import RunConfig
from .errors import ConfigError, Interrupted, JuryboxError, StoppedEarly
from .ledger import Ledger
from .plan import Estimate, Shard, pairs
from .planning import estimates, plan_signature, planned_shards, trial_keys
from .report import Report, build
from .results import publish
from .rundir import RunDirectory, manifest_of, refuse_other_meaning
from .sample import Sample
from .stage import Staged, load_staged, stage
from .stopping import Switch

# What asks an endpoint is imported where it is needed: a second of start-up that a run with nothing to do does not pay.
if TYPE_CHECKING:
    from .driver import Watch
    from .pool import Pool


def load_judges(config: RunConfig, base: Path) -> list[Judge]:
    """The config's judges, in its order."""
    try:
        return [load_judge(use.use, base) for use in config.judges]
    except JudgeError as error:
        raise ConfigError(f"judges: {error}") from None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be judged and what of it is done, before anything is paid."""

    shards: dict[int, Shard]
    done: dict[int, int]
    """Judged trials by shard id."""
    estimates: list[Estimate]
    carried: int | None
    """Judgments carried over from an earlier plan of this directory; None: the plan is the old one, or the first."""

    @property
    def trials(self) -> int:
        """All trials of the run."""
        return sum(shard.trials for shard in self.shards.values())

    @property
    def judged(self) -> int:
        """Those that have a judgment."""
        return sum(self.done.values())

    @property
    def complete(self) -> bool:
        """Nothing is left to do."""
        return self.judged == self.trials


class Session:
    """A run directory held by this process. Use as a context manager; `prepare`, then `judge`, then `finish`."""

    def __init__(
        self,
        config: RunConfig,
        base: Path,
        directory: Path,
        *,
        limit: int | None = None,
        sample: Sample | None = None,
        judges: Sequence[Judge] | None = None,
    ) -> None:
        """`judges`: those of `config.judges`, in its order, where they are loaded already."""
        self.config = config
        self.judges = load_judges(config, base) if judges is None else list(judges)
        self.pairs = pairs(config, self.judges)
        self.run = RunDirectory(directory)
        self._base = base
        self._limit = limit
        self._sample = sample
        self._stack = ExitStack()
        self.staged: Staged | None = None

    def __enter__(self) -> Session:
        self.run.create()
        self._stack.enter_context(self.run.locked())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def prepare(self) -> Plan:
        """Check that the directory may go on with this config; stage and plan what has changed."""
        manifest = self.run.manifest()
        fresh = manifest_of(self.config, self.judges, self.pairs)
        if manifest is not None:
            refuse_other_meaning(self.run.path, manifest["meaning"], fresh["meaning"])
        signature = plan_signature(self.config, self.judges, self._base, self._limit, self._sample)
        with Ledger(self.run.ledger) as ledger:
            carried = None
            if ledger.meta("plan") != signature or not self.run.items.is_dir():
                # An empty mark says "half made": whatever stops us now, the next session plans anew.
                ledger.set_meta("plan", "")
                self.staged = stage(self.config, self.judges, self._base, self.run.items, self._sample)
                carried = self._plan_anew(ledger, self.staged)
                self.run.write_manifest(fresh | _inputs(self.staged))
                ledger.set_meta("plan", signature)
            else:
                self.staged = load_staged(self.run.items)
                self.run.write_manifest(fresh | _inputs(self.staged))
            return self._plan(ledger, self.staged, carried)

    def _plan_anew(self, ledger: Ledger, staged: Staged) -> int | None:
        shards = planned_shards(self.config, self.judges, staged, self._limit)
        if not ledger.shards():
            ledger.set_plan(shards)
            return None
        return ledger.replan(shards, trial_keys(staged, shards, self.pairs))

    def _plan(self, ledger: Ledger, staged: Staged, carried: int | None) -> Plan:
        rows = ledger.shards()
        done = {row.shard.id: row.done for row in rows}
        return Plan(
            shards={row.shard.id: row.shard for row in rows},
            done=done,
            estimates=estimates([row.shard for row in rows], done, staged, self.pairs),
            carried=carried,
        )

    def judge(
        self,
        plan: Plan,
        *,
        make_pool: Callable[[], Pool],
        watch: Watch = lambda snapshot, throttled: None,
        switch: Switch | None = None,
    ) -> None:
        """Judge what the plan leaves to do; raises why it stopped before the end. `switch` stops it from elsewhere."""
        from .driver import Driver

        assert self.staged is not None
        staged = self.staged
        with Ledger(self.run.ledger) as ledger:
            spent = sum(spend.usage.cost_usd for spend in ledger.spend().values())

        async def judging() -> None:
            pool = make_pool()
            try:
                driver = Driver(
                    self.config, plan.shards, plan.done, self.pairs, staged, pool, spent_usd=spent, watch=watch
                )
                with _signals(driver.stop), (switch or Switch()).connected(driver.stop):
                    await driver.run()
            finally:
                await pool.close()

        asyncio.run(judging())

    def finish(self) -> Report:
        """Publish what is judged as Parquet, and report it."""
        assert self.staged is not None
        judges = {judge.name: judge for judge in self.judges}
        with Ledger(self.run.ledger) as ledger:
            mark = f"{ledger.meta('plan')} {sum(row.done for row in ledger.shards())}"
            if ledger.meta("published") != mark or not self.run.results.is_dir():
                self._publish(ledger, judges)
                ledger.set_meta("published", mark)
            return build(self.config.name, self.run.path, self.config, judges, self.staged, ledger)

    def _publish(self, ledger: Ledger, judges: dict[str, Judge]) -> None:
        assert self.staged is not None
        try:
            publish(self.run.path, self.config, judges, self.staged, ledger)
        except OSError as error:
            raise StoppedEarly(
                f"{self.run.path}: the results could not be written ({error.strerror}); every judgment is safe in "
                "run.db, and the same command writes them"
            ) from None


def _inputs(staged: Staged) -> dict[str, Any]:
    """What was read, for the manifest: files with size and time or ETag, a dataset with its commit."""
    return {"inputs": staged.signature["files"]}


class _signals:
    """SIGINT or SIGTERM once: stop in good order. Twice: leave at once; what was acknowledged is in the ledger."""

    def __init__(self, stop: Callable[[JuryboxError], None]) -> None:
        self._stop = stop
        self._told = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread may take signals; in a notebook's worker thread they stay the notebook's.
            return
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            if self._told:
                os._exit(130)
            self._told = True
            sys.stderr.write("\njurybox: finishing the requests in flight; once more to leave at once\n")
            name = signal.Signals(number).name
            loop.call_soon_threadsafe(self._stop, Interrupted(f"interrupted by {name}"))

        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, handle)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def local_pool(session: Session) -> Pool:
    """Judge in this process, without Ray."""
    from .pool import LocalPool

    return LocalPool(session.config, session.judges, session.run.ledger)


def ray_pool(session: Session, address: str | None) -> Pool:
    """Judge on Ray: started here, or at `address`."""
    from .cluster import RayPool

    return RayPool(session.config, session.judges, session.run.ledger.absolute(), address=address)


def missing_keys(config: RunConfig) -> list[str]:
    """What the keys lack on this machine."""
    from .client import check_key

    return [problem for model in config.models if (problem := check_key(model))]
