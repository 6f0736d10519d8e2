"""Inputs → staged items: one pass over all rows, before anything is paid.

Every row is mapped, joined, routed through every judge and checked; what is wrong stops the run or is listed. What is
left stands in Parquet files under row numbers, each item once; the directory replaces the old one when it is whole.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from judges import Item, Judge
from runner.config import RunConfig
from runner.errors import ConfigError, InputError, ItemError
from runner.filesystem import open_private, replace_directory, sync
from runner.items_config import Items
from runner.labels import check_labels

from .controls import ControlSelector, kinds_for
from .deduplication import DuplicateCounts, DuplicateDetector, SourceLocation
from .field_kinds import FieldKinds
from .field_mapping import BadRowError, as_stored_value
from .files import RowError, conversion_advice
from .item_builder import ItemBuilder, Reference
from .item_profile import ItemProfile
from .missing_columns import check_missing
from .sampling import ItemSampler, Sample, SampleSummary
from .sources import Source, item_sources, reference_sources, signature_of
from .staged_items import (
    REJECTS,
    Staged,
    StagedSummary,
    StagedWriter,
    load_staged,
    parse_item,
    read_ids,
    read_rows,
    replace_rows,
    save_summary,
)

_MAX_LISTED = 10
_ID_CHARACTERS = 80
_ROW_OVERHEAD = 200
"""Bytes of a staged row besides its fields."""


class _Rejects:
    """Lists every bad row. Under `on_bad: stop` the tenth raises an error with the first few, or `check` at the end."""

    def __init__(self, directory: Path, on_bad: Literal["stop", "skip"]) -> None:
        self._stop = on_bad == "stop"
        self._path = directory / REJECTS
        self._file = open_private(self._path)
        self._first: list[str] = []
        self._problems: set[str] = set()
        self._advice = ""
        self.count = 0
        self.good = 0
        """Rows that were not bad."""

    def add(self, file: str, line: int, item_id: str | None, problem: str) -> None:
        self.count += 1
        self._problems.add(problem)
        if self.count <= _MAX_LISTED:
            self._advice = self._advice or conversion_advice(problem, file)
        if len(self._first) < _MAX_LISTED:
            name = "" if item_id is None else f" {item_id[:_ID_CHARACTERS]}:"
            # An id may hold what no terminal prints, such as half a surrogate pair.
            self._first.append(f"{file}:{line}:{name} {problem}".encode("utf-8", "backslashreplace").decode())
        self._file.write(json.dumps({"file": file, "line": line, "id": item_id, "problem": problem}) + "\n")
        if self._stop and self.count == _MAX_LISTED:
            self.check(complete=False)

    def check(self, complete: bool = True) -> None:
        """ItemError if rows were rejected and the config says to stop. `complete`: all rows have been looked at."""
        if self._stop and self.count:
            if not self.good and len(self._problems) == 1 < self.count:
                rows = f"all {self.count}" if complete else f"the first {self.count}"
                raise ItemError(f"{self._first[0]}\n  and the same in {rows} rows; nothing was asked")
            head = f"{self.count} bad row{'s' * (self.count > 1)}" if complete else f"the first {_MAX_LISTED} bad rows"
            raise ItemError(
                f"{head}; nothing was asked\n{self.listing()}\n"
                "Mend them, or set items.on_bad: skip to leave them out (they are then listed and counted)"
                + self._advice
            )

    def listing(self) -> str:
        return "\n".join(f"  {line}" for line in self._first)

    def close(self) -> None:
        self._file.close()
        sync(self._path)


def stage(
    config: RunConfig,
    judges: Sequence[Judge],
    base: Path,
    directory: Path,
    sample: Sample | None = None,
    limit: int | None = None,
) -> Staged:
    """Stage the items of a config, or a sample of them, into `directory`.

    Control items are made of the first `limit` items that are left. A crash or an error leaves what stood there as it
    was.
    """
    items = config.items
    if items.empty_response == "wrong" and (graded := [judge.name for judge in judges if not judge.binary]):
        raise ConfigError(f"items.empty_response: wrong is for binary judges only; {graded[0]!r} is not")
    check_labels(items.labels, judges)
    kinds = kinds_for(config, judges)
    sources, references = item_sources(items, base), reference_sources(items, base)
    # Taken before the files are read: a file that changes meanwhile is then seen as changed by the next run.
    signature = signature_of(items, [*sources, *references])
    reference = None if items.join is None else Reference(items.join, references)
    with replace_directory(directory) as fresh:
        staging = _Staging(items, judges, sources, reference, fresh, sample)
        try:
            summary = staging.run(signature, limit)
        except InputError:
            check_missing(items, judges, base)
            raise
        if kinds:
            among = summary.rows if summary.limit is None else summary.limit
            controls = ControlSelector(config.controls, among, config.seed, judges, kinds)
            summary = staging.add_controls(summary, controls, among)
        save_summary(fresh, summary)
    return load_staged(directory)


class _ItemCounts:
    """Counts of items per judge and per system; an item can be subtracted again."""

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._cautions = [judge.cautions for judge in judges]
        self.judges: list[dict[str, Any]] = [
            {"trials": 0, "unrouted": 0, "cautions": {}, "fingerprint": judge.fingerprint} for judge in judges
        ]
        self.empty: dict[str, int] = {}

    def add(self, item: Item, templates: Sequence[str | None], times: int = 1) -> None:
        """Count an item, or with `times=-1` subtract it."""
        for counts, template, cautions in zip(self.judges, templates, self._cautions, strict=True):
            counts["unrouted" if template is None else "trials"] += times
            for condition, text in cautions:
                if template is not None and condition.matches(item):
                    counts["cautions"][text] = counts["cautions"].get(text, 0) + times
        if item.response_is_empty:
            self.empty[item.system] = self.empty.get(item.system, 0) + times


class _Staging:
    """The one pass over all rows, and what it has to remember."""

    def __init__(
        self,
        items: Items,
        judges: Sequence[Judge],
        sources: Sequence[Source],
        reference: Reference | None,
        directory: Path,
        sample: Sample | None,
    ) -> None:
        self._items = items
        self._judges = judges
        self._sources = sources
        self._directory = directory
        self._builder = ItemBuilder(items, judges, reference)
        self._sample = sample
        self._counts = _ItemCounts(judges)
        self._profile = ItemProfile(items, judges)
        self._field_kinds, self._label_kinds = FieldKinds(), FieldKinds()
        self._rejects = _Rejects(directory, items.on_bad)
        self._duplicates = DuplicateDetector(directory / "duplicates", reference, items.systems or ())
        self._judged = bytearray()
        """A flag per row as it was read: it is left, and among those that are judged."""

    def run(self, signature: dict[str, Any], limit: int | None) -> StagedSummary:
        """Stage all rows, then leave out those that stand twice and those that are not in the sample.

        Counts are of the first `limit` rows that are left: of others nothing is said.
        """
        with closing(self._rejects), closing(self._writer(self._directory)) as writer:
            for number, source in enumerate(self._sources):
                with closing(source.rows()) as rows:
                    for line, row in rows:
                        self._add(row, source, SourceLocation(number, line), writer)
            self._rejects.check()
            duplicates = self._duplicates.find(writer.rows, keep_copies=self._builder.fields.digests)
            writer.close()
            if duplicates.conflicts and self._items.on_bad == "stop":
                raise ItemError(self._describe_conflicts(duplicates))
            if duplicates.dropped or duplicates.copies:
                writer = self._settle_duplicates(duplicates)
            drawn = None
            if self._sample is not None and writer.rows:
                writer, drawn = self._draw_sample(self._sample, writer.rows)
        if writer.rows == 0:
            rejected = f": all {self._rejects.count} rows were rejected\n{self._rejects.listing()}"
            names = ", ".join(source.name for source in self._sources)
            raise ItemError(f"{names}: no item is left" + (rejected if self._rejects.count else ""))
        self._builder.fields.check_columns()
        self._builder.check_routes()
        if self._items.join is not None and self._items.join.expect == "all":
            self._duplicates.check_answered()
        if limit is not None and limit < writer.rows:
            self._count_first(limit)
        else:
            limit = None
        facts = self._profile.facts(dict(self._builder.fields.stripped_systems))
        facts.unnamed_questions = self._builder.fields.unnamed_questions
        for name, (blank, uses, place) in facts.blank.items():
            if blank == uses and name in ("question", "reference"):
                column = self._builder.fields.column(name)
                raise ItemError(
                    f"{place}: {name} (column {column!r}) is blank, as in every row whose prompt uses it: "
                    f"map items.fields.{name} to the column that holds it, or take a judge that does without"
                )
        coverage, several = self._duplicates.count_answers(self._judged, whole=limit is None and drawn is None)
        beyond = [] if limit is None else sorted(system for system, (answered, _) in coverage.items() if not answered)
        self._duplicates.close()
        return StagedSummary(
            signature, writer.rows, duplicates.repeated, duplicates.copies, self._rejects.count,
            {system: answers for system, answers in coverage.items() if system not in beyond}, self._counts.empty,
            judges={judge.name: counts for judge, counts in zip(self._judges, self._counts.judges, strict=True)},
            files=writer.files, several=several, facts=facts, sample=drawn, limit=limit, beyond_limit=beyond,
            field_kinds=self._field_kinds.kinds(), label_kinds=self._label_kinds.kinds(),
        )  # fmt: skip

    def add_controls(self, summary: StagedSummary, controls: ControlSelector, among: int) -> StagedSummary:
        """After `run`: add the control items of the first `among` rows behind all others."""
        for row, *values in read_rows(self._directory):
            if row < among:
                controls.add(row, parse_item(*values[:6]), self._templates(values))
        rows = controls.rows()
        # The rows are read while others are written: those go to files of their own.
        with closing(self._writer(self._directory, summary)) as writer:
            for row, *values in read_rows(self._directory):
                if row in rows:
                    for item, templates in controls.make(parse_item(*values[:6]), self._templates(values)):
                        self._write(writer, item, as_stored_value(item.fields), b"{}", templates)
        kinds = self._field_kinds.kinds()
        return replace(summary, controls=writer.rows - summary.rows, files=writer.files, field_kinds=kinds)

    def _writer(self, directory: Path, before: StagedSummary | None = None) -> StagedWriter:
        return StagedWriter(directory, [judge.name for judge in self._judges], before)

    def _write(
        self, writer: StagedWriter, item: Item, fields: bytes, labels: bytes, templates: Sequence[str | None]
    ) -> None:
        self._field_kinds.add(item.fields)
        signs = self._builder.signs(item, templates)
        values = (item.id, item.question_id, item.system, item.group, fields, labels, *templates, *signs)
        writer.add(values, len(fields) + _ROW_OVERHEAD)

    def _templates(self, values: Sequence[Any]) -> Sequence[str | None]:
        return values[6 : 6 + len(self._judges)]

    def _add(self, row: dict[str, Any] | RowError, source: Source, at: SourceLocation, writer: StagedWriter) -> None:
        try:
            mapped, match, templates = self._builder.build(row, source.system)
        except BadRowError as error:
            item_id = self._builder.fields.known_id(row.record if isinstance(row, RowError) else row)
            self._rejects.add(source.name, at.line, item_id, str(error))
            return
        self._rejects.good += 1
        item = mapped.item
        self._duplicates.add(item, mapped.content, match, at, writer.rows)
        self._counts.add(item, templates)
        self._profile.add(item, templates, f"{source.name}:{at.line}")
        self._label_kinds.add(item.labels)
        self._write(writer, item, mapped.fields, mapped.labels, templates)
        self._judged.append(1)

    def _describe_conflicts(self, duplicates: DuplicateCounts) -> str:
        """Each contradiction once, at its later place, and what can be done."""
        later = sorted(row for row, (at, other) in duplicates.conflicts.items() if at > other)
        lines = [f"{len(later)} row{'s' * (len(later) > 1)} with an id that stands elsewhere with different content"]
        for row, item_id in zip(later, read_ids(self._directory, later[:_MAX_LISTED]), strict=False):
            at, other = duplicates.conflicts[row]
            lines.append(f"  {self._where(at)}: {item_id}: {self._same_as(other)}")
        remedy = "Mend the file, or map items.fields.id (or system) to what tells them apart"
        if self._builder.fields.digests and (columns := self._profile.system_columns()):
            remedy = f"Column {columns[0]!r} looks like the system: map it (items.fields: {{system: {columns[0]}}})"
        elif self._builder.fields.digests:
            remedy = (
                "The rows have no id, so they are known by the fields that the config names; "
                "name the column that tells them apart under items.fields"
            )
        return "\n".join([*lines, f"{remedy}, or set items.on_bad: skip to leave all of them out"])

    def _same_as(self, other: SourceLocation) -> str:
        return f"the same system and id stand at {self._where(other)} with different content"

    def _where(self, location: SourceLocation) -> str:
        return f"{self._sources[location.source].name}:{location.line}"

    def _settle_duplicates(self, duplicates: DuplicateCounts) -> StagedWriter:
        """Leave out the rows that stand twice, or number them. Of a contradiction none is kept: choosing is guessing.

        Copies are alike but for their number: their order in the files changes no item.
        """

        def keep(row: int, values: list[Any]) -> bool:
            if duplicates.copies and (number := duplicates.copy_numbers[row]):
                values[0] = f"{values[0]}-{number}"
            if row in duplicates.conflicts:
                at, other = duplicates.conflicts[row]
                self._rejects.add(self._sources[at.source].name, at.line, values[0], self._same_as(other))
            return not (duplicates.dropped and duplicates.dropped[row])

        return self._keep_rows(keep)

    def _draw_sample(self, sample: Sample, rows: int) -> tuple[StagedWriter, SampleSummary]:
        columns = ["item_group", "question_id"]
        sizes = Counter(group for group, _ in read_rows(self._directory, columns))
        sampler = ItemSampler(sample, sizes, read_rows(self._directory, columns))
        writer = self._keep_rows(lambda _, values: (values[3], values[1]) in sampler)
        return writer, SampleSummary(writer.rows, rows, sample.items, sample.seed)

    def _keep_rows(self, keep: Callable[[int, list[Any]], bool]) -> StagedWriter:
        """Write the rows anew without some, which then are no longer counted; `keep` may change those that stay."""
        fresh = self._directory / "kept"
        fresh.mkdir(mode=0o700)
        with closing(self._writer(fresh)) as writer:
            for first, (row, *values) in zip(self._rows_left(), read_rows(self._directory), strict=True):
                if keep(row, values):
                    writer.add(values, len(values[4]) + _ROW_OVERHEAD)
                else:
                    item, templates = parse_item(*values[:6]), self._templates(values)
                    self._counts.add(item, templates, times=-1)
                    self._profile.add(item, templates, times=-1)
                    self._judged[first] = 0
        replace_rows(self._directory, fresh)
        return writer

    def _rows_left(self) -> Iterator[int]:
        """The numbers that the rows which are left had when they were read."""
        return (row for row, left in enumerate(self._judged) if left)

    def _count_first(self, rows: int) -> None:
        """Count anew, the first rows alone."""
        for first in islice(self._rows_left(), rows, None):
            self._judged[first] = 0
        self._counts, self._profile = _ItemCounts(self._judges), self._profile.restart()
        for _, *values in islice(read_rows(self._directory), rows):
            item, templates = parse_item(*values[:6]), self._templates(values)
            self._counts.add(item, templates)
            self._profile.add(item, templates)
