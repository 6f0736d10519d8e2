"""The judge `ragbench`: its prompt about real rows, its object, replies in their wrappings, and the stored scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from ragbench_rows import PROMPT, Row, prompt_of, reply_of, rows_of, scores_of

from judges import Item, Malformed, RagbenchReply, Reason, Reply, Scored, load_judge

RAGBENCH = load_judge("ragbench", Path())


def item_of(row: Row) -> Item:
    """An item as staging makes it, by code of its own."""
    fields = {"question": row["question"], "response": row["response"], "documents": row["documents_sentences"]}
    return Item(row["id"], row["id"], row["generation_model_name"], row["dataset_name"], fields)


@pytest.fixture
def rows(data: Path) -> list[Row]:
    return rows_of(data)


def test_the_stored_scores_come_out_of_the_stored_keys(rows: list[Row]) -> None:
    assert len(rows) == 20
    for row in rows:
        item = item_of(row)
        reading = RAGBENCH.read(Reply(json.dumps(reply_of(row))))
        (outcome,) = RAGBENCH.outcomes(reading, [item])
        assert isinstance(outcome, Scored), outcome
        assert outcome.provenance.stage == "strict"
        assert RAGBENCH.scores(outcome.verdict, item) == scores_of(row), row["id"]


def test_the_request_is_the_published_prompt_about_the_row(rows: list[Row]) -> None:
    for row in rows:
        item = item_of(row)
        template = RAGBENCH.route(item)
        assert template is not None
        assert RAGBENCH.missing(item, template) == []
        assert RAGBENCH.fault(item, template) is None
        [message] = RAGBENCH.render(item, template)
        assert message == {"role": "user", "content": prompt_of(row)}


def test_the_template_is_the_published_file() -> None:
    if not PROMPT.exists():
        pytest.skip(f"{PROMPT} is not there")
    assert RAGBENCH.templates == {"evaluate": {"user": PROMPT.read_bytes().decode()}}


def test_a_request_by_hand() -> None:
    item = Item(
        "1",
        "1",
        "s",
        fields={
            "question": "{answer} {{?}}",
            "response": "{documents}\n {0.__class__} ",
            "documents": [["One {question}."], [" Two: {{x}} ", "Three\nlines", ""]],
        },
    )
    [message] = RAGBENCH.render(item, "evaluate")
    text = message["content"]
    assert text.startswith(
        "You are an automatic evaluator for a Retrieval-Augmented Generation (RAG) question\nanswering system.\n"
        "You will be given:\n1. A set of DOCUMENT SENTENCES, each tagged with a unique sentence key.\n"
    )
    assert (
        "\nHere are the documents:\n0a: One {question}.\n1a:  Two: {{x}} \n1b: Three\nlines\n1c: \n"
        "---------------- QUESTION ----------------\n{answer} {{?}}\n"
        "---------------- ANSWER ----------------\n{documents}\n {0.__class__} \n"
        "---------------- EVALUATION INSTRUCTIONS ----------------\nThink carefully and follow these steps:\n"
    ) in text
    assert text.endswith(
        "Example (structure ONLY, values are illustrative):\n{\n"
        '"relevance_explanation": "....",\n'
        '"all_relevant_sentence_keys": ["D1_S1", "D1_S3"],\n'
        '"overall_supported_explanation": "....",\n'
        '"overall_supported": true,\n'
        '"sentence_support_information": [\n{\n"sentence_key": "D1_S1",\n"is_supported": true,\n'
        '"explanation": "The answer\u2019s first claim comes from this sentence."\n},\n'
        '{\n"sentence_key": "D1_S3",\n"is_supported": false,\n'
        '"explanation": "The answer misrepresents this sentence."\n}\n],\n'
        '"all_utilized_sentence_keys": ["D1_S1"]\n}\n'
    )


def test_documents_that_are_no_sentences_are_told() -> None:
    def fault(documents: Any) -> str | None:
        item = Item("1", "1", "s", fields={"question": "?", "response": "!", "documents": documents})
        return RAGBENCH.fault(item, "evaluate")

    assert fault([["0a", "One."], ["0b", "Two."]]) is None
    assert fault([["0a", "One."], ["0a", "Two."]]) == "documents: [1]: the key '0a' is that of [0] already"
    assert fault("One. Two.") == (
        "documents: must be a list of sentences, or a list of documents that are lists of sentences, not a text"
    )
    assert fault([]) == "documents: holds no sentence"


def test_the_schema_of_the_file_is_that_of_the_model() -> None:
    model = _bare(RagbenchReply.model_json_schema())
    entry = model.pop("$defs")["SentenceSupport"]
    model["properties"]["sentence_support_information"]["items"] = entry
    schema = json.loads(RAGBENCH.reading_spec)["schema"]
    assert model == schema
    # What an endpoint is to enforce: every field, and none besides.
    enforced = RAGBENCH.response_schema()
    assert enforced is not None
    assert enforced["required"] == list(RagbenchReply.model_fields)
    assert enforced["properties"]["sentence_support_information"]["items"] == {
        **entry,
        "required": ["sentence_key", "is_supported", "explanation"],
        "additionalProperties": False,
    }


def _bare(schema: Any) -> Any:
    """A schema without what only people read."""
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _bare(below) for name, below in value.items()} if key in ("properties", "$defs") else _bare(value)
        for key, value in schema.items()
        if key not in ("title", "description", "default")
    }


def test_the_model_reads_a_reply(rows: list[Row]) -> None:
    reply = RagbenchReply.model_validate_json(json.dumps(reply_of(rows[0])))
    assert reply.all_relevant_sentence_keys == rows[0]["all_relevant_sentence_keys"]
    assert reply.sentence_support_information[0].is_supported is True
    with pytest.raises(ValidationError):
        RagbenchReply.model_validate_json(json.dumps(reply_of(rows[0]) | {"overall_supported": "yes"}))


SHORT: Row = {
    "relevance_explanation": '0a {it} says [so]: "Paris".',
    "all_relevant_sentence_keys": ["0a", "0b"],
    "overall_supported_explanation": "Yes } it is.",
    "overall_supported": True,
    "sentence_support_information": [
        {"sentence_key": "0a", "is_supported": True, "explanation": "overall_supported: false would be wrong {."},
        {"sentence_key": "0b", "is_supported": True, "explanation": "I cannot help but agree."},
    ],
    "all_utilized_sentence_keys": ["0a"],
}
VERDICT = {
    key: SHORT[key]
    for key in (
        "all_relevant_sentence_keys",
        "overall_supported",
        "sentence_support_information",
        "all_utilized_sentence_keys",
    )
}
TEXT = json.dumps(SHORT, indent=1)


def without(name: str) -> Row:
    return {key: value for key, value in SHORT.items() if key != name}


LONG = SHORT | {"relevance_explanation": 'The sentence speaks of {braces} and "quotes". ' * 400}


@pytest.mark.parametrize(
    ("text", "stage", "notes"),
    [
        (TEXT, "strict", ()),
        (f"```json\n{TEXT}\n```", "tolerant:fence", ()),
        (f"Here is my evaluation:\n\n{TEXT}", "tolerant:prose", ()),
        (f"Evaluation:\n```json\n{TEXT}\n```\nall_relevant_sentence_keys: 0a and 0b.", "tolerant:prose", ()),
        (f'<think>{{"overall_supported": false}} no</think>\n{TEXT}', "strict", ("reasoning_cut",)),
        (json.dumps(LONG), "strict", ()),
        (f"```json\n{json.dumps(LONG, indent=2)}\n```", "tolerant:fence", ()),
        (
            TEXT.replace('overall_supported"', 'Overall_Supported"'),
            "tolerant:object",
            ("key:overall_supported",),
        ),
        (json.dumps(without("relevance_explanation")), "tolerant:object", ("schema:other_fields",)),
        (json.dumps(SHORT | {"confidence": 0.9}), "tolerant:object", ("schema:other_fields",)),
        (json.dumps(SHORT | {"relevance_explanation": None}), "tolerant:object", ("schema:other_fields",)),
    ],
)
def test_a_whole_verdict_is_read_in_its_wrappings(text: str, stage: str, notes: tuple[str, ...]) -> None:
    reading = RAGBENCH.read(Reply(text))
    assert isinstance(reading, Scored), reading
    assert reading.verdict == VERDICT
    assert (reading.provenance.stage, reading.provenance.notes) == (stage, notes)


def changed(**fields: Any) -> str:
    return json.dumps(SHORT | fields)


ENTRY = {"sentence_key": "0a", "is_supported": True, "explanation": ""}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (changed(all_relevant_sentence_keys="0a, 0b"), Reason.OTHER_VALUE),
        (changed(all_relevant_sentence_keys=["0a", 1]), Reason.OTHER_VALUE),
        (changed(all_utilized_sentence_keys=None), Reason.OTHER_VALUE),
        (changed(overall_supported="mostly"), Reason.OTHER_VALUE),
        (changed(sentence_support_information={}), Reason.OTHER_VALUE),
        (changed(sentence_support_information=[ENTRY | {"sentence_key": 0}]), Reason.OTHER_VALUE),
        (changed(sentence_support_information=[ENTRY | {"is_supported": "yes"}]), Reason.OTHER_VALUE),
        (changed(sentence_support_information=[{"sentence_key": "0a"}]), Reason.FIELD_MISSING),
        (json.dumps(without("all_utilized_sentence_keys")), Reason.FIELD_MISSING),
        (TEXT[:-40], Reason.UNBALANCED),
        (f"{TEXT}\n{changed(all_relevant_sentence_keys=['0b'])}", Reason.AMBIGUOUS_MULTIPLE),
        ("All sentences are relevant, and the answer is supported.", Reason.NO_VERDICT),
        (json.dumps(RAGBENCH.response_schema()), Reason.SCHEMA_ECHO),
    ],
)
def test_a_broken_verdict_is_none(text: str, reason: Reason) -> None:
    reading = RAGBENCH.read(Reply(text))
    assert isinstance(reading, Malformed), reading
    assert reading.reason is reason


def test_the_prompts_own_example_is_no_verdict() -> None:
    item = Item("1", "1", "s", fields={"question": "?", "response": "!", "documents": ["One.", "Two.", "Three."]})
    [message] = RAGBENCH.render(item, "evaluate")
    example = message["content"].rpartition("(structure ONLY, values are illustrative):\n")[2]
    (outcome,) = RAGBENCH.outcomes(RAGBENCH.read(Reply(example)), [item])
    assert isinstance(outcome, Malformed)
    assert outcome.reason is Reason.SCHEMA_ECHO
