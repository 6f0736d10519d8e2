"""The scripts: how they find a Python, and that none of them is broken shell."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [ROOT / "scripts" / name for name in ("quickstart", "test", "check", "environment")] + [ROOT / ".ci" / "run"]
BASH = shutil.which("bash") or "/bin/bash"


def find_python(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `find_python` of scripts/environment says where only `path` is looked into."""
    return subprocess.run(
        [BASH, "-c", f'. "{ROOT}/scripts/environment"; find_python'],
        env={"PATH": str(path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def program(path: Path, text: str) -> None:
    """An executable shell script."""
    path.write_text(f"#!{BASH}\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_shell_and_may_be_run(script: Path) -> None:
    subprocess.run([BASH, "-n", str(script)], check=True)
    assert script.name == "environment" or script.stat().st_mode & stat.S_IXUSR


def test_a_stand_in_without_a_python_behind_it_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "python3.11", "echo 'command not found' >&2; exit 127")
    program(tmp_path / "python3", f'exec "{sys.executable}" "$@"')
    assert find_python(tmp_path).stdout == "python3\n"


def test_a_named_python_comes_first(tmp_path: Path) -> None:
    program(tmp_path / "python3.11", "exit 0")
    assert find_python(tmp_path, PYTHON=sys.executable).stdout == f"{sys.executable}\n"


def test_without_a_fit_python_the_message_says_what_to_do(tmp_path: Path) -> None:
    program(tmp_path / "python3", "exit 1")
    found = find_python(tmp_path)
    assert found.returncode == 2
    assert "Python 3.11 or newer" in found.stderr
    assert "PYTHON=" in found.stderr


def test_an_environment_that_is_there_is_made_only_once(tmp_path: Path) -> None:
    """Nothing but reading stamps: a second quickstart costs no pip."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "environment", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "python").mkdir()
    # Stands for Python and pip alike: it writes down what it is asked, and makes .venv/bin/python as `-m venv` does.
    program(
        tmp_path / "python" / "python3.11",
        f'echo "$*" >>"{tmp_path}/calls"\n'
        'if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi',
    )
    command = "set -euo pipefail; . scripts/environment; make_environment; make_environment; make_environment dev"
    for _ in range(2):
        subprocess.run(
            [BASH, "-c", command],
            cwd=tmp_path,
            env={"PATH": f"{tmp_path / 'python'}{os.pathsep}{os.environ['PATH']}"},
            check=True,
            capture_output=True,
        )
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert len([call for call in calls if "-m venv" in call]) == 1
    assert len([call for call in calls if "--editable" in call]) == 2
    assert len([call for call in calls if "--group dev" in call]) == 1


def test_a_changed_file_of_the_million_is_what_it_says() -> None:
    spec = importlib.util.spec_from_file_location("million", ROOT / "scripts" / "million.py")
    assert spec is not None
    assert spec.loader is not None
    million = importlib.util.module_from_spec(spec)
    sys.modules["million"] = million
    spec.loader.exec_module(million)
    before = {row["id"]: row for row in million.rows(1000)}
    after = list(million.changed_rows(1000, 30))
    now = {row["id"]: row for row in after}
    assert (len(before), len(after), len(now)) == (1000, 1030, 1030)
    assert len(now.keys() - before.keys()) == 30
    assert sum(now[name] != row for name, row in before.items()) == 30
    kept = [int(row["id"]) for row in after if row["id"] in before]
    assert sum(later == earlier + 1 for earlier, later in itertools.pairwise(kept)) < 50
