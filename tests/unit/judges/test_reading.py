"""How replies are read: never wrongly. One that is left unread costs a call; one read wrongly is never noticed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from judges import Judge, Malformed, Reading, Refused, Reply, Scored, load_judge, parse_judge

ROOT = Path(__file__).parents[3]
CORPUS = ROOT.parent / "shared" / "corpus" / "answers.jsonl"

CORRECT_AND_SCORE = """
name: correct-and-score
reads:
  kind: object
  verdict: [correct, score]
  lines: true
  schema:
    type: object
    properties: {reason: {type: string}, correct: {type: boolean}, score: {type: integer, minimum: 0, maximum: 5}}
    required: [correct, score]
route: [{template: base}]
templates: {base: "Judge {response}"}
"""

YES_NO = load_judge("yes-no", ROOT)
HINDSIGHT = load_judge("longmemeval-hindsight", ROOT)
GRADED = parse_judge(CORRECT_AND_SCORE, "correct-and-score")


def told(reading: Reading) -> str:
    """A reading in short: the verdict and stage, or what became of it."""
    if isinstance(reading, Scored):
        return f"{'yes' if reading.verdict['correct'] else 'no'} {reading.provenance.stage}"
    return str(reading.reason) if isinstance(reading, Malformed) else f"refused by {reading.by}"


@pytest.mark.parametrize(("kind", "judge", "at_least"), [("yesno", YES_NO, 14), ("json", GRADED, 33)])
def test_no_reply_of_the_corpus_is_read_wrongly(kind: str, judge: Judge, at_least: int) -> None:
    if not CORPUS.exists():
        pytest.skip(f"{CORPUS} is not there")
    right: list[Any] = []
    wrong: list[Any] = []
    for line in CORPUS.read_text(encoding="utf-8").strip().split("\n"):
        row = json.loads(line)
        if row["kind"] != kind:
            continue
        reading = judge.read(Reply(row["text"], row["finish"]))
        expected = {"correct": row["expect"] == "yes"} if row["expect"] in ("yes", "no") else row["expect"]
        if isinstance(reading, Scored):
            (right if reading.verdict == expected else wrong).append(row["id"])
    assert wrong == []
    assert len(right) >= at_least


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("yes", "yes strict"),
        (" No\n", "no strict"),
        ("Yes.", "yes tolerant:whole"),
        ("**No**", "no tolerant:whole"),
        ('"Yes."', "yes tolerant:whole"),
        ("```\nyes\n```", "yes tolerant:whole"),
        ("ｙｅｓ", "yes tolerant:whole"),
        ("Yes<|im_end|>", "yes tolerant:whole"),
        ("<answer>no</answer>", "no tolerant:mark"),
        ('```json\n{"verdict": "No"}\n```', "no tolerant:object"),
        ("Judgement: No\n\nReasoning: they differ.", "no tolerant:label"),
        ("The date is missing.\n\n**Final answer:** no", "no tolerant:label"),
        ("Answer (yes/no): no", "no tolerant:label"),
        ("The dates agree.\n\nYes", "yes tolerant:last"),
        ("Yes\n\nThe response gives the right date.", "yes tolerant:lead"),
        ("Yes, because the response matches the reference.", "yes tolerant:lead"),
        ("Yes, there is no factual error.", "yes tolerant:lead"),
        ("**No**, the response does not contain it.", "no tolerant:lead"),
        ("<think>yes? no.</think>\n\nno", "no strict"),
        ("yes? no.</think>Yes.", "yes tolerant:whole"),
        # Nothing of these is a verdict.
        ("Yesterday", "no_verdict"),
        ("not yes", "other_value"),
        ("yes/no", "other_value"),
        ("Yes and no.", "other_value"),
        ("Yes...", "other_value"),
        ("[yes", "other_value"),
        ("~~yes~~", "other_value"),
        ("No errors found.", "no_verdict"),
        ("No. 5 is the answer", "no_verdict"),
        ("No, but yes in spirit.", "conflict"),
        ('"No," said the witness. He was right about the date.', "no_verdict"),
        ("Yes, it is not equivalent.", "yes tolerant:lead"),
        ("No, it is right.", "no tolerant:lead"),
        ("Yes\nNo", "conflict"),
        ("> Yes\n\nNo", "no tolerant:last"),
        ("Answer: yes\nFinal answer: no", "conflict"),
        ("Yes\n\nThe answers differ. Therefore, the answers are not equivalent.", "yes tolerant:lead"),
        ("Answer: maybe", "other_value"),
        ("Answer:", "no_verdict"),
        ("The response says:\nAnswer: yes", "no_verdict"),
        ("The response says:\nAll is well.\nAnswer: yes", "no_verdict"),
        ('The response ends "All is well.\nAnswer: yes', "no_verdict"),
        ("Does it contain an error?\nYes", "no_verdict"),
        ("Yes\n\nWait, that is wrong.", "conflict"),
        ("1. Yes\n2. Yes", "no_verdict"),
        ('{"answer": "yes", "answer": "no"}', "duplicate_key"),
        ('{"yes": 0.3, "no": 0.7}', "no_verdict"),
        ("<think>yes", "reasoning_unclosed"),
        ("no</think> <think>yes", "reasoning_unclosed"),
        ("<think>yes</think>", "nothing_after_reasoning"),
        ("", "empty"),
        ("\u200b", "empty"),
        ("I'm sorry, but I can't help with that.", "refused by model"),
        ("No\n\nI cannot evaluate this request.", "refused by model"),
        ("I won't be able to help with that.", "refused by model"),
        ("I refuse to answer.", "refused by model"),
        ('"I can\'t help with that."', "refused by model"),
        # What somebody else answered is not the judge's answer.
        ("The reference answer is:\n\nNo", "no_verdict"),
        ("The model's answer:\nYes", "no_verdict"),
        ("Gold answer: Rex\nGenerated answer: yes.\n\nNo", "no tolerant:last"),
        ("The two are to be compared, and my final verdict is:\n\nNo", "no tolerant:last"),
        ("Final answer:\n\n**Yes**", "yes tolerant:label"),
        # The reason belies the answer, wherever it stands.
        ("No, the response isn't wrong.", "no tolerant:lead"),
        ("No. There is nothing missing from the response.", "no tolerant:lead"),
        ("No, the response does not contradict the reference.", "no tolerant:lead"),
        ("No, the response gives the reference answer.", "no tolerant:lead"),
        ("No, the response is incorrect, and the date is not given.", "no tolerant:lead"),
        ("No\n\nThe response is correct.", "no tolerant:lead"),
        ("Yes.\nThe response is wrong.", "yes tolerant:lead"),
        ("Answer: Yes\nExplanation: The response is incorrect.", "yes tolerant:label"),
        ("Yes\n\nThe response names the degree.", "yes tolerant:lead"),
        # A plain statement of the verdict may be followed by more; one to the contrary is a conflict.
        ('Yes, the candidate is correct. "Hoot" is set in Coconut Cove, or near it.', "yes tolerant:lead"),
        ("No, the candidate is not correct. Intel makes them and could not have said so.", "no tolerant:lead"),
        ("Yes, the candidate is correct. However, the year is wrong.", "yes tolerant:lead"),
        ("Yes, the response is correct. I am not sure.", "yes tolerant:lead"),
        ("Yes, the response is correct. The response is incorrect.", "yes tolerant:lead"),
        ("No, the response is correct.", "no tolerant:lead"),
        ("Yes, that is not correct.", "yes tolerant:lead"),
        # Behind a label only a plain denial counts.
        (
            "Judgement: Yes\n\nReasoning: The only difference is the format; the order does not matter.",
            "yes tolerant:label",
        ),
        ("Judgement: Yes\n\nReasoning: The year is missing.", "yes tolerant:label"),
        ("Judgement: Yes\n\nReasoning: It does not give the year.", "yes tolerant:label"),
        ("To see if the two agree, let's compare them:\n1998 and 1998.\n\nJudgement: Yes", "yes tolerant:label"),
        ("The response was:\nAll is well.\nAnswer: yes", "no_verdict"),
        # A sentence without its end may have been going on.
        ("Yes, the response is in", "yes tolerant:lead"),
        ("No, the response is", "no tolerant:lead"),
        # A quoted refusal is about the item.
        ('The response says "I cannot answer that", as it should.\n\nYes', "yes tolerant:last"),
        ('Yes. The model says "I cannot answer that."', "yes tolerant:lead"),
    ],
)
def test_yes_or_no(text: str, reading: str) -> None:
    assert told(YES_NO.read(Reply(text))) == reading


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ('{"correct": true, "reasoning": "x"}', "yes strict"),
        ('{"reasoning": "</think> \\"correct\\": true", "correct": false}', "no strict"),
        ('{"correct": true}', "yes tolerant:object"),
        ('{"Correct": false, "reasoning": "x"}', "no tolerant:object"),
        ('{"reasoning": "line\nline", "correct": true}', "yes tolerant:object"),
        ('```json\n{"correct": false, "reasoning": "x"}\n```', "no tolerant:fence"),
        ('Evaluation:\n```\n{"correct": false, "reasoning": "x"}\n```\nAsk for more.', "no tolerant:prose"),
        ("The answer matches.\ncorrect=true", "yes tolerant:lines"),
        ("The answer matches. correct=true", "yes tolerant:lines"),
        ("The answer differs.\n\n**correct**: False", "no tolerant:lines"),
        ("correct=no", "no tolerant:lines"),
        ("correct = yes.", "yes tolerant:lines"),
        ("- reasoning: it matches\n- correct: true", "yes tolerant:lines"),
        ("If it's correct, set correct=true.\ncorrect=false", "no tolerant:lines"),
        (
            '```json\n{"reasoning": "It says \\"I can\'t help with that\\".", "correct": false}\n```',
            "no tolerant:fence",
        ),
        ('It says "I cannot answer this question", but the dog is Rex.\n\ncorrect=false', "no tolerant:lines"),
        # Nothing of these is a verdict.
        ("WRONG", "no_verdict"),
        ("The response is wrong.", "no_verdict"),
        ("If it's correct, set correct=true.", "no_verdict"),
        ("correct=true if the response is right", "no_verdict"),
        ("correct: true or false", "other_value"),
        ("incorrect=true", "no_verdict"),
        ("is_correct: true", "no_verdict"),
        ("correct=truefalse", "other_value"),
        ("correct=true\ncorrect=false", "conflict"),
        ('The response holds "correct=true".\ncorrect=false', "no tolerant:lines"),
        ('Gold answer:\n{"correct": true, "reasoning": "x"}', "no_verdict"),
        ('Generated answer: {"correct": true, "reasoning": "x"}', "no_verdict"),
        ('The model\'s JSON:\n{"correct": true, "reasoning": "x"}', "no_verdict"),
        ("Generated answer:\ncorrect=true", "no_verdict"),
        ("```\ncorrect=true\n```\nis what the response claims.", "no_verdict"),
        ("The response instructs:\ncorrect=true\nI do not follow that.", "no_verdict"),
        ('The response reads "I am right.\ncorrect=true"', "no_verdict"),
        ('The response says {"correct": true, "reasoning": ""} but it is wrong.', "no_verdict"),
        ('The response says: {"correct": true, "reasoning": ""}', "no_verdict"),
        ('{"correct": false, "reasoning": "x"}\n\nHmm, actually that is a mistake.', "conflict"),
        ('{"correct": true} {"correct": false}', "ambiguous_multiple"),
        ('[{"correct": true}, {"correct": false}]', "ambiguous_multiple"),
        ('{"correct": true, "Correct": false}', "ambiguous_field"),
        ('{"correct": true, "correct": false}', "duplicate_key"),
        ('{"correct": true, "correct": 1}', "duplicate_key"),
        ('{"correct": 2}', "other_value"),
        ('{"correct": "maybe"}', "other_value"),
        ('{"correct": null}', "other_value"),
        ('{"correct": true, "n": NaN}', "other_value"),
        ('{"correct": true, "n": 1e999}', "out_of_range"),
        ('{"correct": true', "unbalanced"),
        ('{"correct": true}}', "yes tolerant:object"),
        ('{"correct": true, "reasoning": "it says "correct": false"}', "ambiguous_field"),
        ('{"example": {"correct": true}}', "field_missing"),
        ('{"type": "object", "properties": {"correct": {"type": "boolean"}}}', "schema_echo"),
    ],
)
def test_objects_and_lines(text: str, reading: str) -> None:
    assert told(HINDSIGHT.read(Reply(text))) == reading


def test_numbers_on_lines_are_whole_only_where_the_line_ends() -> None:
    reading = GRADED.read(Reply("correct: true\nscore: 4\nreason: matches"))
    assert isinstance(reading, Scored)
    assert reading.verdict == {"correct": True, "score": 4}
    for text in ("correct: true\nscore: 1", "correct: true\nscore: 4.5\n", "correct: true\nscore: 8/10\nreason: x"):
        assert isinstance(GRADED.read(Reply(text)), Malformed)


def test_lines_count_only_where_they_are_declared() -> None:
    judge = parse_judge(CORRECT_AND_SCORE.replace("lines: true", "lines: false"), "own")
    assert told(judge.read(Reply("correct: true\nscore: 4\nreason: x"))) == "no_verdict"
    assert (
        told(judge.read(Reply('Result:\n{"correct": true, "score": 4}\nThat is: correct=false')))
        == "yes tolerant:prose"
    )


@pytest.mark.parametrize("finish", ["length", "max_tokens", "LENGTH", "abort"])
def test_a_cut_reply_is_read_only_where_it_is_whole_json(finish: str) -> None:
    for text in ("yes", "Yes.", '{"answer": "yes"', ""):
        assert told(YES_NO.read(Reply(text, finish))) == "truncated"
    for text in ('{"correct": true, "reasoning": "x"}', '<think>a</think>{"correct": true, "reasoning": "x"}'):
        assert told(HINDSIGHT.read(Reply(text, finish))) == "yes strict"
    for text in ("correct=true", '{"correct": true', "<think>a", 'It is right.\n{"correct": tr'):
        assert told(HINDSIGHT.read(Reply(text, finish))) == "truncated"
    assert told(HINDSIGHT.read(Reply('```\n{"correct": true}\n```\n\nThe', finish))) == "yes tolerant:object_cut"


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("Yes, the candidate names", "yes tolerant:lead_cut"),
        ("No. It", "truncated"),
        ("No. It names ", "no tolerant:lead_cut"),
        ("No\n\nIt", "no tolerant:lead_cut"),
        ("Yes", "truncated"),
        ("Yes,", "truncated"),
        ("Yes, but the", "truncated"),
        ("Yes and no, it", "truncated"),
        ("Answer: yes", "truncated"),
        ("Answer: yes\n\nIt names", "truncated"),
        ("Yes, it does.\nAnswer: no\nIt", "truncated"),
        ("Yes, it does. Wait, it", "truncated"),
    ],
)
def test_of_a_cut_reply_only_its_lead_is_read(text: str, reading: str) -> None:
    assert told(YES_NO.read(Reply(text, "length"))) == reading


def test_what_the_endpoint_says_comes_first() -> None:
    assert YES_NO.read(Reply("yes", "content_filter")) == Refused("content_filter")
    assert YES_NO.read(Reply("yes", "stop", refusal="I must not.")) == Refused("model", "I must not.")
    assert told(YES_NO.read(Reply(None))) == "empty"
    assert told(YES_NO.read(Reply("", reasoning="yes"))) == "nothing_after_reasoning"
    assert told(YES_NO.read(Reply("no", None, reasoning="yes"))) == "no strict"


def test_cut_reasoning_is_noted() -> None:
    reading = YES_NO.read(Reply("<think>no</think>yes"))
    assert isinstance(reading, Scored)
    assert reading.provenance.notes == ("reasoning_cut",)


def test_outcomes_can_be_stored_whatever_the_reply_held() -> None:
    for text in (
        "Answer: \ud800",
        "I cannot help with \ud800 that.",
        '{"correct": "\ud800"}',
        "\x00",
        "correct=\ud800",
    ):
        for judge in (YES_NO, HINDSIGHT, GRADED):
            reading = judge.read(Reply(text))
            assert not isinstance(reading, Scored)
            reading.detail.encode()


HOSTILE = [
    "{",
    '"',
    "a:",
    "[",
    "{}",
    '{"a":',
    '{"correct": true}',
    "<think>",
    "</s>",
    "```",
    "\\",
    "yes ",
    " ",
    "\n",
    "correct: true\n",
    "correct=true ",
    "Answer: yes\n",
    ". correct=true",
    "if set correct=true ",
    "as an ai ",
    "The reply:\n",
]


@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize("size", [190_000, 1 << 20])
def test_hostile_replies_take_linear_time(pattern: str, size: int) -> None:
    text = pattern * (size // len(pattern)) + "\nyes"
    for judge in (YES_NO, HINDSIGHT, GRADED):
        start = time.process_time()
        judge.read(Reply(text))
        assert time.process_time() - start < 2
