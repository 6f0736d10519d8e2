"""What a reader must know before the numbers: one sentence each, most important first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from runner.stats.batch_effects import BatchEffect, BatchPart
from runner.stats.injection_stats import InjectionStats
from runner.stats.metrics import UnscoredEffect
from runner.stats.model_drift import ServedVersion
from runner.stats.parse_stats import ParsePaths
from runner.stats.significance import BEYOND_CHANCE, LEAST_GROUP, Comparison
from runner.suggested_command import suggest
from runner.usage import CostBound, usd_at_most

from .formatting import counted, number, p_value
from .model import Coverage, ParseSummary, Report

CUT_ABOVE = 0.03
"""A larger share of replies that were cut off is told, with the remedy."""

MOST_NAMED = 3
"""Parts that a notice names; the table has them all."""


def notices(report: Report) -> list[str]:
    """All of them. Each begins with what matters: where there is one line for it, its end is cut."""
    return [
        *_run_notices(report),
        *report.input_notices,
        *_control_notices(report.susceptibility),
        *_judge_notices(report),
        *_drift_notices(report.serving),
        *_reading_notices(report.reading),
        *_suspect_notices(report.susceptibility),
        *(text for entry in report.batches for text in _batch_notices(entry)),
        *_item_notices(report),
        *_cost_notices(report),
        *_interval_notices(report),
    ]


def _run_notices(report: Report) -> Iterator[str]:
    if not report.finished:
        yield (
            f"{report.status}: {report.done:,} of {report.planned:,} trials have a judgment; "
            "all shares are over those. The same command resumes."
        )
    if simulated := [model.name for model in report.models if model.simulated]:
        yield (
            "SIMULATED: these verdicts say nothing about the systems; "
            f"the judge ({', '.join(simulated)}) was jurybox's simulated endpoint."
        )
    if effects := report.unscored_effects:
        moved = "; ".join(
            f"{_result(report, each)} {each.worst:.4f} to {each.best:.4f}" for each in effects[:MOST_NAMED]
        )
        more = f"; and {len(effects) - MOST_NAMED:,} more" if len(effects) > MOST_NAMED else ""
        yield (
            f"UNSCORED: {moved}{more}: so far could trials without a score move results, more than their intervals are "
            "wide. Which replies cannot be read may go with what they say."
        )
    for keys in report.key_trouble:
        above = f", shares above 1 ({', '.join(keys.above_one[:MOST_NAMED])})" if keys.above_one else ""
        named = f"{keys.unknown:,} of {keys.named:,} sentence keys it named are unknown"
        yield f"{keys.judge} × {keys.model}: {named}{above}; map items.fields.documents to the keyed sentences."
    for over in report.over_limit:
        trials = f"{over.unscored:,} of {over.planned:,} trials ({over.unscored / over.planned:.2%})"
        limit = f"max_unscored is {report.max_unscored:.2%}"
        yield f"{over.judge} × {over.model}: {trials} are without a score; {limit}."
    if len(report.parser_versions) > 1:
        yield (
            f"Replies were read by parsers {' and '.join(report.parser_versions)}, which may differ: "
            f"`{suggest('rescore', report.directory)}` reads all of them by one, without a call."
        )
    if report.sample is not None:
        yield f"A {report.sample}, was judged."


def _result(report: Report, of: UnscoredEffect) -> str:
    """By the names that tell it from other results."""
    names = zip((of.judge, of.model, of.system), ("judge", "model", "system"), strict=True)
    held = [name for name, kind in names if len({getattr(result, kind) for result in report.results}) > 1]
    return " × ".join([*held, of.of])


def _judge_notices(report: Report) -> Iterator[str]:
    for judge in report.judges:
        for text, count in judge.cautions.items():
            if count:
                whose = "" if text.startswith(judge.name) else f"{judge.name}: "
                yield f"{whose}{text} ({counted(count, 'item')})"
        if judge.unrouted:
            yield f"{judge.name}: no route matches {counted(judge.unrouted, 'item')}; this judge leaves them out."


def _item_notices(report: Report) -> Iterator[str]:
    if report.rejects:
        rows = counted(report.rejects, "input row was rejected and is", "input rows were rejected and are")
        yield f"{rows} listed in items/_rejects.jsonl."
    if report.duplicates:
        rows = counted(report.duplicates, "input row repeats an item", "input rows repeat items")
        yield f"{rows} word for word: such an item counts once."
    yield from (_empty(report, part) for part in report.coverage if part.empty)
    if report.pairable and not report.comparable:
        yield "No question is shared by two systems: map items.fields.question_id to what their answers have in common."
    for part in report.coverage:
        if part.answered < part.total and (report.comparable or (report.pairable and not part.answered)):
            answered = f"{part.system} answered {part.answered:,} of {part.total:,} {report.questions}"
            yield f"{answered}; the missing answers are in no denominator."


def _cost_notices(report: Report) -> Iterator[str]:
    if requests := report.earlier.requests:
        made = f"{requests:,} requests were made for judges or models that the plan no longer holds"
        cost = "the cost includes them" if report.earlier.usage.cost_usd else "no price is known for them"
        yield f"{made}; {cost}."
    if report.unsettled:
        yield describe_unsettled(report.unsettled, report.running)


def _interval_notices(report: Report) -> Iterator[str]:
    if report.several and report.pairable:
        counts = ", ".join(f"{system} {questions:,}" for system, questions in sorted(report.several.items()))
        yield f"Questions with several answers: {counts}; intervals are clustered by question."
    if report.repeats > 1:
        yield f"Every item is judged {report.repeats} times; intervals are clustered by question."


def _empty(report: Report, part: Coverage) -> str:
    wrong, one = report.empty_response == "wrong", part.empty == 1
    what = "as wrong without a call" if wrong else "judged like any other"
    how = ("it counts" if one else "they count") if wrong else ("it is" if one else "they are")
    both = [entry for entry in report.answered if entry.system == part.system]
    several = len(report.results) > len(report.coverage)
    values = "; ".join(
        f"{entry.score} {number(entry.value)} over all {entry.n:,}, {number(entry.value_answered)} over"
        f" {entry.answered:,} answered" + (f" ({entry.judge} × {entry.model})" if several else "")
        for entry in both[:MOST_NAMED]
    )
    choose = " (choose items.empty_response)" if report.empty_response is None else ""
    answers = f"{part.system} gave {counted(part.empty, 'empty answer')}{choose}"
    return f"{answers}{': ' + values if values else ''}; {how} {what}."


def _reading_notices(reading: ParseSummary) -> Iterator[str]:
    if cut := [entry for entry in reading.first_replies if (entry.cut.value or 0.0) > CUT_ABOVE]:
        shares = ", ".join(f"{entry.cut.value:.1%} of {entry.judge} × {entry.model}" for entry in cut)
        text = (
            f"First replies were cut off for their length: {shares}. A larger max_tokens (`sampling` of the model, or "
            "of the judge in the config) lets them end."
        )
        if thinking := dict.fromkeys(entry.model for entry in cut if entry.reasoning_tokens):
            text += f" The reasoning of {', '.join(thinking)} counts towards max_tokens: it needs room for both."
        yield text
    if biased := [text for entry in reading.ways for text in _differences(entry)]:
        yield (
            "Verdicts that were read strictly and others differ beyond chance, within systems: "
            f"{'; '.join(biased)}. How a reply is written may go with what it says: mind the bounds."
        )


def _differences(entry: ParsePaths) -> Iterator[str]:
    """What all others come to, and each way of them alone, of which some are low by chance where there are many."""
    whose = f"{entry.judge} × {entry.model}: "
    against = [(way.way, each) for way in entry.ways for each in way.against_strict]
    yield from (whose + _difference(bias) for bias in entry.biases if bias.p < BEYOND_CHANCE)
    for way, each in against:
        if each.p * len(against) < BEYOND_CHANCE:
            yield f"{whose}{way}, {_difference(replace(each, value=each.other, other=each.value))}"


def _difference(bias: Comparison) -> str:
    values = "" if bias.value is None or bias.other is None else f" {bias.value:.4f} and {bias.other:.4f}"
    return f"{bias.of}{values} ({p_value(bias.p)})"


def _drift_notices(parts: Sequence[ServedVersion]) -> Iterator[str]:
    for (judge, model), held in groupby(parts, key=lambda part: (part.judge, part.model)):
        versions = list(held)
        named = ", ".join(f"{part.name} {part.trials:,}" for part in versions[:MOST_NAMED])
        more = f" and {len(versions) - MOST_NAMED} more" if len(versions) > MOST_NAMED else ""
        yield (
            f"{judge} × {model}: the endpoint served {len(versions)} models or versions under this name "
            f"({named}{more} trials); the results are over all of them, Served models has them apart."
        )


def _batch_notices(entry: BatchEffect) -> Iterator[str]:
    whose = f"{entry.judge} × {entry.model}: the mean {entry.score} differs"
    if entry.size_matters and entry.by_size:
        why = "the size is part of what was measured."
        yield f"{whose} by batch size beyond chance ({p_value(entry.by_size.p)}): {_ends(entry.sizes)}; {why}"
    if entry.place_matters and entry.by_place:
        yield f"{whose} by place in the batch beyond chance ({p_value(entry.by_place.p)}): {_ends(entry.places)}."


def _ends(parts: Sequence[BatchPart]) -> str:
    """The lowest and the highest mean, of those that were compared."""
    tested = [part for part in parts if part.score.n >= LEAST_GROUP]
    means = sorted((part.score.value, part.at) for part in tested if part.score.value is not None)
    (low, low_at), (high, high_at) = means[0], means[-1]
    return f"{low:.2f} at {low_at}, {high:.2f} at {high_at}"


def _control_notices(entries: Sequence[InjectionStats]) -> Iterator[str]:
    for entry in entries:
        for score, share in entry.passed.items():
            if share.hits:
                by = "" if len(entry.passed) == 1 else f" by {score}"
                items = f"{share.hits:,} of {share.n:,} control items right{by} ({share.hits / share.n:.1%})"
                yield f"{entry.judge} × {entry.model} judged {items}, though none is."


def _suspect_notices(entries: Sequence[InjectionStats]) -> Iterator[str]:
    """A sentence for those that judged suspects; one for all that judged the same."""
    alike: dict[str, list[str]] = {}
    for entry in entries:
        if entry.suspects.planned:
            whole = entry.suspects.planned + entry.others.planned
            signs = ", ".join(f"{sign.replace('_', ' ')} {n:,}" for sign, n in entry.signs.items())
            text = f"in {entry.suspects.planned:,} of {whole:,} trials the judged text shows signs of an injection"
            alike.setdefault(f"{text} ({signs}).", []).append(f"{entry.judge} × {entry.model}")
    for text, judged_by in alike.items():
        yield f"{', '.join(judged_by)}: {text}"
    for entry in entries:
        if beyond := [_difference(each) for each in entry.differences if each.p < BEYOND_CHANCE]:
            yield (
                f"{entry.judge} × {entry.model}: verdicts on injection suspects and on others differ beyond chance, "
                f"within systems: {'; '.join(beyond)}."
            )


def describe_unsettled(bound: CostBound, running: bool) -> str:
    """`running`: a process is at work on the run, so that its requests in flight have not come to their end."""
    most = f"{counted(bound.requests, 'request')}, {bound.tokens:,} tokens"
    most = f"{usd_at_most(bound.usd)} ({most})" if bound.nano_usd else most
    if running:
        return f"Up to {most} more may be billed: requests in flight now, or without an answer."
    return f"Up to {most} more may have been billed: requests in flight when a process ended, or without an answer."


def unsettled_document(bound: CostBound) -> dict[str, Any]:
    return {"requests": bound.requests, "tokens": bound.tokens, "cost_usd": bound.usd}
