"""`jurybox rescore` and `retry`: what makes a new revision of a run's judgments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from runner.errors import InputError, JuryboxError

from .options import JsonOption, LocalOption, RunArgument, check_place, same_command, say
from .run import confirm, describe_published, finish_run, judge_run, summary

RETRIED = ("malformed", "failed", "refused", "poisoned")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The run's config; by default what the directory holds of it is enough."),
]


def rescore(run_directory: RunArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Read all stored replies again with today's reader, as a new revision; no call is made."""
    from judges import PARSER_VERSION
    from runner.log import configure
    from runner.session.reopen import reopen

    configure(None)
    with reopen(run_directory, config) as session:
        session.reopen()
        _tell(session.revising.made)
        before = len(session.revising.made)
        changes = session.rescore()
        report = session.finish()
    made = session.revising.made[before:]
    number = session.revising.made[-1].number if session.revising.made else _present(run_directory)
    if as_json:
        document = {"run": session.config.name, "directory": str(run_directory), "revision": number, "new": bool(made)}
        _print(document | {"parser_version": PARSER_VERSION} | changes.document())
    elif made:
        typer.echo(made[-1].text())
    else:
        typer.echo(f"nothing changed: revision {number} stands, read by parser {PARSER_VERSION}")
    stopped = describe_published(session, None, quiet=False)
    say(f"next: jurybox report {run_directory}")
    if stopped is not None:
        raise stopped
    if report.complete and report.over_limit:
        raise typer.Exit(3)


def retry(
    run_directory: RunArgument,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE,…", help=f"Which trials: those that ended {', '.join(RETRIED)}; several by commas."
        ),
    ],
    judge: Annotated[str | None, typer.Option(help="Only of this judge.")] = None,
    model: Annotated[str | None, typer.Option(help="Only of this model.")] = None,
    config: ConfigOption = None,
    address: Annotated[str | None, typer.Option(help="Judge on the Ray cluster at this address.")] = None,
    local: LocalOption = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before spending.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log events of the work to stderr.")] = False,
) -> None:
    """Judge trials that ended without a score again, as a new revision; until then their judgments stand.

    What the run has not judged yet is judged along with them.
    """
    from runner.log import configure
    from runner.session.reopen import reopen
    from runner.session.session import missing_keys

    configure("debug" if verbose else None)
    check_place(local, address)
    states = _states(state)
    stopped: JuryboxError | None = None
    with reopen(run_directory, config, asks=True) as session:
        session.reopen()
        _tell(session.revising.made, quiet)
        before = len(session.revising.made)
        for kind, name, known in (("judge", judge, 0), ("model", model, 1)):
            names = sorted({pair[known] for pair in session.pairs})
            if name is not None and name not in names:
                raise InputError(f"--{kind} {name}: the run has {', '.join(names)}")
        plan = session.retry(states, judge, model, begin=False)
        again = plan.again
        if plan.complete:
            say(f"nothing to do: no trial is {' or '.join(states)}", quiet)
        else:
            if address is None and (problems := missing_keys(session.config)):
                raise InputError(problems[0])
            say(summary(plan), quiet)
            confirm(plan, yes)
            plan = session.retry(states, judge, model, begin=True)
            stopped = judge_run(session, plan, address=address, local=local, quiet=quiet)
        report = finish_run(session, stopped)
    made = session.revising.made[before:]
    number = session.revising.made[-1].number if session.revising.made else _present(run_directory)
    if as_json:
        told: dict[str, Any] = (
            made[-1].document() if made else {"changed": 0, "unchanged": 0, "judge_models": [], "changes": []}
        )
        document = {"run": session.config.name, "directory": str(run_directory), "revision": number, "new": bool(made)}
        _print(document | {"retried": again} | told)
    elif made:
        typer.echo(made[-1].text())
    else:
        typer.echo(f"nothing changed: revision {number} stands")
    stopped = describe_published(session, stopped, quiet)
    command = f"jurybox report {run_directory}" if stopped is None else f"{same_command()}  # goes on with the rest"
    say(f"next: {command}", quiet)
    if stopped is not None:
        raise stopped
    if report.over_limit:
        raise typer.Exit(3)


def _states(text: str) -> list[str]:
    states = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for state in states:
        if state == "scored":
            raise InputError("--state scored: what has a score is not judged again until another comes out")
        if state not in RETRIED:
            raise InputError(f"--state {state}: must be of {', '.join(RETRIED)}")
    if not states:
        raise InputError(f"--state: name one of {', '.join(RETRIED)}")
    return states


def _present(directory: Path) -> int:
    from runner.session.run_status import status_of

    return status_of(directory).revision


def _tell(revisions: list[Any], quiet: bool = False) -> None:
    """What an interrupted retry had brought, and has taken effect now."""
    for revision in revisions:
        say(revision.text(), quiet)


def _print(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, ensure_ascii=False))
