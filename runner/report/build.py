"""Puts a report together from a run's ledger, staged items and judges. One pass over the trials, a frame at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged
from runner.dataset.controls import KINDS
from runner.ledger.ledger import Ledger
from runner.messages import Tally
from runner.publishing.result_frames import attempt_frames, judgment_frames
from runner.stats.agreement import agreement, people, people_agreement
from runner.stats.batch_effects import BatchEffect, batch_effects
from runner.stats.clustered_errors import ClusterSums
from runner.stats.counting import PAIR, Counts, add, count, over_limit, served_values
from runner.stats.injection_stats import injection_stats
from runner.stats.metrics import Latency, latencies, results
from runner.stats.model_drift import served_versions
from runner.stats.verdict_counts import echoes

from .failures import Failures
from .model import Cost, Coverage, Flag, JudgeFacts, ModelFacts, OverLimit, Report
from .parse_summary import summarize_parsing

SIMULATED = "jurybox-simulate"
"""How the `system_fingerprint` of the simulated endpoint begins."""


def build(
    name: str,
    directory: Path,
    config: RunConfig,
    judges: Mapping[str, Judge],
    staged: Staged,
    ledger: Ledger,
) -> Report:
    """The report of a run as it stands."""
    labels = config.items.labels
    scales = {judge.name: judge.scales() for judge in judges.values()}
    choices = {judge.name: judge.choices for judge in judges.values() if judge.choices}
    choosing = {name: judges[name].verdict_fields[0] for name in choices}
    # Repeats are several judgments of every answer.
    questions = ClusterSums(staged.coverage if config.repeats > 1 else staged.several, scales)
    failures = Failures()
    seen = failures.watch(questions.watch(judgment_frames(staged, ledger, config, judges)))
    counts = add(count(frame, labels, scales, choosing) for frame in seen)
    shards = ledger.shards()
    judge_order = {name: place for place, name in enumerate(judges)}
    model_order = {model.name: place for place, model in enumerate(config.models)}

    def place(judge: str, model: str) -> tuple[int, int]:
        return judge_order[judge], model_order.get(model, len(model_order))

    macro = {judge.name: judge.slices.macro for judge in judges.values()}
    found = questions.apply(results(counts, scales, macro, choices)) if counts else []
    agreeing = agreement(counts, labels, scales) if counts else []
    own = [row for row in shards if not staged.is_control(row.shard.first_row)]
    planned_rows = max((row.shard.first_row + row.shard.rows for row in own), default=0)
    swayed = injection_stats(counts.tables, scales, choices, [kind.name for kind in KINDS]) if counts else []
    over = over_limit(counts, config.max_unscored) if counts else []
    return Report(
        name=name,
        directory=str(directory),
        revision=ledger.revisions.present(),
        planned=sum(row.shard.trials for row in own),
        done=sum(row.done for row in own),
        repeats=config.repeats,
        max_unscored=config.max_unscored,
        items=staged.rows,
        duplicates=staged.duplicates,
        rejects=staged.rejects,
        sample=staged.sample,
        empty_response=config.items.empty_response,
        joined=config.items.join is not None,
        coverage=tuple(
            Coverage(system, answered, total, staged.empty.get(system, 0))
            for system, (answered, total) in sorted(staged.coverage.items())
        ),
        several=staged.several,
        clustered=questions.clustered,
        judges=tuple(_judge(judge, staged, counts) for judge in judges.values()),
        models=tuple(_models(config, counts)),
        results=tuple(sorted(found, key=lambda each: place(each.judge, each.model))),
        agreement=(
            *sorted(agreeing, key=lambda each: place(str(each.judge), str(each.model))),
            *people_agreement(people(staged, planned_rows, labels), labels),
        ),
        batches=tuple(
            sorted(_batches(counts, judges, ledger, len(own)), key=lambda each: place(each.judge, each.model))
        ),
        flags=tuple(sorted(_flags(counts), key=lambda each: (*place(each.judge, each.model), -each.trials, each.code))),
        failures=failures.listed(ledger, place),
        reading=summarize_parsing(counts, ledger, scales, choices, place, ledger.tallies(), len(own)),
        serving=tuple(
            sorted(served_versions(counts, scales) if counts else (), key=lambda each: place(each.judge, each.model))
        ),
        costs=tuple(_costs(config, counts, sorted(ledger.tallies().items(), key=lambda entry: place(*entry[0])))),
        earlier=ledger.earlier(),
        unsettled=ledger.reserved(),
        susceptibility=tuple(sorted(swayed, key=lambda each: place(each.judge, each.model))),
        over_limit=tuple(OverLimit(*entry) for entry in over),
    )


def _batches(counts: Counts | None, judges: Mapping[str, Judge], ledger: Ledger, before: int) -> list[BatchEffect]:
    batched = {name: list(judge.scales()) for name, judge in judges.items() if judge.batch is not None}
    if counts is None or not batched:
        return []
    # Replies that were no use, and so decided nothing, stand with the attempts alone.
    examples = {name: example for name in batched if (example := judges[name].example)}
    return batch_effects(counts, batched, echoes(attempt_frames(ledger, before=before) if examples else (), examples))


def _flags(counts: Counts | None) -> list[Flag]:
    return [Flag(*row) for row in counts["notes"].select(*PAIR, "code", "n", "total").rows()] if counts else []


def _judge(judge: Judge, staged: Staged, counts: Counts | None) -> JudgeFacts:
    facts = staged.judges[judge.name]
    versions = served_values(counts, "parser_version") if counts else {}
    return JudgeFacts(
        name=judge.name,
        fingerprint=judge.fingerprint,
        protocol_notes=tuple(judge.protocol_notes),
        parser_versions=tuple(_of(versions, 0, judge.name)),
        trials=facts["trials"],
        unrouted=facts["unrouted"],
        cautions=dict(facts["cautions"]),
        example=judge.example,
    )


def _models(config: RunConfig, counts: Counts | None) -> Iterable[ModelFacts]:
    names = served_values(counts, "served_model") if counts else {}
    modes = served_values(counts, "structured") if counts else {}
    prints = served_values(counts, "system_fingerprint") if counts else {}
    for model in config.models:
        simulated = any(value.startswith(SIMULATED) for value in _of(prints, 1, model.name))
        yield ModelFacts(
            model.name,
            model.model,
            model.revision,
            tuple(_of(names, 1, model.name)),
            tuple(_of(modes, 1, model.name)),
            simulated,
        )


def _of(values: Mapping[tuple[str, str], list[str]], part: int, name: str) -> list[str]:
    """What was found for one judge (part 0) or model (part 1)."""
    return sorted({value for pair, found in values.items() if pair[part] == name for value in found})


def _costs(
    config: RunConfig, counts: Counts | None, tallies: Iterable[tuple[tuple[str, str], Tally]]
) -> Iterable[Cost]:
    times = latencies(counts) if counts else {}
    for (judge, model), tally in tallies:
        priced = any(known.name == model and known.price is not None for known in config.asked_models)
        latency = times.get((judge, model), Latency(None, None, None))
        yield Cost(judge, model, tally.requests, tally.usage, priced, latency)
