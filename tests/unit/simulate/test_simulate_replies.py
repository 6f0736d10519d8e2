"""What the simulated endpoint says: verdicts by content, forms by what is asked, and texts that nobody can read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from judges import Item, Judge, Malformed, Refused, Reply, Scored, library_names, load_judge
from runner.simulate.bad_replies import CUT, NO_VERDICT, REFUSAL, pick_malformed, truncate
from runner.simulate.prompt_parser import (
    BadRequest,
    ParsedPrompt,
    ReplySpec,
    draw_verdicts,
    parse_prompt,
    parse_reply_spec,
)
from runner.simulate.replies import render_reply, says_yes
from runner.simulate.reply_format import Verdict, draw_verdict, fill_schema, find_keys

PAPER = "Is it right?\n\nQuestion: {}\n\nModel Response: {}\n\nAnswer yes or no only."
LINE = "Label it.\n\nQuestion: {}\nGenerated answer: {}\n\nGive a reason.\nIf it's correct, set correct=true."
OBJECT = "Evaluate.\n\nQuestion: {}\n\nProvide your evaluation as JSON with:\n- reasoning\n- correct: true or false"
SCORE = "Grade it.\n\nQuestion: q\n\nResponse: r\n\nAnswer with one integer from 0 to 5 and nothing else."
BETTER = 'Compare.\n\nOutput (a): x\n\nOutput (b): y\n\nWhich is better? Answer "Output (a)" or "Output (b)" only.'
GRADED = (
    "Grade it.\n\nQuestion: q\n\nResponse: r\n\nReply with a JSON object with these fields:\n"
    "- correct: true or false\n- score: an integer from 0 to 5\n- reason: one sentence"
)
DOCUMENTS = (
    "Judge the answer.\n------ DOCUMENT SENTENCES ------\n<key>: <sentence>\n0a: Title: Oxygen\n0be: It was found in\n"
    "1774, a good year.\n1a: Nothing else.\n------ QUESTION ------\nWhen was it found?\n"
    "------ ANSWER ------\n2b: In 1774.\n"
    "------ OUTPUT FORMAT ------\nReturn ONLY a JSON object such as this:\n{\n"
    '"all_relevant_sentence_keys": ["D1_S1"],\n"overall_supported": true,\n"sentence_support_information": '
    '[{"sentence_key": "D1_S1", "is_supported": true, "explanation": "…"}],\n"all_utilized_sentence_keys": ["D1_S1"]\n}'
)


def prompt(text: str, told: str | None = None, **options: Any) -> ParsedPrompt:
    system = [] if told is None else [{"role": "system", "content": told}]
    return parse_prompt({"model": "m", "messages": [*system, {"role": "user", "content": text}], **options})


def said(asked: ParsedPrompt, verdict: bool) -> str:
    """The sound reply with this verdict at its clearest."""
    return render_reply(parse_reply_spec(asked), [Verdict(verdict)], asked.user)


def made_up(text: str, seed: int = 0) -> str:
    """The sound reply with the verdict that is drawn."""
    asked = prompt(text)
    wanted = parse_reply_spec(asked)
    return render_reply(wanted, draw_verdicts(wanted, asked, seed, 0.6), asked.user)


def judge_of(tmp_path: Path, reads: dict[str, Any]) -> Judge:
    """A judge that reads like this."""
    document = {
        "name": "own",
        "reads": reads,
        "route": [{"template": "t"}],
        "templates": {"t": "{question} {response}"},
    }
    (tmp_path / "own.yaml").write_text(json.dumps(document))
    return load_judge("own.yaml", tmp_path)


def test_verdicts_come_at_their_share_and_stay() -> None:
    verdicts = [draw_verdict(1, 0.6, str(number)) for number in range(5_000)]
    assert verdicts == [draw_verdict(1, 0.6, str(number)) for number in range(5_000)]
    assert sum(verdict.yes for verdict in verdicts) / 5_000 == pytest.approx(0.6, abs=0.03)
    assert verdicts != [draw_verdict(2, 0.6, str(number)) for number in range(5_000)]
    assert all(draw_verdict(1, 1.0, str(n)).yes for n in range(100))
    assert not any(draw_verdict(1, 0.0, str(n)).yes for n in range(100))


@pytest.mark.parametrize(("low", "high"), [(0, 5), (1, 5), (1, 10), (0, 1), (0, 100)])
def test_scores_lie_on_their_verdicts_side_and_every_one_is_given(low: int, high: int) -> None:
    verdicts = [draw_verdict(0, 0.6, str(number)) for number in range(4_000)]
    scores = [verdict.score(low, high) for verdict in verdicts]
    assert set(scores) == set(range(low, high + 1))
    assert all((score > (low + high) / 2) is verdict.yes for score, verdict in zip(scores, verdicts, strict=True))
    assert (Verdict(True).score(low, high), Verdict(False).score(low, high)) == (high, low)


def test_the_reply_has_the_form_that_the_words_ask_for() -> None:
    assert said(prompt(PAPER.format("q", "r")), True) == "yes"
    assert said(prompt(PAPER.format("q", "r")), False) == "no"
    assert said(prompt(LINE.format("q", "r")), True).splitlines()[-1] == "correct=true"
    assert said(prompt(LINE.format("q", "r")), False).splitlines()[-1] == "correct=false"
    assert json.loads(said(prompt(OBJECT.format("q")), False))["correct"] is False
    assert said(prompt(SCORE), True) == "5"
    assert said(prompt(BETTER), True) == "Output (a)"
    assert said(prompt(BETTER), False) == "Output (b)"
    assert json.loads(said(prompt(GRADED), False)) == {
        "correct": False,
        "score": 0,
        "reason": "The response differs from the reference.",
    }


@pytest.mark.parametrize(
    ("words", "high", "low"),
    [
        ("Reply with a score from 0 to 5.", "5", "0"),
        ("Rate the response from 1 (worst) to 10 (best).", "10", "1"),
        ("Give an integer between 0 and 3.", "3", "0"),
        ("Grade it on a scale of 1 to 7.", "7", "1"),
        ("Use a 0–4 scale.", "4", "0"),
        ("Your score: 1, 2 or 3.", "3", "1"),
        ("Answer A, B, C, D or E.", "A", "E"),
        ("Reply CORRECT or WRONG.", "CORRECT", "WRONG"),
        ("Reply WRONG/CORRECT.", "CORRECT", "WRONG"),
        ("Output only [[A]] or [[B]].", "[[A]]", "[[B]]"),
        ("Two scores from 1 to 10, separated by a space.", "10 10", "1 1"),
        (
            'Reply like this: {"correct": true or false, "score": 0-3}',
            '{"correct":true,"score":3}',
            '{"correct":false,"score":0}',
        ),
        ('Reply with {"verdict": "WRONG" or "CORRECT"} as JSON.', '{"verdict":"CORRECT"}', '{"verdict":"WRONG"}'),
        ("Reply with a JSON object.", '{"reasoning":"The response agrees with the reference.","correct":true}', None),
    ],
)
def test_people_ask_in_many_words(words: str, high: str, low: str | None) -> None:
    """Whether they stand behind what is judged, before it, or in a system message."""
    asked = [
        prompt(f"Judge.\n\nQuestion: q\n\nResponse: r\n\n{words}"),
        prompt(f"{words}\n\nQuestion: q\n\nResponse: r"),
        prompt("Question: q\nResponse: yes or no, 0 to 9, as JSON", f"You are a judge.\n\n{words}\n\nBe strict."),
    ]
    for one in asked:
        assert said(one, True) == high, one
        assert low is None or said(one, False) == low, one


def test_what_is_judged_does_not_change_the_form() -> None:
    answer = 'As JSON: {"correct": true}\n\ncorrect=true\n\nIn JSON, from 0 to 5.'
    assert said(prompt(PAPER.format("Is JSON a language?", answer)), True) == "yes"
    assert said(prompt(f"Answer A or B.\n\nQuestion: q\n\nResponse: as JSON {answer.splitlines()[0]}"), False) == "B"


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
    found = json.loads(said(prompt("?", response_format=wanted), True))
    assert list(found) == list(schema["properties"])
    assert (found["correct"], found["grade"], found["label"], found["maybe"]) == (True, 4, "CORRECT", True)
    assert len(found["keys"]) == 2
    assert fill_schema(schema, [Verdict(False)])["grade"] == 1
    assert said(prompt("?", structured_outputs={"choice": ["no", "yes"]}), True) == "yes"
    assert said(prompt("?", structured_outputs={"choice": ["B", "A"]}), False) == "A"


def test_keys_are_those_of_the_sentences() -> None:
    assert find_keys(DOCUMENTS) == ["0a", "0be", "1a"]
    assert find_keys("Sentences:\nd1: x\nNote: y\nd2: z") == ["d1", "d2"]
    assert find_keys("no sentences") == []


@pytest.mark.parametrize("enforced", [False, True])
def test_documents_get_an_object_with_keys_of_their_own(enforced: bool) -> None:
    judge = load_judge("ragbench", Path())
    schema = judge.response_schema()
    assert schema is not None
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    options: dict[str, Any] = {"response_format": wanted} if enforced else {}
    verdicts = set()
    for number in range(40):
        asked = prompt(DOCUMENTS.replace("When", f"When ({number})"), **options)
        found = draw_verdicts(parse_reply_spec(asked), asked, 0, 0.6)
        reply = render_reply(parse_reply_spec(asked), found, asked.user)
        assert reply == render_reply(parse_reply_spec(asked), found, asked.user)
        value = json.loads(reply)
        relevant, utilized = value["all_relevant_sentence_keys"], value["all_utilized_sentence_keys"]
        support = {entry["sentence_key"]: entry["is_supported"] for entry in value["sentence_support_information"]}
        assert relevant
        assert set(relevant) | set(utilized) == set(support) <= {"0a", "0be", "1a"}
        assert len(set(relevant)) == len(relevant)
        assert value["overall_supported"] is all(support.values()) is found[0].yes
        verdicts.add((value["overall_supported"], len(relevant), len(utilized)))
        if enforced:
            reading = judge.read(Reply(reply))
            assert isinstance(reading, Scored)
            assert reading.provenance.stage == "strict"
    assert len(verdicts) > 6


SPOILT: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "yesno": [(PAPER, {"kind": "yesno"})],
    "scores": [
        (SCORE, {"kind": "scores", "low": 0, "high": 5}),
        ("Grade from 1 to 10.\n\nAnswer: r", {"kind": "scores", "low": 1, "high": 10, "step": 0.5}),
        ("Grade it with a number, a rating or a score from 0 to 100.", {"kind": "scores", "low": 0, "high": 100}),
    ],
    "choice": [
        (
            BETTER,
            {"kind": "choice", "labels": {"Output (a)": {"aliases": ["a", "(a)"]}, "Output (b)": {"aliases": ["b"]}}},
        ),
        ("Answer A, B, C or D.", {"kind": "choice", "labels": {"A": {}, "B": {}, "C": {}, "D": {}}}),
        ("Reply CORRECT or WRONG.", {"kind": "choice", "labels": {"CORRECT": {}, "WRONG": {}}}),
    ],
}


@pytest.mark.parametrize("kind", sorted(SPOILT))
def test_no_reader_of_ours_finds_a_verdict_in_a_malformed_reply(kind: str, tmp_path: Path) -> None:
    for words, reads in SPOILT[kind]:
        judge, wanted = judge_of(tmp_path, reads), parse_reply_spec(prompt(words))
        assert wanted.form.kind == kind
        assert isinstance(judge.read(Reply(said(prompt(words), True))), Scored), words
        check(judge, wanted)


@pytest.mark.parametrize("kind", ["object", "line", "documents"])
def test_no_reader_of_ours_finds_a_verdict_in_a_malformed_object(kind: str, tmp_path: Path) -> None:
    words = {"object": OBJECT, "line": LINE, "documents": DOCUMENTS}[kind]
    judge = load_judge("ragbench" if kind == "documents" else "longmemeval-hindsight", Path())
    check(judge, parse_reply_spec(prompt(words)))
    if kind == "object":
        schema = {
            "type": "object",
            "properties": {"correct": {"type": "boolean"}, "score": {"type": "integer", "minimum": 0, "maximum": 5}},
            "required": ["correct", "score"],
        }
        reads = {"kind": "object", "verdict": ["correct", "score"], "schema": schema}
        check(judge_of(tmp_path, reads), parse_reply_spec(prompt(GRADED)))


def check(judge: Judge, wanted: ReplySpec) -> None:
    """No malformed reply of this form is read."""
    kinds = {pick_malformed(wanted, variant) for variant in range(60)}
    assert len(kinds) >= 10
    for text in kinds:
        assert isinstance(judge.read(Reply(text)), Malformed), text
    assert isinstance(judge.read(Reply(truncate(wanted, "4"), "length")), Malformed)
    assert isinstance(judge.read(Reply(truncate(wanted, "4"))), Malformed)
    assert isinstance(judge.read(Reply(REFUSAL)), Refused)


def test_every_kind_has_its_malformed_and_its_cut_replies() -> None:
    assert set(NO_VERDICT) == set(CUT) == {"yesno", "object", "line", "documents", "scores", "choice"}


FIELDS = {
    "question": "When? As JSON, yes or no?",
    "reference": "From 3 to 4.",
    "response": "In 1774.\n\nAnswer A or B only.",
    "other_response": "In 1775.",
    "documents": ["It was found in 1774.", "Nothing else."],
    "documents_sentences": [[["0a", "It was found in 1774."], ["0b", "Nothing else."]]],
}


@pytest.mark.parametrize("verdict", [True, False])
@pytest.mark.parametrize("name", library_names())
def test_sound_replies_are_read_as_the_verdict_by_every_judge_that_ships(name: str, verdict: bool) -> None:
    judge = load_judge(name, Path())
    for group in ("multi-session", "temporal-reasoning", "single-session-preference", "other"):
        item = Item("1", "1", "s", group, FIELDS)
        template = judge.route(item)
        if template is None:
            continue
        messages = judge.render(item, template)
        asked = parse_prompt({"model": "m", "messages": messages})
        reading = judge.read(Reply(said(asked, verdict)))
        assert isinstance(reading, Scored), (messages, said(asked, verdict))
        assert reading.provenance.stage == ("strict" if "\n" not in said(asked, verdict) else "tolerant:lines")
        if "correct" in reading.verdict:
            assert reading.verdict["correct"] is verdict
        if "score" in reading.verdict:
            assert reading.verdict["score"] == (5 if verdict else 0)
        if "choice" in reading.verdict:
            assert reading.verdict["choice"] == ("A" if verdict else "B")


def test_recorded_replies_say_yes_or_not() -> None:
    for yes in ("yes", "Yes.", "4", "5", "because …\ncorrect=true", '{"correct": true}', '{"overall_supported":true}'):
        assert says_yes(yes), yes
    for no in (
        "no",
        "2",
        "0",
        "correct=false",
        '{"correct":false}',
        '{"is_supported": true, "overall_supported": false}',
    ):
        assert not says_yes(no), no


def test_parts_and_several_messages_are_one_prompt() -> None:
    messages = [
        {"role": "system", "content": "Judge."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]
    found = parse_prompt({"model": "m", "messages": messages})
    assert (found.text, found.system, found.user) == ("Judge.\n\nab", "Judge.", "ab")


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
        parse_prompt(body)
