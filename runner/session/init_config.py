"""A first config for items whose columns were profiled: what `jurybox init` writes, with the reason for every choice.

Pure: a profile in, YAML with comments out. What is only a candidate stands there as a comment.
"""

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
    *("single-session-user", "single-session-assistant", "single-session-preference"),
    *("multi-session", "temporal-reasoning", "knowledge-update"),
}
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


def draft(profile: ColumnProfile, name: str, items: Mapping[str, Any], judges: Sequence[Judge]) -> Draft:
    """The config for the profiled items. `items`: its path, and its join if there is one; `judges`: those there are."""
    guesses = guess_columns(profile)
    chosen, why = choose(profile, guesses, judges)
    candidates = guess_labels(profile, [guess.column for guess in guesses.values()])
    missing = [field for field in ("response", *required_fields(chosen)) if field not in guesses]
    lines = [
        f"# Written by `jurybox init` after a look at {profile.size}. Every choice below is a guess: look at it.",
        *(f"# Left out, for it holds log-likelihoods and no answers: {_short(file, 200)}" for file in profile.left_out),
        *_columns(profile),
        "",
        f"name: {scalar(name)}",
        "",
        "items:",
        f"  path: {scalar(items['path'])}",
        *_join(guesses, items),
        *_fields(profile, guesses, missing),
        *_labels(chosen, candidates),
        _comment("  on_bad: skip", "what was left out here is no bad row to stop for")
        if profile.left_out
        else _comment("  # on_bad: skip", "leave bad rows out, listed and counted; by default they stop the run"),
        _comment("  # empty_response: wrong", "score empty answers false without a call (binary judges)"),
        "",
        *_judges(chosen, why, judges, guesses),
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


def choose(profile: ColumnProfile, guesses: Mapping[str, Guess], judges: Sequence[Judge]) -> tuple[Judge, str]:
    """The judge whose fields the columns hold, and why it is that one."""
    by_name = {judge.name: judge for judge in judges}
    for name, why in _fitting(profile, guesses):
        if name in by_name and all(field in guesses for field in required_fields(by_name[name])):
            return by_name[name], why
    return by_name["yes-no"], "nothing speaks for another one"


def _fitting(profile: ColumnProfile, guesses: Mapping[str, Guess]) -> Iterator[tuple[str, str]]:
    groups = profile.columns[guesses["group"].column].values if "group" in guesses else {}
    if groups and sum(rows for name, rows in groups.items() if name in LONGMEMEVAL) * 2 > sum(groups.values()):
        yield "longmemeval-paper", f"{guesses['group'].column} holds LongMemEval's question types"
    if "documents" in guesses:
        yield "ragbench", "there are documents"
    if "other_response" in guesses:
        yield "choice-ab", "there are two answers"
    yield "yes-no", "there is a reference answer"


def scalar(value: str) -> str:
    """A text as YAML writes it within a line."""
    # Only in double quotes does a line break stay on the line.
    style = None if value.isprintable() else '"'
    return yaml.safe_dump(
        [value], default_flow_style=True, default_style=style, allow_unicode=True, width=float("inf")
    )[1:-2]


def _columns(profile: ColumnProfile) -> Iterator[str]:
    yield "#"
    width = max(len(scalar(name)) for name in list(profile.columns)[:_SHOWN_COLUMNS])
    for column in list(profile.columns.values())[:_SHOWN_COLUMNS]:
        count = "" if column.given == profile.rows else f", {column.given:,} given"
        example = " | ".join(_short(example, _SHOWN_CHARACTERS) for example in column.examples)
        joined = " (joined)" if column.name in profile.joined else ""
        yield f"#   {scalar(column.name):<{width}}  {column.type}{count}{joined}   {example}".rstrip()
    if len(profile.columns) > _SHOWN_COLUMNS:
        yield f"#   and {len(profile.columns) - _SHOWN_COLUMNS} more"


def _join(guesses: Mapping[str, Guess], items: Mapping[str, Any]) -> Iterator[str]:
    if join := items.get("join"):
        yield f"  join: {{path: {scalar(join['path'])}, on: {scalar(join['on'])}}}"
    elif "question" not in guesses or "reference" not in guesses:
        on = next((guesses[role].column for role in ("question_id", "id") if role in guesses), "id")
        yield _comment("  # join:", "question and reference may stand in a file of their own")
        yield f"  #   {{path: questions.jsonl, on: {scalar(on)}}}"


def _fields(profile: ColumnProfile, guesses: Mapping[str, Guess], missing: Sequence[str]) -> Iterator[str]:
    # YAML takes a key with nothing but comments under it for null.
    yield _comment("  fields:" if guesses else "  # fields:", "what a judge calls it: the column that holds it")
    for role, meaning in _MEANINGS.items():
        if (guess := guesses.get(role)) is not None:
            others = f"; or {', '.join(map(scalar, guess.others))}" if guess.others else ""
            yield _comment(f"    {role}: {scalar(guess.column)}", f"{meaning} ({guess.why}{others})")
        elif role in missing:
            yield _comment(f"    # {role}: COLUMN", f"MISSING: no column looks like {meaning}")
        elif role != "other_response":
            yield _comment(f"    # {role}: COLUMN", meaning)


def _labels(judge: Judge, candidates: Sequence[LabelGuess]) -> Iterator[str]:
    scales = judge.scales()
    chosen: dict[str, LabelGuess] = {}
    for score, scale in scales.items():
        left = [guess for guess in candidates if guess not in chosen.values()]
        if guess := label_of(score, scale.binary, left, only=len(scales) == 1):
            chosen[score] = guess
    if not chosen:
        yield _comment("  # labels:", "people's verdicts, named after the score they are held against")
    else:
        yield _comment("  labels:", "people's verdicts: the report says how far the judge agrees with them")
    for score, guess in chosen.items():
        yield _comment(f"    {score}: {{{_read_as(guess)}}}", _values(guess))
    of = f", of: {next(iter(scales))}" if scales else ""
    for guess in [guess for guess in candidates if guess not in chosen.values()][:8]:
        yield from _candidate(guess, of, judge)
    if not candidates:
        yield "  #   correct: {field: COLUMN, type: bool}"


def _candidate(guess: LabelGuess, of: str, judge: Judge) -> Iterator[str]:
    """A label that stands there as a comment."""
    caution = "" if guess.named else "only its values fit; "
    read_as = _read_as(guess)
    if guess.type == "choice" and not judge.choices:
        # Held against a score, a choice has to say what each value means.
        if any(len(value) > _SHORT_VALUE for value in guess.values):
            return
        meanings = ", ".join(f"{scalar(value)}: null" for value in guess.values)
        read_as = f"field: {scalar(guess.column)}, type: bool, map: {{{meanings}}}"
        caution = "say true or false for each; "
    yield _comment(f"  #   {scalar(guess.column.replace('.', '_'))}: {{{read_as}{of}}}", caution + _values(guess))


def _read_as(guess: LabelGuess) -> str:
    meanings = ", ".join(f"{scalar(value)}: {str(means).lower()}" for value, means in guess.map.items())
    return f"field: {scalar(guess.column)}, type: {guess.type}" + (f", map: {{{meanings}}}" if meanings else "")


def _values(guess: LabelGuess) -> str:
    return "values " + ", ".join(_short(value, 20) for value in guess.values[:4])


def _judges(chosen: Judge, why: str, judges: Sequence[Judge], guesses: Mapping[str, Guess]) -> Iterator[str]:
    yield "judges:"
    yield _comment(f"  - {chosen.name}", why)
    for judge in judges:
        if judge.name != chosen.name:
            lacking = [field for field in required_fields(judge) if field not in guesses]
            about = f"needs {', '.join(lacking)} as well" if lacking else judge.description.split(". ")[0]
            yield _comment(f"  # - {judge.name}", about)
    yield _comment("  # - ./my-judge.yaml", "one of your own")


def _comment(line: str, text: str) -> str:
    return f"{line:<{_COMMENT_AT - 2}}  # {_short(text, _COMMENT_CHARACTERS)}" if text else line


def _short(text: str, most: int) -> str:
    """A text on one line, of no more than so many characters."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
