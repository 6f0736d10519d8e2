"""`jurybox run`, `plan` and `try`: what judges, or shows what would be judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from runner.errors import InputError, JuryboxError, StoppedEarly
from runner.filesystem import is_full

from .options import (
    CONFIG_ENDINGS,
    Adhoc,
    BaseUrlOption,
    BatchOption,
    FieldOption,
    JsonOption,
    JudgeOption,
    KeyOption,
    LabelOption,
    LimitOption,
    LocalOption,
    ModelOption,
    NameOption,
    OnOption,
    OutOption,
    ReferenceOption,
    SampleOption,
    SeedOption,
    SetOption,
    SourceArgument,
    check_place,
    named_run,
    same_command,
    sample_of,
    say,
)
from .show import current_report, print_report

ASK_ABOVE_USD = 1.0
ASK_ABOVE_CALLS = 10_000
"""On a terminal `run` asks above this estimate; the second where a model has no price."""


def run(
    source: SourceArgument,
    judge: JudgeOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    api_key_env: KeyOption = None,
    reference: ReferenceOption = None,
    on: OnOption = None,
    field: FieldOption = None,
    label: LabelOption = None,
    name: NameOption = None,
    batch: BatchOption = None,
    overrides: SetOption = None,
    out: OutOption = None,
    limit: LimitOption = None,
    sample: SampleOption = None,
    seed: SeedOption = None,
    address: Annotated[str | None, typer.Option(help="Judge on the Ray cluster at this address.")] = None,
    local: LocalOption = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before spending.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log events of the work to stderr.")] = False,
) -> None:
    """Judge the items of a config, or items files by judges and models given here; the same command resumes."""
    from runner.log import configure
    from runner.session.session import Session, missing_keys

    configure("debug" if verbose else None)
    check_place(local, address)
    adhoc = Adhoc(judge, model, base_url, api_key_env, reference, on, field, label, name, batch)
    wanted = named_run(source, adhoc, overrides, out)
    config, directory = wanted.config, wanted.directory
    drawn = sample_of(config, limit, sample, seed)
    stopped: JuryboxError | None = None
    # A judge's own code may print; stdout carries the result.
    with (
        show_stops(directory, as_json),
        redirect_stdout(sys.stderr),
        Session(config, wanted.base, directory, limit=limit, sample=drawn) as session,
    ):
        plan = session.plan()
        if session.publishing.restored is not None:
            say(session.publishing.restored.text, quiet)
        told = len(session.revising.made)
        for revision in session.revising.made:
            say(revision.text(), quiet)
        if plan.complete:
            say(f"nothing to do: all {plan.trials:,} trials are judged", quiet)
        else:
            if address is None and (problems := missing_keys(config)):
                raise InputError(problems[0])
            say(summary(plan), quiet)
            confirm(plan, yes)
            stopped = judge_run(session, plan, address=address, local=local, quiet=quiet)
        report = finish_run(session, stopped)
    for revision in session.revising.made[told:]:
        say(revision.text(), quiet)
    stopped = describe_published(session, stopped, quiet)
    command = None if stopped is None else f"{same_command()}  # goes on with the run"
    print_report(report, as_json, next_command=command)
    if stopped is not None:
        raise stopped
    if report.over_limit:
        raise typer.Exit(3)


def plan(
    source: SourceArgument,
    judge: JudgeOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    api_key_env: KeyOption = None,
    reference: ReferenceOption = None,
    on: OnOption = None,
    field: FieldOption = None,
    label: LabelOption = None,
    name: NameOption = None,
    batch: BatchOption = None,
    overrides: SetOption = None,
    out: OutOption = None,
    limit: LimitOption = None,
    sample: SampleOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run would judge and cost, and one rendered prompt per template; no call is made."""
    from runner.session.dry_run import preview

    adhoc = Adhoc(judge, model, base_url, api_key_env, reference, on, field, label, name, batch)
    wanted = named_run(source, adhoc, overrides, out)
    drawn = sample_of(wanted.config, limit, sample, seed)
    shown = preview(wanted.config, wanted.base, wanted.directory, limit, drawn)
    typer.echo(json.dumps(shown.document(), ensure_ascii=False, indent=2) if as_json else shown.text())


def try_(
    source: SourceArgument,
    item: Annotated[
        str | None, typer.Option(metavar="ID", help="The item; by default, for each judge, the first it takes.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of a config only this judge; else as for run; repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of a config only this model; else as for run; repeatable."),
    ] = None,
    base_url: BaseUrlOption = None,
    api_key_env: KeyOption = None,
    reference: ReferenceOption = None,
    on: OnOption = None,
    field: FieldOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make one real call per judge and model, and show the prompt, the reply and how it was read; nothing is kept."""
    import asyncio

    from judges import Scored
    from runner.log import configure
    from runner.session.session import load_judges
    from runner.session.single_call import describe_failure, try_once

    configure(None)
    from_config = any(path.endswith(CONFIG_ENDINGS) for path in source)
    adhoc = Adhoc(
        judge=None if from_config else judge,
        model=None if from_config else model,
        base_url=base_url,
        api_key_env=api_key_env,
        reference=reference,
        on=on,
        field=field,
    )
    wanted = named_run(source, adhoc, overrides, None)
    judges = load_judges(wanted.config, wanted.base)
    select = {"judge": judge or (), "model": model or ()} if from_config else {}
    tried = asyncio.run(try_once(wanted.config, judges, wanted.base, item_id=item, **select))
    if as_json:
        typer.echo(json.dumps({"tried": [each.document() for each in tried]}, ensure_ascii=False))
    else:
        typer.echo("\n\n".join(each.text() for each in tried))
    if (error := describe_failure(tried)) is not None:
        raise error
    if any(not isinstance(each.reading, Scored) for each in tried):
        raise typer.Exit(3)


def judge_run(session: Any, plan: Any, *, address: str | None, local: bool, quiet: bool) -> JuryboxError | None:
    """Judge what the plan leaves to do, with progress on stderr; why it stopped before the end, if it did."""
    from runner.session.progress import Progress
    from runner.session.session import local_pool, ray_pool

    accounts = {model.name: model.account_name for model in session.config.models}
    with Progress(quiet=quiet, accounts=accounts) as progress:
        try:
            session.judge(
                plan,
                make_pool=lambda: local_pool(session) if local else ray_pool(session, address),
                watch=progress.update,
            )
        except InputError:
            raise
        except JuryboxError as error:
            return error
    return None


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


def finish_run(session: Any, stopped: JuryboxError | None) -> Any:
    """The report, after everything judged is published."""
    try:
        return session.finish()
    except JuryboxError as error:
        # The ledger is whole either way; why the judging stopped comes before why it cannot be published.
        raise stopped or error from None


def describe_published(session: Any, stopped: JuryboxError | None, quiet: bool) -> JuryboxError | None:
    """Say where the results are published; why the command stopped, be it that not all of them are."""
    if session.publishing.trouble is None:
        if session.publishing.published is not None:
            say(f"published: {session.publishing.published}", quiet)
        return stopped
    if stopped is not None:
        say(session.publishing.trouble)
        return stopped
    return StoppedEarly(session.publishing.trouble)


def summary(plan: Any) -> str:
    """Trials, already done and the estimate: what stands before the first paid call."""
    lines = [f"{plan.trials:,} trials, {plan.judged:,} already judged, {plan.trials - plan.judged:,} to judge"]
    if plan.again:
        lines[0] += f", and {plan.again:,} to judge again"
    if plan.carried is not None:
        lines[0] += f" ({plan.carried:,} kept of an earlier plan)"
    for entry in plan.estimates:
        if entry.requests:
            price = "no price given" if entry.usd is None else f"at most {_usd(entry.usd)} if none is repeated"
            lines.append(
                f"  {entry.judge} × {entry.model}: {entry.calls}, "
                f"~{entry.input_tokens:,} tokens in, ≤ {entry.output_tokens:,} out, {price}"
            )
    return "\n".join(lines)


def confirm(plan: Any, yes: bool) -> None:
    """Ask on a terminal before much is spent."""
    if yes or not sys.stdin.isatty():
        return
    unpriced = sum(entry.requests for entry in plan.estimates if entry.usd is None)
    usd = sum(entry.usd or 0.0 for entry in plan.estimates)
    if usd > ASK_ABOVE_USD or unpriced > ASK_ABOVE_CALLS:
        typer.confirm("Go on?", abort=True, err=True)


def _usd(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.01 else f"${value:.5f}"
