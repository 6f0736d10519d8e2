"""Documents in every form that people have them, as keyed sentences; and which forms are refused, saying where."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.sentence_keys import as_lines, keyed_sentences

ONE_OF = "must be a text, [key, text], or a mapping of key and text"
KEYED = [("0a", "One."), ("0b", "Two."), ("1a", "Three.")]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([[["0a", "One."], ["0b", "Two."]], [["1a", "Three."]]], id="as published"),
        pytest.param([[["0a", "One."], ["0b", "Two."]], [], [["1a", "Three."]]], id="an empty document"),
        pytest.param([["0a", "One."], ["0b", "Two."], ["1a", "Three."]], id="flat pairs"),
        pytest.param((("0a", "One."), ("0b", "Two."), ("1a", "Three.")), id="tuples"),
        pytest.param(
            [{"key": key, "text": text} for key, text in KEYED],
            id="mappings",
        ),
        pytest.param(
            [[{"sentence_key": key, "sentence": text, "page": 3} for key, text in KEYED]],
            id="mappings in documents, with other names",
        ),
        pytest.param([["One.", "Two."], ["Three."]], id="plain sentences in documents"),
    ],
)
def test_every_form_gives_keys_and_texts(value: Any) -> None:
    assert keyed_sentences(value) == KEYED


def test_a_flat_list_of_plain_sentences_is_one_document() -> None:
    assert keyed_sentences(["One.", "Two.", "Three."]) == [("0a", "One."), ("0b", "Two."), ("0c", "Three.")]


def test_an_empty_document_keeps_its_number() -> None:
    assert keyed_sentences([[], ["One."], [], ["Two."]]) == [("1a", "One."), ("3a", "Two.")]


def test_made_keys_go_on_past_z() -> None:
    keys = [key for key, _ in keyed_sentences([f"Sentence {n}." for n in range(26 + 26 * 26 + 1)])]
    assert keys[:2] == ["0a", "0b"]
    assert keys[24:29] == ["0y", "0z", "0aa", "0ab", "0ac"]
    assert keys[26 + 26 + 4] == "0be"
    assert keys[-2:] == ["0zz", "0aaa"]
    assert len(set(keys)) == len(keys)


def test_published_keys_past_z_are_kept() -> None:
    assert keyed_sentences([[["0be", "Far down."]]]) == [("0be", "Far down.")]


def test_documents_of_two_plain_sentences_are_not_taken_for_pairs() -> None:
    assert keyed_sentences([["Paris is big.", "So is Rome."], ["It rains.", "Often."]]) == [
        ("0a", "Paris is big."),
        ("0b", "So is Rome."),
        ("1a", "It rains."),
        ("1b", "Often."),
    ]


def test_one_word_sentences_are_not_taken_for_keys() -> None:
    assert keyed_sentences([["Yes.", "No."]]) == [("0a", "Yes."), ("0b", "No.")]
    assert keyed_sentences([["s_a", "Yes."], ["s_b", "No."]]) == [("s_a", "Yes."), ("s_b", "No.")]
    for firsts in (["Introduction", "Methods"], ["1.", "2."], ["0a", "Methods"], ["We ran.", "Methods"]):
        with pytest.raises(ValueError, match="cannot be told"):
            keyed_sentences([[first, "The cat sat."] for first in firsts])


def test_lines_hold_texts_byte_for_byte() -> None:
    texts = ["  {{blank}} before ", "café\u00a0\u200b", "two\nlines", "", "{question} %s \\n"]
    assert as_lines(keyed_sentences(texts)) == (
        "0a:   {{blank}} before \n0b: café\u00a0\u200b\n0c: two\nlines\n0d: \n0e: {question} %s \\n"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be a list of sentences, or a list of documents that are lists of sentences, not null"),
        ("One. Two.", "not a text"),
        ({"0a": "One."}, "not a mapping"),
        (7, "not 7"),
        ([], "holds no sentence"),
        ([[], []], "holds no sentence"),
        ([["0a", "One."], ["0a", "Two."]], "[1]: the key '0a' is that of [0] already"),
        ([[["0a", "One."]], [["1a", "A."], ["0a", "B."]]], "[1][1]: the key '0a' is that of [0][0] already"),
        (["One.", ["0b", "Two."]], "[1]: is a list of 2, but [0] is a text"),
        ([["One.", "Two.", "Three."], "Four."], "[1]: is a text, but [0] is a list of 3"),
        ([[["0a", "One."], "Two."]], "[0][1]: has no key, but [0][0] has one"),
        (["One.", {"key": "0b", "text": "Two."}], "[0]: has no key, but [1] has one"),
        ([["0a", "One."], ["Two is.", "Three is."]], "[1]: it cannot be told whether these are [key, text]"),
        ([[["0a", 5]]], "[0][0]: the text must be a text, not 5"),
        ([[[0, "One."]]], "[0][0]: the key must be a text, not 0"),
        ([{"key": "0a", "text": None}], "[0]: the text must be a text, not null"),
        ([[["0a", "One.", "more"]]], f"[0][0]: {ONE_OF}, not a list of 3"),
        ([None, "One."], f"[0]: {ONE_OF}, not null"),
        ([1, 2], f"[0]: {ONE_OF}, not 1"),
        ([{"text": "One."}], "[0]: a mapping that is a sentence has exactly one of key and sentence_key"),
        ([{"key": "a", "text": "x", "sentence": "y"}], "[0]: a mapping that is a sentence has exactly one of text"),
        ([[["", "One."]]], "[0][0]: '' is no key"),
        ([[[" 0a", "One."]]], "[0][0]: ' 0a' is no key"),
        ([[["0\na", "One."]]], "no key: it is empty, has blanks around it, or a line break in it"),
    ],
)
def test_what_is_no_keyed_sentences_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        keyed_sentences(value)


@given(st.lists(st.lists(st.text(), max_size=60), max_size=8))
def test_made_keys_are_unique_and_texts_are_kept(documents: list[list[str]]) -> None:
    # Three sentences or more in a document, so that none can be taken for [key, text].
    documents = [[*sentences, "x y", "x y", "x y"] for sentences in documents]
    if not documents:
        return
    found = keyed_sentences(documents)
    assert [text for _, text in found] == [text for sentences in documents for text in sentences]
    assert len({key for key, _ in found}) == len(found)
    assert all(re.fullmatch(r"[0-9]+[a-z]+", key) for key, _ in found)


def test_the_real_rows_keep_their_keys_and_bytes(data: Path) -> None:
    for line in (data / "ragbench" / "rows.jsonl").read_text(encoding="utf-8").strip().split("\n"):
        documents = json.loads(line)["documents_sentences"]
        expected = [(key, text) for sentences in documents for key, text in sentences]
        assert keyed_sentences(documents) == expected
        # Plain sentences get the keys that the published rows have.
        assert keyed_sentences([[text for _, text in sentences] for sentences in documents]) == expected
