"""The rules about imports: the rooms and what each may import, the guarded libraries, the length of a module."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# Room → the rooms that it may import; every room may import `judges`, which imports none of them.
# The modules that stand in runner/ itself are the foundations.
ROOMS = {
    "jurybox": "session report publishing ledger dataset foundations",
    "cli": "session report publishing scheduling dataset simulate foundations",
    "session": "report publishing scheduling ledger worker dataset endpoint foundations",
    "report": "publishing ledger stats dataset foundations",
    "publishing": "ledger dataset foundations",
    "scheduling": "ledger worker dataset endpoint foundations",
    "ledger": "dataset endpoint foundations",
    "stats": "dataset foundations",
    "worker": "endpoint foundations",
    "dataset": "foundations",
    "endpoint": "foundations",
    "simulate": "foundations",
    "foundations": "",
    "judges": "",
}

# Who alone may import what. A package stands for all of its modules.
GUARDED = {
    "ray": "runner.scheduling.cluster",
    "openai": "runner.endpoint.client",
    "aiolimiter": "runner.endpoint.rate_limiter",
    "obstore": "runner.object_storage",
    "sqlite3": "runner.ledger.database",
    "typer": "runner.cli",
    "uvicorn": "runner.simulate",
}

# The judges are pure: they know no process, no network and no clock.
JUDGES_MAY_USE = {"json_repair", "judges", "pydantic", "yaml"}
NOT_FOR_JUDGES = {"asyncio", "datetime", "os", "random", "socket", "subprocess", "threading", "time"}

MAX_LINES = 400


def _modules() -> dict[str, Path]:
    found = {"jurybox": ROOT / "jurybox.py"}
    for package in ("judges", "runner"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


@cache
def imports(module: str) -> frozenset[str]:
    """Dotted names of all that a module imports, wherever in it the import stands."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return frozenset(_imports(ast.parse(path.read_text(encoding="utf-8")), package.split(".")))


def _imports(tree: ast.Module, package: list[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from . import schema` names a module; `from .schema import Row` names something in one.
                yield f"{origin}.{alias.name}" if f"{origin}.{alias.name}" in MODULES else origin


def room(module: str) -> str:
    """The room that a module stands in."""
    top, *rest = module.split(".")
    if top != "runner":
        return top
    return rest[0] if rest and MODULES[module].parent != ROOT / "runner" else "foundations"


def test_rooms_import_only_what_the_table_allows() -> None:
    wrong = [
        f"{module} imports {name}: {room(module)} may not import {room(name)}"
        for module in MODULES
        for name in sorted(imports(module) & MODULES.keys())
        # `python -m runner` is the command.
        if module != "runner.__main__" and room(name) not in (room(module), "judges", *ROOMS[room(module)].split())
    ]
    assert not wrong, "\n".join(wrong)


def test_no_two_rooms_import_each_other() -> None:
    _without_circle({name: set(allowed.split()) for name, allowed in ROOMS.items()})


def test_no_modules_import_each_other_in_a_circle() -> None:
    _without_circle({module: set(imports(module) & MODULES.keys()) - {module} for module in MODULES})


def _without_circle(graph: Mapping[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize(("library", "place"), sorted(GUARDED.items()))
def test_guarded_libraries_are_imported_in_their_place_only(library: str, place: str) -> None:
    users = {module for module in MODULES if any(f"{name}.".startswith(f"{library}.") for name in imports(module))}
    assert users, f"nobody imports {library}: take it from the table"
    assert not {user for user in users if not f"{user}.".startswith(f"{place}.")}


def test_judges_are_pure() -> None:
    for module in MODULES:
        if room(module) == "judges":
            used = {name.split(".")[0] for name in imports(module)}
            assert not used & NOT_FOR_JUDGES, module
            assert not used - set(sys.stdlib_module_names) - JUDGES_MAY_USE, module


def test_modules_are_deep_and_not_long_and_say_why_they_exist() -> None:
    for module, path in MODULES.items():
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= MAX_LINES, f"{module}: split it by noun"
        assert not text or ast.get_docstring(ast.parse(text)), f"{module} has no docstring"


def test_unit_tests_lie_as_the_rooms_do() -> None:
    folders = {path.name for path in (ROOT / "tests" / "unit").iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders <= ROOMS.keys() - {"jurybox"}
    assert not list((ROOT / "tests" / "unit").glob("*.py"))


def test_the_table_of_rooms_in_contributing_is_this_one() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    house = text.split("## The house")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z.*/]+)` \| [^|]+ \|([^|]*)\|$", house, flags=re.MULTILINE)
    spoken = {"jurybox.py": "jurybox", "runner/*.py": "foundations"}
    written = {spoken.get(name, name.rstrip("/")): set(re.findall(r"`(\w+)`", cell)) for name, cell in rows}
    assert written == {name: set(allowed.split()) - {"foundations"} for name, allowed in ROOMS.items()}


def test_every_module_that_the_documents_name_is_there() -> None:
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        name
        for page in pages
        for name in re.findall(r"`((?:runner|judges|tests|scripts)/[\w/]+\.py)`", page.read_text())
    }
    assert len(named) > 30
    assert not [name for name in named if not (ROOT / name).is_file()]
