"""What every node of a cluster must have before anything is paid: the same jurybox, the judges' code, the keys.

`examine` runs on a node, everything else on the driver's machine. Hides how two installations are compared (by a digest
of their source: a version says nothing about a checkout) and how the problems of many nodes become one message. No
key's value is part of what a node answers.
"""

import hashlib
import pickle
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from runner.config import RunConfig
from runner.endpoint.credentials import check_key
from runner.errors import InputError
from runner.ledger.run_directory import jurybox_version

OLDEST_RAY = (2, 60)
"""The first that lets nobody onto a local Ray without its token."""
PACKAGES = ("judges", "runner")
_ROOT = Path(__file__).resolve().parents[3]
_SOURCE = (".py", ".yaml")
_NAMED = 8
_KEYS = "  keys: set the variables before `ray start` on those nodes, or name a file that every node has (api_key_file)"
_CODE = (
    "  code: install the same jurybox, and what the judges' code imports, for the Python that runs Ray on those nodes"
)


def check_ray_version(version: str) -> None:
    """InputError where the installed Ray is too old."""
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_RAY:
        oldest = ".".join(map(str, OLDEST_RAY))
        raise InputError(f"ray {version} is installed; jurybox needs {oldest} or newer: pip install 'ray>={oldest}'")


@cache
def own_source() -> str:
    """The version and a digest of the source that this process runs: equal means equal prompts, readers and messages.

    As it was when first asked for: a long-lived process does not see later changes either.
    """
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(path for package in PACKAGES for path in (_ROOT / package).rglob("*") if path.suffix in _SOURCE):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_ROOT).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return f"{jurybox_version()} (source {digest.hexdigest()})"


def inspect_node(source: str, judging: bytes) -> list[str]:
    """What this machine lacks, in words. `judging` is the pickled config and judges; empty: no worker will be here."""
    if problem := other_source(source):
        return [problem]
    if not judging:
        return []
    try:
        config, _ = pickle.loads(judging)
    except Exception as error:
        # Whatever the import of a user's module may raise.
        return [f"the judges cannot be loaded: {type(error).__name__}: {error}"]
    assert isinstance(config, RunConfig)
    return [problem for model in config.asked_models if (problem := check_key(model))]


def other_source(wanted: str) -> str | None:
    """What to say where this process runs another jurybox than the driver does."""
    own = own_source()
    return None if own == wanted else f"{_ROOT} holds jurybox {own}; the run was started with {wanted}"


def describe_problems(problems: Mapping[str, Sequence[str]], nodes: int) -> str:
    """All problems of all nodes in one message, by problem, and what to do. `problems` is by node as people know it."""
    by_problem: dict[str, list[str]] = {}
    for node, words in problems.items():
        for word in words:
            by_problem.setdefault(word, []).append(node)
    lines = [f"{len(problems)} of the cluster's {nodes} nodes cannot judge; no request was made"]
    for problem, names in by_problem.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        lines.append(f"  {', '.join(names[:_NAMED])}{more}: {problem}")
    text = " ".join(by_problem)
    if "API key" in text or "environment variable" in text:
        lines.append(_KEYS)
    if "jurybox" in text or "cannot be loaded" in text:
        lines.append(f"{_CODE}, then start Ray there anew; here {sys.executable} runs {_ROOT}")
    return "\n".join(lines)
