"""README and docs/ are held to the program: nothing in them is stale, what they show works, no link is dead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from pages import ROOT, Shown, block_of, carry_out, commands, pages, words
from reference import BLOCK, PARTS, stale

from runner.cli.app import app
from runner.config import load_config

OWN_JUDGE = ROOT / "docs" / "how-to" / "own-judge.md"
TEXTS = {page: page.read_text(encoding="utf-8") for page in pages()}
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WRITTEN = {**TEXTS, ROOT / "CONTRIBUTING.md": CONTRIBUTING, ROOT / "CHANGELOG.md": (ROOT / "CHANGELOG.md").read_text()}

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands
README_LINES = 200


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_nothing_that_follows_from_the_code_is_stale() -> None:
    found = [named(path) for path in stale(with_commands=False)]
    assert not found, f"python scripts/reference.py writes {', '.join(found)} anew"


def test_everything_that_can_be_generated_stands_in_a_page() -> None:
    assert PARTS.keys() == {block[2] for text in TEXTS.values() for block in BLOCK.finditer(text)}


def test_the_readme_is_short() -> None:
    assert len(TEXTS[ROOT / "README.md"].splitlines()) <= README_LINES


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_helps(name: str) -> None:
    assert COMMANDS[name].help
    silent = [parameter.name for parameter in COMMANDS[name].params if not getattr(parameter, "help", None)]
    assert not silent


def test_the_config_in_the_docs_is_the_one_of_the_quickstart() -> None:
    blocks = [block for text in TEXTS.values() for block in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)]
    [shown] = [block for block in blocks if block.startswith("name: quickstart")]
    assert yaml.safe_load(shown) == yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_config_is_valid_and_mentioned(path: Path) -> None:
    assert any(f"configs/{path.name}" in text for text in TEXTS.values())
    if "templates" not in yaml.safe_load(path.read_text(encoding="utf-8")):
        load_config(path)


def test_every_dependency_has_its_reason_and_no_other_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in wanted}
    tables = CONTRIBUTING.split("## Dependencies")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([A-Za-z0-9-]+)` \|", tables, flags=re.MULTILINE)) == names


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    found = re.findall(r"`((?:configs|scripts|tests|runner|judges|docs|\.ci)/[A-Za-z0-9_./-]+)`", WRITTEN[page])
    assert not [name for name in found if not (ROOT / name).exists()]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    seen: dict[str, int] = {}
    found = set()
    for heading in re.findall(r"^#+ (.+)$", without_code, flags=re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return found


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_no_link_is_dead(page: Path) -> None:
    without_code = re.sub(r"^```.*?^```", "", WRITTEN[page], flags=re.MULTILINE | re.DOTALL)
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", without_code)):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.is_file() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            dead.append(target)
    assert not dead


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page", [page for page, text in TEXTS.items() if commands(text) and page != OWN_JUDGE], ids=named
)
def test_every_command_works_and_prints_what_is_shown(page: Path, tmp_path: Path) -> None:
    """In the order of the page, in a folder with nothing but `configs`, against the simulated endpoint."""
    for done in carry_out(TEXTS[page], tmp_path):
        if isinstance(shown := done.step, Shown):
            now = block_of(done.printed, shown.lines)
            assert words(now) == words(TEXTS[page][shown.start : shown.end]), "python scripts/reference.py"


def test_the_site_builds_without_a_warning_and_takes_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    found = list(site.rglob("*.html"))
    assert len(found) > len(TEXTS) - 2
    for page in found:
        html = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(?:https?:)?//[^>]+>", html), page
