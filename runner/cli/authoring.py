"""`jurybox judges`, `init`, `schema` and `read`: what helps to write a config or a judge, without a run or a call."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from runner.errors import InputError
from runner.suggested_command import suggest

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
    from runner.session.judge_catalog import (
        describe_judge,
        describe_reply,
        judge_document,
        list_judges,
        reply_places,
        summarize_judge,
    )

    try:
        loaded = [load_judge(each, Path()) for each in ([name] if name else library_names())]
    except JudgeError as error:
        raise InputError(str(error)) from None
    if reply is not None:
        if not name:
            raise InputError("--reply needs the NAME of the judge that reads it")
        places = reply_places(loaded[0], reply)
        typer.echo(json.dumps(places, ensure_ascii=False) if as_json else describe_reply(places))
    elif as_json:
        document = judge_document(loaded[0]) if name else [summarize_judge(judge) for judge in loaded]
        typer.echo(json.dumps(document, ensure_ascii=False))
    else:
        typer.echo(describe_judge(loaded[0]) if name else list_judges(loaded))


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
    from runner.items_config import Items
    from runner.session.init_config import draft
    from runner.session.inline_config import run_name
    from runner.session.json_schema import FILE_NAME, write_beside

    if items.endswith(CONFIG_ENDINGS):
        raise InputError(f"{items} is a config already; `{suggest('plan', items)}` shows what it would judge")
    if on and not reference:
        raise InputError("--on is the column by which --reference is joined")
    name = run_name([items])
    file = to or Path(f"{name}.yaml")
    if file.exists():
        raise InputError(f"{file}: exists already and is left alone; name another file with --to")
    source: dict[str, Any] = {"path": items}
    written: dict[str, Any] = {"path": _relative_path(file, items)}
    if reference:
        column = on or _common_column(source, reference)
        source["join"] = {"path": reference, "on": column}
        written["join"] = {"path": _relative_path(file, reference), "on": column}
    profile = profile_columns(Items.model_validate(source), Path())
    config = draft(profile, name, written, [load_judge(each, Path()) for each in library_names()])
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(f"# yaml-language-server: $schema={FILE_NAME.format('config')}\n{config.text}")
        is_current = write_beside(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None
    typer.echo(str(file))
    say(f"{profile.size} looked at; the judge is {config.judge}. Every choice is a guess: look at each line")
    for left_out in profile.left_out:
        say(f"left out: {left_out} holds log-likelihoods and no answers")
    if config.missing:
        remedy = "" if reference else "; name it, or join a file that holds it with --reference"
        say(f"missing: no column looks like {' or '.join(config.missing)}{remedy}")
    if not is_current:
        old = file.parent / FILE_NAME.format("config")
        say(f"{old} is another version's; `{suggest('schema', 'config', '--to', old)}` writes it anew")
    say(f"next: {suggest('plan', file)}")


def schema(
    kind: Annotated[
        Literal["config", "judge"], typer.Argument(help="A run's config, or a judge's file.", show_default=False)
    ],
    to: Annotated[Path | None, typer.Option(help="The file to write; by default stdout.")] = None,
) -> None:
    """Print the JSON Schema of a config or of a judge's file, by which an editor completes and checks its keys."""
    from runner.session.json_schema import schema_text

    text = schema_text(kind)
    if to is None:
        typer.echo(text, nl=False)
        return
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{to}: cannot be written: {error.strerror}") from None
    typer.echo(str(to))


def _common_column(items: dict[str, Any], reference: str) -> str:
    from runner.dataset import item_sources, reference_sources
    from runner.dataset.column_profile import common_columns
    from runner.items_config import Items

    joined = Items.model_validate({**items, "join": {"path": reference, "on": ""}})
    columns = common_columns(item_sources(joined, Path()), reference_sources(joined, Path()))
    if len(columns) != 1:
        problem = f"could be {' or '.join(columns)}"
        if not columns:
            problem = "is not to be seen: no column that both have tells its rows apart"
        raise InputError(f"--reference {reference}: the column to join by {problem}; name it with --on")
    return columns[0]


def _relative_path(file: Path, path: str) -> str:
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
    from runner.session.reply_reader import Reader, ReplyDefaults, as_json, count_fault, read_lines

    try:
        reader = None if judge is None else Reader(load_judge(judge, Path()))
    except JudgeError as error:
        raise InputError(str(error)) from None
    if count is not None and (fault := count_fault(count, reader.judge if reader and not jsonl else None)):
        raise InputError(f"--count {count}: {fault}")
    out = sys.stdout.buffer
    if jsonl:
        for line in read_lines(sys.stdin.buffer, ReplyDefaults(reader, count, finish_reason)):
            out.write(line)
            out.flush()
        return
    if reader is None:
        raise InputError(f"--judge NAME must say who reads the reply; `{suggest('judges')}` lists the judges")
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
