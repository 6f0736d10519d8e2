"""Puts a report together from a run's ledger, staged items and judges. One pass over the trials, a frame at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged
from runner.dataset.controls import KINDS
from runner.ledger.ledger import Ledger
from runner.publishing.result_frames import COLUMNS, attempt_frames, judgment_frames
from runner.stats.agreement import agreement, people, people_agreement
from runner.stats.batch_effects import BatchEffect, batch_effects
from runner.stats.counting import Counts, add, count, count_echoes, over_limit
from runner.stats.group_gaps import widest_gap
from runner.stats.injection_stats import injection_stats
from runner.stats.malformed_examples import BEGINNING, END, top_examples
from runner.stats.metrics import Latency, Result, latencies, results, unscored_effects
from runner.stats.model_drift import served_versions
from runner.stats.paired import paired_differences
from runner.stats.parse_stats import Call, ParsePaths, coercions, first_replies, parse_paths, rereads, step_calls
from runner.stats.summaries import PAIR

from .failures import Failures
from .input_notices import input_notices
from .label_origin import is_model_label
from .model import (
    AnsweredScore,
    Cost,
    Coverage,
    Flag,
    JudgeFacts,
    KeyTrouble,
    ModelFacts,
    OverLimit,
    ParseSummary,
    Report,
)
from .trial_sums import TrialSums

SIMULATED = "jurybox-simulate"
"""How the `system_fingerprint` of the simulated endpoint begins."""

UNKNOWN_KEYS_ABOVE = 0.05
"""A larger share of the sentence keys that a judge named and no item has: it was shown others than are counted."""

PAUSE_S = 60.0
"""Longer without a request, a run is taken to have been interrupted."""

T = TypeVar("T")
Order = Callable[[str, str], tuple[int, int]]
"""Where a judge × model stands in the report: as in the config; those that it holds no more stand last."""


def build(
    name: str,
    directory: Path,
    config: RunConfig,
    judges: Mapping[str, Judge],
    staged: Staged,
    ledger: Ledger,
    running: bool = False,
) -> Report:
    """The report as things stand; `running`: a process is at work on the run meanwhile."""
    labels = config.items.labels
    scales = {judge.name: judge.scales() for judge in judges.values()}
    choices = {judge.name: judge.choices for judge in judges.values() if judge.choices}
    choosing = {name: judges[name].verdict_fields[0] for name in choices}
    failures = Failures()
    sums = TrialSums(staged, judges)
    frames = sums.watch(failures.watch(judgment_frames(staged, ledger, config, judges)))
    # One without trials first, for there may be none.
    counts = add(count(frame, labels, scales, choosing) for frame in chain([pl.DataFrame(schema=COLUMNS)], frames))
    own = [row for row in ledger.shards() if not staged.is_control(row.shard.first_row)]
    rows = max((row.shard.first_row + row.shard.rows for row in own), default=0)
    notes = counts["notes"].sort("n", "code", descending=[True, False])
    macro = {judge.name: judge.slices.macro for judge in judges.values()}
    order = _order(config, judges)
    flags = _sorted((Flag(*row) for row in notes.select(*PAIR, "code", "n", "total").rows()), order)
    entries = _sorted(results(counts, scales, macro, choices), order)
    return Report(
        name=name,
        directory=str(directory),
        revision=ledger.revisions.current(),
        planned=sum(row.shard.trials for row in own),
        done=sum(row.done for row in own),
        repeats=config.repeats,
        max_unscored=config.max_unscored,
        items=staged.rows,
        duplicates=staged.duplicates,
        copies=staged.copies,
        rejects=staged.rejects,
        limit=staged.limit,
        beyond_limit=tuple(staged.beyond_limit),
        input_notices=tuple(input_notices(config, judges, staged)),
        sample=staged.sample,
        empty_response=config.items.empty_response,
        answered=tuple(_answered(entries, sums)),
        joined=config.items.join is not None,
        coverage=_coverage(staged),
        unnamed_questions=staged.facts.unnamed_questions,
        several=staged.several,
        judges=tuple(_judges(judges, staged, counts)),
        models=tuple(_models(config, counts)),
        results=entries,
        comparisons=_sorted(paired_differences(counts, scales), order),
        widest_gap=widest_gap(entries),
        agreement=(
            *_sorted(agreement(counts, labels, scales), order),
            *people_agreement(people(staged, rows, labels), labels),
        ),
        model_labels=tuple(name for name, label in labels.items() if is_model_label(name, label)),
        batches=_sorted(_batches(counts, judges, ledger, len(own)), order),
        flags=flags,
        failures=failures.listed(ledger, order),
        reading=_summarize_parsing(counts, ledger, parse_paths(counts, scales, choices), order, len(own)),
        serving=_sorted(served_versions(counts, scales), order),
        costs=_sorted(_costs(config, counts, ledger), order),
        earlier=ledger.earlier(),
        judging_s=judging_time(ledger.request_spans()),
        running=running,
        unsettled=ledger.spending.reserved(),
        susceptibility=_sorted(injection_stats(counts, scales, choices, [kind.name for kind in KINDS]), order),
        over_limit=tuple(OverLimit(*entry) for entry in over_limit(counts, config.max_unscored)),
        unscored_effects=tuple(unscored_effects(entries)),
        key_trouble=tuple(_key_trouble(entries, sums, flags)),
    )


def _coverage(staged: Staged) -> tuple[Coverage, ...]:
    return tuple(
        Coverage(system, answered, total, staged.empty.get(system, 0))
        for system, (answered, total) in sorted(staged.coverage.items())
    )


def judging_time(spans: Iterable[tuple[float, float]]) -> float | None:
    """Seconds in which requests were going on: of these spans, pauses of more than `PAUSE_S` between them left out."""
    total, until = 0.0, None
    for start, end in sorted(spans):
        if until is None or start - until > PAUSE_S:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return None if until is None else total


def _answered(results: Sequence[Result], sums: TrialSums) -> Iterator[AnsweredScore]:
    for result in results:
        names = result.judge, result.model, result.system
        for score, (empty, total) in sums.empty_scores.get(names, {}).items():
            over_all = result.overall.scores.get(score)
            if over_all is not None and over_all.value is not None:
                left = over_all.n - empty
                rest = (over_all.value * over_all.n - total) / left if left else None
                yield AnsweredScore(*names, score, over_all.n, over_all.value, left, rest)


def _key_trouble(results: Sequence[Result], sums: TrialSums, flags: Sequence[Flag]) -> Iterator[KeyTrouble]:
    unknown = {(flag.judge, flag.model): flag.times for flag in flags if flag.code == "unknown_keys"}
    for pair, named in sums.named_keys.items():
        above = tuple(
            f"{result.system}: {name} {score.value:.2f}"
            for result in results
            if (result.judge, result.model) == pair
            for name, score in result.overall.scores.items()
            if (score.value or 0.0) > 1
        )
        if above or unknown.get(pair, 0) > UNKNOWN_KEYS_ABOVE * named:
            yield KeyTrouble(*pair, unknown.get(pair, 0), named, above)


def _order(config: RunConfig, judges: Mapping[str, Judge]) -> Order:
    judge_order = {name: place for place, name in enumerate(judges)}
    model_order = {model.name: place for place, model in enumerate(config.models)}
    return lambda judge, model: (judge_order.get(judge, len(judge_order)), model_order.get(model, len(model_order)))


def _sorted(entries: Iterable[T], order: Order) -> tuple[T, ...]:
    def place(entry: Any) -> tuple[int, int]:
        return order(entry.judge, entry.model)

    return tuple(sorted(entries, key=place))


def _batches(counts: Counts, judges: Mapping[str, Judge], ledger: Ledger, before: int) -> list[BatchEffect]:
    batched = {name: judge.scales() for name, judge in judges.items() if judge.batch is not None}
    if not batched:
        return []
    # Replies that were no use, and so decided nothing, stand with the attempts alone.
    examples = {name: example for name in batched if (example := judges[name].example)}
    attempts = attempt_frames(ledger, before=before) if examples else ()
    return batch_effects(counts, batched, count_echoes(attempts, examples))


def _judges(judges: Mapping[str, Judge], staged: Staged, counts: Counts) -> Iterator[JudgeFacts]:
    for judge in judges.values():
        facts = staged.judges[judge.name]
        yield JudgeFacts(
            judge.name, judge.fingerprint, tuple(judge.protocol_notes),
            _served(counts, "parser_version", judge=judge.name), facts["trials"], facts["unrouted"],
            dict(facts["cautions"]), judge.example,
        )  # fmt: skip


def _models(config: RunConfig, counts: Counts) -> Iterator[ModelFacts]:
    for model in config.models:
        columns = ("served_model", "structured", "system_fingerprint")
        served, structured, fingerprints = (_served(counts, column, model=model.name) for column in columns)
        simulated = any(value.startswith(SIMULATED) for value in fingerprints)
        yield ModelFacts(model.name, model.model, model.revision, served, structured, simulated)


def _served(counts: Counts, column: str, **of: str) -> tuple[str, ...]:
    """What a column of provenance held, of one judge or model."""
    return tuple(counts["served"].filter(**of)[column].drop_nulls().unique().sort())


def _costs(config: RunConfig, counts: Counts, ledger: Ledger) -> Iterator[Cost]:
    times = latencies(counts)
    priced = {model.name for model in config.asked_models if model.price is not None}
    for (judge, model), tally in ledger.tallies().items():
        latency = times.get((judge, model), Latency(None, None, None))
        yield Cost(judge, model, tally.requests, tally.usage, model in priced, latency)


def _summarize_parsing(
    counts: Counts, ledger: Ledger, paths: Sequence[ParsePaths], order: Order, before: int
) -> ParseSummary:
    """`before`: the first shard of control items, of which only the calls count."""
    planned = set(ledger.tallies())
    judges = {judge for judge, _ in planned}

    def belongs(call: Call) -> bool:
        return (call.judge, call.model) in planned or (call.step == "reformat" and call.judge in judges)

    own = [call for call in map(Call._make, ledger.calls(before)) if (call.judge, call.model) in planned]
    malformed = (row for row in ledger.malformed_replies(BEGINNING, END, before) if (row[0], row[1]) in planned)
    # Models that only reformat stand last.
    calls = _sorted(step_calls(filter(belongs, map(Call._make, ledger.calls()))), order)
    calls = tuple(sorted(calls, key=lambda entry: (entry.judge, entry.model) not in planned))
    examples = _sorted(top_examples(malformed), order)
    return ParseSummary(
        _sorted(first_replies(own), order), _sorted(paths, order), coercions(counts), examples, calls,
        _sorted(rereads(own), order),
    )  # fmt: skip
