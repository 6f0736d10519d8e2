"""Which rows are duplicates, and how many questions each system answered, in memory that does not grow with the rows.

Fixed-size records are spread over files by a hash, so that all records of one identity lie in one file, and each file
is small enough to be looked through in memory.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from judges import Item

from .item_builder import Reference, ReferenceRow

_PARTS = 256
_FLUSH_BYTES = 16 * 1024
_ROW = struct.Struct("<16s16s16sIIQQ")
_ANSWER = struct.Struct("<16sIQ")


class _Spill:
    """Records spread over files by their first byte, which must be any of 256 about equally often."""

    def __init__(self, directory: Path, record: struct.Struct) -> None:
        self._directory = directory
        self._record = record
        self._buffers = [bytearray() for _ in range(_PARTS)]
        directory.mkdir(mode=0o700)

    def add(self, *values: bytes | int) -> None:
        record = self._record.pack(*values)
        buffer = self._buffers[record[0]]
        buffer += record
        if len(buffer) >= _FLUSH_BYTES:
            with self._path(record[0]).open("ab") as file:
                file.write(buffer)
            buffer.clear()

    def parts(self) -> Iterator[Iterator[tuple[Any, ...]]]:
        """The records of every part, in the order in which they were added."""
        for number, buffer in enumerate(self._buffers):
            path = self._path(number)
            data = path.read_bytes() if path.exists() else b""
            yield self._record.iter_unpack(data + buffer)

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:03d}"


class SourceLocation(NamedTuple):
    """Where a row came from: number of the source, and line."""

    source: int
    line: int


@dataclass(slots=True)
class DuplicateCounts:
    """What the rows say together."""

    dropped: bytearray = field(default_factory=bytearray)
    """A flag per staged row: it says again what an earlier row says, or is in conflict. Empty where none does."""
    repeated: int = 0
    """Rows that are dropped since they say again what an earlier one says."""
    copy_numbers: array[int] = field(default_factory=lambda: array("I"))
    """Where copies count: a number per staged row, from 2 on for all but the first of those that say the same, else 0.

    Empty where there are none.
    """
    copies: int = 0
    conflicts: dict[int, tuple[SourceLocation, SourceLocation]] = field(default_factory=dict)
    """Staged row whose (system, id) has different content elsewhere → where it is from, and where the other is."""


class DuplicateDetector:
    """Remembers every row until all are read."""

    def __init__(self, directory: Path, reference: Reference | None, systems: Iterable[str]) -> None:
        directory.mkdir(mode=0o700)
        self._directory = directory
        self._reference = reference
        self._rows = _Spill(directory / "rows", _ROW)
        self._answers = _Spill(directory / "answers", _ANSWER)
        self._systems = {system: number for number, system in enumerate(systems)}

    def add(self, item: Item, content: bytes, match: ReferenceRow | None, at: SourceLocation, row: int) -> None:
        """A staged row, and the reference row that it answers, if items are joined."""
        system, name = item.system.encode(), item.id.encode()
        key = _digest(b"%d:%b%b" % (len(system), system, name))
        question = _digest(item.question_id.encode()) if match is None else match.place.to_bytes(16, "little")
        number = self._systems.setdefault(item.system, len(self._systems))
        self._rows.add(key, content, question, number, at.source, at.line, row)

    def find(self, rows: int, keep_copies: bool) -> DuplicateCounts:
        """Look through all `rows` staged rows: which are duplicates, which contradict each other.

        `keep_copies`: ids are digests of the content, so that rows which say the same may be answers of their own.
        """
        counts = DuplicateCounts()
        for part in self._rows.parts():
            groups: dict[bytes, list[_Row]] = {}
            for entry in map(_Row._make, part):
                groups.setdefault(entry.key, []).append(entry)
            for entries in groups.values():
                alike = len(entries) == 1 or all(entry.content == entries[0].content for entry in entries)
                if alike and keep_copies and len(entries) > 1:
                    counts.copy_numbers = counts.copy_numbers or array("I", [0]) * rows
                    counts.copies += len(entries) - 1
                    for number, entry in enumerate(entries[1:], 2):
                        counts.copy_numbers[entry.row] = number
                elif len(entries) > 1:
                    counts.dropped = counts.dropped or bytearray(rows)
                    _compare(entries, counts)
                for entry in entries[: len(entries) if keep_copies else 1] if alike else ():
                    self._answers.add(entry.question, entry.system, entry.row)
        return counts

    def count_answers(self, judged: Sequence[int], whole: bool) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
        """After `find`: system → (distinct questions answered, questions of the reference or of all systems).

        And system → questions to which it has several answers, where there are any. `judged`: a flag per staged row,
        of which only those count; not `whole`: the questions are theirs as well, not those of the reference.
        """
        answered, several = [0] * len(self._systems), [0] * len(self._systems)
        total = 0
        for part in self._answers.parts():
            counts = Counter((question, system) for question, system, row in part if judged[row])
            total += len({question for question, _ in counts})
            for (_, number), answers in counts.items():
                answered[number] += 1
                several[number] += answers > 1
        if self._reference is not None and whole:
            total = len(self._reference)
        coverage = {system: (answered[number], total) for system, number in self._systems.items()}
        return coverage, {system: several[number] for system, number in self._systems.items() if several[number]}

    def check_answered(self) -> None:
        """`expect: all`, of the reference's questions."""
        assert self._reference is not None
        flags = [bytearray(len(self._reference)) for _ in self._systems]
        for part in self._answers.parts():
            for question, number, _ in part:
                flags[number][int.from_bytes(question, "little")] = 1
        self._reference.check_answered({system: flags[number] for system, number in self._systems.items()})

    def close(self) -> None:
        shutil.rmtree(self._directory)


class _Row(NamedTuple):
    key: bytes
    content: bytes
    question: bytes
    system: int
    source: int
    line: int
    row: int

    @property
    def at(self) -> SourceLocation:
        return SourceLocation(self.source, self.line)


def _compare(entries: list[_Row], counts: DuplicateCounts) -> None:
    """One (system, id) that several rows have: equal content counts once, differing content cannot be chosen from."""
    first = entries[0]
    other = next((entry for entry in entries if entry.content != first.content), None)
    for entry in entries[1:] if other is None else entries:
        counts.dropped[entry.row] = 1
        if other is None:
            counts.repeated += 1
        else:
            counts.conflicts[entry.row] = entry.at, (other if entry.content == first.content else first).at


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
