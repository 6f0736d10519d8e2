"""What stands beside a verdict and speaks against it, disowns it or makes it hang on something: nothing is read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from judges import Judge, Malformed, Reply, Scored, load_judge

ROOT = Path(__file__).parents[3]
GRADED = load_judge("correct-and-score", ROOT)
HINDSIGHT = load_judge("longmemeval-hindsight", ROOT)
YES_NO = load_judge("yes-no", ROOT)
CHOICE = load_judge("choice-ab", ROOT)
SCORE = load_judge("score-0-5", ROOT)

OBJECT = '{"correct": true, "score": 4}'
NO_OBJECT = '{"correct": false, "score": 1}'
PLAIN = '{"correct": true, "reasoning": "x"}'


def told(judge: Judge, text: str, finish: str = "stop") -> str:
    """The verdict and its stage, or why there is none."""
    reading = judge.read(Reply(text, finish))
    if isinstance(reading, Malformed):
        return str(reading.reason)
    assert isinstance(reading, Scored)
    return " ".join([*map(str, reading.verdict.values()), reading.provenance.stage, *reading.provenance.notes])


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('"final": {"correct": false, "score": 1}', "conflict"),
        ('"all": [{"correct": true, "score": 4}, {"correct": true, "score": 3}]', "conflict"),
        ('"x": {"y": [{"Score": 2}]}', "conflict"),
        ('"final": "{\\"correct\\": false}"', "conflict"),
        ('"score_final": 1', "conflict"),
        ('"revised score": "2/5"', "conflict"),
        ('"rating": 2', "conflict"),
        ('"final_verdict": "incorrect"', "conflict"),
        ('"verdict": "no"', "conflict"),
        ('"answer": "not correct"', "conflict"),
        ('"decision": false', "conflict"),
        ('"judgement": "WRONG"', "conflict"),
        ('"result": ["fail"]', "conflict"),
        ('"correct_final": "no"', "conflict"),
        ('"really_incorrect": true', "conflict"),
        ('"my_verdict": "The response is incorrect."', "conflict"),
        ('"range": "0-10"', "other_scale"),
        ('"out_of": 10', "other_scale"),
        ('"max_score": 10', "other_scale"),
        ('"scale": "1-10"', "other_scale"),
        ('"maximum": "100"', "other_scale"),
        ('"meta": {"scoreMax": 10}', "other_scale"),
    ],
)
def test_another_key_speaks_against_the_verdict(more: str, reason: str) -> None:
    assert told(GRADED, OBJECT[:-1] + f", {more}}}") == reason
    assert told(GRADED, f"Here is my evaluation:\n{OBJECT[:-1]}, {more}}}") == reason
    assert told(GRADED, f"{{{more}, {OBJECT[1:]}") == reason


@pytest.mark.parametrize(
    "more",
    [
        '"final": {"correct": true, "score": 4}',
        '"out_of": 5',
        '"scale": "0-5"',
        '"verdict": "correct"',
        '"answer": "Paris"',
        '"final_score": "4/5"',
        '"confidence": 0.9',
        '"score_reason": "It gives 3 of 4 facts."',
        '"incorrect": false',
        '"reason": 3',
    ],
)
def test_what_else_was_not_asked_for_is_never_strict(more: str) -> None:
    assert told(GRADED, OBJECT[:-1] + f", {more}}}") == "True 4 tolerant:object schema:other_fields"


def test_what_is_optional_may_be_left_out() -> None:
    assert told(GRADED, '{"correct":true,"score":4}') == "True 4 strict"
    assert told(HINDSIGHT, PLAIN) == "True strict"
    assert told(HINDSIGHT, PLAIN[:-1] + ', "verdict": "no"}') == "conflict"
    assert told(HINDSIGHT, '{"correct": true}') == "True tolerant:object schema:other_fields"


@pytest.mark.parametrize("key", ["result", "Verdict", "final_answer", "Final Answer", "judgment", "data"])
def test_an_object_in_a_known_wrapper(key: str) -> None:
    assert told(GRADED, f'{{"{key}": {OBJECT}}}').startswith("True 4 tolerant:object unwrapped")


@pytest.mark.parametrize("key", ["example", "draft", "student", "response", "wrong", "response_format", "not_final"])
def test_an_object_in_another_wrapper(key: str) -> None:
    assert told(GRADED, f'{{"{key}": {OBJECT}}}') == "field_missing"


@pytest.mark.parametrize(
    "remark",
    [
        "Incorrect.", "WRONG", "No.", "Wrong!", "The response is wrong.", "That is false.", "This is not correct.",
        "In short, the response is plainly incorrect because the year differs.", "This is not my verdict.",
        "That isn't right.", "incorrect=true", "verdict=false", "Answer: no", "correct=", "Final verdict: WRONG",
    ],
)  # fmt: skip
def test_a_remark_speaks_against_yes(remark: str) -> None:
    for text in (
        f"{PLAIN}\n{remark}",
        f"```json\n{PLAIN}\n```\n{remark}",
        f"correct=true\n{remark}",
        f"{PLAIN}\n\nThe year is given. {remark}",
    ):
        assert told(HINDSIGHT, text) in ("conflict", "no_verdict")
    for text in (f"{remark}\n{PLAIN}", f"{remark}\n```json\n{PLAIN}\n```", f"{remark}\ncorrect=true"):
        assert told(HINDSIGHT, text) in ("conflict", "no_verdict", "other_value")


@pytest.mark.parametrize(
    "remark", ["CORRECT", "Right.", "Yes.", "The response is correct.", "Nothing is wrong.", "Verdict: CORRECT"]
)
def test_a_remark_speaks_against_no(remark: str) -> None:
    for text in (f"{NO_OBJECT}\n{remark}", f"{remark}\n{NO_OBJECT}"):
        assert told(GRADED, text) in ("conflict", "no_verdict")
    for text in (f"correct=false\n{remark}", f"{remark}\ncorrect=false"):
        assert told(HINDSIGHT, text) in ("conflict", "no_verdict")


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("correct=true\nThe response gives the year that was asked for.", "True tolerant:lines"),
        ("The response gives the year that was asked for.\ncorrect=true", "True tolerant:lines"),
        ('correct=true\nIt says "false", which is the reference.', "True tolerant:lines"),
        ("correct=true\nThere is nothing wrong with the year.", "True tolerant:lines"),
        ("correct=false\nThe correct answer is Paris.", "False tolerant:lines"),
        ("correct=false\nThe response is wrong.", "False tolerant:lines"),
        ("The response gives the wrong year.\ncorrect=false", "False tolerant:lines"),
        ("Reason: the year is given.\ncorrect=true", "True tolerant:lines"),
        (f"{PLAIN}\nThe year is the one that was asked for.", "True tolerant:prose"),
        (f"Sure! Here it is:\n{PLAIN}", "no_verdict"),
        (f"Here is my evaluation:\n{PLAIN}", "True tolerant:prose"),
    ],
)
def test_a_plain_reason_leaves_the_verdict(text: str, reading: str) -> None:
    assert told(HINDSIGHT, text) == reading


@pytest.mark.parametrize(
    "lead",
    ["e.g. ", "i.e. ", "e.g.\n", "E.g.:\n", "Wrong output:\n", "Wrong output: ", "Incorrect format.\n",
     "Fake verdict: ", "Fake.\n", "The above verdict is fake:\n", "Text in the answer:\n", "!", "! ", "Bad JSON:\n"],
)  # fmt: skip
def test_a_lead_in_disowns_an_object(lead: str) -> None:
    for judge, text in ((HINDSIGHT, PLAIN), (GRADED, OBJECT), (GRADED, NO_OBJECT)):
        assert told(judge, lead + text) in ("no_verdict", "conflict")


@pytest.mark.parametrize(
    "lead",
    ["e.g. ", "i.e. ", "e.g.\n", "i.e.\n", "Fake:\n", "Above verdict is fake:\n", "Text in the answer:\n",
     "Wrong verdict:\n"],
)  # fmt: skip
def test_a_lead_in_disowns_a_line(lead: str) -> None:
    for judge, text in (
        (HINDSIGHT, "correct=true"),
        (HINDSIGHT, "correct=false"),
        (YES_NO, "Answer: yes"),
        (YES_NO, "no"),
        (CHOICE, "Answer: A"),
        (CHOICE, "B."),
        (SCORE, "Score: 4"),
        (SCORE, "4"),
    ):
        assert isinstance(judge.read(Reply(lead + text)), Malformed), (lead, text)


@pytest.mark.parametrize("heading", ["Worse answer:", "Losing answer:", "Rejected answer:", "The weaker answer:"])
def test_what_is_named_as_worse_is_no_winner(heading: str) -> None:
    for text in (f"{heading}\nA.", f"{heading}\nA", f"{heading} A", f"Both were read.\n\n{heading}\n**A**"):
        assert isinstance(CHOICE.read(Reply(text)), Malformed)


@pytest.mark.parametrize(
    "condition",
    ["if the year is right.", "If the year is right.", "provided the year is right.", "Unless the year is wrong.",
     "assuming the year is right", "as long as the year is right.", "Only if the year is right."],
)  # fmt: skip
def test_a_condition_on_the_next_line(condition: str) -> None:
    for judge, text in (
        (HINDSIGHT, "correct=true"),
        (HINDSIGHT, PLAIN),
        (HINDSIGHT, "correct=false"),
        (YES_NO, "yes"),
        (YES_NO, "Answer: no"),
        (CHOICE, "A."),
        (CHOICE, "Answer: B"),
        (SCORE, "4"),
    ):
        assert isinstance(judge.read(Reply(f"{text}\n{condition}")), Malformed), text


@pytest.mark.parametrize(
    "text",
    ["# correct=true\ncomment", "// correct=true", 'correct=true\n"""', "correct=true\n'''", "correct=true\n```",
     "correct=true\n”"],
)  # fmt: skip
def test_a_comment_or_the_end_of_a_quotation(text: str) -> None:
    assert told(HINDSIGHT, text) == "no_verdict"
    assert told(HINDSIGHT, "```\ncorrect=true\n```") == "True tolerant:lines"


def test_a_frame_of_thinking_is_reasoning() -> None:
    frame = "Thinking...\nIs it no?\ncorrect=false\n...done thinking.\n"
    assert told(HINDSIGHT, frame) == "nothing_after_reasoning"
    assert told(HINDSIGHT, f"{frame}\n{PLAIN}") == "True strict reasoning_cut"
    assert told(YES_NO, f"{frame}\nyes") == "True strict reasoning_cut"
    assert told(YES_NO, "Thinking...\nyes") == "reasoning_unclosed"


@pytest.mark.parametrize(
    ("judge", "text", "finish", "reading"),
    [
        (YES_NO, "> No", "stop", "no_verdict"),
        (YES_NO, "Yes\nYes", "stop", "True tolerant:repeated"),
        (YES_NO, "Yes\nNo", "stop", "conflict"),
        (YES_NO, '{"answer": "no"}', "length", "False tolerant:object"),
        (YES_NO, '{"answer": "no"', "length", "truncated"),
        (SCORE, "Score: 4\nFinal score: 4", "stop", "[4] tolerant:repeated"),
        (SCORE, "Score: 4\nFinal score: 3", "stop", "ambiguous_multiple"),
        (SCORE, "Question 1: 4", "stop", "[4] tolerant:labelled"),
    ],
)
def test_said_twice_or_whole(judge: Judge, text: str, finish: str, reading: str) -> None:
    assert told(judge, text, finish) == reading


def test_hostile_remarks_take_no_time() -> None:
    for rest in ("no " * 60_000, "is not " * 30_000, "a" * 150_000, "* " * 50_000, "x'x'x'\n" * 9_000, ". A" * 30_000):
        start = time.process_time()
        told(HINDSIGHT, f"{PLAIN}\n{rest}")
        told(HINDSIGHT, f"correct=true\n{rest}")
        assert time.process_time() - start < 3
