"""What is odd about the inputs of a run, known before anything is paid: one sentence each, the most serious first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged

from .formatting import counted
from .label_origin import is_model_label
from .model_names import look, model_key

_MISSING = "nan, None, null or NA"
_LEAST_ROWS = 20
"""Fewer responses that are their reference may be chance."""


def input_notices(config: RunConfig, judges: Mapping[str, Judge], staged: Staged) -> list[str]:
    """All of them. What matters stands within the first 80 characters."""
    return [
        *_limit_notices(staged),
        *_item_notices(staged),
        *_pairing_notices(staged),
        *_label_notices(config, staged),
        *_system_notices(config, staged),
        *_order_notices(staged),
        *_repeat_notices(config, judges),
    ]


def _limit_notices(staged: Staged) -> Iterator[str]:
    if staged.beyond_limit:
        systems = _listed(staged.beyond_limit)
        yield f"INCOMPLETE: no row of {systems} is among the first {staged.limit:,} of {staged.rows:,}."


def _item_notices(staged: Staged) -> Iterator[str]:
    facts = staged.facts
    alike, of = facts.references_repeated, facts.referenced
    if of >= _LEAST_ROWS and 2 * alike > of:
        yield f"In {alike:,} of {of:,} rows the response is the reference: are the right columns mapped?"
    for column, values in facts.system_columns.items():
        named = _listed([f"{value} {rows:,}" for value, rows in values.items()])
        yield f"Column {column} looks like the system: map system={column} for results of each ({named} rows)."
    for name, (blank, uses, place) in facts.blank.items():
        yield f"{name} is blank in {blank:,} of {uses:,} rows that send it, first at {PurePath(place).name}."
    for name, (missing, uses, place) in facts.missing_fields.items():
        yield f"{name} reads {_MISSING} in {missing:,} of {uses:,} rows that send it, first at {PurePath(place).name}."
    if 2 * facts.written_lists > facts.texts:
        what = "the response is a list or object written as text"
        yield f"In {facts.written_lists:,} of {facts.texts:,} rows {what}: is it the answer itself?"
    if staged.copies:
        copies = counted(staged.copies, "row repeats", "rows repeat")
        yield f"{copies} another word for word; each counts. If they are copies, map items.fields.id."
    for system, rows in facts.missing_words.items():
        yield f"{system}: {counted(rows, 'response')} read {_MISSING}, as programs write what is missing."


def _pairing_notices(staged: Staged) -> Iterator[str]:
    if staged.facts.unnamed_questions and len(staged.coverage) > 1:
        rows = counted(staged.facts.unnamed_questions, "row has", "rows have")
        yield f"{rows} neither question nor question_id: map one, or systems cannot be paired."


def _system_notices(config: RunConfig, staged: Staged) -> Iterator[str]:
    systems = sorted(staged.coverage)
    for model in config.models:
        for system in systems:
            if model_key(system) in (model_key(model.name), model_key(model.model)):
                yield f"{model.model} judges its own answers (system {system}): judges tend to prefer themselves."
    stripped = {name: n for name, n in staged.facts.stripped_systems.items() if name.strip() in staged.coverage}
    if stripped:
        partial = staged.limit is not None or staged.sample is not None  # the counts are of all rows that were read
        listed = _listed([repr(name) if partial else f"{name!r} ({rows:,} rows)" for name, rows in stripped.items()])
        yield f"Blanks around names of systems make no other system: {listed}."
    folded: dict[str, list[str]] = {}
    for system in systems:
        folded.setdefault(look(system), []).append(system)
    for names in folded.values():
        if len({name.casefold() for name in names}) == 1 < len(names):
            yield f"Systems that differ in case alone are apart: {', '.join(names)}."
        elif len(names) > 1:
            yield f"Systems whose names look alike are apart: {', '.join(map(ascii, names))}."


def _order_notices(staged: Staged) -> Iterator[str]:
    for judge, rows in staged.facts.one_order.items():
        yield (
            f"{judge}: most of the {rows:,} pairs stand in one order only, and judges favour a position: "
            "add rows with the two responses exchanged, and judge both."
        )


def _repeat_notices(config: RunConfig, judges: Mapping[str, Judge]) -> Iterator[str]:
    if config.repeats == 1:
        return
    for use, judge in zip(config.judges, judges.values(), strict=False):
        for model in config.models:
            sampling = use.sampling.over(model.sampling.over(judge.sampling))
            if model.extra.body.get("temperature", sampling.temperature) == 0:
                pair = f"{judge.name} × {model.name}"
                yield f"{pair}: {config.repeats} repeats at temperature 0 mostly pay for the same reply again."


def _label_notices(config: RunConfig, staged: Staged) -> Iterator[str]:
    labels = config.items.labels
    for name, label in labels.items():
        if is_model_label(name, label):
            sure = "is" if label.by else "looks like"
            yield f"Label {name} (column {label.field}) {sure} a model's: agreement with it is not with people."
    rows = staged.rows if staged.limit is None else staged.limit
    if some := [f"{name} {n:,}" for name in labels if 0 < (n := staged.facts.labels.get(name, 0)) < rows]:
        yield f"Labels stand in some of the {rows:,} rows only ({_listed(some)}): agreement is over those."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
