"""The types of the Python API. mypy checks this file with the others: what a user may write, and what it refuses."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, assert_type

import polars as pl

import jurybox
from judges import Judge
from runner.cli.options import run_arguments
from runner.report.notebook import DisplayedReport
from runner.session.inline_config import RunArguments

ROWS: list[dict[str, str]] = [{"response": "x"}]


class Own(Judge):
    """A user's judge in Python."""


def rows() -> Iterator[dict[str, Any]]:
    """Items one after another."""
    yield from ROWS


async def well_typed() -> None:
    """Never called: mypy reads it."""
    run = jurybox.run(ROWS, judge="yes-no", model="gpt-4o-mini")
    assert_type(run, jurybox.Run)
    assert_type(run.directory, Path)
    assert_type(run.report(), DisplayedReport)
    assert_type(run.judgments(), pl.DataFrame)
    assert_type(run.scores(), pl.DataFrame)
    assert_type(run.attempts(), pl.DataFrame)
    assert_type(await jurybox.arun(rows(), judge="yes-no", model="m"), jurybox.Run)
    assert_type(jurybox.load("runs/x"), jurybox.Run)
    assert_type(jurybox.judge("yes-no"), Judge)
    own = jurybox.judge({"name": "x"}, Own)
    jurybox.run(pl.DataFrame(ROWS), judge=[own, "yes-no", Path("mine.yaml")], model=[{"model": "m"}, "n"], repeats=2)
    jurybox.run(pl.LazyFrame(ROWS), judge={"use": "yes-no"}, model="m", labels={"correct": "human"}, out=Path("runs/x"))
    jurybox.run(Path("items.jsonl"), judge="yes-no", model="m", limits={"rpm": 60}, fields={"response": "answer"})
    jurybox.run({"name": "x", "items": {}, "judges": [], "models": []}, local=False, address="auto")


async def badly_typed() -> None:
    """Never called: every line is refused, and mypy says so where one is not."""
    jurybox.run(7, judge="yes-no", model="m")  # type: ignore[arg-type]
    jurybox.run(["a.jsonl"], judge="yes-no", model="m")  # type: ignore[list-item]
    jurybox.run(ROWS, judge=3, model="m")  # type: ignore[arg-type]
    jurybox.run(ROWS, judge="yes-no", model="m", limit="10")  # type: ignore[arg-type]
    jurybox.run(ROWS, "yes-no", "m")  # type: ignore[call-arg]
    await jurybox.run(ROWS, judge="yes-no", model="m")  # type: ignore[misc]
    jurybox.judge("yes-no", str)  # type: ignore[type-var]


def test_run_and_arun_take_the_same() -> None:
    def taken(function: Any) -> list[tuple[str, Any, Any]]:
        parameters = inspect.signature(function).parameters.values()
        return [(each.name, each.default, each.annotation) for each in parameters]

    assert taken(jurybox.run) == taken(jurybox.arun)


def test_every_argument_and_option_arrives_in_one_record() -> None:
    known = {field.name for field in fields(RunArguments)}
    assert inspect.signature(jurybox.run).parameters.keys() <= known
    assert inspect.signature(run_arguments).parameters.keys() <= known


def test_every_argument_is_documented() -> None:
    documentation = inspect.getdoc(jurybox.run) or ""
    for name in inspect.signature(jurybox.run).parameters:
        assert name in documentation, name


def test_all_that_is_public_is_there_and_documented() -> None:
    for name in jurybox.__all__:
        assert getattr(jurybox, name).__doc__
