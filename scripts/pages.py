"""The README and docs/ as a reader goes through them: files to write, commands to type, outputs to see.

In a page's Markdown

    ```yaml title="mine.yaml"           is a file that the reader writes, and so is a block of any other language
    ```sh or ```console                 are commands; of the latter only the lines that begin with `$ `
    <!-- output 30 -->                  before a block of text: what the last command printed, of which 30 lines at most
    <!-- generated: NAME -->            up to <!-- end -->: what scripts/reference.py writes

`carry_out` goes through a page in a folder that holds nothing but `configs/`, beside a simulated endpoint.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAULTS = shlex.split("--latency-ms 20 --malformed 0.05 --server-errors 0.03 --resets 0.02 --throttled 0.05")
"""Of the endpoint that scripts/quickstart starts."""
ENDPOINTS = ("http://127.0.0.1:8808/v1", "https://api.openai.com/v1")
"""What pages and configs call the endpoint; in its place the simulated one is asked."""
NOT_RUN = {
    "scripts/test": "runs these tests",
    "scripts/check": "is run by itself",
    "pip install": "changes the environment",
    "jurybox simulate": "serves until it is ended; an endpoint is there",
    "export ": "sets what the tests set",
    "ray ": "starts a cluster",
}
"""Start of a command → why it is not carried out."""
COLUMNS = 80
_PART = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```$|^<!-- output (?P<lines>\d+) -->\n',
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """An output as a page shows it."""

    start: int
    end: int
    """Where its block stands in the page's text."""
    lines: int
    """Lines to be shown at most."""


Step = tuple[str, str] | str | Shown
"""A file (name, content), a command, or a place where the last command's output is shown."""


def pages() -> list[Path]:
    """The README and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def steps(text: str) -> Iterator[Step]:
    """What a reader of a page does and sees, in order."""
    shown: re.Match[str] | None = None
    for part in _PART.finditer(text):
        if part["lines"]:
            shown = part
        elif shown is not None:
            yield Shown(part.start(), part.end(), int(shown["lines"]))
            shown = None
        elif part["title"]:
            yield part["title"], part["code"]
        elif part["language"] in ("sh", "console"):
            lines = part["code"].replace("\\\n", " ").splitlines()
            if part["language"] == "console":
                lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            yield from (line for line in lines if shlex.split(line, comments=True))


def commands(text: str) -> list[str]:
    """The commands of a page that are carried out."""
    return [step for step in steps(text) if isinstance(step, str) and not step.startswith(tuple(NOT_RUN))]


class CommandFailed(Exception):
    """A command of a page did not end with 0."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that was carried out, or a place where a page shows the output of the one before it."""

    step: str | Shown
    printed: str
    """On stdout."""
    said: str
    """On stderr."""


def carry_out(text: str, folder: Path) -> list[Done]:
    """Write the files and type the commands of a page."""
    if not commands(text):
        return []
    shutil.copytree(ROOT / "configs", folder / "configs")
    found: list[Done] = []
    with ExitStack() as stack:
        url = stack.enter_context(_endpoint())
        for step in steps(text):
            if isinstance(step, Shown):
                found.append(replace(found[-1], step=step))
            elif isinstance(step, tuple):
                (folder / step[0]).write_text(step[1], encoding="utf-8")
            elif step.split()[0] == "scripts/quickstart":
                faulty = stack.enter_context(_endpoint(*FAULTS))
                command = f"jurybox run configs/quickstart.yaml --set models.0.base_url={faulty}"
                found.append(_run(command, folder, url))
            elif not step.startswith(tuple(NOT_RUN)):
                found.append(_run(step, folder, url))
    return found


def _run(line: str, folder: Path, url: str) -> Done:
    """Carry out a command; CommandFailed says how it failed."""
    if line.startswith("jurybox run") and "--address" not in line:
        # What Ray adds is tested on its own; here it would only take time.
        line = line.replace("jurybox run", f"jurybox run --yes{'' if ' --local' in line else ' --local'}", 1)
    for file in [*folder.glob("*.yaml"), *folder.glob("*.py"), *folder.glob("configs/*.yaml")]:
        file.write_text(_here(file.read_text(encoding="utf-8"), url), encoding="utf-8")
    done = subprocess.run(
        _here(line, url),
        shell=True,
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{_command(folder)}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "not-a-key",
            "COLUMNS": str(COLUMNS),
            "NO_COLOR": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise CommandFailed(f"{line}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    for written in re.findall(r"(?:--to|>) (\S+)", line):
        if not (folder / written).stat().st_size:
            raise CommandFailed(f"{line}\nleft {written} empty")
    return Done(line, "\n".join(text.rstrip() for text in done.stdout.rstrip().splitlines()), done.stderr)


def _here(text: str, url: str) -> str:
    for known in ENDPOINTS:
        text = text.replace(known, url)
    return text


def _command(folder: Path) -> Path:
    """A folder that holds the commands `jurybox` and `python`: this interpreter, this source."""
    place = folder / ".bin"
    if not place.is_dir():
        place.mkdir()
        for name, words in (("jurybox", "-m runner "), ("python", "")):
            (place / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n', encoding="utf-8")
            (place / name).chmod(0o755)
    return place


@contextmanager
def _endpoint(*options: str) -> Iterator[str]:
    """The base URL of a simulated endpoint in a process of its own."""
    words = [sys.executable, "-m", "runner", "simulate", "--port", "0", *options]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()


def block_of(printed: str, lines: int) -> str:
    """An output as a page shows it."""
    found = printed.splitlines()
    found = found if len(found) <= lines else [*found[:lines], "…"]
    return "\n".join(["```text", *found, "```"])


def words(text: str) -> set[str]:
    """What of an output is the same each time: figures, widths and the order of equals depend on the moment."""
    return set(re.findall(r"[^\W\d_]+", text))
