"""How lists of scores are read: the whole text fits one shape, or nothing is read. No number is searched for."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from judges import Malformed, Reply, Scored
from judges.reading import read
from judges.reply_forms import ScoresReads

ROOT = Path(__file__).parents[3]
REVIEWS = ROOT.parent / "shared" / "data" / "judge_raw" / "vicuna_reviews.jsonl"

WHOLE = ScoresReads(kind="scores", low=0, high=5)
HALVES = ScoresReads(kind="scores", verdict="rating", low=1, high=10, step=0.5)
NAMED = ScoresReads(kind="scores", names=["Accuracy", "Tone of voice"], low=0, high=5)


def told(reads: ScoresReads, text: str, finish: str | None = "stop") -> Any:
    """The scores, or the reason why there are none."""
    reading = read(reads, Reply(text, finish))
    if isinstance(reading, Scored):
        return reading.verdict["scores"] if reads.names is None else list(reading.verdict.values())
    return str(reading.reason) if isinstance(reading, Malformed) else f"refused by {reading.by}"


TWO_AND_THREE = [
    "2,3",
    "2, 3",
    "2 , 3",
    "2;3",
    "2|3",
    "2 3",
    "2\n3",
    "2\r\n\n3",
    "2,\n3",
    "2 and 3",
    "2,3,",
    "2,3.",
    "[2,3]",
    "(2, 3)",
    "[[2,3]]",
    '[2, "3"]',
    "['2', '3']",
    '"2","3"',
    '"2,3"',
    "2.0,3.0",
    "two, three",
    "2/5, 3/5",
    "2 out of 5, 3 out of 5",
    "**2**, **3**",
    "\\boxed{2,3}",
    "```\n2,3\n```",
    "```json\n[2, 3]\n```",
    "```2,3```",
    "- 2\n- 3",
    "２，３",
    "2、3",
    "2\u200b,3",
    "2,3<|im_end|>",
    '{"scores": [2, 3]}',
    '{"scores": "2,3"}',
    '{"1": 2, "2": 3}',
    '{"Q2": 3, "Q1": 2}',
    "Scores: 2,3",
    "**Scores:** 2, 3",
    "**Scores: 2,3**",
    "Final scores = 2,3",
    "Scores (0-5): 2, 3",
    "The scores are: 2,3",
    "Here are the scores:\n2,3",
    "Scores:\n```json\n[2,3]\n```",
    "Scores:\n1. 2\n2. 3",
    "1. 2\n2. 3",
    "1) 2\n2) 3",
    "(1) 2\n(2) 3",
    "1: 2, 2: 3",
    "Q1: 2\nQ2: 3",
    "Q2: 3\nQ1: 2",
    "- Q1: 2\n- Q2: 3",
    "**Q1:** 2\n**Q2:** **3**",
    "Q1 - 2\nQ2 - 3",
    "The first omits the date.\n\nScores: 2,3",
    "The first omits the date.\n\n2,3",
    "2,3\n\nThe first omits the date.",
    "Sure! Here are the scores:\n\n2,3",
    "2,3\n2,3",
]

NEITHER = [
    ("2,3,4", "count"),
    ("2", "count"),
    ("Q1: 2", "count"),
    ('{"1": 2}', "count"),
    ('{"scores": [2]}', "count"),
    ("2,3,", "count", 3),
    ("2,,3", "other_value"),
    ("2,,3", "other_value", 3),
    (",", "other_value"),
    ("N/A, 3", "other_value"),
    ("?,3", "other_value"),
    ("[2, null]", "other_value"),
    ("[2, true]", "other_value"),
    ("4²,3", "other_value"),
    ("٢,٣", "no_verdict"),
    ("good, bad", "no_verdict"),
    ("<score1>,<score2>", "no_verdict"),
    ("04,03", "other_value"),
    ("-1,3", "out_of_range"),
    ("6,2", "out_of_range"),
    ("23", "out_of_range"),
    ("six, two", "out_of_range"),
    ("4.5,3", "not_int"),
    ("3-4,2", "other_value"),
    ("~3, 4", "other_value"),
    ("+4, 3", "other_value"),
    ("5/10, 4/10", "other_scale"),
    ("80%,60%", "other_scale"),
    ("Scores (out of 10): 2,3", "other_scale"),
    ("2/5, 3", "other_value"),
    ("2, 3; 4", "other_value", 3),
    ("1. 2, 3", "ambiguous_multiple"),
    ("1. 2, 3", "ambiguous_multiple", 3),
    ("(1) 2", "count"),
    ("1 2\n2 3", "conflict"),
    ("Q1: 2\nQ3: 3", "labels"),
    ("Q1: 2\nQ1: 3", "labels"),
    ("0: 2\n1: 3", "labels"),
    ("Q1: 2\n2: 3", "labels"),
    ('{"0": 2, "1": 3}', "labels"),
    ('{"1": 2, "1": 3}', "duplicate_key"),
    ("[2, 3", "other_value"),
    ("2,3\nTotal: 5", "count", 3),
    ("2,3\n2,4", "conflict"),
    ("2,3\n\nActually 3, 3.", "conflict"),
    ("2,3\nWait, no.", "conflict"),
    ("The user wrote:\n2,3", "other_value"),
    ("The response has 2 errors and 3 omissions.", "no_verdict"),
    ("I cannot score these 2 answers.", "refused by model"),
]


@pytest.mark.parametrize("text", TWO_AND_THREE)
def test_two_scores_in_every_shape(text: str) -> None:
    assert told(WHOLE.counted(2), text) == [2, 3]
    assert all(type(score) is int for score in told(WHOLE.counted(2), text))


@pytest.mark.parametrize("case", NEITHER, ids=lambda case: repr(case))
def test_what_is_no_list_of_two(case: tuple[Any, ...]) -> None:
    text, reason, count = (*case, 2)[:3]
    assert told(WHOLE.counted(count), text) == reason


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("4", [4]),
        ("4.", [4]),
        ("4/5", [4]),
        ("**Score: 4/5**", [4]),
        ("Rating: [[4]]", [4]),
        ("four", [4]),
        ('{"score": 4}', [4]),
        ("1. 4", [4]),
        ("It omits the date.\n\nScore: 4", [4]),
        ("It gives 3 of 4 dates. Score: 4", [4]),
        ("4\n\nIt is right.", [4]),
        ("It deserves a 4.\n\nScore: 4", [4]),
        ("4,5", "count"),
        ("-0", "other_value"),
        ("- 4", "other_value"),
        ("4 points", "other_value"),
        ("The answer is 4.", "other_value"),
        ("Answer: 4", "other_value"),
        ("2. 4", "labels"),
        ('{"score": 4, "reason": "x"}', "labels"),
        ("Score: 3\nScore: 4", "conflict"),
        ("Accuracy: 3\nTone: 5\nScore: 4", [4]),
        ("I first thought 3/5.\n\nScore: 4", [4]),
    ],
)
def test_one_score(text: str, score: Any) -> None:
    assert told(WHOLE, text) == score


def test_strict_is_the_numbers_and_commas_and_nothing_else() -> None:
    assert WHOLE.counted(3).strict("0,5,3") is not None
    for text in ("0,5", "0, 5,3", "0,5,3\n", " 0,5,3", "0,5,3,", "0,5,6", "0,5,3.0", "00,5,3", "٢,5,3"):
        assert WHOLE.counted(3).strict(text) is None
    assert told(HALVES.counted(2), "9,8.5") == [9.0, 8.5]
    assert HALVES.counted(2).strict("9,8.50") is None
    assert HALVES.counted(2).strict("9.0,8.5") is None


def test_halves_up_to_ten() -> None:
    assert told(HALVES, "8.5/10") == [8.5]
    assert told(HALVES, "Rating: [[10]]") == [10.0]
    assert told(HALVES.counted(2), "9 8.50") == [9.0, 8.5]
    assert told(HALVES.counted(2), "9,8.3") == "other_value"
    assert told(HALVES.counted(2), "9 8,5") == "other_value"
    assert told(HALVES.counted(2), "0.5,1") == "out_of_range"


def test_scores_by_name() -> None:
    for text in (
        "4,3",
        "Accuracy: 4\nTone of voice: 3",
        "- **Tone of Voice:** 3/5\n- **Accuracy**: 4/5",
        "accuracy = 4; tone_of_voice = 3",
        '{"tone_of_voice": 3, "Accuracy": 4}',
        '{"scores": {"accuracy": 4, "tone of voice": 3}}',
        "Scores:\nAccuracy: 4\nTone of voice: 3",
    ):
        assert told(NAMED, text) == [4, 3], text
    assert NAMED.verdict_types == {"Accuracy": "integer", "Tone of voice": "integer"}
    assert told(NAMED, "Accuracy: 4") == "other_value"
    assert told(NAMED, "Accuracy: 4\nTone: 3") == "no_verdict"
    assert told(NAMED, '{"Accuracy": 4}') == "labels"
    assert told(NAMED, "Accuracy: 4\nAccuracy: 3") == "conflict"
    assert told(NAMED, "1. 4\n2. 3") == "other_value"
    assert told(NAMED, "Accuracy: 4\nToneofvoice: 3") == "no_verdict"


def test_a_reply_that_ran_out_of_tokens_is_read_only_where_it_is_closed() -> None:
    assert told(WHOLE.counted(2), "[2,3]", "length") == [2, 3]
    assert told(WHOLE.counted(2), '{"scores": [2, 3]}\n\n\n', "length") == [2, 3]
    for text in ("2,3", "[2,3", "(2,3)", "2,3,", "Scores: [2,3]"):
        assert told(WHOLE.counted(2), text, "length") == "truncated"


def test_coercions_are_noted() -> None:
    def notes(text: str) -> tuple[str, ...]:
        reading = read(WHOLE.counted(2), Reply(text))
        assert isinstance(reading, Scored)
        return reading.provenance.notes

    assert notes("2, 3") == ()
    assert notes("2/5, 3/5") == ("fraction",)
    assert notes("two, 3.0") == ("number_word", "integral_float")


def test_the_count_is_no_part_of_what_a_judge_means() -> None:
    two = WHOLE.counted(2)
    assert (
        two.model_dump()
        == WHOLE.model_dump()
        == {
            "kind": "scores",
            "verdict": "score",
            "names": None,
            "low": 0,
            "high": 5,
            "step": 1,
        }
    )
    assert told(WHOLE, "2") == [2]
    assert two.counted(1).strict("2") is not None
    with pytest.raises(ValueError, match="0 scores"):
        WHOLE.counted(0)
    with pytest.raises(ValueError, match="one item"):
        NAMED.counted(2)


@pytest.mark.parametrize(
    ("given_keys", "message"),
    [
        ({"low": 5, "high": 5}, "high: must be above low"),
        ({"step": 0}, "step: must be above 0"),
        ({"step": 2}, "does not lead from 0 to 5"),
        ({"high": float("inf")}, "high: must be a number that is not too large"),
        ({"names": ["a", "A "]}, "differ in case or blanks only"),
        ({"names": ["a:b"]}, "holds one of"),
        ({"names": ["a"], "verdict": "x"}, "give one of verdict and names"),
        ({"names": []}, "at least 1 item"),
        ({"low": True}, "low"),
        ({"most": 5}, "Extra inputs"),
    ],
)
def test_what_a_judge_may_not_say(given_keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ScoresReads.model_validate({"kind": "scores", "low": 0, "high": 5, **given_keys})


def test_no_part_of_a_list_says_something_else() -> None:
    for text in TWO_AND_THREE:
        for end in range(len(text)):
            for finish in ("stop", None, "length"):
                found = told(WHOLE.counted(2), text[:end], finish)
                assert found == [2, 3] or isinstance(found, str), text[:end]


def test_one_character_changes_a_list_only_where_it_changes_a_score() -> None:
    for text in TWO_AND_THREE:
        for place in range(len(text) + 1):
            for new in '049,./-*" \nQ²':
                inserted = told(WHOLE.counted(2), text[:place] + new + text[place:])
                assert inserted == [2, 3] or isinstance(inserted, str)
                edited = text[:place] + new + text[place + 1 :]
                found = told(WHOLE.counted(2), edited)
                if isinstance(found, list) and found != [2, 3]:
                    # Another digit where a score stood: a valid list of other scores, as everybody would read it.
                    assert new in "04" and text[place] in "23２３", edited
                    assert sum(one != other for one, other in zip(found, [2, 3], strict=True)) == 1
            removed = told(WHOLE.counted(2), text[:place] + text[place + 1 :])
            assert removed == [2, 3] or isinstance(removed, str)


SEPARATORS = st.sampled_from([",", ", ", ";", " | ", "\n", " and ", " "])
WRAPPINGS = st.lists(
    st.sampled_from(["{}", "**{}**", "[{}]", "({})", "`{}`", "Scores: {}", "{}.", "\n{}\n", "```\n{}\n```"]), max_size=3
)
PROSE = st.sampled_from(
    [
        "",
        "The first omits the date.",
        "Here are the scores:",
        "The user asked for 5,5.",
        "The response says:",
        "Total: 7",
        "I would give 4/5.",
        "1. The first is short.\n2. The second is long.",
        "For example 3, 3.",
    ]
)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6), SEPARATORS, WRAPPINGS, PROSE, PROSE)
def test_wrapping_never_changes_scores(
    scores: list[int], separator: str, wrappings: list[str], before: str, after: str
) -> None:
    text = separator.join(map(str, scores))
    for wrapping in wrappings:
        text = wrapping.replace("{}", text)
    reads = WHOLE.counted(len(scores))
    other = ",".join(str(5 - score) for score in scores)
    for reply in (text, f"{before}\n\n{text}", f"{text}\n\n{after}", f"<think>{other}</think>{before}\n{text}"):
        found = told(reads, reply)
        assert found == scores or isinstance(found, str), reply


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6), st.permutations(range(6)))
def test_labels_say_which_score_is_whose(scores: list[int], order: list[int]) -> None:
    order = [place for place in order if place < len(scores)]
    reads = WHOLE.counted(len(scores))
    assert told(reads, "\n".join(f"Q{place + 1}: {scores[place]}" for place in order)) == scores
    assert told(reads, ", ".join(f"{place + 1}: {scores[place]}" for place in order)) == scores
    assert told(reads, json.dumps({str(place + 1): scores[place] for place in order})) == scores
    assert isinstance(told(reads, "\n".join(f"Q{place + 1}: {scores[place]}" for place in order[1:])), str)


@given(st.text(max_size=200), st.text("0123456789 .,;:|/-()[]{}\"'\nQ*aend", max_size=60), st.integers(1, 4))
def test_every_score_read_stands_in_the_text(noise: str, near: str, count: int) -> None:
    for text in (noise, near, near + noise):
        found = told(WHOLE.counted(count), text)
        if isinstance(found, list):
            assert len(found) == count
            folded = text.translate({0xFF10 + digit: str(digit) for digit in range(10)})
            numbers = [float(number) for number in re.findall(r"[0-9]+(?:\.[0-9]+)?", folded)]
            assert all(float(score) in numbers for score in found) or re.search(
                "zero|one|two|three|four|five", text, re.I
            )


def test_hostile_texts_take_no_time() -> None:
    for piece in (
        "{",
        "[",
        '"',
        "1,",
        "1 ",
        "1\n",
        "1. 2 ",
        "Q1: ",
        "(",
        "**",
        "Score: ",
        "4/5, ",
        " and ",
        "\n",
        "\\boxed{",
    ):
        for length in (1 << 20, 199_000):
            text = (piece * length)[:length]
            for reads in (WHOLE.counted(10), HALVES, NAMED):
                start = time.process_time()
                told(reads, text)
                assert time.process_time() - start < 1, (piece, length)


def test_real_reviews_open_with_two_scores() -> None:
    if not REVIEWS.exists():
        pytest.skip(f"{REVIEWS} is not there")
    reads = ScoresReads(kind="scores", names=["first", "second"], low=1, high=10, step=0.5)
    rows = [json.loads(line) for line in REVIEWS.read_text(encoding="utf-8").splitlines()]
    found = [(told(reads, row["text"]), row["score"]) for row in rows]
    read_rows = [(ours, theirs) for ours, theirs in found if isinstance(ours, list)]
    assert [pair for pair in read_rows if pair[0] != pair[1]] == []
    assert len(read_rows) >= 0.75 * len(rows)


RATING = ScoresReads(kind="scores", verdict="rating", low=1, high=10, step=1)
PAIR = ScoresReads(kind="scores", names=["first", "second"], low=1, high=10, step=0.5)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("It takes 3 steps where 2 would do.\n\nRating: [[8]]", [8]),
        ("1. Add 5.\n2. Add 7; the sum is 12.\n\n**Rating:** [[8]].", [8]),
        ("```\nx = f(1, 2)\n```\nIt states:\n12\n\nRating: [[8]]", [8]),
        ("Rating: 7\n\nRating: [[8]]", None),
        ("Rating: [[7]]\n\nRating: [[8]]", None),
        ("8\n[[7]]", None),
        ("The response says:\nAll is well.\nSo it is.\nRating: [[10]]", None),
        ("For example:\nRating: [[5]]", None),
        ("Good.\n\nRating: [[11]]", None),
        ("Good.\n\nRating: [[8.5]]", None),
        ("Good.\n\nRating: [[1", None),
    ],
)
def test_a_score_in_double_brackets_at_the_end_is_the_judges(text: str, score: list[int] | None) -> None:
    found = told(RATING, text)
    assert found == score if score else isinstance(found, str)


def test_scores_on_the_first_line_stand_unless_the_judge_takes_them_back() -> None:
    assert told(PAIR, "8 9\nAssistant 1 made a mistake in the original email and apologized.") == [8.0, 9.0]
    for behind in (
        "Wait, the second is better.",
        "I take that back.",
        "Actually both deserve a ten.",
        "Ignore that line.",
        "7 8",
    ):
        assert isinstance(told(PAIR, f"8 9\n{behind}"), str), behind
