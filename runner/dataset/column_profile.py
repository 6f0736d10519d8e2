"""The columns of items files, their types and values, and guesses at what each column holds.

Only the first rows are read; nested columns are looked at by their dotted paths. Nothing is ever judged by a guess:
`jurybox init` writes it down for a person to check, and an error that misses a column names the likely one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from judges import Item, Judge
from runner.errors import InputError
from runner.items_config import Items
from runner.labels import TRUTH_WORDS

from .eval_logs import LIKELIHOODS
from .files import Record, RowError, conversion_advice
from .sources import Source, item_sources, reference_sources

MAX_ROWS = 20_000
"""Rows that are read; of longer files the number of rows stays unknown."""
_MAX_DEPTH = 3
_MAX_CHARACTERS = 60
_MAX_VALUES = 50
_EXAMPLES = 2
_TYPES = {type(None): "null", bool: "true/false", int: "whole number", float: "number", str: "text", list: "list"}


@dataclass(slots=True)
class ColumnStats:
    """What is known of one column, or of one place in nested columns."""

    name: str
    """As `items.fields` names it: nested places by their path with dots."""
    types: Counter[str] = field(default_factory=Counter)
    """One of `_TYPES`, or object → rows."""
    values: Counter[str] = field(default_factory=Counter)
    """Short values as text → rows; no more than a few dozen."""
    examples: list[str] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """Row → a hash of its value, where that is a text, a number or true/false."""

    @property
    def given(self) -> int:
        return sum(self.types.values()) - self.types["null"]

    @property
    def distinct(self) -> int:
        """Different values; lists and objects do not count."""
        return len(set(self.places.values()))

    @property
    def kind(self) -> str:
        """`bool`, `number`, `text`, `list`, `object` or `empty`; words for true and false count as bool."""
        types = self.types.keys() - {"null"}
        if not types:
            return "empty"
        if types == {"true/false"} or (
            types == {"text"} and self._all(lambda value: value.strip().lower() in TRUTH_WORDS)
        ):
            return "bool"
        if types <= {"whole number", "number"} or (types == {"text"} and self._all(_is_number)):
            return "number"
        return next((kind for kind in ("text", "list", "object") if kind in types), "text")

    @property
    def type(self) -> str:
        return " or ".join(name for name, _ in self.types.most_common() if name != "null") or "null"

    def repeats_within(self, other: ColumnStats | None) -> bool:
        """Whether a value stands twice, or twice beside the same value of another column."""
        places = {(value, other and other.places.get(row)) for row, value in self.places.items()}
        return len(places) < len(self.places)

    def add(self, row: int, value: Any) -> None:
        self.types[_TYPES.get(type(value), "object")] += 1
        if value is None:
            return
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(self.examples) < _EXAMPLES and text.strip() and text[:_MAX_CHARACTERS] not in self.examples:
            self.examples.append(text[:_MAX_CHARACTERS])
        if isinstance(value, list | dict):
            return
        self.places[row] = hash(text)
        if len(text) <= _MAX_CHARACTERS and (text in self.values or len(self.values) < _MAX_VALUES):
            self.values[text] += 1

    @property
    def all_values_known(self) -> bool:
        return sum(self.values.values()) == self.given

    def _all(self, test: Callable[[str], bool]) -> bool:
        return self.all_values_known and all(test(value) for value in self.values)


@dataclass(slots=True)
class ColumnProfile:
    """What the first rows of the items hold."""

    files: list[str]
    rows: int
    complete: bool
    """Whether these are all rows there are."""
    columns: dict[str, ColumnStats]
    """By name, in the order of the file; an object's places stand in its stead."""
    joined: set[str]
    """Columns that come from the joined reference."""
    left_out: list[str]
    """Files of lm-evaluation-harness that hold log-likelihoods, and so nothing to judge."""

    @property
    def size(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return rows if self.complete else f"more than {rows}"

    def has_column(self, name: str) -> bool:
        return any(column == name or column.startswith(f"{name}.") for column in self.columns)


def profile_columns(items: Items, base: Path, max_rows: int = MAX_ROWS) -> ColumnProfile:
    """Profile the first rows of the items, and of what is joined to them; InputError where there are none."""
    sources = item_sources(items, base)
    columns: dict[str, ColumnStats] = {}
    left_out: list[str] = []
    rows, complete = _read(sources, columns, max_rows, left_out, skip=items.on_bad == "skip")
    reference: dict[str, ColumnStats] = {}
    _read(reference_sources(items, base), reference, max_rows, left_out)
    joined = {name: column for name, column in reference.items() if name not in columns}
    return ColumnProfile([source.name for source in sources], rows, complete, columns | joined, set(joined), left_out)


def common_columns(items: list[Source], reference: list[Source]) -> list[str]:
    """Columns that both have and whose values differ from row to row of the reference."""
    left: dict[str, ColumnStats] = {}
    right: dict[str, ColumnStats] = {}
    _read(items, left, MAX_ROWS, [])
    _read(reference, right, MAX_ROWS, [])
    return [name for name, column in right.items() if name in left and not column.repeats_within(None)]


def _read(
    sources: list[Source], columns: dict[str, ColumnStats], max_rows: int, left_out: list[str], skip: bool = False
) -> tuple[int, bool]:
    """Add rows to the columns: how many, and whether these are all. `skip`: bad rows are passed over."""
    rows = 0
    first_problem: str | None = None
    for source in sources:
        with closing(source.rows()) as of_source:
            for line, row in islice(of_source, max_rows - rows + 1):
                if isinstance(row, RowError):
                    problem = f"{source.name}:{line}: {row.text}"
                    first_problem = first_problem or problem
                    if row.text == LIKELIHOODS:  # a file is of one task: the next row would be the same
                        left_out.append(source.name)
                        break
                    if skip:
                        continue
                    raise InputError(problem + conversion_advice(row.text, source.name))
                if rows == max_rows:
                    return rows, False
                _add(columns, rows, row)
                rows += 1
    if sources and not rows:
        raise InputError(first_problem or f"{', '.join(source.name for source in sources)}: holds no row")
    return rows, True


def _add(columns: dict[str, ColumnStats], number: int, row: Record, before: str = "", depth: int = 1) -> None:
    for name, value in row.items():
        path = before + name
        if isinstance(value, dict) and value and depth < _MAX_DEPTH:
            _add(columns, number, value, f"{path}.", depth + 1)
        else:
            columns.setdefault(path, ColumnStats(path)).add(number, value)


def _is_truth(value: str) -> bool:
    return value.strip().lower() in TRUTH_WORDS


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


_MAX_GROUPS = 50
"""More values than this are neither systems nor groups."""
COLUMN_NAMES = {
    "question": "question query q prompt user_input instruction problem input",
    "reference": "reference reference_answer gold_answer golden_answer gold_answers gold golden ground_truth "
    "ground_truth_answer correct_answer correct_answers expected_answer expected_output expected expect target ideal "
    "rubric",
    "response": "response model_response model_answer model_output predicted_answer prediction hypothesis "
    "system_answer generated_answer generation actual_output output completion reply candidate candidate_answer "
    "response_a answer_a output_a completion_a response_1 answer_1 output_1",
    "other_response": "other_response response_b answer_b output_b completion_b response_2 answer_2 output_2",
    "documents": "documents_sentences documents document contexts context retrieved_contexts retrieved_documents",
    "system": "system system_name system_id model model_name model_id llm llm_name generator generation_model_name "
    "answerer_model engine assistant answerer submission method agent",
    "group": "group question_type type category subject topic domain task subset dataset_name dataset dim level",
    "question_id": "question_id qid problem_id prompt_id query_id",
    "id": "id item_id uid uuid answer_id row_id example_id",
}
"""Role → the names that its column has in other people's files, likeliest first."""
_SCORER = re.compile(r"scores\..+\.value")
"""Where inspect_ai puts a score."""
_LABEL_WORDS = ("human", "annot", "label", "correct", "verdict", "judg", "grade", "score", "rating", "pass")


@dataclass(frozen=True, slots=True)
class Guess:
    """The column that probably plays a role."""

    column: str
    why: str
    others: tuple[str, ...] = ()
    """Columns that could be meant as well."""


@dataclass(frozen=True, slots=True)
class LabelGuess:
    """A column that may hold people's, or another judge's, verdicts."""

    column: str
    type: str
    """bool, ordinal or choice."""
    named: bool
    """Its name says so; otherwise only its values would fit."""
    values: tuple[str, ...]
    map: dict[str, bool] = field(default_factory=dict)
    """What values mean that are no words for true and false."""


def guess_columns(profile: ColumnProfile) -> dict[str, Guess]:
    """Role → its likely column; roles that no column seems to play are left out."""
    guesses: dict[str, Guess] = {}

    def guess(role: str, fits: Callable[[ColumnStats], bool]) -> None:
        names = COLUMN_NAMES[role].split()
        used = {guess.column for guess in guesses.values()}
        columns = [column for name in names for column in profile.columns.values() if plain_name(column.name) == name]
        fitting = [column.name for column in columns if column.name not in used and fits(column)]
        if fitting:
            guesses[role] = Guess(fitting[0], "by its name", tuple(fitting[1:]))

    def identifies(column: ColumnStats) -> bool:
        return column.given == profile.rows and not column.types["number"] and column.kind != "bool"

    for role in ("question", "reference", "response", "other_response"):
        guess(role, lambda column: column.kind not in ("bool", "object", "empty"))
    guess("documents", lambda column: column.kind in ("list", "text"))
    _guess_answer(profile, guesses)
    guess("system", lambda column: column.kind == "text" and _few(column, profile))
    guess("group", lambda column: column.kind in ("text", "number") and column.distinct > 1 and _few(column, profile))
    guess("question_id", identifies)
    guess("id", identifies)
    if "system" not in guesses and ("id" not in guesses or profile.columns[guesses["id"].column].repeats_within(None)):
        _guess_system(profile, guesses)
    _settle_ids(profile, guesses)
    return guesses


def guess_labels(profile: ColumnProfile, used: Iterable[str]) -> list[LabelGuess]:
    """Columns that may hold labels, likeliest first. `used`: columns that are something else."""
    excluded = profile.joined.union(used)
    ranked = []
    for column in profile.columns.values():
        words = plain_name(column.name)
        rank = next((place for place, word in enumerate(_LABEL_WORDS) if word in words), len(_LABEL_WORDS))
        named = rank < len(_LABEL_WORDS)
        type = _label_type(column, named)
        if type and column.name not in excluded and (named or column.distinct > 1):
            values = tuple(value for value, _ in column.values.most_common(6))
            ranked.append((rank, LabelGuess(column.name, type, named, values, _grades(column))))
    return [guess for _, guess in sorted(ranked, key=lambda entry: entry[0])]


def label_of(score: str, binary: bool, guesses: Iterable[LabelGuess], only: bool) -> LabelGuess | None:
    """The label for a judge's score: the column named after it, or, for the `only` score of a judge, the likeliest."""
    fitting = [guess for guess in guesses if guess.named and guess.type == ("bool" if binary else "ordinal")]
    own = {score, f"{score}_score", f"{score}_label", f"human_{score}", f"is_{score}"}
    named = [guess for guess in fitting if plain_name(guess.column.rsplit(".", 1)[-1]) in own]
    return named[0] if named else fitting[0] if fitting and only else None


def required_fields(judge: Judge) -> list[str]:
    """The fields that a judge's templates use, besides the response that every item has."""
    empty = Item("", "", "")
    return list(dict.fromkeys(field for template in judge.templates for field in judge.missing(empty, template)))


def fields_of_all_templates(judge: Judge) -> list[str]:
    """The fields that every item needs, whichever template the judge gives it."""
    missing = [judge.missing(Item("", "", ""), name) for name in judge.templates]
    return [field for field in required_fields(judge) if all(field in fields for fields in missing)]


def _guess_answer(profile: ColumnProfile, guesses: dict[str, Guess]) -> None:
    """A column named `answer` is whichever of reference and response the others leave open."""
    column = next((column for column in profile.columns.values() if plain_name(column.name) == "answer"), None)
    if column is None or column.kind in ("bool", "object", "empty"):
        return
    if "response" not in guesses and column.name not in profile.joined:
        sure = "the reference is another column" if "reference" in guesses else "it might be the reference as well"
        guesses["response"] = Guess(column.name, f"named answer; {sure}")
    elif "reference" not in guesses:
        guesses["reference"] = Guess(column.name, "named answer; the response is another column")


def _guess_system(profile: ColumnProfile, guesses: dict[str, Guess]) -> None:
    """Where the same answer to the same question stands in several rows: the column that tells these rows apart."""
    used = {guess.column for guess in guesses.values()}
    both = [profile.columns[guesses[role].column] for role in ("question", "response") if role in guesses]
    rows = range(profile.rows)

    def repeats(columns: list[ColumnStats]) -> bool:
        return len({tuple(column.places.get(row) for column in columns) for row in rows}) < profile.rows

    if len(both) < 2 or not repeats(both):
        return
    for column in profile.columns.values():
        few = column.name not in used and column.kind == "text" and column.distinct > 1 and _few(column, profile)
        if few and not repeats([*both, column]):
            why = "the same answers to the same questions stand in several rows, and it tells them apart"
            guesses["system"] = Guess(column.name, why)
            return


def _settle_ids(profile: ColumnProfile, guesses: dict[str, Guess]) -> None:
    """Settle what the ids are ids of: an answer's differs from row to row (of a system), a question's need not."""
    system = profile.columns[guesses["system"].column] if "system" in guesses else None
    if "id" in guesses:
        column = profile.columns[guesses["id"].column]
        if column.repeats_within(system):
            del guesses["id"]
            guesses.setdefault("question_id", Guess(column.name, "its values repeat, so it is no answer's id"))
        else:
            guesses["id"] = Guess(column.name, "every row has another value" + (" within its system" if system else ""))
            if system is not None and column.repeats_within(None):
                guesses.setdefault("question_id", Guess(column.name, "the systems have its values in common"))
    if "id" not in guesses and "question_id" in guesses:
        column = profile.columns[guesses["question_id"].column]
        if not column.repeats_within(system) and column.name not in profile.joined:
            guesses["id"] = Guess(column.name, "every row has another value" + (" within its system" if system else ""))
    if "question_id" not in guesses and system is not None and system.distinct > 1 and "question" in guesses:
        column = profile.columns[guesses["question"].column]
        if column.distinct < len(column.places):
            guesses["question_id"] = Guess(column.name, "the same question is in several rows: it pairs the systems")


def _grades(column: ColumnStats) -> dict[str, bool]:
    """What inspect_ai's letters mean: correct, incorrect and no answer; others, such as P (partial), mean neither."""
    meanings = {"C": True, "I": False, "N": False}
    if not column.values or not column.all_values_known or not column.values.keys() <= meanings.keys():
        return {}
    if not ({"C", "I"} <= column.values.keys() or _SCORER.fullmatch(column.name)):
        return {}
    return {value: meaning for value, meaning in meanings.items() if value != "N" or "N" in column.values}


def _label_type(column: ColumnStats, named: bool) -> str | None:
    if column.kind == "bool":
        return "bool"
    if column.kind == "number" and named:
        return "ordinal"
    if _grades(column):
        return "bool"
    few = named and column.kind == "text" and column.all_values_known and 2 <= column.distinct <= 6
    return "choice" if few else None


def _few(column: ColumnStats, profile: ColumnProfile) -> bool:
    return column.distinct <= _MAX_GROUPS and (column.distinct == 1 or column.distinct * 2 <= max(profile.rows, 4))


_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word begins in modelName and LLMJudge."""


def plain_name(name: str) -> str:
    """A column's name as `COLUMN_NAMES` spells it."""
    return re.sub(r"[^a-z0-9]+", "_", _WORD_BREAK.sub("_", name).lower()).strip("_")
