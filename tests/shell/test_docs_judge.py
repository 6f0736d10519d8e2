"""The README's way to a judge of one's own, gone as it is written: every file, every reading, every command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from judges import Judge, parse_judge

ROOT = Path(__file__).resolve().parents[2]
TITLE = "## A judge of your own in ten minutes"


def section() -> str:
    """The section's text, without its title."""
    parts = (ROOT / "README.md").read_text(encoding="utf-8").split(f"\n{TITLE}\n")
    assert len(parts) == 2, f"the README has no section {TITLE!r}"
    return re.split(r"^## ", parts[1], flags=re.MULTILINE)[0]


def blocks(language: str) -> list[str]:
    """The section's code of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", section(), flags=re.MULTILINE | re.DOTALL)


def files() -> dict[str, str]:
    """Name → content of the files that a reader is to write."""
    named = ((re.match(r"# (\S+\.yaml)\n", block), block) for block in blocks("yaml"))
    return {match[1]: block for match, block in named if match}


def commands() -> list[str]:
    """The commands that a reader is to type, in their order."""
    return [line.removeprefix("$ ") for line in "".join(blocks("console")).splitlines() if line]


def test_every_block_is_of_a_kind_that_is_tested_here() -> None:
    assert files() and commands()
    assert all(command.startswith("jurybox ") for command in commands())
    languages = re.findall(r"^```(\w*)$", section(), flags=re.MULTILINE)
    assert set(languages) == {"yaml", "console", ""}


@pytest.mark.parametrize("number", range(4))
def test_every_reading_makes_a_judge_of_the_first_file(number: int) -> None:
    """What a reader does: put another `reads` into the file, and what stands with it."""
    parts = [block for block in blocks("yaml") if block.startswith("reads:")]
    assert len(parts) == 4
    first = yaml.safe_load(next(iter(files().values())))
    judge = parse_judge(yaml.safe_dump({**first, **yaml.safe_load(parts[number])}, sort_keys=False), "the README")
    assert isinstance(judge, Judge)
    assert judge.scales() or judge.choices


def test_every_command_works_at_the_first_run(tmp_path: Path, jurybox: Path, endpoint: str) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for name, content in files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    environment = {**os.environ, "PATH": f"{jurybox.parent}{os.pathsep}{os.environ['PATH']}"}
    printed = []
    for command in commands():
        line = command.replace("http://127.0.0.1:8808/v1", endpoint)
        done = subprocess.run(
            line,
            shell=True,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{line}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        printed.append(done.stdout + done.stderr)
    tried = [text for command, text in zip(commands(), printed, strict=True) if command.startswith("jurybox try")]
    assert tried and all("--- read as scored" in text for text in tried)
    sampled, whole = (text for text in printed if "helpful · complete" in text)
    assert "20 of 20 trials" in sampled
    assert "20 kept of an earlier plan" in whole and "60 of 60 trials" in whole
