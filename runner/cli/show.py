"""`jurybox status`, `report` and `export`: what looks at a run and changes nothing."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from runner.errors import InputError, JuryboxError

from .options import JsonOption, RunArgument, run_directory, say


def status(run: RunArgument, as_json: JsonOption = False) -> None:
    """How far a run is, also while it works."""
    from runner.session.run_status import status_of

    counts = status_of(run_directory(run))
    typer.echo(json.dumps(counts.document(), ensure_ascii=False) if as_json else counts.text())


def report(
    run: RunArgument,
    as_json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all of it as Markdown.")] = False,
    section: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Print this section only; repeatable.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every section.")] = False,
) -> None:
    """Print a run's report, finished or not: the screen that `run` ends with, or what stands behind it."""
    from runner.session.run_status import open_run

    if as_json + markdown + full + (section is not None) > 1:
        raise InputError("--json, --markdown, --section and --full exclude each other")
    with open_run(run_directory(run)) as opened:
        print_report(opened.report(), as_json, markdown, section or (), full)


def export(
    run: RunArgument,
    format: Annotated[Literal["jsonl", "csv", "parquet", "longmemeval"], typer.Option(help="Format of the rows.")],
    to: Annotated[Path | None, typer.Option(help="File to write; by default stdout.")] = None,
    judge: Annotated[str | None, typer.Option(help="Only this judge.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    system: Annotated[str | None, typer.Option(help="Only this system.")] = None,
    state: Annotated[
        str | None, typer.Option(metavar="STATE,…", help="Only trials that ended so; several by commas.")
    ] = None,
    reading: Annotated[
        Literal["strict", "official"], typer.Option(help="For longmemeval: which reading is the label.")
    ] = "strict",
    no_texts: Annotated[
        bool, typer.Option("--no-texts", help="Leave out the texts of items and replies, which are most of the bytes.")
    ] = False,
) -> None:
    """Write a run's judgments as rows, with their items."""
    from runner.publishing.export import Selection, export_results
    from runner.session.run_status import open_run

    states = () if state is None else tuple(part.strip() for part in state.split(","))
    with open_run(run_directory(run)) as opened:
        parts = opened.config, opened.judges, opened.staged, opened.ledger
        select = Selection(judge, model, system, states)
        written = export_results(*parts, format=format, to=to, select=select, reading=reading, texts=not no_texts)
    left_out = f", {written.left_out:,} without a verdict left out" if written.left_out else ""
    say(f"{written.rows:,} rows written{left_out}")


def current_report(directory: Path) -> Any:
    """The report of a run that came to no end, or None where there is none yet or it cannot be read."""
    from runner.session.run_status import open_run

    with suppress(JuryboxError), open_run(directory) as opened:
        # Half of a plan has other items than judgments.
        if opened.ledger.meta("plan"):
            return opened.report()
    return None


def print_report(
    report: Any,
    as_json: bool,
    markdown: bool = False,
    section: Sequence[str] = (),
    full: bool = False,
    next_command: str | None = None,
) -> None:
    """Print a report on stdout; plain text where NO_COLOR says so."""
    from rich.console import Console

    from runner.report import to_json, to_markdown
    from runner.report.terminal import to_terminal

    if as_json:
        typer.echo(json.dumps(to_json(report), ensure_ascii=False))
    elif markdown:
        typer.echo(to_markdown(report))
    else:
        console = Console(color_system=None if os.environ.get("NO_COLOR") else "auto")
        to_terminal(report, console, section, full, next_command)
