"""Where verdicts stand: what judges declare of their replies, and the stage that each place is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judges import Judge, Malformed, Reply, Scored, load_judge, parse_judge
from judges.reading import ChoiceReads, ObjectReads, ScoresReads, YesnoReads, read

RATING = ScoresReads.model_validate(
    {"kind": "scores", "verdict": "rating", "low": 1, "high": 10, "labels": ["评分", "スコア"], "scale_suffix": "分"}
)
PLAIN = YesnoReads(kind="yesno")
OUTPUTS = ChoiceReads.model_validate(
    {
        "kind": "choice",
        "labels": {"a": {"aliases": ["Output (a)"]}, "b": {"aliases": ["Output (b)"]}},
        "verdict_labels": ["最终判断"],
        "phrases": {"a": ["Output (a) is better", "I prefer Output (a)"], "b": ["Output (b) is better"]},
    }
)
LIST = ObjectReads.model_validate(
    {
        "kind": "object",
        "verdict": ["claims"],
        "schema": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"claim": {"type": "string"}, "ok": {"type": "boolean"}},
                "required": ["claim", "ok"],
            },
        },
    }
)


def outcome(reads: Any, text: str) -> Any:
    """(verdict, stage), or the reason."""
    reading = read(reads, Reply(text))
    if isinstance(reading, Scored):
        (value,) = reading.verdict.values()
        return value, reading.provenance.stage
    return reading.reason if isinstance(reading, Malformed) else reading.state


@pytest.mark.parametrize(
    ("reads", "text", "expected"),
    [
        (PLAIN, "**Yes**", (True, "tolerant:whole")),
        (PLAIN, "Explanation: it says no such thing.\nResult: YES", (True, "tolerant:label")),
        (PLAIN, "It says no such thing. Result: NO", (False, "tolerant:label")),
        (PLAIN, "**Answer:** Yes\n\n**Explanation:** No contradictions were found.", (True, "tolerant:label")),
        (PLAIN, "No, it is correct in spirit only.", (False, "tolerant:lead")),
        (PLAIN, "They agree.\n\nYes", (True, "tolerant:last")),
        (PLAIN, "They agree.\n<answer>\nyes\n</answer>", (True, "tolerant:mark")),
        (PLAIN, "They agree, so it is [[yes]].", (True, "tolerant:mark")),
        (PLAIN, "Yes. Wait, no.", "conflict"),
        (PLAIN, "Yes, but the year is wrong.", "conflict"),
        (PLAIN, "The answer is yes and the response says so.", "no_verdict"),
        (RATING, "回答很好。\n\n评分：[[8]]", ([8], "tolerant:mark")),
        (RATING, "回答很好。评分：８", ([8], "tolerant:label")),
        (RATING, "スコア: 8分", ([8], "tolerant:label")),
        (RATING, "得点: 8", "other_value"),
        (RATING, "Rating: 8/10", ([8], "tolerant:label")),
        (RATING, "Rating: 4/5", "other_scale"),
        (RATING, "Good.\n\nRating: [[1", "other_value"),
        (OUTPUTS, "It is long. Therefore, Output (a) is better.", ("a", "tolerant:phrase")),
        (OUTPUTS, "Therefore, based on all this, Output (b) is better as it is short.", ("b", "tolerant:phrase")),
        (OUTPUTS, "I prefer Output (a) because it is short.", ("a", "tolerant:phrase")),
        (OUTPUTS, "Some say that Output (a) is better because it is long.", "no_verdict"),
        (OUTPUTS, "I prefer Output (a).\n\nTherefore, Output (b) is better.", "conflict"),
        (OUTPUTS, "两者都好。\n最终判断：b", ("b", "tolerant:label")),
        (LIST, '[{"claim": "x", "ok": true}]', ([{"claim": "x", "ok": True}], "strict")),
        (
            LIST,
            "Claims [1]:\n```json\n[{'claim': 'x', 'ok': True}]\n```",
            ([{"claim": "x", "ok": True}], "tolerant:prose"),
        ),
        (LIST, "[]", ([], "strict")),
        (LIST, '[{"claim": "x"}]', "no_verdict"),
    ],
)
def test_where_a_verdict_counts(reads: Any, text: str, expected: Any) -> None:
    assert outcome(reads, text) == expected


def test_a_phrase_is_of_a_label() -> None:
    with pytest.raises(ValidationError, match="is none of the labels"):
        ChoiceReads.model_validate({"kind": "choice", "labels": ["a", "b"], "phrases": {"c": ["c wins"]}})


def test_what_is_not_declared_is_no_part_of_a_judges_meaning() -> None:
    assert YesnoReads(kind="yesno").model_dump() == {"kind": "yesno", "verdict": "correct"}
    assert YesnoReads(kind="yesno", verdict_labels=["判定"]).model_dump()["labels"] == ["判定"]


def test_retractions_are_declared_for_other_languages() -> None:
    reads = YesnoReads(kind="yesno", verdict_labels=["判定"], retractions=["等等"])
    assert outcome(reads, "判定：yes\n等等，年份不对。") == "conflict"
    assert outcome(PLAIN, "Answer: yes\n等等，年份不对。") == (True, "tolerant:label")


def test_the_lines_of_the_prompt_come_back() -> None:
    template = "{response}\nExample:\nVerdict: yes\n"
    judge = parse_judge(
        {"name": "x", "reads": {"kind": "yesno"}, "route": [{"template": "t"}], "templates": {"t": template}}, "x"
    )
    reading = judge.read(Reply("Verdict: yes\n\nVerdict: no"))
    assert isinstance(reading, Scored)
    assert reading.verdict == {"correct": False}
    assert isinstance(judge.read(Reply("The dates agree.\n\nVerdict: yes")), Scored)


@pytest.mark.parametrize("name", ["yes-no", "choice-ab", "score-0-5", "correct-and-score"])
def test_places_are_shown(name: str) -> None:
    judge: Judge = load_judge(name, Path())
    text = {"yes-no": "Yes\n\nAnswer: no", "choice-ab": "[[A]]\n\nB", "score-0-5": "Score: 4\n\n7"}.get(
        name, 'It is.\n{"correct": true, "score": 4}'
    )
    places = judge.places(Reply(text))
    assert [place.line for place in places] == ([1] if name == "correct-and-score" else [0, 2])


LINES = ObjectReads.model_validate(
    {
        "kind": "object",
        "verdict": ["correct"],
        "lines": True,
        "schema": {"type": "object", "properties": {"correct": {"type": "boolean"}}, "required": ["correct"]},
    }
)
NAMED = ScoresReads(kind="scores", names=["Tone"], low=0, high=5)


@pytest.mark.parametrize("mark", ["# {}", "> {}", "~~{}~~", "{}?", "not {}", "{} or maybe not", "({}"])
@pytest.mark.parametrize(
    ("reads", "label", "literal", "other"),
    [
        (PLAIN, "Answer", "yes", "no"),
        (OUTPUTS, "Answer", "b", "a"),
        (RATING, "Rating", "4", "3"),
        (NAMED, "Tone", "4", "3"),
        (LINES, "correct", "true", "false"),
    ],
)
def test_a_marred_verdict_behind_a_label_is_not_passed_over(
    mark: str, reads: Any, label: str, literal: str, other: str
) -> None:
    marred = f"{label}: {mark.format(literal)}"
    for text in (f"{marred}\n\n{label}: {other}", f"{label}: {other}\n\n{marred}"):
        assert isinstance(read(reads, Reply(text)), Malformed), text
