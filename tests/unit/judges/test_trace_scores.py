"""TRACe's scores on replies worked out by hand, and the note that every oddity of their keys leaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Item, Judge, JudgeError, Malformed, Reading, Reason, Reply, Scored, load_judge, parse_judge

RAGBENCH = load_judge("ragbench", Path())
SOURCE = RAGBENCH.source
FIVE = [[["0a", "One."], ["0b", "Two."]], [["1a", "Three."], ["1b", "Four."], ["1c", "Five."]]]


def an_item(documents: Any = None) -> Item:
    return Item("q1", "q1", "s", fields={"question": "?", "response": "!", "documents": documents or FIVE})


def a_reply(
    relevant: Sequence[str],
    utilized: Sequence[str],
    supported: bool = True,
    support: Sequence[tuple[str, bool]] | None = None,
) -> dict[str, Any]:
    """A reply's object; without `support`, every cited key has an entry that agrees with the whole."""
    if support is None:
        support = [(key, supported) for key in dict.fromkeys([*relevant, *utilized])]
    return {
        "relevance_explanation": "R",
        "all_relevant_sentence_keys": list(relevant),
        "overall_supported_explanation": "S",
        "overall_supported": supported,
        "sentence_support_information": [
            {"sentence_key": key, "is_supported": said, "explanation": "E"} for key, said in support
        ],
        "all_utilized_sentence_keys": list(utilized),
    }


def judged(reply: Any, item: Item | None = None) -> Reading:
    """What the judge makes of a reply about the item."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    (outcome,) = RAGBENCH.outcomes(RAGBENCH.read(Reply(text)), [item or an_item()])
    return outcome


def found(reply: Any, item: Item | None = None) -> tuple[Any, tuple[str, ...]]:
    """(relevance, utilization, completeness, adherence) and the notes."""
    item = item or an_item()
    outcome = judged(reply, item)
    assert isinstance(outcome, Scored), outcome
    scores = RAGBENCH.scores(outcome.verdict, item)
    assert list(scores) == ["relevance", "utilization", "completeness", "adherence"]
    return tuple(scores.values()), outcome.provenance.notes


@pytest.mark.parametrize(
    ("relevant", "utilized", "scores", "notes"),
    [
        pytest.param(["0a", "0b"], ["0a"], (0.4, 0.2, 0.5, 1.0), (), id="plain"),
        pytest.param([], [], (0.0, 0.0, 1.0, 1.0), ("nothing_relevant",), id="R and U empty"),
        pytest.param(
            [], ["1c"], (0.0, 0.2, 1.0, 1.0), ("utilized_not_relevant:1", "nothing_relevant"), id="R empty, U not"
        ),
        pytest.param(["0a"], [], (0.2, 0.0, 0.0, 1.0), (), id="U empty"),
        pytest.param(["0a", "0a", "0b"], ["0a"], (0.6, 0.2, 1 / 3, 1.0), ("duplicate_keys:1",), id="twice in R"),
        pytest.param(
            ["0a", "0b"], ["0b", "0b", "0b"], (0.4, 0.6, 0.5, 1.0), ("duplicate_keys:2",), id="three times in U"
        ),
        pytest.param(
            ["0a"], ["0a", "1a", "1b"], (0.2, 0.6, 1.0, 1.0), ("utilized_not_relevant:2",), id="U not within R"
        ),
        pytest.param(
            ["0a", "0b", "1a", "1b", "1c", "0a"],
            ["0a"] * 7,
            (1.2, 1.4, 1 / 6, 1.0),
            ("duplicate_keys:7", "above_one:relevance", "above_one:utilization"),
            id="shares above 1",
        ),
        pytest.param(
            ["0a", "9z"], ["9z"], (0.4, 0.2, 0.5, 1.0), ("unknown_keys:2", "support_unknown:1"), id="unknown keys count"
        ),
        pytest.param(
            ["0a.", "0b"], ["0a"], (0.4, 0.2, 0.5, 1.0), ("key_dot:2", "support_repeated:1"), id="a dot at the end"
        ),
        pytest.param(["0A", "1B"], ["1b"], (0.4, 0.2, 0.5, 1.0), ("key_case:4", "support_repeated:1"), id="case"),
        pytest.param(
            [" 0a", "[0b]", "'1a'", "<1b>:"],
            ["“1c”"],
            (0.8, 0.2, 0.0, 1.0),
            ("key_wrapped:10", "utilized_not_relevant:1"),
            id="blanks, brackets, quotes",
        ),
        pytest.param(
            ["0a", "0A.", "(0a)"],
            ["0a"],
            (0.6, 0.2, 1 / 3, 1.0),
            ("key_case:2", "key_dot:2", "key_wrapped:2", "duplicate_keys:2", "support_repeated:2"),
            id="one key under three spellings",
        ),
        pytest.param(
            ["0a", "D1_S1"],
            ["D1_S3"],
            (0.4, 0.2, 0.0, 1.0),
            ("unknown_keys:2", "example_keys:2", "utilized_not_relevant:1", "support_unknown:2"),
            id="two of the example's keys",
        ),
        pytest.param(
            ["0a", "0a, 0b"],
            ["."],
            (0.4, 0.2, 0.0, 1.0),
            ("unknown_keys:2", "utilized_not_relevant:1", "support_unknown:2"),
            id="no keys at all",
        ),
    ],
)
def test_scores_and_notes_worked_out_by_hand(
    relevant: list[str], utilized: list[str], scores: tuple[float, ...], notes: tuple[str, ...]
) -> None:
    assert found(a_reply(relevant, utilized)) == (pytest.approx(scores), notes)


@pytest.mark.parametrize(
    ("supported", "support", "adherence", "notes"),
    [
        pytest.param(False, [("0a", False)], 0.0, (), id="unsupported"),
        pytest.param(True, [("0a", False)], 1.0, ("supported_overall_not_sentences:1",), id="whole yes, part no"),
        pytest.param(False, [("0a", True)], 0.0, ("sentences_supported_overall_not",), id="whole no, parts yes"),
        pytest.param(False, [("0a", True), ("0b", False)], 0.0, (), id="whole no, a part no"),
        pytest.param(True, [], 1.0, ("support_missing:1",), id="no entry"),
        pytest.param(
            True, [("0a", True), ("general", True)], 1.0, ("support_unknown:1",), id="an entry of no document sentence"
        ),
        pytest.param(True, [("0a.", True)], 1.0, ("key_dot:1",), id="an entry's key with a dot"),
        pytest.param(True, [("0a", True), ("0a", True)], 1.0, ("support_repeated:1",), id="an entry twice"),
        pytest.param(
            True,
            [("0a", True), ("0a", False)],
            1.0,
            ("support_repeated:1", "support_conflict:1", "supported_overall_not_sentences:1"),
            id="two entries that differ",
        ),
    ],
)
def test_support_decides_no_share_and_is_noted(
    supported: bool, support: list[tuple[str, bool]], adherence: float, notes: tuple[str, ...]
) -> None:
    assert found(a_reply(["0a"], ["0a"], supported, support)) == ((0.2, 0.2, 1.0, adherence), notes)


def test_an_entry_without_explanation_is_read_and_noted() -> None:
    reply = a_reply(["0a"], ["0a"])
    del reply["sentence_support_information"][0]["explanation"]
    assert found(reply) == ((0.2, 0.2, 1.0, 1.0), ("support_unexplained:1",))


@pytest.mark.parametrize(
    ("relevant", "utilized"),
    [(["D1_S1", "D1_S3"], ["D1_S1"]), (["D1_S1"], []), ([], ["D1_S3"]), (["d1_s1.", "D1_S3"], ["D1_S1"])],
)
def test_the_example_repeated_is_no_verdict(relevant: list[str], utilized: list[str]) -> None:
    outcome = judged(a_reply(relevant, utilized))
    assert isinstance(outcome, Malformed)
    assert outcome.reason is Reason.SCHEMA_ECHO


def test_an_item_that_has_the_examples_keys_is_judged_by_them() -> None:
    item = an_item([["D1_S1", "One."], ["D1_S3", "Two."]])
    assert found(a_reply(["D1_S1", "D1_S3"], ["D1_S1"]), item) == ((1.0, 0.5, 0.5, 1.0), ())


def test_keys_past_z() -> None:
    item = an_item([[f"Sentence {n}." for n in range(60)], ["Another one.", "And another.", "The last."]])
    reply = a_reply(["0z", "0aa", "0be", "1a"], ["0aa", "0be"])
    assert found(reply, item) == (pytest.approx((4 / 63, 2 / 63, 0.5, 1.0)), ())


def test_a_key_as_written_comes_before_a_lenient_one() -> None:
    item = an_item([[["0a", "x"], ["0A", "y"], ["0a.", "z"], ["1", "w"]]])
    assert found(a_reply(["0A", "0a.", "0a"], ["0A"]), item) == (pytest.approx((0.75, 0.25, 1 / 3, 1.0)), ())
    # `(0a)` could be two of them, `(0A)` is one by its case.
    assert found(a_reply(["(0a)"], ["(0A)"]), item)[1][:2] == ("key_wrapped:2", "unknown_keys:1")
    cased = an_item([["0a", "x"], ["0A", "y"]])
    assert found(a_reply(["0a.", "0A."], ["0a"]), cased) == ((1.0, 0.5, 0.5, 1.0), ("key_dot:4", "support_repeated:1"))


def test_an_item_whose_own_keys_have_dots() -> None:
    item = an_item([[["a.", "One."], ["b.", "Two."]]])
    assert found(a_reply(["a.", "b"], ["A."]), item) == (
        (1.0, 0.5, 0.5, 1.0),
        ("key_dot:2", "key_case:2", "support_repeated:1"),
    )


def test_the_notes_of_the_reading_are_kept() -> None:
    outcome = judged("<think>0a?</think>" + json.dumps(a_reply(["0a."], [])))
    assert isinstance(outcome, Scored)
    assert outcome.provenance.notes == ("reasoning_cut", "key_dot:2")


def test_scales_say_that_adherence_alone_is_yes_or_no() -> None:
    scales = RAGBENCH.scales()
    assert {name: scale.binary for name, scale in scales.items()} == {
        "relevance": False,
        "utilization": False,
        "completeness": False,
        "adherence": True,
    }
    assert all((scale.low, scale.high) == (0.0, 1.0) for scale in scales.values())
    assert not RAGBENCH.binary


KEYS = st.sampled_from(["0a", "0b", "1a", "1b", "1c", "0a.", "1C", "9z", "D1_S1", "", "[0b]"])


@given(st.lists(KEYS), st.lists(KEYS), st.booleans(), st.lists(st.tuples(KEYS, st.booleans())))
def test_no_key_is_dropped_in_silence(
    relevant: list[str], utilized: list[str], supported: bool, support: list[tuple[str, bool]]
) -> None:
    reply = a_reply(relevant, utilized, supported, support)
    outcome = judged(reply)
    if isinstance(outcome, Malformed):
        assert {*relevant, *utilized} == {"D1_S1"}
        return
    scores, notes = found(reply)
    assert scores[0] == len(relevant) / 5
    assert scores[1] == len(utilized) / 5
    assert 0 <= scores[2] <= 1
    assert scores[3] == float(supported)
    counts = {code: int(count) for code, _, count in (note.partition(":") for note in notes) if count.isdigit()}
    assert counts.get("unknown_keys", 0) == sum(key in ("9z", "D1_S1", "") for key in [*relevant, *utilized])
    assert ("above_one:relevance" in notes) == (len(relevant) > 5)
    assert ("above_one:utilization" in notes) == (len(utilized) > 5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("relevant: all_relevant_sentence_keys", "relevant: all_relevant", "'all_relevant' is no field of the verdict"),
        ("utilized: all_utilized_sentence_keys", "utilized: overall_supported", "must be of the type array of strings"),
        ("adherent: overall_supported", "adherent: all_utilized_sentence_keys", "must be of the type boolean"),
        ("support: sentence_support_information", "support: overall_supported", "must be of the type array"),
        ("support: sentence_support_information", "support: all_utilized_sentence_keys", "must require sentence_key"),
        ("required: [sentence_key, is_supported]", "required: [sentence_key]", "must require is_supported (boolean)"),
        ("kind: trace", "kind: race", "scoring.kind"),
        ("example_keys: [D1_S1, D1_S3]", "example_key: [D1_S1]", "did you mean 'example_keys'?"),
    ],
)
def test_a_scoring_that_does_not_fit_its_reading_is_refused(old: str, new: str, message: str) -> None:
    assert SOURCE.count(f"  {old}\n") == 1
    with pytest.raises(JudgeError) as error:
        parse_judge(SOURCE.replace(f"  {old}\n", f"  {new}\n"), "mine.yaml")
    assert message in error.value.message


def test_trace_needs_an_object() -> None:
    text = """
name: mine
reads: {kind: yesno, verdict: correct}
scoring: {kind: trace, relevant: a, utilized: b, adherent: c, support: d}
route: [{template: base}]
templates: {base: "Judge {response}"}
"""
    with pytest.raises(JudgeError, match="trace needs a reading of the kind object"):
        parse_judge(text, "mine.yaml")


def test_scoring_is_part_of_what_the_judge_means() -> None:
    other: Judge = parse_judge(SOURCE.replace("example_keys: [D1_S1, D1_S3]", "example_keys: [D1_S1]"), "x.yaml")
    assert other.fingerprint != RAGBENCH.fingerprint
