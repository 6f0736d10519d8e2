"""What people see first: which system scored what, how the judges agree with people, what it cost."""

from collections.abc import Iterator

from runner.stats.agreement import Agreement
from runner.stats.metrics import Line, Result

from .agreement_tables import HEADERS, label_of, labelled, people
from .formatting import NONE, Table, TableColumn, counted, interval, names, number, numbers, percent, usd
from .model import Report
from .score_tables import entries, measure

_FIRST_MEASURES = ("accuracy", "spearman", "auroc")
_KAPPAS = ("kappa", "weighted_kappa")


def headline(report: Report) -> str:
    """How far the run is, and whether its verdicts mean anything."""
    text = f"{report.status} · {report.done:,} of {report.planned:,} trials"
    return text + " · SIMULATED" * report.simulated


def score_overview(report: Report) -> Table:
    """A row for each score, or choice, of each judge × model × system."""
    scores = [
        (result, name, measure(name, score), score.value, interval(score)) for result, name, score in entries(report)
    ]
    scores += [
        (result, label, "share", share.value, interval(share))
        for result in report.results
        if not result.overall.scores
        for label, share in result.choices.items()
    ]
    measures = {what for _, _, what, _, _ in scores}
    several = len({name for _, name, *_ in scores}) > 1
    effects = {(each.judge, each.model, each.system, each.of): each for each in report.unscored_effects}

    def bounds(result: Result, name: str) -> list[str]:
        effect = effects.get((result.judge, result.model, result.system, name))
        return [f"{effect.worst:.4f}–{effect.best:.4f}" if effect else NONE] * bool(effects)

    rows = [
        (
            result.judge, result.model, result.system, *([name] if several else []), number(value), ends,
            f"{result.overall.scored:,}", _unscored(result.overall), *bounds(result, name),
        )
        for result, name, _, value, ends in scores
    ]  # fmt: skip
    columns = names("judge", "model", "system", *["score"] * several)
    columns += numbers(measures.pop() if len(measures) == 1 else "value", "95 % interval", "n", "unscored")
    # What they could make of it, where that is more than chance could.
    columns += numbers(*["if unscored count"] * bool(effects))
    title = "Scores" if several or not scores else f"Scores: {scores[0][1]}"
    return Table(title, tuple(columns), tuple(rows))


def _unscored(line: Line) -> str:
    return f"{line.unscored:,} ({percent(line.unscored / line.done, 1)})" if line.unscored else "0"


def agreement_overview(report: Report) -> Table:
    """Judges and people, over all systems: one measure of what they share, and one without what chance gives."""
    measured = list(_overall(report))
    measures = list(dict.fromkeys(name for _, name in measured))
    several = len(measures) > 1
    rows = [
        (
            entry.judge or people(report), entry.model or NONE, label_of(entry), *([HEADERS[name]] if several else []),
            number(entry.metrics[name].value), interval(entry.metrics[name]), labelled(report, entry), _kappa(entry),
        )
        for entry, name in measured
    ]  # fmt: skip
    columns = names("judge", "model", "label", *["measure"] * several)
    columns += numbers("value" if several or not measured else HEADERS[measures[0]], "95 % interval", "n", "kappa")
    if any(" of " in labelled(report, entry) for entry, _ in measured):
        columns[-2] = TableColumn("labelled")
    title = "Agreement with labels" if report.model_labels else "Agreement with people"
    return Table(title, tuple(columns), tuple(rows))


def _overall(report: Report) -> Iterator[tuple[Agreement, str]]:
    """Those over all systems, or over the only one, with the first measure that they have."""
    several = {(entry.judge, entry.model, entry.label) for entry in report.agreement if entry.system is None}
    for entry in report.agreement:
        measured = next((name for name in _FIRST_MEASURES if name in entry.metrics), None)
        if measured and (entry.system is None or (entry.judge, entry.model, entry.label) not in several):
            yield entry, measured


def _kappa(entry: Agreement) -> str:
    metrics = (entry.metrics[name] for name in _KAPPAS if name in entry.metrics)
    return number(next((metric.value for metric in metrics), None))


def cost_line(report: Report) -> str:
    usage = sum((cost.usage for cost in report.costs), report.earlier.usage)
    price = "no price known" if report.cost_usd is None else usd(report.cost_usd)
    tokens = f"{usage.input_tokens:,.0f} tokens in, {usage.output_tokens:,.0f} out"
    return f"{price} for {counted(report.requests, 'request')}: {tokens}"
