"""The `jurybox` command: its commands put together, and the exit status each ending means.

stdout carries the result; logs and progress go to stderr. Errors of the user's or the endpoint's are one clear line;
only bugs show a traceback.
"""

from __future__ import annotations

from typing import NoReturn

import typer

from .command.judging import plan, run, try_
from .command.knowing import init, judges
from .command.looking import export, report, status
from .command.reading import read
from .command.revising import rescore, retry
from .disk import is_full
from .errors import DiskFull, Interrupted, JuryboxError
from .interrupts import leave_alone, take_signals
from .simulate.command import simulate

app = typer.Typer(
    name="jurybox",
    help="Judge millions of model answers with LLM judges on a Ray cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

app.command()(run)
app.command()(plan)
app.command("try")(try_)
app.command()(init)
app.command()(status)
app.command()(report)
app.command()(export)
app.command()(read)
app.command()(rescore)
app.command()(retry)
app.command()(judges)
app.command()(simulate)


def main() -> None:
    """Entry point of the command."""
    take_signals()
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
        raise SystemExit(0) from None
    except SystemExit as left:
        # The reader of our output has had enough (`jurybox report | head`); Typer's way with that is `sys.exit(1)`.
        raise SystemExit(0 if isinstance(left.__context__, BrokenPipeError) else left.code) from None
    except Exception as error:
        if is_full(error):
            _fail(DiskFull(f"{getattr(error, 'filename', None) or 'output'}: nothing more can be written ({error})"))
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        raise SystemExit(2) from None
    if status == Interrupted.exit_status:
        # Typer's own way with Ctrl-C, which says nothing.
        _fail(Interrupted("interrupted; run the same command to go on"))
    leave_alone()
    raise SystemExit(status if isinstance(status, int) else 0)


def _fail(error: JuryboxError) -> NoReturn:
    leave_alone()
    typer.echo(f"jurybox: {error.message}", err=True)
    raise SystemExit(error.exit_status)


__all__ = ["app", "main"]
