"""Opens a finished or stopped run again by its directory alone: config and judges as its manifest has them.

Hides where the code of judges in Python comes from, which no manifest is trusted with, and what a manifest leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judges import Judge, JudgeError, load_judge
from runner.config import RunConfig, load_config
from runner.endpoint.judge_model import judge_models
from runner.env_secrets import LEFT_OUT
from runner.errors import ConfigError, InputError
from runner.ledger.ledger import Ledger
from runner.ledger.run_directory import RunDirectory, check_same_meaning, meaning_of

from .session import Session, load_judges


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
