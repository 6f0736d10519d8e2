"""How one of a few labels is read: where it stands alone, and never inside of a sentence or of another word."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import JudgeError, Malformed, Reply, Scored, parse_judge
from judges.reading import read
from judges.reply_forms import ChoiceReads

ROOT = Path(__file__).parents[3]
COMPARISONS = ROOT.parent / "shared" / "data" / "judge_raw" / "llmbar.jsonl.gz"


def choice(**labels: Any) -> ChoiceReads:
    return ChoiceReads.model_validate({"kind": "choice", "labels": labels})


AB = choice(A={"aliases": ["Answer A"], "value": 1}, B={"aliases": ["Answer B"], "value": 0})
GRADE = choice(CORRECT=None, INCORRECT=None, **{"NOT ATTEMPTED": None})
OUTPUTS = ChoiceReads.model_validate(
    {
        "kind": "choice",
        "verdict": "winner",
        "labels": {f"Output ({letter})": {"aliases": [letter]} for letter in "ab"},
        "phrases": {f"Output ({letter})": [f"Output ({letter}) is better"] for letter in "ab"},
    }
)


def told(reads: ChoiceReads, text: str, finish: str | None = "stop") -> str:
    """The label and the stage, or why there is none."""
    reading = read(reads, Reply(text, finish))
    if isinstance(reading, Scored):
        return f"{reading.verdict[reads.verdict]} {reading.provenance.stage}"
    return str(reading.reason) if isinstance(reading, Malformed) else f"refused by {reading.by}"


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("A", "A strict"),
        (" B\n", "B strict"),
        ("a", "A tolerant:whole"),
        ("Ａ", "A tolerant:whole"),
        ("B.", "B tolerant:whole"),
        ("**A**", "A tolerant:whole"),
        ("[[A]]", "A tolerant:whole"),
        ('"B"', "B tolerant:whole"),
        ("\\boxed{B}", "B tolerant:whole"),
        ("```\nB\n```", "B tolerant:whole"),
        ("answer  a", "A tolerant:whole"),
        ("<answer>A</answer>", "A tolerant:mark"),
        ('{"answer": "B"}', "B tolerant:object"),
        ('```json\n{"choice": "Answer B"}\n```', "B tolerant:object"),
        ("Answer: A", "A tolerant:label"),
        ("**Final verdict:** [[B]]", "B tolerant:mark"),
        ("Verdict:\nB", "B tolerant:label"),
        ("Answer (A/B): B", "B tolerant:label"),
        ("Both are fine.\n\nChoice: B", "B tolerant:label"),
        ("Answer A names the date. Answer B does not.\n\nVerdict: A", "A tolerant:label"),
        ("Both name the date. [[B]]", "B tolerant:mark"),
        ("Both name the date.\n\nB.", "B tolerant:last"),
        ("Both name the date.\n\nB", "B tolerant:last"),
        ("A\n\nIt names the date.", "A tolerant:lead"),
        ("<think>Verdict: A</think>B", "B strict"),
        ("A or B", "other_value"),
        ("A/B", "other_value"),
        ("A, B", "other_value"),
        ("Not A", "other_value"),
        ("B?", "other_value"),
        ("AB", "no_verdict"),
        ("Neither", "no_verdict"),
        ("A good answer is B", "no_verdict"),
        ("A is better", "no_verdict"),
        ("The answer is B.", "no_verdict"),
        ("Both name the date. B", "no_verdict"),
        ("A\n\nIt is better than B.", "A tolerant:lead"),
        ("A\n\nWait, I was mistaken.", "conflict"),
        ("Answer A is long. Answer B is short.\n\nB.", "B tolerant:last"),
        ("The response says:\nAnswer: A", "no_verdict"),
        ("The reference answer: A", "no_verdict"),
        ('"A"\nis what it says.', "no_verdict"),
        ("> A", "other_value"),
        ("```A\n```", "no_verdict"),
        ("A\nB", "conflict"),
        ("Answer: A\nFinal answer: B", "conflict"),
        ("Answer B is better.\n\nVerdict: A", "A tolerant:label"),
        ("I prefer A.\nB", "B tolerant:last"),
        ("Therefore, B it is.\n\nAnswer: A", "A tolerant:label"),
        ("Answer: C", "other_value"),
        ("Answer: not B", "other_value"),
        ("Answer: A or B", "other_value"),
        ('{"answer": "C"}', "other_value"),
        ('{"A": 0.3, "B": 0.7}', "no_verdict"),
        ("I cannot judge these answers.", "refused by model"),
        ("", "empty"),
    ],
)
def test_a_choice_of_two(text: str, reading: str) -> None:
    assert told(AB, text) == reading


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("CORRECT", "CORRECT strict"),
        ("INCORRECT", "INCORRECT strict"),
        ("Incorrect.", "INCORRECT tolerant:whole"),
        ("not attempted", "NOT ATTEMPTED tolerant:whole"),
        ("not_attempted", "NOT ATTEMPTED tolerant:whole"),
        ("IN\u200bCORRECT", "INCORRECT tolerant:whole"),
        ("not CORRECT", "other_value"),
        ("NOT\nCORRECT", "no_verdict"),
        ("IN-\nCORRECT", "no_verdict"),
        ("CORRECTNESS", "no_verdict"),
        ("İncorrect ıncorrect is right.\n\nCORRECT\n", "CORRECT tolerant:last"),
        ("CORRECT\n\nThe response is not correct.", "CORRECT tolerant:lead"),
        ("CORRECT\n\nThe response is incorrect.", "CORRECT tolerant:lead"),
        ("INCORRECT\n\nIt would be correct with a date.", "INCORRECT tolerant:lead"),
        ("CORRECT/INCORRECT", "other_value"),
        ("Verdict: CORRECT / INCORRECT", "other_value"),
    ],
)
def test_a_label_within_another(text: str, reading: str) -> None:
    assert told(GRADE, text) == reading


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("Output (a)", "Output (a) strict"),
        ("(b)", "Output (b) tolerant:whole"),
        ("Final answer: Output (a).", "Output (a) tolerant:label"),
        ("**Winner:** (b)", "Output (b) tolerant:label"),
        (
            "Output (a) omits it. Output (b) follows the instruction. Therefore, Output (b) is better.",
            "Output (b) tolerant:phrase",
        ),
        ("Output (a) is not better", "no_verdict"),
        ("It is not true that\nOutput (a) is better.", "no_verdict"),
        ("The response claims:\nTherefore, Output (a) is better.", "no_verdict"),
        ("Output (a) is better. Therefore, Output (b) is better.", "conflict"),
        ("Both are the same. Output (a)", "no_verdict"),
        ("Overall, I would take Output (b).\n\nOutput (a) is better.", "Output (a) tolerant:phrase"),
    ],
)
def test_labels_of_several_words(text: str, reading: str) -> None:
    assert told(OUTPUTS, text) == reading


def test_a_cut_label_may_have_been_going_on() -> None:
    assert told(AB, "A", "length") == "truncated"
    assert told(AB, "Answer: A", "length") == "truncated"
    assert told(AB, '{"answer": "A"}', "length") == "A tolerant:object"
    assert told(AB, '{"answer": "A"', "length") == "truncated"


def test_values_and_types() -> None:
    assert AB.values() == {"A": 1, "B": 0}
    assert GRADE.values() == {"CORRECT": None, "INCORRECT": None, "NOT ATTEMPTED": None}
    assert AB.verdict_types == {"choice": "string"}
    assert AB.response_schema() is None
    assert choice(A={"value": True}, B={"value": False}).values() == {"A": True, "B": False}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("{A: {}}", "at least 2"),
        ("{A: {}, a: {}}", "differ in case and blanks at most"),
        ("{A: {aliases: [one]}, B: {aliases: [One]}}", "differ in case and blanks at most"),
        ("{A: {aliases: [A]}, B: {}}", "differ in case and blanks at most"),
        ("{A: {value: 1}, B: {}}", "labels.B: has no value"),
        ("{A: {value: .nan}, B: {value: 1}}", "finite"),
        ("{1: {}, 2: {}}", "the label 1 is no text; quote it"),
        ("{A: {aliases: [yes]}, B: {}}", "quote the word"),
        ("{A: {alias: x}, B: {}}", "did you mean 'aliases'"),
        ("{' ': {}, B: {}}", "is empty"),
    ],
)
def test_what_labels_may_not_be(labels: str, message: str) -> None:
    text = f'{{name: x, reads: {{kind: choice, labels: {labels}}}, route: [{{template: t}}], templates: {{t: "?"}}}}'
    with pytest.raises(JudgeError) as error:
        parse_judge(text, "x.yaml")
    assert message in error.value.message


def test_labels_without_values_may_be_a_list() -> None:
    text = 'name: x\nreads: {kind: choice, labels: LABELS}\nroute: [{template: t}]\ntemplates: {t: "{response}"}\n'
    plain = parse_judge(text.replace("LABELS", "[A, B]"), "x.yaml")
    assert plain.choices == ("A", "B")
    assert plain.fingerprint == parse_judge(text.replace("LABELS", "{A: , B: }"), "x.yaml").fingerprint
    for labels, message in [
        ("[A, A]", "the label 'A' is given twice"),
        ("[A, yes]", "the label True is no text; quote it"),
        ("[{A: {value: 1}}, B]", "with aliases or values write {A: {value: 1}, B: {value: 0}}"),
        ("[A]", "reads.labels: must have at least 2 entries, not 1"),
    ]:
        with pytest.raises(JudgeError) as error:
            parse_judge(text.replace("LABELS", labels), "x.yaml")
        assert message in error.value.message


def test_yes_and_no_as_labels_are_words() -> None:
    text = """
name: x
reads: {kind: choice, labels: {yes: {value: true}, no: , on: , off: {value: false}}}
route: [{template: t}]
templates: {t: "{response}"}
"""
    with pytest.raises(JudgeError, match=r"labels\.no: has no value"):
        parse_judge(text, "x.yaml")
    judge = parse_judge(text.replace("no: , on: ,", "no: {value: false}, on: {value: true},"), "x.yaml")
    assert judge.choices == ("yes", "no", "on", "off")


REPLIES = [
    (AB, "Both name the date.\n\nFinal verdict: B"),
    (AB, '```json\n{"verdict": "B"}\n```'),
    (AB, "[[B]]"),
    (AB, "<answer>B</answer>"),
    (GRADE, "The date is wrong.\n\n**Verdict:** INCORRECT"),
    (OUTPUTS, "Output (a) omits the date. Therefore, Output (b) is better."),
]


def test_no_part_and_no_change_of_a_reply_says_something_else() -> None:
    for reads, text in REPLIES:
        whole = told(reads, text).split(" tolerant")[0]
        assert whole in reads.labels
        for end in range(len(text)):
            for finish in ("stop", None, "length"):
                found = told(reads, text[:end], finish).split(" tolerant")[0]
                assert found == whole or found not in reads.labels, text[:end]
        for place in range(len(text)):
            for new in ("", "x", " ", "\n", '"', ".", "(", "N"):
                found = told(reads, text[:place] + new + text[place + 1 :]).split(" tolerant")[0]
                # `INCORRECT` without its first two letters, one of them made a blank, is the other label for nobody.
                assert found == whole or found not in reads.labels, (text, place, new)


PROSE = st.sampled_from(
    [
        "",
        "Answer A names the date.",
        "Answer B names the date.",
        "A is better.",
        "Here is my verdict:",
        "Some would say B.",
        "The response says:",
        "Which is better?",
        "Therefore, A wins.",
        "B",
        "Answer: A",
    ]
)
WRAPPINGS = st.lists(st.sampled_from(["{}", "**{}**", "[[{}]]", "Answer: {}", "{}.", "# {}"]), max_size=3)


@given(st.sampled_from("AB"), WRAPPINGS, PROSE, PROSE)
def test_wrapping_never_flips_a_choice(label: str, wrappings: list[str], before: str, after: str) -> None:
    text = label
    for wrapping in wrappings:
        text = wrapping.replace("{}", text)
    other = "B" if label == "A" else "A"
    for reply in (text, f"<think>Verdict: {other}</think>\n{text}", f"{before}\n\n{text}", f"{text}\n\n{after}"):
        found = told(AB, reply)
        assert not found.startswith(f"{other} "), reply


@given(st.text(max_size=200), st.text("AB [](){}.:*\n\"'answer", max_size=60))
def test_a_label_read_stands_in_the_text(noise: str, near: str) -> None:
    for text in (noise, near, near + noise):
        found = told(AB, text)
        if found[1:2] == " ":
            assert found[0].lower() in text.lower() or any(mark in text for mark in "ＡＢａｂ")


def test_hostile_texts_take_no_time() -> None:
    pieces = (
        "{",
        '"',
        "[[",
        "A ",
        "A\n",
        "Answer: A\n",
        "Answer: ",
        "A is better ",
        "therefore A ",
        "**",
        ". ",
        "not A ",
    )
    for piece in pieces:
        for length in (1 << 20, 199_000):
            text = (piece * length)[:length]
            for reads in (AB, OUTPUTS):
                start = time.process_time()
                told(reads, text)
                assert time.process_time() - start < 1, (piece, length)


def test_real_comparisons_are_read_as_their_authors_did() -> None:
    if not COMPARISONS.exists():
        pytest.skip(f"{COMPARISONS} is not there")
    reads = ChoiceReads.model_validate(
        {
            "kind": "choice",
            "labels": {f"Output ({letter})": {} for letter in "ab"},
            "phrases": {f"Output ({letter})": [f"Output ({letter}) is better"] for letter in "ab"},
        }
    )
    counts = {"bare": [0, 0], "reasoned": [0, 0]}
    with gzip.open(COMPARISONS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        if row["raw"] is None or row["parsed_winner"] is None or row["prompting"].startswith("Rating"):
            continue
        first = (row["parsed_winner"] == "1") != ("True" in row["swap"])
        reading = read(reads, Reply(row["raw"], row["finish"]))
        count = counts["bare" if len(row["raw"]) < 20 else "reasoned"]
        count[0] += 1
        if isinstance(reading, Scored):
            count[1] += 1
            if reading.verdict["choice"] != f"Output ({'a' if first else 'b'})":
                # The authors took the first sentence of that form, though it may be a quoted assistant's.
                assert row["raw"].rpartition(" is better")[0].endswith(reading.verdict["choice"]), row
    assert counts["bare"][1] == counts["bare"][0]
    assert counts["reasoned"][1] >= 0.99 * counts["reasoned"][0]
