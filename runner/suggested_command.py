"""A command as it is suggested to a person: quoted, and under the name by which this one was started."""

import shlex
import shutil
import sys
from os import PathLike, fspath
from pathlib import Path


def suggest(*words: str | PathLike[str]) -> str:
    """The `jurybox` command with these words, so that it can be typed as it stands."""
    return f"{_program()} {shlex.join(fspath(word) for word in words)}"


def program(started_as: str, on_path: str | None) -> str:
    """What to type for `jurybox`. `started_as`: the first word of this process; `on_path`: what a shell finds."""
    path = Path(started_as)
    if path.name == "jurybox.py":
        return "python -m jurybox"
    if path.name != "jurybox" or (on_path is not None and path.resolve() == Path(on_path).resolve()):
        return "jurybox"
    return shlex.quote(started_as)


def _program() -> str:
    return program(sys.argv[0], shutil.which("jurybox"))
