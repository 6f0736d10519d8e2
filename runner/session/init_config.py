"""A first config for items that were looked at: what `jurybox init` writes, with the reason for every choice.

Pure: a survey in, YAML with comments out. What is only a candidate stands there as a comment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from judges import Judge
from runner.dataset.column_profile import (
    ColumnProfile,
    Guess,
    LabelGuess,
    guess_columns,
    guess_labels,
    label_of,
    required_fields,
)

LONGMEMEVAL = {
    "single-session-user",
    "single-session-assistant",
    "single-session-preference",
    "multi-session",
    "temporal-reasoning",
    "knowledge-update",
}
_FIELDS = ("response", "other_response", "question", "reference", "documents", "id", "question_id", "system", "group")
_MEANINGS = {
    "response": "the answer to be judged",
    "other_response": "the answer that it is compared with",
    "question": "what was asked",
    "reference": "the right answer, a rubric or an explanation",
    "documents": "what the answer was to be drawn from",
    "id": "tells the answers of one system apart",
    "question_id": "what the answers of several systems have in common",
    "system": "whose answer it is",
    "group": "results are split by it; some judges choose the prompt by it",
}
_SHOWN_COLUMNS = 40
_SHOWN_CHARACTERS = 48
_SHORT_VALUE = 20
_COMMENT_AT = 42
_COMMENT_CHARACTERS = 110


@dataclass(frozen=True, slots=True)
class Draft:
    """A config's text, and what a person still has to do before it can be run."""

    text: str
    judge: str
    missing: list[str]
    """Fields that the judge needs and no column seems to hold."""


def draft(survey: ColumnProfile, name: str, items: Mapping[str, Any], judges: Sequence[Judge]) -> Draft:
    """The config for the surveyed items. `items`: its path, and its join if there is one; `judges`: those there are."""
    found = guess_columns(survey)
    chosen, why = choose(survey, found, judges)
    candidates = guess_labels(survey, [guess.column for guess in found.values()])
    missing = [field for field in ("response", *required_fields(chosen)) if field not in found]
    lines = [
        f"# Written by `jurybox init` after a look at {survey.size}. Every choice below is a guess: look at it.",
        *(f"# Left out, for it holds log-likelihoods and no answers: {_short(file, 200)}" for file in survey.left_out),
        *_columns(survey),
        "",
        f"name: {scalar(name)}",
        "",
        "items:",
        f"  path: {scalar(items['path'])}",
        *_join(found, items),
        *_fields(survey, found, missing),
        *_labels(chosen, candidates),
        _comment("  on_bad: skip", "what was left out here is no bad row to stop for")
        if survey.left_out
        else _comment("  # on_bad: skip", "leave bad rows out, listed and counted; by default they stop the run"),
        _comment("  # empty_response: wrong", "score empty answers false without a call (binary judges)"),
        "",
        *_judges(chosen, why, judges, found),
        "",
        *_MODELS,
    ]
    return Draft("\n".join(lines) + "\n", chosen.name, missing)


_MODELS = """\
models:
  - name: gpt-4o-mini
    model: gpt-4o-mini-2024-07-18         # what the endpoint calls it
    base_url: https://api.openai.com/v1   # any OpenAI-compatible endpoint
    api_key_env: OPENAI_API_KEY           # the variable's name, never the key; leave it out where none is needed
    # limits: {rpm: 500, tpm: 200000, in_flight: 64}             # what your account allows, over all workers
    # price: {input: 0.15, cached_input: 0.075, output: 0.60}    # USD per million tokens, from your provider's list

# budget: {usd: 5}                        # stop, resumable, before it costs more; needs the price
# publish: s3://bucket/folder             # mirror results there while they come; a lost run is rebuilt from it
# repeats: 1                              # how often each item is judged""".splitlines()


def choose(survey: ColumnProfile, found: Mapping[str, Guess], judges: Sequence[Judge]) -> tuple[Judge, str]:
    """The judge whose fields the columns hold, and why it is that one."""
    known = {judge.name: judge for judge in judges}
    for name, why in _fitting(survey, found):
        if name in known and all(field in found for field in required_fields(known[name])):
            return known[name], why
    return known["yes-no"], "nothing speaks for another one"


def _fitting(survey: ColumnProfile, found: Mapping[str, Guess]) -> Iterator[tuple[str, str]]:
    groups = survey.columns[found["group"].column].values if "group" in found else {}
    if groups and sum(rows for name, rows in groups.items() if name in LONGMEMEVAL) * 2 > sum(groups.values()):
        yield "longmemeval-paper", f"{found['group'].column} holds LongMemEval's question types"
    if "documents" in found:
        yield "ragbench", "there are documents"
    if "other_response" in found:
        yield "choice-ab", "there are two answers"
    yield "yes-no", "there is a reference answer"


def scalar(value: str) -> str:
    """A text as YAML writes it within a line."""
    return yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=float("inf"))[1:-2]


def _columns(survey: ColumnProfile) -> Iterator[str]:
    yield "#"
    width = max(len(scalar(name)) for name in list(survey.columns)[:_SHOWN_COLUMNS])
    for column in list(survey.columns.values())[:_SHOWN_COLUMNS]:
        given = "" if column.given == survey.rows else f", {column.given:,} given"
        example = " | ".join(_short(example, _SHOWN_CHARACTERS) for example in column.examples)
        joined = " (joined)" if column.name in survey.joined else ""
        yield f"#   {scalar(column.name):<{width}}  {column.type}{given}{joined}   {example}".rstrip()
    if len(survey.columns) > _SHOWN_COLUMNS:
        yield f"#   and {len(survey.columns) - _SHOWN_COLUMNS} more"


def _join(found: Mapping[str, Guess], items: Mapping[str, Any]) -> Iterator[str]:
    if join := items.get("join"):
        yield f"  join: {{path: {scalar(join['path'])}, on: {scalar(join['on'])}}}"
    elif "question" not in found or "reference" not in found:
        on = found["question_id"].column if "question_id" in found else found["id"].column if "id" in found else "id"
        yield _comment("  # join:", "question and reference may stand in a file of their own")
        yield f"  #   {{path: questions.jsonl, on: {scalar(on)}}}"


def _fields(survey: ColumnProfile, found: Mapping[str, Guess], missing: Sequence[str]) -> Iterator[str]:
    # YAML takes a key with nothing but comments under it for null.
    yield _comment("  fields:" if found else "  # fields:", "what a judge calls it: the column that holds it")
    for role in _FIELDS:
        if (guess := found.get(role)) is not None:
            others = f"; or {', '.join(map(scalar, guess.others))}" if guess.others else ""
            yield _comment(f"    {role}: {scalar(guess.column)}", f"{_MEANINGS[role]} ({guess.why}{others})")
        elif role in missing:
            yield _comment(f"    # {role}: COLUMN", f"MISSING: no column looks like {_MEANINGS[role]}")
        elif role != "other_response":
            yield _comment(f"    # {role}: COLUMN", _MEANINGS[role])


def _labels(judge: Judge, candidates: Sequence[LabelGuess]) -> Iterator[str]:
    scales = judge.scales()
    taken: dict[str, LabelGuess] = {}
    for score, scale in scales.items():
        left = [guess for guess in candidates if guess not in taken.values()]
        if guess := label_of(score, scale.binary, left, only=len(scales) == 1):
            taken[score] = guess
    rest = [guess for guess in candidates if guess not in taken.values()][:8]
    if not taken:
        yield _comment("  # labels:", "people's verdicts, named after the score they are held against")
    else:
        yield _comment("  labels:", "people's verdicts: the report says how far the judge agrees with them")
    for score, guess in taken.items():
        yield _comment(f"    {score}: {{{_read_as(guess)}}}", _values(guess))
    of = f", of: {next(iter(scales))}" if scales else ""
    for guess in rest:
        told = "" if guess.named else "only its values fit; "
        read_as = _read_as(guess)
        if guess.type == "choice" and not judge.choices:
            # Held against a score, a choice has to say what each value means.
            if any(len(value) > _SHORT_VALUE for value in guess.values):
                continue
            meant = ", ".join(f"{scalar(value)}: null" for value in guess.values)
            read_as = f"field: {scalar(guess.column)}, type: bool, map: {{{meant}}}"
            told = "say true or false for each; "
        label = scalar(guess.column.replace(".", "_"))
        yield _comment(f"  #   {label}: {{{read_as}{of}}}", told + _values(guess))
    if not candidates:
        yield "  #   correct: {field: COLUMN, type: bool}"


def _read_as(guess: LabelGuess) -> str:
    meant = ", ".join(f"{scalar(value)}: {str(means).lower()}" for value, means in guess.map.items())
    return f"field: {scalar(guess.column)}, type: {guess.type}" + (f", map: {{{meant}}}" if meant else "")


def _values(guess: LabelGuess) -> str:
    return "values " + ", ".join(_short(value, 20) for value in guess.values[:4])


def _judges(chosen: Judge, why: str, judges: Sequence[Judge], found: Mapping[str, Guess]) -> Iterator[str]:
    yield "judges:"
    yield _comment(f"  - {chosen.name}", why)
    for judge in judges:
        if judge.name != chosen.name:
            lacking = [field for field in required_fields(judge) if field not in found]
            said = f"needs {', '.join(lacking)} as well" if lacking else judge.description.split(". ")[0]
            yield _comment(f"  # - {judge.name}", said)
    yield _comment("  # - ./my-judge.yaml", "one of your own")


def _comment(line: str, text: str) -> str:
    return f"{line:<{_COMMENT_AT - 2}}  # {_short(text, _COMMENT_CHARACTERS)}" if text else line


def _short(text: str, most: int) -> str:
    """A text on one line, of no more than so many characters."""
    flat = "".join(char if char.isprintable() else " " for char in text)
    flat = " ".join(flat.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
