"""What stands in the way of every row alike: a column that the judges need and no row has, a label that no row says.

Looked for only where a row was bad: told once, with what there is and what to write, in the words of who asked.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from judges import Judge
from runner.errors import InputError, ItemError
from runner.items_config import Items
from runner.labels import Label, label_reader

from .column_profile import ColumnProfile, ColumnStats, fields_of_all_templates, guess_columns, profile_columns

_PEEK = 100
_MOST_VALUES = 12
_FEW = 5
"""Labels of fewer rows than this show no rule."""

Remedy = Callable[[str, Mapping[str, Any]], str]
"""How what is missing is written: of `fields` or `labels` these entries."""


def in_config(kind: str, entries: Mapping[str, Any]) -> str:
    """As a config has it."""
    text = yaml.safe_dump(dict(entries), default_flow_style=True, allow_unicode=True, sort_keys=False, width=1 << 30)
    return f"items.{kind}: {text.strip()}"


def in_python(kind: str, entries: Mapping[str, Any]) -> str:
    """As an argument of `jurybox.run`."""
    return f"{kind}={dict(entries)!r}"


def as_options(kind: str, entries: Mapping[str, Any]) -> str:
    """As options of the command; what they cannot say stands in a config."""
    if kind != "fields":
        return f"in a config, {in_config(kind, entries)}"
    return shlex.join(word for name, column in entries.items() for word in ("--field", f"{name}={column}"))


@dataclass(frozen=True, slots=True)
class MissingColumns:
    """What all rows lack."""

    where: str
    faults: list[str]
    columns: list[str]
    fields: dict[str, str]
    """Field → the column that seems to hold it, or COLUMN."""
    labels: dict[str, dict[str, Any]]
    """Label → what the config would have to say of it."""

    def describe(self, remedy: Remedy = in_config) -> str:
        lines = [f"{self.where}: {'; '.join(self.faults)}"]
        if self.fields:
            lines.append(f"the columns are {', '.join(self.columns)}")
            lines.append(f"say which column is meant: {remedy('fields', self.fields)}")
        if self.labels:
            lines.append(f"say what each value means, null for no label: {remedy('labels', self.labels)}")
        return "\n  ".join(lines)


class MissingColumnsError(ItemError):
    """No row makes an item, all for the same reason."""

    def __init__(self, message: str, missing: MissingColumns | None = None) -> None:
        super().__init__(message)
        self.missing = missing


def find_missing(items: Items, judges: Sequence[Judge], base: Path) -> MissingColumns | None:
    """What the first rows all lack; None where that is nothing. InputError where they cannot be read."""
    profile = profile_columns(items, base, max_rows=_PEEK)
    wanted = {"response": "every judge"}
    for judge in judges:
        for name in fields_of_all_templates(judge):
            wanted.setdefault(name, judge.name)
    named = {name: items.fields.get(name, name) for name in wanted}
    lacking = [name for name in wanted if not (_has(profile, named[name]) or _published(profile, name, items))]
    faults = [f"there is no column {named[name]!r} for the {name} that {wanted[name]} needs" for name in lacking]
    fields = {name: _likely(profile, name, items) for name in lacking}
    labels = {}
    for name, label in items.labels.items():
        column = profile.columns.get(label.field)
        if column is not None and (entry := _unreadable(name, label, column)):
            labels[name] = entry
            said = ", ".join(map(repr, list(column.values)[:_MOST_VALUES]))
            faults.append(f"the label {name!r} (column {label.field!r}) is never true or false, but {said}")
    if not faults:
        return None
    return MissingColumns(", ".join(profile.files), faults, list(profile.columns), fields, labels)


def check_missing(items: Items, judges: Sequence[Judge], base: Path) -> None:
    """After an error: MissingColumnsError where all rows lack something."""
    missing = None
    with suppress(InputError):
        missing = find_missing(items, judges, base)
    if missing is not None:
        raise MissingColumnsError(missing.describe(), missing)


def _has(profile: ColumnProfile, column: str) -> bool:
    # A path may lead into a list, which the profile does not look into.
    return profile.has_column(column) or ("." in column and column.split(".")[0] in profile.columns)


def _published(profile: ColumnProfile, name: str, items: Items) -> bool:
    """Whether the documents come under the name that rows of RAGBench give them."""
    return name == "documents" and name not in items.fields and profile.has_column("documents_sentences")


def _likely(profile: ColumnProfile, name: str, items: Items) -> str:
    """The column that seems to be meant: one that is spelt much alike, else the one that `init` would guess."""
    used = set(items.fields.values())
    if name in items.fields and (near := difflib.get_close_matches(items.fields[name], profile.columns, n=1)):
        return near[0]
    guess = guess_columns(profile).get(name)
    return "COLUMN" if guess is None or guess.column in used else guess.column


def _unreadable(name: str, label: Label, column: ColumnStats) -> dict[str, Any]:
    """What to say of a label of which no value can be read as true or false; empty where some can."""
    if label.type != "bool" or column.given < _FEW:
        return {}
    read = label_reader(name, label)

    def is_read(text: str) -> bool:
        with suppress(ValueError):
            return read(text) is not None
        return False

    if any(map(is_read, column.values)):
        return {}
    if column.kind == "number":
        return {"field": label.field, "type": "ordinal"}
    return {"field": label.field, "map": {**label.map, **dict.fromkeys(list(column.values)[:_MOST_VALUES])}}
