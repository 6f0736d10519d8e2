"""The columns of one run's results: those that every run has, and those by its items, judges and labels.

Hides what they are called and of what type: an item's fields, a column for each score and each label, and the texts
that a judge's object holds beside its verdict. A name that is taken, or a word of SQL, gets `item_` before it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from judges import Judge, text_of
from judges.scoring import Scale
from runner.config import RunConfig
from runner.dataset import Staged
from runner.dataset.field_kinds import Kind

TIME = pl.Datetime("us", "UTC")
SCORES = pl.List(pl.Struct({"key": pl.String, "value": pl.Float64}))
LABELS = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
"""Labels of all types share one map; a value that is no string stands as JSON writes it (`true`, `3.5`)."""

IDENTITY: dict[str, Any] = dict.fromkeys(("item_id", "question_id", "system", "item_group"), pl.String)
OUTCOME: dict[str, Any] = {
    "judge": pl.String, "model": pl.String, "repeat": pl.Int64, "state": pl.String, "reason": pl.String,
}  # fmt: skip
ITEM_TEXTS = ("question", "response", "reference")
"""Fields that have a column in every run; what is no text stands as JSON writes it."""
REPLY_TEXTS = ("judge_reply", "reasoning_text")
SCORE, LABEL, REMARK = "score_", "label_", "verdict_"
_OWN = "item_"
_FIELD = "field:"
"""Before an item's own column while it stands among others."""

MOST_BYTES = 16 * 1024 * 1024
"""About so much of the items' fields is in a frame."""
LEAST_ROWS = 500

_DTYPES: dict[Kind, Any] = {
    "boolean": pl.Boolean, "integer": pl.Int64, "number": pl.Float64, "text": pl.String, "json": pl.String,
}  # fmt: skip
_SQL = """
    all alter analyse analyze and any array as asc asymmetric between both by case cast check collate column constraint
    create cross current_date current_time current_timestamp current_user default deferrable delete desc describe
    distinct do drop else end except exists false fetch for foreign from full grant group having in index initially
    inner insert intersect into is join lambda lateral leading left like limit natural not null offset on only or order
    outer pivot pivot_longer pivot_wider placing primary qualify references returning revoke right select session_user
    set show some summarize symmetric table then to trailing true union unique unpivot update user using values variadic
    when where window with
"""
RESERVED_WORDS = frozenset(_SQL.split())
"""Words that a database wants in quotes where they name a column."""


class ResultColumns:
    """Adds what is the run's own to frames of judged trials; `texts=False` leaves the long texts out."""

    def __init__(
        self,
        core: Mapping[str, Any],
        config: RunConfig,
        judges: Mapping[str, Judge],
        staged: Staged,
        *,
        texts: bool = True,
    ) -> None:
        """`core`: the columns that every run has, beginning with IDENTITY and OUTCOME."""
        self._core, self._judges = tuple(core), judges
        scales = [scale for judge in judges.values() for scale in _scales(judge).items()]
        names = dict.fromkeys(name for name, _ in scales)
        self._scores = {name: all(_is_whole(scale) for other, scale in scales if other == name) for name in names}
        kinds = staged.label_kinds
        self._labels = {
            name: pl.Boolean if label.type == "bool" else _DTYPES[kinds.get(name, "text")]
            for name, label in config.items.labels.items()
        }
        remarks = [name for judge in judges.values() for name in judge.remark_fields]
        self._remarks = dict.fromkeys(remarks) if texts else {}
        flat: dict[str, Any] = {
            **{f"{SCORE}{name}": pl.Int64 if whole else pl.Float64 for name, whole in self._scores.items()},
            **{f"{LABEL}{name}": dtype for name, dtype in self._labels.items()},
            **{f"{REMARK}{name}": pl.String for name in self._remarks},
        }
        identity = {config.items.fields.get(name, name) for name in ("id", "question_id", "system", "group")}
        fields = [name for name in staged.field_kinds if name not in identity and name not in ITEM_TEXTS]
        named = _name_columns(fields, (*core, *ITEM_TEXTS, *flat))
        self._fields: dict[str, tuple[str, Kind]] = {name: (name, "json") for name in ITEM_TEXTS if texts}
        for name, column in named.items():
            kind = staged.field_kinds[name]
            if texts or kind not in ("text", "json"):
                self._fields[column] = name, kind
        own = {column: _DTYPES[kind] for column, (_, kind) in self._fields.items()}
        left_out = () if texts else REPLY_TEXTS
        rest = {name: kind for name, kind in core.items() if name not in IDENTITY and name not in OUTCOME}
        rest = {name: kind for name, kind in rest.items() if name not in left_out}
        self.schema: dict[str, Any] = {**IDENTITY, **own, **OUTCOME, **flat, **rest}
        """Column → type, in their order."""
        self.needs_fields = bool(self._fields)
        self.rows_per_frame = max(LEAST_ROWS, MOST_BYTES // max(1, staged.mean_row_bytes() if own else 1))

    def add_fields(self, items: pl.DataFrame) -> pl.DataFrame:
        """Staged items with a column for each field in the place of their JSON, for `complete`."""
        # Not orjson: it makes floats of whole numbers beyond 64 bits.
        rows = [json.loads(text) for text in items["fields"]]
        columns = [
            pl.Series(f"{_FIELD}{column}", [_as_kind(row.get(name), kind) for row in rows], _DTYPES[kind])
            for column, (name, kind) in self._fields.items()
        ]
        return items.drop("fields").with_columns(columns)

    def complete(self, trials: pl.DataFrame) -> pl.DataFrame:
        """Trials, with their items' fields, in all columns."""
        scores = [
            _entry("scores", name).cast(pl.Int64 if whole else pl.Float64).alias(f"{SCORE}{name}")
            for name, whole in self._scores.items()
        ]
        labels = [_typed_label(name, dtype).alias(f"{LABEL}{name}") for name, dtype in self._labels.items()]
        own = [pl.col(f"{_FIELD}{column}").alias(column) for column in self._fields]
        return trials.select(*self._core, *own, *scores, *labels, *self._read_remarks(trials)).select(*self.schema)

    def _read_remarks(self, trials: pl.DataFrame) -> list[pl.Series]:
        columns: dict[str, list[str | None]] = {name: [None] * len(trials) for name in self._remarks}
        if columns:
            for place, (judge, state, reply) in enumerate(trials.select("judge", "state", "judge_reply").iter_rows()):
                if state == "scored" and reply is not None:
                    for name, text in self._judges[judge].read_remarks(reply).items():
                        columns[name][place] = text.encode("utf-8", "backslashreplace").decode()
        return [pl.Series(f"{REMARK}{name}", texts, pl.String) for name, texts in columns.items()]


def without_texts(schema: Mapping[str, Any]) -> list[str]:
    """The columns of published results that `texts=False` would have had."""
    names = list(schema)
    first = names.index("judge")
    own = [name for name in names[len(IDENTITY) : first] if schema[name] != pl.String]
    rest = [name for name in names[first:] if name not in REPLY_TEXTS and not name.startswith(REMARK)]
    return [*IDENTITY, *own, *rest]


def _name_columns(fields: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Field → the name of its column; databases do not tell names apart by their case."""
    used = {name.casefold() for name in taken} | RESERVED_WORDS
    columns = {}
    for field in fields:
        column = field if field.casefold() not in used else f"{_OWN}{field}"
        while column.casefold() in used:
            column += "_"
        used.add(column.casefold())
        columns[field] = column
    return columns


def _scales(judge: Judge) -> Mapping[str, Scale]:
    return judge.scales() if not judge.code else {name: Scale(binary=False) for name in judge.scales()}


def _is_whole(scale: Scale) -> bool:
    """Whether every score on it is a whole number."""
    step, low = scale.step, scale.low or 0.0
    return scale.binary or (step is not None and float(step).is_integer() and float(low).is_integer())


def _as_kind(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    return text_of(value) if kind == "json" else float(value) if kind == "number" else value


def _entry(column: str, name: str) -> pl.Expr:
    """The value of a map's entry; null where it has none of that name."""
    own = pl.element().struct
    return pl.col(column).list.eval(own.field("value").filter(own.field("key") == name)).list.first()


def _typed_label(name: str, dtype: Any) -> pl.Expr:
    text = _entry("labels", name)
    return text == "true" if dtype == pl.Boolean else text.cast(dtype)
