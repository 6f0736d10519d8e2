"""Inputs → staged items: one pass over all rows, before anything is paid.

Every row is mapped, joined, routed through every judge and checked; what is wrong stops the run or is listed. What is
left stands in Parquet files under row numbers, each item once; the directory replaces the old one when it is whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from judges import Condition, Item, Judge

from .config import Items, RunConfig
from .errors import ConfigError, ItemError
from .identities import Findings, Identities, Place
from .mapping import BadRowError, FieldMap
from .reference import Reference
from .rejects import SHOWN, Rejects
from .rows import Fault
from .sources import Source, input_signature, item_sources, reference_sources
from .staged import (
    Staged,
    Summary,
    load_staged,
    new_directory,
    save_summary,
    switch,
)
from .stagedfiles import StagedWriter, replace_rows, written_ids, written_rows

__all__ = ["Staged", "input_signature", "load_staged", "stage"]

_ROW_OVERHEAD = 200
_IDENTITIES = "identities"


def stage(config: RunConfig, judges: Sequence[Judge], base: Path, directory: Path) -> Staged:
    """Stage the items of a config into `directory`; a crash or an error leaves what stood there as it was."""
    items = config.items
    if items.empty_response == "wrong" and (graded := [judge.name for judge in judges if not judge.binary]):
        raise ConfigError(f"items.empty_response: wrong is for binary judges only; {graded[0]!r} is not")
    # Taken before the files are read: a file that changes meanwhile is then seen as changed by the next run.
    signature = input_signature(config, base)
    sources = item_sources(items, base)
    reference = None if items.join is None else Reference(items.join, reference_sources(items, base))
    fresh = new_directory(directory)
    try:
        save_summary(fresh, _Pass(items, judges, sources, reference, fresh).run(signature))
        switch(fresh, directory)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return load_staged(directory)


class _Counts:
    """What is counted of items, per judge and per system; an item can be taken back."""

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._cautions: list[list[tuple[Condition, str]]] = [judge.cautions for judge in judges]
        self.judges: list[dict[str, Any]] = [
            {"trials": 0, "unrouted": 0, "cautions": {}, "fingerprint": judge.fingerprint} for judge in judges
        ]
        self.empty: dict[str, int] = {}

    def add(self, item: Item, templates: Sequence[str | None], times: int = 1) -> None:
        """Count an item, or with `times=-1` take it back."""
        for counts, template, cautions in zip(self.judges, templates, self._cautions, strict=True):
            counts["unrouted" if template is None else "trials"] += times
            for condition, text in cautions:
                if template is not None and condition.matches(item):
                    counts["cautions"][text] = counts["cautions"].get(text, 0) + times
        if item.response_is_empty:
            self.empty[item.system] = self.empty.get(item.system, 0) + times


class _Pass:
    """The one pass, and what it has to remember."""

    def __init__(
        self,
        items: Items,
        judges: Sequence[Judge],
        sources: Sequence[Source],
        reference: Reference | None,
        directory: Path,
    ) -> None:
        self._items = items
        self._judges = judges
        self._sources = sources
        self._reference = reference
        self._directory = directory
        self._fields = FieldMap(items)
        self._counts = _Counts(judges)
        self._rejects = Rejects(directory, items.on_bad)
        self._identities = Identities(directory / _IDENTITIES, reference, items.systems or ())

    def run(self, signature: dict[str, Any]) -> Summary:
        """Stage all rows, then settle which of them stand twice."""
        with closing(self._rejects), closing(self._writer(self._directory)) as writer:
            for number, source in enumerate(self._sources):
                with closing(source.rows()) as rows:
                    for line, row in rows:
                        self._row(row, source, Place(number, line), writer)
            self._rejects.check()
            found = self._identities.findings(writer.rows)
            writer.close()
            if found.conflicts and self._items.on_bad == "stop":
                raise ItemError(self._conflicts(found))
            if found.dropped:
                writer = self._without_dropped(found)
        if writer.rows == 0:
            rejected = f": all {self._rejects.count} rows were rejected\n{self._rejects.listing()}"
            names = ", ".join(source.name for source in self._sources)
            raise ItemError(f"{names}: no item is left" + (rejected if self._rejects.count else ""))
        self._fields.check_columns()
        if self._items.join is not None and self._items.join.expect == "all":
            self._identities.check_answered()
        summary = Summary(
            signature=signature,
            rows=writer.rows,
            duplicates=found.repeated,
            rejects=self._rejects.count,
            coverage=self._identities.coverage(),
            empty=self._counts.empty,
            judges={judge.name: counts for judge, counts in zip(self._judges, self._counts.judges, strict=True)},
            files=writer.files,
        )
        shutil.rmtree(self._directory / _IDENTITIES)
        return summary

    def _writer(self, directory: Path) -> StagedWriter:
        return StagedWriter(directory, [judge.name for judge in self._judges])

    def _row(self, row: dict[str, Any] | Fault, source: Source, place: Place, writer: StagedWriter) -> None:
        try:
            if isinstance(row, Fault):
                raise BadRowError(row.text)
            match = None if self._reference is None else self._reference.match(row)
            mapped = self._fields.item(row, None if match is None else match.columns, source.system)
            templates = [self._template(judge, mapped.item) for judge in self._judges]
        except BadRowError as error:
            known = self._fields.known_id(row.record if isinstance(row, Fault) else row)
            self._rejects.add(source.name, place.line, known, str(error))
            return
        item = mapped.item
        self._identities.add(item, mapped.content, match, place, writer.rows)
        self._counts.add(item, templates)
        values = (item.id, item.question_id, item.system, item.group, mapped.fields, mapped.labels, *templates)
        writer.add(values, len(mapped.fields) + _ROW_OVERHEAD)

    def _template(self, judge: Judge, item: Item) -> str | None:
        if self._items.empty_response == "error" and item.response_is_empty:
            raise BadRowError("the response is empty (items.empty_response: error)")
        template = judge.route(item)
        if template is None:
            if judge.on_unrouted == "error":
                raise BadRowError(f"no route of judge {judge.name!r} matches (group {item.group!r})")
            return None
        if missing := judge.missing(item, template):
            names = ", ".join(f"{name!r} (column {self._fields.column(name)!r})" for name in missing)
            raise BadRowError(f"judge {judge.name!r}, template {template!r}: the row lacks {names}, absent or null")
        return template

    def _conflicts(self, found: Findings) -> str:
        """Each contradiction once, told at the later place."""
        later = sorted(row for row, (place, other) in found.conflicts.items() if place > other)
        ids = written_ids(self._directory, later[:SHOWN])
        lines = []
        for row, item_id in zip(later, ids, strict=False):
            place, other = found.conflicts[row]
            lines.append(f"  {self._where(place)}: {item_id}: {self._same_as(other)}")
        return (
            f"{len(later)} row{'s' * (len(later) > 1)} with an id that stands elsewhere with different content\n"
            + "\n".join(lines)
            + f"\n{self._way_out()}, or set items.on_bad: skip to leave all of them out"
        )

    def _way_out(self) -> str:
        if self._fields.digests:
            return (
                "The rows have no id, so they are known by the fields that the config names; "
                "name the column that tells them apart under items.fields"
            )
        return "Mend the file, or map items.fields.id (or system) to what tells them apart"

    def _same_as(self, other: Place) -> str:
        return f"the same system and id stand at {self._where(other)} with different content"

    def _where(self, place: Place) -> str:
        return f"{self._sources[place.source].name}:{place.line}"

    def _without_dropped(self, found: Findings) -> StagedWriter:
        """Write the rows anew without those that stand twice. Of a contradiction none is kept: choosing is guessing."""
        kept = self._directory / "kept"
        kept.mkdir(mode=0o700)
        with closing(self._writer(kept)) as writer:
            for row, values in written_rows(self._directory):
                if not found.dropped[row]:
                    writer.add(values, len(values[4]) + _ROW_OVERHEAD)
                    continue
                item = _item(values)
                self._counts.add(item, values[6:], times=-1)
                if row in found.conflicts:
                    place, other = found.conflicts[row]
                    name = self._sources[place.source].name
                    self._rejects.add(name, place.line, item.id, self._same_as(other))
        replace_rows(self._directory, kept)
        return writer


def _item(values: tuple[Any, ...]) -> Item:
    item_id, question_id, system, group, fields, labels = values[:6]
    return Item(item_id, question_id, system, group, json.loads(fields), json.loads(labels))
