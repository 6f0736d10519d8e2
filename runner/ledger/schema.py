"""The ledger's tables, how records become rows, and how a run moves to a changed plan.

SQL and tuples only, so that what is in the file can be read in one place; `ledger` and its neighbours execute it.
Nothing here needs a newer SQLite than 3.24, since enterprise distributions ship Python 3.11 with an old one: no
RETURNING, no STRICT.
"""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from runner.messages import Attempt, Batch, Judgment
from runner.usage import Usage

VERSION = 8
"""Of the file. There is one version: a file of another is refused, not converted."""


def _names(columns: str) -> tuple[str, ...]:
    return tuple(column.split()[0] for column in columns.split(","))


_USAGE = """
    input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL, cost_usd REAL NOT NULL
"""
_ATTEMPT = f"""
    id INTEGER PRIMARY KEY, request_id TEXT NOT NULL, keys BLOB NOT NULL, judge TEXT NOT NULL, model TEXT NOT NULL,
    model_id TEXT NOT NULL, served_model TEXT, system_fingerprint TEXT, stage TEXT NOT NULL, try INTEGER NOT NULL,
    state TEXT NOT NULL, error TEXT, status INTEGER, finish_reason TEXT, judge_reply TEXT, reasoning_text TEXT,
    refusal_text TEXT, {_USAGE}, latency_s REAL, retry_after_s REAL, late_duplicate INTEGER NOT NULL DEFAULT 0,
    sent_at REAL NOT NULL, worker TEXT NOT NULL, reading TEXT, parser_version TEXT,
    same_verdict INTEGER
"""
_OUTCOME = f"""
    state TEXT NOT NULL, reason TEXT, verdict TEXT, scores TEXT, template TEXT NOT NULL, stage TEXT,
    notes TEXT NOT NULL, parser_version TEXT NOT NULL, structured TEXT NOT NULL, request_id TEXT, attempt INTEGER,
    official INTEGER, attempts INTEGER NOT NULL, {_USAGE}, latency_s REAL, judged_at REAL NOT NULL,
    worker TEXT NOT NULL, revision INTEGER NOT NULL, batch_size INTEGER NOT NULL, batch_position INTEGER NOT NULL,
    bisect_depth INTEGER NOT NULL
"""

USAGE_COLUMNS, ATTEMPT_COLUMNS, OUTCOME_COLUMNS = _names(_USAGE), _names(_ATTEMPT), _names(_OUTCOME)
JUDGMENT_COLUMNS = ("shard", "position", "key", *OUTCOME_COLUMNS)
OTHER_COLUMNS = tuple(name for name in JUDGMENT_COLUMNS if name != "revision")
REPLY_COLUMNS = (
    "judge_reply", "reasoning_text", "refusal_text", "finish_reason", "served_model", "system_fingerprint",
)  # fmt: skip
"""What `Ledger.judgment_rows` adds from the deciding attempt."""

RECENT_REPLIES = """
    SELECT min(sent_at), coalesce(sum(length(keys) / 16), 0)
    FROM (SELECT sent_at, keys, state FROM attempts ORDER BY id DESC LIMIT 5000) WHERE sent_at > ? AND state = 'ok'
"""


# Clustered by (shard, position): shards are worked off a few at a time, so the database's own uniqueness touches the
# same warm pages whatever the ledger's size. A random 16-byte key would cost a cold page per row on a large ledger.
def judgments_table(table: str = "judgments") -> str:
    """The statement that makes the table of judgments, or another like it."""
    return f"""
        CREATE TABLE {table} (
            shard INTEGER NOT NULL, position INTEGER NOT NULL, key BLOB NOT NULL, {_OUTCOME},
            PRIMARY KEY (shard, position)
        ) WITHOUT ROWID
    """


TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE senders (
        sender TEXT PRIMARY KEY, seq INTEGER NOT NULL, records INTEGER NOT NULL, granted TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE shards (
        id INTEGER PRIMARY KEY, judge TEXT NOT NULL, model TEXT NOT NULL, repeat INTEGER NOT NULL,
        first_row INTEGER NOT NULL, rows INTEGER NOT NULL, trials INTEGER NOT NULL,
        done INTEGER NOT NULL DEFAULT 0 CHECK (done BETWEEN 0 AND trials)
    )
    """,
    f"CREATE TABLE attempts ({_ATTEMPT})",
    judgments_table(),
    """
    CREATE TABLE pending (
        shard INTEGER NOT NULL, position INTEGER NOT NULL, key BLOB NOT NULL, judge TEXT NOT NULL,
        model TEXT NOT NULL, why TEXT NOT NULL, history TEXT NOT NULL, PRIMARY KEY (shard, position)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX pending_by_model ON pending (model, why, shard, position)",
    f"""
    CREATE TABLE spend (
        judge TEXT NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL, {_USAGE},
        settled INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (judge, model)
    ) WITHOUT ROWID
    """,
    # What each sender of batches may spend at most beyond what it has settled: the bounds of its requests that are not
    # settled, and what it has reserved for the next.
    """
    CREATE TABLE reserved (
        sender TEXT PRIMARY KEY, requests INTEGER NOT NULL, tokens INTEGER NOT NULL, nano_usd INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    # Judgments that the present plan does not ask for. Disjoint from `judgments` in keys, so a trial that a later plan
    # asks for again is taken back from here and not bought again.
    f"""
    CREATE TABLE retired (
        shard INTEGER NOT NULL, position INTEGER NOT NULL, key BLOB PRIMARY KEY, {_OUTCOME},
        judge TEXT NOT NULL, model TEXT NOT NULL, repeat INTEGER NOT NULL, retired_at REAL NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE revisions (
        number INTEGER PRIMARY KEY, kind TEXT NOT NULL, made_at REAL NOT NULL, parser_version TEXT NOT NULL,
        changes TEXT NOT NULL
    )
    """,
    # New outcomes of trials that are judged again, until they replace the judgments, which stand meanwhile.
    judgments_table("renewed"),
    # What is to be published, and what of it is in the segment that is being written. `priority` is 0 for new
    # judgments, 1 for new outcomes of a retry, 2 for judgments that are published anew.
    *(
        f"""
        CREATE TABLE {table} (
            priority INTEGER NOT NULL, shard INTEGER NOT NULL, position INTEGER NOT NULL,
            PRIMARY KEY (priority, shard, position)
        ) WITHOUT ROWID
        """
        for table in ("unpublished", "publishing")
    ),
)


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


SHARDS = "SELECT id, judge, model, repeat, first_row, rows, trials, done FROM shards ORDER BY id"
ADD_SHARD = _insert("shards", ("id", "judge", "model", "repeat", "first_row", "rows", "trials"))
ADD_ATTEMPT = _insert("attempts", ATTEMPT_COLUMNS)
ADD_JUDGMENT = _insert("judgments", JUDGMENT_COLUMNS) + " ON CONFLICT DO NOTHING"
ADD_RENEWED = _insert("renewed", JUDGMENT_COLUMNS)
REVISION = "SELECT coalesce(max(number), 1) FROM revisions"
PUT_PENDING = (
    _insert("pending", ("shard", "position", "key", "judge", "model", "why", "history"))
    + " ON CONFLICT (shard, position) DO UPDATE SET why = excluded.why, history = excluded.history"
)
PUT_SENDER = (
    _insert("senders", ("sender", "seq", "records", "granted"))
    + " ON CONFLICT (sender) DO UPDATE SET seq = excluded.seq, records = excluded.records, granted = excluded.granted"
)
LAST_BATCH = "SELECT seq, records, granted FROM senders WHERE sender = ?"
META = "SELECT value FROM meta WHERE key = ?"
PUT_META = _insert("meta", ("key", "value")) + " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_SPENT = ("requests", *USAGE_COLUMNS, "settled")
"""`settled`: those of the requests that are known to have been received, and for which nothing is reserved any more."""
ADD_SPEND = _insert("spend", ("judge", "model", *_SPENT)) + (
    f" ON CONFLICT (judge, model) DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _SPENT)}"
)
_BOUND = ("requests", "tokens", "nano_usd")
ADD_RESERVED = _insert("reserved", ("sender", *_BOUND)) + (
    f" ON CONFLICT (sender) DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _BOUND)}"
)
RESERVED = f"SELECT {', '.join(f'coalesce(sum({name}), 0)' for name in _BOUND)} FROM reserved"
SETTLED = "SELECT coalesce(sum(settled), 0), total(input_tokens + output_tokens), total(cost_usd) FROM spend"

# A judgment's own `revision` is the one that brought it; read together they make up the run's present one.
_PRESENT = {"revision": f"({REVISION})"}
JUDGMENT_ROWS = (
    f"SELECT {', '.join(_PRESENT.get(name, f'j.{name}') for name in JUDGMENT_COLUMNS)},"
    f" {', '.join(f'a.{name}' for name in REPLY_COLUMNS)}"
    " FROM judgments j LEFT JOIN attempts a ON a.id = j.attempt"
    " WHERE j.shard BETWEEN ? AND ? ORDER BY j.shard, j.position"
)
_CUT = "lower(coalesce(finish_reason, '')) IN ('length', 'max_tokens', 'model_length')"
ALL_SHARDS = 2**62


def _of_plan(before: str) -> str:
    """Requests about trials of the plan's shards below an id; with ALL_SHARDS all that were ever made.

    The other shards are those of control items, which are asked one by one. What does not belong is excluded, since
    that is little: controls that are judged or wait, and requests all of whose trials were retired. Of a trial that
    waited without a judgment when a plan dropped it the ledger keeps the requests alone: those count as the plan's.
    """
    return f"""
        keys NOT IN (
            SELECT key FROM judgments WHERE shard >= {before} UNION ALL SELECT key FROM pending WHERE shard >= {before}
        ) AND ({before} = {ALL_SHARDS} OR coalesce(substr(keys, 1, 16), '') NOT IN (SELECT key FROM retired) OR EXISTS (
            WITH RECURSIVE place(at) AS (SELECT 17 UNION ALL SELECT at + 16 FROM place WHERE at < length(keys))
            SELECT 1 FROM place WHERE at < length(keys) AND substr(keys, at, 16) NOT IN (SELECT key FROM retired)
        ))
    """


CALLS = (
    f"SELECT judge, model, stage, state, reading, parser_version, {_CUT}, late_duplicate, same_verdict, count(*),"
    f" {', '.join(f'sum({name})' for name in USAGE_COLUMNS)}"
    f" FROM attempts WHERE {_of_plan('?1')} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9"
)
"""Requests as made, and what they took, by everything that tells how they went."""
REQUEST_SPANS = (
    "SELECT min(sent_at), max(sent_at + coalesce(latency_s, 0)) FROM attempts GROUP BY CAST(sent_at / 60 AS INTEGER)"
)
"""When requests were going on: for each minute in which some were sent, the first and the end of the last."""
UNREAD = (
    "SELECT judge, model, reading, substr(judge_reply, 1, ?1), substr(judge_reply, -?2) FROM attempts"
    f" WHERE reading >= 'malformed:' AND reading < 'malformed;' AND stage <> 'reformat' AND stage NOT LIKE 'reread:%'"
    f" AND {_of_plan('?3')} ORDER BY id"
)
"""Replies that were no verdict: how they begin and end."""
ATTEMPT_ROWS = (
    f"SELECT {', '.join(ATTEMPT_COLUMNS)} FROM attempts WHERE id > ?1 AND {_of_plan('?2')} ORDER BY id LIMIT ?3"
)

TALLY_STATES = ("scored", "malformed", "refused", "failed", "poisoned")

# Grouped by shard first: that is the table's own order, so no sort of all judgments is needed.
TALLIES = (
    f"SELECT s.judge, s.model, {', '.join(f'sum(j.{state})' for state in TALLY_STATES)} FROM ("
    f"SELECT shard, {', '.join(f'''sum(state = '{state}') AS {state}''' for state in TALLY_STATES)}"
    " FROM judgments GROUP BY shard) j JOIN shards s ON s.id = j.shard GROUP BY s.judge, s.model"
)

AGAIN_TALLIES = """
    SELECT s.judge, s.model, o.state, sum(o.n) FROM (
        SELECT j.shard, j.state, -1 AS n FROM pending p CROSS JOIN judgments j
            ON j.shard = p.shard AND j.position = p.position
        UNION ALL SELECT j.shard, j.state, -1 FROM renewed r CROSS JOIN judgments j
            ON j.shard = r.shard AND j.position = r.position
        UNION ALL SELECT shard, state, 1 FROM renewed
    ) o JOIN shards s ON s.id = o.shard GROUP BY s.judge, s.model, o.state
"""
"""What is to be added for trials that are judged again."""

SPEND = f"SELECT judge, model, requests, {', '.join(USAGE_COLUMNS)} FROM spend"
PENDING_COUNTS = "SELECT judge, model, why, count(*) FROM pending GROUP BY judge, model, why"
IS_JUDGED = "SELECT 1 FROM judgments WHERE shard = ? AND position = ?"
ADD_DONE = "UPDATE shards SET done = done + ? WHERE id = ?"
MARK_LATE = "UPDATE attempts SET late_duplicate = 1 WHERE id = ?"
DROP_PENDING = "DELETE FROM pending WHERE shard = ? AND position = ?"
WHY_PENDING = "SELECT why FROM pending WHERE shard = ? AND position = ?"
HISTORY = "SELECT history FROM pending WHERE shard = ? AND position = ?"
WAITING = "SELECT shard, position, history FROM pending WHERE model = ? AND why = ? ORDER BY shard, position"
RECENT_ATTEMPT = (
    "SELECT id FROM (SELECT id, request_id, state FROM attempts ORDER BY id DESC LIMIT ?)"
    " WHERE request_id = ? ORDER BY state = 'ok' DESC, id DESC LIMIT 1"
)


def usage_row(usage: Usage) -> tuple[float, ...]:
    return (
        usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cost_usd,
    )  # fmt: skip


def attempt_row(id_: int, attempt: Attempt) -> tuple[Any, ...]:
    """In the order of ATTEMPT_COLUMNS."""
    return (
        id_, attempt.request_id, b"".join(attempt.keys), attempt.judge, attempt.model, attempt.model_id,
        attempt.served_model, attempt.system_fingerprint, attempt.stage, attempt.try_, attempt.state, attempt.error,
        attempt.status, attempt.finish_reason, attempt.judge_reply, attempt.reasoning_text, attempt.refusal_text,
        *usage_row(attempt.usage), attempt.latency_s, attempt.retry_after_s, 0, attempt.sent_at, attempt.worker,
        attempt.reading, attempt.parser_version, attempt.same_verdict,
    )  # fmt: skip


def judgment_row(judgment: Judgment, attempt: int | None, revision: int) -> tuple[Any, ...]:
    """In the order of JUDGMENT_COLUMNS; `attempt` is the id of the one that decided."""
    return (
        judgment.shard, judgment.position, judgment.key, judgment.state, judgment.reason, judgment.verdict,
        judgment.scores, judgment.template, judgment.stage, json.dumps(judgment.notes), judgment.parser_version,
        judgment.structured, judgment.request_id, attempt, judgment.official, judgment.attempts,
        *usage_row(judgment.usage), judgment.latency_s, judgment.judged_at, judgment.worker, revision,
        judgment.batch_size, judgment.batch_position, judgment.bisect_depth,
    )  # fmt: skip


def judgment_from_row(row: Sequence[Any]) -> tuple[Judgment, int | None, int]:
    """The inverse of `judgment_row`: the judgment, the id of the attempt that decided, the revision."""
    values = dict(zip(JUDGMENT_COLUMNS, row, strict=True))
    attempt, revision = values.pop("attempt"), values.pop("revision")
    usage = Usage(*(values.pop(name) for name in USAGE_COLUMNS))
    values["notes"] = tuple(json.loads(values["notes"]))
    values["official"] = None if values["official"] is None else bool(values["official"])
    return Judgment(**values, usage=usage), attempt, revision


_Record = TypeVar("_Record", Attempt, Judgment)


def encodable(batch: Batch) -> Batch:
    """The batch with what UTF-8 cannot hold (lone surrogates) written as its escape."""

    def escaped(record: _Record) -> _Record:
        values: dict[str, Any] = {name.name: getattr(record, name.name) for name in fields(record)}
        texts = {name: text for name, text in values.items() if isinstance(text, str)}
        escapes = {name: text.encode("utf-8", "backslashreplace").decode() for name, text in texts.items()}
        return replace(record, **values | escapes)

    return replace(batch, attempts=tuple(map(escaped, batch.attempts)), judgments=tuple(map(escaped, batch.judgments)))


_OUTCOMES = ", ".join(OUTCOME_COLUMNS)
_B_OUTCOMES = ", ".join(f"b.{name}" for name in OUTCOME_COLUMNS)

# --- a changed plan: judgments and waiting trials find their new places by key. What the plan no longer holds is set
# aside in `retired`. `planned_trials` is filled with the new plan's trials between CREATE_PLANNED and SORT_PLANNED.
# Both sides are sorted by key before they are joined: lookups of random keys in a table of millions would each miss the
# cache, lookups in key order do not. OR IGNORE and OR REPLACE: what was set aside may have been judged again since,
# where a plan was set without looking for it; the newer stands.
CREATE_PLANNED = "CREATE TEMP TABLE planned_trials (key BLOB, shard INTEGER, position INTEGER)"

ADD_PLANNED = "INSERT INTO planned_trials (key, shard, position) VALUES (?, ?, ?)"

SORT_PLANNED = (
    "CREATE TEMP TABLE planned (key BLOB PRIMARY KEY, shard INTEGER, position INTEGER) WITHOUT ROWID",
    "INSERT INTO planned SELECT key, shard, position FROM planned_trials ORDER BY key",
    "DROP TABLE planned_trials",
)

MOVE_JUDGMENTS = (
    """
    CREATE TEMP TABLE known AS
        SELECT key, 0 AS is_retired, shard, position FROM judgments
        UNION ALL SELECT key, 1, shard, position FROM retired ORDER BY key
    """,
    """
    CREATE TEMP TABLE moves AS
        SELECT k.key, k.is_retired, k.shard AS old_shard, k.position AS old_position, p.shard, p.position
        FROM known k CROSS JOIN planned p ON p.key = k.key
    """,
    "ALTER TABLE judgments RENAME TO judgments_before",
    judgments_table(),
    f"""
    INSERT INTO judgments (shard, position, key, {_OUTCOMES})
        SELECT m.shard, m.position, m.key, {_B_OUTCOMES}
        FROM moves m CROSS JOIN judgments_before b ON b.shard = m.old_shard AND b.position = m.old_position
        WHERE NOT m.is_retired ORDER BY m.shard, m.position
    """,
    f"""
    INSERT OR IGNORE INTO judgments (shard, position, key, {_OUTCOMES})
        SELECT m.shard, m.position, m.key, {_B_OUTCOMES} FROM moves m CROSS JOIN retired b ON b.key = m.key
        WHERE m.is_retired ORDER BY m.shard, m.position
    """,
    "DELETE FROM retired WHERE key IN (SELECT key FROM moves WHERE is_retired)",
    f"""
    INSERT OR REPLACE INTO retired (shard, position, key, {_OUTCOMES}, judge, model, repeat, retired_at)
        SELECT b.shard, b.position, b.key, {_B_OUTCOMES}, s.judge, s.model, s.repeat, 0
        FROM known k CROSS JOIN judgments_before b ON b.shard = k.shard AND b.position = k.position
        JOIN shards s ON s.id = b.shard
        WHERE NOT k.is_retired AND NOT EXISTS (SELECT 1 FROM planned p WHERE p.key = k.key)
    """,
    "DROP TABLE judgments_before",
    "DROP TABLE known",
    "DROP TABLE moves",
    "DELETE FROM shards",
)
"""Before the new shards are added."""

STAMP_RETIRED = "UPDATE retired SET retired_at = ? WHERE retired_at = 0"

FINISH_REPLAN = (
    "UPDATE shards SET done = (SELECT count(*) FROM judgments j WHERE j.shard = shards.id)",
    "CREATE TEMP TABLE pending_before AS SELECT key, why, history FROM pending",
    "DELETE FROM pending",
    """
    INSERT INTO pending (shard, position, key, judge, model, why, history)
        SELECT p.shard, p.position, p.key, s.judge, s.model, b.why, b.history
        FROM pending_before b CROSS JOIN planned p ON p.key = b.key JOIN shards s ON s.id = p.shard
    """,
    "DROP TABLE pending_before",
    "DROP TABLE planned",
)
"""After the new shards are added."""
