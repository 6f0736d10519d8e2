"""What travels between driver, workers and aggregator.

Plain frozen records: they pickle, hold no handles and no secrets. A trial is addressed by (shard, position) inside one
run's ledger, and named for good by its content-addressed key.
"""

from dataclasses import dataclass, field

from .usage import NOTHING, CostBound, Record, Usage

JudgeModelId = tuple[str, str]
"""The judge's name and the model's."""
TrialPosition = tuple[int, int]
"""A trial's shard and its position there."""


@dataclass(frozen=True, slots=True)
class TrialProgress(Record):
    """What a trial has been through before: carried while it waits in the ledger to be judged again."""

    malformed: int = 0
    """Replies that could not be read so far."""
    refused: int = 0
    depth: int = 0
    """How often the batch that it is in was halved."""
    parked: int = 0
    """Times its request kept failing until it was put off to the end of the run."""
    cut: int = 0
    """Replies that were cut off: each doubles what the next may take, up to a limit."""
    reformat_failed: int = 0
    """Replies that were to be reformatted when the reformat model gave none."""
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    official: bool | None = None
    """The official reading of the first reply, where the judge declares one and a reply came."""
    retry: int = 0
    """The revision for which the trial, judged before, is judged again; 0: it is judged for the first time."""


@dataclass(frozen=True, slots=True)
class Trial(Record):
    """One trial as a worker gets it. `fields` is the item's fields as JSON bytes; labels never leave the driver."""

    shard: int
    position: int
    item_id: str
    question_id: str
    system: str
    group: str | None
    template: str
    fields: bytes
    history: TrialProgress = field(default_factory=TrialProgress)
    is_control: bool = False

    @property
    def place(self) -> TrialPosition:
        """Where it is in the plan."""
        return self.shard, self.position


@dataclass(frozen=True, slots=True)
class Task(Record):
    """What the driver hands to a worker: requests of one judge, model and repeat, each with the trials it carries.

    The trials of one request have been through the same: their histories differ in attempts and usage only.
    """

    id: int
    judge: str
    model: str
    repeat: int
    requests: tuple[tuple[Trial, ...], ...]
    structured: str = "off"
    """The effective mode of structured output."""
    probe: bool = False
    """Nothing is judged: that mode is to be found out."""

    @property
    def trials(self) -> list[Trial]:
        """Its trials, in order."""
        return [trial for request in self.requests for trial in request]


@dataclass(frozen=True, slots=True)
class TaskReport(Record):
    """How a task ended. Everything counted in `judged` and `waiting` is acknowledged by the aggregator."""

    judged: int
    waiting: int
    left: int
    """Trials neither judged nor waiting: the worker was told to stop, or the endpoint needs the user's action."""
    action_needed: str | None = None
    """The provider's words, where only the user can mend it (401, no quota, unknown model)."""
    broken: str | None = None
    """What the code of a judge in Python says, where it could not deal with any reply."""
    structured: str | None = None
    """Of a probe: the effective mode that it found; None where it came to no end."""


@dataclass(frozen=True, slots=True)
class Attempt(Record):
    """One request as made. Written once, never changed."""

    request_id: str
    """Of one request, however often it is sent: with `try_` it names the attempt."""
    keys: tuple[bytes, ...]
    judge: str
    model: str
    model_id: str
    stage: str
    """Which call of the ladder this was: `first`, `rejudge:<k>`, `refused:<k>`, `bisect:<depth>`, `last`; or
    `reread:<place>`, which checks a verdict that stood in that place; or `probe`, which asks a harmless question to see
    whether the endpoint answers, and has no keys."""
    try_: int
    """1 for the first send of this request, 2 for the second, …"""
    state: str
    """`ok` or `error`."""
    sent_at: float
    """Wall clock, seconds since the epoch (a column, never used to order anything)."""
    worker: str
    served_model: str | None = None
    system_fingerprint: str | None = None
    status: int | None = None
    error: str | None = None
    """`<kind>: <message>`."""
    finish_reason: str | None = None
    judge_reply: str | None = None
    reasoning_text: str | None = None
    refusal_text: str | None = None
    usage: Usage = field(default_factory=Usage)
    latency_s: float | None = None
    retry_after_s: float | None = None
    reading: str | None = None
    """What its reply was read as: how (`strict`, `tolerant:<rule>`, …), or the state and the reason (`malformed:count`,
    `refused:model`). None where no reply came, or none that judges."""
    parser_version: str | None = None
    """Of the reader, where there is a reading."""
    same_verdict: bool | None = None
    """Of a reread: whether it says what the trial's judgment says. None where either has no verdict."""
    freed: CostBound = NOTHING
    """What was reserved for it, once it is known what it took; nothing where it may have been billed all the same."""

    @property
    def is_settled(self) -> bool:
        """Whether the endpoint has received it, and nothing stays reserved for it."""
        return self.status is not None and self.freed.requests > 0


@dataclass(frozen=True, slots=True)
class Judgment(Record):
    """The outcome a trial ended with, as recorded."""

    shard: int
    position: int
    key: bytes
    state: str
    reason: str | None
    """Malformed: reason code; refused: by whom; failed: kind."""
    verdict: str | None
    """JSON object."""
    scores: str | None
    """JSON object of floats."""
    template: str
    stage: str | None
    notes: tuple[str, ...]
    parser_version: str
    structured: str
    batch_size: int
    """Trials in the deciding request."""
    batch_position: int
    """The trial's place in it, from 1."""
    bisect_depth: int
    """How often its batch was halved before."""
    request_id: str | None
    """The attempt whose reply decided; None where no call was made (stage `empty`)."""
    official: bool | None
    attempts: int
    usage: Usage
    latency_s: float | None
    """Of the deciding request."""
    judged_at: float
    worker: str


@dataclass(frozen=True, slots=True)
class PendingTrial(Record):
    """A trial that goes out again: `why` is malformed, refused, halved or parked; or retry, of a judged trial."""

    shard: int
    position: int
    key: bytes
    why: str
    history: TrialProgress


@dataclass(frozen=True, slots=True)
class Batch(Record):
    """What a worker sends to the aggregator: kept by the worker and sent again until acknowledged.

    `seq` counts 1, 2, … per sender with one batch in flight, so a batch that arrives twice is known by its number.
    """

    sender: str
    seq: int
    attempts: tuple[Attempt, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    waiting: tuple[PendingTrial, ...] = ()
    reserved: CostBound = NOTHING
    """What the sender asks to reserve besides; where it is below zero, what it gives back."""
    starved: CostBound | None = None
    """The cheapest request that waits, where the sender can pay for none, has none in flight and expects no other."""


@dataclass(frozen=True, slots=True)
class Ack(Record):
    """The batch is committed and synced."""

    seq: int
    duplicates: int
    """Judgments that another worker had recorded already; theirs stand."""
    granted: CostBound = NOTHING
    """Of what the batch asked to reserve: all of it, or nothing where that might take the run over its budget."""
    left: CostBound | None = None
    """What nobody has spent or reserved of the budget; None: the run has none."""


@dataclass(frozen=True, slots=True)
class Tally(Record):
    """Live counts of one judge × model."""

    trials: int = 0
    scored: int = 0
    malformed: int = 0
    refused: int = 0
    failed: int = 0
    poisoned: int = 0
    waiting: int = 0
    """Waiting to be judged again (malformed, refused or halved)."""
    parked: int = 0
    usage: Usage = field(default_factory=Usage)
    requests: int = 0

    @property
    def done(self) -> int:
        """Trials with a judgment."""
        return self.scored + self.malformed + self.refused + self.failed + self.poisoned


@dataclass(frozen=True, slots=True)
class Snapshot(Record):
    """The aggregator's live counts."""

    tallies: dict[JudgeModelId, Tally]
    unrecorded: str | None = None
    """Why the last batch could not be recorded; its sender keeps it, and sends it again."""
    shortage: str | None = None
    """Why soon no batch could be."""
    starved: frozenset[str] = frozenset()
    """Senders that can go on only with more of the budget than is left."""
    over_budget: str | None = None
    """What is left of the budget, and what the cheapest of their requests may cost, in words."""


@dataclass(frozen=True, slots=True)
class Lease(Record):
    """A worker's share of one account's limits. None: not limited."""

    account: str
    in_flight: int
    requests_per_s: float | None = None
    tokens_per_s: float | None = None
    probe: bool = False
    """Where the endpoint is away: it is this worker's turn to ask whether it is back."""


@dataclass(frozen=True, slots=True)
class AccountStats(Record):
    """What a worker saw of one account since its last renewal."""

    account: str
    succeeded: int = 0
    answered: int = 0
    """HTTP replies of any kind."""
    throttled: int = 0
    failing: int = 0
    """Requests that failed, as they would were the endpoint away, since anything was answered there."""
    is_open: bool = False
    """So many that nothing but probes goes out."""
    probes: int = 0
    """Probes that failed since then."""
    has_turn: bool = False
    """It was given the turn to probe, and has not done so yet."""
    put_off: int = 0
    """429s since a request succeeded or was at fault itself."""
    unreachable: int = 0
    """Connections that could not be made since the last HTTP reply of any kind."""
    last_error: str | None = None
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class LeaseRenewal(Record):
    """Driver to worker, about once a second: leases, or the order to stop."""

    leases: tuple[Lease, ...]
    stop: bool = False
    """Start no request; finish those in flight, record them, let the tasks return."""
    close: tuple[str, ...] = ()
    """The same for single accounts."""


@dataclass(frozen=True, slots=True)
class WorkerStatus(Record):
    """A worker's answer to a renewal."""

    accounts: tuple[AccountStats, ...]
    sender: str = ""
    """The worker's name in the ledger."""


BLOCK_MARKER = "block_marker"
"""The note on a trial whose own text holds what opens a block: it is asked alone."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of staged rows under one judge, model and repeat. A trial's position is its row − first_row."""

    id: int
    judge: str
    model: str
    repeat: int
    first_row: int
    rows: int
    trials: int
    """Rows that the judge routes; the others are no trials."""

    @property
    def judge_model_id(self) -> JudgeModelId:
        """Who judges."""
        return self.judge, self.model
