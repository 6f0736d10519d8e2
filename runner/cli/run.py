"""`jurybox run`, `plan` and `try`: what judges, or shows what would be judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.errors import InputError, JuryboxError, StoppedEarly
from runner.filesystem import is_full
from runner.session.inline_config import RunArguments
from runner.usage import usd_at_most

from .options import (
    CONFIG_ENDINGS,
    AddressOption,
    JsonOption,
    LocalOption,
    QuietOption,
    VerboseOption,
    YesOption,
    named_run,
    same_command,
    say,
    with_run_arguments,
)
from .show import current_report, print_report

if TYPE_CHECKING:
    from runner.report import Report
    from runner.session.planning import Plan
    from runner.session.session import Session

ASK_ABOVE_USD = 1.0
ASK_ABOVE_CALLS = 10_000
"""On a terminal `run` asks above this estimate; the second where a model has no price."""


@with_run_arguments()
def run(
    arguments: RunArguments,
    address: AddressOption = None,
    local: LocalOption = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Judge the items of a config, or items files by judges and models given here; the same command resumes."""
    from runner.log import configure
    from runner.session.planning import plan_run

    configure("debug" if verbose else None)
    request = named_run(replace(arguments, address=address, local=local, progress=not quiet))
    # A judge's own code may print; stdout carries the result.
    with show_stops(request.directory, as_json), redirect_stdout(sys.stderr), request.session() as session:
        plan = plan_run(session)
        if session.publisher.restored is not None:
            say(session.publisher.restored.text, quiet)
        before = len(session.revisions.new)
        for revision in session.revisions.new:
            say(revision.text(), quiet)
        if plan.complete:
            say(f"nothing to do: all {plan.trials:,} trials are judged", quiet)
        else:
            approve(session, plan, address=address, yes=yes, quiet=quiet)
        stopped, report = judge_and_finish(session, plan, address=address, local=local, quiet=quiet)
    for revision in session.revisions.new[before:]:
        say(revision.text(), quiet)
    stopped = describe_published(session, stopped, quiet)
    command = None if stopped is None else f"{same_command()}  # goes on with the run"
    if stopped is None or report.done or as_json:
        print_report(report, as_json, next_command=command)
    conclude(stopped, report)


@with_run_arguments()
def plan(arguments: RunArguments, as_json: JsonOption = False) -> None:
    """Show what `run` would judge and cost, and one rendered prompt per template; no call is made."""
    from runner.session.dry_run import preview

    request = named_run(arguments)
    dry_run = preview(request.config, request.base, request.directory, arguments.limit, request.sample)
    typer.echo(json.dumps(dry_run.document(), ensure_ascii=False, indent=2) if as_json else dry_run.text())


@with_run_arguments("items", "base_url", "api_key_env", "reference", "on", "fields", "overrides")
def try_(
    arguments: RunArguments,
    item: Annotated[
        str | None, typer.Option(metavar="ID", help="The item; by default, for each judge, the first it takes.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Of a config only this judge; else as for run; repeatable.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Of a config only this model; else as for run; repeatable.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make one real call per judge and model, and show the prompt, the reply and how it was read; nothing is kept."""
    import asyncio

    from judges import Scored
    from runner.log import configure
    from runner.session.session import load_judges
    from runner.session.single_call import describe_failure, try_once

    configure(None)
    from_config = any(path.endswith(CONFIG_ENDINGS) for path in arguments.items)
    request = named_run(arguments if from_config else replace(arguments, judge=judge, model=model))
    judges = load_judges(request.config, request.base)
    select = {"judge": judge or (), "model": model or ()} if from_config else {}
    calls = asyncio.run(try_once(request.config, judges, request.base, item_id=item, **select))
    if as_json:
        typer.echo(json.dumps({"tried": [call.document() for call in calls]}, ensure_ascii=False))
    else:
        typer.echo("\n\n".join(call.text() for call in calls))
    if (error := describe_failure(calls)) is not None:
        raise error
    if any(not isinstance(call.reading, Scored) for call in calls):
        raise typer.Exit(3)


def approve(session: Session, plan: Plan, *, address: str | None, yes: bool, quiet: bool) -> None:
    """Say what is about to be paid, and ask on a terminal where that is much; InputError where a key is missing."""
    from runner.report.input_notices import input_notices
    from runner.session.judging import require_keys

    if address is None:
        require_keys(session.config)
    say(describe_plan(plan), quiet)
    for notice in input_notices(session.config, {judge.name: judge for judge in session.judges}, plan.staged):
        say(f"note: {notice}", quiet)
    unpriced = sum(entry.requests for entry in plan.estimates if entry.usd is None)
    usd = sum(entry.usd or 0.0 for entry in plan.estimates)
    if not yes and sys.stdin.isatty() and (usd > ASK_ABOVE_USD or unpriced > ASK_ABOVE_CALLS):
        typer.confirm("Go on?", abort=True, err=True)


@contextmanager
def show_stops(directory: Path, as_json: bool) -> Iterator[None]:
    """With `--json` a stop that leaves no room or time to finish the run shows what the ledger holds all the same."""
    try:
        yield
    except BaseException as error:
        stop = isinstance(error, (JuryboxError, KeyboardInterrupt, typer.Abort)) or is_full(error)
        if as_json and stop and not isinstance(error, InputError) and (report := current_report(directory)) is not None:
            print_report(report, as_json)
        raise


def judge_and_finish(
    session: Session, plan: Plan, *, address: str | None, local: bool, quiet: bool
) -> tuple[JuryboxError | None, Report]:
    """Judge what the plan leaves to do, then publish all: why it stopped before the end, if it did, and the report."""
    from runner.session.judging import judge_and_show

    stopped: JuryboxError | None = None
    try:
        if not plan.complete:
            judge_and_show(session, plan, address=address, local=local, quiet=quiet)
    except InputError:
        raise
    except JuryboxError as error:
        stopped = error
    try:
        return stopped, session.finish()
    except JuryboxError as error:
        # The ledger is whole either way; why the judging stopped comes before why it cannot be published.
        raise stopped or error from None


def describe_published(session: Session, stopped: JuryboxError | None, quiet: bool) -> JuryboxError | None:
    """Say where the results are published; why the command stopped, be it that not all of them are."""
    publisher = session.publisher
    if publisher.trouble is None and publisher.published is not None:
        say(f"published: {publisher.published}", quiet)
    if publisher.trouble is not None and stopped is not None:
        say(publisher.trouble)
    return stopped if stopped is not None or publisher.trouble is None else StoppedEarly(publisher.trouble)


def conclude(stopped: JuryboxError | None, report: Report) -> None:
    if stopped is not None:
        raise stopped
    if report.needs_attention:
        raise typer.Exit(3)


def describe_plan(plan: Plan) -> str:
    """Trials, already done and the estimate."""
    lines = [f"{plan.trials:,} trials, {plan.judged:,} already judged, {plan.trials - plan.judged:,} to judge"]
    if plan.again:
        lines[0] += f", and {plan.again:,} to judge again"
    if plan.carried is not None:
        lines[0] += f" ({plan.carried:,} kept of an earlier plan)"
    for entry in plan.estimates:
        if entry.requests:
            price = "no price given" if entry.usd is None else f"at most {usd_at_most(entry.usd)} if none is repeated"
            lines.append(f"  {entry.judge} × {entry.model}: {entry.describe()}, {price}")
    return "\n".join(lines)
