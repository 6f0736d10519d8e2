"""Publishes a run while it is judged: a segment after the other, beside the loop, and the rest at the end.

Trouble with the place never stops the judging: it is logged once and tried again, and `trouble` says at the end how
much is not published. Hides who reads and writes: the one writer of the ledger marks what a segment holds and removes
the mark, the rows are read and written by a thread with a ledger of its own, opened to read.
"""

import asyncio
import json
import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import structlog

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged, load_staged
from runner.errors import ConfigError
from runner.ledger.aggregator import AggregatorHandle
from runner.ledger.ledger import Ledger
from runner.ledger.run_directory import RunDirectory
from runner.ledger.segments import Published, Segment

from .destination import DestinationError, open_destination
from .mirror import ATTEMPTS, COMPLETE, EDITION, RENEWED, Entry, LostOwnership, Mirror, edition_folder, files_of
from .parquet_writer import parquet
from .restore import RestoredLedger, restore_ledger
from .result_columns import LEAST_ROWS
from .result_frames import ATTEMPT_COLUMNS, COLUMNS, attempt_frames, result_columns, segment_frames

PERIOD_S = 20.0
"""Between segments; what is judged meanwhile and the time to write it are what a lost machine loses."""
LAST_CALL_S = 2.0
"""How long the aggregator is waited for when the judging is over: it may be away, and `finish` does what is left."""
ROWS = 20_000
"""Attempts, and judgments, of a segment; fewer where the items are long, since a segment's files stand in memory."""
SEGMENT_BYTES = 128 * 1024 * 1024

log = structlog.get_logger()


class Publisher:
    """The publishing of one run directory in one session, where its config says where to."""

    def __init__(self, config: RunConfig, judges: Sequence[Judge], run: RunDirectory, base: Path) -> None:
        self._config = config
        self._judges = {judge.name: judge for judge in judges}
        self._run = run
        self.mirror: Mirror | None = None
        if config.publish is not None:
            self.mirror = Mirror(open_destination(config.publish, base, config.name, run.path))
        self._claimed = self._looked = False
        self._troubled = False
        self._writing: asyncio.Future[None] | None = None
        self.published: str | None = None
        """Where the results are, if this session has published any."""
        self.restored: RestoredLedger | None = None
        """What came back of a lost ledger."""
        self.trouble: str | None = None
        """Why not everything is published, where that is so at the end."""

    def restore(self, meaning: Mapping[str, Any]) -> None:
        """Restores the ledger where it is lost and the run was published. `meaning`: the config's."""
        if self.mirror is None or self._run.ledger.exists():
            return
        try:
            restored = restore_ledger(self.mirror, self._run, meaning)
        except DestinationError as error:
            problem = "cannot be read, so that it is not known whether this run is there"
            raise ConfigError(f"publish: {problem}: {error}; with `publish: null` it begins anew") from None
        self.restored = restored if restored is not None and restored.attempts + restored.judgments else None

    def begin(self, ledger: Ledger, *, judging: bool) -> None:
        """Before anything is paid: the place can be written, and holds this run or none; ConfigError otherwise."""
        try:
            self._begin(ledger, judging)
        except DestinationError as error:
            way = "with `publish: null` the run is judged without it"
            raise ConfigError(f"publish: cannot be written: {error}; {way}") from None
        except LostOwnership as other:
            raise ConfigError(self._describe_loss(other)) from None

    @asynccontextmanager
    async def run_alongside(self, aggregator: AggregatorHandle) -> AsyncIterator[None]:
        """Publish while the block judges."""
        if self.mirror is None:
            yield
            return
        why: Exception | None = None
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            publishing = group.create_task(self._publish_periodically(aggregator, self.mirror, ended))
            try:
                yield
            except Exception as error:
                # Raised below as it is, and not as one of a group.
                why = error
            ended.set()
            if self._writing is not None:
                await asyncio.wait({self._writing})
            await asyncio.wait({publishing}, timeout=LAST_CALL_S)
            publishing.cancel()
        if why is not None:
            raise why

    def finish(self, ledger: Ledger) -> None:
        """Publish all that is left. `trouble` tells afterwards what could not be."""
        self.trouble = None
        if self.mirror is None:
            ledger.segments.disable()
            return
        try:
            self._begin(ledger, judging=False)
            while (segment := ledger.segments.begin_segment(self._segment_rows)) is not None:
                self._write_segment(self.mirror, segment, ledger)
                ledger.segments.finish_segment(segment.number)
            if self.published is not None:
                self._write_manifest(self.mirror)
        except DestinationError as error:
            self.trouble = (
                f"publishing is behind by {ledger.segments.count_unpublished():,} judgments and requests: {error}; "
                "they are safe in run.db, and the same command publishes them"
            )
        except LostOwnership as other:
            self.trouble = self._describe_loss(other)

    def _begin(self, ledger: Ledger, judging: bool) -> None:
        if self.mirror is None:
            ledger.segments.disable()
            return
        state = ledger.segments.state()
        revision = ledger.revisions.current()
        wanted = (self.mirror.place.url, True, False, revision)
        current = state is not None and (state.place, state.on, state.stale, state.revision) == wanted
        if not judging and current and state is not None and state.whole and not ledger.segments.count_unpublished():
            self._warn_of_successor(self.mirror, state)
            return
        if not self._claimed:
            self._claim(self.mirror, ledger, state)
            self._write_manifest(self.mirror)
            self._claimed = True
        if not current:
            ledger.segments.begin_edition(revision)

    def _warn_of_successor(self, mirror: Mirror, state: Published) -> None:
        """Where nothing is to be published: say so if the run went on elsewhere, since more is refused here then."""
        if self._claimed or self._looked:
            return
        self._looked = True
        # A place that cannot be reached is no trouble of a run that needs nothing of it.
        with suppress(DestinationError):
            try:
                _check_no_successor(mirror, state)
            except LostOwnership as other:
                log.warning("publishing_ended", why=self._describe_loss(other))

    def _claim(self, mirror: Mirror, ledger: Ledger, state: Published | None) -> None:
        mirror.claim(ledger.segments.run_id(), self._config.name)
        if state is not None and state.place == mirror.place.url:
            _check_no_successor(mirror, state)
            return
        last = mirror.last_entry()
        if last is None:
            ledger.segments.enable(mirror.place.url, segment=0, edition=0, attempts=0)
            return
        if state is None or last.writer != state.writer:
            raise LostOwnership(last.by)
        attempts = mirror.seal(last)
        ledger.segments.enable(mirror.place.url, segment=last.segment, edition=last.edition, attempts=attempts)

    async def _publish_periodically(self, aggregator: AggregatorHandle, mirror: Mirror, ended: asyncio.Event) -> None:
        while not ended.is_set():
            try:
                caught_up = await self._publish_next(aggregator, mirror)
            except LostOwnership as other:
                log.warning("publishing_ended", why=self._describe_loss(other))
                return
            if caught_up:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD_S):
                        await ended.wait()

    async def _publish_next(self, aggregator: AggregatorHandle, mirror: Mirror) -> bool:
        """Publish a segment; whether nothing is left for the moment."""
        try:
            segment = await aggregator.begin_segment(self._segment_rows)
            if segment is None:
                return True
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._write_from_file, mirror, segment))
            try:
                await self._writing
            finally:
                self._writing = None
            await aggregator.finish_segment(segment.number)
        except LostOwnership:
            raise
        except Exception as error:
            # Whatever it is: the judging goes on, and at the end of the run it is raised again as what it is.
            if not self._troubled:
                log.warning("publishing_failed", why=str(error) or repr(error), then="tried again; the judging goes on")
            self._troubled = True
            return True
        if self._troubled:
            log.warning("publishing_goes_on", to=mirror.place.url)
        self._troubled = False
        log.debug("published", segment=segment.number, judgments=segment.judgments, until=segment.until)
        return segment.catches_up

    def _write_from_file(self, mirror: Mirror, segment: Segment) -> None:
        with Ledger(self._run.ledger, read_only=True) as ledger:
            self._write_segment(mirror, segment, ledger)

    @cached_property
    def _items(self) -> Staged:
        """Its own: the loop reads the same files at the same time."""
        return load_staged(self._run.items)

    @cached_property
    def _segment_rows(self) -> int:
        return min(ROWS, max(LEAST_ROWS, SEGMENT_BYTES // max(1, self._items.mean_row_bytes())))

    def _write_segment(self, mirror: Mirror, segment: Segment, ledger: Ledger) -> None:
        """Write a segment; what of it was written before a crash stays as it is."""
        state = ledger.segments.state()
        assert state is not None
        folder = edition_folder(segment.edition, segment.revision)
        begins = segment.edition == state.edition and not state.whole
        if begins:
            revisions = [asdict(each) for each in ledger.revisions.all()]
            mirror.place.create(f"{folder}/{EDITION}", json.dumps(revisions).encode())
        entry = Entry(
            segment.number, state.writer, segment.edition, segment.revision, segment.after, segment.until,
            files_of(segment), ledger.segments.meta_values(), f"{platform.node()}:{self._run.path.resolve()}",
        )  # fmt: skip
        mirror.begin(entry)
        for name in entry.files:
            mirror.place.create(name, self._content(name, segment, ledger, self._items))
        if begins and segment.catches_up:
            mirror.place.create(f"{folder}/{COMPLETE}", b"")
            self._write_manifest(mirror, folder)
        self.published = f"{mirror.place.url}/{folder}"

    def _content(self, name: str, segment: Segment, ledger: Ledger, items: Staged) -> bytes:
        if name.startswith(ATTEMPTS):
            attempts = attempt_frames(ledger, after=segment.after, until=segment.until, config=self._config)
            return parquet(attempts, ATTEMPT_COLUMNS)
        of = items, ledger, self._config, self._judges
        if name.startswith(RENEWED):
            return parquet(segment_frames(*of, renewed=True), COLUMNS)
        columns = result_columns(self._config, self._judges, items)
        return parquet(segment_frames(*of, columns=columns), columns.schema)

    def _write_manifest(self, mirror: Mirror, results: str | None = None) -> None:
        """Publishes the run's manifest; `results`: the folder of the edition that is complete from now on."""
        manifest = self._run.manifest()
        if manifest is not None:
            results = results or (mirror.manifest() or {}).get("results")
            mirror.write_manifest(manifest | ({"results": results} if results else {}))

    def _describe_loss(self, other: LostOwnership) -> str:
        assert self.mirror is not None
        where = f" at {other}" if str(other) else ""
        return (
            f"publish: {self.mirror.place.url} has gone on without this directory: the run was rebuilt from it{where}. "
            "Go on there, or set another `publish` for this directory"
        )


def _check_no_successor(mirror: Mirror, state: Published) -> None:
    """LostOwnership where another directory has written after this one's last segment."""
    following = mirror.entry(state.segment + 1)
    if following is not None and (state.open is None or following.writer != state.writer):
        raise LostOwnership(following.by)
