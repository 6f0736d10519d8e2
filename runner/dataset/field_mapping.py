"""A row of a file turned into an item: which column means what, whose answer it is, what its id is, its labels.

Hides the rules for columns that the config does not name: a canonical field is the column of its own name, every other
column stays a field of its own name, label columns are kept out of the fields, an item without an id is known by a
digest of its content, and its question by its text.
"""

import difflib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from judges import Item
from judges.item import CANONICAL_FIELDS
from runner.errors import ConfigError
from runner.items_config import Items
from runner.labels import label_reader

from .files import Record

DEFAULT_SYSTEM = "default"

_IDENTITY = ("id", "question_id", "system", "group")
_PUBLISHED_SENTENCES = "documents_sentences"
"""Where published rows of RAGBench have the keyed sentences of `documents`: a judge that wants such takes them."""
_ABSENT: Any = object()
_PLACE = re.compile(r"[0-9]{1,9}")

Lookup = Callable[[Mapping[str, Any]], Any]


class BadRowError(Exception):
    """The row makes no item; the message says why."""


class MappedRow(NamedTuple):
    """An item, and its parts as they are stored."""

    item: Item
    fields: bytes
    labels: bytes
    content: bytes
    """Digest of all that belongs to the item besides its identity."""


def find_value(column: str) -> Lookup:
    """How a column is found in a row: by its literal name, else as a dotted path into nested columns.

    In a list a part of the path is a place, counted from 0: `annotators.0`.
    """
    parts = column.split(".")

    if len(parts) == 1:
        return lambda row: row.get(column, _ABSENT)

    def nested(row: Mapping[str, Any]) -> Any:
        if column in row:
            return row[column]
        value: Any = row
        for part in parts:
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list) and _PLACE.fullmatch(part) and int(part) < len(value):
                value = value[int(part)]
            else:
                return _ABSENT
        return value

    return nested


def as_identifier(value: Any, name: str) -> str:
    """An identifier as text: strings as they are, integers in decimal."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadRowError(f"{name} must be a text or a whole number, not {_abbreviate(value)}")


class FieldMap:
    """The `fields` and `labels` of the config, applied to rows."""

    def __init__(self, items: Items) -> None:
        self._named = frozenset(items.fields)
        self._columns = {name: items.fields.get(name, name) for name in _IDENTITY}
        self._identity = {name: find_value(column) for name, column in self._columns.items()}
        content = {name: column for name, column in items.fields.items() if name not in _IDENTITY}
        self._content = [(name, column, find_value(column)) for name, column in content.items()]
        self._digest_fields = tuple(dict.fromkeys((*CANONICAL_FIELDS, *(name for name, _, _ in self._content))))
        labels = items.labels.items()
        # Other documents are mapped than those whose sentences these are.
        self._drops_sentences = "documents" in items.fields and _PUBLISHED_SENTENCES not in items.fields
        self._labels = [
            (name, label.field, find_value(label.field), label_reader(name, label)) for name, label in labels
        ]
        # nq301 of OpenQA-eval: a column `id` that holds the question's id cannot be the answer's id as well.
        self._digest_only = "id" not in items.fields and items.fields.get("question_id") == "id"
        self._missing_columns = {
            **{f"items.fields.{name}": column for name, column in items.fields.items()},
            **{f"items.labels.{name}.field": label.field for name, label in labels},
        }
        self._lookups = {column: find_value(column) for column in self._missing_columns.values()}
        self._columns_of_rows: dict[str, None] = {}
        self._has_column: dict[str, bool] = {}
        """id, question_id, system → whether the rows have it."""
        self.unnamed_questions = 0
        """Rows of which nothing says what question they answer."""
        self._has_good_row = False
        self.stripped_systems: Counter[str] = Counter()
        """Names of systems with blanks around them, which they lose → rows."""

    def item(self, own: Record, joined: Record | None, system: str | None) -> MappedRow:
        """The item of a row. `joined` fills in columns that the row itself lacks; `system` is what the file says."""
        if self._has_good_row:
            return self._item(own, joined, system)
        try:
            mapped = self._item(own, joined, system)
        except BadRowError:
            self._has_column.clear()  # a row that makes no item says nothing of those after it
            raise
        self._has_good_row = True
        return mapped

    def _item(self, own: Record, joined: Record | None, system: str | None) -> MappedRow:
        row = {**joined, **own} if joined else own
        if self._missing_columns:
            self._record_columns(row)
        if system is None:
            system, row = self._system(row)
        labels = self._read_labels(row)
        fields = self._map_fields(row)
        question_id = self._identifier("question_id", row)
        item_id = None if self._digest_only else self._identifier("id", own if "id" not in self._named else row)
        if item_id is None:
            content = [[name, fields[name]] for name in self._digest_fields if name in fields]
            item_id = hashlib.blake2b(as_stored_value([content, question_id]), digest_size=16).hexdigest()
            if question_id is None:
                question_id = self._question_of(fields, joined)
        group = self._identity["group"](row)
        if group is _ABSENT or group is None or group == "":
            group = None
        else:
            group = as_identifier(group, f"group (column {self._columns['group']!r})")
        item = Item(item_id, item_id if question_id is None else question_id, system, group, fields, labels)
        field_bytes, label_bytes = as_stored_value(fields), as_stored_value(labels) if labels else b"{}"
        digest = hashlib.blake2b(field_bytes, digest_size=16)
        question = item.question_id.encode()
        # Lengths keep the parts apart, and a null group differs from an empty text.
        rest = b"%d:%b%d:%b" % (len(label_bytes), label_bytes, len(question), question)
        digest.update(rest if group is None else b"%b:%b" % (rest, group.encode()))
        return MappedRow(item, field_bytes, label_bytes, digest.digest())

    @property
    def digests(self) -> bool:
        """Whether the rows have no id of their own."""
        return self._digest_only or self._has_column.get("id") is False

    def known_id(self, row: Record | None) -> str | None:
        """The id of a row that may be no item, to name it in an error."""
        value = None if row is None or self._digest_only else self._identity["id"](row)
        return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None

    def column(self, name: str) -> str:
        """The column that a field is read from."""
        return next((column for field, column, _ in self._content if field == name), name)

    def check_response(self, name: str, fields: Mapping[str, Any]) -> None:
        """BadRowError where a field that is a response is a list or a mapping, of which it may be a part."""
        if isinstance(value := fields.get(name), list | dict):
            kind, path = ("list", "0") if isinstance(value, list) else ("mapping", next(iter(value), "text"))
            column = self.column(name)
            what = "the response" if name == "response" else repr(name)
            raise BadRowError(
                f"{what} (column {column!r}) is a {kind}, not a text: "
                f"map a path inside it, as in {name}: {column}.{path}"
            )

    def check_columns(self) -> None:
        """After the last row: a column that the config names and no row ever had is a mistake of the config."""
        for key, column in self._missing_columns.items():
            near = difflib.get_close_matches(column, self._columns_of_rows, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"the rows have {', '.join(self._columns_of_rows)}"
            raise ConfigError(f"{key}: no row has a column {column!r}; {meant}")

    def _read_labels(self, row: Record) -> dict[str, Any]:
        labels = {}
        for name, _, find, read in self._labels:
            raw = find(row)
            try:
                value = None if raw is _ABSENT else read(raw)
            except ValueError as error:
                raise BadRowError(f"{error}, not {_abbreviate(raw)}") from None
            if value is not None:
                labels[name] = value
        return labels

    def _map_fields(self, row: Record) -> dict[str, Any]:
        fields = dict(row)
        for _, column, _, _ in self._labels:
            fields.pop(column if column in row else column.split(".")[0], None)
        mapped = [(name, find(row)) for name, _, find in self._content]
        for name, column, _ in self._content:
            fields.pop(column, None)
            fields.pop(name, None)
        fields.update((name, value) for name, value in mapped if value is not _ABSENT)
        if self._drops_sentences:
            fields.pop(_PUBLISHED_SENTENCES, None)
        self.check_response("response", fields)
        if "response" not in fields:
            column = self.column("response")
            if column in row:
                reason = "takes it for something else: response must be named under items.fields as well"
                raise BadRowError(f"no response: the row has the column {column!r}, but the config {reason}")
            raise BadRowError(f"no response: the row has no column {column!r}")
        # Sorted, so that the order of a file's columns changes neither the stored bytes nor any digest.
        return dict(sorted(fields.items()))

    def _question_of(self, fields: dict[str, Any], joined: Record | None) -> str | None:
        """What stands for the question of a row without ids: its text, else the reference row; None: nothing does."""
        text = fields.get("question")
        if isinstance(text, str) and text.strip():
            return hashlib.blake2b(as_stored_value(text), digest_size=16).hexdigest()
        if joined is not None:
            return hashlib.blake2b(as_stored_value(dict(sorted(joined.items()))), digest_size=16).hexdigest()
        self.unnamed_questions += 1
        return None

    def _system(self, row: Record) -> tuple[str, Record]:
        """Whose answer it is; blanks around a name make no system of its own, here and in the row's own column."""
        system = self._identifier("system", row) or DEFAULT_SYSTEM
        if (name := system.strip()) == system:
            return system, row
        column = self._columns["system"]
        as_identifier(name, f"system (column {column!r})")
        self.stripped_systems[system] += 1
        return name, row | ({column: name} if column in row else {})

    def _identifier(self, name: str, row: Record) -> str | None:
        value = self._identity[name](row)
        present = value is not _ABSENT
        if self._has_column.get(name) is not present:
            self._check_presence(name, present)
        if not present:
            return None
        if type(value) is str and value:
            return value
        column = self._columns[name]
        return as_identifier(value, name if column == name else f"{name} (column {column!r})")

    def _check_presence(self, name: str, present: bool) -> None:
        """Ids, question ids and systems are in all rows or in none: the first row, or the config, says which."""
        if self._has_column.setdefault(name, present or name in self._named) is present:
            return
        column = self._columns[name]
        if present:
            raise BadRowError(f"the row has a column {column!r}, which rows before it lack: {name} is for all or none")
        raise BadRowError(f"no {name}: the row has no column {column!r}")

    def _record_columns(self, row: Record) -> None:
        self._columns_of_rows.update(dict.fromkeys(list(row)[:50]))
        for key, column in list(self._missing_columns.items()):
            if self._lookups[column](row) is not _ABSENT:
                del self._missing_columns[key]


def as_stored_value(value: Any) -> bytes:
    """A value as it is stored: JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:  # whole numbers beyond 64 bits, which orjson does not write
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _abbreviate(value: Any) -> str:
    if value is None:
        return "null"
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
