"""What a table of the report is, and how its numbers are written.

Measures have four decimals; what has no value is a dash, never a zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from runner.stats.estimators import Rate

NONE = "–"
INTERVAL = "95 %"
"""How the header of an interval begins; it stands right of what it is the interval of."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: names stand left, numbers right. An `extra` one may be left out where there is no room."""

    header: str
    name: bool = False
    extra: bool = False
    outside: bool = False
    """The header is a name of the run's (one a line), and may be cut like one."""
    text: bool = False
    """What is read, or copied, as it stands: on the left, and where it is too wide it goes on in the next line."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text cells. `sums`: rows that summarize those before them."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    sums: int = 0


JUDGE, MODEL, SYSTEM = Column("judge", name=True), Column("model", name=True), Column("system", name=True)


def number(value: float | None, digits: int = 4) -> str:
    """A number with fixed decimals."""
    return NONE if value is None else f"{value:.{digits}f}"


def ends(low: float | None, high: float | None) -> str:
    """An interval by its ends."""
    return NONE if low is None or high is None else f"{low:.4f}–{high:.4f}"


def interval(rate: Rate) -> str:
    """A 95 % interval of a share."""
    return ends(rate.low, rate.high)


def usd(value: float | None) -> str:
    """An amount of money: whole cents, or finer where it is below ten of them."""
    if value is None:
        return NONE
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.5f}"


def p_value(p: float) -> str:
    """How likely a difference is without a cause."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"
