"""A judge's YAML file: what it may say, and how it is told what is wrong with it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from judges import Item, JudgeError, Malformed, Reason, Reply, Sampling, Scored, library_names, load_judge, parse_judge

OWN = """
name: tone
description: Is the tone right?
reads:
  kind: object
  verdict: [kind_tone, score]
  schema:
    type: object
    properties:
      why: {type: string}
      kind_tone: {type: boolean}
      score: {type: integer, minimum: 0, maximum: 5}
    required: [why, kind_tone, score]
bind: {answer: response, style: style}
route:
  - {when: {all: [{language: [en, de]}, {not: {length: {equals: 0}}}]}, template: short}
  - {when: {urgent: true}, template: short}
  - {template: long}
on_unrouted: skip
templates:
  short: "{{as JSON}} {answer} in {style}"
  long: {system: "You judge {style}.", user: "{question} {answer}"}
structured: auto
json_hint: Reply with JSON.
sampling: {temperature: 1, stop: [END]}
slices: {by: group, also: {german: {language: de}}}
"""


def edited(old: str, new: str) -> str:
    assert OWN.count(old) == 1
    return OWN.replace(old, new)


def an_item(**fields: object) -> Item:
    return Item("1", "1", "s", None, {"response": "Hi {style}", "style": "calm", "question": "Q?", **fields})


def test_a_judge_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "tone.yaml").write_text(OWN, encoding="utf-8")
    judge = load_judge("tone.yaml", tmp_path)
    assert load_judge(str(tmp_path / "tone.yaml"), Path("elsewhere")).fingerprint == judge.fingerprint
    assert (judge.name, judge.on_unrouted, judge.source) == ("tone", "skip", OWN)
    assert judge.sampling.body() == {"temperature": 1.0, "stop": ["END"]}
    assert judge.route(an_item(language="de", length=3)) == "short"
    assert judge.route(an_item(language="de", length=0)) == "long"
    assert judge.route(an_item(language="fr", urgent=True)) == "short"
    assert judge.render(an_item(), "short") == [{"role": "user", "content": "{as JSON} Hi {style} in calm"}]
    assert judge.render(an_item(), "long", json_hint=True) == [
        {"role": "system", "content": "You judge calm."},
        {"role": "user", "content": "Q? Hi {style}\n\nReply with JSON."},
    ]
    assert judge.missing(Item("1", "1", "s"), "long") == ["style", "question"]
    assert judge.verdict_fields == ["kind_tone", "score"]
    assert not judge.binary
    with pytest.raises(ValueError, match="not binary"):
        judge.wrong()
    schema = judge.response_schema()
    assert schema is not None
    assert schema["additionalProperties"] is False
    reading = judge.read(Reply('{"why": "x", "kind_tone": true, "score": 4}'))
    assert isinstance(reading, Scored)
    assert judge.scores(reading.verdict, an_item()) == {"kind_tone": 1.0, "score": 4.0}
    assert judge.slices.also["german"].matches(an_item(language="de"))


def test_judges_pickle() -> None:
    for name in library_names():
        judge = load_judge(name, Path())
        again = pickle.loads(pickle.dumps(judge))
        assert (again.fingerprint, again.reading_spec) == (judge.fingerprint, judge.reading_spec)
        assert again.read(Reply("no")) == judge.read(Reply("no"))


def test_binary_judges_have_a_verdict_that_means_wrong() -> None:
    for name in library_names():
        judge = load_judge(name, Path())
        if judge.binary:
            assert judge.wrong() == {"correct": False}
            assert judge.scores(judge.wrong(), an_item()) == {"correct": 0.0}
    assert {name for name in library_names() if load_judge(name, Path()).binary} == {
        "longmemeval-hindsight",
        "longmemeval-paper",
        "yes-no",
    }


def test_the_fingerprint_is_of_meaning_not_of_prose() -> None:
    first = parse_judge(OWN, "own")
    assert len(first.fingerprint) == 32
    same = ["Is the tone right?", "{temperature: 1, stop: [END]}", "{by: group, also: {german: {language: de}}}"]
    for old, new in zip(same, ["Is it?", "{}", "{}"], strict=True):
        assert parse_judge(edited(old, new), "own").fingerprint == first.fingerprint
    assert parse_judge("# A comment\n" + OWN, "own").fingerprint == first.fingerprint
    for old, new in [
        ("in {style}", "in  {style}"),
        ("[en, de]", "[en]"),
        ("maximum: 5", "maximum: 6"),
        ("style: style", "style: tone"),
        ("on_unrouted: skip", "on_unrouted: error"),
        ("Reply with JSON.", "Reply as JSON."),
    ]:
        other = parse_judge(edited(old, new), "own")
        assert other.fingerprint != first.fingerprint
        assert (other.reading_spec != first.reading_spec) == (old == "maximum: 5")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("description:", "descripton:", "descripton: unknown key; did you mean 'description'?"),
        ("required: [why,", "requird: [why,", "'requird' is not supported for the type object"),
        ("{temperature: 1,", "{temprature: 1,", "sampling.temprature: unknown key; did you mean 'temperature'?"),
        ("{temperature: 1,", "{temperature: hot,", "sampling.temperature: must be a number, not 'hot'"),
        ("name: tone", "", "name: is missing"),
        ("name: tone", "name: no", "booleans; quote the word"),
        ("name: tone", "name: a b", "name: must be of letters"),
        ("kind: object", "kind: objekt", "reads.kind: unknown kind 'objekt'; did you mean 'object'? (kinds: yesno, "),
        ("verdict: [kind_tone, score]", "verdict: [tone]", "'tone' is no property of the schema"),
        ("required: [why, kind_tone, score]", "required: [why]", "'kind_tone' must be among"),
        ("language: [en, de]", "group: [no]", "booleans; quote the word"),
        ("equals: 0", "equal: 0", "length: unknown test 'equal'; did you mean 'equals'?"),
        ("{urgent: true}", "{}", "a condition is a mapping"),
        (
            "{urgent: true}, template: short",
            "{urgent: true}, template: shrt",
            "no template 'shrt'; did you mean 'short'?",
        ),
        ("{when: {urgent: true}, template: short}", "{template: short}", "route.1: takes every item"),
        ("- {template: long}", "", "templates.long: no route leads to it"),
        ("in {style}", "in {styl}", "{styl} is no canonical field and is not bound; did you mean 'style'?"),
        ("in {style}", "in {style", "templates.short: line 1 of the template holds a lone '{'"),
        ("in {style}", "in {style.__class__}", "holds a lone '{'"),
        ("bind: {", "bind: {extra: extra, ", "bind.extra: no template uses {extra}"),
        (
            "on_unrouted: skip",
            "on_unrouted: skipp",
            "on_unrouted: must be error or skip, not 'skipp'; did you mean 'skip'?",
        ),
        ("structured: auto", "structured: off", "json_hint: is never sent while structured is off"),
        ("on_unrouted: skip", "on_unrouted: skip\non_unrouted: skip", "the key 'on_unrouted' is given twice"),
        ("on_unrouted: skip", "on_unrouted: [skip", "not valid YAML"),
        ("in {style}", "in {style} \\ud800", "lone surrogate"),
        ("answer: response", "answer: reference", "templates.short: holds no {response}"),
        ("on_unrouted: skip", "ignores_response: true", "ignores_response: every template holds the response"),
        ("minimum: 0,", "multipleOf: 2,", "'multipleOf' is not supported"),
    ],
)
def test_errors_name_the_file_and_the_key(old: str, new: str, message: str) -> None:
    with pytest.raises(JudgeError) as caught:
        parse_judge(edited(old, new), "my/tone.yaml")
    assert caught.value.message.startswith("my/tone.yaml: ")
    assert message in caught.value.message
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message


def test_a_hint_for_json_needs_an_object_to_ask_for() -> None:
    text = "name: a\nreads: {kind: yesno}\nroute: [{template: t}]\ntemplates: {t: '{response}'}\nstructured: auto\n"
    assert parse_judge(text, "a.yaml").structured == "auto"
    with pytest.raises(JudgeError, match="json_hint: needs a reading of the kind object"):
        parse_judge(text + "json_hint: As JSON.\n", "a.yaml")


def test_unknown_judges_are_told_the_name_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="did you mean 'longmemeval-paper'"):
        load_judge("longmemeval-papr", tmp_path)
    with pytest.raises(JudgeError, match="the library has answer-correctness, "):
        load_judge("xyz", tmp_path)
    with pytest.raises(JudgeError, match=r"none\.yaml: cannot be read"):
        load_judge("./none.yaml", tmp_path)
    (tmp_path / "latin.yml").write_bytes(b"name: caf\xe9")
    with pytest.raises(JudgeError, match="not UTF-8 at byte 9"):
        load_judge("latin.yml", tmp_path)
    (tmp_path / "list.yaml").write_text("- a", encoding="utf-8")
    with pytest.raises(JudgeError, match="must be a mapping"):
        load_judge("list.yaml", tmp_path)


def test_sampling_lays_over() -> None:
    judge, model = Sampling(temperature=0, max_tokens=10), Sampling(max_tokens=512, top_p=1)
    assert model.over(judge).body() == {"temperature": 0.0, "max_tokens": 512, "top_p": 1.0}
    assert Sampling().over(judge) == judge


def test_a_field_of_another_type_is_not_read() -> None:
    judge = parse_judge(OWN, "own")
    for text, reason in [
        ('{"why": "x", "kind_tone": 2, "score": 4}', Reason.OTHER_VALUE),
        ('{"why": "x", "kind_tone": true, "score": 4.5}', Reason.NOT_INT),
        ('{"why": "x", "kind_tone": true, "score": 6}', Reason.OUT_OF_RANGE),
        ('{"why": "x", "kind_tone": true}', Reason.FIELD_MISSING),
    ]:
        reading = judge.read(Reply(text))
        assert isinstance(reading, Malformed)
        assert reading.reason is reason


def test_only_a_judge_that_says_so_may_go_without_the_response() -> None:
    text = OWN.replace("answer: response", "answer: reference") + "ignores_response: true\n"
    judge = parse_judge(text, "own")
    assert "response" not in judge.fields("short")
