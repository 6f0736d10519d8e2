"""What is said of requests that may have been billed although nothing of them was settled."""

from __future__ import annotations

from typing import Any

from runner.usage import Bound

from .table import usd


def words(bound: Bound) -> str:
    """In one line, for a report and for a status."""
    requests = "1 request" if bound.requests == 1 else f"{bound.requests:,} requests"
    most = f"{requests}, {bound.tokens:,} tokens"
    most = f"{usd(bound.usd)} ({most})" if bound.nano_usd else most
    return f"Up to {most} more may have been billed: requests in flight when a process ended, or without an answer."


def amounts(bound: Bound) -> dict[str, Any]:
    """As JSON-able data."""
    return {"requests": bound.requests, "tokens": bound.tokens, "cost_usd": bound.usd}
