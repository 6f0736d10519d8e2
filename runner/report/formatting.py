"""What a table of the report is, and how its numbers are written.

Measures have four decimals; what has no value is a dash, never a zero.
"""

from dataclasses import dataclass
from typing import Literal

from runner.stats.estimators import Metric, Rate
from runner.stats.metrics import Macro
from runner.stats.summaries import ScoreSummary

NONE = "–"
INTERVAL = "95 %"
"""How the header of an interval begins; it stands right of what it is the interval of."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Numbers stand right and in one piece. Names and texts stand left, and go on in the next line where they must."""

    header: str
    kind: Literal["number", "name", "text"] = "number"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text cells. `sums`: rows at its end that summarize those before them."""

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    sums: int = 0


def names(*headers: str) -> list[TableColumn]:
    return [TableColumn(header, "name") for header in headers]


def numbers(*headers: str) -> list[TableColumn]:
    return [TableColumn(header) for header in headers]


def number(value: float | None, digits: int = 4) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}%}"


def interval(entry: Rate | ScoreSummary | Metric | Macro | None) -> str:
    if entry is None or entry.low is None or entry.high is None:
        return NONE
    return f"{entry.low:.4f}–{entry.high:.4f}"


def usd(value: float | None) -> str:
    """An amount of money: whole cents, or finer where it is below ten of them."""
    if value is None:
        return NONE
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.5f}"


def p_value(p: float) -> str:
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def counted(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"
