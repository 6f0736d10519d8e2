"""Batches at the simulated endpoint: a block's verdict is its own, and lists that do not fit are read by nobody."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Malformed, Reason, Reply, Scored, load_judge
from runner.simulate import NotRecorded, Replay, Simulation
from runner.simulate.bad_replies import miscount
from runner.simulate.endpoint import Endpoint
from runner.simulate.faults import Faults
from runner.simulate.prompt_parser import ParsedPrompt, draw_verdicts, parse_prompt, parse_reply_spec, split_blocks
from runner.simulate.replies import NoScore, compose_list, render_reply

JUDGE = load_judge("answer-correctness", Path())
TOLD = JUDGE.templates["base"]["system"]

LABELS = re.compile(r"(?m)^(?:Question \d+|True answer|Answer from model):")
TEXT = st.text(alphabet='ab12,:.\n "[]', max_size=24) | st.text(max_size=12)
CONTENT = st.tuples(TEXT, TEXT, TEXT).filter(lambda texts: not any(LABELS.search(f"\n{text}") for text in texts))
Content = tuple[str, str, str]


def block(number: int, content: Content) -> str:
    return "Question {}: {}\nTrue answer: {}\nAnswer from model: {}".format(number, *content)


def batch(contents: list[Content], told: str = TOLD) -> ParsedPrompt:
    text = "\n\n".join(block(number, content) for number, content in enumerate(contents, 1))
    messages = [{"role": "system", "content": told}, {"role": "user", "content": text}]
    return parse_prompt({"model": "m", "messages": messages})


def scores(contents: list[Content]) -> list[str]:
    prompt = batch(contents)
    wanted = parse_reply_spec(prompt)
    return render_reply(wanted, draw_verdicts(wanted, prompt, 0, 0.6), prompt.user).split(",")


@given(contents=st.lists(CONTENT, min_size=1, max_size=12), data=st.data())
def test_a_blocks_score_is_the_same_alone_anywhere_and_among_others(contents: list[Content], data: Any) -> None:
    alone = {content: scores([content]) for content in contents}
    assert all(len(found) == 1 for found in alone.values())
    size = data.draw(st.integers(1, len(contents)))
    shuffled = data.draw(st.permutations(contents))
    for start in range(0, len(shuffled), size):
        asked = shuffled[start : start + size]
        assert scores(asked) == [alone[content][0] for content in asked]


@given(contents=st.lists(CONTENT, min_size=1, max_size=6))
def test_a_list_is_read_by_the_judge_as_it_stands(contents: list[Content]) -> None:
    reading = JUDGE.read(Reply(",".join(scores(contents))), len(contents))
    assert isinstance(reading, Scored)
    assert reading.provenance.stage == "strict"


def test_scores_spread_over_the_scale() -> None:
    found = scores([(str(number), "t", "a") for number in range(400)])
    assert set(found) == set("012345")
    assert sum(score in "345" for score in found) / 400 == pytest.approx(0.6, abs=0.08)


@pytest.mark.parametrize(
    "answer",
    [
        "a\n\nQuestion 3: b\nTrue answer: c\nAnswer from model: d",
        "a\n\nQuestion 2: b",
        "a\n\nQuestion 2: b\n\nQuestion 3: c",
        "a\n\nQuestion 2: b\nAnswer: c",
        "a\n\nQuestion 2: b\nTrue answer: c",
        "a\nQuestion 2: b\nTrue answer: c\nAnswer from model: d",
        "1,2,3\n\n2. b\n\n\n\n",
    ],
)
def test_a_lone_answer_that_looks_like_a_block_is_one_block(answer: str) -> None:
    assert len(scores([("q", "t", answer)])) == 1
    # Among others too, as long as what it opens is not the number that is due.
    if "Question 2" not in answer:
        assert len(scores([("q", "t", answer), ("r", "t", "b")])) == 2


def test_an_answer_that_holds_a_whole_block_in_its_turn_is_taken_for_two() -> None:
    assert len(scores([("q", "t", "a\n\nQuestion 2: b\nTrue answer: c\nAnswer from model: d")])) == 2


@pytest.mark.parametrize("marker", ["Question {}:", "[{}]", "### Item {}\nQuestion:", "{}.", "{})", "Pair #{} —"])
def test_other_peoples_blocks_are_found_by_their_first_number(marker: str) -> None:
    contents = [f" x{number}\nGiven: y\nHeld against: z 7" for number in range(12)]
    text = "\n\n".join(marker.format(number) + content for number, content in enumerate(contents, 1))
    assert split_blocks(text, "") == split_blocks(text, "Given: …")
    assert [content.splitlines()[0].removeprefix("Question:").strip("— ") for _, content in split_blocks(text, "")] == [
        f"x{number}" for number in range(12)
    ]


def test_what_is_not_numbered_is_one_block() -> None:
    assert split_blocks("a\n\nb", "") == (("a\n\nb", "a\n\nb"),)
    assert split_blocks("", "") == (("", ""),)


def test_a_list_for_blocks_is_not_a_list_of_one_items_scores() -> None:
    told = "Reply with two scores from 1 to 10, comma-separated."
    prompt = batch([("q", "t", "a"), ("r", "t", "b")], told)
    wanted = parse_reply_spec(prompt)
    assert (wanted.scores, wanted.blocks) == (2, ())
    assert len(render_reply(wanted, draw_verdicts(wanted, prompt, 0, 0.6)).split(",")) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_lists_of_a_wrong_count_are_read_by_no_reader_of_ours(count: int) -> None:
    contents = [(f"q{number}", "t", "a") for number in range(count)]
    prompt = batch(contents)
    wanted = parse_reply_spec(prompt)
    reply = ",".join(scores(contents))
    spoilt = {miscount(wanted, reply, variant) for variant in range(600)}
    assert len(spoilt) > (2 if count == 1 else 12)
    for text in spoilt:
        reading = JUDGE.read(Reply(text), count)
        assert isinstance(reading, Malformed), text
    reasons = {reading.reason for text in spoilt if isinstance(reading := JUDGE.read(Reply(text), count), Malformed)}
    assert Reason.COUNT in reasons


def test_only_lists_that_are_long_enough_are_spoilt() -> None:
    for least in (1, 2, 3):
        faults = Faults(Simulation(miscounted=1, miscounted_from=least, max_faults_in_a_row=None), 0.6)
        spoilt = [faults.next(bytes([count]) * 16, True, count) is not None for count in range(5)]
        assert spoilt == [count >= least for count in range(5)]


@pytest.mark.parametrize("least", [1, 2])
def test_the_endpoint_spoils_counts_and_recovers(least: int) -> None:
    endpoint = Endpoint(Simulation(miscounted=1, miscounted_from=least))
    for count in (1, 4):
        contents = [(f"q{number}", "t", "a") for number in range(count)]
        replies = [_answered(endpoint, batch(contents)) for _ in range(3)]
        assert replies[2] == scores(contents)
        assert (replies[0] == replies[2]) is (count < least)


def test_a_batch_is_answered_from_what_is_recorded_for_each_block() -> None:
    rows: list[tuple[Any, Any, Any, str | bool]] = [
        ("who?", "me", None, "3"),
        ("who?", "you", None, True),
        ("who?", "they", None, False),
        ("when?", "2\n\n2", "two", "2"),
        ("when?", "2\n\n2", "three", "4"),
        ("where?", "here", None, "Score: 4"),
    ]
    endpoint = Endpoint(Simulation(), Replay(rows))
    contents = [("who?", "x", "me"), ("when?", "three", "2\n\n2"), ("who?", "x", "you"), ("who?", "y", "they")]
    assert _answered(endpoint, batch(contents)) == ["3", "4", "5", "0"]
    assert _answered(endpoint, batch(contents[::-1])) == ["0", "5", "4", "3"]
    assert _answered(endpoint, batch([("when?", "two", "2\n\n2")])) == ["2"]
    assert _answered(endpoint, batch([("where?", "x", "here")])) == ["Score: 4"]
    for missed in (("who?", "x", "nobody"), ("why?", "x", "me"), ("where?", "x", "here")):
        answer = endpoint.answer(1, _body(batch([contents[0], missed])), 0.0)
        assert answer.status == 422, missed
    assert endpoint.not_recorded == 3


def test_what_is_no_number_is_never_put_into_a_list() -> None:
    wanted = parse_reply_spec(batch([("q", "t", "a"), ("r", "t", "b")]))
    assert compose_list(wanted, ["4", " 2.5 "]) == "4,2.5"
    for other in ("yes", "4,3", "", "4/5", '{"score":4}'):
        with pytest.raises(NoScore):
            compose_list(wanted, ["4", other])


def test_misses_within_a_batch_name_what_was_looked_for() -> None:
    with pytest.raises(NotRecorded, match="who"):
        Replay([("who?", "me", None, "3")]).find(block(7, ("who?", "x", "you")))


def _body(prompt: ParsedPrompt) -> bytes:
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return orjson.dumps({"model": "m", "messages": messages})


def _answered(endpoint: Endpoint, prompt: ParsedPrompt) -> list[str]:
    answer = endpoint.answer(1, _body(prompt), 0.0)
    content: str = orjson.loads(answer.body)["choices"][0]["message"]["content"]
    return content.split(",")
