"""The `jurybox` command: its commands put together, and the exit status each ending means.

stdout carries the result; logs and progress go to stderr. Errors of the user's or the endpoint's are one clear line;
only bugs show a traceback.
"""

import os
import sys
from io import TextIOWrapper
from pathlib import Path

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

app = typer.Typer(
    name="jurybox",
    help="Judge millions of model answers with LLM judges on a Ray cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

for command in (run, plan, try_, init, status, report, export, read, rescore, retry, judges, schema, simulate):
    app.command(command.__name__.rstrip("_"))(command)


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
