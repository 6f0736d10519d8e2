"""What is odd about the inputs of a run, known before anything is paid: one sentence each, the most serious first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged

from .formatting import counted

_LEAST_ROWS = 20
"""Fewer responses that are their reference may be chance."""
_MODEL_WORDS = re.compile(
    r"(?<![a-z])(?:(?:chat)?gpt|llms?|ai|models?|judge|claude|gemini|llama|mistral|qwen|deepseek|davinci"
    r"|auto(?:mated|matic|rater|eval)?)(?![a-z])"
)
_PEOPLE_WORDS = re.compile(r"human|annotat|expert|people|person|manual|crowd|worker")
_DATE = re.compile(r"-(?:20\d\d-?\d\d-?\d\d|\d{4}|latest|preview)$")


def input_notices(config: RunConfig, judges: Mapping[str, Judge], staged: Staged) -> list[str]:
    """All of them. What matters stands within the first 80 characters."""
    return [
        *_limit_notices(staged),
        *_item_notices(staged),
        *_pairing_notices(staged),
        *_label_notices(config),
        *_system_notices(config, staged),
        *_order_notices(staged),
        *_repeat_notices(config, judges),
    ]


def looks_like_model(*names: str) -> bool:
    """Whether a label of these names is a model's verdict rather than a person's."""
    return any(_MODEL_WORDS.search(name.lower()) and not _PEOPLE_WORDS.search(name.lower()) for name in names)


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
    if staged.copies:
        copies = counted(staged.copies, "row repeats", "rows repeat")
        yield f"{copies} another word for word; each counts. If they are copies, map items.fields.id."
    for system, rows in facts.missing_words.items():
        yield f"{system}: {counted(rows, 'response')} read nan, None, null or NA, as programs write what is missing."


def _pairing_notices(staged: Staged) -> Iterator[str]:
    if staged.facts.unnamed_questions and len(staged.coverage) > 1:
        rows = counted(staged.facts.unnamed_questions, "row has", "rows have")
        yield f"{rows} neither question nor question_id: map one, or systems cannot be paired."


def _system_notices(config: RunConfig, staged: Staged) -> Iterator[str]:
    systems = sorted(staged.coverage)
    for model in config.models:
        for system in systems:
            if {_model_name(model.name), _model_name(model.model)} & {_model_name(system)}:
                yield f"{model.model} judges its own answers (system {system}): judges tend to prefer themselves."
    if stripped := staged.facts.stripped_systems:
        listed = _listed([f"{name!r} ({rows:,} rows)" for name, rows in stripped.items()])
        yield f"Blanks around names of systems make no other system: {listed}."
    folded: dict[str, list[str]] = {}
    for system in systems:
        folded.setdefault(system.casefold(), []).append(system)
    for names in folded.values():
        if len(names) > 1:
            yield f"Systems that differ in case alone are apart: {', '.join(names)}."


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
            if use.sampling.over(model.sampling.over(judge.sampling)).temperature == 0:
                pair = f"{judge.name} × {model.name}"
                yield f"{pair}: {config.repeats} repeats at temperature 0 mostly pay for the same reply again."


def _label_notices(config: RunConfig) -> Iterator[str]:
    for name, label in config.items.labels.items():
        if looks_like_model(name, label.field):
            yield f"Label {name} (column {label.field}) looks like a model's: agreement with it is not with people."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _model_name(name: str) -> str:
    """A model's name without its provider, its date, case and blanks: by what is left two are the same model."""
    short = re.sub(r"\s+", "", name.casefold()).rsplit("/", 1)[-1]
    while short != (shorter := _DATE.sub("", short)):
        short = shorter
    return short
