"""How a run moves to a changed plan: the SQL by which judgments and waiting trials find their new places by key.

Text only; `ledger` executes it in one transaction. What a plan no longer asks for is set aside in `retired`.
"""

from __future__ import annotations

from .schema import OUTCOME_COLUMNS, judgments_table

_OUTCOMES = ", ".join(OUTCOME_COLUMNS)
_B_OUTCOMES = ", ".join(f"b.{name}" for name in OUTCOME_COLUMNS)

# --- a changed plan. `asked` is filled with the new plan's (key, shard, position) between CREATE_ASKED and SORT_ASKED.
# Both sides are sorted by key before they are joined: lookups of random keys in a table of millions would each miss the
# cache, lookups in key order do not. OR IGNORE and OR REPLACE: what was set aside may have been judged again since,
# where a plan was set without looking for it; the newer stands.
CREATE_ASKED = "CREATE TEMP TABLE asked (key BLOB, shard INTEGER, position INTEGER)"

ADD_ASKED = "INSERT INTO asked (key, shard, position) VALUES (?, ?, ?)"

SORT_ASKED = (
    "CREATE TEMP TABLE wanted (key BLOB PRIMARY KEY, shard INTEGER, position INTEGER) WITHOUT ROWID",
    "INSERT INTO wanted SELECT key, shard, position FROM asked ORDER BY key",
    "DROP TABLE asked",
)

MOVE_JUDGMENTS = (
    """
    CREATE TEMP TABLE had AS
        SELECT key, 0 AS is_retired, shard, position FROM judgments
        UNION ALL SELECT key, 1, shard, position FROM retired ORDER BY key
    """,
    """
    CREATE TEMP TABLE moves AS
        SELECT h.key, h.is_retired, h.shard AS old_shard, h.position AS old_position, w.shard, w.position
        FROM had h CROSS JOIN wanted w ON w.key = h.key
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
        FROM had h CROSS JOIN judgments_before b ON b.shard = h.shard AND b.position = h.position
        JOIN shards s ON s.id = b.shard
        WHERE NOT h.is_retired AND NOT EXISTS (SELECT 1 FROM wanted w WHERE w.key = h.key)
    """,
    "DROP TABLE judgments_before",
    "DROP TABLE had",
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
        SELECT w.shard, w.position, w.key, s.judge, s.model, p.why, p.history
        FROM pending_before p CROSS JOIN wanted w ON w.key = p.key JOIN shards s ON s.id = w.shard
    """,
    "DROP TABLE pending_before",
    "DROP TABLE wanted",
)
"""After the new shards are added."""
