"""A run as it is published: which files there are, and how two writers of one run are kept apart without a lock.

    run.json                                whose mirror this is, put once
    manifest.json                           of the run directory; `results` names the folder that stands
    log/00000017.json                       segment 17 was begun: by whom, and what it holds
    attempts/00000017.parquet               its requests as made
    results/00002-r1/00000017.parquet       its judgments, in edition 2, of revision 1
    results/00002-r1/_edition.json          the revisions up to this one
    results/00002-r1/_complete              the edition has taken the place of the one before
    renewed/r00002/00000018.parquet         what a retry has brought so far for revision 2

Everything but the manifest is put once, where nothing of that name is. The log is what decides: whoever puts entry n
may write the files of segment n, so of two writers (one was taken for dead, and the run was rebuilt elsewhere) one
finds an entry that is not its own, and ends. The files of a segment are there before the next entry is.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from runner.errors import ConfigError
from runner.ledger.segments import Segment

from .destination import Destination
from .parquet_writer import parquet
from .result_frames import ATTEMPT_COLUMNS, COLUMNS

RUN, MANIFEST = "run.json", "manifest.json"
LOG, ATTEMPTS, RESULTS, RENEWED = "log", "attempts", "results", "renewed"
EDITION, COMPLETE = "_edition.json", "_complete"


class LostOwnership(Exception):
    """Another writer goes on with this mirror. Its argument: where that works."""


@dataclass(frozen=True, slots=True)
class Entry:
    segment: int
    writer: str
    edition: int
    revision: int
    after: int
    until: int
    """Ids of attempts, the first exclusive."""
    files: tuple[str, ...] = ()
    """In the order in which they are put."""
    meta: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The values that a restored ledger needs besides attempts and judgments."""
    by: str = field(default="", compare=False)
    """Where the writer works: for people."""


class Mirror:
    def __init__(self, place: Destination) -> None:
        self.place = place

    def run_id(self) -> str | None:
        """Whose mirror it is; None where nothing is published yet."""
        data = self._read(RUN)
        return None if data is None else str(data["run"])

    def claim(self, run_id: str, name: str) -> None:
        """Make it the mirror of this run; ConfigError where it is another's."""
        known = self.run_id()
        if known is None:
            if self.place.create(RUN, _text({"run": run_id, "name": name, "format": 1})):
                return
            known = self.run_id()
        if known != run_id:
            way = "give this one another name, or publish it elsewhere"
            raise ConfigError(f"publish: {self.place.url} holds another run of this name; {way}")

    def manifest(self) -> dict[str, Any] | None:
        return self._read(MANIFEST)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        self.place.replace(MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False).encode())

    def entry(self, number: int) -> Entry | None:
        data = self._read(_entry_name(number))
        return None if data is None else Entry(**data | {"files": tuple(data["files"])})

    def last_entry(self) -> Entry | None:
        names = self.place.names(LOG)
        return self.entry(int(names[-1].rpartition("/")[2].partition(".")[0])) if names else None

    def begin(self, entry: Entry) -> None:
        """Puts an entry; after a crash the same may be there already. LostOwnership where it is another."""
        if not self.place.create(_entry_name(entry.segment), _text(asdict(entry))):
            there = self.entry(entry.segment)
            if there != entry:
                raise LostOwnership(there.by if there else "")

    def seal(self, entry: Entry) -> int:
        """Puts empty files where the entry's writer has not put its own, so that it can write nothing more for it.

        The id of the last attempt that is published.
        """
        until = entry.until
        for name in entry.files:
            columns = ATTEMPT_COLUMNS if name.startswith(ATTEMPTS) else COLUMNS
            if self.place.create(name, parquet((), columns)) and name.startswith(ATTEMPTS):
                until = entry.after
        return until

    def _read(self, name: str) -> dict[str, Any] | None:
        content = self.place.read(name)
        try:
            return None if content is None else dict(json.loads(content))
        except ValueError:
            problem = "is not valid JSON; it was not written by jurybox"
            raise ConfigError(f"publish: {self.place.url}/{name}: {problem}") from None


def files_of(segment: Segment) -> tuple[str, ...]:
    """The files of a segment, attempts first: a judgment that is there has the request it was made of beside it."""
    names = []
    if segment.until > segment.after:
        names.append(f"{ATTEMPTS}/{segment.number:08d}.parquet")
    if segment.judgments:
        names.append(f"{edition_folder(segment.edition, segment.revision)}/{segment.number:08d}.parquet")
    if segment.renewed:
        names.append(f"{RENEWED}/r{segment.revision + 1:05d}/{segment.number:08d}.parquet")
    return tuple(names)


def edition_folder(edition: int, revision: int) -> str:
    return f"{RESULTS}/{edition:05d}-r{revision}"


def _entry_name(number: int) -> str:
    return f"{LOG}/{number:08d}.json"


def _text(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()
