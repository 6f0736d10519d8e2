"""What an endpoint has charged by its own log, beside what the ledger has settled and what it holds reserved.

The log and the file are read as any other program would: nothing here imports what is tested.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Spent:
    requests: int
    tokens: int
    usd: float

    def at_most(self, other: Spent) -> bool:
        """In requests, in tokens and in money, but for what floats gather."""
        return (
            self.requests <= other.requests
            and self.tokens <= other.tokens
            and self.usd <= other.usd * (1 + 1e-9) + 1e-9
        )


def charged(log: Iterable[Mapping[str, Any]], price: Mapping[str, float]) -> Spent:
    """By the log of `jurybox simulate`: every request that came, and the tokens of those that were carried out."""
    entries = list(log)
    given = sum(entry["prompt_tokens"] for entry in entries)
    made = sum(entry["completion_tokens"] for entry in entries)
    return Spent(len(entries), given + made, (given * price["input"] + made * price["output"]) / 1e6)


def settled(ledger: Path) -> Spent:
    """By the ledger: requests that were answered, and what the answers said that they took."""
    ((tokens, usd),) = _rows(ledger, "SELECT total(input_tokens + output_tokens), total(cost_usd) FROM spend")
    ((answered,),) = _rows(ledger, "SELECT count(*) FROM attempts WHERE status IS NOT NULL")
    return Spent(answered, round(tokens), usd)


def reserved(ledger: Path) -> Spent:
    """By the ledger: what more may have been charged."""
    ((requests, tokens, nano_usd),) = _rows(
        ledger, "SELECT total(requests), total(tokens), total(nano_usd) FROM reserved"
    )
    return Spent(int(requests), int(tokens), nano_usd / 1e9)


def assert_covered(ledger: Path, log: Iterable[Mapping[str, Any]], price: Mapping[str, float]) -> Spent:
    """Settled ≤ charged ≤ settled + reserved, in every respect. `log` must hold all requests that have come."""
    known, open_, billed = settled(ledger), reserved(ledger), charged(log, price)
    most = Spent(known.requests + open_.requests, known.tokens + open_.tokens, known.usd + open_.usd)
    assert known.at_most(billed), f"settled {known}, charged {billed}"
    assert billed.at_most(most), f"charged {billed}, settled and reserved {most}"
    return billed


def _rows(ledger: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()
