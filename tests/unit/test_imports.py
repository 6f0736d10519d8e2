"""The house's rules about imports, with the layers and the guarded libraries as data."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# From the bottom: a module imports only what stands in a lower row. Packages stand for all of their modules.
LAYERS = (
    # what is asked, and how a reply is read
    ("judges",),
    # what a run means, how it can end badly, what travels
    ("runner.records",),
    ("runner.usage",),
    ("runner.batches", "runner.errors", "runner.failpoints", "runner.protocol"),
    ("runner.address", "runner.labels", "runner.override", "runner.variables"),
    ("runner.inputs",),
    ("runner.config",),
    # decisions: pure
    (
        "runner.adhoc",
        "runner.association",
        "runner.breakdown",
        "runner.breaker",
        "runner.changes",
        "runner.columns",
        "runner.controls",
        "runner.dialect",
        "runner.difference",
        "runner.dispatch",
        "runner.funds",
        "runner.heartbeat",
        "runner.ladder",
        "runner.pace",
        "runner.policy",
        "runner.rates",
        "runner.reserve",
        "runner.sample",
        "runner.significance",
        "runner.structured",
        "runner.unreadable",
    ),
    ("runner.graded", "runner.suspects"),
    ("runner.susceptibility",),
    ("runner.budget", "runner.counts", "runner.intervals", "runner.outlook", "runner.plan"),
    ("runner.modes",),
    ("runner.comparison", "runner.metrics", "runner.neighbours", "runner.readings", "runner.serving"),
    ("runner.agreement", "runner.questions"),
    # the outside world: files, SQLite, HTTP
    (
        "runner.completion",
        "runner.disk",
        "runner.interrupts",
        "runner.log",
        "runner.outbox",
        "runner.rows",
        "runner.schema",
        "runner.stagedfiles",
    ),
    (
        "runner.database",
        "runner.jsonrows",
        "runner.mapping",
        "runner.mending",
        "runner.replanned",
        "runner.staged",
        "runner.stored",
        "runner.tables",
    ),
    ("runner.segments",),
    ("runner.recording",),
    ("runner.hub", "runner.inspectlogs", "runner.lmevallogs", "runner.remote", "runner.revisions"),
    ("runner.destination", "runner.given", "runner.rejects", "runner.sources", "runner.stopping"),
    ("runner.client", "runner.ledger", "runner.limiter", "runner.reference", "runner.rundir"),
    ("runner.annotators", "runner.frames", "runner.identities", "runner.intake", "runner.survey"),
    ("runner.results", "runner.roles", "runner.stage"),
    ("runner.mirror",),
    ("runner.rebuilding",),
    # work
    ("runner.aggregator", "runner.asked", "runner.draft", "runner.tryout"),
    ("runner.account", "runner.asking"),
    ("runner.inquiry", "runner.poison", "runner.preflight", "runner.reformatting"),
    ("runner.worker",),
    # where workers live
    ("runner.pool",),
    # the loop, Ray, what people see, the local endpoint
    ("runner.assemble", "runner.planning", "runner.publishing"),
    ("runner.losses",),
    ("runner.crew",),
    ("runner.cluster", "runner.driver", "runner.progress", "runner.report", "runner.rescoring", "runner.simulate"),
    ("runner.revising",),
    # one run from config to report; looking at runs
    ("runner.catalog", "runner.export", "runner.open_run", "runner.readback", "runner.session"),
    ("runner.call", "runner.preview", "runner.reopened"),
    # command and API
    ("runner.command",),
    ("jurybox", "runner.cli"),
    ("runner.__main__",),
)

# Who alone may import what. A package stands for all of its modules.
GUARDED = {
    "ray": {"runner.cluster"},
    "openai": {"runner.client"},
    "obstore": {"runner.destination"},
    "aiolimiter": {"runner.limiter"},
    "sqlite3": {"runner.database"},
    "typer": {"runner.cli", "runner.command", "runner.simulate.command"},
    "uvicorn": {"runner.simulate"},
}

# The judges are pure: they know no process, no network and no clock.
NOT_FOR_JUDGES = {
    "runner",
    "jurybox",
    "asyncio",
    "datetime",
    "os",
    "random",
    "socket",
    "subprocess",
    "threading",
    "time",
}

MAX_LINES = 320


def modules() -> dict[str, Path]:
    """Dotted name → file of every module of the program."""
    found = {"jurybox": ROOT / "jurybox.py"}
    for package in ("judges", "runner"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(path: Path) -> frozenset[str]:
    """Dotted names of all that a module imports, wherever in it the import stands."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return frozenset(_imports(ast.parse(path.read_text(encoding="utf-8")), package))


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield origin
            # `from . import schema` names a module; `from .schema import Row` names one already.
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def layer(module: str) -> int | None:
    """The row that a module, or the package that it is in, stands in."""
    for height, row in enumerate(LAYERS):
        if any(module == name or module.startswith(f"{name}.") for name in row):
            return height
    return None


def unit(module: str) -> str:
    """The entry of LAYERS that a module belongs to."""
    return next(name for row in LAYERS for name in row if module == name or module.startswith(f"{name}."))


@pytest.mark.parametrize("module", sorted(modules()))
def test_every_module_has_its_layer(module: str) -> None:
    assert layer(module) is not None or module == "runner", f"{module} stands in no row of LAYERS: say where it belongs"


@pytest.mark.parametrize("module", sorted(set(modules()) - {"runner"}))
def test_a_module_imports_only_what_is_below_it(module: str) -> None:
    known = modules()
    height = layer(module)
    assert height is not None
    for name in imports(known[module]) & set(known) - {"runner"}:
        if unit(name) == unit(module):
            continue
        below = layer(name)
        assert below is not None
        assert below < height, f"{module} imports {name}, which is not below it"


@pytest.mark.parametrize(("library", "allowed"), sorted(GUARDED.items()))
def test_guarded_libraries_are_imported_in_their_place_only(library: str, allowed: set[str]) -> None:
    users = {
        module
        for module, path in modules().items()
        if any(name == library or name.startswith(f"{library}.") for name in imports(path))
    }
    strangers = {user for user in users if not any(user == name or user.startswith(f"{name}.") for name in allowed)}
    assert not strangers, f"{library} is for {sorted(allowed)}, and is imported by {sorted(strangers)}"


@pytest.mark.parametrize("module", sorted(name for name in modules() if name.split(".")[0] == "judges"))
def test_judges_are_pure(module: str) -> None:
    used = {name.split(".")[0] for name in imports(modules()[module])}
    assert not used & NOT_FOR_JUDGES
    outside = used - set(sys.stdlib_module_names) - {"json_repair", "judges", "pydantic", "yaml"}
    assert not outside, f"{module} imports {sorted(outside)}"


@pytest.mark.parametrize("module", sorted(modules()))
def test_modules_stay_small(module: str) -> None:
    lines = len(modules()[module].read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{module} has {lines} lines: split it by noun"


@pytest.mark.parametrize("module", sorted(modules()))
def test_every_module_says_why_it_exists(module: str) -> None:
    text = modules()[module].read_text(encoding="utf-8")
    assert not text or ast.get_docstring(ast.parse(text)), f"{module} has no docstring"
