"""One session on a run directory: check everything, stage, plan or resume, judge, publish, report.

What `jurybox run` and `jurybox.run()` have in common; the command line adds words and exit statuses.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import structlog

from judges import PARSER_VERSION, Judge, JudgeError, load_judge
from runner.config import RunConfig
from runner.dataset import Sample, Staged, load_staged, stage
from runner.endpoint.judge_model import StructuredModes, judge_models
from runner.errors import ConfigError, InputError, JuryboxError
from runner.filesystem import check_free_space, disk_full_error, is_full, network_file_system
from runner.ledger.ledger import COPYING_MODEL, Ledger
from runner.ledger.revision_diff import RevisionDiff
from runner.ledger.run_directory import RunDirectory, changed_settings, check_same_meaning, manifest_of
from runner.messages import Shard
from runner.publishing.parquet_writer import publish_if_changed
from runner.publishing.publisher import Publisher
from runner.report import Report, build
from runner.scheduling.plan import Estimate, estimates, plan_signature, planned_shards, trial_keys
from runner.signals import stop_on_signal

from .cancellation import StopSignal
from .rescore import RevisionMaker, list_changes

if TYPE_CHECKING:
    from runner.scheduling.driver import Watch
    from runner.scheduling.pool import Pool

# What asks an endpoint is imported where it is needed: a second of start-up that a run with nothing to do does not pay.

log = structlog.get_logger()


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
    again: int = 0
    """Judged trials that wait to be judged again; their judgments stand until then."""

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
        return self.judged == self.trials and not self.again


class Session:
    """A run directory held by this process. Use as a context manager; `plan`, then `judge`, then `finish`."""

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
        self.judge_models = judge_models(config, self.judges)
        self.run = RunDirectory(directory)
        self._base = base
        self._limit = limit
        self._sample = sample
        self._stack = ExitStack()
        self.staged: Staged | None = None
        self.revisions = RevisionMaker(self.run, self.judge_models)
        self.publisher = Publisher(config, self.judges, self.run, base)

    def __enter__(self) -> Session:
        self.run.create()
        self._stack.enter_context(self.run.lock())
        if (kind := network_file_system(self.run.path)) is not None:
            risk = "locks and syncs may not hold there what they promise; use --out for a disk of this machine"
            log.warning("network_file_system", directory=str(self.run.path), kind=kind, risk=risk)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if not isinstance(error, JuryboxError) and is_full(error):
            raise disk_full_error(self.run.path, "nothing more can be written there") from error

    def stay_until(self, end: Future[None]) -> None:
        """Hold the directory until that end, also after this session was closed: something works in it still."""
        stack = self._stack.pop_all()
        end.add_done_callback(lambda _: stack.close())

    def plan(self) -> Plan:
        """Check that the directory may go on with this config; stage and plan what has changed."""
        manifest = manifest_of(self.config, self.judges, self.judge_models)
        if (before := self.run.manifest()) is not None:
            check_same_meaning(self.run.path, before["meaning"], manifest["meaning"])
            for line in changed_settings(before["config"], manifest["config"]):
                log.info("config_changed", what=line)
        signature = plan_signature(self.config, self.judges, self._base, self._limit, self._sample)
        manifest["base"] = str(self._base.resolve())
        self.publisher.restore(manifest["meaning"])
        with Ledger(self.run.ledger) as ledger:
            plan = self._stage_and_plan(ledger, signature, manifest)
            self.publisher.begin(ledger, judging=not plan.complete)
            return plan

    def _stage_and_plan(self, ledger: Ledger, signature: str, manifest: dict[str, Any]) -> Plan:
        # Before places change: what an earlier retry has brought belongs where its trials stand now.
        self.revisions.settle(ledger, self._staged)
        carried = None
        is_new = ledger.meta("plan") != signature or not self.run.items.is_dir()
        if is_new:
            # An empty mark says "half made": whatever stops us now, the next session plans anew.
            check_free_space(self.run.path)
            ledger.set_meta("plan", "")
            self.staged = stage(self.config, self.judges, self._base, self.run.items, self._sample, self._limit)
            carried = self._plan_anew(ledger, self.staged)
        else:
            self.staged = load_staged(self.run.items)
        modes = StructuredModes(self.judge_models, ledger.meta).document()
        # The inputs: files with size and time or ETag, a dataset with its commit.
        inputs = self.staged.signature["files"]
        self.run.write_manifest(manifest | {"inputs": inputs, "revisions": list_changes(ledger), "structured": modes})
        if is_new:
            ledger.set_meta("plan", signature)
        plan = self._plan(ledger, self.staged, carried)
        readers = set(ledger.revisions.parser_versions()) | (set() if plan.complete else {PARSER_VERSION})
        if len(readers) <= 1:
            return plan
        # No table may mix two: not with what comes now, nor with what an earlier plan had and this one takes back.
        self.revisions.rescore(ledger, self.staged)
        return self._plan(ledger, self.staged, carried)

    def reopen(self) -> Plan:
        """The plan as it stands in the directory: nothing is staged, whatever has become of the inputs."""
        with Ledger(self.run.ledger) as ledger:
            if not ledger.meta("plan"):
                raise InputError(f"{self.run.path}: its plan is half made; carry out the run's own command first")
            lacking = {(row.shard.judge, row.shard.model) for row in ledger.shards()} - self.judge_models.keys()
            if lacking:
                names = ", ".join(" × ".join(judge_model) for judge_model in sorted(lacking))
                raise InputError(f"{self.run.path}: the run has {names}, and the config has not")
            self.staged = load_staged(self.run.items)
            self.revisions.settle(ledger, self._staged)
            return self._plan(ledger, self.staged, None)

    def rescore(self) -> RevisionDiff:
        """Read all replies of the reopened run again, without a call; `revisions.new` has the revision, if any."""
        assert self.staged is not None
        with Ledger(self.run.ledger, checked=True) as ledger:
            return self.revisions.rescore(ledger, self.staged)

    def retry(self, states: Sequence[str], judge: str | None, model: str | None, *, begin: bool) -> Plan:
        """What `judge` is to do so that the trials which ended in one of these states are judged again.

        With `begin` they are as good as sent: from now on any session goes on with them.
        """
        assert self.staged is not None
        with Ledger(self.run.ledger, checked=True) as ledger:
            if begin:
                ledger.revisions.begin_retry(states, judge, model)
                return self._plan(ledger, self.staged, None)
            return self._plan(ledger, self.staged, None, ledger.revisions.retriable(states, judge, model))

    def _record_modes(self, modes: StructuredModes) -> None:
        self.run.write_manifest((self.run.manifest() or {}) | {"structured": modes.document()})

    def _staged(self) -> Staged | None:
        if self.staged is None and self.run.items.is_dir():
            self.staged = load_staged(self.run.items)
        return self.staged

    def _plan_anew(self, ledger: Ledger, staged: Staged) -> int | None:
        shards = planned_shards(self.config, self.judges, staged, self._limit)
        if not ledger.shards() and next(ledger.judged_keys(), None) is None:
            ledger.set_plan(shards)
            return None
        return ledger.replan(shards, trial_keys(staged, shards, self.judge_models))

    def _plan(
        self, ledger: Ledger, staged: Staged, carried: int | None, retriable: Mapping[int, int] | None = None
    ) -> Plan:
        rows = ledger.shards()
        again = Counter(ledger.revisions.waiting_again()) + Counter(retriable or {})
        settled = {row.shard.id: row.done - again[row.shard.id] for row in rows}
        return Plan(
            shards={row.shard.id: row.shard for row in rows},
            done={row.shard.id: row.done for row in rows},
            estimates=estimates([row.shard for row in rows], settled, staged, self.judge_models),
            carried=carried,
            again=again.total(),
        )

    def judge(
        self,
        plan: Plan,
        *,
        make_pool: Callable[[], Pool],
        watch: Watch = lambda snapshot, throttled, states, suspected: None,
        signal: StopSignal | None = None,
    ) -> None:
        """Judge what the plan leaves to do; raises why it stopped before the end. `signal` stops it from elsewhere."""
        from runner.scheduling.driver import Driver

        assert self.staged is not None
        staged = self.staged
        check_free_space(self.run.path)
        with Ledger(self.run.ledger, checked=True) as ledger:
            modes = StructuredModes(self.judge_models, ledger.meta)
            if (copying := self.config.reformatter) is not None and copying not in self.config.models:
                ledger.set_meta(COPYING_MODEL, copying.name)
            self.publisher.begin(ledger, judging=True)

        async def work() -> None:
            stop = signal or StopSignal()
            # Ray takes some seconds to start. Nothing is in flight meanwhile: a signal has nothing to wait for.
            pool = make_pool()
            with stop_on_signal(stop.stop):
                try:
                    driver = Driver(
                        self.config, plan.shards, plan.done, self.judge_models, staged, pool,
                        watch=watch, modes=modes, settled=self._record_modes,
                    )  # fmt: skip
                    with stop.connected(driver.stop):
                        async with self.publisher.run_alongside(pool.aggregator):
                            await driver.run()
                finally:
                    await pool.close()

        asyncio.run(work())

    def finish(self) -> Report:
        """Write what is judged as Parquet, publish it, and report it."""
        assert self.staged is not None
        judges = {judge.name: judge for judge in self.judges}
        # Opened, one that somebody has removed would come back empty.
        self.run.require_ledger(self.run.manifest() or {"config": {}})
        with Ledger(self.run.ledger, checked=True) as ledger:
            self.revisions.settle(ledger, self._staged)
            self.publisher.finish(ledger)
            publish_if_changed(self.run.path, self.config, judges, self.staged, ledger)
            return build(self.config.name, self.run.path, self.config, judges, self.staged, ledger)


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


def ray_pool(session: Session, address: str | None) -> Pool:
    """Judge on Ray: started here, or at `address`."""
    from runner.scheduling.cluster import RayPool

    return RayPool(session.config, session.judges, session.run.ledger.absolute(), address=address)


def missing_keys(config: RunConfig) -> list[str]:
    """What the keys lack on this machine."""
    from runner.endpoint.credentials import check_key

    return [problem for model in config.asked_models if (problem := check_key(model))]
