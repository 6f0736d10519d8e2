"""Reads every stored reply of a run again with today's reader, and works out which judgment each trial has by it.

No request is made. The first reply of a trial that today's reader can read decides, as it would have had this reader
been there from the start; where none can be read, what the deciding attempt ended with stands, read by today's reader.
Hides the walk over shards, one at a time, so that memory does not grow with the run. Both kinds of new revision, this
one and what a retry has brought, go through `RevisionMaker`, which keeps what the manifest says of them.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judges import PARSER_VERSION, Item, Judge, Outcome, Provenance, Reply, Scored, reformat_of, text_to_copy_from
from runner.dataset import Staged
from runner.endpoint.judge_model import JudgeModel, StructuredModes
from runner.ledger.ledger import Ledger
from runner.ledger.revision_diff import WAITING, JudgmentState, Place, RevisionDiff
from runner.ledger.revisions import Rescoring, Revision, StoredJudgment
from runner.ledger.run_directory import RunDirectory
from runner.messages import Judgment, Shard, TrialProgress
from runner.worker.judgment import build_judgment, request_notes
from runner.worker.request import REFORMAT, copy_request_id, outcomes_of, reading_of
from runner.worker.reread import REREAD, is_same_verdict

_STARTS_ANEW = ("first", "last", "retry")
"""Stages of requests whose batch was not halved."""
_OF_TRIAL = ("json_hint", "not_sent:", "sent:", "reformat_failed:")
_OF_REQUEST = ("max_tokens:", "seed:")

Row = dict[str, Any]


class Unchanged(Exception):
    """Nothing was changed, so there is no new revision: what was written is taken back."""


def rescore_ledger(
    ledger: Ledger,
    staged: Staged,
    judge_models: Mapping[tuple[str, str], JudgeModel],
    name: Callable[[tuple[int, int]], tuple[str, str] | None],
) -> tuple[RevisionDiff, Revision | None]:
    """Read all replies again, in one transaction; what changed, and the new revision, or None if nothing did.

    `name`: system and item id of the trial at (shard, position).
    """
    shards = [row.shard for row in ledger.shards()]
    changes = RevisionDiff(name)
    try:
        with ledger.revisions.rescoring() as rescoring:
            altered = False
            for shard in shards:
                judge_model = judge_models[shard.judge, shard.model]
                altered |= _Shard(rescoring, shard, judge_model, staged, changes).read_again()
            if not altered:
                raise Unchanged
            return changes, rescoring.finish(PARSER_VERSION, changes)
    except Unchanged:
        return changes, None


@dataclass(frozen=True, slots=True)
class _Read:
    """A reply as today's reader sees it, for one of its trials."""

    attempt: Row
    place: int
    size: int
    depth: int
    outcome: Outcome
    whole: bool
    """Whether every trial of the request has a score by it: else all of them were asked again."""


class _Shard:
    def __init__(
        self, rescoring: Rescoring, shard: Shard, judge_model: JudgeModel, staged: Staged, changes: RevisionDiff
    ) -> None:
        self._rescoring = rescoring
        self._shard = shard
        self._judge_model = judge_model
        self._judge: Judge = judge_model.judge
        self._changes = changes
        self._judged = {stored.judgment.position: stored for stored in rescoring.judgments(shard.id)}
        self._waiting = {position: (key, history) for position, key, history in rescoring.waiting(shard.id)}
        self._items: dict[int, tuple[Item, str]] = {}
        if self._judged or self._waiting:
            items = staged.items(shard.first_row, shard.rows, shard.judge)
            self._items = {item.row - shard.first_row: (item.parse(), item.template) for item in items}
        keys = {position: stored.judgment.key for position, stored in self._judged.items()}
        keys |= {position: key for position, (key, _) in self._waiting.items()}
        self._by_key = {key: self._items[position][0] for position, key in keys.items() if position in self._items}
        self._batches: dict[int, list[Outcome] | None] = {}
        """What replies to several trials say, by attempt."""
        self._readings: dict[int, tuple[str | None, str | None, bool | None, int]] = {}
        self._rereads: dict[int, list[tuple[Row, list[Outcome]]]] = {}
        """Position → the checks of its verdict, which decide nothing."""

    def read_again(self) -> bool:
        """Read all replies of the shard, and write what differs; whether anything does."""
        replaced: list[StoredJudgment] = []
        scored: list[StoredJudgment] = []
        left = self._judged.keys() | self._waiting.keys()
        for position, replies in itertools.groupby(self._rescoring.replies(self._shard.id), key=lambda reply: reply[0]):
            left.discard(position)
            read = list(self._read(position, [reply[1:] for reply in replies]))
            if position in self._judged:
                replaced += self._judge_anew(self._judged[position], read)
            elif position in self._waiting:
                scored += self._score_waiting(position, read)
        for position in left & self._judged.keys():
            replaced += self._judge_anew(self._judged[position], [])
        self._rescoring.write(self._shard.id, [*replaced, *scored], added=len(scored))
        self._rescoring.set_readings(self._readings.values())
        return bool(replaced or scored or self._readings)

    # --- replies

    def _read(self, position: int, replies: Sequence[tuple[int, int, Row]]) -> Iterator[_Read]:
        """The replies that can decide the trial, in their order."""
        if position not in self._items:
            return
        deciding = self._judged[position].attempt if position in self._judged else None
        item = self._items[position][0]
        unread: dict[str, _Read] = {}
        """Replies without a score, by the id that a request for a copy of their verdict has."""
        depth = 0
        for place, size, attempt in replies:
            stage, _, number = attempt["stage"].partition(":")
            if stage == "bisect":
                depth = int(number)
            elif stage in _STARTS_ANEW:
                depth = 0
            if stage == REREAD:
                again = outcomes_of(self._judge, _reply(attempt), [item])
                self._rereads.setdefault(position, []).append((attempt, again))
                continue
            if stage == REFORMAT:
                source = unread.get(attempt["request_id"])
                if source is not None and (copy := self._read_copy(source, attempt, item)) is not None:
                    yield copy
                continue
            outcomes = self._outcomes(attempt, size, item)
            if outcomes is not None and (not attempt["late_duplicate"] or attempt["id"] == deciding):
                whole = all(isinstance(outcome, Scored) for outcome in outcomes)
                read = _Read(attempt, place, size, depth, outcomes[place], whole)
                if not whole:
                    unread[copy_request_id(attempt["request_id"], _keys(attempt))] = read
                yield read

    def _outcomes(self, attempt: Row, size: int, item: Item) -> list[Outcome] | None:
        """What a reply says of each trial of its request; None where a judge's code would have to see others' items."""
        if size == 1:
            return self._record_reading(attempt, outcomes_of(self._judge, _reply(attempt), [item]))
        if attempt["id"] not in self._batches:
            keys = _keys(attempt)
            # Of a judge that is data alone a reply's reading is shared out without a look at the items.
            items = [self._by_key.get(key, None if self._judge.code else item) for key in keys]
            own_items = [each for each in items if each is not None]
            self._batches[attempt["id"]] = None
            if len(own_items) == size:
                self._batches[attempt["id"]] = self._record_reading(
                    attempt, outcomes_of(self._judge, _reply(attempt), own_items)
                )
        return self._batches[attempt["id"]]

    def _read_copy(self, read: _Read, copy: Row, item: Item) -> _Read | None:
        """The reply with the verdict that the reformat model copied out of it, if the copy holds today."""
        if self._judge.code:
            return None
        how = reformat_of(self._judge.reads, read.size)
        text = text_to_copy_from(read.outcome, _reply(read.attempt))
        verdict = None if how is None or text is None else how.accept(copy["judge_reply"], text)
        reading = None if verdict is None else REFORMAT
        if copy["reading"] != reading:
            self._readings[copy["id"]] = (reading, copy["parser_version"], None, copy["id"])
        if verdict is None:
            return None
        scored = Scored(verdict, Provenance(REFORMAT, (f"{REFORMAT}:{copy['model']}",)))
        outcomes = self._judge.outcomes(scored, [item] * read.size)
        whole = all(isinstance(outcome, Scored) for outcome in outcomes)
        return replace(read, outcome=outcomes[read.place], whole=whole)

    def _record_reading(self, attempt: Row, outcomes: list[Outcome]) -> list[Outcome]:
        """Keep what the attempt is read as now, where that is news."""
        reading = reading_of(outcomes)
        if (attempt["reading"], attempt["parser_version"]) != (reading, PARSER_VERSION):
            self._readings[attempt["id"]] = (reading, PARSER_VERSION, None, attempt["id"])
        return outcomes

    def _record_rereads(self, position: int, verdict: Mapping[str, Any] | None) -> None:
        """Keep what the checks of a trial's verdict are read as now, and whether they say what it says."""
        for attempt, outcomes in self._rereads.get(position, ()):
            known = (attempt["reading"], attempt["parser_version"], attempt["same_verdict"])
            now = (reading_of(outcomes), PARSER_VERSION, is_same_verdict(outcomes[0], verdict))
            if known != now:
                self._readings[attempt["id"]] = (*now, attempt["id"])

    # --- trials

    def _judge_anew(self, old: StoredJudgment, read: Sequence[_Read]) -> list[StoredJudgment]:
        """The judgment as it is to be written, if it is to be written."""
        judge_model = self._shard.judge, self._shard.model
        counts = self._changes.judge_models[judge_model]
        decides = next((each for each in read if each.whole), None) or _deciding(old, read)
        before, after, attempt = old.judgment, replace(old.judgment, parser_version=PARSER_VERSION), old.attempt
        if decides is not None:
            # Notes of the requests, not of their reading: how the endpoint is asked, and how this very one was sampled.
            own = _OF_TRIAL + _OF_REQUEST if decides.attempt["id"] == old.attempt else _OF_TRIAL
            own_notes = tuple(note for note in before.notes if note.startswith(own))
            copy_notes = tuple(note for note in before.notes if note.startswith("prompt:"))
            history = TrialProgress(attempts=before.attempts, usage=before.usage, official=before.official)
            after = self._judgment(before.position, before.key, history, decides, own_notes, copy_notes)
            after = replace(after, template=before.template, structured=before.structured, judged_at=before.judged_at)
            attempt = decides.attempt["id"]
        if read and before.official is not None:
            after = replace(after, official=self._judge.official(read[0].attempt["judge_reply"]))
        self._record_rereads(before.position, None if after.verdict is None else json.loads(after.verdict))
        old_state, new_state = _state_of(before), _state_of(after)
        self._changes.add(judge_model, old_state, new_state, (self._shard.id, before.position), before.key)
        self._changes.add_reading(judge_model, before, after)
        if old_state.same(new_state):
            # Written otherwise, it still says the same.
            after = replace(after, verdict=before.verdict, scores=before.scores)
            counts.kept += decides is None and before.request_id is not None and before.state != "failed"
            counts.read_otherwise += (after.stage, after.notes) != (before.stage, before.notes)
        if attempt == old.attempt and after == replace(before, parser_version=PARSER_VERSION):
            return [] if before.parser_version == PARSER_VERSION else [replace(old, judgment=after)]
        return [StoredJudgment(after, attempt, self._rescoring.number)]

    def _score_waiting(self, position: int, read: Sequence[_Read]) -> list[StoredJudgment]:
        """The judgment of a trial that waited, if a reply gives it one now."""
        decides = next((each for each in read if each.whole), None)
        if decides is None:
            return []
        key, past = self._waiting[position]
        history = replace(past, official=self._judge.official(read[0].attempt["judge_reply"]))
        judgment = self._judgment(position, key, history, decides, request_notes(self._judge_model.json_hint, history))
        judge_model = self._shard.judge, self._shard.model
        self._changes.add(judge_model, WAITING, _state_of(judgment), (self._shard.id, position), key)
        self._changes.add_reading(judge_model, None, judgment)
        return [StoredJudgment(judgment, decides.attempt["id"], self._rescoring.number)]

    def _judgment(
        self,
        position: int,
        key: bytes,
        history: TrialProgress,
        read: _Read,
        notes: tuple[str, ...],
        copy_notes: tuple[str, ...] = (),
    ) -> Judgment:
        """The judgment that a reply makes of the trial. `copy_notes` are added where the verdict is a copy."""
        item, template = self._items[position]
        outcome = read.outcome
        if isinstance(outcome, Scored) and outcome.provenance.stage == REFORMAT:
            provenance = outcome.provenance
            outcome = replace(outcome, provenance=replace(provenance, notes=(*provenance.notes, *copy_notes)))
        return build_judgment(
            outcome,
            self._judge,
            item,
            history,
            shard=self._shard.id,
            position=position,
            key=key,
            template=template,
            structured=self._judge_model.mode,
            stage=read.attempt["stage"],
            worker=read.attempt["worker"],
            request_id=read.attempt["request_id"],
            latency_s=read.attempt["latency_s"],
            batch_size=read.size,
            batch_position=read.place + 1,
            bisect_depth=read.depth,
            notes=notes,
        )


def _deciding(old: StoredJudgment, read: Sequence[_Read]) -> _Read | None:
    """The reply that the judgment was made of; None where it was not made of a reply, or that cannot be read again."""
    for each in reversed(read):
        if each.attempt["id"] == old.attempt:
            return each
    request_id = old.judgment.request_id
    if old.attempt is None and request_id is not None:
        return next((each for each in reversed(read) if each.attempt["request_id"] == request_id), None)
    return None


def _reply(attempt: Row) -> Reply:
    return Reply(attempt["judge_reply"], attempt["finish_reason"], attempt["refusal_text"], attempt["reasoning_text"])


def _keys(attempt: Row) -> list[bytes]:
    return [attempt["keys"][at : at + 16] for at in range(0, len(attempt["keys"]), 16)]


def _state_of(judgment: Judgment) -> JudgmentState:
    return JudgmentState(judgment.state, judgment.reason, judgment.verdict, judgment.scores)


class RevisionMaker:
    """The revisions made of one run directory in this session."""

    def __init__(self, run: RunDirectory, judge_models: Mapping[tuple[str, str], JudgeModel]) -> None:
        self._run = run
        self._judge_models = judge_models
        self.new: list[Revision] = []
        """The revisions of this session, in order."""

    def rescore(self, ledger: Ledger, staged: Staged) -> RevisionDiff:
        modes = StructuredModes(self._judge_models, ledger.meta)
        judge_models = {
            name: replace(each, mode=modes.get(name, each.mode)) for name, each in self._judge_models.items()
        }
        changes, revision = rescore_ledger(ledger, staged, judge_models, _names(ledger, lambda: staged))
        self._add(revision, ledger)
        return changes

    def settle(self, ledger: Ledger, staged: Callable[[], Staged | None]) -> None:
        """Let the outcomes that a retry has brought so far replace the judgments. `staged`: to name the examples.

        The manifest tells of all revisions afterwards, also of one that a process made and died before it said so.
        """
        self._add(ledger.revisions.settle(_names(ledger, staged), PARSER_VERSION), ledger)
        manifest = self._run.manifest()
        if manifest is not None and manifest.get("revisions", []) != (revisions := list_changes(ledger)):
            self._run.write_manifest(manifest | {"revisions": revisions})

    def _add(self, revision: Revision | None, ledger: Ledger) -> None:
        if revision is not None:
            self.new.append(revision)
            self._run.write_manifest((self._run.manifest() or {}) | {"revisions": list_changes(ledger)})


def _names(ledger: Ledger, staged: Callable[[], Staged | None]) -> Callable[[Place], tuple[str, str] | None]:
    """What tells system and item id of the trial at a place; None where the items are gone."""
    first_rows = {row.shard.id: row.shard.first_row for row in ledger.shards()}

    def name(place: Place) -> tuple[str, str] | None:
        if (items := staged()) is None:
            return None
        shard, position = place
        ((system, item_id),) = items.frame(first_rows[shard] + position, 1, ["system", "id"]).rows()
        return system, item_id

    return name


def list_changes(ledger: Ledger) -> list[dict[str, Any]]:
    """The revisions as the manifest tells of them: the changes one by one stay in the ledger."""
    documents = [revision.document() for revision in ledger.revisions.all()]
    return [{name: value for name, value in document.items() if name != "changes"} for document in documents]
