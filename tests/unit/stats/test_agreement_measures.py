"""Measures of agreement against scikit-learn and scipy, and their intervals against resampling that is not ours."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as oracle

from judges import Scale
from runner.stats import agreement_measures as association
from runner.stats import question_bootstrap as intervals
from runner.stats.agreement_measures import CountedPairs, Side, compare_choices, compare_numbers
from runner.stats.estimators import Confusion, Metric, rate
from runner.stats.question_bootstrap import Joint

YES_NO = Side(graded=False)
GRADED = Side(graded=True)


def tables(left: int, right: int) -> Any:
    """Some of the pairs of two sides with so many levels, each with a count."""
    pair = st.tuples(st.integers(0, left - 1).map(float), st.integers(0, right - 1).map(float))
    return st.dictionaries(pair, st.integers(1, 30), min_size=1, max_size=left * right).map(
        lambda counts: sorted(counts.items())
    )


def expanded(found: CountedPairs) -> tuple[Any, Any]:
    """The two columns, a row for every pair."""
    rows = [pair for pair, n in found for _ in range(n)]
    left, right = zip(*rows, strict=True)
    return np.array(left), np.array(right)


def same(metric: Metric, expected: float) -> None:
    """The value of scikit-learn or scipy, whose NaN is None with a reason here."""
    if math.isnan(expected):
        assert (metric.value, metric.low, metric.high) == (None, None, None)
        assert metric.reason
        return
    assert metric.value == pytest.approx(expected, abs=1e-9)
    if metric.low is None or metric.high is None:
        assert metric.reason
    else:
        assert metric.low <= metric.high


def quiet(function: Any, *arguments: Any, **keywords: Any) -> float:
    """An oracle's number; where it only warns that it is undefined, NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return float(function(*arguments, **keywords))
        except (Warning, ValueError):
            return math.nan


@given(tables(2, 2))
@settings(max_examples=60, deadline=None)
def test_yes_or_no_against_yes_or_no(found: CountedPairs) -> None:
    judged, human = expanded(found)
    metrics, confusion = compare_numbers(found, YES_NO, YES_NO, people=False)
    assert list(metrics) == ["accuracy", "kappa", "balanced_accuracy", "mcc", "auroc"]
    [[no_no, yes_no], [no_yes, yes_yes]] = oracle.confusion_matrix(human, judged, labels=[0, 1])
    assert confusion == Confusion(yes_yes, yes_no, no_yes, no_no)
    accuracy = rate(int(yes_yes + no_no), len(human))
    assert metrics["accuracy"] == Metric(accuracy.value, accuracy.low, accuracy.high, None)
    classes = len(set(human)), len(set(judged))
    same(
        metrics["kappa"],
        quiet(oracle.cohen_kappa_score, judged, human) if max(classes) > 1 or accuracy.value == 0 else math.nan,
    )
    # Where a side does not vary, scikit-learn says 0 or leaves a class out: here there is no value.
    same(metrics["mcc"], oracle.matthews_corrcoef(human, judged) if min(classes) > 1 else math.nan)
    both = classes[0] > 1
    same(metrics["balanced_accuracy"], oracle.balanced_accuracy_score(human, judged) if both else math.nan)
    same(metrics["auroc"], oracle.roc_auc_score(human, judged) if both else math.nan)


@given(tables(5, 2))
@settings(max_examples=60, deadline=None)
def test_a_score_against_yes_or_no_ranks_and_cuts_nothing(found: CountedPairs) -> None:
    judged, human = expanded(found)
    metrics, confusion = compare_numbers(found, GRADED, YES_NO, people=False)
    assert list(metrics) == ["auroc"]
    assert confusion is None
    same(metrics["auroc"], oracle.roc_auc_score(human, judged) if len(set(human)) > 1 else math.nan)


@given(tables(5, 2), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_a_threshold_cuts_the_score_and_leaves_the_ranking(found: CountedPairs, threshold: int) -> None:
    judged, human = expanded(found)
    metrics, confusion = compare_numbers(found, Side(True, threshold), Side(False, threshold), people=False)
    cut = (judged >= threshold).astype(float)
    assert confusion is not None
    assert metrics["accuracy"].value == pytest.approx((cut == human).mean())
    assert confusion.yes_no == ((cut == 1) & (human == 0)).sum()
    if len(set(human)) > 1:
        assert metrics["balanced_accuracy"].value == pytest.approx(oracle.balanced_accuracy_score(human, cut))
        assert metrics["auroc"].value == pytest.approx(oracle.roc_auc_score(human, judged))


@given(tables(6, 6))
@settings(max_examples=60, deadline=None)
def test_scores_against_scores(found: CountedPairs) -> None:
    judged, human = expanded(found)
    metrics, confusion = compare_numbers(found, Side(True, scale=Scale(False, 0, 5, 1)), GRADED, people=False)
    assert confusion is None
    assert list(metrics) == ["spearman", "mae", "rmse", "exact", "weighted_kappa"]
    vary = len(set(judged)) > 1 and len(set(human)) > 1
    same(metrics["spearman"], float(stats.spearmanr(judged, human).statistic) if vary else math.nan)
    same(metrics["mae"], oracle.mean_absolute_error(human, judged))
    same(metrics["rmse"], oracle.root_mean_squared_error(human, judged))
    same(metrics["exact"], oracle.accuracy_score(human, judged))
    one = len({*judged, *human}) == 1
    kappa = math.nan if one else oracle.cohen_kappa_score(judged, human, weights="quadratic", labels=range(6))
    same(metrics["weighted_kappa"], kappa)


@given(tables(4, 4))
@settings(max_examples=40, deadline=None)
def test_choices_against_choices(found: CountedPairs) -> None:
    named = [((f"({x})", f"({y})"), n) for (x, y), n in found]
    judged, human = expanded(found)
    metrics = compare_choices(named, people=False)
    same(metrics["accuracy"], oracle.accuracy_score(human, judged))
    one = len({*judged, *human}) == 1
    same(metrics["kappa"], math.nan if one else oracle.cohen_kappa_score(judged, human))


def test_values_without_levels() -> None:
    rng = np.random.default_rng(3)
    judged = rng.random(1_500).round(6)
    human = np.clip(judged + rng.normal(0, 0.2, 1_500), 0, 1).round(6)
    found = [((x, y), 1) for x, y in zip(judged.tolist(), human.tolist(), strict=True)]
    metrics, _ = compare_numbers(found, Side(True, scale=Scale(False, 0, None)), GRADED, people=False)
    assert metrics["spearman"].value == pytest.approx(stats.spearmanr(judged, human).statistic)
    assert metrics["rmse"].value == pytest.approx(oracle.root_mean_squared_error(human, judged))
    assert metrics["exact"] == metrics["weighted_kappa"]
    assert (metrics["exact"].value, metrics["exact"].reason) == (None, "there are more than 20 different values")


def test_labels_on_another_scale_name_no_level_of_the_judges() -> None:
    for scale, value in ((Scale(False, 0, 5, 1), 0.5), (Scale(False, 1, 5, 1), 6.0), (Scale(False, 1, 10, 0.5), 2.25)):
        metrics, _ = compare_numbers([((2.0, value), 3), ((3.0, 3.0), 2)], Side(True, scale=scale), GRADED, False)
        assert "the judge's scale does not have" in str(metrics["weighted_kappa"].reason)
        assert metrics["mae"].value is not None
    halves = [((2.5, 3.0), 3), ((3.0, 3.5), 2)]
    metrics, _ = compare_numbers(halves, Side(True, scale=Scale(False, 1, 10, 0.5)), GRADED, False)
    assert metrics["weighted_kappa"].value is not None


def test_what_is_undefined_has_a_reason_and_no_number() -> None:
    def reasons(
        found: CountedPairs, left: Side = YES_NO, right: Side = YES_NO, people: bool = False
    ) -> dict[str, str | None]:
        metrics, _ = compare_numbers(found, left, right, people)
        return {name: metric.reason for name, metric in metrics.items() if metric.value is None}

    one_class = dict.fromkeys(("balanced_accuracy", "mcc", "auroc"), "the labels are all of one class")
    assert reasons([((1.0, 1.0), 5), ((0.0, 1.0), 2)]) == one_class
    same_throughout = "judge and labels both gave the same one answer throughout"
    assert reasons([((1.0, 1.0), 5)]) == one_class | {"kappa": same_throughout}
    assert reasons([((1.0, 1.0), 5), ((1.0, 0.0), 2)]) == {"mcc": "the judge gave one answer throughout"}
    assert reasons([((0.3, 1.0), 5), ((0.9, 1.0), 2)], GRADED) == {"auroc": "the labels are all of one class"}
    assert reasons([((1.0, 3.0), 5), ((1.0, 4.0), 5)], YES_NO, GRADED) == {
        "spearman": "the judge gave one answer throughout"
    }
    assert reasons([((1.0, 1.0), 5)], people=True) == {
        "kappa": "both annotators gave the same one answer throughout",
        "mcc": "an annotator gave one answer throughout",
    }


def test_kappa_of_sides_that_never_agree_is_a_number() -> None:
    values = {}
    for cells in (((0.0, 1.0), (1.0, 0.0)), ((1.0, 0.0),)):
        metrics, _ = compare_numbers([(cell, 5) for cell in cells], YES_NO, YES_NO, people=False)
        values[len(cells)] = metrics["kappa"].value
    assert values == {2: -1.0, 1: 0.0}


def test_of_two_annotators_neither_is_the_truth() -> None:
    found = [((1.0, 1.0), 7), ((1.0, 0.0), 2), ((0.0, 0.0), 4)]
    forth, _ = compare_numbers(found, YES_NO, YES_NO, people=True)
    back, _ = compare_numbers(sorted(((y, x), n) for (x, y), n in found), YES_NO, YES_NO, people=True)
    assert list(forth) == ["accuracy", "kappa", "mcc"]
    assert {name: metric.value for name, metric in forth.items()} == pytest.approx(
        {name: metric.value for name, metric in back.items()}
    )


def test_an_ordinal_label_against_yes_or_no() -> None:
    found = [((1.0, 5.0), 6), ((1.0, 2.0), 2), ((0.0, 3.0), 4), ((0.0, 1.0), 3)]
    judged, human = expanded(found)
    metrics, _ = compare_numbers(found, YES_NO, GRADED, people=False)
    assert list(metrics) == ["spearman"]
    same(metrics["spearman"], float(stats.spearmanr(judged, human).statistic))
    metrics, confusion = compare_numbers(found, YES_NO, Side(True, 3.0), people=False)
    assert confusion == Confusion(6, 2, 4, 3)
    assert metrics["kappa"].value == pytest.approx(oracle.cohen_kappa_score(judged, human >= 3))


def test_large_values_lose_no_digits() -> None:
    found = [((1e8 + x, 1e8 + y), 3) for x, y in ((0, 0), (1, 1), (2, 1), (0, 2), (3, 3))]
    small = [((float(x), float(y)), 3) for x, y in ((0, 0), (1, 1), (2, 1), (0, 2), (3, 3))]
    far, _ = compare_numbers(found, GRADED, GRADED, people=False)
    near, _ = compare_numbers(small, GRADED, GRADED, people=False)
    assert far["weighted_kappa"].value == pytest.approx(near["weighted_kappa"].value)


MEASURES = {
    "kappa": (association.kappa, oracle.cohen_kappa_score),
    "mcc": (association.mcc, oracle.matthews_corrcoef),
    "spearman": (association.spearman, lambda x, y: stats.spearmanr(x, y).statistic),
    "rmse": (association.rmse, oracle.root_mean_squared_error),
}


def counted(left: Any, right: Any) -> tuple[Any, Any, Any]:
    pairs, counts = np.unique(np.stack([left, right]), axis=1, return_counts=True)
    return pairs[0], pairs[1], counts.astype(float)


def interval_of(name: str, left: Any, right: Any) -> intervals.Interval:
    x, y, n = counted(left, right)
    measure = MEASURES[name][0]
    place = np.repeat(np.arange(len(n)), n.astype(int))
    joint = Joint(np.arange(len(place)), place, np.ones(len(place)), len(place))
    return intervals.intervals(x, y, n, joint, {name: (measure, float(measure(x, y, n[None, :])[0]), len(place))})[name]


@pytest.mark.parametrize("name", ["kappa", "mcc", "spearman", "rmse"])
def test_intervals_are_those_of_scipys_bootstrap(name: str) -> None:
    rng = np.random.default_rng(5)
    human = rng.integers(0, 2, 300).astype(float)
    judged = np.where(rng.random(300) < 0.8, human, 1 - human)
    found = interval_of(name, judged, human)
    theirs = stats.bootstrap(
        (judged, human), MEASURES[name][1], paired=True, vectorized=False, n_resamples=1_000, method="percentile",
        rng=np.random.default_rng(6),
    ).confidence_interval  # fmt: skip
    assert found.low is not None and found.high is not None
    width = theirs.high - theirs.low
    assert found.low == pytest.approx(theirs.low, abs=0.12 * width)
    assert found.high == pytest.approx(theirs.high, abs=0.12 * width)


@pytest.mark.parametrize("name", ["spearman", "rmse"])
def test_where_pairs_are_too_many_the_interval_keeps_its_width(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    judged = rng.random(1_900)
    human = judged + rng.normal(0, 0.3, 1_900)
    whole = interval_of(name, judged, human)
    monkeypatch.setattr(intervals, "CELLS", 100)
    monkeypatch.setattr(intervals, "PICKS", 300)
    picked = interval_of(name, judged, human)
    assert None not in (*whole[:2], *picked[:2])
    assert whole != picked
    width = whole.high - whole.low  # type: ignore[operator]
    assert picked.low == pytest.approx(whole.low, abs=0.15 * width)
    assert picked.high == pytest.approx(whole.high, abs=0.15 * width)


def test_intervals_hold_the_true_kappa_as_often_as_they_say() -> None:
    # Half of all true; the judge is right for 85 of 100: kappa is 0.7.
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(200):
        human = rng.integers(0, 2, 400).astype(float)
        judged = np.where(rng.random(400) < 0.85, human, 1 - human)
        found = interval_of("kappa", judged, human)
        assert found.low is not None and found.high is not None
        held += found.low <= 0.7 <= found.high
    assert 180 <= held <= 199


def test_an_interval_does_not_depend_on_the_day() -> None:
    rng = np.random.default_rng(13)
    judged, human = rng.integers(0, 6, 200).astype(float), rng.integers(0, 6, 200).astype(float)
    assert interval_of("spearman", judged, human) == interval_of("spearman", judged, human)


def test_there_is_no_interval_where_resamples_say_nothing() -> None:
    found = interval_of("kappa", np.array([1.0, 0.0] * 20), np.array([1.0, 0.0] * 20))
    assert found == (None, None, "every resample gives the same value")
    rare = np.array([1.0] + [0.0] * 50)
    assert interval_of("mcc", rare, rare) == (None, None, "it is undefined in many resamples")


def clustered(rng: np.random.Generator, questions: int, each: int) -> tuple[Any, Any, Any]:
    """Yes or no of a judge and of people, and the question: the judge errs more on some questions than on others."""
    question = np.repeat(np.arange(questions), each)
    human = (rng.random(questions * each) < rng.beta(0.75, 0.75, questions)[question]).astype(float)
    wrong = rng.random(questions * each) < rng.beta(0.2, 1.1, questions)[question]
    return np.where(wrong, 1 - human, human), human, question


def compared(judged: Any, human: Any, question: Any) -> dict[str, Metric]:
    x, y, n = counted(judged, human)
    place = np.array(
        [int(np.flatnonzero((x == one) & (y == other))[0]) for one, other in zip(judged, human, strict=True)]
    )
    joint = Joint.of(question, place, np.ones(len(question)), int(question.max()) + 1)
    pairs = [((float(a), float(b)), int(k)) for a, b, k in zip(x, y, n, strict=True)]
    return compare_numbers(pairs, YES_NO, YES_NO, False, joint)[0]


def resampled(measure: Any, judged: Any, human: Any, question: Any) -> tuple[float, float]:
    """By scikit-learn, over questions drawn with all their rows."""
    rng = np.random.default_rng(2)
    rows = [np.flatnonzero(question == at) for at in range(question.max() + 1)]
    drawn = [np.concatenate([rows[at] for at in rng.integers(0, len(rows), len(rows))]) for _ in range(400)]
    low, high = np.percentile([measure(human[each], judged[each]) for each in drawn], [2.5, 97.5])
    return float(low), float(high)


@pytest.mark.parametrize("cells", [intervals.CELLS, 1])
def test_answers_to_one_question_are_drawn_together(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "CELLS", cells)
    judged, human, question = clustered(np.random.default_rng(21), 200, 5)
    found = compared(judged, human, question)
    measures = {"kappa": oracle.cohen_kappa_score, "mcc": oracle.matthews_corrcoef, "auroc": oracle.roc_auc_score}
    for name, measure in (measures | {"accuracy": oracle.accuracy_score}).items():
        low, high = resampled(measure, judged, human, question)
        metric = found[name]
        assert metric.low is not None and metric.high is not None
        assert metric.low == pytest.approx(low, abs=0.15 * (high - low))
        assert metric.high == pytest.approx(high, abs=0.15 * (high - low))
    alone = interval_of("kappa", judged, human)
    assert alone.low is not None and alone.high is not None
    assert found["kappa"].high - found["kappa"].low > 1.3 * (alone.high - alone.low)  # type: ignore[operator]


def test_a_rare_class_has_no_interval_of_what_is_averaged_over_classes() -> None:
    for rare, known in ((9, False), (10, True)):
        found = [((1.0, 1.0), 60), ((0.0, 1.0), 20), ((0.0, 0.0), rare)]
        metrics, _ = compare_numbers(found, YES_NO, YES_NO, people=False)
        for name in ("auroc", "balanced_accuracy"):
            assert metrics[name].value is not None
            assert (metrics[name].low is not None) == known
            assert known or metrics[name].reason == "fewer than 10 questions have a label of one class"
        assert metrics["kappa"].low is not None
