"""The `jurybox` command: words, confirmation and exit status around a session.

stdout carries the result; logs and progress go to stderr. Errors of the user's or the endpoint's are one clear line;
only bugs show a traceback.
"""

from __future__ import annotations

import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from .errors import InputError, Interrupted, JuryboxError
from .simulate.command import simulate

ASK_ABOVE_USD = 1.0
ASK_ABOVE_TRIALS = 10_000
"""On a terminal `run` asks above this estimate; the second where a model has no price."""

app = typer.Typer(
    name="jurybox",
    help="Judge millions of model answers with LLM judges on a Ray cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

ConfigArgument = Annotated[Path, typer.Argument(help="The run's YAML config.", show_default=False)]
RunArgument = Annotated[Path, typer.Argument(help="A run's directory.", show_default=False)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Override a key of the config; repeatable.")
]
OutOption = Annotated[Path | None, typer.Option(help="The run's directory, instead of the config's `out`.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Judge only the first N items.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document.")]


class ExportFormat(StrEnum):
    """The formats of `jurybox export`."""

    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"
    longmemeval = "longmemeval"


class Reading(StrEnum):
    """Which reading of the replies is exported as the label."""

    strict = "strict"
    official = "official"


def main() -> None:
    """Entry point of the command."""
    # As Ctrl-C: before the judging begins and after it has ended; the driver has a way of its own in between.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Outside its standalone mode Typer returns what `typer.Exit` was given instead of ending the process with it.
        status = app(standalone_mode=False)
    except typer.Abort:
        _fail(Interrupted("nothing was started"))
    except KeyboardInterrupt:
        _fail(Interrupted("interrupted; run the same command to go on"))
    except JuryboxError as error:
        _fail(error)
    except BrokenPipeError:
        # The reader of our output has had enough (`jurybox report | head`).
        sys.stderr.close()
        raise SystemExit(0) from None
    except Exception as error:
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        raise SystemExit(2) from None
    raise SystemExit(status if isinstance(status, int) else 0)


def _fail(error: JuryboxError) -> NoReturn:
    typer.echo(f"jurybox: {error.message}", err=True)
    raise SystemExit(error.exit_status)


def _say(text: str, quiet: bool = False) -> None:
    if not quiet:
        typer.echo(text, err=True)


@app.command()
def run(
    config: ConfigArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    limit: LimitOption = None,
    address: Annotated[str | None, typer.Option(help="Judge on the Ray cluster at this address.")] = None,
    local: Annotated[bool, typer.Option("--local", help="Judge in this process, without Ray.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before spending.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log events of the work to stderr.")] = False,
) -> None:
    """Judge the items of a config; the same command resumes."""
    from .log import configure
    from .progress import Progress
    from .session import Session, local_pool, missing_keys, ray_pool

    configure("debug" if verbose else None)
    if local and address:
        raise InputError("--local and --address exclude each other")
    parsed, base, directory = _config(config, overrides, out)
    stopped: JuryboxError | None = None
    with Session(parsed, base, directory, limit=limit) as session:
        plan = session.prepare()
        if plan.complete:
            _say(f"nothing to do: all {plan.trials:,} trials are judged", quiet)
        else:
            if address is None and (problems := missing_keys(parsed)):
                raise InputError(problems[0])
            _say(_summary(plan), quiet)
            _confirm(plan, yes)
            with Progress(quiet=quiet, accounts={m.name: m.account_name for m in parsed.models}) as progress:
                try:
                    session.judge(
                        plan,
                        make_pool=lambda: local_pool(session) if local else ray_pool(session, address),
                        watch=progress.update,
                    )
                except InputError:
                    raise
                except JuryboxError as error:
                    stopped = error
        try:
            report = session.finish()
        except JuryboxError as error:
            # The ledger is whole either way; why the judging stopped comes before why it cannot be published.
            raise stopped or error from None
    _show(report, as_json)
    command = f"jurybox report {directory}" if stopped is None else "the same command goes on with the run"
    _say(f"next: {command}", quiet)
    if stopped is not None:
        raise stopped
    if report.over_limit:
        raise typer.Exit(3)


@app.command()
def plan(
    config: ConfigArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run would judge and cost, and one rendered prompt per template; no call is made."""
    import json

    from .preview import preview

    parsed, base, directory = _config(config, overrides, out)
    shown = preview(parsed, base, directory, limit)
    typer.echo(json.dumps(shown.document(), ensure_ascii=False, indent=2) if as_json else shown.text())


@app.command()
def status(run_directory: RunArgument, as_json: JsonOption = False) -> None:
    """How far a run is, also while it works."""
    import json

    from .open_run import status_of

    counts = status_of(run_directory)
    typer.echo(json.dumps(counts.document(), ensure_ascii=False) if as_json else counts.text())


@app.command()
def report(
    run_directory: RunArgument,
    as_json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Print a run's report, finished or not."""
    from .open_run import open_run

    if as_json and markdown:
        raise InputError("--json and --markdown exclude each other")
    with open_run(run_directory) as opened:
        _show(opened.report(), as_json, markdown)


@app.command()
def export(
    run_directory: RunArgument,
    format: Annotated[ExportFormat, typer.Option(help="Format of the rows.")],
    to: Annotated[Path | None, typer.Option(help="File to write; by default stdout.")] = None,
    judge: Annotated[str | None, typer.Option(help="Only this judge.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    system: Annotated[str | None, typer.Option(help="Only this system.")] = None,
    reading: Annotated[Reading, typer.Option(help="For longmemeval: which reading is the label.")] = Reading.strict,
) -> None:
    """Write a run's judgments as rows."""
    from .export import Selection
    from .export import export as write
    from .open_run import open_run

    with open_run(run_directory) as opened:
        written = write(
            opened.config,
            opened.judges,
            opened.staged,
            opened.ledger,
            format=format.value,
            to=to,
            select=Selection(judge, model, system),
            reading=reading.value,
        )
    left_out = f", {written.left_out:,} without a verdict left out" if written.left_out else ""
    _say(f"{written.rows:,} rows written{left_out}")


@app.command()
def judges(name: Annotated[str | None, typer.Argument(help="A judge's name or path.")] = None) -> None:
    """List the judges; or print one, its schema and fingerprint."""
    from judges import JudgeError, library_names, load_judge

    from .catalog import describe, listing

    try:
        if name is None:
            typer.echo(listing([load_judge(known, Path()) for known in library_names()]))
        else:
            typer.echo(describe(load_judge(name, Path())))
    except JudgeError as error:
        raise InputError(str(error)) from None


app.command()(simulate)


def _config(path: Path, overrides: list[str] | None, out: Path | None) -> tuple[Any, Path, Path]:
    from .config import load_config

    parsed = load_config(path, overrides)
    return parsed, path.resolve().parent, out or Path(parsed.out or f"runs/{parsed.name}")


def _summary(plan: Any) -> str:
    """Trials, already done and the estimate: what stands before the first paid call."""
    lines = [f"{plan.trials:,} trials, {plan.judged:,} already judged, {plan.trials - plan.judged:,} to judge"]
    if plan.carried is not None:
        lines[0] += f" ({plan.carried:,} kept of an earlier plan)"
    for entry in plan.estimates:
        left = entry.trials - entry.done
        if left:
            price = "no price given" if entry.usd is None else f"at most {_usd(entry.usd)} at one call each"
            lines.append(
                f"  {entry.judge} × {entry.model}: {left:,} calls, "
                f"~{entry.input_tokens:,} tokens in, ≤ {entry.output_tokens:,} out, {price}"
            )
    return "\n".join(lines)


def _confirm(plan: Any, yes: bool) -> None:
    if yes or not sys.stdin.isatty():
        return
    unpriced = sum(entry.trials - entry.done for entry in plan.estimates if entry.usd is None)
    usd = sum(entry.usd or 0.0 for entry in plan.estimates)
    if usd > ASK_ABOVE_USD or unpriced > ASK_ABOVE_TRIALS:
        typer.confirm("Go on?", abort=True, err=True)


def _usd(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.01 else f"${value:.5f}"


def _show(report: Any, as_json: bool, markdown: bool = False) -> None:
    import json

    from rich.console import Console

    from .report import to_json, to_markdown, to_terminal

    if as_json:
        typer.echo(json.dumps(to_json(report), ensure_ascii=False))
    elif markdown:
        typer.echo(to_markdown(report))
    else:
        to_terminal(report, Console())


__all__ = ["app", "main"]
