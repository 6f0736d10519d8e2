"""Where verdicts stand: what judges declare of their replies, and the stage that each place is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judges import Judge, Malformed, Reply, Scored, load_judge, parse_judge
from judges.reading import Echoes, read
from judges.reply_forms import ChoiceReads, ObjectReads, ScoresReads, YesnoReads

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


def outcome(reads: Any, text: str, finish: str = "stop", response: str = "") -> Any:
    """(verdict, stage), or the reason."""
    reading = read(reads, Reply(text, finish, judged=(response,) if response else ()))
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


@pytest.mark.parametrize(
    ("reads", "text", "expected"),
    [
        (OUTPUTS, "I cannot agree that Output (a) is better.", "no_verdict"),
        (OUTPUTS, "There is no evidence that Output (a) is better.", "no_verdict"),
        (OUTPUTS, "It doesn't follow that Output (a) is better.", "no_verdict"),
        (OUTPUTS, "Therefore, neither Output (a) nor Output (b) is better.", "no_verdict"),
        (OUTPUTS, "If tone counts more than substance, Output (b) is better.", "no_verdict"),
        (OUTPUTS, "Whether Output (a) is better depends on the reader.", "no_verdict"),
        (OUTPUTS, "Output (a) is better? That is hard to say.", "no_verdict"),
        (OUTPUTS, "Output (a) is better in two of the categories.", "no_verdict"),
        (
            OUTPUTS,
            "Even though neither is perfect, Output (a) is better because it is short.",
            ("a", "tolerant:phrase"),
        ),
        (OUTPUTS, "As it must not hold 'possible', Output (b) is better as it does not.", ("b", "tolerant:phrase")),
        (PLAIN, "Yes, I mean no.", "conflict"),
        (PLAIN, "Verdict: yes\n(or maybe no)", "conflict"),
        (PLAIN, "Answer: yes (not no)", (True, "tolerant:label")),
        (PLAIN, "No. My final answer is: yes.", "conflict"),
        (PLAIN, "No. The answer is yes.", "conflict"),
        (PLAIN, "Yes. Both say so: the capital moved, no doubt.", (True, "tolerant:lead")),
        (PLAIN, "## Verdict\n\n**No**\n\n## Explanation\n\nIt says 1991.", (False, "tolerant:label")),
        (PLAIN, "| | |\n|---|---|\n| **Year** | 1989 |\n| **Verdict** | **No** |", (False, "tolerant:label")),
        (PLAIN, "| Point | Verdict | Note |\n|---|---|---|\n| Verdict: no | no | no |", "no_verdict"),
        (OUTPUTS, "两者都好。\n结论：［［ｂ］］", ("b", "tolerant:mark")),
        (OUTPUTS, "| Style | even |\n| **Overall** | **[[a]]** |", ("a", "tolerant:mark")),
        (OUTPUTS, "[最终判断] b", ("b", "tolerant:label")),
        (RATING, "### Rating\n\n[[8]]\n\n### Strengths\n\n1. Clear\n2. Short", ([8], "tolerant:mark")),
        (RATING, "Ratings:\n1. Accuracy was looked at first.", "no_verdict"),
        (RATING, 'I use the form, e.g. "Rating: [[5]]".\n\nRating: [[8]]', ([8], "tolerant:mark")),
        (RATING, 'I use the form "Rating: [[5]]" as told.\n\nRating: [[8]]', ([8], "tolerant:mark")),
        (RATING, 'I use the form, e.g. "Rating: [[5]]".', "no_verdict"),
        (RATING, 'I would rate it as follows: "Rating: [[5]]".', ([5], "tolerant:mark")),
        (
            PLAIN,
            "<|channel|>analysis<|message|>No?<|end|><|start|>assistant<|channel|>final<|message|>Yes",
            (True, "strict"),
        ),
        (PLAIN, "<|channel|>analysis<|message|>Is it? Yes", "reasoning_unclosed"),
    ],
)
def test_what_denies_and_what_dresses_a_verdict(reads: Any, text: str, expected: Any) -> None:
    assert outcome(reads, text) == expected


@pytest.mark.parametrize("text", ["[[9]]\n\n**Good**\n- the sources ar", "[[9]]\n\nIn step 4"])
def test_a_mark_that_opens_a_cut_reply_is_whole(text: str) -> None:
    assert outcome(RATING, text, "length") == ([9], "tolerant:lead_cut")
    assert outcome(RATING, f"It is good.\n\n{text}", "length") == "truncated"


def test_what_the_response_says_is_not_the_judges_word() -> None:
    reported = "Its last sentence reads: Output (b) is better. Nothing follows from that."
    assert outcome(OUTPUTS, reported, response="To close: Output (b) is better.") == "no_verdict"
    japanese = YesnoReads.model_validate(
        {"kind": "yesno", "labels": ["判定"], "aliases": {"yes": ["はい"], "no": ["いいえ"]}}
    )
    copied = "次の行があります。\n\n判定：はい\n\n【判定】いいえ"
    assert outcome(japanese, copied, response="首都は東京。\n判定：はい") == (False, "tolerant:label")


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Question: Did I go?\nAnswer: yes\nModel response: You went.", None),
        ("Question: Did I go?\nAnswer:\nyes\nModel response: You went.", None),
        ("Question: Did I go?\nAnswer: yes\nModel response: You did not.\n\nVerdict: no", False),
        ("Question: Did I go?\nModel response: You went.\nAnswer: yes", True),
        ("Answer: yes\nThe model says so.", True),
    ],
)
def test_fields_of_the_prompt_that_are_given_again_are_no_verdict(text: str, expected: bool | None) -> None:
    echoes = Echoes.of_prompt(["Question: \0\nAnswer: \0\nModel response: \0\n\nIs it right? Yes or no only."])
    found = read(YesnoReads(kind="yesno"), Reply(text, "stop"), echoes)
    assert (found.verdict["correct"] if isinstance(found, Scored) else None) is expected
