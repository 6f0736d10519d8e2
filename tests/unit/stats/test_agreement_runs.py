"""Agreement of whole runs: counted from trials and items, in the report's tables and its JSON, and on real labels."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from judged_run import Ending, Run, jsonl, judged_run, scored, unscored
from rich.console import Console
from sklearn import metrics as oracle

from judges import Scale
from runner.labels import Label
from runner.publishing.result_frames import COLUMNS
from runner.report import Report, to_json, to_markdown
from runner.report.terminal import to_terminal
from runner.stats.agreement import Agreement, agreement
from runner.stats.counting import Counts, add, count

SCORE = """
name: graded
reads: {kind: scores, verdict: score, low: 0, high: 5, step: 1}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
"""
SHARE = """
name: shares
reads:
  kind: object
  verdict: [relevance]
  schema: {type: object, required: [relevance], properties: {relevance: {type: number, minimum: 0, maximum: 1}}}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
"""
CHOICE = """
name: choose
reads: {kind: choice, verdict: choice, labels: {A: {}, B: {}, C: {}}}
templates: {only: "Q {question} R {reference} A {response}"}
route: [{template: only}]
"""


def item(number: int, system: str = "A", **more: Any) -> dict[str, Any]:
    return {"id": f"i{number}", "system": system, "question": f"q{number}", "reference": "r", "response": "a", **more}


def run_of(
    base: Path, rows: list[dict[str, Any]], labels: dict[str, Any], ending: Any, judge: str | None = None, **keys: Any
) -> Run:
    """A judged run over these rows, by a judge of this text or by yes-no."""
    jsonl(base / "items.jsonl", rows)
    if judge is not None:
        (base / "own.yaml").write_text(judge)
    judges = keys.pop("judges", ["yes-no" if judge is None else "own.yaml"])
    items = {"path": "items.jsonl", "labels": labels, "fields": {"system": "system"}}
    return judged_run(base, items, ending, judges=judges, **keys)


def verdict(**fields: Any) -> dict[str, Any]:
    """A scored trial with this verdict."""
    numbers = {name: float(value) for name, value in fields.items() if not isinstance(value, str)}
    return scored(True, verdict=json.dumps(fields), scores=json.dumps(numbers), official=None)


def terminal(report: Report, width: int = 100) -> str:
    file = io.StringIO()
    to_terminal(report, Console(file=file, width=width, force_terminal=True, color_system=None), full=True)
    return file.getvalue()


def table(report: Report, title: str) -> list[list[str]]:
    """The cells of a Markdown table, its head first."""
    text = to_markdown(report).split(f"## {title}\n\n")[1].split("\n\n")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [lines[0], *lines[2:]]


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    full = [dict.fromkeys(COLUMNS) | {"judge": "j", "model": "m", "repeat": 0, "slices": []} | row for row in rows]
    return pl.DataFrame(full, schema=COLUMNS)


def random_rows(n: int) -> list[dict[str, Any]]:
    """Trials with two scores, a choice and up to three labels."""
    rng = random.Random(5)
    rows: list[dict[str, Any]] = []
    for _ in range(n):
        correct, score, choice = rng.random() < 0.6, rng.randint(0, 5), rng.choice("AB")
        said = {"correct": rng.choice(["true", "false"]), "grade": str(rng.randint(0, 5)), "pick": rng.choice("ABC")}
        state = rng.choice(["scored", "scored", "malformed", None])
        rows.append(
            {
                "system": rng.choice("XY"),
                "model": rng.choice(["m1", "m2"]),
                "state": state,
                "verdict": json.dumps({"correct": correct, "choice": choice}) if state == "scored" else None,
                "scores": [{"key": "correct", "value": float(correct)}, {"key": "score", "value": float(score)}]
                if state == "scored"
                else None,
                "labels": [{"key": key, "value": value} for key, value in said.items() if rng.random() < 0.8],
            }
        )
    return rows


LABELS = {
    "correct": Label(field="c"),
    "grade": Label(field="g", type="ordinal", of="score"),
    "pick": Label(field="p", type="choice", of="choice"),
}
SCALES = {"j": {"correct": Scale(binary=True), "score": Scale(False, 0, 5, 1)}}


def counted(*frames: pl.DataFrame) -> Counts:
    total = add(count(part, LABELS) for part in frames)
    assert total is not None
    return total


def test_each_label_meets_its_score_in_the_scored_trials() -> None:
    rows = random_rows(1_500)
    found = agreement(counted(frame(rows)), LABELS, SCALES)
    assert {(a.label, a.model, a.system) for a in found} == {
        (label, model, system) for label in LABELS for model in ("m1", "m2") for system in (None, "X", "Y")
    }
    for entry in found:
        pairs: list[tuple[Any, Any]] = []
        for row in rows:
            said = {label["key"]: label["value"] for label in row["labels"]}
            if row["model"] != entry.model or entry.system not in (None, row["system"]) or entry.label not in said:
                continue
            if row["state"] != "scored":
                continue
            scores = {score["key"]: score["value"] for score in row["scores"]}
            match entry.label:
                case "correct":
                    pairs.append((scores["correct"], float(said["correct"] == "true")))
                case "grade":
                    pairs.append((scores["score"], float(said["grade"])))
                case _:
                    pairs.append((json.loads(row["verdict"])["choice"], said["pick"]))
        judged, human = zip(*pairs, strict=True)
        assert entry.n == len(pairs)
        share = entry.metrics["exact" if entry.label == "grade" else "accuracy"]
        assert share.value == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
        if entry.label == "grade":
            assert entry.metrics["weighted_kappa"].value == pytest.approx(
                oracle.cohen_kappa_score([int(x) for x in judged], [int(x) for x in human], weights="quadratic")
            )
        else:
            assert entry.metrics["kappa"].value == pytest.approx(oracle.cohen_kappa_score(judged, human))
        if entry.label == "pick":
            assert sorted(entry.choices) == sorted((a, b, pairs.count((a, b))) for a, b in set(pairs))


def test_counted_apart_and_added_is_counted_together() -> None:
    rows = random_rows(600)
    together = agreement(counted(frame(rows)), LABELS, SCALES)
    rows = rows[::-1]
    apart = agreement(counted(*(frame(rows[start : start + 70]) for start in range(0, 600, 70))), LABELS, SCALES)
    assert apart == together


def test_annotators_are_compared_over_items_and_judges_over_trials(tmp_path: Path) -> None:
    said = [("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no"), ("yes", None)]
    rows = [item(n, "AB"[n % 2], one=one, two=two) for n, (one, two) in enumerate(said)]
    labels = {"correct": {"field": "one"}, "second": {"field": "two", "of": "correct"}}
    run = run_of(tmp_path, rows, labels, lambda row: scored(True), models=["m1", "m2"], repeats=3)
    document = to_json(run.report())["agreement"]
    judged = [entry for entry in document if entry["judge"]]
    assert {(e["label"], e["model"], e["system"], e["n"]) for e in judged if e["system"] is None} == {
        ("correct", "m1", None, 15), ("correct", "m2", None, 15), ("second", "m1", None, 12), ("second", "m2", None, 12)
    }  # fmt: skip
    people = [entry for entry in document if entry["judge"] is None]
    assert [(e["label"], e["second_label"], e["system"], e["n"]) for e in people] == [
        ("correct", "second", None, 4), ("correct", "second", "A", 2), ("correct", "second", "B", 2)
    ]  # fmt: skip
    assert people[0]["confusion"] == {"first_second": {"yes_yes": 1, "yes_no": 1, "no_yes": 0, "no_no": 2}}
    assert people[0]["accuracy"]["hits"] == 3
    assert list(people[0]["metrics"]) == ["accuracy", "kappa", "mcc"]
    report = run.report()
    [head, *shown] = table(report, "Agreement with human labels")
    assert head[:5] == ["judge", "model", "system", "label", "n"]
    assert shown[-3][:5] == ["people", "–", "all", "correct × second", "4"]
    assert shown[-3][-2:] == ["–", "–"]
    for text in (terminal(report), to_markdown(report)):
        flat = " ".join(text.split())
        assert "people: annotators with each other, each item once" in flat
        assert "second: about correct" in flat


def test_annotators_agree_before_any_judge_has_spoken(tmp_path: Path) -> None:
    rows = [item(n, one=n % 2 == 0, two=n % 3 == 0) for n in range(12)]
    labels = {"correct": {"field": "one"}, "second": {"field": "two", "of": "correct"}}
    [entry] = run_of(tmp_path, rows, labels, lambda row: None).report().agreement
    assert (entry.judge, entry.n) == (None, 12)
    assert entry.metrics["accuracy"].value == 0.5


def test_annotators_with_scores_and_with_choices(tmp_path: Path) -> None:
    rows = [item(n, g=n % 6, h=min(5, n % 6 + n % 2), yes=n % 6 > 2, p="AB"[n % 2], q="ABC"[n % 3]) for n in range(60)]
    ordinal = {"type": "ordinal", "of": "score"}
    labels = {
        "grade": {"field": "g", **ordinal},
        "again": {"field": "h", **ordinal},
        "good": {"field": "yes", "of": "score"},
        "pick": {"field": "p", "type": "choice", "of": "choice"},
        "other": {"field": "q", "type": "choice", "of": "choice"},
    }
    (tmp_path / "choose.yaml").write_text(CHOICE)
    run = run_of(tmp_path, rows, labels, lambda row: None, SCORE, judges=["own.yaml", "choose.yaml"])
    found = {(a.label, a.second): a for a in run.report().agreement}
    assert set(found) == {("grade", "again"), ("grade", "good"), ("again", "good"), ("pick", "other")}
    graded = found["grade", "again"]
    assert graded.metrics["exact"].value == pytest.approx(
        sum(row["g"] == row["h"] for row in rows) / 60
    )  # fmt: skip
    assert graded.metrics["weighted_kappa"].value == pytest.approx(
        oracle.cohen_kappa_score([r["g"] for r in rows], [r["h"] for r in rows], weights="quadratic")
    )
    assert list(found["grade", "good"].metrics) == ["spearman"]
    assert found["pick", "other"].metrics["kappa"].value == pytest.approx(
        oracle.cohen_kappa_score([r["p"] for r in rows], [r["q"] for r in rows])
    )


def test_a_threshold_stands_at_the_label_that_it_cuts(tmp_path: Path) -> None:
    rows = [item(n, yes=n % 6 > 2, g=n % 6, h=n % 5) for n in range(60)]
    labels = {
        "good": {"field": "yes", "of": "score"},
        "grade": {"field": "g", "type": "ordinal", "of": "score", "threshold": 4},
        "again": {"field": "h", "type": "ordinal", "of": "score", "threshold": 3},
    }
    report = run_of(tmp_path, rows, labels, lambda row: None, SCORE).report()
    [_, *shown] = table(report, "Agreement with human labels")
    assert [row[3] for row in shown] == ["good × grade ≥ 4", "good × again ≥ 3", "grade ≥ 4 × again ≥ 3"]
    cuts = [(entry["threshold"], entry["second_threshold"]) for entry in to_json(report)["agreement"]]
    assert cuts == [(None, 4), (None, 3), (4, 3)]
    (tmp_path / "turned").mkdir()
    turned = {"sc": labels["grade"], "a1": labels["good"]}
    report = run_of(tmp_path / "turned", rows, turned, lambda row: None, SCORE).report()
    assert [row[3] for row in table(report, "Agreement with human labels")[1:]] == ["sc ≥ 4 × a1"]


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (lambda n: n % 2, "0–1"),
        (lambda n: n % 5 / 4, "0–1"),
        (lambda n: n % 11 * 10, "0–100"),
        (lambda n: n % 6, None),
        (lambda n: 4 + n % 2, None),
        (lambda n: min(5, n % 6 + 1), None),
    ],
)
def test_a_label_on_another_scale_is_pointed_out(tmp_path: Path, label: Any, said: str | None) -> None:
    rows = [item(n, "AB"[n // 20 % 2], g=label(n)) for n in range(60)]
    labels = {"human": {"field": "g", "type": "ordinal", "of": "score"}}
    report = run_of(tmp_path, rows, labels, lambda row: verdict(score=row["row"] % 6), SCORE).report()
    text = " ".join(to_markdown(report).split())
    if said is None:
        assert "its values lie in" not in text
        assert to_json(report)["agreement"][0]["ranges"] is None
        return
    note = f"human: its values lie in {said}, the scale of score is 0–5: MAE, RMSE compare raw values; items.labels."
    assert text.count(note) == 1
    for entry in report.agreement:
        assert entry.ranges is not None and entry.ranges.score == (0, 5)


def test_a_threshold_on_two_scales_is_pointed_out(tmp_path: Path) -> None:
    rows = [item(n, g=n % 2) for n in range(60)]
    labels = {"human": {"field": "g", "type": "ordinal", "of": "score", "threshold": 1}}
    report = run_of(tmp_path, rows, labels, lambda row: verdict(score=row["row"] % 6), SCORE).report()
    assert "the scale of score is 0–5: the threshold cuts both alike; items" in " ".join(to_markdown(report).split())


def test_a_graded_judge_against_yes_or_no_gives_auroc_and_no_accuracy(tmp_path: Path) -> None:
    rows = [item(n, ok=n % 6 + n % 2 > 3) for n in range(60)]
    number = [int(row["id"][1:]) % 6 for row in rows]

    def ending(row: Any) -> Ending:
        return verdict(score=int(row["id"][1:]) % 6)

    labels: dict[str, Any] = {"good": {"field": "ok", "of": "score"}}
    report = run_of(tmp_path, rows, labels, ending, SCORE).report()
    [entry] = to_json(report)["agreement"]
    assert (entry["kind"], entry["accuracy"], entry["kappa"], entry["confusion"]) == ("mixed", None, None, None)
    assert list(entry["metrics"]) == ["auroc"]
    auroc = oracle.roc_auc_score([row["ok"] for row in rows], number)
    assert entry["metrics"]["auroc"]["value"] == pytest.approx(auroc)
    [_, row] = table(report, "Agreement with human labels: classes and ranking")
    assert row[5:7] == ["–", "–"]
    assert row[7] == f"{auroc:.4f}"
    assert "## Agreement with human labels\n" not in to_markdown(report)

    labels["good"]["threshold"] = 4
    (tmp_path / "cut").mkdir()
    report = run_of(tmp_path / "cut", rows, labels, ending, SCORE).report()
    [entry] = to_json(report)["agreement"]
    assert entry["threshold"] == 4
    hits = sum((score >= 4) == row["ok"] for score, row in zip(number, rows, strict=True))
    assert entry["accuracy"]["hits"] == hits
    assert entry["metrics"]["auroc"]["value"] == pytest.approx(auroc)
    [_, row] = table(report, "Agreement with human labels")
    assert row[3] == "good ≥ 4"


def test_stored_shares_and_a_class_that_never_varies(tmp_path: Path) -> None:
    """As in RAGBench: a share against the stored one gives RMSE; where all adhere, no number about it is made up."""
    rng = random.Random(2)
    rows = [item(n, stored=rng.randint(0, 40) / 40, adheres=True) for n in range(80)]
    given = {row["id"]: min(1.0, row["stored"] + rng.choice([0, 0, 0.05])) for row in rows}

    def ending(row: Any) -> Ending:
        return verdict(relevance=given[row["id"]]) if row["judge"] == "shares" else scored(row["row"] % 4 > 0)

    labels = {
        "relevance": {"field": "stored", "type": "ordinal"},
        "adherence": {"field": "adheres", "of": "correct"},
    }
    run = run_of(tmp_path, rows, labels, ending, SHARE, judges=["own.yaml", "yes-no"])
    report = run.report()
    shares, adherence = to_json(report)["agreement"]
    rmse = oracle.root_mean_squared_error([row["stored"] for row in rows], [given[row["id"]] for row in rows])
    found = shares["metrics"]
    assert found["rmse"]["value"] == pytest.approx(rmse)
    assert found["rmse"]["low"] < rmse < found["rmse"]["high"]
    assert (found["weighted_kappa"]["value"], found["exact"]["value"]) == (None, None)
    assert "more than 20 different values" in found["exact"]["reason"]
    assert "levels" not in to_markdown(report)
    assert adherence["accuracy"]["value"] == 0.75
    for name in ("balanced_accuracy", "auroc", "mcc"):
        assert adherence["metrics"][name] == {
            "value": None, "low": None, "high": None, "reason": "the labels are all of one class"
        }  # fmt: skip
    [_, row] = table(report, "Agreement with human labels: classes and ranking")
    assert set(row[5:]) == {"–"}
    told = "balanced, AUROC, MCC: undefined where the labels are all of one class"
    assert told in " ".join(terminal(report).split())
    assert "NaN" not in json.dumps(to_json(report))


def test_the_stored_scores_of_ragbench(data: Path, tmp_path: Path) -> None:
    path = data / "ragbench" / "rows.jsonl"
    stored = {row["id"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    shares = ("relevance", "utilization", "completeness")
    items = {
        "path": str(path),
        "fields": {"documents": "documents_sentences"},
        "labels": {
            **{name: {"field": f"{name}_score", "type": "ordinal"} for name in shares},
            "adherence": {"field": "adherence_score"},
        },
    }

    def ending(row: Any) -> Ending:
        given = {name: stored[row["id"]][f"{name}_score"] / 2 for name in shares}
        return scored(True, verdict="{}", scores=json.dumps({**given, "adherence": 1.0}), official=None)

    run = judged_run(tmp_path, items, ending, judges=["ragbench"])
    found = {entry.label: entry for entry in run.report().agreement}
    for name in shares:
        values = [row[f"{name}_score"] for row in stored.values()]
        assert found[name].metrics["rmse"].value == pytest.approx((sum(v * v for v in values) / len(values)) ** 0.5 / 2)
    # All 20 rows adhere.
    for measure in ("balanced_accuracy", "auroc"):
        metric = found["adherence"].metrics[measure]
        assert (metric.value, metric.reason) == (None, "the labels are all of one class")


def test_choices_and_their_confusions(tmp_path: Path) -> None:
    rows = [item(n, pick="AB"[n % 2] if n else "tie") for n in range(30)]
    labels = {"pick": {"field": "pick", "type": "choice", "of": "choice"}}
    report = run_of(tmp_path, rows, labels, lambda row: verdict(choice="A" if row["row"] % 3 else "B"), CHOICE).report()
    [entry] = to_json(report)["agreement"]
    assert entry["kind"] == "choice"
    pairs = [("A" if n % 3 else "B", row["pick"]) for n, row in enumerate(rows)]
    assert {(c["judge"], c["label"]): c["n"] for c in entry["choices"]} == {p: pairs.count(p) for p in pairs}
    assert entry["kappa"] == pytest.approx(oracle.cohen_kappa_score(*zip(*pairs, strict=True)))
    [_, row] = table(report, "Agreement with human labels: choices")
    assert row[3:6] == ["pick", "30", f"{entry['accuracy']['value']:.4f}"]
    assert "share no choice" not in to_markdown(report)


def test_choices_in_other_words_are_pointed_out(tmp_path: Path) -> None:
    rows = [item(n, pick="first" if n % 2 else "second") for n in range(8)]
    labels = {"pick": {"field": "pick", "type": "choice", "of": "choice"}}
    report = run_of(tmp_path, rows, labels, lambda row: verdict(choice="A"), CHOICE).report()
    assert "pick: the two sides share no choice; items.labels.pick.map can say" in " ".join(terminal(report).split())


@pytest.mark.parametrize("width", [80, 100])
def test_all_tables_fit_the_terminal(tmp_path: Path, width: int) -> None:
    rows = [item(n, "A-long-name-of-a-system" + "XY"[n % 2], h=n % 2 == 0, g=n % 6, p="AB"[n % 2]) for n in range(40)]
    labels = {
        "correct": {"field": "h"},
        "grade": {"field": "g", "type": "ordinal", "of": "score", "threshold": 3},
        "a-rather-long-name-of-a-label": {"field": "h", "of": "correct"},
        "pick": {"field": "p", "type": "choice", "of": "choice"},
    }
    (tmp_path / "choose.yaml").write_text(CHOICE)

    def ending(row: Any) -> Ending:
        match row["judge"]:
            case "graded":
                return verdict(score=row["row"] % 5)
            case "choose":
                return verdict(choice="B" if row["row"] % 3 else "A")
        return scored(row["row"] % 3 == 0)

    run = run_of(
        tmp_path, rows, labels, ending, SCORE, judges=["yes-no", "own.yaml", "choose.yaml"],
        models=["a-model-with-quite-a-long-name", "another-model"],
    )  # fmt: skip
    report = run.report()
    lines = terminal(report, width).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= max(width, len(report.directory) + 10)
    for title in ("", ": classes and ranking", ": scores", ": levels", ": choices"):
        assert f"Agreement with human labels{title}" in [line.rstrip() for line in lines]
    for entry in report.agreement:
        for name in ("kappa", "auroc", "spearman", "mae", "exact"):
            if name in entry.metrics and entry.metrics[name].value is not None:
                assert any(f"{entry.metrics[name].value:.4f}" in line for line in lines), (entry.label, name)


@pytest.mark.parametrize(
    ("column", "n", "accuracy", "kappa"),
    [("gpt4_label", 1480, 0.8473, 0.6935), ("davinci_label", 1483, 0.8348, 0.6689)],
)
def test_published_agreement_on_real_labels(
    data: Path, tmp_path: Path, column: str, n: int, accuracy: float, kappa: float
) -> None:
    path = data / "human_labels" / "nq301.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    jsonl(tmp_path / "numbered.jsonl", [{**row, "n": str(place)} for place, row in enumerate(rows)])
    items = {
        "path": "numbered.jsonl",
        "fields": {"id": "n", "question_id": "id", "response": "model_answer", "reference": "gold_answers"},
        "labels": {
            "correct": {"field": "human"},
            "first": {"field": "annotators.0", "of": "correct"},
            "second": {"field": "annotators.1", "of": "correct"},
        },
    }

    def ending(row: Any) -> Ending:
        label = rows[int(row["id"])][column]
        return scored(label == "Yes") if label in ("Yes", "No") else unscored("malformed", "no_verdict")

    found: dict[tuple[str, str | None], Agreement] = {
        (entry.label, entry.second): entry for entry in judged_run(tmp_path, items, ending).report().agreement
    }
    agreed = found["correct", None]
    assert agreed.n == n
    assert agreed.metrics["accuracy"].value == pytest.approx(accuracy, abs=5e-5)
    assert agreed.metrics["kappa"].value == pytest.approx(kappa, abs=5e-5)
    assert found["first", None].n == found["second", None].n == n
    people = found["first", "second"]
    votes = [row["annotators"][:2] for row in rows]
    assert people.n == 1490
    assert people.metrics["kappa"].value == pytest.approx(oracle.cohen_kappa_score(*zip(*votes, strict=True)))
