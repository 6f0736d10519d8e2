"""The `jurybox` command: its commands put together, and the exit status each ending means.

stdout carries the result; logs and progress go to stderr. Errors of the user's or the endpoint's are one clear line;
only bugs show a traceback.
"""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from runner.errors import DiskFull, Interrupted, JuryboxError
from runner.filesystem import is_full
from runner.signals import ignore_signals, install_handlers

from .authoring import init, judges, read, schema
from .options import say
from .revise import rescore, retry
from .run import plan, run, try_
from .show import export, report, status
from .simulate import simulate

AGAIN = "interrupted; run the same command to go on"
EXIT_STATUSES = {
    0: "complete",
    2: "the command, the config, a judge or an item is wrong; nothing was paid",
    3: "complete, but too many trials without a score",
    4: "stopped early; the same command goes on",
    5: "something only you can mend: a key, quota, model, or a judge's code",
    130: "interrupted; the same command goes on",
}
EXAMPLES: dict[Callable[..., None], str] = {
    init: "jurybox init answers.csv",
    plan: "jurybox plan answers.yaml",
    try_: "jurybox try answers.yaml --item q17",
    run: "jurybox run answers.yaml --sample 200",
    status: "jurybox status runs/answers",
    report: "jurybox report runs/answers --full",
    export: "jurybox export runs/answers --format csv --to judged.csv",
    retry: "jurybox retry runs/answers --state failed,refused",
    rescore: "jurybox rescore runs/answers",
    judges: "jurybox judges yes-no",
    schema: "jurybox schema judge --to judge.schema.json",
    read: "echo yes | jurybox read --judge yes-no",
    simulate: "jurybox simulate --port 8808 --latency-ms 20 --malformed 0.05",
}
"""The commands in the order of the work, with an example of each."""

app = typer.Typer(
    name="jurybox",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\n".join(
        [
            "Exit status:",
            *(f"{status:>3}  {meaning}" for status, meaning in EXIT_STATUSES.items()),
            "First steps:",
            *(f"  {EXAMPLES[each]}" for each in (init, plan, try_, run)),
        ]
    ),
)

for command, example in EXAMPLES.items():
    app.command(command.__name__.rstrip("_"), epilog=f"Example: {example}")(command)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=lambda value: _print_version(value), help="Print it.")
    ] = False,
) -> None:
    """Judge millions of model answers with LLM judges on a Ray cluster."""


def main() -> None:
    _open_streams()
    install_handlers()
    try:
        try:
            status = _status()
        finally:
            ignore_signals()
    except KeyboardInterrupt:
        status = _print_error(Interrupted(AGAIN))
    raise SystemExit(status)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"jurybox {version('jurybox')}")
        raise typer.Exit


def _status() -> int | str | None:
    try:
        # Outside its standalone mode Typer returns what `typer.Exit` was given instead of ending the process with it.
        status = app(standalone_mode=False)
    except typer.Abort:
        return _print_error(Interrupted("nothing was started"))
    except JuryboxError as error:
        return _print_error(error)
    except BrokenPipeError:
        return 0
    except SystemExit as left:
        # The reader of our output has had enough (`jurybox report | head`); Typer's way with that is `sys.exit(1)`.
        return 0 if isinstance(left.__context__, BrokenPipeError) else left.code
    except Exception as error:
        if is_full(error):
            place = getattr(error, "filename", None) or "output"
            return _print_error(DiskFull(f"{place}: nothing more can be written"))
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        return 2
    if status == Interrupted.exit_status:
        # Typer's own way with Ctrl-C, which says nothing.
        return _print_error(Interrupted(AGAIN))
    return status if isinstance(status, int) else 0


def _open_streams() -> None:
    """What is closed takes everything, and what is written is UTF-8 in any locale: results hold all the world's words.

    In the place of a closed stream the next file to be opened would stand, such as the ledger.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _print_error(error: JuryboxError) -> int:
    say(f"jurybox: {error.message}")
    return error.exit_status
