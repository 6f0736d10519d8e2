"""What a run says, in sentences: which system is ahead, whether to trust the judge, what is left open, what it cost.

The terminal, Markdown and the JSON document have them in this order, in the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from runner.stats.agreement import Agreement
from runner.stats.estimators import Metric
from runner.stats.paired import PairedDifference
from runner.usage import describe_cost, usd

from .agreement_tables import HEADERS, label_of, labelled
from .formatting import Precision, counted, duration, p_value, percent
from .model import Report
from .overview import difference_form, first_pairs, signed_interval
from .score_tables import NO_GROUP

PAIRED, JUDGE, SCORED, GAP, COST = "paired", "judge", "scored", "gap", "cost"
"""What a sentence is about."""
MOST_PAIRED = 2
"""So many pairs of systems are told in sentences; more stand in a table."""
_FIRST_MEASURES = ("accuracy", "spearman", "auroc")
_KAPPAS = ("kappa", "weighted_kappa")
_KAPPA_WORDS = ((0.2, "slight"), (0.4, "fair"), (0.6, "moderate"), (0.8, "substantial"))
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class Sentence:
    about: str
    text: str


def sentences(report: Report) -> list[Sentence]:
    """All of them, but for pairs of systems that are too many."""
    pairs = list(first_pairs(report))
    said = [Sentence(PAIRED, paired_sentence(report, pair)) for pair in pairs if len(pairs) <= MOST_PAIRED]
    said += [Sentence(JUDGE, text) for text in judge_sentences(report)]
    said += [Sentence(SCORED, scored_sentence(report))] if report.done else []
    said += [Sentence(GAP, text) for text in _gap(report)]
    return [*said, Sentence(COST, cost_line(report))]


def paired_sentence(report: Report, pair: PairedDifference) -> str:
    names = pair.judge, pair.model, pair.score
    kinds = "judge", "model", "score"
    several = [name for name, kind in zip(names, kinds, strict=True) if _differ(report, kind)]
    about = f"{' × '.join(several)}: " if several else ""
    systems = f"{about}{pair.first} − {pair.second}"
    value = difference_form(pair).number(pair.difference, signed=True) + " points" * (pair.kind == "binary")
    interval = f" ({signed_interval(pair)})" if pair.low is not None else ""
    questions = counted(pair.questions, "shared question") + " (a sample)" * pair.sampled
    text = f"{systems}: {value}{interval} on {questions}; {pair.won:,} won, {pair.lost:,} lost; "
    if pair.p is None:
        return f"{text}too few to test"
    needed = "" if pair.questions_to_settle is None else f", which takes about {pair.questions_to_settle:,}"
    return f"{text}{p_value(pair.p)}: " + ("settled" if pair.settled else f"not settled{needed}")


def _differ(report: Report, kind: str) -> bool:
    return len({getattr(pair, kind) for pair in report.comparisons}) > 1


def judge_sentences(report: Report) -> Iterator[str]:
    """How each judge agrees with people over all systems, and people among themselves."""
    entries = list(_overall(report))
    labels = len({entry.label for entry, _ in entries if entry.judge}) > 1
    people = sum(entry.judge is None for entry, _ in entries) > 1
    several = len({(result.judge, result.model) for result in report.results}) > 1
    for entry, name in entries:
        whose = "its labels" if report.model_labels else "people"
        who = f"{entry.judge} × {entry.model} " if several else ""
        about = f" ({label_of(entry)})" if (labels if entry.judge else people) else ""
        with_whom = f"{who}agrees with {whose}" if entry.judge else f"{whose} with each other"
        yield f"{with_whom}{about}: {_measured(report, entry, name)}"
    if not entries and report.done:
        yield "nobody's labels to hold it against (items.labels): whether to trust it is not known"


def _measured(report: Report, entry: Agreement, name: str) -> str:
    metric = entry.metrics[name]
    kappa = next((entry.metrics[each] for each in _KAPPAS if each in entry.metrics), None)
    known = kappa is not None and kappa.value is not None
    form = Precision.of(name == "accuracy", entry.n, metric.low, metric.high, metric.value)
    text = form.value(metric.value) if name == "accuracy" else f"{HEADERS[name]} {form.value(metric.value)}"
    # Where kappa tells how sure it is, once is enough.
    n = labelled(report, entry).replace(" of ", " labelled of ")
    text += f" of {n}" if known else f"{_ends(metric, form)} of {n}"
    if kappa is None or kappa.value is None:
        return text + ("" if kappa is None else ", kappa undefined")
    form = Precision.of(False, entry.n, kappa.low, kappa.high)
    return f"{text}, kappa {form.value(kappa.value)}{_ends(kappa, form)}, {kappa_word(kappa.value)}"


def _ends(metric: Metric, form: Precision) -> str:
    return "" if metric.low is None else f" ({form.interval(metric.low, metric.high)})"


def kappa_word(kappa: float) -> str:
    """Landis and Koch's word for it (The measurement of observer agreement for categorical data, Biometrics 33, 1977).

    Below 0 poor, to 0.20 slight, to 0.40 fair, to 0.60 moderate, to 0.80 substantial, above it almost perfect. They
    call their own divisions arbitrary: it is a word for the number, not a test of it.
    """
    if kappa < 0:
        return "poor"
    return next((word for most, word in _KAPPA_WORDS if kappa <= most), "almost perfect")


def _overall(report: Report) -> Iterator[tuple[Agreement, str]]:
    """Those over all systems, or over the only one, with the first measure that they have."""
    several = {(entry.judge, entry.model, entry.label) for entry in report.agreement if entry.system is None}
    for entry in report.agreement:
        measured = next((name for name in _FIRST_MEASURES if name in entry.metrics), None)
        if measured and (entry.system is None or (entry.judge, entry.model, entry.label) not in several):
            yield entry, measured


def scored_sentence(report: Report) -> str:
    """How many trials have a score, and why others have none."""
    if not report.unscored:
        return f"all {counted(report.done, 'judged trial')}"
    states: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {}
    for result in report.results:
        for state, held in result.reasons.items():
            states[state] += sum(held.values())
            reasons.setdefault(state, Counter()).update(held)
    parts = [f"{n:,} {state} ({_reasons(reasons[state])})" for state, n in states.most_common()]
    share = percent(report.unscored / report.done, 1)
    return f"{report.done - report.unscored:,} of {report.done:,}; without a score {share}: {', '.join(parts)}"


def _reasons(reasons: Counter[str]) -> str:
    named = [f"{reason} {n:,}" if len(reasons) > 1 else reason for reason, n in reasons.most_common(_MOST_REASONS)]
    return ", ".join(named) + ", …" * (len(reasons) > _MOST_REASONS)


def _gap(report: Report) -> Iterator[str]:
    gap = report.widest_gap
    if gap is None:
        return
    n = min(gap.high.n, gap.low.n)
    ends = (gap.low if gap.low.n == n else gap.high).low, (gap.low if gap.low.n == n else gap.high).high
    form = Precision.of(gap.high.kind == "binary", n, *ends, gap.high.value, gap.low.value)
    names = (gap.judge, "judge"), (gap.model, "model"), (gap.system, "system")
    several = [name for name, kind in names if len({getattr(result, kind) for result in report.results}) > 1]
    if len({score for result in report.results for score in result.overall.scores}) > 1:
        several.append(gap.score)
    high, low = (NO_GROUP if name is None else name for name in (gap.high_group, gap.low_group))
    sides = (gap.high, high), (gap.low, low)
    values = ", ".join(f"{form.value(side.value)} on {group} (n {side.n:,})" for side, group in sides)
    meaning = "beyond chance" if gap.beyond_chance else "within chance"
    yield f"{' × '.join(several)}{': ' * bool(several)}{values}: {meaning}"


def cost_line(report: Report) -> str:
    usage = sum((cost.usage for cost in report.costs), report.earlier.usage)
    if report.unpriced:
        price = describe_cost(report.cost_usd or 0.0, report.unpriced)
    else:
        price = "no price known" if report.cost_usd is None else usd(report.cost_usd)
    parts = [price, counted(report.requests, "request")]
    parts.append(f"{usage.input_tokens:,.0f} tokens in, {usage.output_tokens:,.0f} out")
    if report.judging_s is not None:
        parts.append(duration(report.judging_s))
    return " · ".join(parts)
