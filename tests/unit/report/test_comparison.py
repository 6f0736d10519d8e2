"""`compare` and `flips` of Python: the same numbers as the report's, and the questions behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from judged_run import Run, jsonl, judged_run, scored, unscored

from runner.errors import InputError
from runner.report.comparison import DIFFERENCE_COLUMNS, FLIP_COLUMNS, compare, flips


def made(tmp_path: Path, ending: Any, repeats: int = 1, **mapped: str) -> Run:
    rows = [
        {"bot": system, "question": f"Why {k}?", "reference": "so", "response": f"{k} says {system}", "k": k}
        for k in range(20)
        for system in ("alpha", "bravo")
    ]
    jsonl(tmp_path / "items.jsonl", rows)
    return judged_run(tmp_path, {"path": "items.jsonl", "fields": {"system": "bot", **mapped}}, ending, repeats=repeats)


def parts(run: Run) -> Any:
    return run.config, run.judges, run.staged, run.ledger


def ending(row: Any) -> Any:
    k = row["row"] // 2
    if k == 3 and row["system"] == "bravo":
        return unscored("malformed", "truncated")
    return scored((k in (1, 2, 3)) if row["system"] == "alpha" else (k in (2, 4)))


def test_it_is_the_difference_that_the_report_has(tmp_path: Path) -> None:
    run = made(tmp_path, ending)
    frame = compare(parts(run), "alpha", "bravo")
    assert dict(frame.schema) == DIFFERENCE_COLUMNS
    [row] = frame.to_dicts()
    [pair] = run.report().comparisons
    sign = 1 if pair.first == "alpha" else -1
    assert row["difference"] == pytest.approx(sign * (pair.difference or 0.0))
    assert (row["questions"], row["won"], row["lost"], row["test"], row["p"]) == (19, 1, 1, "McNemar", 1.0)


def test_flips_are_the_questions_with_both_answers(tmp_path: Path) -> None:
    frame = flips(parts(made(tmp_path, ending)), "alpha", "bravo")
    assert dict(frame.schema) == FLIP_COLUMNS
    shown = frame.select("question", "difference", "first_response", "second_response", "reference").rows()
    assert shown == [
        ("Why 1?", 1.0, "1 says alpha", "1 says bravo", "so"),
        ("Why 4?", -1.0, "4 says alpha", "4 says bravo", "so"),
    ]
    assert frame["first_item_id"].n_unique() == 2


def test_repeats_are_means_of_a_question(tmp_path: Path) -> None:
    run = made(tmp_path, lambda row: scored(row["system"] == "alpha" or row["repeat"] == 0), repeats=2)
    [row] = compare(parts(run), "bravo", "alpha").to_dicts()
    assert (row["difference"], row["lost"], row["questions"], row["second_value"]) == (-0.5, 20, 20, 1.0)
    assert set(flips(parts(run), "bravo", "alpha")["first_value"]) == {0.5}


def test_a_system_that_is_not_there_is_an_error_with_the_one_that_was_meant(tmp_path: Path) -> None:
    run = parts(made(tmp_path, ending))
    with pytest.raises(InputError, match="no system 'alhpa': did you mean 'alpha'"):
        compare(run, "alhpa", "bravo")
    with pytest.raises(InputError, match="no system 'zulu': there are alpha, bravo"):
        flips(run, "alpha", "zulu")
    with pytest.raises(InputError, match="compared with itself"):
        compare(run, "alpha", "alpha")


def test_nothing_judged_is_an_empty_frame(tmp_path: Path) -> None:
    run = parts(made(tmp_path, lambda row: None))
    assert compare(run, "alpha", "bravo").is_empty() and flips(run, "alpha", "bravo").is_empty()
