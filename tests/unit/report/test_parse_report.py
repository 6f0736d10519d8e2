"""How replies were read: rates of first replies, ways to a verdict, tests of bias, unreadable replies, calls."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from itertools import count as number_from
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_run import Run, jsonl, judged_run, scored, unscored
from rich.console import Console
from scipy import stats

from runner.messages import Attempt, Batch
from runner.publishing.result_frames import judgment_frames
from runner.report import Report, notices, to_json, to_markdown
from runner.report.terminal import to_terminal
from runner.stats.counting import add, count
from runner.stats.estimators import rate
from runner.stats.malformed_examples import BEGINNING, END, SHOWN, abridge, top_examples
from runner.stats.parse_stats import FirstReplies, ParsePaths, StepCalls
from runner.stats.significance import Comparison
from runner.usage import Usage

# --- unreadable replies


def replies(*texts: str | None, reason: str = "no_verdict") -> Iterable[Any]:
    for text in texts:
        ends = (None, None) if text is None else (text[:BEGINNING], text[-END:])
        yield ("j", "m", f"malformed:{reason}", *ends)


def test_replies_that_are_alike_count_together() -> None:
    found = top_examples(replies("Score: 4", "score:  7 ", "SCORE: 10.5\n", "other", None, "", "   "))
    assert [(entry.replies, entry.example, entry.of) for entry in found] == [
        (3, "Score: 4", 7), (3, None, 7), (1, "other", 7),
    ]  # fmt: skip
    assert not any(entry.at_least for entry in found)


def test_what_differs_in_the_middle_alone_is_alike_and_what_differs_at_an_end_is_not() -> None:
    words = "word " * 200
    found = top_examples(replies(words + "a" + words, words + "b" + words, words + "the end", "the start " + words))
    assert [entry.replies for entry in found] == [2, 1, 1]
    assert all(len(entry.example or "") <= SHOWN + 3 for entry in found)
    assert (found[1].example or "").endswith("the end")


def test_the_commonest_come_first_and_each_reason_has_its_example() -> None:
    rows = [*replies(*(f"text {'abcdefghijklmnop'[n]}" for n in range(16))), *replies("{", reason="unbalanced")]
    rows += [*replies("}", "}", reason="unbalanced")]
    found = top_examples(rows)
    assert len(found) == 10
    assert [(entry.reason, entry.replies) for entry in found[:3]] == [
        ("unbalanced", 2), ("no_verdict", 1), ("unbalanced", 1),
    ]  # fmt: skip


def test_many_kinds_take_bounded_memory_and_say_so() -> None:
    texts = (f"{'no way' if n % 3 == 0 else ''.join(chr(97 + int(d)) for d in str(n))}" for n in range(9_000))
    found = top_examples(replies(*texts), kept=50)
    assert (found[0].example, found[0].replies, found[0].of) == ("no way", 3_000, 9_000)
    assert all(entry.at_least for entry in found)


@given(st.text(max_size=500))
def test_an_example_is_short_and_printable(text: str) -> None:
    found = abridge(text[:BEGINNING], text[-END:])
    assert (found is None) == (not text.strip())
    if found is not None:
        assert found.isprintable()
        assert len(found) <= 10 * (SHOWN + 3)
        json.dumps(found).encode()


# --- a run


def run_of(tmp_path: Path, ending: Any, n: int = 60, **keywords: Any) -> Run:
    rows = [
        {"id": f"i{k}", "system": "AB"[k % 2], "question": f"Why {k}?", "reference": "so", "response": f"a {k}",
         "other_response": "b"}
        for k in range(n)
    ]  # fmt: skip
    jsonl(tmp_path / "items.jsonl", rows)
    return judged_run(tmp_path, {"path": "items.jsonl", "fields": {"system": "system"}}, ending, **keywords)


_seq = number_from(1)


def calls(run: Run, *attempts: tuple[int, dict[str, Any]]) -> None:
    """Record so many requests of each kind."""
    made = []
    for n, changes in attempts:
        values: dict[str, Any] = dict(
            judge="yes-no", model="gpt", model_id="gpt", stage="first", try_=1, state="ok", sent_at=1.0, worker="w",
            keys=(b"k" * 16,), usage=Usage(10, 0, 1, 0, 0.5), finish_reason="stop", judge_reply="yes",
            reading="strict", parser_version="2",
        )  # fmt: skip
        made += [Attempt(**{**values, "request_id": f"x{next(_seq)}", **changes}) for _ in range(n)]
    run.ledger.commit(Batch(f"more{next(_seq)}", 1, tuple(made)))


def number(row: Any) -> int:
    return int(row["id"][1:])


def terminal(report: Report) -> str:
    file = io.StringIO()
    to_terminal(report, Console(file=file, width=100, force_terminal=True, color_system=None), full=True)
    return file.getvalue()


def titles(text: str) -> set[str]:
    return {"First replies", "Reading", "Unreadable replies", "Calls by stage"} & set(text.splitlines())


CUT = {"finish_reason": "length", "reading": "malformed:truncated", "judge_reply": "Let us see"}


def test_first_replies(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda row: scored(True))
    calls(
        run,
        (70, {}),
        (2, {"stage": "last", "reading": "tolerant:wrapped"}),
        (5, CUT),
        (1, {"finish_reason": "LENGTH"}),
        (20, {"reading": "malformed:no_verdict", "judge_reply": "Hm."}),
        (2, {"reading": "refused:content_filter", "judge_reply": None}),
        # None of these is a first reply that was read.
        (7, {"state": "error", "reading": None, "parser_version": None, "judge_reply": None}),
        (9, {"stage": "rejudge:1", "reading": "malformed:empty", "judge_reply": ""}),
        (3, {"stage": "probe", "reading": None, "keys": ()}),
        (4, {"reading": None, "parser_version": None}),
        (6, {"model": "gone", "reading": "malformed:empty"}),
    )
    report = run.report()
    (first,) = report.reading.first_replies
    assert first == FirstReplies(
        "yes-no", "gpt", "2", 100, strict=rate(71, 100), malformed=rate(25, 100), refused=rate(2, 100),
        cut=rate(6, 100), reasons={"no_verdict": 20, "truncated": 5}, reasoning_tokens=0.0,
    )  # fmt: skip
    assert to_json(report)["reading"]["first_replies"][0]["malformed"] == {
        "hits": 25, "n": 100, "value": 0.25, "low": rate(25, 100).low, "high": rate(25, 100).high
    }  # fmt: skip
    text = terminal(report)
    assert "25  25.00%  17.55%–34.30%    2.00%  6.00%" in text
    assert "read by parser 2" in " ".join(text.split()), "the judgments are by another, so the table says its own"
    unreadable = [(entry.reason, entry.replies, entry.of) for entry in report.reading.unreadable]
    assert unreadable == [("no_verdict", 20, 34), ("empty", 9, 34), ("truncated", 5, 34)]


def test_replies_of_two_readers_share_no_row(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda row: scored(True, parser_version="12" if number(row) < 40 else "13"))
    calls(run, (10, {}), (5, {"parser_version": "3", "reading": "malformed:empty"}))
    report = run.report()
    rows = [(entry.parser_version, entry.replies, entry.malformed.hits) for entry in report.reading.first_replies]
    assert rows == [("2", 10, 0), ("3", 5, 5)]
    assert [(entry.parser_version, entry.ways[0].trials) for entry in report.reading.ways] == [
        ("12", rate(40, 40)), ("13", rate(20, 20)),
    ]  # fmt: skip
    assert "parser" in next(line for line in terminal(report).splitlines() if "95 % interval  refused" in line)


def test_a_cut_above_a_few_per_cent_is_told_with_the_remedy(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda row: scored(True))
    calls(run, (97, {}), (3, CUT))
    assert not [notice for notice in notices(run.report()) if "cut off" in notice]
    calls(run, (1, CUT))
    (notice,) = [notice for notice in notices(run.report()) if "cut off" in notice]
    assert "4.0% of yes-no × gpt" in notice
    assert "A larger max_tokens" in notice
    assert "reasoning" not in notice
    calls(run, (1, {**CUT, "usage": Usage(10, 0, 50, 48, 0)}))
    (notice,) = [notice for notice in notices(run.report()) if "cut off" in notice]
    assert "The reasoning of gpt counts towards max_tokens" in notice


def by_stage(row: Any) -> Any:
    """40 strict ones of which 30 are yes; 12 others of which 2 are; 8 without a verdict."""
    at = number(row)
    if at < 40:
        return scored(at < 30)
    if at < 44:
        return scored(at < 42, stage="tolerant:wrapped", notes=("coerced:correct",))
    if at < 46:
        return scored(False, stage="tolerant:label")
    if at < 48:
        return scored(False, stage="rejudge:1", notes=("read:strict",))
    if at < 50:
        return scored(False, stage="reformat")
    if at < 51:
        return scored(False, stage="refused:1", notes=("read:strict",))
    if at < 52:
        return scored(False, stage="last", notes=("read:repaired",))
    return unscored("malformed", "empty") if at < 57 else unscored("refused", "model")


def test_ways_to_a_verdict(tmp_path: Path) -> None:
    report = run_of(tmp_path, by_stage).report()
    (found,) = report.reading.ways
    assert [(way.way, way.trials.hits, way.trials.n, dict(way.stages)) for way in found.ways] == [
        ("strict", 40, 60, {"strict": 40}),
        ("tolerant:label", 2, 60, {"tolerant:label": 2}),
        ("tolerant:wrapped", 4, 60, {"tolerant:wrapped": 4}),
        ("repaired", 1, 60, {"repaired": 1}),
        ("reformat", 2, 60, {"reformat": 2}),
        ("rejudge", 2, 60, {"rejudge:1": 2}),
        ("after_refusal", 1, 60, {"refused:1": 1}),
        ("malformed", 5, 60, {"malformed": 5}),
        ("refused", 3, 60, {"refused": 3}),
    ]
    assert [way.scores["correct"].share for way in found.ways[:3]] == [rate(30, 40), rate(0, 2), rate(2, 4)]
    (bias,) = found.biases
    assert bias == Comparison("correct", 40, 12, 0.75, 2 / 12, bias.p)
    assert 1e-4 < bias.p < 0.01
    assert all(way.against_strict == () for way in found.ways), "too few of each"
    (notice,) = [notice for notice in notices(report) if "differ beyond chance" in notice]
    assert "yes-no × gpt: correct 0.7500 and 0.1667 (p = 0.0014" in notice
    document = to_json(report)["reading"]
    assert document["coercions"] == [
        {"judge": "yes-no", "model": "gpt", "note": "coerced:correct", "trials": 4}
    ]  # fmt: skip
    assert document["ways"][0]["ways"][2]["scores"]["correct"]["share"] == _asdict(rate(2, 4))
    text = terminal(report)
    assert "Reading" in titles(text)
    assert "tolerant:wrapped" in text
    assert "strict against all others (within systems, clustered by question" in " ".join(text.split())


def _asdict(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("hits", "n", "value", "low", "high")}


def test_no_difference_is_not_told(tmp_path: Path) -> None:
    stages = ["strict", "tolerant:wrapped"]
    report = run_of(tmp_path, lambda row: scored(number(row) % 4 < 2, stage=stages[number(row) // 4 % 2])).report()
    (bias,) = report.reading.ways[0].biases
    assert bias.p > 0.9
    assert not [notice for notice in notices(report) if "beyond chance" in notice]


def test_graded_scores_are_compared_by_their_means(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given_ = rng.integers(0, 4, size=60) + np.array([2 * (k < 20) for k in range(60)])

    def ending(row: Any) -> Any:
        scores = json.dumps({"score": int(given_[number(row)])})
        return scored(True, verdict=scores, scores=scores, stage="rejudge:1" if number(row) < 20 else "strict")

    (found,) = run_of(tmp_path, ending, judges=["score-0-5"]).report().reading.ways
    (bias,) = found.biases
    assert (bias.n, bias.other_n) == (40, 20)
    assert bias.value == pytest.approx(given_[20:].mean())
    assert bias.other == pytest.approx(given_[:20].mean())
    assert 1e-6 < bias.p < 1e-3
    [against] = found.ways[1].against_strict
    assert (found.ways[1].way, against.n, against.other_n) == ("rejudge", 20, 40)
    assert against.p == pytest.approx(bias.p)


CHOICE = """
name: which
reads: {kind: choice, verdict: choice, labels: {A: {}, B: {}, C: {}}}
route: [{template: base}]
templates: {base: "{question} {response}"}
"""


def test_choices_without_a_value_are_compared_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "which.yaml").write_text(CHOICE, encoding="utf-8")

    def ending(row: Any) -> Any:
        strict = number(row) < 36
        verdict = json.dumps({"choice": "ABC"[number(row) % 3 if strict else 0]})
        return scored(True, verdict=verdict, scores="{}", official=None, stage="strict" if strict else "rejudge:2")

    report = run_of(tmp_path, ending, judges=["./which.yaml"]).report()
    (found,) = report.reading.ways
    assert [{label: share.hits for label, share in way.choices.items()} for way in found.ways] == [
        {"A": 12, "B": 12, "C": 12}, {"A": 24, "B": 0, "C": 0},
    ]  # fmt: skip
    (bias,) = found.biases
    expected = stats.chi2_contingency([[12, 12, 12], [24, 0, 0]])[1]
    assert bias.of == "choice"
    assert bias.p < 1e-4 > expected
    assert "1.0000" in terminal(report)


def test_counts_of_ways_add_up(tmp_path: Path) -> None:
    run = run_of(tmp_path, by_stage, size=7)
    whole = run.report().reading.ways
    parts = [
        count(frame, {}, {"yes-no": run.judges["yes-no"].scales()})
        for frame in judgment_frames(run.staged, run.ledger, run.config, run.judges, rows_per_frame=7)
    ]
    total = add(parts)
    assert len(parts) > 5
    assert total is not None
    assert dict(total["ways"].select("way", "n").rows())["tolerant:wrapped"] == 4
    assert sum(total["ways"]["n"]) == sum(way.trials.hits for way in whole[0].ways) == 60


def test_calls_by_stage_add_up_to_what_was_spent(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda row: scored(True))
    calls(
        run,
        (4, {"reading": "malformed:empty", "judge_reply": ""}),
        (3, {"stage": "rejudge:1"}),
        (1, {"stage": "rejudge:2", "reading": "refused:model"}),
        (2, {"stage": "reformat", "model": "cheap", "reading": None, "usage": Usage(1, 0, 1, 0, 0.25)}),
        (1, {"state": "error", "reading": None, "usage": Usage()}),
    )
    report = run.report()
    found = {(entry.model, entry.step): entry for entry in report.reading.calls}
    assert list(found) == [("gpt", "first"), ("gpt", "rejudge"), ("cheap", "reformat")]
    assert found["gpt", "rejudge"] == StepCalls(
        "yes-no", "gpt", "rejudge", calls=4, failed=0, read=3, malformed=0, refused=1, usage=Usage(40, 0, 4, 0, 2.0)
    )
    assert (found["gpt", "first"].calls, found["gpt", "first"].failed, found["gpt", "first"].malformed) == (65, 1, 4)
    (cost,) = report.costs
    mine = [entry for entry in report.reading.calls if entry.model == "gpt"]
    assert sum(entry.calls for entry in mine) == cost.requests
    assert sum(entry.usage.cost_usd for entry in mine) == pytest.approx(cost.usage.cost_usd)
    text = terminal(report)
    assert "Calls by stage" in titles(text)
    assert to_json(report)["reading"]["calls"][1]["usage"]["input_tokens"] == 40


def test_a_clean_run_stays_short(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda row: scored(True))
    calls(run, (60, {}), (1, {"stage": "probe", "reading": None, "keys": ()}))
    assert titles(terminal(run.report())) == set()


def test_bounds_of_a_binary_score(tmp_path: Path) -> None:
    report = run_of(tmp_path, lambda row: scored(True) if number(row) % 3 else unscored("malformed", "empty")).report()
    for result in to_json(report)["results"]:
        score = result["scores"]["correct"]
        assert (score["strict"]["hits"], score["strict"]["n"]) == (20, 30)
        assert (score["lenient"]["hits"], score["lenient"]["n"]) == (30, 30)
    assert "best: they count as yes" in " ".join(terminal(report).split())


def test_a_hostile_reply_is_shown_as_plain_text(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda row: scored(True))
    text = "\x1b[2J\x1b]0;title\x07 | [link](x) <b>\u202eevil\nnext"
    calls(run, (2, {"reading": "malformed:no_verdict", "judge_reply": text}))
    report = run.report()
    assert report.reading.unreadable[0].example == "\\x1b[2J\\x1b]0;title\\x07 | [link](x) <b>\\u202eevil\\nnext"
    shown_ = terminal(report)
    assert "\\x1b[2J" in shown_
    assert not set(shown_) & {"\x1b", "\x07", "\u202e", "\0"}
    row = next(line for line in to_markdown(report).splitlines() if "evil" in line)
    assert "\\|" in row
    assert "\\<b>" in row


def test_a_way_is_of_the_judges_own_making_too(tmp_path: Path) -> None:
    report = run_of(tmp_path, lambda row: scored(True, stage="my-own")).report()
    (found,) = report.reading.ways
    assert isinstance(found, ParsePaths)
    assert [(way.way, way.trials.hits) for way in found.ways] == [("my-own", 60)]
    assert found.biases == ()


def test_a_trial_has_one_first_reply(tmp_path: Path) -> None:
    run = run_of(tmp_path, lambda row: scored(True))
    calls(run, (4, {}), (1, {"stage": "retry:2"}), (2, {"worker": "late", "reading": "malformed:empty"}))
    run.ledger._db.change("UPDATE attempts SET late_duplicate = 1 WHERE worker = 'late'")
    report = run.report()
    assert [(entry.replies, entry.malformed.hits) for entry in report.reading.first_replies] == [(4, 0)]
    # What they took was paid all the same.
    assert sum(entry.calls for entry in report.reading.calls if entry.step == "first") == 60 + 4 + 2
