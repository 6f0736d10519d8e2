"""A look at items files before anything is decided about them: which columns, of which types, with which values.

Hides that only the first rows are read, and that nested columns are looked at by their dotted paths.

Guesses, said as guesses: which column of a surveyed file holds what, by its name and by its values.

Pure. Nothing is ever judged by a guess: `jurybox init` writes it down for a person to look at, and an error that misses
a column names the likely one.
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
from runner.config import Items
from runner.errors import InputError

from .eval_logs import LIKELIHOODS
from .files import Record, RowError
from .sources import Source, item_sources, reference_sources

LOOKED_AT = 20_000
"""Rows that are looked at; of longer files the number of rows stays unknown."""
_WORDS = ("true", "false", "yes", "no", "correct", "incorrect")
"""What a label may say for true and false; digits are taken for numbers here."""
_DEPTH = 3
_SHORT = 60
_KEPT = 50
_SHOWN = 2


@dataclass(slots=True)
class Column:
    """What is known of one column, or of one place in nested columns."""

    name: str
    """As `items.fields` names it: nested places by their path with dots."""
    types: Counter[str] = field(default_factory=Counter)
    """text, true/false, whole number, number, list, object, null → rows."""
    values: Counter[str] = field(default_factory=Counter)
    """Short values as text → rows; no more than a few dozen."""
    examples: list[str] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """Row → a hash of its value, where that is a text, a number or true/false."""

    @property
    def given(self) -> int:
        """Rows that have a value."""
        return sum(self.types.values()) - self.types["null"]

    @property
    def distinct(self) -> int:
        """Different values; lists and objects do not count."""
        return len(set(self.places.values()))

    @property
    def kind(self) -> str:
        """`bool`, `number`, `text`, `list`, `object` or `empty`; words for true and false count as bool."""
        found = {name for name, rows in self.types.items() if rows and name != "null"}
        if not found:
            return "empty"
        if found == {"true/false"}:
            return "bool"
        if found <= {"whole number", "number"}:
            return "number"
        if found == {"text"} and self._all(_is_word):
            return "bool"
        if found == {"text"} and self._all(_is_number):
            return "number"
        return "text" if "text" in found else "list" if "list" in found else "object" if "object" in found else "text"

    @property
    def type(self) -> str:
        """The types as a person reads them."""
        return " or ".join(name for name, _ in self.types.most_common() if name != "null") or "null"

    def repeats_within(self, other: Column | None) -> bool:
        """Whether a value stands twice, or twice beside the same value of another column."""
        pairs = self.places.values() if other is None else [(v, other.places.get(r)) for r, v in self.places.items()]
        return len(set(pairs)) < len(self.places)

    def add(self, row: int, value: Any) -> None:
        """A value of one row."""
        self.types[_type(value)] += 1
        if value is None:
            return
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(self.examples) < _SHOWN and text.strip() and text[:_SHORT] not in self.examples:
            self.examples.append(text[:_SHORT])
        if isinstance(value, list | dict):
            return
        self.places[row] = hash(text)
        if len(text) <= _SHORT and (text in self.values or len(self.values) < _KEPT):
            self.values[text] += 1

    def _all(self, test: Any) -> bool:
        return sum(self.values.values()) == self.given and all(test(value) for value in self.values)


@dataclass(slots=True)
class ColumnProfile:
    """What the first rows of the items hold."""

    files: list[str]
    rows: int
    complete: bool
    """Whether these are all rows there are."""
    columns: dict[str, Column]
    """By name, in the order of the file; an object's places stand in its stead."""
    joined: set[str]
    """Columns that come from the joined reference."""
    left_out: list[str]
    """Files of lm-evaluation-harness that hold log-likelihoods, and so nothing to judge."""

    @property
    def size(self) -> str:
        """How many rows there are, as far as is known."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return rows if self.complete else f"more than {rows}"

    def has_column(self, name: str) -> bool:
        """Whether a column, or a place in nested ones, has this name."""
        return any(known == name or known.startswith(f"{name}.") for known in self.columns)


def profile_columns(items: Items, base: Path, most: int = LOOKED_AT) -> ColumnProfile:
    """Look at the first `most` rows of the items, and of what is joined to them; InputError where there are none."""
    sources = item_sources(items, base)
    columns: dict[str, Column] = {}
    left_out: list[str] = []
    rows, complete = _look(sources, columns, most, left_out, skip=items.on_bad == "skip")
    reference: dict[str, Column] = {}
    _look(reference_sources(items, base), reference, most, left_out)
    joined = {name: column for name, column in reference.items() if name not in columns}
    return ColumnProfile([source.name for source in sources], rows, complete, columns | joined, set(joined), left_out)


def common_columns(items: list[Source], reference: list[Source]) -> list[str]:
    """Columns that both have and whose values differ from row to row of the reference."""
    left: dict[str, Column] = {}
    right: dict[str, Column] = {}
    _look(items, left, LOOKED_AT, [])
    _look(reference, right, LOOKED_AT, [])
    return [name for name, column in right.items() if name in left and not column.repeats_within(None)]


def _look(
    sources: list[Source], columns: dict[str, Column], most: int, left_out: list[str], skip: bool = False
) -> tuple[int, bool]:
    """Rows seen, and whether these are all. `skip`: bad rows are passed over, as staging will leave them out."""
    rows = 0
    first: str | None = None
    for source in sources:
        with closing(source.rows()) as found:
            for line, row in islice(found, most - rows + 1):
                if isinstance(row, RowError):
                    first = first or f"{source.name}:{line}: {row.text}"
                    if row.text == LIKELIHOODS:  # a file is of one task: the next row would be the same
                        left_out.append(source.name)
                        break
                    if skip:
                        continue
                    raise InputError(f"{source.name}:{line}: {row.text}")
                if rows == most:
                    return rows, False
                _add(columns, rows, row)
                rows += 1
    if sources and not rows:
        raise InputError(first or f"{', '.join(source.name for source in sources)}: holds no row")
    return rows, True


def _add(columns: dict[str, Column], number: int, row: Record, before: str = "", depth: int = 1) -> None:
    for name, value in row.items():
        path = before + name
        if isinstance(value, dict) and value and depth < _DEPTH:
            _add(columns, number, value, f"{path}.", depth + 1)
        else:
            columns.setdefault(path, Column(path)).add(number, value)


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true/false"
        case int():
            return "whole number"
        case float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


def _is_word(value: str) -> bool:
    return value.strip().lower() in _WORDS


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


pass  # MOVED-EMPTY

MANY = 50
"""More values than this are neither systems nor groups."""

_NAMES = {
    "question": "question query q prompt user_input instruction problem input",
    "reference": "reference reference_answer gold_answer golden_answer gold_answers gold golden ground_truth "
    "ground_truth_answer correct_answer correct_answers expected_answer expected_output expected expect target ideal "
    "rubric",
    "response": "response model_response model_answer model_output predicted_answer prediction hypothesis "
    "system_answer generated_answer generation actual_output output completion reply candidate candidate_answer "
    "response_a answer_a output_a completion_a response_1 answer_1 output_1",
    "other_response": "other_response response_b answer_b output_b completion_b response_2 answer_2 output_2",
    "documents": "documents_sentences documents document contexts context retrieved_contexts retrieved_documents",
    "system": "system system_name model model_name generator generation_model_name answerer method agent",
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


def guess_columns(survey: ColumnProfile) -> dict[str, Guess]:
    """Role → its likely column; roles that no column seems to play are left out."""
    found: dict[str, Guess] = {}

    def look(role: str, fits: Callable[[Column], bool]) -> None:
        names = _NAMES[role].split()
        used = {guess.column for guess in found.values()}
        columns = [column for name in names for column in survey.columns.values() if _plain(column.name) == name]
        fitting = [column.name for column in columns if column.name not in used and fits(column)]
        if fitting:
            found[role] = Guess(fitting[0], "by its name", tuple(fitting[1:]))

    for role in ("question", "reference", "response", "other_response"):
        look(role, lambda column: column.kind not in ("bool", "object", "empty"))
    look("documents", lambda column: column.kind in ("list", "text"))
    _answer(survey, found)
    look("system", lambda column: column.kind == "text" and _few(column, survey))
    look("group", lambda column: column.kind in ("text", "number") and column.distinct > 1 and _few(column, survey))
    look("question_id", lambda column: column.given == survey.rows and not _is_float(column))
    look("id", lambda column: column.given == survey.rows and not _is_float(column))
    if "system" not in found and ("id" not in found or survey.columns[found["id"].column].repeats_within(None)):
        _teller(survey, found)
    _identities(survey, found)
    return found


def labels(survey: ColumnProfile, taken: Iterable[str]) -> list[LabelGuess]:
    """Columns that may hold labels, likeliest first."""
    used = set(taken)
    guesses = []
    for column in survey.columns.values():
        words = _plain(column.name)
        named = any(word in words for word in _LABEL_WORDS)
        type = _label_type(column, named)
        if not named and column.distinct < 2:
            continue
        if column.name not in used and column.name not in survey.joined and type:
            values = tuple(value for value, _ in column.values.most_common(6))
            guesses.append(LabelGuess(column.name, type, named, values, _grades(column)))
    return sorted(guesses, key=lambda guess: _rank(guess.column) if guess.named else len(_LABEL_WORDS))


def label_of(score: str, binary: bool, guesses: Iterable[LabelGuess], only: bool) -> LabelGuess | None:
    """The label for a judge's score: the column named after it, or, for the `only` score of a judge, the likeliest."""
    fitting = [guess for guess in guesses if guess.named and guess.type == ("bool" if binary else "ordinal")]
    own = {score, f"{score}_score", f"{score}_label", f"human_{score}", f"is_{score}"}
    named = [guess for guess in fitting if _plain(guess.column.rsplit(".", 1)[-1]) in own]
    return named[0] if named else fitting[0] if fitting and only else None


def required_fields(judge: Judge) -> list[str]:
    """The fields that a judge's templates use, besides the response that every item has."""
    nothing = Item("", "", "")
    return list(dict.fromkeys(field for template in judge.templates for field in judge.missing(nothing, template)))


def fields_of_all_templates(judge: Judge) -> list[str]:
    """The fields that every item needs, whichever template the judge gives it."""
    nothing = Item("", "", "")
    return [
        field
        for field in required_fields(judge)
        if all(field in judge.missing(nothing, name) for name in judge.templates)
    ]


def _answer(survey: ColumnProfile, found: dict[str, Guess]) -> None:
    """A column named `answer` is whichever of reference and response the others leave open."""
    column = next((column for column in survey.columns.values() if _plain(column.name) == "answer"), None)
    if column is None or column.kind in ("bool", "object", "empty"):
        return
    if "response" not in found and column.name not in survey.joined:
        sure = "the reference is another column" if "reference" in found else "it might be the reference as well"
        found["response"] = Guess(column.name, f"named answer; {sure}")
    elif "reference" not in found:
        found["reference"] = Guess(column.name, "named answer; the response is another column")


def _teller(survey: ColumnProfile, found: dict[str, Guess]) -> None:
    """Where the same answer to the same question stands in several rows: the column that tells these rows apart."""
    used = {guess.column for guess in found.values()}
    asked = [survey.columns[found[role].column] for role in ("question", "response") if role in found]
    rows = range(survey.rows)

    def repeats(columns: list[Column]) -> bool:
        return len({tuple(column.places.get(row) for column in columns) for row in rows}) < survey.rows

    if len(asked) < 2 or not repeats(asked):
        return
    for column in survey.columns.values():
        few = column.name not in used and column.kind == "text" and column.distinct > 1 and _few(column, survey)
        if few and not repeats([*asked, column]):
            why = "the same answers to the same questions stand in several rows, and it tells them apart"
            found["system"] = Guess(column.name, why)
            return


def _identities(survey: ColumnProfile, found: dict[str, Guess]) -> None:
    """Settle what the ids are ids of: an answer's differs from row to row (of a system), a question's need not."""
    system = survey.columns[found["system"].column] if "system" in found else None
    if "id" in found:
        column = survey.columns[found["id"].column]
        if column.repeats_within(system):
            del found["id"]
            found.setdefault("question_id", Guess(column.name, "its values repeat, so it is no answer's id"))
        else:
            found["id"] = Guess(column.name, "every row has another value" + (" within its system" if system else ""))
            if system is not None and column.repeats_within(None):
                found.setdefault("question_id", Guess(column.name, "the systems have its values in common"))
    if "id" not in found and "question_id" in found:
        column = survey.columns[found["question_id"].column]
        if not column.repeats_within(system) and column.name not in survey.joined:
            found["id"] = Guess(column.name, "every row has another value" + (" within its system" if system else ""))
    if "question_id" not in found and system is not None and system.distinct > 1 and "question" in found:
        column = survey.columns[found["question"].column]
        if column.distinct < len(column.places):
            found["question_id"] = Guess(column.name, "the same question stands in several rows: it pairs the systems")


def _grades(column: Column) -> dict[str, bool]:
    """What inspect_ai's letters mean: correct, incorrect and no answer; others, such as P (partial), mean neither."""
    known = {"C": True, "I": False, "N": False}
    if not column.values or sum(column.values.values()) != column.given or not set(column.values) <= set(known):
        return {}
    told = {"C", "I"} <= set(column.values) or _SCORER.fullmatch(column.name) is not None
    return {value: meant for value, meant in known.items() if value != "N" or "N" in column.values} if told else {}


def _label_type(column: Column, named: bool) -> str | None:
    if column.kind == "bool":
        return "bool"
    if column.kind == "number" and named:
        return "ordinal"
    if _grades(column):
        return "bool"
    complete = sum(column.values.values()) == column.given
    return "choice" if column.kind == "text" and named and complete and 2 <= column.distinct <= 6 else None


def _rank(name: str) -> int:
    words = _plain(name)
    return next((place for place, word in enumerate(_LABEL_WORDS) if word in words), len(_LABEL_WORDS))


def _few(column: Column, survey: ColumnProfile) -> bool:
    return column.distinct <= MANY and (column.distinct == 1 or column.distinct * 2 <= max(survey.rows, 4))


def _is_float(column: Column) -> bool:
    return column.types["number"] > 0 or column.kind == "bool"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
