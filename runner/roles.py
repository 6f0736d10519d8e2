"""Guesses, said as guesses: which column of a surveyed file holds what, by its name and by its values.

Pure. Nothing is ever judged by a guess: `jurybox init` writes it down for a person to look at, and an error that misses
a column names the likely one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from judges import Item, Judge

from .survey import Column, Survey

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


def roles(survey: Survey) -> dict[str, Guess]:
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


def labels(survey: Survey, taken: Iterable[str]) -> list[LabelGuess]:
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


def needs(judge: Judge) -> list[str]:
    """The fields that a judge's templates use, besides the response that every item has."""
    nothing = Item("", "", "")
    return list(dict.fromkeys(field for template in judge.templates for field in judge.missing(nothing, template)))


def fields_of_all_templates(judge: Judge) -> list[str]:
    """The fields that every item needs, whichever template the judge gives it."""
    nothing = Item("", "", "")
    return [field for field in needs(judge) if all(field in judge.missing(nothing, name) for name in judge.templates)]


def _answer(survey: Survey, found: dict[str, Guess]) -> None:
    """A column named `answer` is whichever of reference and response the others leave open."""
    column = next((column for column in survey.columns.values() if _plain(column.name) == "answer"), None)
    if column is None or column.kind in ("bool", "object", "empty"):
        return
    if "response" not in found and column.name not in survey.joined:
        sure = "the reference is another column" if "reference" in found else "it might be the reference as well"
        found["response"] = Guess(column.name, f"named answer; {sure}")
    elif "reference" not in found:
        found["reference"] = Guess(column.name, "named answer; the response is another column")


def _teller(survey: Survey, found: dict[str, Guess]) -> None:
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


def _identities(survey: Survey, found: dict[str, Guess]) -> None:
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


def _few(column: Column, survey: Survey) -> bool:
    return column.distinct <= MANY and (column.distinct == 1 or column.distinct * 2 <= max(survey.rows, 4))


def _is_float(column: Column) -> bool:
    return column.types["number"] > 0 or column.kind == "bool"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
