"""The directory of staged items: rows appended in their order and read back by row number, and their summary.

Hides the Parquet files and their row groups. Files are bounded in rows, row groups in rows and bytes, so that neither
writing nor reading a slice holds more than a few row groups in memory.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from judges import Item
from runner.errors import ItemError
from runner.filesystem import restore_directory, sync, write_durably

from .field_kinds import Kind
from .item_profile import ItemFacts
from .sampling import SampleSummary

if TYPE_CHECKING:
    import polars
    import pyarrow

GROUP_ROWS = 2_000
GROUP_BYTES = 16 * 1024 * 1024
FILE_ROWS = 1_000_000
_CACHED_GROUPS = 4
# Readers of a folder of Parquet files pass over names that begin so.
REJECTS = "_rejects.jsonl"
_STAGE = "_stage.json"
LAYOUT = 4
"""Version of the directory's layout; others are not read."""


class StagedWriter:
    """Appends rows to the Parquet files of a directory. Columns: those of design.md, in the order of `columns`."""

    def __init__(self, directory: Path, judges: Sequence[str], before: StagedSummary | None = None) -> None:
        """`before`: what stands in the directory already; these rows follow."""
        import pyarrow

        of_judges = [f"{kind}:{name}" for kind in ("template", "suspect") for name in judges]
        # What is JSON is text: pandas and DuckDB read that.
        names = ("row", "id", "question_id", "system", "item_group", "fields", "labels", *of_judges)
        self._schema = pyarrow.schema(
            [(name, pyarrow.int64() if name == "row" else pyarrow.string()) for name in names]
        )
        self._directory = directory
        self._repetitive = ["system", "item_group", "labels", *of_judges]
        self._pending: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._writer: Any = None
        self.rows: int = before.rows if before else 0
        self.files: list[int] = list(before.files) if before else []

    def add(self, values: Sequence[Any], size: int) -> None:
        """A row: id, question_id, system, item_group, fields, labels, a template and the signs per judge.

        `size` is about its bytes.
        """
        self._pending.append((self.rows, *values))
        self.rows += 1
        self._bytes += size
        if len(self._pending) >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left, and make all files durable."""
        self._flush()
        self._end_file()

    def _flush(self) -> None:
        import pyarrow.parquet

        if not self._pending:
            return
        if self._writer is None:
            self.files.append(0)
            options = {"compression": "zstd", "use_dictionary": self._repetitive, "write_statistics": ["row"]}
            self._writer = pyarrow.parquet.ParquetWriter(self._path(), self._schema, **options)
        by_column = zip(zip(*self._pending, strict=True), self._schema.types, strict=True)
        columns = [pyarrow.array(values, type=kind) for values, kind in by_column]
        self._writer.write_batch(pyarrow.record_batch(columns, schema=self._schema))
        self.files[-1] += len(self._pending)
        self._pending.clear()
        self._bytes = 0
        if self.files[-1] >= FILE_ROWS:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._path().chmod(0o600)
            sync(self._path())

    def _path(self) -> Path:
        return self._directory / _file_name(len(self.files) - 1)


class RowReader:
    """Reads rows by their numbers. Decoded row groups are kept: shards follow one another, several to a group."""

    def __init__(self, directory: Path, rows: Sequence[int]) -> None:
        self._directory = directory
        self._starts = list(accumulate(rows, initial=0))[:-1]
        self._file = lru_cache(maxsize=1)(self._open_file)
        self._group = lru_cache(maxsize=_CACHED_GROUPS)(self._read_group)

    def slices(self, first: int, rows: int, columns: list[str] | None) -> list[pyarrow.Table]:
        """Tables that hold these rows, in order; one empty table where there are none."""
        names = None if columns is None else tuple(columns)
        number = max(0, bisect_right(self._starts, first) - 1)
        if rows == 0:
            return [self._group(0, 0, names).slice(0, 0)]
        parts = []
        while rows > 0:
            _, starts = self._file(number)
            at = first - self._starts[number]
            group = bisect_right(starts, at) - 1
            if group == len(starts) - 1:  # the last start is the file's end
                number += 1
                continue
            part = self._group(number, group, names).slice(at - starts[group], rows)
            parts.append(part)
            first += part.num_rows
            rows -= part.num_rows
        return parts

    def bytes(self) -> int:
        """What all rows take in memory, about."""
        files = (self._file(number)[0].metadata for number in range(len(self._starts)))
        return sum(file.row_group(group).total_byte_size for file in files for group in range(file.num_row_groups))

    def _open_file(self, number: int) -> tuple[Any, list[int]]:
        """The file, and the first row of each of its groups, at last its end."""
        file = _open_parquet(self._directory / _file_name(number))
        lengths = (file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups))
        return file, list(accumulate(lengths, initial=0))

    def _read_group(self, number: int, group: int, names: tuple[str, ...] | None) -> pyarrow.Table:
        table = self._file(number)[0].read_row_group(group, columns=names and list(names), use_threads=False)
        return table if names is None else table.select(names)


def read_rows(directory: Path, columns: list[str] | None = None) -> Iterator[tuple[Any, ...]]:
    """Every row of a directory: its number and what was added, or these columns of it."""
    for path in _paths(directory):
        with _open_parquet(path) as file:
            for batch in file.iter_batches(batch_size=GROUP_ROWS, columns=columns, use_threads=False):
                names = columns or batch.schema.names
                yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def read_ids(directory: Path, rows: Sequence[int]) -> list[str]:
    """The ids of a few rows."""
    reader = RowReader(directory, [_open_parquet(path).metadata.num_rows for path in _paths(directory)])
    return [str(reader.slices(row, 1, ["id"])[0].column("id")[0]) for row in rows]


def replace_rows(directory: Path, fresh: Path) -> None:
    """Put the files of `kept`, a folder of `directory`, in the place of the directory's own."""
    for path in _paths(directory):
        path.unlink()
    for path in _paths(fresh):
        path.rename(directory / path.name)
    fresh.rmdir()


def _open_parquet(path: Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path)


def _paths(directory: Path) -> list[Path]:
    return sorted(directory.glob("part-*.parquet"))


def _file_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


@dataclass
class StagedSummary:
    """What _stage.json holds: what was staged from what, and what was left out."""

    signature: dict[str, Any]
    """What `input_signature` gave when the inputs were read."""
    rows: int
    """Items; the rows of control items follow theirs."""
    duplicates: int
    """Rows left out since another row of the same (system, id) says the same."""
    copies: int
    """Rows that repeat others word for word and have no id: each is an item of its own."""
    rejects: int
    """Bad rows left out under `on_bad: skip`, each listed in _rejects.jsonl."""
    coverage: dict[str, tuple[int, int]]
    """System → (distinct questions with a staged row, questions)."""
    empty: dict[str, int]
    """System → staged rows whose response is empty or null."""
    judges: dict[str, dict[str, Any]]
    """Judge → `trials`, `unrouted`, `cautions` (text → items), `fingerprint`."""
    files: list[int]
    """Rows of each Parquet file."""
    several: dict[str, int]
    """System → questions to which it has several answers, where there are any."""
    facts: ItemFacts = field(default_factory=ItemFacts)
    sample: SampleSummary | None = None
    """The rows are a sample of those that there were."""
    controls: int = 0
    limit: int | None = None
    """Only so many of the rows are judged, the first ones; None: all are."""
    beyond_limit: list[str] = field(default_factory=list)
    """Systems without a row among those."""
    field_kinds: dict[str, Kind] = field(default_factory=dict)
    """Field → of what kind its values are."""
    label_kinds: dict[str, Kind] = field(default_factory=dict)
    """Label → of what kind its values are."""


class StagedItem(NamedTuple):
    """A staged row that a judge routes, without its labels."""

    row: int
    id: str
    question_id: str
    system: str
    group: str | None
    fields: bytes
    """JSON object."""
    template: str

    def parse(self) -> Item:
        return parse_item(self.id, self.question_id, self.system, self.group, self.fields)


def parse_item(
    item_id: str, question_id: str, system: str, group: str | None, fields: str | bytes, labels: str | bytes = "{}"
) -> Item:
    # Not orjson: it makes floats of whole numbers beyond 64 bits.
    return Item(item_id, question_id, system, group, json.loads(fields), json.loads(labels))


class Staged(StagedSummary):
    """Staged items, read in slices by row number."""

    def __init__(self, directory: Path, summary: StagedSummary) -> None:
        super().__init__(**vars(summary))
        self.directory = directory
        self._reader = RowReader(directory, summary.files)

    def frame(self, first_row: int, rows: int, columns: list[str] | None = None) -> polars.DataFrame:
        """The rows from `first_row` on, as many as there are up to `rows`, all columns unless some are named.

        Slices that follow one another are cheap: the last few row groups stay decoded.
        """
        import polars

        frames = [polars.DataFrame(polars.from_arrow(part)) for part in self._slices(first_row, rows, columns)]
        return polars.concat(frames, rechunk=False)

    def items(
        self, first_row: int, rows: int, judge: str, *, only: Collection[int] | None = None, fields: bool = True
    ) -> Iterator[StagedItem]:
        """Those of the rows from `first_row` on that the judge routes. `only`: of these row numbers.

        Without `fields` the column, which holds nearly all bytes, is not read, and the items have none.
        """
        import polars

        names = ["row", "id", "question_id", "system", "item_group"]
        template = f"template:{judge}"
        frame = self.frame(first_row, rows, [*names, *(["fields"] if fields else []), template])
        if only is not None:
            frame = frame.filter(frame["row"].is_in(list(only)))
        content = polars.col("fields").cast(polars.Binary) if fields else polars.lit(b"{}").alias("fields")
        for row in frame.select(*names, content, template).iter_rows():
            if row[-1] is not None:
                yield StagedItem._make(row)

    def mean_row_bytes(self) -> int:
        """What a row takes in memory, about."""
        return self._reader.bytes() // max(1, self.rows + self.controls)

    def is_control(self, row: int) -> bool:
        return row >= self.rows

    def trial_counts(self, judge: str, first_row: int, rows: int) -> int:
        """How many of those rows the judge routes."""
        column = f"template:{judge}"
        parts = self._slices(first_row, rows, [column])
        return sum(part.num_rows - part.column(column).null_count for part in parts)

    def _slices(self, first_row: int, rows: int, columns: list[str] | None) -> list[pyarrow.Table]:
        return self._reader.slices(first_row, max(0, min(rows, self.rows + self.controls - first_row)), columns)


def save_summary(directory: Path, summary: StagedSummary) -> None:
    """Write _stage.json, the last file of a staged directory."""
    with write_durably(directory / _STAGE) as file:
        document = {"version": LAYOUT, **asdict(summary)}
        file.write(json.dumps(document, ensure_ascii=False, indent=1).encode())


def load_staged(directory: Path) -> Staged:
    """The staged items of a directory that `stage` wrote."""
    restore_directory(directory)
    try:
        data: Mapping[str, Any] = json.loads((directory / _STAGE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ItemError(f"{directory}: holds no staged items ({error})") from None
    if data.get("version") != LAYOUT:
        raise ItemError(
            f"{directory / _STAGE}: staged items of version {data.get('version')}, and this jurybox reads version"
            f" {LAYOUT} only; use the jurybox that wrote it, or start anew with --out"
        )
    summary = StagedSummary(**{name: value for name, value in data.items() if name != "version"})
    summary.coverage = {system: (answered, total) for system, (answered, total) in data["coverage"].items()}
    summary.facts = ItemFacts(**data["facts"])
    for counts in (summary.facts.blank, summary.facts.missing_fields):
        counts.update({name: (rows, uses, place) for name, (rows, uses, place) in counts.items()})
    summary.sample = None if data["sample"] is None else SampleSummary(**data["sample"])
    return Staged(directory, summary)
