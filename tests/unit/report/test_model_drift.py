"""A model that changes on its endpoint within a run: said before the numbers, and shown apart."""

from __future__ import annotations

from pathlib import Path

from judged_run import Run, jsonl, judged_run, scored, unscored

from runner.report import notices, to_json, to_markdown
from runner.report.terminal import to_text


def half_changed(tmp_path: Path, **config: object) -> Run:
    """Forty items; the last ten were answered by another version, which says no to all."""
    rows = [{"id": f"i{n}", "question": "q", "reference": "r", "response": str(n)} for n in range(40)]
    jsonl(tmp_path / "items.jsonl", rows)
    run = judged_run(
        tmp_path,
        {"path": "items.jsonl"},
        lambda row: unscored("malformed", "no_verdict") if row["row"] == 39 else scored(row["row"] < 30),
        **config,  # type: ignore[arg-type]
    )
    run.ledger._db.change("UPDATE attempts SET system_fingerprint = 'fp_2' WHERE id > 30")
    return run


def test_a_changed_model_is_said_and_shown_apart(tmp_path: Path) -> None:
    report = half_changed(tmp_path).report()
    first, second = report.serving
    assert (first.name, first.trials, first.scores["correct"].value) == ("gpt-served (fp_1)", 30, 1.0)
    assert (second.name, second.trials, second.scores["correct"].value) == ("gpt-served (fp_2)", 10, 0.0)
    assert second.scores["correct"].n == 9, "one of them has no score"
    for text in (to_text(report), to_markdown(report), *to_json(report)["notices"][-1:]):
        assert "the endpoint served 2 models or versions under this name" in " ".join(text.split())
    assert "Served models" in to_markdown(report)
    assert [part["trials"] for part in to_json(report)["served"]] == [30, 10]


def test_a_model_that_stays_is_not_mentioned(tmp_path: Path) -> None:
    run = half_changed(tmp_path, models=("gpt", "other"))
    run.ledger._db.change("UPDATE attempts SET system_fingerprint = NULL, served_model = NULL WHERE model = 'gpt'")
    run.ledger._db.change("UPDATE attempts SET system_fingerprint = 'fp_1' WHERE model = 'other'")
    report = run.report()
    assert report.serving == ()
    assert not any("served" in notice for notice in notices(report))
    assert "Served models" not in to_markdown(report)
