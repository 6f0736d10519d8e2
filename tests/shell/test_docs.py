"""The README is held to the program: every command and option stands in it, and every command it shows works."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from runner.cli.app import app
from runner.config import load_config

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands


def options(command: Any) -> set[str]:
    """The long options of a command."""
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")} - {"--help"}


def sections() -> dict[str, str]:
    """Command → its section of the README."""
    parts = re.split(r"^### `jurybox (\w+)[^`]*`\n", README, flags=re.MULTILINE)
    return {
        name: re.split(r"^##", text, flags=re.MULTILINE)[0] for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def blocks(language: str) -> list[str]:
    """The README's code of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def shown() -> list[str]:
    """The command lines that the README shows, in order; the one that serves the endpoint is not among them."""
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("jurybox simulate")]


def test_every_command_has_its_section_and_no_other_is_described() -> None:
    assert set(sections()) == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_described_and_no_other(name: str) -> None:
    described = set(re.findall(r"(?<=`)--[a-z][a-z0-9-]*", sections()[name]))
    assert described == options(COMMANDS[name])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_helps(name: str) -> None:
    assert COMMANDS[name].help
    silent = [parameter.name for parameter in COMMANDS[name].params if not getattr(parameter, "help", None)]
    assert not silent


def test_the_config_in_the_readme_is_the_one_of_the_quickstart() -> None:
    block = next(block for block in blocks("yaml") if block.startswith("name: quickstart"))
    assert yaml.safe_load(block) == yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_config_is_valid_and_mentioned(path: Path) -> None:
    assert f"configs/{path.name}" in README
    if "templates" not in yaml.safe_load(path.read_text(encoding="utf-8")):
        load_config(path)


def test_every_dependency_has_its_reason_and_no_other_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in wanted}
    tables = CONTRIBUTING.split("## Dependencies")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([A-Za-z0-9-]+)` \|", tables, flags=re.MULTILINE)) == names


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:configs|scripts|tests|runner|judges|\.ci)/[A-Za-z0-9_./-]+)`", text)
    assert named
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing


def test_every_command_in_the_readme_works(tmp_path: Path, jurybox: Path, endpoint: str) -> None:
    """In the order of the README, in a folder with nothing but `configs`, against the simulated endpoint."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for config in (tmp_path / "configs").glob("*.yaml"):
        text = config.read_text(encoding="utf-8")
        text = text.replace("https://api.openai.com/v1", endpoint).replace("http://127.0.0.1:8808/v1", endpoint)
        config.write_text(text, encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{jurybox.parent}{os.pathsep}{os.environ['PATH']}",
        "OPENAI_API_KEY": "not-a-key",
    }
    lines = shown()
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "jurybox" or "| jurybox" in line
        line = line.replace("http://127.0.0.1:8808/v1", endpoint)
        if words[1] == "run" and "--address" not in words:
            # What Ray adds is tested on its own; here it would only take time.
            line = line.replace("jurybox run", "jurybox run --local --yes", 1)
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
    for written in re.findall(r"(?:--to|>) (\S+)", "\n".join(lines)):
        assert (tmp_path / written).stat().st_size > 0, f"{written} is empty"
