"""What reaches an endpoint: compared with the published prompts, filled in by plain `str.replace`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Item, Judge, load_judge
from judges.template import parse_template

ROOT = Path(__file__).parents[3]
PROMPTS = ROOT.parent / "shared" / "prompts"
DATA = ROOT.parent / "shared" / "data"

PLACES = {
    "longmemeval-paper": {
        "question": "question",
        "answer": "reference",
        "rubric": "reference",
        "explanation": "reference",
        "response": "response",
    },
    "longmemeval-hindsight": {
        "question": "question",
        "correct_answer": "reference",
        "predicted_answer": "response",
    },
}
ROUTES: dict[str, dict[str | None, str]] = {
    "longmemeval-paper": {
        "single-session-user": "base",
        "single-session-assistant": "base",
        "multi-session": "base",
        "temporal-reasoning": "temporal-reasoning",
        "knowledge-update": "knowledge-update",
        "single-session-preference": "single-session-preference",
        "unanswerable": "abstention",
    },
    "longmemeval-hindsight": {
        "single-session-user": "base",
        "single-session-assistant": "base",
        "multi-session": "base",
        "temporal-reasoning": "temporal-reasoning",
        "knowledge-update": "knowledge-update",
        "single-session-preference": "single-session-preference",
        "adversarial": "default",
        "unanswerable": "default",
        None: "default",
    },
}
CASES = [(judge, group, template) for judge, routes in ROUTES.items() for group, template in routes.items()]


def item(group: str | None = "multi-session", question_id: str = "q1", **fields: Any) -> Item:
    values = {"question": "How long?", "reference": "5 days", "response": "Five days."} | fields
    return Item(id=question_id, question_id=question_id, system="s", group=group, fields=values)


def library(name: str) -> Judge:
    return load_judge(name, ROOT)


def published(judge: str, template: str) -> str:
    path = PROMPTS / judge / f"{template}.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path.read_bytes().decode()


@pytest.mark.parametrize(("judge", "group", "template"), CASES)
def test_published_prompts_reach_the_endpoint_byte_for_byte(judge: str, group: str | None, template: str) -> None:
    fields = {"question": "Wie lange?\n\n", "reference": 'the "rubric" 5', "response": " {question} \\n é\u200b "}
    expected = published(judge, template)
    for place, field in PLACES[judge].items():
        # Split first, so that a value which looks like a place is not filled in: independent of our own parser.
        expected = f"\x00{field}\x00".join(expected.split("{" + place + "}"))
    for field, value in fields.items():
        expected = expected.replace(f"\x00{field}\x00", value)
    ours = library(judge)
    subject = item(group, **fields)
    assert ours.route(subject) == template
    assert ours.render(subject, template) == [{"role": "user", "content": expected}]


def test_every_published_prompt_is_carried() -> None:
    for name in PLACES:
        folder = PROMPTS / name
        if not folder.exists():
            pytest.skip(f"{folder} is not there")
        assert {path.stem for path in folder.iterdir()} == set(library(name).templates)


def test_prompts_of_all_500_questions() -> None:
    path = DATA / "longmemeval" / "questions.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    judge = library("longmemeval-paper")
    seen = set()
    for line in path.read_text(encoding="utf-8").strip().split("\n"):
        row = json.loads(line)
        abstains = "_abs" in row["question_id"]
        template = "abstention" if abstains else ROUTES["longmemeval-paper"][row["question_type"]]
        response = f"{{question}} {row['question_id']} </think>"
        expected = published("longmemeval-paper", template)
        # The response comes last: what looks like a place in it is not filled in any more.
        for place in ("question", "answer", "rubric", "explanation"):
            value = row["question"] if place == "question" else str(row["answer"])
            expected = expected.replace("{" + place + "}", value)
        expected = expected.replace("{response}", response)
        subject = item(
            row["question_type"],
            row["question_id"],
            question=row["question"],
            reference=row["answer"],
            response=response,
        )
        assert judge.route(subject) == template
        assert judge.render(subject, template) == [{"role": "user", "content": expected}]
        seen.add(template)
    assert len(seen) == 5


@pytest.mark.parametrize("name", ["longmemeval-paper", "longmemeval-hindsight", "yes-no"])
@pytest.mark.parametrize(
    "value",
    [
        "{}",
        "{{7*7}}",
        "{0.__class__}",
        "{question}",
        "{response}",
        "a\x00b",
        "🙂\u200d🙂",
        "</think>",
        "%s $x",
        "\r\n",
        "",
    ],
)
def test_field_values_arrive_untouched(name: str, value: str) -> None:
    judge = library(name)
    subject = item(question=f"Q{value}", reference=f"A{value}", response=f"R{value}")
    marked = judge.render(item(question="\x01", reference="\x02", response="\x03"), "base")[0]["content"]
    by_hand = "".join({"\x01": f"Q{value}", "\x02": f"A{value}", "\x03": f"R{value}"}.get(c, c) for c in marked)
    assert judge.render(subject, "base") == [{"role": "user", "content": by_hand}]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_template_of_literals_fills_to_itself(pieces: list[str], value: str) -> None:
    text = "{name}".join(piece.replace("{", "{{").replace("}", "}}") for piece in pieces)
    assert parse_template(text).fill({"name": value}) == value.join(pieces)


def test_values_that_are_no_texts_are_written_as_json_writes_them() -> None:
    content = library("yes-no").render(item(reference=2, response=[1.5, None, "é"], question=True), "base")[0][
        "content"
    ]
    assert "Question: true\n" in content
    assert "Reference answer: 2\n" in content
    assert 'Response: [1.5, null, "é"]\n' in content


def test_abstention_overrides_the_group_and_an_unknown_group_is_not_routed() -> None:
    judge = library("longmemeval-paper")
    assert judge.route(item("temporal-reasoning", "x_abs")) == "abstention"
    assert judge.route(item("temporal-reasoning", "x_abs_1")) == "abstention"
    assert judge.route(item("unknown")) is None
    assert judge.route(item(None)) is None
    assert judge.on_unrouted == "error"
    assert library("yes-no").route(item(None)) == "base"


def test_hindsight_says_that_it_has_no_abstention_prompt() -> None:
    judge = library("longmemeval-hindsight")
    subject = item("temporal-reasoning", "x_abs")
    assert judge.route(subject) == "temporal-reasoning"
    [(condition, text), (_, other)] = judge.cautions
    assert "no abstention prompt" in text
    assert "ids that hold _abs" in other
    assert condition.matches(subject)
    assert not condition.matches(item("temporal-reasoning"))


def test_published_protocols() -> None:
    paper, hindsight = library("longmemeval-paper"), library("longmemeval-hindsight")
    assert paper.sampling.body() == {"temperature": 0, "max_tokens": 10}
    assert (paper.structured, paper.response_schema(), paper.json_hint) == ("off", None, None)
    assert hindsight.sampling.body() == {"temperature": 0, "max_tokens": 4096}
    assert hindsight.structured == "auto"
    assert hindsight.response_schema() == {
        "type": "object",
        "properties": {"correct": {"type": "boolean"}, "reasoning": {"type": "string"}},
        "required": ["correct", "reasoning"],
        "additionalProperties": False,
    }
    assert "set correct=no" in hindsight.templates["base"]["user"]
    assert paper.slices.by == "group"
    assert paper.slices.macro
    assert paper.slices.also["abstention"].matches(item(None, "x_abs"))


def test_the_json_hint_is_appended_to_the_prompt_and_only_on_demand() -> None:
    judge = library("longmemeval-hindsight")
    (plain,) = judge.render(item(), "base")
    (hinted,) = judge.render(item(), "base", json_hint=True)
    assert judge.json_hint
    assert hinted == {"role": "user", "content": f"{plain['content']}\n\n{judge.json_hint}"}
    paper = library("longmemeval-paper")
    assert paper.render(item(), "base", json_hint=True) == paper.render(item(), "base")


@pytest.mark.parametrize(
    ("text", "official"),
    [
        ("Yes.", True),
        ("not yes", True),
        ("Yesterday", True),
        ("no", False),
        ("", False),
        (None, False),
        ("<think>yes</think> no", True),
    ],
)
def test_the_official_reading(text: str | None, official: bool) -> None:
    assert library("longmemeval-paper").official(text) is official
    assert library("longmemeval-hindsight").official(text) is None


def test_missing_fields_are_named_by_the_item() -> None:
    judge = library("longmemeval-paper")
    subject = Item("1", "1", "s", "multi-session", {"question": "", "reference": None})
    assert judge.missing(subject, "base") == ["reference"]
    assert judge.missing(item(response=""), "base") == []
