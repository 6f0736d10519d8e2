"""Objects that are wrapped, broken or in other types: what is mended, and what is never taken for a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Malformed, Reply, Scored, load_judge, parse_judge

ROOT = Path(__file__).parents[3]
GRADED = load_judge("correct-and-score", ROOT)
HINDSIGHT = load_judge("longmemeval-hindsight", ROOT)
RAGBENCH = load_judge("ragbench", ROOT)

WITH_EXAMPLE = parse_judge(
    """
name: with-example
reads:
  kind: object
  verdict: [correct, score]
  schema:
    type: object
    properties: {correct: {type: boolean}, score: {type: integer, minimum: 0, maximum: 5}}
    required: [correct, score]
route: [{template: base}]
templates:
  base: |-
    Judge {response}. Reply in this form:
    {{"correct": true, "score": 5}}
    or, as a pattern, {{"correct": true|false, "score": 0-5}}. Never as {{"correct": {response}}}.
""",
    "with-example",
)


def told(text: str, judge: Any = GRADED, finish: str = "stop") -> str:
    """The verdict in short with its stage and notes, or why there is none."""
    reading = judge.read(Reply(text, finish))
    if not isinstance(reading, Scored):
        return str(reading.reason) if isinstance(reading, Malformed) else reading.state
    verdict = f"{'yes' if reading.verdict['correct'] else 'no'} {reading.verdict.get('score', '')}".strip()
    assert type(reading.verdict["correct"]) is bool
    assert type(reading.verdict.get("score", 0)) is int
    return " ".join([verdict, reading.provenance.stage, *reading.provenance.notes])


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        # broken, and whole in what counts
        ('{"correct": true, "score": 4,}', "yes 4 repaired"),
        ("{'reason': 'ok', 'correct': True, 'score': 4}", "yes 4 tolerant:object python"),
        ("{'reason': 'it doesn't say', 'correct': False, 'score': 2}", "no 2 repaired"),
        ("{'reason': 'a } b', 'correct': True, 'score': 4}", "yes 4 tolerant:object python"),
        ("{reason: fine overall, correct: true, score: 4}", "yes 4 repaired"),
        ('{"reason": "He said "hello" to all", "correct": false, "score": 2}', "no 2 repaired"),
        ('{"reason": “partly”, "correct": false, "score": 3}', "no 3 repaired"),
        ('{"reason": "C:\\users", "correct": true, "score": 4}', "yes 4 repaired"),
        ('{\n "reason": "ok"\n "correct": false\n "score": 1\n}', "no 1 repaired"),
        ('{"correct": true, // it matches\n "score": 4 /* of 5 */\n}', "yes 4 repaired"),
        ('{"correct": false, # not true\n "score": 1}', "no 1 repaired"),
        ("```json\n{correct: TRUE, score: 5}\n```", "yes 5 repaired"),
        ('{"correct": yes, "score": 4}', "yes 4 repaired coerced:correct"),
        ('{"correct": true, "score": 4/5}', "yes 4 repaired coerced:score"),
        ('{"correct": true, "score": 04}', "yes 4 repaired"),
        ('{{"correct": true, "score": 4}}', "yes 4 repaired"),
        # other types
        ('{"correct": "true", "score": 4}', "yes 4 tolerant:object coerced:correct"),
        ('{"correct": "No", "score": "0"}', "no 0 tolerant:object coerced:correct coerced:score"),
        ('{"correct": 1, "score": 4.0}', "yes 4 tolerant:object coerced:correct coerced:score"),
        ('{"correct": 0, "score": "4 / 5"}', "no 4 tolerant:object coerced:correct coerced:score"),
        # wrappers
        ('{"result": {"correct": true, "score": 4}}', "yes 4 tolerant:object unwrapped"),
        ('[{"correct": true, "score": 4}]', "yes 4 tolerant:object"),
        ('{"result": [{"correct": true, "score": 4}]}', "yes 4 tolerant:object unwrapped"),
        ('"{\\"correct\\": true, \\"score\\": 4}"', "yes 4 tolerant:encoded double_encoded"),
        ("\"{'correct': True, 'score': 4}\"", "yes 4 tolerant:object double_encoded python"),
        ('{"data": "{\\"correct\\": true, \\"score\\": 4}"}', "yes 4 tolerant:object unwrapped"),
        ('<answer>{"correct": true, "score": 4}</answer>', "yes 4 tolerant:object"),
        ('**{"correct": true, "score": 4}**', "yes 4 tolerant:object"),
        ('{" Correct ": true, "SCORE": 4}', "yes 4 tolerant:object key:correct key:score"),
        ('{"correct": true, "score": 4} {"correct": true, "score": 4}', "yes 4 tolerant:object"),
        # a value that is not whole, or not on the scale
        ('{"correct": true, "score": 4.5}', "not_int"),
        ('{"correct": true, "score": 4.0000000000000000001}', "not_int"),
        ('{"correct": true, "score": "4.5"}', "not_int"),
        ('{"correct": true, "score": "8/10"}', "other_value"),
        ('{"correct": true, "score": "6/5"}', "out_of_range"),
        ('{"correct": true, "score": 7}', "out_of_range"),
        ('{"correct": true, "score": true}', "other_value"),
        ('{"correct": 2, "score": 4}', "other_value"),
        ('{"correct": "not true", "score": 4}', "other_value"),
        ('{"correct": true, "score": "four"}', "other_value"),
        ('{"correct": true, "score": [4]}', "other_value"),
        ('{"correct": tru, "score": 4}', "other_value"),
        ('{"correct": !false, "score": 4}', "other_value"),
        ('{"correct": true && false, "score": 4}', "other_value"),
        ('{"correct": true|false, "score": 4}', "other_value"),
        ('{"correct": true, "score": 3-4,}', "other_value"),
        ('{"correct": true, "score": 4,5}', "other_value"),
        ('{"correct": true, "score": 1 0}', "other_value"),
        ('{"correct": true, "score": 1\n0}', "other_value"),
        ('{"correct": true, "score": 1#0\n}', "other_value"),
        ('{"correct": true, "score": 0x4}', "other_value"),
        ('{\n"score": 10\n"reason": "x",\n"correct": true\n}', "other_value"),
        ('{"correct" true, "score": 4}', "field_missing"),
        ('{"correct": , "score": 4}', "other_value"),
        # a value that is not the only one
        ('{"reason": "it claims "correct": false, "score": 1", "correct": true, "score": 4}', "ambiguous_field"),
        ('{"reason": "he wrote:\n"correct": true,", "correct": false, "score": 0}', "ambiguous_field"),
        ('{"correct": true, /* "score": 5 */ "score": 4}', "ambiguous_field"),
        ("{reason: not correct: true, score: 4}", "ambiguous_field"),
        ('{"a": {"correct": true, "score": 4}, "b": {"correct": true, "score": 4}}', "field_missing"),
        ('{"example": {"correct": true, "score": 4}}', "field_missing"),
        ('[{"correct": true, "score": 4}, {"correct": true, "score": 4}]', "no_verdict"),
        # a value that another key or sentence contradicts
        ('{"correct": true, "score": 4, "Wrong": 1}', "yes 4 tolerant:object schema:other_fields"),
        ('{"correct": true, "score": 4, "incorrect": false}', "yes 4 tolerant:object schema:other_fields"),
        ('{"correct": true, "score": 4}\n\nThe response is incorrect.', "yes 4 tolerant:prose"),
        ('The response is correct.\n\n{"correct": false, "score": 4}', "no 4 tolerant:prose"),
        ('{"correct": false, "score": 1}\n\nThe reference answer is correct.', "no 1 tolerant:prose"),
        ('{"correct": false, "score": 1}\n\nThe response is not correct.', "no 1 tolerant:prose"),
        # an object that is left open, anywhere
        ('{"correct": true, "score": 4', "unbalanced"),
        ('{"correct": true, "score": 4} {', "unbalanced"),
        ("{'correct': True, 'score': 4, 'reason': 'x}", "unbalanced"),
        ('{"reason": "cut off\n{"correct": true, "score": 4}', "unbalanced"),
    ],
)
def test_objects(text: str, reading: str) -> None:
    assert told(text) == reading


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("Therefore, correct=false.", "no tolerant:lines"),
        ("The dates agree. Thus, correct = true.", "yes tolerant:lines"),
        ("The dates differ. Therefore, I set correct=no.", "no tolerant:lines"),
        ("Set correct=true.", "no_verdict"),
        ("The response is correct, so I set correct=true.", "no_verdict"),
        ("correct=true\nThe response is incorrect.", "yes tolerant:lines"),
        ("The answer is wrong.\n\ncorrect=true", "yes tolerant:lines"),
        ("The response is not correct.\n\ncorrect=false", "no tolerant:lines"),
        ("correct==true", "other_value"),
    ],
)
def test_a_line_may_conclude(text: str, reading: str) -> None:
    assert told(text, HINDSIGHT) == reading


def test_a_number_on_a_line_is_whole() -> None:
    for score in ("1*", "*1", "1#", "1_", "1\n0", "1 0", "1."):
        assert told(f"correct: true\nscore: {score}\nreason: none") not in (
            "yes 1 tolerant:lines",
            "yes 10 tolerant:lines",
        )
    assert told("correct: true\n**score:** **1**\nreason: none") == "yes 1 tolerant:lines"


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ('{"correct": true, "score": 5}', "yes 5 strict"),
        ('Example: {"correct": true, "score": 5}\n\n{"correct": false, "score": 1}', "no 1 tolerant:prose"),
        ('The format is:\n{"correct":true,"score":5}\n\n{"correct": false, "score": 1}', "no 1 tolerant:prose"),
        ('{"correct": true|false, "score": 0-5}\n{"correct": false, "score": 1}', "no 1 tolerant:object"),
        # Only what the prompt says word for word is its example.
        ('Example: {"correct": true, "score": 4}\n\n{"correct": false, "score": 1}', "ambiguous_multiple"),
        # Twice the example is nothing else than the example.
        ('{"correct": true, "score": 5}\n{"correct": true, "score": 5}', "yes 5 tolerant:object"),
        ('{"correct": true|false, "score": 0-5}', "other_value"),
    ],
)
def test_the_prompts_own_example_is_no_verdict_beside_another(text: str, reading: str) -> None:
    assert told(text, WITH_EXAMPLE) == reading


def test_lists_are_read_from_the_source_too() -> None:
    whole = {
        "relevance_explanation": "x",
        "all_relevant_sentence_keys": ["0a", "0b"],
        "overall_supported_explanation": "y",
        "overall_supported": True,
        "sentence_support_information": [{"sentence_key": "0a", "is_supported": True}],
        "all_utilized_sentence_keys": ["0a"],
    }
    text = json.dumps(whole)
    mended = RAGBENCH.read(Reply(text[:-1] + ",}"))
    assert isinstance(mended, Scored)
    assert mended.provenance.stage == "repaired"
    assert mended.verdict["all_relevant_sentence_keys"] == ["0a", "0b"]
    for broken in ('["0a", "0b"', '["0a" "0b"]', "[0a, 0b]", '["0a", "0b"] + ["0c"]'):
        assert isinstance(RAGBENCH.read(Reply(text.replace('["0a", "0b"]', broken))), Malformed)


def test_of_a_cut_reply_only_a_closed_object_is_read() -> None:
    for text in ('{"correct": true, "score": 4', '{"correct" true, "score": 4}', '{"correct": true, "score": 4}\n{"co'):
        assert told(text, finish="length") == "truncated"
    assert told('{"correct": true, "score": 4}\n\nThe resp', finish="length") == "yes 4 tolerant:object_cut cut"
    assert told("correct: true\nscore: 4\nreason: x", finish="length") == "truncated"


WRITERS = (
    json.dumps,
    repr,
    lambda body: json.dumps(body)[:-1] + ",}",
    lambda body: json.dumps(body).replace('"correct"', "correct").replace('"score"', "score"),
    lambda body: json.dumps({"result": body}),
    lambda body: json.dumps(json.dumps(body)),
    lambda body: json.dumps([body]),
    lambda body: json.dumps(body).replace(": true", ": True").replace(": false", ": False"),
)


@given(
    st.booleans(),
    st.integers(0, 5),
    st.text("ab '\"{}[],:\n\\truefalsecorrectscore0123459", max_size=60),
    st.sampled_from(WRITERS),
    st.booleans(),
)
def test_broken_objects_say_what_was_meant_or_nothing(
    correct: bool, score: int, reason: str, write: Any, first: bool
) -> None:
    verdict = {"correct": correct, "score": score}
    reading = GRADED.read(Reply(write({"reason": reason} | verdict if first else verdict | {"reason": reason})))
    assert not isinstance(reading, Scored) or reading.verdict == verdict


PIECES = [
    '"',
    "'",
    "{",
    "}",
    ",",
    ":",
    "\n",
    " ",
    "correct",
    "score",
    "reason",
    "true",
    "False",
    "4",
    "10",
    "//",
    "#",
    "\\",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_every_value_has_its_literal(text: str) -> None:
    reading = GRADED.read(Reply("{" + text + "}"))
    if isinstance(reading, Scored):
        assert str(reading.verdict["score"]) in text
        assert ("true" if reading.verdict["correct"] else "false") in text.lower()
