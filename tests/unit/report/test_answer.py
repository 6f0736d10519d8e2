"""The first block of a report: what it says of two systems, the judge, what is left open and what it cost."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judged_run import Run, jsonl, judged_run, scored, unscored
from rich.cells import cell_len
from rich.console import Console

from runner.report import Report, notices, to_json, to_markdown
from runner.report.answer import kappa_word, sentences
from runner.report.build import judging_time
from runner.report.formatting import Precision
from runner.report.terminal import to_terminal
from runner.stats.paired import PairedDifference

LABELS = {"correct": {"field": "human", "type": "bool"}, "second": {"field": "other", "type": "bool", "of": "correct"}}


def made(
    tmp_path: Path, ending: Callable[[Any], Any], n: int = 150, systems: str = "AB", ids: bool = False, **config: Any
) -> Run:
    """So many questions, each answered by every system."""
    tmp_path.mkdir(exist_ok=True)
    rows = [
        {
            **({"id": f"q{k}"} if ids else {}),
            "bot": system,
            "topic": ["billing", "refunds", "shipping"][k % 3],
            "question": f"Why {k}?",
            "reference": "because",
            "response": f"answer {k} of {system}",
            "human": (k + (system == "B")) % 4 > 0,
            "other": (k + (system == "B")) % 4 > 0 if k % 10 else None,
        }
        for k in range(n)
        for system in systems
    ]
    jsonl(tmp_path / "items.jsonl", rows)
    items = {"path": "items.jsonl", "fields": {"system": "bot", "group": "topic"}, "labels": LABELS}
    return judged_run(tmp_path, items, ending, **config)


def question(row: Any) -> int:
    return int(json.loads(row["fields"])["question"].split()[1].rstrip("?"))


def ahead(row: Any) -> dict[str, Any]:
    """A is right on four questions of five, B on some fewer of the same."""
    k = question(row)
    return scored(k % 5 > 0 and not (row["system"] == "B" and k % 11 == 0))


def screen(report: Report, width: int = 80) -> list[str]:
    file = io.StringIO()
    to_terminal(report, Console(file=file, width=width, force_terminal=True, color_system=None))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def said(report: Report, about: str) -> list[str]:
    return [sentence.text for sentence in sentences(report) if sentence.about == about]


def test_two_systems_are_answered_in_words_and_numbers_on_one_screen(tmp_path: Path) -> None:
    def ending(row: Any) -> dict[str, Any]:
        return unscored("malformed", "truncated") if question(row) == 7 and row["system"] == "A" else ahead(row)

    report = made(tmp_path, ending, fingerprint="jurybox-simulate-7").report()
    lines = screen(report)
    assert len(lines) <= 23, "beside it stands the prompt"
    assert max(cell_len(line) for line in lines if report.directory not in line) <= 80
    text = " ".join(" ".join(lines).split())
    assert "A 80 % 73–86 % 149 1 (0.7%)" in text
    [pair] = report.comparisons
    assert (pair.won, pair.lost, pair.questions) == (11, 0, 149)
    assert "paired A − B: +7 points (+3 to +12) on 149 shared questions; 11 won, 0 lost; p = 0.00098: settled" in text
    assert "judge agrees with people (correct): " in text and "people with each other: 100 % of 270" in text
    assert "scored 299 of 300; without a score 0.3%: 1 malformed (truncated)" in text
    assert "gap " in text and "cost $0.30 · 300 requests" in text
    assert any(line.startswith("        jurybox report") and line.endswith("--full") for line in lines)
    assert any(line.startswith("next    jurybox retry") and line.endswith("--state malformed") for line in lines)
    plots = [line[line.index("├") :] for line in lines if "├" in line]
    assert len(plots) == 2 and all("●" in plot and plot.endswith("┤") for plot in plots)


def test_every_form_says_the_same_in_the_same_order(tmp_path: Path) -> None:
    report = made(tmp_path, ahead).report()
    answer = to_json(report)["answer"]
    assert [entry["about"] for entry in answer] == ["paired", "judge", "judge", "judge", "scored", "gap", "cost"]
    for text in (to_markdown(report).replace("\\", ""), " ".join(" ".join(screen(report, 200)).split())):
        shown = [entry["text"] for entry in answer if entry["text"] in text]
        places = [text.index(each) for each in shown]
        assert places == sorted(places)
        assert len(shown) >= len(answer) - 1, "a screen has two sentences of the judge"
    keys = list(to_json(report))
    order = [
        "answer",
        "results",
        "comparisons",
        "agreement",
        "widest_gap",
        "unscored",
        "cost_usd",
        "judging_s",
        "notices",
    ]
    assert [keys.index(key) for key in order] == sorted(keys.index(key) for key in order)


def test_what_is_not_settled_says_how_many_questions_it_takes(tmp_path: Path) -> None:
    def ending(row: Any) -> dict[str, Any]:
        return scored(question(row) % (5 if row["system"] == "A" else 6) > 0)

    report = made(tmp_path, ending, n=60).report()
    [pair] = report.comparisons
    assert pair.first == "B" and pair.questions_to_settle is not None and pair.questions_to_settle > 60
    [text] = said(report, "paired")
    assert text.endswith(f"not settled, which takes about {pair.questions_to_settle:,}")


def test_more_than_three_systems_stand_in_a_table(tmp_path: Path) -> None:
    report = made(tmp_path, ahead, systems="ABCD").report()
    assert said(report, "paired") == []
    lines = screen(report)
    [head] = [place for place, line in enumerate(lines) if line.startswith("first")]
    assert [line.split()[:3] for line in lines[head + 1 : head + 4]] == [
        ["A", "C", "0"],
        ["A", "D", "0"],
        ["A", "B", "+7"],
    ]
    assert "## Paired differences" in to_markdown(report)


def test_graded_scores_are_compared_too(tmp_path: Path) -> None:
    (tmp_path / "grade.yaml").write_text(
        "name: grade\nreads: {kind: object, schema: {type: object, properties: {score: {type: integer, minimum: 0, "
        "maximum: 5}}, required: [score]}, verdict: [score]}\nroute: [{template: base}]\n"
        'templates: {base: "{question} {reference} {response}"}\n'
    )

    def ending(row: Any) -> dict[str, Any]:
        value = question(row) % 5 + (row["system"] == "B" and question(row) % 3 == 0)
        return {**scored(True), "scores": json.dumps({"score": value})}

    items = made(tmp_path, lambda row: None, n=30).config.items.model_dump(include={"path", "fields"})
    (tmp_path / "again").mkdir()
    report = judged_run(
        tmp_path / "again",
        {**items, "path": str(tmp_path / "items.jsonl")},
        ending,
        judges=[str(tmp_path / "grade.yaml")],
    ).report()
    [text] = said(report, "paired")
    assert text.startswith("B − A: +0.33 (+0.15 to +0.51) on 30 shared questions; 10 won, 0 lost; p = 0.0")


@pytest.mark.parametrize(
    ("kappa", "word"),
    [
        (-0.1, "poor"),
        (0.0, "slight"),
        (0.2, "slight"),
        (0.3, "fair"),
        (0.6, "moderate"),
        (0.7, "substantial"),
        (0.81, "almost perfect"),
    ],
)
def test_the_words_for_kappa_are_those_of_landis_and_koch(kappa: float, word: str) -> None:
    assert kappa_word(kappa) == word


def test_a_judge_without_labels_is_not_called_trusted(tmp_path: Path) -> None:
    run = made(tmp_path, ahead, n=12)
    report = replace(run.report(), agreement=())
    assert said(report, "judge") == [
        "nobody's labels to hold it against (items.labels): whether to trust it is not known"
    ]


def test_the_widest_gap_between_groups_is_said_with_what_chance_makes(tmp_path: Path) -> None:
    def by_topic(row: Any) -> dict[str, Any]:
        return scored(question(row) % 3 != 1 or question(row) % 9 == 1)

    [text] = said(made(tmp_path / "a", by_topic).report(), "gap")
    assert text == "A: 100 % on billing (n 50), 34 % on refunds (n 50): beyond chance"
    [text] = said(made(tmp_path / "b", lambda row: scored(question(row) % 7 > 2), n=61).report(), "gap")
    assert text.endswith("within chance")
    assert said(made(tmp_path / "c", by_topic, n=27).report(), "gap") == [], "groups of nine are too small"


@pytest.mark.parametrize(
    ("n", "value", "low", "high", "text", "ends"),
    [
        (30, 0.7333, 0.55, 0.86, "73 %", "55–86 %"),
        (1_500, 0.7333, 0.710, 0.755, "73.3 %", "71.0–75.5 %"),
        (1_000_000, 0.7333, 0.7324, 0.7342, "73.33 %", "73.24–73.42 %"),
        (600, 599 / 600, 0.9906, 0.9997, "99.8 %", "99.1–100.0 %"),
        (30, 1.0, 0.886, 1.0, "100 %", "89–100 %"),
        (3_000, 1 / 3_000, 0.0, 0.0019, "0.03 %", "0.00–0.19 %"),
    ],
)
def test_digits_are_those_that_n_carries(n: int, value: float, low: float, high: float, text: str, ends: str) -> None:
    form = Precision.of(True, n, low, high, value)
    assert (form.value(value), form.interval(low, high)) == (text, ends)


def test_means_and_differences_have_their_digits() -> None:
    assert Precision.of(False, 30, 3.1, 3.7, 3.4123).value(3.4123) == "3.4"
    assert Precision.of(False, 900, 3.37, 3.45, 3.4123).value(3.4123) == "3.41"
    difference = Precision.of(True, 150, 0.003, 0.15, 0.07, 0.003, 0.15)
    assert difference.number(0.003, signed=True) == "+0.3", "an end that is not 0 is not written as 0"
    assert Precision.of(False, 10, None, None, 3.0).value(3.0) == "3.0"


def test_the_time_at_work_leaves_pauses_out() -> None:
    assert judging_time([]) is None
    assert judging_time([(100.0, 130.0), (125.0, 160.0)]) == 60.0
    assert judging_time([(100.0, 130.0), (180.0, 190.0)]) == 90.0, "a minute without a request is no interruption"
    assert judging_time([(5_000.0, 5_010.0), (100.0, 130.0)]) == 40.0


# What is not known is not said.


def test_without_ids_questions_pair_by_their_text(tmp_path: Path) -> None:
    report = made(tmp_path, ahead, n=40).report()
    assert report.comparable and not [notice for notice in notices(report) if "question" in notice]
    [pair] = report.comparisons
    assert isinstance(pair, PairedDifference) and pair.questions == 40


def test_rows_without_question_and_id_say_nothing_of_coverage(tmp_path: Path) -> None:
    rows = [
        {"bot": system, "passage": "p", "response": f"summary {k if k % 3 else system}"}
        for k in range(40)
        for system in "AB"
    ]
    jsonl(tmp_path / "items.jsonl", rows)
    (tmp_path / "plain.yaml").write_text(
        "name: plain\nreads: {kind: yesno, verdict: correct}\nroute: [{template: base}]\n"
        'templates: {base: "{response}"}\n'
    )
    items = {"path": "items.jsonl", "fields": {"system": "bot"}}
    report = judged_run(tmp_path, items, lambda row: scored(True), judges=["./plain.yaml"]).report()
    [notice] = [notice for notice in notices(report) if "question" in notice]
    assert notice == "80 rows have neither question nor question_id: map one, or systems cannot be paired."
    document = to_json(report)
    assert document["comparisons"] == [] and said(report, "paired") == []
    assert [part["share"] for part in document["items"]["coverage"]] == [None, None]
    for text in (to_markdown(report), " ".join(screen(report))):
        assert "answered" not in text and "denominator" not in text and "Coverage" not in text


def test_a_model_without_a_price_has_no_cost_in_any_sum(tmp_path: Path) -> None:
    run = made(tmp_path, ahead, n=20, models=["paid", "local"])
    free = [model.model_copy(update={"price": None}) if model.name == "local" else model for model in run.config.models]
    report = replace(run, config=run.config.model_copy(update={"models": free})).report()
    assert report.unpriced == ("local",)
    [text] = said(report, "cost")
    assert text.startswith("≥ $0.04000; no price for local · 80 requests")
    assert [cost["cost_usd"] for cost in to_json(report)["costs"]] == [pytest.approx(0.04), None]
    none = replace(
        run, config=run.config.model_copy(update={"models": [free[1], free[1].model_copy(update={"name": "paid"})]})
    )
    [text] = said(none.report(), "cost")
    assert text.startswith("no price for local, paid · 80 requests")
    assert none.report().cost_usd is None
