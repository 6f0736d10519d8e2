"""The public Python face of jurybox.

    import jurybox

    run = jurybox.run("configs/quickstart.yaml")
    run.report()            # a Report; prints itself in a notebook
    run.judgments()         # a Polars frame, one row per judgment
    jurybox.load("runs/quickstart")

Errors are those of `runner.errors`: InputError before anything is paid, StoppedEarly and ActionNeeded after which the
same call goes on with the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import judges
import runner

for _package in (judges, runner):
    _found = Path(str(_package.__file__)).resolve().parent.parent
    if _found != Path(__file__).resolve().parent:
        raise ImportError(
            f"jurybox needs its own package {_package.__name__!r}, but another one is installed over it in {_found}; "
            "uninstall that package, or use jurybox in an environment of its own"
        )

if TYPE_CHECKING:
    import polars as pl

    from runner.report import Report

from runner.errors import ActionNeeded, InputError, JuryboxError, StoppedEarly  # noqa: E402 (after the check above)

__all__ = ["ActionNeeded", "InputError", "JuryboxError", "Run", "StoppedEarly", "arun", "load", "run"]


class Run:
    """A run directory, finished or not."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def report(self) -> Report:
        """The report as things stand; InputError where the directory holds no run."""
        from runner.open_run import open_run

        with open_run(self.directory) as opened:
            return opened.report()

    def judgments(self) -> pl.DataFrame:
        """All published judgments, one row each, with the columns of `jurybox export`. Empty before the first."""
        import polars as pl

        return pl.read_parquet(self.directory / "results" / "*.parquet")

    def __repr__(self) -> str:
        return f"jurybox.Run({str(self.directory)!r})"


def load(directory: str | Path) -> Run:
    """The run in a directory; InputError where there is none."""
    from runner.rundir import RunDirectory

    RunDirectory(Path(directory)).opened()
    return Run(directory)


def run(
    config: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    local: bool = True,
    address: str | None = None,
) -> Run:
    """Judge the items of a config (a file's path, or its content as a mapping); calling it again resumes.

    Judges in this process unless `local=False` (Ray on this machine) or `address` (a Ray cluster) says otherwise.
    Paths inside a mapping are relative to the working directory. May be called where an event loop runs (a notebook).
    Nothing is asked before spending. Raises InputError, StoppedEarly, ActionNeeded, and KeyboardInterrupt's kin.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(config, out, limit, local and address is None, address)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, config, out, limit, local and address is None, address).result()


async def arun(
    config: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    local: bool = True,
    address: str | None = None,
) -> Run:
    """`run`, awaited: the loop goes on meanwhile."""
    return await asyncio.to_thread(_run, config, out, limit, local and address is None, address)


def _run(
    config: str | Path | Mapping[str, Any], out: str | Path | None, limit: int | None, local: bool, address: str | None
) -> Run:
    import structlog

    from runner.config import load_config, parse_config
    from runner.log import configure
    from runner.session import Session, local_pool, missing_keys, ray_pool

    if not structlog.is_configured():
        configure()
    if isinstance(config, Mapping):
        parsed, base = parse_config(config), Path()
    else:
        parsed, base = load_config(Path(config)), Path(config).resolve().parent
    directory = Path(out) if out is not None else Path(parsed.out or f"runs/{parsed.name}")
    with Session(parsed, base, directory, limit=limit) as session:
        plan = session.prepare()
        if not plan.complete:
            if address is None and (problems := missing_keys(parsed)):
                raise InputError(problems[0])
            try:
                session.judge(plan, make_pool=lambda: local_pool(session) if local else ray_pool(session, address))
            finally:
                session.finish()
        else:
            session.finish()
    return Run(directory)
