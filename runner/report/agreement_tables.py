"""The report's tables of agreement: judges with people, and people with each other, a table per kind of measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runner.stats.agreement import Agreement
from runner.stats.estimators import Metric

from .formatting import INTERVAL, NONE, Table, TableColumn, interval, names, number, numbers
from .model import Report

TITLE = "Agreement with human labels"
PEOPLE = "people"

HEADERS = {
    "accuracy": "accuracy",
    "kappa": "kappa",
    "balanced_accuracy": "balanced",
    "mcc": "MCC",
    "auroc": "AUROC",
    "spearman": "Spearman",
    "mae": "MAE",
    "rmse": "RMSE",
    "exact": "exact",
    "weighted_kappa": "weighted kappa",
}
_SHARES = ("accuracy", "exact")
_RAW = ("mae", "rmse", "exact", "weighted_kappa")
_MEANINGS = {
    "kappa": "kappa: Cohen's",
    "balanced_accuracy": "balanced: accuracy averaged over the two classes of the label",
    "auroc": "AUROC: how often an answer with a yes label gets the higher score",
    "mae": "MAE, RMSE: mean absolute and root mean square difference",
    "exact": "exact: the same value",
    "weighted_kappa": "weighted kappa: Cohen's, with quadratic weights",
}

Extra = tuple[str, Callable[[Agreement], str]]


def agreement_tables(report: Report) -> list[Table]:
    """One table for each group of measures that some label allows."""
    agreements = report.agreement
    numbers = [entry for entry in agreements if entry.kind != "choice"]
    cut = [entry for entry in numbers if entry.confusion is not None]
    ranked = [entry for entry in numbers if {"balanced_accuracy", "auroc"} & entry.metrics.keys()]
    scored = [entry for entry in numbers if "spearman" in entry.metrics]
    levels = [entry for entry in numbers if _has_value(entry, "exact")]
    choices = [entry for entry in agreements if entry.kind == "choice"]
    tables = [
        _table(report, "", cut, ("accuracy", "kappa"), extra=_ERRORS),
        _table(report, ": classes and ranking", ranked, ("balanced_accuracy", "auroc", "mcc")),
        _table(report, ": scores", scored, ("spearman", "mae", "rmse")),
        _table(report, ": levels", levels, ("exact", "weighted_kappa")),
        _table(report, ": choices", choices, ("accuracy", "kappa")),
    ]
    return [table for table in tables if table.rows]


_ERRORS: tuple[Extra, ...] = (
    ("too kind", lambda entry: _cell(entry, entry.confusion.yes_no if entry.confusion else None)),
    ("too strict", lambda entry: _cell(entry, entry.confusion.no_yes if entry.confusion else None)),
)


def _table(
    report: Report, title: str, entries: Sequence[Agreement], measures: Sequence[str], extra: Sequence[Extra] = ()
) -> Table:
    columns = [*names("judge", "model", "system", "label"), TableColumn("n")]
    for name in measures:
        columns += numbers(HEADERS[name], f"{INTERVAL} {_short(name)}")
    columns += numbers(*(header for header, _ in extra))
    rows = []
    for entry in entries:
        cells = [entry.judge or PEOPLE, entry.model or NONE, entry.system or "all", label_of(entry), f"{entry.n:,}"]
        for name in measures:
            metric = entry.metrics.get(name)
            cells += [number(metric.value), interval(metric)] if metric else [NONE, NONE]
        rows.append((*cells, *(show(entry) for _, show in extra)))
    return Table(TITLE + title, tuple(columns), tuple(rows), _note(report, entries, measures, bool(extra)))


def _note(report: Report, entries: Sequence[Agreement], measures: Sequence[str], errors: bool) -> str:
    notes = [_MEANINGS[name] for name in measures if name in _MEANINGS]
    if errors:
        notes.append("too kind: judge yes, human no · too strict: judge no, human yes")
    shares = [HEADERS[name] for name in measures if name in _SHARES]
    how = "1,000 bootstrap resamples of the pairs" + (f" ({shares[0]}: Wilson)" if shares else "")
    notes.append(f"intervals: {how}" + (f", {report.dependent} taken as independent" if report.dependent else ""))
    if any(entry.second for entry in entries):
        notes.append(f"{PEOPLE}: annotators with each other, each item once")
    about: dict[str, list[str]] = {}
    for name, of in dict.fromkeys((entry.label, entry.of) for entry in entries if entry.label != entry.of):
        about.setdefault(of, []).append(name)
    notes += [f"{', '.join(names)}: about {of}" for of, names in about.items()]
    undefined: dict[str, dict[str, None]] = {}
    for name in measures:
        for metric in (entry.metrics[name] for entry in entries if name in entry.metrics):
            if metric.value is None and metric.reason is not None:
                undefined.setdefault(metric.reason, {})[HEADERS[name]] = None
    notes += [f"{', '.join(names)}: undefined where {reason}" for reason, names in undefined.items()]
    without = dict.fromkeys(reason for entry in entries for name in measures if (reason := _open(entry, name)))
    notes += [f"no interval where {reason}" for reason in without]
    notes += _apart(entries, measures)
    for name in dict.fromkeys(entry.label for entry in entries if entry.strangers):
        notes.append(f"{name}: the two sides share no choice; items.labels.{name}.map can say what its values mean")
    return " · ".join(notes)


def _open(entry: Agreement, name: str) -> str | None:
    """Why a measure that has a value has no interval."""
    metric: Metric | None = entry.metrics.get(name)
    return metric.reason if metric and metric.value is not None else None


def _has_value(entry: Agreement, name: str) -> bool:
    return name in entry.metrics and entry.metrics[name].value is not None


def label_of(entry: Agreement) -> str:
    first = _cut(entry.label, entry.threshold)
    return first if entry.second is None else f"{first} × {_cut(entry.second, entry.second_threshold)}"


def _cut(name: str, threshold: float | None) -> str:
    return name if threshold is None else f"{name} ≥ {threshold:g}"


def _apart(entries: Sequence[Agreement], measures: Sequence[str]) -> list[str]:
    """What to think of measures that hold a label on another scale against the score as if it were the same."""
    agreements = dict.fromkeys((entry.label, entry.of, entry.ranges) for entry in entries if entry.ranges is not None)
    raw = [HEADERS[name] for name in measures if name in _RAW]
    if "accuracy" in measures:
        raw = ["the threshold cuts both alike"] * any(entry.ranges and entry.threshold for entry in entries)
    elif raw:
        raw = [f"{', '.join(raw)} compare{'s' * (len(raw) == 1)} raw values"]
    return [
        f"{label}: its values lie in {_span(ranges.label)}, the scale of {of} is {_span(ranges.score)}: {raw[0]}; "
        f"items.labels.{label}.map puts them on one scale"
        for label, of, ranges in agreements
        if raw
    ]


def _span(ends: tuple[float, float]) -> str:
    return f"{ends[0]:g}–{ends[1]:g}"


def _cell(entry: Agreement, count: int | None) -> str:
    # Of two annotators neither is the judge.
    return NONE if count is None or entry.second is not None else f"{count:,}"


def _short(name: str) -> str:
    return "interval" if name in _SHARES else HEADERS[name]
