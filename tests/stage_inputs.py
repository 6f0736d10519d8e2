"""Small inputs for staging: files written from rows, and a config and judges around them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from judges import Judge, load_judge, parse_judge
from runner.config import RunConfig, parse_config
from runner.dataset import Staged, stage
from runner.errors import ItemError

YES_NO = """
name: tiny
description: Asks for yes or no.
reads: {kind: yesno, verdict: correct}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
"""


def lines(path: Path, rows: Iterable[Any]) -> Path:
    """A JSONL file of these rows; texts and bytes stand as they are."""
    with path.open("wb") as file:
        for row in rows:
            raw = row if isinstance(row, bytes) else (row if isinstance(row, str) else json.dumps(row)).encode()
            file.write(raw + b"\n")
    return path


def row(number: int, **more: Any) -> dict[str, Any]:
    """A row that the tiny judge can ask about."""
    return {"id": f"i{number}", "question": f"q{number}", "reference": "r", "response": f"a{number}", **more}


def config(**items: Any) -> RunConfig:
    """A config over these items."""
    return parse_config({"name": "test", "items": items, "judges": ["yes-no"], "models": ["gpt-4o"]})


def tiny(text: str = YES_NO) -> Judge:
    """A judge of its own."""
    return parse_judge(text, "tiny.yaml")


def staged(base: Path, *judges: Judge, **items: Any) -> Staged:
    """Stage `items` (paths relative to `base`) for these judges, by default the tiny one."""
    return stage(config(**items), judges or (tiny(),), base, base / "run" / "items")


def library(name: str) -> Judge:
    """A shipped judge."""
    return load_judge(name, Path())


def failure(base: Path, *judges: Judge, **items: Any) -> str:
    """The message that staging fails with."""
    try:
        staged(base, *judges, **items)
    except ItemError as error:
        return error.message
    raise AssertionError("staging did not fail")


def fields(result: Staged) -> list[dict[str, Any]]:
    """The fields of all staged rows."""
    return [json.loads(value) for value in result.frame(0, result.rows)["fields"].to_list()]


def column(result: Staged, name: str) -> list[Any]:
    """A column of all staged rows."""
    values: list[Any] = result.frame(0, result.rows, [name])[name].to_list()
    return values


def rejects(result: Staged) -> list[tuple[str, int, str | None, str]]:
    """The rejected rows: file name, line, id, problem."""
    text = (result.directory / "_rejects.jsonl").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines()]
    return [(Path(entry["file"]).name, entry["line"], entry["id"], entry["problem"]) for entry in found]
