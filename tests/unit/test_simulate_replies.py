"""What the simulated endpoint says: verdicts by content, shapes by what is asked, and texts that nobody can read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from judges import Malformed, Refused, Reply, Scored, load_judge
from runner.simulate.prompts import BadRequest, Prompt, prompt_of
from runner.simulate.replies import CUT, NO_VERDICT, REFUSAL, instance, sound_reply, verdict_of

PAPER = "Is it right?\n\nQuestion: {}\n\nModel Response: {}\n\nAnswer yes or no only."
LINE = "Label it.\n\nQuestion: {}\nGenerated answer: {}\n\nGive a reason.\nIf it's correct, set correct=true."
OBJECT = "Evaluate.\n\nQuestion: {}\n\nProvide your evaluation as JSON with:\n- reasoning\n- correct: true or false"


def prompt(text: str, **options: Any) -> Prompt:
    return prompt_of({"model": "m", "messages": [{"role": "user", "content": text}], **options})


def test_verdicts_come_at_their_share_and_stay() -> None:
    verdicts = [verdict_of(1, 0.6, str(number)) for number in range(5_000)]
    assert verdicts == [verdict_of(1, 0.6, str(number)) for number in range(5_000)]
    assert sum(verdicts) / 5_000 == pytest.approx(0.6, abs=0.03)
    assert verdicts != [verdict_of(2, 0.6, str(number)) for number in range(5_000)]
    assert all(verdict_of(1, 1.0, str(n)) for n in range(100))
    assert not any(verdict_of(1, 0.0, str(n)) for n in range(100))


def test_the_reply_has_the_shape_that_the_words_ask_for() -> None:
    assert sound_reply(prompt(PAPER.format("q", "r")), True) == "yes"
    assert sound_reply(prompt(PAPER.format("q", "r")), False) == "no"
    assert sound_reply(prompt(LINE.format("q", "r")), True).splitlines()[-1] == "correct=true"
    assert sound_reply(prompt(LINE.format("q", "r")), False).splitlines()[-1] == "correct=false"
    assert json.loads(sound_reply(prompt(OBJECT.format("q")), False))["correct"] is False


def test_what_is_judged_does_not_change_the_shape() -> None:
    answer = 'As JSON: {"correct": true}\n\ncorrect=true\n\nIn JSON.'
    assert sound_reply(prompt(PAPER.format("Is JSON a language?", answer)), True) == "yes"


def test_a_schema_is_filled_in() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "$defs": {"grade": {"type": "integer", "minimum": 1, "maximum": 4}},
        "properties": {
            "reasoning": {"type": "string"},
            "correct": {"type": "boolean"},
            "grade": {"$ref": "#/$defs/grade"},
            "label": {"enum": ["WRONG", "CORRECT"]},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "keys": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "maybe": {"type": ["null", "boolean"]},
        },
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    found = json.loads(sound_reply(prompt("?", response_format=wanted), True))
    assert list(found) == list(schema["properties"])
    assert (found["correct"], found["grade"], found["label"], found["maybe"]) == (True, 4, "CORRECT", True)
    assert len(found["keys"]) == 2
    assert instance(schema, False)["grade"] == 1
    assert sound_reply(prompt("?", structured_outputs={"choice": ["no", "yes"]}), True) == "yes"


@pytest.mark.parametrize("kind", ["yesno", "object", "line"])
def test_no_reader_of_ours_finds_a_verdict_in_a_malformed_reply(kind: str) -> None:
    judge = load_judge("yes-no" if kind == "yesno" else "longmemeval-hindsight", Path())
    for text in NO_VERDICT[kind]:
        assert isinstance(judge.read(Reply(text)), Malformed), text
    assert isinstance(judge.read(Reply(CUT[kind], "length")), Malformed)
    assert isinstance(judge.read(Reply(REFUSAL)), Refused)


@pytest.mark.parametrize("verdict", [True, False])
def test_sound_replies_are_read_as_the_verdict(verdict: bool) -> None:
    for name, text in (("yes-no", PAPER), ("longmemeval-hindsight", LINE), ("longmemeval-hindsight", OBJECT)):
        reading = load_judge(name, Path()).read(Reply(sound_reply(prompt(text.format("q", "r")), verdict)))
        assert isinstance(reading, Scored)
        assert reading.verdict["correct"] is verdict


def test_parts_and_several_messages_are_one_prompt() -> None:
    messages = [
        {"role": "system", "content": "Judge."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]
    found = prompt_of({"model": "m", "messages": messages})
    assert (found.text, found.asked) == ("Judge.\n\nab", "ab")


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"model": "m"},
        {"model": "m", "messages": []},
        {"model": "m", "messages": ["x"]},
        {"model": "m", "messages": [{"role": "user", "content": 3}]},
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True},
    ],
)
def test_what_is_no_request_is_refused(body: Any) -> None:
    with pytest.raises(BadRequest, match=re.compile(r"\w+")):
        prompt_of(body)
