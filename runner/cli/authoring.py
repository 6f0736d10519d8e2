"""`jurybox judges` and `init`: which judges there are, and a first config for a file.

`jurybox read`: how a reply is read, without a run and without a call.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from runner.errors import InputError

from .options import CONFIG_ENDINGS, JsonOption, say


def judges(
    name: Annotated[str | None, typer.Argument(help="A judge's name, or the path of its file.")] = None,
    reply: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show where in this reply verdicts stand, and what is read.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the judges; or print one: its prompts, how replies are read, schema, notes and fingerprint."""
    from judges import JudgeError, library_names, load_judge
    from runner.session.judge_catalog import describe, describe_reply, description, listing, reply_places, summary

    try:
        found = [load_judge(known, Path()) for known in ([name] if name else library_names())]
    except JudgeError as error:
        raise InputError(str(error)) from None
    if reply is not None:
        if not name:
            raise InputError("--reply needs the NAME of the judge that reads it")
        places = reply_places(found[0], reply)
        typer.echo(json.dumps(places, ensure_ascii=False) if as_json else describe_reply(places))
    elif as_json:
        typer.echo(
            json.dumps(description(found[0]) if name else [summary(judge) for judge in found], ensure_ascii=False)
        )
    else:
        typer.echo(describe(found[0]) if name else listing(found))


def init(
    items: Annotated[
        str, typer.Argument(metavar="ITEMS", help="The items to look at: a path, glob or URL.", show_default=False)
    ],
    to: Annotated[Path | None, typer.Option(help="The file to write; by default named like the items.")] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with questions and references to join to the items.")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column by which it is joined; by default the one that both have."),
    ] = None,
) -> None:
    """Look at an items file and write a commented config for it; an existing file is left alone."""
    from judges import library_names, load_judge
    from runner.dataset.column_profile import profile_columns
    from runner.session.init_config import draft
    from runner.session.inline_config import run_name

    if items.endswith(CONFIG_ENDINGS):
        raise InputError(f"{items} is a config already; `jurybox plan {items}` shows what it would judge")
    if on and not reference:
        raise InputError("--on is the column by which --reference is joined")
    name = run_name([items])
    file = to or Path(f"{name}.yaml")
    if file.exists():
        raise InputError(f"{file}: exists already and is left alone; name another file with --to")
    named = {"path": items}
    join = {"path": reference, "on": on or _common(named, reference)} if reference else None
    seen = profile_columns(_items({**named, **({"join": join} if join else {})}), Path())
    written: dict[str, Any] = {"path": _from(file, items)}
    if join and reference:
        written["join"] = {"path": _from(file, reference), "on": join["on"]}
    made = draft(seen, name, written, [load_judge(known, Path()) for known in library_names()])
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(made.text)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None
    typer.echo(str(file))
    say(f"{seen.size} looked at; the judge is {made.judge}. Every choice is a guess: look at each line")
    for left_out in seen.left_out:
        say(f"left out: {left_out} holds log-likelihoods and no answers")
    if made.missing:
        way = "" if reference else "; name it, or join a file that holds it with --reference"
        say(f"missing: no column looks like {' or '.join(made.missing)}{way}")
    say(f"next: jurybox plan {file}")


def _items(data: dict[str, Any]) -> Any:
    from runner.config import Items

    return Items.model_validate(data)


def _common(items: dict[str, Any], reference: str) -> str:
    from runner.dataset.column_profile import common_columns
    from runner.dataset.sources import item_sources, reference_sources

    own = item_sources(_items(items), Path())
    joined = reference_sources(_items({**items, "join": {"path": reference, "on": ""}}), Path())
    found = common_columns(own, joined)
    if len(found) != 1:
        known = (
            f"could be {' or '.join(found)}"
            if found
            else "is not to be seen: no column that both have tells its rows apart"
        )
        raise InputError(f"--reference {reference}: the column to join by {known}; name it with --on")
    return found[0]


def _from(file: Path, path: str) -> str:
    """A path of the command line as the config has to write it: relative to the config's folder."""
    if "://" in path or path.startswith("hf:") or Path(path).is_absolute():
        return path
    return os.path.relpath(path, file.parent)


def read(
    judge: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A judge's name, or the path of its file; with --jsonl, of lines without."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Scores that the reply is to hold, of a list of scores.")
    ] = None,
    finish_reason: Annotated[
        str, typer.Option(metavar="R", help="The finish_reason that the endpoint gave with the reply.")
    ] = "stop",
    response: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The response under judgment: a line of it is no verdict.")
    ] = None,
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl", help='Read lines {"text", "judge", "count", "finish_reason", "response"}; one line for each.'
        ),
    ] = False,
) -> None:
    """Read a judge's reply on stdin, and print as one JSON object how jurybox reads it; no call is made."""
    from judges import JudgeError, Reply, load_judge
    from runner.dataset.files import MAX_RECORD_BYTES
    from runner.session.reply_reader import Reader, ReplyDefaults, as_json, count_fault, lines_read

    try:
        reader = None if judge is None else Reader(load_judge(judge, Path()))
    except JudgeError as error:
        raise InputError(str(error)) from None
    if count is not None and (fault := count_fault(count, reader.judge if reader and not jsonl else None)):
        raise InputError(f"--count {count}: {fault}")
    out = sys.stdout.buffer
    if jsonl:
        for block in lines_read(sys.stdin.buffer, ReplyDefaults(reader, count, finish_reason)):  # type: ignore[arg-type]
            out.write(block)
            out.flush()
        return
    if reader is None:
        raise InputError("--judge NAME must say who reads the reply; `jurybox judges` lists the judges")
    if sys.stdin.isatty():
        say("the reply, please; an end of file (Ctrl-D) ends it")
    data = sys.stdin.buffer.read(MAX_RECORD_BYTES + 1)
    if len(data) > MAX_RECORD_BYTES:
        raise InputError(f"the reply is longer than {MAX_RECORD_BYTES >> 20} MiB")
    # The last line break is the shell's, as in `echo yes | jurybox read`.
    text = data.removesuffix(b"\n").decode("utf-8", "replace")
    answer = reader.read(Reply(text, finish_reason, judged=(response,) if response else ()), count or 1)
    out.write(as_json(answer) + b"\n")
    out.flush()
