"""The report's tables of agreement: judges with people, and people with each other, a table per kind of measure."""

from collections.abc import Sequence

from runner.stats.agreement import Agreement

from .formatting import INTERVAL, NONE, Table, TableColumn, interval, names, number, numbers
from .model import Report

TITLE, MODEL_TITLE = "Agreement with human labels", "Agreement with labels"
"""The second where a label looks like a model's."""
PEOPLE = "people"

HEADERS = {
    "accuracy": "accuracy",
    "strict_accuracy": "strict",
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
_ENDLESS = ("strict_accuracy",)
"""Measures whose interval is in the document only."""
_RAW = ("mae", "rmse", "exact", "weighted_kappa")
_MEANINGS = {
    "strict_accuracy": "strict: accuracy where trials judged without a score count as disagreement",
    "kappa": "kappa: Cohen's",
    "balanced_accuracy": "balanced: accuracy averaged over the two classes of the label",
    "auroc": "AUROC: how often an answer with a yes label gets the higher score",
    "mae": "MAE, RMSE: mean absolute and root mean square difference",
    "exact": "exact: the same value",
    "weighted_kappa": "weighted kappa: Cohen's, with quadratic weights",
}


def agreement_tables(report: Report) -> list[Table]:
    """One table for each group of measures that some label allows."""
    agreements = report.agreement
    numbers = [entry for entry in agreements if entry.kind != "choice"]
    cut = [entry for entry in numbers if entry.confusion is not None]
    ranked = [entry for entry in numbers if {"balanced_accuracy", "auroc"} & entry.metrics.keys()]
    scored = [entry for entry in numbers if "spearman" in entry.metrics]
    levels = [entry for entry in numbers if "exact" in entry.metrics and entry.metrics["exact"].value is not None]
    choices = [entry for entry in agreements if entry.kind == "choice"]
    tables = [
        _table(report, "", cut, _strictly(cut), errors=True),
        _table(report, ": classes and ranking", ranked, ("balanced_accuracy", "auroc", "mcc")),
        _table(report, ": scores", scored, ("spearman", "mae", "rmse")),
        _table(report, ": levels", levels, ("exact", "weighted_kappa")),
        _table(report, ": choices", choices, _strictly(choices)),
    ]
    return [table for table in tables if table.rows]


def _strictly(entries: Sequence[Agreement]) -> Sequence[str]:
    strict = any("strict_accuracy" in entry.metrics for entry in entries)
    return ("accuracy", *["strict_accuracy"] * strict, "kappa")


def _table(
    report: Report, title: str, entries: Sequence[Agreement], measures: Sequence[str], errors: bool = False
) -> Table:
    columns = [*names("judge", "model", "system", "label"), TableColumn("n")]
    for name in measures:
        ends = f"{INTERVAL} {'interval' if name in _SHARES else HEADERS[name]}"
        columns += numbers(HEADERS[name], *([] if name in _ENDLESS else [ends]))
    columns += numbers(*["too kind", "too strict"] * errors)
    rows = []
    for entry in entries:
        cells = [entry.judge or people(report), entry.model or NONE, entry.system or "all", label_of(entry)]
        cells.append(labelled(report, entry))
        for name in measures:
            metric = entry.metrics.get(name)
            cells += [number(metric.value if metric else None), *([] if name in _ENDLESS else [interval(metric)])]
        if errors:
            # Of two annotators neither is the judge.
            table = entry.confusion if entry.second is None else None
            cells += [NONE, NONE] if table is None else [f"{table.yes_no:,}", f"{table.no_yes:,}"]
        rows.append(tuple(cells))
    title = (MODEL_TITLE if report.model_labels else TITLE) + title
    return Table(title, tuple(columns), tuple(rows), _note(report, entries, measures, errors))


def _note(report: Report, entries: Sequence[Agreement], measures: Sequence[str], errors: bool) -> str:
    notes = [_MEANINGS[name] for name in measures if name in _MEANINGS]
    if errors:
        whose = "label" if report.model_labels else "human"
        notes.append(f"too kind: judge yes, {whose} no · too strict: judge no, {whose} yes")
    shares = [HEADERS[name] for name in measures if name in _SHARES]
    how = "1,000 bootstrap resamples of the questions" + (f" ({shares[0]}: Wilson, by question)" if shares else "")
    notes.append(f"intervals: {how}")
    if any(entry.second for entry in entries):
        notes.append(f"{people(report)}: annotators with each other, each item once")
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
    metrics = [entry.metrics[name] for entry in entries for name in measures if name in entry.metrics]
    without = dict.fromkeys(metric.reason for metric in metrics if metric.value is not None and metric.reason)
    notes += [f"no interval where {reason}" for reason in without]
    notes += _scale_notes(entries, measures)
    for name in dict.fromkeys(entry.label for entry in entries if entry.strangers):
        notes.append(f"{name}: the two sides share no choice; items.labels.{name}.map can say what its values mean")
    return " · ".join(notes)


def people(report: Report) -> str:
    """What stands in place of a judge where labels are compared with each other."""
    return "labels" if report.model_labels else PEOPLE


def scored_trials(report: Report, entry: Agreement) -> int | None:
    """How many trials might have a label; None where labels are compared with each other."""
    if entry.judge is None:
        return None
    own = (result for result in report.results if (result.judge, result.model) == (entry.judge, entry.model))
    return sum(result.overall.scored for result in own if entry.system in (None, result.system))


def labelled(report: Report, entry: Agreement) -> str:
    """How many trials have the label, and of how many where that is not all."""
    scored = scored_trials(report, entry)
    return f"{entry.n:,}" if scored is None or scored <= entry.n else f"{entry.n:,} of {scored:,}"


def label_of(entry: Agreement) -> str:
    first = _cut(entry.label, entry.threshold)
    return first if entry.second is None else f"{first} × {_cut(entry.second, entry.second_threshold)}"


def _cut(name: str, threshold: float | None) -> str:
    return name if threshold is None else f"{name} ≥ {threshold:g}"


def _scale_notes(entries: Sequence[Agreement], measures: Sequence[str]) -> list[str]:
    """What to think of measures that hold a label on another scale against the score as if it were the same."""
    agreements = dict.fromkeys((entry.label, entry.of, entry.ranges) for entry in entries if entry.ranges is not None)
    raw = [HEADERS[name] for name in measures if name in _RAW]
    if "accuracy" in measures:
        raw = ["the threshold cuts both alike"] * any(entry.ranges and entry.threshold for entry in entries)
    elif raw:
        raw = [f"{', '.join(raw)} compare{'s' * (len(raw) == 1)} raw values"]
    return [
        f"{label}: its values lie in {ranges.label[0]:g}–{ranges.label[1]:g}, the scale of {of} is "
        f"{ranges.score[0]:g}–{ranges.score[1]:g}: {raw[0]}; items.labels.{label}.map puts them on one scale"
        for label, of, ranges in agreements
        if raw
    ]
