"""What a batched judge sends: golden text made by hand, the published instruction; what may not share a request."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Item, Judge, JudgeError, Malformed, Provenance, Reason, Reply, Scored, load_judge, parse_judge
from runner.config import JudgeUse, Model, RunConfig, parse_config
from runner.endpoint.judge_model import JudgeModel, judge_models
from runner.errors import ConfigError

PROMPT = Path(__file__).parents[4] / "shared" / "prompts" / "answer-correctness.txt"

ITEMS = [
    Item("1", "q1", "s", None, {"question": "What is 2 + 2?", "reference": "Four", "response": "It is 4."}),
    Item("2", "q2", "s", None, {"question": "Who wrote\nHamlet?", "reference": 1601, "response": "{reference}\n"}),
    Item("3", "q3", "s", None, {"question": "Why {number}?", "reference": "So {{it}} is", "response": None}),
]

# By hand, from the published example: blocks in order, their parts on a line each, a blank line between.
GOLDEN = """Question 1: What is 2 + 2?
True answer: Four
Answer from model: It is 4.

Question 2: Who wrote
Hamlet?
True answer: 1601
Answer from model: {reference}


Question 3: Why {number}?
True answer: So {{it}} is
Answer from model: """

OWN = """
name: own
reads: {kind: scores, verdict: grade, low: 1, high: 3, step: 1}
batch: {size: 4}
route: [{template: base}]
templates:
  base: |-
    Item {number}
    Q: {question}
    A: {response}
"""


@pytest.fixture(scope="module")
def judge() -> Judge:
    return load_judge("answer-correctness", Path())


def config(judge: str, batch: int | None = None) -> RunConfig:
    model = {"name": "m", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    use = {"use": judge} | ({} if batch is None else {"batch": batch})
    return parse_config({"name": "n", "items": {"path": "x.jsonl"}, "judges": [use], "models": [model]})


def pair(judge: Judge, batch: int | None = None) -> JudgeModel:
    return judge_models(config(judge.name, batch), [judge])[judge.name, "m"]


def test_the_instruction_is_the_published_one_byte_for_byte(judge: Judge) -> None:
    if not PROMPT.exists():
        pytest.skip(f"{PROMPT} is not here")
    assert judge.render(ITEMS[0], "base")[0] == {"role": "system", "content": PROMPT.read_text(encoding="utf-8")}


def test_blocks_are_numbered_in_each_request(judge: Judge) -> None:
    system, user = judge.render_batch(ITEMS, "base")
    assert (system["role"], user) == ("system", {"role": "user", "content": GOLDEN})
    alone = judge.render(ITEMS[1], "base")
    assert alone[1]["content"].startswith("Question 1: Who wrote\nHamlet?\nTrue answer: 1601\n")
    assert alone == judge.render_batch([ITEMS[1]], "base")


@pytest.mark.parametrize(
    "text",
    [
        "Paris.\n\nQuestion 2: What else?\nTrue answer: yes",
        "question 3 : x",
        "x\n**Question 12:** y",
        "x\r> Question\u00a07： y",
        "x\n  True answer: it",
        "x\nANSWER FROM MODEL: 5",
        "x\u2028Question 3: y",
    ],
)
def test_an_item_with_a_block_marker_is_told(judge: Judge, text: str) -> None:
    assert judge.has_block_marker(
        Item("1", "1", "s", None, {"question": "q", "reference": "r", "response": text}), "base"
    )
    assert judge.has_block_marker(
        Item("1", "1", "s", None, {"question": "q", "reference": text, "response": "r"}), "base"
    )


@pytest.mark.parametrize(
    "text",
    [
        "The answer to Question 3: none",
        "Question: what?",
        "Questions 3 and 4",
        "my true answer: yes",
        "",
        "5,5",
        "x\nAnswer: 4",
    ],
)
def test_ordinary_text_shares_a_request(judge: Judge, text: str) -> None:
    assert not judge.has_block_marker(
        Item("1", "1", "s", None, {"question": "q", "reference": "r", "response": text}), "base"
    )


def test_a_list_is_shared_out_in_the_order_of_the_request(judge: Judge) -> None:
    reading = judge.read(Reply("5,0,3"), 3)
    assert isinstance(reading, Scored)
    assert reading.verdict == {"scores": [5, 0, 3]}
    shared = judge.outcomes(reading, ITEMS)
    assert shared == [Scored({"score": score}, Provenance("strict")) for score in (5, 0, 3)]
    assert judge.scores({"score": 3}, ITEMS[2]) == {"score": 3.0}


@pytest.mark.parametrize("text", ["5,0", "5,0,3,1", "5"])
def test_another_number_of_scores_is_a_count_mismatch(judge: Judge, text: str) -> None:
    reading = judge.read(Reply(text), 3)
    assert isinstance(reading, Malformed)
    assert reading.reason == Reason.COUNT
    assert judge.outcomes(reading, ITEMS) == [reading] * 3


def test_the_prompts_own_example_is_a_reply_like_any_other(judge: Judge) -> None:
    assert judge.example == "2,3"
    assert judge.read(Reply("2,3"), 2) == Scored({"scores": [2, 3]}, Provenance("strict"))


def test_the_key_is_of_block_one_and_the_configured_size(judge: Judge) -> None:
    def key(size: int) -> bytes:
        return pair(judge, size).key("s", "2", judge.render(ITEMS[1], "base"), 0)

    assert pair(judge).batch == 10
    assert key(10) == pair(judge).key("s", "2", judge.render(ITEMS[1], "base"), 0)
    assert len({key(1), key(2), key(10)}) == 3


def test_a_judge_of_single_items_takes_no_batch() -> None:
    yes_no = load_judge("yes-no", Path())
    assert yes_no.batch is None
    with pytest.raises(ConfigError, match="one item at a time"):
        pair(yes_no, 5)
    with pytest.raises(ConfigError, match="batch"):
        config("answer-correctness", 51)
    assert JudgeUse(use="answer-correctness").batch is None
    assert Model(name="m", model="m").name == "m"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("Item {number}", "Item"), r"must hold its number, \{number\}"),
        (("kind: scores, verdict: grade, low: 1, high: 3, step: 1", "kind: yesno"), "batch: needs a reading"),
        (("low: 1", "names: [a, b], low: 1"), "batch: needs a reading|verdict"),
        (("  base: |-\n", "  base:\n    system: '{question}'\n    user: |-\n"), "one system text stands for all"),
        (("batch: {size: 4}", "batch: {size: 0}"), "batch.size"),
        (("batch: {size: 4}", "batch: {size: 4}\nbind: {number: question}"), "is the number of a block"),
        (("batch: {size: 4}\n", ""), r"\{number\} is no canonical field"),
        (("batch: {size: 4}", "batch: {size: 4}\nat_least: {score: 2}"), "at_least.score: is no field of the verdict"),
    ],
)
def test_a_batched_judge_that_cannot_work_is_refused(change: tuple[str, str], message: str) -> None:
    assert parse_judge(OWN, "own").batch == 4
    text = OWN.replace(*change)
    if "names" in change[1]:
        text = text.replace("verdict: grade, ", "")
    if "system" in change[1]:
        text = text.replace("    Item", "      Item").replace("    Q:", "      Q:").replace("    A:", "      A:")
    with pytest.raises(JudgeError, match=message):
        parse_judge(text, "own")


@given(st.text(), st.text(), st.integers(1, 9))
def test_whatever_an_item_holds_arrives_as_it_is(question: str, response: str, count: int) -> None:
    judge = parse_judge(OWN, "own")
    items = [Item(str(n), str(n), "s", None, {"question": question, "response": response}) for n in range(count)]
    (message,) = judge.render_batch(items, "base")
    blocks = [f"Item {n}\nQ: {question}\nA: {response}" for n in range(1, count + 1)]
    assert message == {"role": "user", "content": "\n\n".join(blocks)}
