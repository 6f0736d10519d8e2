"""Recorded replies are found by question and response, or not at all: never another row's."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import InputError
from runner.simulate import Ambiguous, NotRecorded, Replay, Simulation
from runner.simulate.endpoint import Endpoint

PAPER = "Judge it.\n\nQuestion: {q}\n\nCorrect Answer: {g}\n\nModel Response: {r}\n\nIs it? Answer yes or no only."
LINES = (
    "Label it, for example:\nQuestion: Where?\nGold answer: Here\n\n"
    "Question: {q}\nGold answer: {g}\nGenerated answer: {r}\n\nSet it."
)
HEADED = "---- QUESTION ----\n{q}\n---- REFERENCE ----\n{g}\n---- ANSWER ----\n{r}\n---- INSTRUCTIONS ----\nJudge."
TAGGED = "<question>{q}</question>\n<reference>{g}</reference>\n<response>{r}</response>"
QUOTED = 'Question: "{q}"\nReference: "{g}"\nResponse: "{r}"\nYes or no?'
LAYOUTS = [PAPER, LINES, HEADED, TAGGED, QUOTED]


def replay(*rows: tuple[Any, Any, Any]) -> Replay:
    return Replay((question, response, None, reply) for question, response, reply in rows)


def fill(layout: str, question: str, gold: str, response: str) -> str:
    return layout.replace("{r}", response).replace("{g}", gold).replace("{q}", question)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_row_of_the_response_is_found_in_every_layout(layout: str) -> None:
    recorded = replay(("when?", "2", "a"), ("when?", "in 2022", "b"), ("when?", "2022", "c"), ("who?", "2022", "d"))
    assert recorded.find(fill(layout, "when?", "1999", "2")) == "a"
    assert recorded.find(fill(layout, "when?", "2", "in 2022")) == "b"
    assert recorded.find(fill(layout, "when?", "in 2022", "2022")) == "c"
    assert recorded.find(fill(layout, "who?", "2", "2022")) == "d"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_response_that_is_not_recorded_is_missed(layout: str) -> None:
    recorded = replay(("when?", "2022", "a"), ("when?", "2", "b"))
    for response in ("in 2022", "2022, I think", "20222", "He said: 2022", 'It was "2022"', "<b>2022</b>"):
        with pytest.raises(NotRecorded):
            recorded.find(fill(layout, "when?", "2022", response))


def test_a_question_that_is_not_recorded_is_missed() -> None:
    recorded = replay(("when?", "2022", "a"))
    for question in ("and when?", "when? where?", "When?", "when"):
        with pytest.raises(NotRecorded):
            recorded.find(fill(PAPER, question, "x", "2022"))


def test_responses_of_every_kind_are_found() -> None:
    rows: list[tuple[str, Any, str]] = [
        ("q", None, "null"),
        ("r", 12, "integer"),
        ("s", "a\n\nb: c\n2022\n", "lines"),
        ("s", "2022", "a line of it"),
        ("t", "{} {{7*7}} {0.__class__} \0 🦉 </think>", "odd"),
        ("u: v, w: x", "y: z", "colons"),
        ("two\nlines", "z", "question of two lines"),
        ("q2", True, "bool"),
    ]
    recorded = replay(*rows)
    texts: dict[Any, str] = {None: "", 12: "12", True: "true"}
    for question, response, reply in rows:
        assert recorded.find(fill(PAPER, question, "gold", texts.get(response, response))) == reply


def test_the_response_may_repeat_the_question_or_another_one() -> None:
    recorded = replay(("who?", "who?", "a"), ("who?", "you", "b"), ("when?", "you", "c"), ("who?", "when?", "d"))
    assert recorded.find(fill(PAPER, "who?", "x", "who?")) == "a"
    assert recorded.find(fill(PAPER, "who?", "x", "you")) == "b"
    assert recorded.find(fill(PAPER, "who?", "you", "when?")) == "d"


def test_equal_rows_are_one_and_differing_replies_are_ambiguous() -> None:
    assert replay(("q", "r", "yes"), ("q", "r", "yes")).find(fill(PAPER, "q", "g", "r")) == "yes"
    differing = replay(("q", "r", "yes"), ("q", "r", "no"))
    assert differing.conflicts() == 1
    with pytest.raises(Ambiguous):
        differing.find(fill(PAPER, "q", "g", "r"))


def test_a_reference_tells_rows_apart_where_there_is_one() -> None:
    recorded = Replay([("q", "r", "g", "yes"), ("q", "r", "r", "no")])
    assert recorded.find(fill(PAPER, "q", "g", "r")) == "yes"
    assert recorded.find(fill(PAPER, "q", "r", "r")) == "no"


def test_responses_that_differ_in_outer_white_space_alone_are_ambiguous() -> None:
    """Nobody can say whether the line break belongs to the answer or to the layout."""
    recorded = replay(("q", "r", "yes"), ("q", "r\n", "no"))
    with pytest.raises(Ambiguous):
        recorded.find(fill(PAPER, "q", "g", "r"))


@given(
    question=st.text(min_size=1, max_size=40).filter(lambda text: text.strip()),
    responses=st.lists(st.text(alphabet='ab12 :\n"<>', max_size=8), min_size=1, max_size=5, unique=True),
    gold=st.text(alphabet="ab12 :\n", max_size=8),
)
def test_no_other_rows_reply_is_ever_given(question: str, responses: list[str], gold: str) -> None:
    recorded = replay(*((question, response, response) for response in responses))
    for response in responses:
        with contextlib.suppress(Ambiguous, NotRecorded):
            assert recorded.find(fill(PAPER, question, gold, response)) == response


def test_files_are_read_and_their_errors_placed(tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    path.write_text('{"question": "q", "response": "r", "reply": {"correct": true}}\n\n{"question": "q2"}\n')
    with pytest.raises(InputError, match=r"recorded\.jsonl:3"):
        Replay.read(path)
    path.write_text('{"question": "q", "response": "r", "reply": {"correct": true}}\n')
    recorded = Replay.read(path)
    assert recorded.find(fill(PAPER, "q", "g", "r")) == '{"correct":true}'
    assert (recorded.rows, recorded.yes) == (1, 1.0)
    with pytest.raises(InputError, match="cannot read"):
        Replay.read(tmp_path / "absent.jsonl")


def test_fifteen_thousand_real_rows_are_each_found(data: Path) -> None:
    """Only rows that differ in their label and in nothing that a prompt shows cannot be told apart."""
    with (data / "human_labels" / "evouna_nq.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    recorded = Replay((r["question"], r["model_answer"], r["gold_answer"], bool(r["human_correct"])) for r in rows)
    labels: dict[tuple[str, str, str], set[bool]] = {}
    for row in rows:
        labels.setdefault(_shown(row), set()).add(row["human_correct"])
    ambiguous = 0
    for row in rows:
        try:
            found = recorded.find(fill(PAPER, *_shown(row)))
        except Ambiguous:
            assert len(labels[_shown(row)]) == 2, row
            ambiguous += 1
        else:
            assert found is row["human_correct"], row
    assert ambiguous == 10


def _shown(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["question"], row["gold_answer"], row["model_answer"] or ""


def test_documents_between_headings_do_not_hide_question_and_answer(data: Path) -> None:
    """Rows of keyed sentences: the question and the answer stand below headings, and sentences may repeat them."""
    prompt = (data.parent / "prompts" / "ragbench.txt").read_text(encoding="utf-8")
    with (data / "ragbench" / "rows.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    fields = ("all_relevant_sentence_keys", "all_utilized_sentence_keys")
    replies = [json.dumps({name: row[name] for name in fields}) for row in rows]
    recorded = Replay((r["question"], r["response"], None, reply) for r, reply in zip(rows, replies, strict=True))
    for row, reply in zip(rows, replies, strict=True):
        sentences = [f"{key}: {text}" for document in row["documents_sentences"] for key, text in document]
        repeated = [*sentences, f"9a: {row['question']}", f"9b: {row['response']}"]
        for documents in (sentences, repeated):
            filled = prompt.replace("{documents}", "\n".join(documents)).replace("{{", "{").replace("}}", "}")
            filled = filled.replace("{answer}", row["response"]).replace("{question}", row["question"])
            assert recorded.find(filled) == reply
            with pytest.raises(NotRecorded):
                recorded.find(filled.replace(row["response"], "Something else."))


def test_numbers_are_replies(tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    path.write_text(
        '{"question": "q", "response": "r", "reply": 4}\n{"question": "q", "response": "s", "reply": 1.5}\n'
    )
    recorded = Replay.read(path)
    assert [recorded.find(fill(PAPER, "q", "g", response)) for response in "rs"] == ["4", "1.5"]
    assert recorded.yes == 0.5
    path.write_text('{"question": "q", "response": "r", "reply": [4]}\n')
    with pytest.raises(InputError, match="a number"):
        Replay.read(path)


@pytest.mark.parametrize("asked", ["Answer yes.", "Say hello."])
def test_what_asks_for_no_verdict_needs_no_record(tmp_path: Path, asked: str) -> None:
    """A client that wants to know whether the endpoint answers at all is not told that its request is a bad one."""
    path = tmp_path / "replies.jsonl"
    path.write_text('{"question": "when?", "response": "2022", "reply": true}\n')
    endpoint = Endpoint(Simulation(replay=path), Replay.read(path))
    body = {"model": "m", "messages": [{"role": "user", "content": asked}]}
    assert endpoint.answer(1, json.dumps(body).encode(), 0.0).status == 200
    body["messages"] = [{"role": "user", "content": f"{asked} Or no?"}]
    assert endpoint.answer(2, json.dumps(body).encode(), 0.0).status == (422 if "yes" in asked else 200)
