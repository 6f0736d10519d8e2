"""scripts/example.py: as a script, and cell by cell in a loop that runs, as a notebook's kernel has it."""

from __future__ import annotations

import ast
import linecache
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jurybox
from runner.report.notebook import DisplayedReport

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "scripts" / "example.py"


def cells() -> list[str]:
    """The code of the example's cells."""
    parts = EXAMPLE.read_text(encoding="utf-8").split("# %%")
    return [part for part in parts if part.strip() and not part.startswith(" [markdown]")]


async def carry_out(cell: str, number: int, names: dict[str, Any]) -> Any:
    """The value of a cell's last expression, as IPython finds it; inspect can find the cell's text as well."""
    file = f"/tmp/ipykernel_1/{number}.py"
    linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
    tree = ast.parse(cell)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), file, "eval"), names)


def test_as_a_script(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "yes-no · complete · 4 of 4 trials" in done.stdout
    assert list(tmp_path.iterdir()) == []


async def test_cell_by_cell_in_a_running_loop(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "notebook"}
    shown = [await carry_out(cell, number, names) for number, cell in enumerate(cells())]
    frames = [value for value in shown if hasattr(value, "columns")]
    assert [frame.height for frame in frames] == [4, 4, 4, 4]
    assert frames[0].columns[-1] == "correct"
    assert frames[2].columns[-1] == "brief"
    [report] = [value for value in shown if isinstance(value, DisplayedReport)]
    assert ">accuracy</th>" in report._repr_html_()
    # The simulated judge writes no mark: read as asked, its replies say nothing, and nothing is made up.
    assert frames[3]["state"].to_list() == ["malformed"] * 4
    assert capsys.readouterr().out == ""


async def test_a_judge_whose_class_stands_in_a_cell_is_known_by_the_cell_s_text() -> None:
    names: dict[str, Any] = {"__name__": "notebook"}
    found = []
    for number, mark in enumerate(("###", "===", "###")):
        cell = "import jurybox\n" + next(part for part in cells() if "class AfterMark" in part)
        cell = cell.replace('"###"', f'"{mark}"').split("judge = ")[0]
        exec(cells()[0].split("stack = ")[0], names)
        await carry_out(cell, 100 + number, names)
        data = {
            "name": "mine",
            "reads": {"kind": "yesno", "verdict": "correct"},
            "route": [{"template": "base"}],
            "templates": {"base": "{response}?"},
        }
        found.append(jurybox.judge(data, names["AfterMark"]).fingerprint)
    assert found[0] == found[2] != found[1]
