"""Properties of reading: wrapping never flips a verdict, and a part of a reply never says something else."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from judges import Judge, Reply, Scored, load_judge, parse_judge

YES_NO = load_judge("yes-no", Path())
HINDSIGHT = load_judge("longmemeval-hindsight", Path())
SCORE = parse_judge(
    """
name: score
reads:
  kind: object
  verdict: [correct, score]
  lines: true
  schema:
    type: object
    properties: {correct: {type: boolean}, score: {type: integer, minimum: 0, maximum: 10}, reason: {type: string}}
    required: [correct, score]
route: [{template: base}]
templates: {base: "{response}"}
""",
    "score",
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
PROSE = st.sampled_from(
    [
        "",
        "The dates agree.",
        "The response omits the date.",
        "The response contains the correct answer.",
        "Here is my evaluation:",
        "At first I would say yes.",
        "Some would say no.",
        "The response says so.",
        "Let me check each claim.",
        "Is it correct?",
        "{a, b}",
        "- one\n- two",
        "**Evaluation**",
    ]
)
WRAPPINGS = [
    "{}",
    "**{}**",
    "`{}`",
    '"{}"',
    "({})",
    "{}.",
    "\n {} \n",
    "```\n{}\n```",
    "Answer: {}",
    "**Answer:** {}",
    "# {}",
]
OPPOSITE = {"yes": "no", "no": "yes"}


def verdict(judge: Judge, text: str, finish: str | None = "stop") -> dict[str, object] | None:
    reading = judge.read(Reply(text, finish))
    return dict(reading.verdict) if isinstance(reading, Scored) else None


@given(st.sampled_from(["yes", "no"]), st.lists(st.sampled_from(WRAPPINGS), max_size=3), PROSE, PROSE, TEXT)
def test_wrapping_a_word_never_flips_it(word: str, wrappings: list[str], before: str, after: str, thought: str) -> None:
    text = word
    for wrapping in wrappings:
        text = wrapping.replace("{}", text)
    right = {"correct": word == "yes"}
    for reply in (
        text,
        f"{before}\n\n{text}",
        f"{text}\n\n{after}",
        f"<think>{OPPOSITE[word]}\n{thought}</think>\n{text}",
        f"<think>{OPPOSITE[word]}</think>{before}\n{text}",
    ):
        assert verdict(YES_NO, reply) in (right, None)


@given(st.booleans(), TEXT, PROSE, PROSE, st.booleans())
def test_wrapping_an_object_never_flips_it(correct: bool, why: str, before: str, after: str, fence: bool) -> None:
    body = json.dumps({"reasoning": why, "correct": correct})
    right = {"correct": correct}
    assert verdict(HINDSIGHT, body) == right
    assert verdict(HINDSIGHT, f"<think>{json.dumps({'correct': not correct})}</think>{body}") == right
    wrapped = f"```json\n{body}\n```" if fence else body
    assert verdict(HINDSIGHT, f"{before}\n{wrapped}\n{after}") in (right, None)


@given(st.booleans(), TEXT)
def test_two_verdicts_that_differ_are_none(correct: bool, between: str) -> None:
    # What stands within a quotation or a fence, or behind a colon that introduces another's words, is no verdict.
    between = re.sub(r"[\"“”`~>|':]", "", between)
    one, other = json.dumps({"correct": correct}), json.dumps({"correct": not correct})
    assert verdict(HINDSIGHT, f"{one}\n{between}\n{other}") is None
    assert verdict(HINDSIGHT, f"correct={correct}\n{between.replace('think', '')}\ncorrect={not correct}") is None
    assert verdict(YES_NO, f"Answer: yes\n{between.replace('think', '')}\nAnswer: no") is None


REPLIES = [
    (HINDSIGHT, '{"correct": true, "reasoning": "It says \\"correct\\": false, {no}."}'),
    (HINDSIGHT, 'Here is my evaluation:\n```json\n{"reasoning": "fine", "correct": false}\n```\n'),
    (HINDSIGHT, "The answer matches the gold answer.\ncorrect=true"),
    (HINDSIGHT, "reasoning: it differs\ncorrect: false\n"),
    (SCORE, '{"correct": true, "score": 10, "reason": "all 10 points"}'),
    (SCORE, '```\n{"reason": "x", "score": 10, "correct": true}\n```'),
    (SCORE, "correct: true\nscore: 10\nreason: all 10 points"),
    (YES_NO, "The response omits the date.\n\n**Final answer:** no"),
    (YES_NO, "Yes, because the response matches the reference."),
    (YES_NO, '```json\n{"verdict": "no"}\n```'),
    (YES_NO, "<think>yes, or no</think>\nNo."),
]


def test_no_part_of_a_reply_says_something_else() -> None:
    for judge, text in REPLIES:
        whole = verdict(judge, text)
        assert whole is not None
        for end in range(len(text)):
            for finish in ("stop", None, "length"):
                assert verdict(judge, text[:end], finish) in (whole, None), text[:end]


def test_no_change_of_one_character_of_an_object_says_more_than_json_does() -> None:
    text = '{"correct": true, "score": 10, "reason": "x"}'
    whole = verdict(SCORE, text)
    for place in range(len(text)):
        for new in ("", "0", "1", '"', "}", "{", ",", " ", "n", "\n"):
            edited = text[:place] + new + text[place + 1 :]
            ours = verdict(SCORE, edited)
            if ours not in (whole, None):
                # Only where the edit leaves valid JSON with another value, which nobody can see.
                assert json.loads(edited) | ours == json.loads(edited)


@given(st.text(max_size=300), st.sampled_from(["stop", "length", None]))
def test_any_text_is_read_as_something(text: str, finish: str | None) -> None:
    for judge in (YES_NO, HINDSIGHT, SCORE):
        judge.read(Reply(text, finish))


WORDS = [
    "yes",
    "no",
    "Yes",
    "No",
    "correct",
    "true",
    "false",
    "Answer",
    "not",
    "if",
    "set",
    "score",
    "4",
    "**",
    "```",
    "<think>",
    "</think>",
]
PIECES = st.lists(st.sampled_from([*WORDS, *':=,."{}[]\\ \n']), max_size=25).map("".join)


@given(PIECES)
def test_a_verdict_stands_in_the_answer(text: str) -> None:
    found = verdict(YES_NO, text)
    if found is not None:
        answer = text.rpartition("</think>")[2].lower()
        assert ("yes" if found["correct"] else "no") in answer
    found = verdict(HINDSIGHT, text)
    if found is not None:
        assert any(literal in text.lower() for literal in (("true", "yes") if found["correct"] else ("false", "no")))
