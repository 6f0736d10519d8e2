"""What a reader must know before the numbers: one sentence each, most important first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from runner.messages import CostBound
from runner.stats.batch_effects import BEYOND_CHANCE, BatchEffect, Part
from runner.stats.estimators import LEAST_GROUP
from runner.stats.injection_stats import InjectionStats
from runner.stats.model_drift import ServedVersion
from runner.stats.parse_stats import Bias, FirstReplies, ParsePaths

from .formatting import p_value, usd
from .model import Coverage, Report
from .parse_summary import ParseSummary

CUT_ABOVE = 0.03
"""A larger share of replies that were cut off is told, with the remedy."""

MOST_NAMED = 3
"""Parts that a notice names; the table has them all."""


def notices(report: Report) -> list[str]:
    """What a reader must know before the numbers, most important first."""
    said: list[str] = []
    if not report.complete:
        said.append(
            f"{report.status}: {report.done:,} of {report.planned:,} trials have a judgment; "
            "all shares are over those. The same command resumes."
        )
    if names := [model.name for model in report.models if model.simulated]:
        said.append(
            f"SIMULATED: the judge ({', '.join(names)}) was jurybox's simulated endpoint. "
            "Its verdicts say nothing about the systems."
        )
    if len(report.parser_versions) > 1:
        said.append(
            f"Replies were read by parsers {' and '.join(report.parser_versions)}, which may differ: "
            f"`jurybox rescore {report.directory}` reads all of them by one, without a call."
        )
    if report.sample is not None:
        said.append(f"A {report.sample}, was judged.")
    for over in report.over_limit:
        said.append(
            f"{over.judge} × {over.model}: {over.unscored:,} of {over.planned:,} trials "
            f"({over.unscored / over.planned:.2%}) are without a score; max_unscored is {report.max_unscored:.2%}."
        )
    for judge in report.judges:
        for text, count in judge.cautions.items():
            whose = "" if text.startswith(judge.name) else f"{judge.name}: "
            said.extend([f"{whose}{text} ({_items(count)})"] if count else [])
        if judge.unrouted:
            said.append(f"{judge.name}: no route matches {_items(judge.unrouted)}; this judge leaves them out.")
    said.extend(model_drift_notices(report.serving))
    said.extend(_reading_notices(report.reading))
    said.extend(injection_notices(report.susceptibility))
    said.extend(text for entry in report.batches for text in batch_effect_notices(entry))
    if report.rejects:
        rows = "row was rejected and is" if report.rejects == 1 else "rows were rejected and are"
        said.append(f"{report.rejects:,} input {rows} listed in items/rejects.jsonl.")
    if report.duplicates:
        rows = "row repeats an item" if report.duplicates == 1 else "rows repeat items"
        said.append(f"{report.duplicates:,} input {rows} word for word: such an item counts once.")
    said.extend(_empty(report, part) for part in report.coverage if part.empty)
    if not report.comparable:
        said.append(
            "No question is shared by two systems: map items.fields.question_id to what their answers have in common."
        )
    missing = [
        part for part in report.coverage if part.answered < part.total and (report.comparable or not part.answered)
    ]
    said.extend(
        f"{part.system} answered {part.answered:,} of {part.total:,} {report.questions}; "
        "the missing answers are in no denominator."
        for part in missing
    )
    if report.earlier.requests:
        said.append(
            f"{report.earlier.requests:,} requests were made for judges or models that the plan no longer holds; "
            "the cost includes them."
        )
    if report.unsettled:
        said.append(describe_unsettled(report.unsettled))
    if report.several:
        counts = ", ".join(f"{system} {questions:,}" for system, questions in sorted(report.several.items()))
        said.append(f"Questions with several answers: {counts}; {_taken(report, 'answers')}.")
    if report.repeats > 1:
        said.append(f"Every item is judged {report.repeats} times; {_taken(report, 'repeats')}.")
    return said


def _taken(report: Report, what: str) -> str:
    if not report.clustered:
        return f"intervals take the {what} as independent"
    return (
        "the intervals of overall accuracy, shares of yes and means are clustered by question, "
        f"all others take the {what} as independent"
    )


def _empty(report: Report, part: Coverage) -> str:
    one = part.empty == 1
    judged = "it is judged like any other" if one else "they are judged like any other"
    wrong = "it counts as wrong without a call" if one else "they count as wrong without a call"
    treated = wrong if report.empty_response == "wrong" else judged
    return f"{part.system} gave {part.empty:,} empty answer{'' if one else 's'}; {treated}."


def _items(count: int) -> str:
    return f"{count:,} item" + ("" if count == 1 else "s")


def _reading_notices(reading: ParseSummary) -> list[str]:
    """What a reader must know before the numbers."""
    cut = [entry for entry in reading.first_replies if (entry.cut.value or 0.0) > CUT_ABOVE]
    moved = [(entry, bias) for entry in reading.ways for bias in entry.biases if bias.p < BEYOND_CHANCE]
    return [*([_cut(cut)] if cut else []), *([_biased(moved)] if moved else [])]


def _cut(entries: Sequence[FirstReplies]) -> str:
    shares = ", ".join(f"{entry.cut.value:.1%} of {entry.judge} × {entry.model}" for entry in entries)
    said = (
        f"First replies were cut off for their length: {shares}. A larger max_tokens (`sampling` of the model, or of "
        "the judge in the config) lets them end."
    )
    if thinking := dict.fromkeys(entry.model for entry in entries if entry.reasoning_tokens):
        said += f" The reasoning of {', '.join(thinking)} counts towards max_tokens: it needs room for both."
    return said


def _biased(found: Sequence[tuple[ParsePaths, Bias]]) -> str:
    differences = "; ".join(
        f"{entry.judge} × {entry.model}: {bias.of}"
        + ("" if bias.strict is None or bias.rest is None else f" {bias.strict:.4f} and {bias.rest:.4f}")
        + f" ({p_value(bias.p)})"
        for entry, bias in found
    )
    return (
        "Verdicts that were read strictly and all others differ beyond chance: "
        f"{differences}. How a reply is written may go with what it says: mind the bounds."
    )


def model_drift_notices(parts: Sequence[ServedVersion]) -> list[str]:
    """What a reader must know of it before the numbers."""
    said = []
    for (judge, model), held in groupby(parts, key=lambda part: (part.judge, part.model)):
        several = list(held)
        named = ", ".join(f"{part.name} {part.trials:,}" for part in several[:MOST_NAMED])
        more = f" and {len(several) - MOST_NAMED} more" if len(several) > MOST_NAMED else ""
        said.append(
            f"{judge} × {model}: the endpoint served {len(several)} models or versions under this name "
            f"({named}{more} trials); the results are over all of them, Served models has them apart."
        )
    return said


def batch_effect_notices(entry: BatchEffect) -> list[str]:
    """What is to be said where a batch moves its scores."""
    whose = f"{entry.judge} × {entry.model}: the mean {entry.score} differs"
    why = "the size is part of what was measured."
    said = []
    if entry.size_matters and entry.by_size:
        said.append(f"{whose} by batch size beyond chance ({p_value(entry.by_size.p)}): {_ends(entry.sizes)}; {why}")
    if entry.place_matters and entry.by_place:
        places = _ends(entry.places)
        said.append(f"{whose} by place in the batch beyond chance ({p_value(entry.by_place.p)}): {places}.")
    return said


def _ends(parts: Sequence[Part]) -> str:
    """The lowest and the highest mean, of those that were compared."""
    tested = [part for part in parts if part.score.n >= LEAST_GROUP]
    means = sorted((part.score.value, part.at) for part in tested if part.score.value is not None)
    (low, low_at), (high, high_at) = means[0], means[-1]
    return f"{low:.2f} at {low_at}, {high:.2f} at {high_at}"


def injection_notices(found: Iterable[InjectionStats]) -> Iterator[str]:
    """A sentence for each judge × model and score that passed control items, and for each that judged suspects."""
    entries = list(found)
    for entry in entries:
        for score, share in entry.passed.items():
            if share.hits:
                told = "" if len(entry.passed) == 1 else f" by {score}"
                yield (
                    f"{entry.judge} × {entry.model} judged {share.hits:,} of {share.n:,} control items right{told} "
                    f"({share.hits / share.n:.1%}), though none is."
                )
    alike: dict[str, list[str]] = {}
    for entry in entries:
        if entry.suspects.planned:
            whole = entry.suspects.planned + entry.others.planned
            said = f"in {entry.suspects.planned:,} of {whole:,} trials the judged text shows signs of an injection"
            alike.setdefault(f"{said} ({signs_of(entry)}).", []).append(f"{entry.judge} × {entry.model}")
    for said, names in alike.items():
        yield f"{', '.join(names)}: {said}"


def signs_of(entry: InjectionStats) -> str:
    """The signs that were found, and in how many trials."""
    return ", ".join(f"{sign.replace('_', ' ')} {n:,}" for sign, n in entry.signs.items())


def describe_unsettled(bound: CostBound) -> str:
    """In one line, for a report and for a status."""
    requests = "1 request" if bound.requests == 1 else f"{bound.requests:,} requests"
    most = f"{requests}, {bound.tokens:,} tokens"
    most = f"{usd(bound.usd)} ({most})" if bound.nano_usd else most
    return f"Up to {most} more may have been billed: requests in flight when a process ended, or without an answer."


def unsettled_document(bound: CostBound) -> dict[str, Any]:
    """As JSON-able data."""
    return {"requests": bound.requests, "tokens": bound.tokens, "cost_usd": bound.usd}
