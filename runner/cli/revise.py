"""`jurybox rescore` and `retry`: what makes a new revision of a run's judgments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.errors import InputError
from runner.suggested_command import suggest

from .options import (
    AddressOption,
    JsonOption,
    LocalOption,
    QuietOption,
    RunArgument,
    VerboseOption,
    YesOption,
    check_place,
    run_directory,
    same_command,
    say,
)
from .run import approve, conclude, describe_published, judge_and_finish

if TYPE_CHECKING:
    from runner.session.session import Session

RETRIED = ("malformed", "failed", "refused", "poisoned")

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="The run's config; by default what the directory holds of it is enough.")
]


def rescore(run: RunArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Read all stored replies again with today's reader, as a new revision; no call is made."""
    from judges import PARSER_VERSION
    from runner.log import configure
    from runner.session.session import reopen

    configure(None)
    with reopen(run_directory(run), config) as session:
        before = _print_revisions(session)
        changes = session.rescore()
        report = session.finish()
    details = {"parser_version": PARSER_VERSION} | changes.document()
    _print_outcome(session, before, details if as_json else None, f", read by parser {PARSER_VERSION}")
    stopped = describe_published(session, None, quiet=False)
    say(f"next: {suggest('report', session.run.path)}")
    if stopped is not None:
        raise stopped
    if report.finished and report.needs_attention:
        raise typer.Exit(3)


def retry(
    run: RunArgument,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE,…", help=f"Which trials: those that ended {', '.join(RETRIED)}; several by commas."
        ),
    ],
    judge: Annotated[str | None, typer.Option(help="Only of this judge.")] = None,
    model: Annotated[str | None, typer.Option(help="Only of this model.")] = None,
    config: ConfigOption = None,
    address: AddressOption = None,
    local: LocalOption = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Judge trials that ended without a score again, as a new revision; until then their judgments stand.

    What the run has not judged yet is judged along with them.
    """
    from runner.log import configure
    from runner.session.planning import plan_retry
    from runner.session.session import reopen

    configure("debug" if verbose else None)
    check_place(local, address)
    states = _states(state)
    with reopen(run_directory(run), config, asks=True) as session:
        before = _print_revisions(session, quiet)
        for kind, name, place in (("judge", judge, 0), ("model", model, 1)):
            names = sorted({judge_model[place] for judge_model in session.judge_models})
            if name is not None and name not in names:
                raise InputError(f"--{kind} {name}: the run has {', '.join(names)}")
        plan = plan_retry(session, states, judge, model, begin=False)
        again = plan.again
        if plan.complete:
            say(f"nothing to do: no trial is {' or '.join(states)}", quiet)
        else:
            approve(session, plan, address=address, yes=yes, quiet=quiet)
            plan = plan_retry(session, states, judge, model, begin=True)
        stopped, report = judge_and_finish(session, plan, address=address, local=local, quiet=quiet)
    made = session.revisions.new[before:]
    changes = made[-1].document() if made else {"changed": 0, "unchanged": 0, "judge_models": [], "changes": []}
    _print_outcome(session, before, {"retried": again} | changes if as_json else None)
    stopped = describe_published(session, stopped, quiet)
    command = suggest("report", session.run.path) if stopped is None else f"{same_command()}  # goes on with the rest"
    say(f"next: {command}", quiet)
    conclude(stopped, report)


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


def _print_revisions(session: Session, quiet: bool = False) -> int:
    """Say what an interrupted retry had brought, and has taken effect now; how many revisions that made."""
    for revision in session.revisions.new:
        say(revision.text(), quiet)
    return len(session.revisions.new)


def _print_outcome(session: Session, before: int, details: dict[str, Any] | None, reader: str = "") -> None:
    """Print the new revision, if any came after the first so many; with details as JSON."""
    from runner.session.run_status import status_of

    revisions, directory = session.revisions.new, session.run.path
    number = revisions[-1].number if revisions else status_of(directory).revision
    is_new = len(revisions) > before
    if details is not None:
        head = {"run": session.config.name, "directory": str(directory), "revision": number, "new": is_new}
        typer.echo(json.dumps(head | details, ensure_ascii=False))
    else:
        typer.echo(revisions[-1].text() if is_new else f"nothing changed: revision {number} stands{reader}")
