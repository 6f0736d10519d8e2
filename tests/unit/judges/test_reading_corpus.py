"""The corpus of hand-written replies, through the judges that it was written for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges import Judge, Reply, Scored, load_judge

ROOT = Path(__file__).parents[3]
CORPUS = ROOT.parent / "shared" / "corpus" / "answers.jsonl"

JUDGES = {"yesno": "yes-no", "scores": "score-0-5", "json": "correct-and-score"}


def rows(kind: str) -> list[dict[str, Any]]:
    if not CORPUS.exists():
        pytest.skip(f"{CORPUS} is not there")
    found = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").strip().split("\n")]
    # A reply with no score asked for cannot be read: there is no such request.
    return [row for row in found if row["kind"] == kind and row["n"] != 0]


def value(judge: Judge, row: dict[str, Any]) -> Any:
    """What the judge reads, in the corpus's words."""
    reading = judge.read(Reply(row["text"], row["finish"]), row["n"] or 1)
    if not isinstance(reading, Scored):
        assert reading.state in ("malformed", "refused")
        return "malformed"
    if row["kind"] == "yesno":
        return "yes" if reading.verdict["correct"] else "no"
    return reading.verdict["scores"] if row["kind"] == "scores" else reading.verdict


@pytest.mark.parametrize("kind", JUDGES)
def test_no_reply_is_read_wrongly(kind: str) -> None:
    judge = load_judge(JUDGES[kind], ROOT)
    wrong = [
        (row["id"], found)
        for row in rows(kind)
        if (found := value(judge, row)) != "malformed" and found != row["expect"]
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", JUDGES)
def test_what_can_be_read_is_read(kind: str) -> None:
    judge = load_judge(JUDGES[kind], ROOT)
    readable = [row for row in rows(kind) if row["expect"] != "malformed" and not row["soft"]]
    lost = [row["id"] for row in readable if value(judge, row) == "malformed"]
    assert len(readable) - len(lost) >= 0.95 * len(readable), lost
