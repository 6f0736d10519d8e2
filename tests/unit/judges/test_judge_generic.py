"""The generic judges: what they ask, of which fields, and what a reply is worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from judges import Item, Judge, Malformed, Reply, Scored, load_judge

ROOT = Path(__file__).parents[3]
FIELDS = {"question": "Who wrote {it}?", "reference": "Ada", "response": "Ada did."}
ITEM = Item("1", "1", "s", None, {**FIELDS, "other_response": "Bob did."})


def scores(judge: Judge, text: str) -> dict[str, float] | str:
    (outcome,) = judge.outcomes(judge.read(Reply(text)), [ITEM])
    if isinstance(outcome, Scored):
        return judge.scores(outcome.verdict, ITEM)
    return str(outcome.reason) if isinstance(outcome, Malformed) else "refused"


@pytest.mark.parametrize("name", ["yes-no", "score-0-5", "correct-and-score", "choice-ab"])
def test_a_generic_judge_takes_every_item_and_keeps_its_text(name: str) -> None:
    judge = load_judge(name, ROOT)
    assert judge.name == name
    assert judge.description
    assert judge.route(ITEM) == "base"
    assert judge.missing(ITEM, "base") == []
    (message,) = judge.render(ITEM, "base")
    assert message["role"] == "user"
    assert "Question: Who wrote {it}?\n" in message["content"]
    assert "Ada did." in message["content"]
    # No example of a reply: one that only echoes the prompt must not be a verdict.
    assert scores(judge, message["content"].rsplit("\n\n", 1)[1]) in ("no_verdict", "other_value", "unbalanced")


def test_score_0_5() -> None:
    judge = load_judge("score-0-5", ROOT)
    assert scores(judge, "4") == {"score": 4.0}
    assert scores(judge, "Score: 4/5") == {"score": 4.0}
    assert scores(judge, "4.5") == "not_int"
    assert scores(judge, "6") == "out_of_range"
    assert scores(judge, "4,5") == "count"
    scale = judge.scales()["score"]
    assert (scale.binary, scale.low, scale.high, scale.step) == (False, 0, 5, 1)
    assert judge.sampling.body() == {"temperature": 0.0, "max_tokens": 10}


def test_correct_and_score() -> None:
    judge = load_judge("correct-and-score", ROOT)
    assert scores(judge, '{"reason": "It says so.", "correct": true, "score": 5}') == {"correct": 1.0, "score": 5.0}
    assert scores(judge, '{"correct": false, "score": 0}') == {"correct": 0.0, "score": 0.0}
    assert scores(judge, '{"correct": true, "score": 6}') == "out_of_range"
    assert scores(judge, '{"correct": true}') == "field_missing"
    assert judge.structured == "auto"
    assert judge.json_hint is None
    schema = judge.response_schema()
    assert schema is not None
    # The reason is asked for first: what is written after a verdict only defends it.
    assert list(schema["properties"]) == ["reason", "correct", "score"]
    assert judge.scales()["correct"].binary
    assert (judge.scales()["score"].low, judge.scales()["score"].high) == (0, 5)


def test_choice_ab() -> None:
    judge = load_judge("choice-ab", ROOT)
    assert judge.choices == ("A", "B")
    (message,) = judge.render(ITEM, "base")
    assert "Answer A: Ada did.\n\nAnswer B: Bob did.\n" in message["content"]
    assert judge.missing(Item("1", "1", "s", None, FIELDS), "base") == ["other_response"]
    assert scores(judge, "A") == scores(judge, "[[A]]") == scores(judge, "Answer: Answer A") == {"choice": 1.0}
    assert scores(judge, "B") == {"choice": 0.0}
    assert scores(judge, "A and B are alike.") == "no_verdict"
    assert (judge.scales()["choice"].low, judge.scales()["choice"].high) == (0, 1)
