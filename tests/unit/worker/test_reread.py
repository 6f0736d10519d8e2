"""Which verdicts are checked by one more request, what that asks for, and when it says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Judge, Malformed, Outcome, Provenance, Reason, Reply, Scored, load_judge, strict_form_request
from judges.reply_forms import ChoiceReads, ObjectReads, ScoresReads
from runner.config import parse_config
from runner.endpoint.judge_model import judge_models
from runner.messages import Task, Trial
from runner.worker.request import JudgeRequest, build_request
from runner.worker.reread import build_reread, is_drawn, is_same_verdict

KEYS = st.binary(min_size=16, max_size=16)
FIELDS = {"question": "q?", "reference": "r", "response": "It is r.", "other_response": "No."}
LEAD = Scored({"correct": True}, Provenance("tolerant:lead"))


def request_of(judge: Judge, trials: int = 1, is_control: bool = False) -> JudgeRequest:
    """A request of a judge, built as a worker builds it."""
    config = parse_config({"name": "n", "items": {"path": "i"}, "judges": [judge.name], "models": ["g"]})
    asked = tuple(
        Trial(0, at, f"i{at}", "q", "s", None, next(iter(judge.templates)), json.dumps(FIELDS).encode(),
              is_control=is_control)
        for at in range(trials)
    )  # fmt: skip
    own = judge_models(config, [judge])[judge.name, "g"]
    return build_request(Task(1, judge.name, "g", 0, (asked,)), asked, own, "w")


def library(name: str) -> Judge:
    return load_judge(name, Path())


@given(st.lists(KEYS, min_size=1, max_size=50), st.floats(0, 1), st.floats(0, 1), st.integers())
def test_a_larger_share_holds_the_smaller_one(keys: list[bytes], one: float, other: float, seed: int) -> None:
    small, large = ({key for key in keys if is_drawn(key, share, seed)} for share in sorted((one, other)))
    assert small <= large
    assert all(is_drawn(key, 1.0, seed) and not is_drawn(key, 0.0, seed) for key in keys)


def test_the_draw_goes_by_key_and_seed_and_is_about_the_share() -> None:
    keys = [number.to_bytes(16, "big") for number in range(20_000)]
    drawn = [{key for key in keys if is_drawn(key, 0.1, seed)} for seed in (0, 0, 1, -(2**70))]
    assert drawn[0] == drawn[1]
    assert all(1_800 < len(each) < 2_200 for each in drawn)
    assert len(drawn[0] & drawn[2]) < 400


@pytest.mark.parametrize(
    ("stage", "place"),
    [
        ("tolerant:lead", "lead"),
        ("tolerant:label", "label"),
        ("tolerant:lead_cut", "lead_cut"),
        ("tolerant:phrase", "phrase"),
        ("tolerant:prose", "prose"),
        ("tolerant:lines", "lines"),
        *((stage, None) for stage in ("strict", "repaired", "reformat", "empty", "bare_cut")),
        *((f"tolerant:{whole}", None) for whole in ("whole", "object", "fence", "encoded")),
    ],
)
def test_what_is_checked_stood_in_a_place_of_a_longer_reply(stage: str, place: str | None) -> None:
    request = request_of(library("yes-no"))
    reread = build_reread(request, Scored({"correct": True}, Provenance(stage)), 1.0, 0)
    assert (reread and reread.stage) == (place and f"reread:{place}")


def test_a_check_is_the_same_request_with_one_sentence_more() -> None:
    request = request_of(library("yes-no"))
    reread = build_reread(request, LEAD, 1.0, 0)
    assert reread is not None
    (before,), (after,) = request.body["messages"], reread.body["messages"]
    assert after == before | {"content": before["content"] + "\n\nAnswer with exactly one word: yes or no."}
    assert {**reread.body, "messages": []} == {**request.body, "messages": []}
    assert (reread.keys, reread.items, reread.trials) == (request.keys, request.items, request.trials)
    assert reread.request_id != request.request_id
    assert reread.bound.covers(request.bound) and reread.tokens > request.tokens


def test_no_check_without_a_verdict_of_controls_of_batches_or_of_a_judges_own_code() -> None:
    judge = library("yes-no")
    unread: list[Outcome] = [Malformed(Reason.NO_VERDICT)]
    assert build_reread(request_of(judge), unread[0], 1.0, 0) is None
    assert build_reread(request_of(judge), LEAD, 0.0, 0) is None
    assert build_reread(request_of(judge, is_control=True), LEAD, 1.0, 0) is None
    batched = library("answer-correctness")
    label = Scored({"score": 4}, Provenance("tolerant:label"))
    assert build_reread(request_of(batched, trials=2), label, 1.0, 0) is None
    assert build_reread(request_of(batched), label, 1.0, 0) is not None
    request = request_of(judge)
    judge.code = "class Mine: ..."
    assert build_reread(replace(request), LEAD, 1.0, 0) is None


SCORES: dict[str, Any] = {"kind": "scores", "low": 0, "high": 5}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
ARRAY: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("reads", "sentence"),
    [
        (library("yes-no").reads, "Answer with exactly one word: yes or no."),
        (
            ChoiceReads.model_validate({"kind": "choice", "labels": {"A>B": {}, "tie": {"aliases": ["even"]}}}),
            "Answer with exactly one of these labels, and nothing else: A>B, tie.",
        ),
        (ScoresReads.model_validate(SCORES), "Answer with only the number from 0 to 5, and nothing else."),
        (
            ScoresReads.model_validate(SCORES | {"names": ["a", "b"]}),
            "Answer with only the numbers from 0 to 5 for a, b, in this order: commas between them, and no blanks.",
        ),
        (
            ObjectReads.model_validate({"kind": "object", "schema": OBJECT, "verdict": ["a"]}),
            "Answer with only the JSON object, and nothing before or behind it.",
        ),
        (
            ObjectReads.model_validate({"kind": "object", "schema": ARRAY, "verdict": ["a"]}),
            "Answer with only the JSON array, and nothing before or behind it.",
        ),
    ],
)
def test_the_strict_form_is_asked_for_by_the_kind_of_reading(reads: Any, sentence: str) -> None:
    assert strict_form_request(reads) == sentence


@pytest.mark.parametrize(
    ("judge", "reply", "verdict"),
    [("yes-no", "yes", {"correct": True}), ("choice-ab", "B", {"choice": "B"}), ("score-0-5", "4", {"score": 4})],
)
def test_what_it_asks_for_is_read_strictly_and_held_against_the_verdict(
    judge: str, reply: str, verdict: dict[str, Any]
) -> None:
    own = library(judge)
    (again,) = own.outcomes(own.read(Reply(reply)), [request_of(own).items[0]])
    assert isinstance(again, Scored) and again.provenance.stage == "strict"
    assert is_same_verdict(again, verdict) is True
    assert is_same_verdict(again, dict.fromkeys(verdict, "other")) is False
    assert is_same_verdict(again, None) is None
    assert is_same_verdict(Malformed(Reason.EMPTY), verdict) is None
