"""`jurybox read`: how a reply is read, without a run and without a call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .options import say


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
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help='Read lines {"text", "judge", "count", "finish_reason"}; one line for each.')
    ] = False,
) -> None:
    """Read a judge's reply on stdin, and print as one JSON object how jurybox reads it; no call is made."""
    from judges import JudgeError, Reply, load_judge

    from ..readback import Reader, Usual, count_fault, lines_read, written
    from ..rows import MAX_RECORD_BYTES

    try:
        reader = None if judge is None else Reader(load_judge(judge, Path()))
    except JudgeError as error:
        raise InputError(str(error)) from None
    if count is not None and (fault := count_fault(count, reader.judge if reader and not jsonl else None)):
        raise InputError(f"--count {count}: {fault}")
    out = sys.stdout.buffer
    if jsonl:
        for block in lines_read(sys.stdin.buffer, Usual(reader, count, finish_reason)):  # type: ignore[arg-type]
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
    answer = reader.read(Reply(text, finish_reason), count or 1)
    out.write(written(answer) + b"\n")
    out.flush()
