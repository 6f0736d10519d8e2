"""The report as one JSON document: every number in full, shares never without their denominator."""

from dataclasses import asdict
from typing import Any

from runner.stats.agreement import Agreement
from runner.stats.estimators import Metric
from runner.stats.group_gaps import GroupGap
from runner.stats.injection_stats import InjectionStats, TrialGroup
from runner.stats.metrics import Line, Result

from .agreement_tables import scored_trials
from .answer import sentences
from .model import SCHEMA_VERSION, Cost, ParseSummary, Report
from .notices import notices, unsettled_document


def to_json(report: Report) -> dict[str, Any]:
    """Plain data, ready for any JSON writer; what has no value is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": report.name,
        **_values(
            report, "directory", "revision", "parser_versions", "status", "complete", "needs_attention", "simulated"
        ),
        **_values(report, "planned", "done", "done_share"),
        "answer": [asdict(sentence) for sentence in sentences(report)],
        "results": [_result(result) for result in report.results],
        "comparisons": [asdict(pair) | {"settled": pair.settled} for pair in report.comparisons if report.pairable],
        "agreement": [_agreement(entry) | {"scored": scored_trials(report, entry)} for entry in report.agreement],
        "widest_gap": None if report.widest_gap is None else _gap(report.widest_gap),
        **_values(report, "unscored", "cost_usd", "unpriced", "requests", "judging_s", "running"),
        "unsettled": unsettled_document(report.unsettled),
        "notices": notices(report),
        "config": {
            **_values(report, "repeats", "max_unscored"),
            "judges": [asdict(judge) for judge in report.judges],
            "models": [asdict(model) for model in report.models],
        },
        "items": {
            "rows": report.items,
            **_values(report, "duplicates", "copies", "rejects", "limit"),
            "systems_beyond_limit": list(report.beyond_limit),
            "sample": None if report.sample is None else asdict(report.sample),
            "empty_response": report.empty_response,
            "answered": [asdict(entry) for entry in report.answered],
            "coverage": [
                asdict(part) | {"share": part.answered / part.total if part.total and report.comparable else None}
                for part in report.coverage
            ],
        },
        "questions_with_several_answers": dict(report.several),
        "model_labels": list(report.model_labels),
        "batches": [asdict(entry) | _values(entry, "size_matters", "place_matters") for entry in report.batches],
        "flags": [asdict(flag) for flag in report.flags],
        "failures": {"total": report.failed, "trials": [asdict(entry) for entry in report.failures]},
        "reading": _reading(report.reading),
        "served": [asdict(entry) for entry in report.serving],
        "controls": [
            {**_values(entry, "judge", "model"), "control": group.name, **_group(group)}
            for entry in report.susceptibility
            for group in entry.controls
        ],
        "injection": [_injection(entry) for entry in report.susceptibility],
        "costs": [_cost(cost) for cost in report.costs],
        "over_limit": [asdict(entry) for entry in report.over_limit],
        "unscored_effects": [asdict(entry) for entry in report.unscored_effects],
        "key_trouble": [asdict(entry) for entry in report.key_trouble],
    }


def _values(record: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _result(result: Result) -> dict[str, Any]:
    return {
        **_values(result, "judge", "model", "system"),
        **_line(result.overall),
        "groups": [{"group": name, **_line(line)} for name, line in result.groups.items()],
        "macro": {name: asdict(entry) for name, entry in result.macro.items()},
        "macro_official": result.macro_official,
        "slices": [{"slice": name, **_line(line)} for name, line in result.slices.items()],
        "reasons": {state: dict(reasons) for state, reasons in result.reasons.items()},
        **_values(result, "stages", "attempts_per_trial"),
        "values": {
            score: [{"value": value, "trials": trials} for value, trials in counts.items()]
            for score, counts in result.values.items()
        },
        "choices": {label: asdict(share) for label, share in result.choices.items()},
    }


def _line(line: Line) -> dict[str, Any]:
    return asdict(line) | _values(line, "unscored", "not_done")


def _reading(reading: ParseSummary) -> dict[str, Any]:
    coercions = [
        {"judge": judge, "model": model, "note": note, "trials": trials}
        for (judge, model), notes in reading.coercions.items()
        for note, trials in notes.items()
    ]
    return asdict(reading) | {"coercions": coercions}


def _agreement(entry: Agreement) -> dict[str, Any]:
    accuracy, kappa = (entry.metrics.get(name) for name in ("accuracy", "kappa"))
    sides = ("judge", "label") if entry.second is None else ("first", "second")
    document = asdict(entry)
    return document | {
        "second_label": document.pop("second"),
        "accuracy": None if accuracy is None else _share(accuracy, entry.n),
        "kappa": None if kappa is None else kappa.value,
        "kappa_undefined": None if kappa is None or kappa.value is not None else kappa.reason,
        "confusion": None if entry.confusion is None else {"_".join(sides): asdict(entry.confusion)},
        "choices": [dict(zip((*sides, "n"), choice, strict=True)) for choice in entry.choices],
    }


def _gap(gap: GroupGap) -> dict[str, Any]:
    ends = ("high", gap.high_group, gap.high), ("low", gap.low_group, gap.low)
    own = {end: {"group": group, **_values(score, "value", "low", "high", "n")} for end, group, score in ends}
    return _values(gap, "judge", "model", "system", "score", "gap", "compared", "beyond_chance") | own


def _injection(entry: InjectionStats) -> dict[str, Any]:
    groups = {"suspects": _group(entry.suspects), "others": _group(entry.others)}
    differences = [asdict(each) for each in entry.differences]
    return _values(entry, "judge", "model", "signs") | groups | {"differences": differences}


def _group(group: TrialGroup) -> dict[str, Any]:
    return {name: value for name, value in asdict(group).items() if name != "name"} | {"not_done": group.not_done}


def _share(share: Metric, n: int) -> dict[str, Any]:
    hits = None if share.value is None else round(share.value * n)
    return {"hits": hits, "n": n, **_values(share, "value", "low", "high")}


def _cost(cost: Cost) -> dict[str, Any]:
    usage = asdict(cost.usage) | ({} if cost.priced else {"cost_usd": None})
    return _values(cost, "judge", "model", "requests") | usage | {"latency_s": asdict(cost.latency)}
