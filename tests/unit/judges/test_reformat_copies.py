"""A copied verdict stands only if its literal is in the text, and no other's is."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judges import Reason, Reply, load_judge, reformat_of, text_to_copy_from
from judges.outcome import Malformed, Refused, Scored
from judges.reformat import FOR, LONGEST, NONE, Reformat
from judges.reply_forms import AnyReads, ChoiceReads, ObjectReads, ScoresReads, YesnoReads
from runner.simulate.bad_replies import NO_VERDICT
from runner.simulate.prompt_parser import parse_prompt
from runner.simulate.replies import reply_without_verdict


def how(name: str, count: int = 1) -> Reformat:
    found = reformat_of(load_judge(name, Path()).reads, count)
    assert found is not None
    return found


def of(reads: dict[str, Any]) -> Reformat:
    kinds: dict[str, Any] = {"yesno": YesnoReads, "choice": ChoiceReads, "scores": ScoresReads, "object": ObjectReads}
    found = reformat_of(kinds[reads["kind"]].model_validate(reads))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("judge", "text", "copy", "accepted"),
    [
        ("yes-no", "I land on yes here.", "yes", True),
        ("yes-no", "I land on **Yes** here.", "yes", True),
        ("yes-no", "I land on yes here.", "no", False),
        ("yes-no", "The eyes have it; nothing is wrong.", "yes", False),
        ("yes-no", "Nothing is wrong.", "no", False),
        ("yes-no", "Yes and no.", "yes", False),
        ("yes-no", "There is no mention of it, so yes.", "yes", False),
        ("yes-no", "I would not say yes.", "yes", False),
        ("yes-no", "I can't say yes to that", "yes", False),
        ("yes-no", "Say yes if it is right.", "yes", False),
        ("yes-no", "Is it a yes?", "yes", False),
        ("yes-no", "It does not matter much. A yes from me.", "yes", True),
        ("yes-no", "I land on yes here.", "Yes, it is.", False),
        ("yes-no", "I land on yes here.", NONE, False),
        ("yes-no", "I land on yes here.", None, False),
        ("choice-ab", "My pick goes to B.", "B", True),
        ("choice-ab", "My pick goes to B.", "A", False),
        ("choice-ab", "A is good, B is better.", "B", False),
        ("choice-ab", "A fine answer, all told.", "A", False),
        ("choice-ab", "Absolutely the best.", "A", False),
        ("score-0-5", "I put it at 4 here.", "4", True),
        ("score-0-5", "I put it at 4/5.", "4", True),
        ("score-0-5", "I put it at 4 out of 5, as in 2023.", "4", True),
        ("score-0-5", "On a scale from 0 to 5 it is a 3.", "3", True),
        ("score-0-5", "I put it at 4 here.", "5", False),
        ("score-0-5", "I put it at 4.5 here.", "4", False),
        ("score-0-5", "I put it at 8/10.", "4", False),
        ("score-0-5", "I put it at 4/10.", "4", False),
        ("score-0-5", "3 points are missing, so 2.", "2", False),
        ("score-0-5", "Somewhere in 3-4.", "3", False),
        ("score-0-5", "A perfect 10.", "1", False),
        ("score-0-5", "Minus: -3.", "3", False),
        ("score-0-5", "I put it at four.", "4", False),
        ("score-0-5", "I would never give it 4.", "4", False),
        ("score-0-5", "80% or so, 4%.", "4", False),
        ("correct-and-score", "I take correct to be true and score to be 4.", '{"correct": true, "score": 4}', True),
        ("correct-and-score", "correct: true, score: 4/5", '{"correct": true, "score": 4}', True),
        ("correct-and-score", "correct is true, the score unknown", '{"correct": true, "score": 4}', False),
        ("correct-and-score", "score is 4; correct is false", '{"correct": true, "score": 4}', False),
        ("correct-and-score", "correct is true, score is 4, or score is 3", '{"correct": true, "score": 4}', False),
        ("correct-and-score", "true, and 4.", '{"correct": true, "score": 4}', False),
        ("correct-and-score", "correct is true, score is 10", '{"correct": true, "score": 1}', False),
        ("correct-and-score", "correct is true, score is 4", '{"correct": true, "score": 4, "x": 1}', False),
        ("correct-and-score", "correct is true, score is 4", '{"correct": "true", "score": 4}', False),
        ("longmemeval-hindsight", "In the end this is true.", '{"correct": true}', True),
        ("longmemeval-hindsight", "In the end this is true.", '{"correct": false}', False),
        ("longmemeval-hindsight", "In the end this is true.", '{"correct": null}', False),
        ("longmemeval-hindsight", "I should set correct=true if it holds the answer.", '{"correct": true}', False),
        ("longmemeval-hindsight", "It is true that the date is false.", '{"correct": true}', False),
        ("longmemeval-hindsight", "That is not true.", '{"correct": true}', False),
        # A field's value that is denied, refused or somebody else's.
        ("longmemeval-hindsight", "I would not set correct=true here.", '{"correct": true}', False),
        ("longmemeval-hindsight", "I cannot set correct=true for this answer.", '{"correct": true}', False),
        ("longmemeval-hindsight", "It is vague, so correct=true is not warranted.", '{"correct": true}', False),
        ("longmemeval-hindsight", "It would be a mistake to set correct=true.", '{"correct": true}', False),
        ("longmemeval-hindsight", "It would be wrong to set correct=true.", '{"correct": true}', False),
        ("longmemeval-hindsight", "I take correct=true because it does not omit a fact.", '{"correct": true}', True),
        ("longmemeval-hindsight", "It lacks not one fact, so I take correct=true.", '{"correct": true}', True),
        # Numbers in words are numbers, though none of them is a literal.
        ("score-0-5", "Four points. It has 2 errors.", "2", False),
        ("score-0-5", "Deserves three out of five, as 1 of the facts is missing.", "1", False),
        ("score-0-5", "I give it four; the reference has 3 facts.", "3", False),
        ("score-0-5", "I give it a one. It has 3 facts.", "3", False),
        ("score-0-5", "On a scale from zero to five it is a 3.", "3", True),
        ("score-0-5", "Going through it one by one I land on 3.", "3", True),
        ("score-0-5", "4 out of five.", "4", True),
        ("score-0-5", "I refuse to say 4.", "4", False),
        ("score-0-5", "4.So it goes", "4", False),
        (
            "correct-and-score",
            "correct is true. The score is 4 for style, overall a three.",
            '{"correct": true, "score": 4}',
            False,
        ),
        (
            "correct-and-score",
            "correct is true. The score is 4 for style, overall a 3.",
            '{"correct": true, "score": 4}',
            False,
        ),
        ("correct-and-score", "1. correct: true\n2. score: 4", '{"correct": true, "score": 4}', True),
        ("yes-no", "I refuse to say yes.", "yes", False),
        ("yes-no", "Far from a yes.", "yes", False),
        ("yes-no", "To say yes here is a mistake.", "yes", False),
        ("yes-no", "It fails to earn a yes.", "yes", False),
        ("yes-no", "The opposite of yes.", "yes", False),
        ("yes-no", "The response claims 'yes'. It is incorrect.", "yes", False),
    ],
)
def test_a_copy_stands_where_it_is_one(judge: str, text: str, copy: str | None, accepted: bool) -> None:
    found = how(judge).accept(copy, text)
    assert (found is not None) == accepted, found


def test_scores_of_a_batch_stand_in_order_and_each_of_them() -> None:
    batch = how("answer-correctness", 3)
    text = "I put the first at 4, the second at 0 and the third at 4."
    assert batch.accept("4,0,4", text) == {"scores": [4, 0, 4]}
    for copy in ("0,4,4", "4,4,0", "4,0", "4,0,4,4", "4,0,3"):
        assert batch.accept(copy, text) is None, copy


def test_scores_by_name_and_words_that_a_judge_declares() -> None:
    named = of({"kind": "scores", "names": ["style", "truth"], "low": 1, "high": 10})
    assert named.accept("9,8", "I put style at 9 and truth at 8.") == {"style": 9, "truth": 8}
    assert named.accept("8,9", "I put style at 9 and truth at 8.") is None
    words = of({"kind": "yesno", "aliases": {"yes": ["oui"], "no": ["non"]}})
    assert words.accept("yes", "Ma réponse : oui") == {"correct": True}
    assert words.accept("yes", "Oui et non") is None
    labels = of({"kind": "choice", "labels": {"CORRECT": {"aliases": ["right"]}, "INCORRECT": {}}})
    assert labels.accept("CORRECT", "The verdict that fits is: INCORRECT") is None
    assert labels.accept("CORRECT", "This one is right") == {"choice": "CORRECT"}


def test_a_verdict_of_lists_is_not_copied() -> None:
    assert reformat_of(load_judge("ragbench", Path()).reads) is None


KINDS: list[tuple[str, AnyReads, list[str], str]] = [
    (
        name,
        load_judge(name, Path()).reads,
        [c if isinstance(c, str) else json.dumps(c) for c in copies],
        kind,
    )
    for name, copies, kind in (
        ("yes-no", ["yes", "no"], "yesno"),
        ("choice-ab", ["A", "B"], "choice"),
        ("score-0-5", ["0", "1", "2", "3", "4", "5"], "scores"),
        ("longmemeval-hindsight", [{"correct": True}, {"correct": False}], "line"),
        ("longmemeval-hindsight", [{"correct": True}, {"correct": False}], "object"),
    )
]


@pytest.mark.parametrize(("name", "reads", "copies", "kind"), KINDS)
def test_no_lie_is_taken_of_a_text_without_a_verdict(name: str, reads: AnyReads, copies: list[str], kind: str) -> None:
    judge, reformat = load_judge(name, Path()), reformat_of(reads)
    assert reformat is not None
    replies = [
        text.replace("{first}", "A").replace("{last}", "B").replace("{low}", "0").replace("{high}", "5")
        for text in NO_VERDICT[kind]
    ]
    for text, copy in itertools.product(replies, copies):
        reply = Reply(text)
        copied_from = text_to_copy_from(judge.read(reply), reply)
        if copied_from is not None:
            assert reformat.accept(copy, copied_from) is None, (text, copy)


@given(before=st.text(max_size=60), after=st.text(max_size=60), copy=st.sampled_from(["yes", "no"]))
def test_what_is_not_in_the_text_as_a_word_is_never_accepted(before: str, after: str, copy: str) -> None:
    for text in (before + after, f"{before} eyesight {after}", f"{before} nothing {after}"):
        words = {word.strip("_").lower() for word in "".join(c if c.isalnum() else " " for c in text).split()}
        if copy not in words:
            assert how("yes-no").accept(copy, text) is None


@given(number=st.integers(0, 5), text=st.text(alphabet="0123456789 ./,-abc", max_size=30))
@example(number=5, text="5..0")
def test_a_number_is_accepted_only_as_a_whole_token(number: int, text: str) -> None:
    found = how("score-0-5").accept(str(number), text)
    if found is not None:
        tokens = text.replace("/", " ").replace(",", " ").replace("-", " ").split()
        assert any(re.fullmatch(rf"{number}(\.0+)?", token.strip(".")) for token in tokens), text


@pytest.mark.parametrize("reason", list(Reason))
def test_only_a_reply_that_may_hold_one_plain_verdict_is_copied_from(reason: Reason) -> None:
    asked = text_to_copy_from(Malformed(reason), Reply("<think>yes</think> I land on no here."))
    assert asked == (" I land on no here." if reason in FOR else None)
    assert not FOR & {
        Reason.TRUNCATED,
        Reason.EMPTY,
        Reason.REASONING_UNCLOSED,
        Reason.NOTHING_AFTER_REASONING,
        Reason.REFUSAL_LIKE,
        Reason.CONFLICT,
        Reason.AMBIGUOUS_MULTIPLE,
        Reason.AMBIGUOUS_FIELD,
        Reason.READINGS_DIFFER,
        Reason.DUPLICATE_KEY,
        Reason.COUNT,
    }


def test_what_is_refused_scored_or_too_long_is_not_copied_from() -> None:
    scored = load_judge("yes-no", Path()).read(Reply("yes"))
    assert isinstance(scored, Scored)
    assert text_to_copy_from(scored, Reply("yes")) is None
    assert text_to_copy_from(Refused("model"), Reply("I can't")) is None
    assert text_to_copy_from(Malformed(Reason.NO_VERDICT), Reply("x" * (LONGEST + 1))) is None


@pytest.mark.parametrize("name", ["yes-no", "choice-ab", "score-0-5", "correct-and-score", "longmemeval-hindsight"])
def test_the_request_holds_the_text_and_says_what_is_wanted(name: str) -> None:
    reformat = how(name)
    (message,) = reformat.messages("some {text}")
    assert message["content"].startswith("Copy the verdict out of this text. If it has none, answer NONE.")
    assert message["content"].endswith("<text>\nsome {text}\n</text>")
    assert len(reformat.digest) == 8
    assert len({how(other).digest for other in ("yes-no", "choice-ab", "score-0-5", "correct-and-score")}) == 4
    # In the form that may be enforced there is a way to say that there is none.
    none = reformat.constraint
    assert NONE in none.choices or none.met_by(NONE) or '"null"' in json.dumps(none.schema)
    prompt = parse_prompt({"model": "m", "messages": reformat.messages("The place is mentioned.")})
    assert reply_without_verdict(prompt, False) == NONE
