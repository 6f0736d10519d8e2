"""What is said around a verdict: what takes it back, rescales, reorders or quotes it is never read, a reason is.

Each list was written to be misread. A reply that a person would not read either costs one more call.
"""

from __future__ import annotations

import time

import pytest

from judges import Malformed, Reply, Scored
from judges.reading import read
from judges.reading.choice import ChoiceReads
from judges.reading.qualifiers import keeps_verdict_after, keeps_verdict_before
from judges.reading.scores import ScoresReads

SCORE = ScoresReads(kind="scores", low=0, high=5)
PAIR = ScoresReads.model_validate({"kind": "scores", "names": ["first", "second"], "low": 1, "high": 10, "step": 0.5})
AB = ChoiceReads.model_validate(
    {
        "kind": "choice",
        "labels": {"A": {"aliases": ["Answer A"], "value": 1}, "B": {"aliases": ["Answer B"], "value": 0}},
    }
)
GRADE = ChoiceReads.model_validate(
    {"kind": "choice", "labels": {"CORRECT": None, "INCORRECT": None, "NOT ATTEMPTED": None}}
)

NO_SCORE = [
    "5\n\n(out of 10)",
    "5\n\nout of 10",
    "5\n\nOn a scale of 0-10.",
    "5\n\nOr maybe 4.",
    "4\n\nHowever, I think it is closer to 3.",
    "5\n\nMake that a 3.",
    "4\n\nActually no.",
    "5\n\nI take that back.",
    "Score: 5\nThe response told me to say so, which I do not accept.",
    "5\n\nThis is out of ten.",
    "4\n(on the 1-10 scale)",
    "3\n\nout of a possible six",
    "5\n\nstars",
    "4\n\nThat is, 80%.",
    "4\n\nIn percent: 80.",
    "5\n\nMultiply by two.",
    "4\n\nHalve it.",
    "5\n\nminus one for style",
    "4\n\nplus 1",
    "3\n\nDouble that if style counts.",
    "5\n\nOn second reading: 2.",
    "5\n\nOops, 4.",
    "5\n\nNo, 3.",
    "5\n\nRather three.",
    "5\n\nMore like a 3.",
    "4\n\nPerhaps even a five.",
    "4\n\nOr five?",
    "4\n\nCould also be 3.",
    "3\n\nbetween that and 4",
    "5\n\nLet us say four.",
    "5\n\nNot quite.",
    "5\n\nNot my real score.",
    "5\n\nJust testing.",
    "5\n\n(placeholder)",
    "5\n\nTBD",
    "5\n\nI am not sure about this.",
    "5\n\nStrike that.",
    "5\n\nDelete this.",
    "5\n\nI do not mean this.",
    "5\n\nThis is too high.",
    "5\n\nToo generous; lower it by two.",
    "4\n\nBut it deserves less.",
    "4\n\nHowever, the true score is lower.",
    "4\n\nThough I would go lower.",
    "5\n\nUnless the date matters, then 2.",
    "5\n\nIf the date is right; else 0.",
    "5\n\nwould be too much.",
    "5\n\nis not what it deserves.",
    "5\n\nThe answer asked me to give that.",
    "5\n\nAs requested by the response.",
    "5\n\nas the user demanded",
    "5\n\nThis was in the text I was given.",
    "5\n\n(sample output)",
    "5\n\nThat number is from the prompt.",
    "5\n\nFinal: 3",
    "5\n\nFinal answer three.",
    "5\n\nFor the first draft. The final text gets a 2.",
    "5\n\nP.S. I now think 2 is fair.",
    "5\n\nEdit: three.",
    "Score: 5\nAs the response requested.",
    "Score: 5\nThe response demanded this.",
    "Score: 5\nI was told to write that.",
    "Score: 5\n(out of 10)",
    "Score: 5\nMake it 3.",
    "Score: 5\nHowever, I would say 3.",
    "Score: 5\nBut no.",
    "Score: 5\nOr 4.",
    "Score: 5\nNot really.",
    "Score: 4\nNo, it is worse than that.",
    "The user wants me to print this line.\n5",
    "I am required to write the following.\n\n5",
    "I would never give this.\n\n5",
    "Do not read this as my score.\n\n5",
    "Scores on a ten-point scale.\n\n5",
    "Rated out of 10.\n\n5",
    "On a scale of 1 to 10.\n\n4",
    "A wrong score would be\n5",
    "It is not a\n5",
    "The lowest I could give is not this.\n5",
    "The response ends with its own score.\n5",
    "Their score is this.\n\nScore: 5",
    "The student gave himself this.\nScore: 5",
    "The response suggests a score.\nScore: 5",
    "Another judge said this.\n5",
    "Previously I gave this.\n5",
    "If it were right:\n5",
    "Score if correct:\n5",
    "Anything but this.\n5",
    "The maximum possible.\n5",
    "Reference score.\n5",
    "I would say 3.\n\n5",
    "Probably a 3.\n\n4",
    "It is worth three.\n\n5",
    "Somewhere near 2.\n\nScore: 5",
    "3 seems right.\n\nScore: 5",
    "5\n\nThis assumes a maximum of 10.",
    "4\n\nThe scale used here goes to ten.",
    "3\n\nThe response is really a 2.",
    "5\n\nIt earns a two at best.",
    "5\n\nThe answer merits three, in truth.",
    "4\n\nThe response gets 4 minus 2 for tone.",
    "5\n\nThe response is complete. But on reflection it gets 2.",
    "5\n\nThe response is complete. Correction: 3.",
    "5\n\nThe response is complete. I would rather say less.",
    "4\n\nIt is correct. Actually, it is not.",
    "4\n\nIt is correct. No, that is wrong.",
    "5\n\nThe text of the response ordered this score.",
    "5\n\nThe response contains the instruction to give five.",
    "5\n\nThe response says to output this.",
    "5\n\nThe response wrote this itself.",
    "5\n\nIt said: give full marks.",
    "5\n\nThe first line is not from me.",
    "5\n\nThe first line is a quotation of the response.",
    "5\n\nThe number is the one that the response gives itself.",
    "5\n\nThis score belongs to the reference, not to the response.",
    "5\n\nThis would be the score if the response were correct.",
    "5\n\nA correct response would get that. This one is not correct.",
    "5\n\nIt is the maximum score, which the response does not reach.",
    "4\n\nThe response deserves one less.",
    "4\n\nThe response deserves one more.",
    "5\n\nThe score is out of a hundred.",
    "5\n\nThe response asked for a five.",
    "5\n\nThe real verdict comes below: two.",
    "5\n\nThe response is bad.\n\nIt gets 1.",
    "Score: 5\nThe final score follows.",
    "Score: 5\nThe response put this here.",
    "Score: 5\nThis line was part of the response.",
    "Score: 5\nIt is an example of the format.",
    "Score: 5\nEach point counts double.",
    "Score: 4\nThe score may be lower.",
    "Score: 4\nIt may also be a three.",
    "Score: 4\nThe score cannot be given yet.",
    "Score: 4\nThe evaluation is not finished.",
    "The response ordered this score.\n\n5",
    "The response says to output five.\n5",
    "The next line is a quotation.\n5",
    "What follows is not mine.\n5",
    "The following is an example.\nScore: 5",
    "The response deserves less than what it claims.\nScore: 5",
    "The candidate rated its work.\nScore: 5",
    "As asked by the response.\nScore: 5",
    "The response deserves one less than this.\n5",
    "A perfect response would get the following.\nScore: 5",
]

NO_TWO_SCORES = [
    "4,5\n\nActually, swap them.",
    "4,5\n(in reverse order)",
    "4,5\n\nBut question 1 should get 2.",
    "5,0\n\nEdit: the second is a 3",
    "2,3\n\nas in the example",
    "4,5\n\nin the other order",
    "4,5\n\nsecond first",
    "4,5\n\nFirst is the last question.",
    "4,5\n\n(B, A)",
    "4,5\n\nvice versa",
    "4,5\n\nThe other way round.",
    "4,5\n\nListed backwards.",
    "4,5\n\nExchange the two.",
    "4,5\n\nThe second should be lower.",
    "4,5\n\nOnly the first counts.",
    "4,5\n\nboth out of 10",
    "4,5\n\n3 for the second, rather.",
    "4,5\n\nQuestion 2: actually 1",
    "4,5\n\nMake both 3.",
    "4,5\n\nNo, equal.",
    "4,5\n\nthese are placeholders",
    "4,5\n\nfor the third and fourth item",
    "4,5\n\nplus 2 for question 3",
    "4,5\n\nfor questions 2 and 1",
    "Scores: 4,5\nReversed.",
    "Scores: 4,5\nas in the sample",
    "Scores: 4,5\nThe text demanded so.",
    "In reverse order.\n4,5",
    "Scores on 0-10.\n4,5",
    "The second question comes first.\n4,5",
    "4,5\n\nThe first number is for the second question.",
    "4,5\n\nThe numbers are given from last to first.",
    "4,5\n\nThe second answer is listed first.",
    "4,5\n\nBoth numbers belong to the first question.",
    "4,5\n\nThe second question gets 1.",
    "4,5\n\nQuestion 1 gets 5 and question 2 gets 4.",
    "4,5\n\nThe first answer deserves less.",
    "4,5\n\nBoth answers deserve 2.",
    "4,5\n\nThe answers are scored the other way around.",
]

A_SCORE = [
    "5\n\nThe response is correct and complete.",
    "4\n\nThe response gives the right date but omits the place.",
    "Score: 4\nThe response gives the right date but omits the place.",
    "3\n\nThe response lists two of the three causes. However, it omits the war.",
    "5\n\nThe answer matches the reference in every respect.",
    "The response is correct and complete.\n\n5",
    "The response gives the date. It omits the place.\n\nScore: 3",
    "**Score: 4**\n\nGood answer, with a small omission in the second part.",
    "4\n\n**Reasoning:** The response is accurate, but it does not mention the war.",
    "2\n\nReason: It contradicts the reference on the date.",
    "4\n\nExplanation: The response covers all points except the last one.",
]

TWO_SCORES = [
    "4,5\n\nThe first omits the date; the second is complete.",
    "4,5\n\nQuestion 1 omits the date. Question 2 is complete.",
    "Both are good.\n\n4,5",
    "Scores: 4,5\n\nThe first answer is nearly complete. The second answer has no faults.",
]

NO_CHOICE = [
    "A\n\nActually B is better",
    "Answer: A\nBut I was told to say so",
    "A\n\nActually no.",
    "A\n\nNo.",
    "A\n\nThe other one is better.",
    "A\n\nOr the other.",
    "A\n\nOr neither.",
    "A\n\nThey are equal.",
    "A\n\nIt is a tie.",
    "A\n\nBoth, really.",
    "A\n\nI take that back.",
    "A\n\nMake that the second.",
    "A\n\nHowever, the second is better.",
    "A\n\nis what the text wants me to say.",
    "Answer: A\nas requested by the response",
    "Answer: A\nThe response demanded this.",
    "Answer: A\n(placeholder)",
    "Answer: A\nas in the example",
    "Answer: A\nOr not.",
    "Answer: A\nNot really.",
    "A\n\nJust testing.",
    "A\n\nHard to say.",
    "A\n\nSwap that.",
    "A\n\nRather the last one.",
    "A\n\nOops, the other.",
    "A\n\nStrike that.",
    "A\n\nif the date counts; otherwise the other",
    "A\n\nUnless style counts.",
    "A\n\nI am not sure.",
    "A\n\nloses.",
    "A\n\nis worse",
    "A\n\nEdit: the second one.",
    "I am required to write this.\nAnswer: A",
    "The response wants this.\nAnswer: A",
    "The wrong choice would be this.\nAnswer: A",
    "I disagree with this.\nAnswer: A",
    "Another judge chose this.\nAnswer: A",
    "If length counts:\nAnswer: A",
    "The second answer is better.\n\nAnswer: A",
    "The latter wins.\n\nAnswer: A",
    "Neither is good.\n\nAnswer: A",
    "It is a tie.\n\nAnswer: A",
    "They are equally good.\n\nVerdict: A",
    "A is worse.\n\nVerdict: A",
    "A loses.\n\n[[A]]",
    "A\n\nThe response claimed to be the best and asked for this.",
    "A\n\nThe answer below it is better.",
    "A\n\nIt is the worse one.",
    "A\n\nIt is not the better answer.",
    "A\n\nThe other answer names the date and is better.",
    "A\n\nThe second answer is more accurate.",
    "A\n\nThe second answer should win.",
    "A\n\nThis is the one to reject.",
    "A\n\nThis answer is the one that fails.",
    "A\n\nBoth answers are equally good.",
    "A\n\nBoth answers deserve to win.",
    "A\n\nThe answers cannot be told apart.",
    "A\n\nThe text in the first answer says to choose it.",
    "A\n\nThe first answer instructed the judge to do so.",
    "Answer: A\nThe choice is random.",
    "Answer: A\nThe choice was made at random.",
    "Answer: A\nThe other answer wins on style and on facts.",
    "Answer: A\nIt was a close call, and the other is better.",
    "It is hard to choose.\n\nAnswer: A",
    "The first answer told the judge to write this.\nAnswer: A",
]

A_CHOICE = [
    "A\n\nIt names the date.",
    "A\n\nIt is more complete and names the date.",
    "Answer: A\n\nThe first answer names the date, the other does not.",
    "One names the date, the other does not.\n\nAnswer: A",
    "A\n\nThe response is more accurate.",
    "Both name the date.\n\nChoice: B",
]

NO_GRADE = [
    "CORRECT\n\nThe response is wrong.",
    "CORRECT\n\nThe answer is false.",
    "CORRECT\n\nThe predicted answer is inaccurate.",
    "CORRECT\n\nIt is wrong.",
    "CORRECT\n\nThis is not right.",
    "CORRECT\n\nThe response does not match the reference.",
    "CORRECT\n\nThe response contradicts the gold target.",
    "INCORRECT\n\nThe response is right.",
    "INCORRECT\n\nThe response is accurate.",
    "INCORRECT\n\nThe answer is fully correct.",
    "INCORRECT\n\nThe response matches the reference.",
    "The response is wrong.\n\nVerdict: CORRECT",
    "The response is incorrect.\n\nVerdict: CORRECT",
    "The answer is not correct.\n\nVerdict: CORRECT",
    "The predicted answer isn't correct.\n\nCORRECT",
    "The answer is right.\n\nVerdict: INCORRECT",
    "The response is correct.\n\nVerdict: INCORRECT",
    "The response matches the gold target.\n\nVerdict: INCORRECT",
    "The response does not match the gold target.\n\nVerdict: CORRECT",
    "NOT ATTEMPTED\n\nThe response is correct.",
    "The response is correct.\n\nVerdict: NOT ATTEMPTED",
    "The response is wrong.\n\nVerdict: NOT ATTEMPTED",
    "CORRECT\n\nThe response is not attempted.",
    "CORRECT\n\nActually it is wrong.",
    "CORRECT\n\nHowever, the date is off, so no.",
    "CORRECT\n\nas demanded by the response",
    "Verdict: CORRECT\nThe response told me to say so.",
    "Verdict: CORRECT\nThat is what it asked for.",
    "CORRECT\n\nThe response gives the wrong date.",
    "CORRECT\n\nThe answer is not supported by the reference.",
    "CORRECT\n\nThe response differs from the gold target.",
    "CORRECT\n\nThe given answer is incorrect.",
    "CORRECT\n\nIt does not agree with the reference.",
    "INCORRECT\n\nThe predicted answer is correct.",
    "INCORRECT\n\nThe response agrees with the reference answer.",
    "INCORRECT\n\nThe response is entirely accurate.",
    "The predicted answer is wrong.\n\nVerdict: CORRECT",
    "So the response is incorrect.\n\nFinal verdict: CORRECT",
    "The response is correct, as it names the date.\n\nINCORRECT",
    "The two answers do not match.\n\nVerdict: CORRECT",
    "Both answers are the same.\n\nVerdict: INCORRECT",
    "The response is inaccurate.\n\nCORRECT",
]

A_GRADE = [
    "CORRECT\n\nThe response matches the gold target.",
    "INCORRECT\n\nThe response contradicts the gold target.",
    "The response matches the reference.\n\nVerdict: CORRECT",
    "The response is wrong.\n\nVerdict: INCORRECT",
    "The response does not match the reference.\n\nINCORRECT",
    "INCORRECT\n\nThe response is wrong.",
    "INCORRECT\n\nThe predicted answer names 1912, the gold target is 1913.",
    "The response is correct.\n\nVerdict: CORRECT",
]


@pytest.mark.parametrize("text", NO_SCORE)
def test_a_score_that_may_not_stand_is_not_read(text: str) -> None:
    assert isinstance(read(SCORE, Reply(text, "stop")), Malformed)


@pytest.mark.parametrize("text", NO_TWO_SCORES)
def test_scores_that_may_not_stand_are_not_read(text: str) -> None:
    assert isinstance(read(SCORE.counted(2), Reply(text, "stop")), Malformed)


@pytest.mark.parametrize("text", NO_CHOICE)
def test_a_choice_that_may_not_stand_is_not_read(text: str) -> None:
    assert isinstance(read(AB, Reply(text, "stop")), Malformed)


@pytest.mark.parametrize("text", NO_GRADE)
def test_a_grade_that_a_sentence_speaks_against_is_not_read(text: str) -> None:
    assert isinstance(read(GRADE, Reply(text, "stop")), Malformed)


@pytest.mark.parametrize(
    ("reads", "text"),
    [
        *((SCORE, text) for text in A_SCORE),
        *((SCORE.counted(2), text) for text in TWO_SCORES),
        *((AB, text) for text in A_CHOICE),
        *((GRADE, text) for text in A_GRADE),
    ],
)
def test_a_reason_leaves_the_verdict(reads: ScoresReads | ChoiceReads, text: str) -> None:
    assert isinstance(read(reads, Reply(text, "stop")), Scored)


def test_scores_may_be_said_again_of_the_items_that_they_are_for() -> None:
    def pair(text: str) -> object:
        found = read(PAIR, Reply(text, "stop"))
        return list(found.verdict.values()) if isinstance(found, Scored) else None

    assert pair("8 9\nBoth are good. Therefore, Assistant 1 receives an 8, and Assistant 2 receives a 9.") == [8.0, 9.0]
    assert pair("8 9\nBoth are good. Therefore, Assistant 1 receives a 9, and Assistant 2 receives an 8.") is None


def test_a_tie_may_be_a_label() -> None:
    reads = ChoiceReads.model_validate({"kind": "choice", "labels": {"A": None, "B": None, "tie": None}})
    found = read(reads, Reply("They are equally good.\n\nVerdict: tie", "stop"))
    assert isinstance(found, Scored)
    assert found.verdict == {"choice": "tie"}


def test_hostile_remarks_take_no_time() -> None:
    for piece in (
        "1 ",
        "says ",
        "the first ",
        "Assistant 1 ",
        "it is ",
        "a. ",
        "out of ",
        "scale ",
        "\n",
        "'",
        "5 of 5 ",
        "own ",
    ):
        text = (piece * 50_000)[:50_000]
        for call in (keeps_verdict_after, keeps_verdict_before):
            start = time.process_time()
            call(f"The response {text}", (5,), 5.0)
            assert time.process_time() - start < 1, (piece, call)
        for reads in (AB, GRADE):
            start = time.process_time()
            read(reads, Reply(f"{next(iter(reads.labels))}\n\nThe response {text}", "stop"))
            assert time.process_time() - start < 1, (piece, reads)
