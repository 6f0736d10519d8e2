"""A run directory in the hands of this process: its lock, config and judges, and how what is judged is published.

`planning` says what is to do in it, `judging` does it; `jurybox run` and `jurybox.run()` have all three in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import structlog

from judges import Judge, JudgeError, load_judge
from runner.config import RunConfig, load_config
from runner.dataset import Sample, Staged, load_staged
from runner.endpoint.judge_model import judge_models
from runner.env_secrets import LEFT_OUT
from runner.errors import ConfigError, InputError, JuryboxError
from runner.filesystem import disk_full_error, is_full, network_file_system
from runner.ledger.ledger import Ledger
from runner.ledger.revision_diff import RevisionDiff
from runner.ledger.run_directory import RunDirectory, check_same_meaning, meaning_of
from runner.publishing.parquet_writer import publish_if_changed
from runner.publishing.publisher import Publisher
from runner.report import Report, build

from .rescore import RevisionMaker

log = structlog.get_logger()


def load_judges(config: RunConfig, base: Path) -> list[Judge]:
    try:
        return [load_judge(use.use, base) for use in config.judges]
    except JudgeError as error:
        raise ConfigError(f"judges: {error}") from None


class Session:
    """A run directory held by this process. Use as a context manager; `plan_run`, then `judge_plan`, then `finish`."""

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
        self.base = base
        self.limit = limit
        self.sample = sample
        self._stack = ExitStack()
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

    def load_items(self) -> Staged | None:
        return load_staged(self.run.items) if self.run.items.is_dir() else None

    def rescore(self) -> RevisionDiff:
        """Read all replies of the planned run again, without a call; `revisions.new` has the revision, if any."""
        with Ledger(self.run.ledger, checked=True) as ledger:
            return self.revisions.rescore(ledger, load_staged(self.run.items))

    def finish(self) -> Report:
        """Write what is judged as Parquet, publish it, and report it."""
        judges = {judge.name: judge for judge in self.judges}
        # Opened, one that somebody has removed would come back empty.
        self.run.require_ledger(self.run.manifest() or {"config": {}})
        with Ledger(self.run.ledger, checked=True) as ledger:
            self.revisions.settle(ledger, self.load_items)
            self.publisher.finish(ledger)
            staged = load_staged(self.run.items)
            publish_if_changed(self.run.path, self.config, judges, staged, ledger)
            return build(self.config.name, self.run.path, self.config, judges, staged, ledger)


@contextmanager
def reopen(directory: Path, config_file: Path | None = None, *, asks: bool = False) -> Iterator[Session]:
    """A session on the planned run that is in the directory: nothing is staged, whatever has become of the inputs.

    `config_file`: its config, which must mean the same, instead of the manifest's. `asks`: requests will be made.
    """
    run = RunDirectory(directory)
    config, judges = run.open()
    manifest = run.manifest() or {}
    if config_file is not None:
        config, base = load_config(config_file), config_file.resolve().parent
        judges = load_judges(config, base)
        check_same_meaning(directory, manifest["meaning"], meaning_of(config, judges, judge_models(config, judges)))
    else:
        base = Path(manifest.get("base", "."))
        judges = [_with_code(judge, use.use, base) for judge, use in zip(judges, config.judges, strict=True)]
        if asks:
            _check_whole(config)
    with Session(config, base, directory, judges=judges) as session:
        with Ledger(session.run.ledger) as ledger:
            if not ledger.meta("plan"):
                raise InputError(f"{directory}: its plan is half made; carry out the run's own command first")
            lacking = {(row.shard.judge, row.shard.model) for row in ledger.shards()} - session.judge_models.keys()
            if lacking:
                names = ", ".join(" × ".join(judge_model) for judge_model in sorted(lacking))
                raise InputError(f"{directory}: the run has {names}, and the config has not")
            session.revisions.settle(ledger, session.load_items)
        yield session


def _with_code(judge: Judge, ref: str, base: Path) -> Judge:
    """A judge that reads in Python with its code, from the file that it came from, if that says the same still."""
    if not judge.code:
        return judge
    try:
        loaded = load_judge(ref, base)
    except JudgeError as error:
        raise InputError(
            f"judge {judge.name!r} reads or scores in Python, and its code is not where it was: {error}; "
            "name the run's config with --config"
        ) from None
    if loaded.fingerprint != judge.fingerprint:
        raise InputError(
            f"judge {judge.name!r} reads or scores in Python, and {ref} is not the code of this run any more"
        )
    return loaded


def _check_whole(config: RunConfig) -> None:
    for model in config.asked_models:
        if LEFT_OUT in (*model.extra.headers.values(), *model.extra.query.values()):
            raise ConfigError(
                f"models: {model.name!r} has headers or a query that a run directory does not keep; "
                "name the run's config with --config"
            )
