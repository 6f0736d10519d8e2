"""Puts a report together from a run's ledger, staged items and judges. One pass over the trials, a frame at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from judges import Judge
from runner.config import RunConfig
from runner.counts import Counts, add, count, over_limit, served
from runner.frames import frames
from runner.ledger import Ledger
from runner.metrics import Latency, Scale, agreement, latencies, results
from runner.protocol import Tally
from runner.staged import Staged

from .record import Cost, Coverage, JudgeFacts, ModelFacts, OverLimit, Report

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
    counts = add(count(frame) for frame in frames(staged, ledger, config, judges))
    shards = ledger.shards()
    judge_order = {name: place for place, name in enumerate(judges)}
    model_order = {model.name: place for place, model in enumerate(config.models)}

    def place(judge: str, model: str) -> tuple[int, int]:
        return judge_order[judge], model_order[model]

    scales = {judge.name: scales_of(judge) for judge in judges.values()}
    macro = {judge.name: judge.slices.macro for judge in judges.values()}
    found = results(counts, scales, macro) if counts else []
    agreeing = agreement(counts, scales) if counts else []
    over = over_limit(counts, config.max_unscored) if counts else []
    return Report(
        name=name,
        directory=str(directory),
        planned=sum(row.shard.trials for row in shards),
        done=sum(row.done for row in shards),
        repeats=config.repeats,
        max_unscored=config.max_unscored,
        items=staged.rows,
        duplicates=staged.duplicates,
        rejects=staged.rejects,
        empty_response=config.items.empty_response,
        joined=config.items.join is not None,
        coverage=tuple(
            Coverage(system, answered, total, staged.empty.get(system, 0))
            for system, (answered, total) in sorted(staged.coverage.items())
        ),
        judges=tuple(_judge(judge, staged, counts) for judge in judges.values()),
        models=tuple(_models(config, counts)),
        results=tuple(sorted(found, key=lambda each: place(each.judge, each.model))),
        agreement=tuple(sorted(agreeing, key=lambda each: place(each.judge, each.model))),
        costs=tuple(_costs(config, counts, sorted(ledger.tallies().items(), key=lambda entry: place(*entry[0])))),
        earlier=ledger.earlier(),
        over_limit=tuple(OverLimit(*entry) for entry in over),
    )


def scales_of(judge: Judge) -> dict[str, Scale]:
    """What a judge's scores can be, as far as its verdict's schema says."""
    if judge.binary:
        return dict.fromkeys(judge.scores(judge.wrong()), Scale(binary=True))
    properties = (judge.response_schema() or {}).get("properties", {})
    scales: dict[str, Scale] = {}
    for name in judge.verdict_fields:
        entry = properties.get(name, {})
        if entry.get("type") == "boolean":
            scales[name] = Scale(binary=True)
        elif entry.get("type") in ("integer", "number"):
            scales[name] = Scale(False, entry.get("minimum"), entry.get("maximum"))
    return scales


def _judge(judge: Judge, staged: Staged, counts: Counts | None) -> JudgeFacts:
    facts = staged.judges[judge.name]
    versions = served(counts, "parser_version") if counts else {}
    return JudgeFacts(
        name=judge.name,
        fingerprint=judge.fingerprint,
        protocol_notes=tuple(judge.protocol_notes),
        parser_versions=tuple(_of(versions, 0, judge.name)),
        trials=facts["trials"],
        unrouted=facts["unrouted"],
        cautions=dict(facts["cautions"]),
    )


def _models(config: RunConfig, counts: Counts | None) -> Iterable[ModelFacts]:
    names = served(counts, "served_model") if counts else {}
    modes = served(counts, "structured") if counts else {}
    prints = served(counts, "system_fingerprint") if counts else {}
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
        priced = config.model(model).price is not None
        latency = times.get((judge, model), Latency(None, None, None))
        yield Cost(judge, model, tally.requests, tally.usage, priced, latency)
