"""What a job's processes find around them: variables, a folder with a short path, places where they may be let die."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runs import ROOT

from .inputs import CANARY, KEY_VARIABLE


def environment(shared: Path, often: bool = False) -> dict[str, str]:
    """What the command, and a cluster that it runs on, find in their environment. `often`: it publishes so."""
    site = shared / "site"
    if often and not site.exists():
        site.mkdir()
        # Python imports this by itself.
        (site / "sitecustomize.py").write_text("from runner.publishing import publisher\npublisher.PERIOD_S = 0.3\n")
    path = [str(site)] if often else []
    return {
        "PYTHONPATH": os.pathsep.join([*path, str(ROOT)]),
        "RAY_TMPDIR": str(shared), "JURYBOX_FAILPOINTS": str(shared / "failpoints"),
        "JURYBOX_LOG": "debug", KEY_VARIABLE: CANARY, "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a short path, which Ray's sockets need; it goes at the end."""
    folder = Path(tempfile.mkdtemp(prefix="jb"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def failpoints() -> tuple[str, ...]:
    """The places in the program where a process may be let die."""
    sources = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "runner").rglob("*.py")))
    return tuple(sorted({name for text in sources for name in re.findall(r'\bfailpoint\("([^"]+)"\)', text)}))
