"""What a table of the report is, and how its numbers are written.

What people see first has as many digits as its interval carries (`Precision`), the measures of the tables behind it
have four decimals; what has no value is a dash, never a zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from runner.stats.estimators import Metric, Rate
from runner.stats.metrics import Macro
from runner.stats.summaries import ScoreSummary
from runner.usage import usd

NONE = "–"
_MOST_MORE = 4
INTERVAL = "95 %"
"""How the header of an interval begins; it stands right of what it is the interval of."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Numbers stand right and in one piece. Names and texts stand left, and go on in the next line where they must.

    A plot stands as it is, where there is room for it.
    """

    header: str
    kind: Literal["number", "name", "text", "plot"] = "number"


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


def money(value: float | None) -> str:
    return NONE if value is None else usd(value)


@dataclass(frozen=True, slots=True)
class Precision:
    """How a share or a mean, its interval and its differences are written: shares as percentages."""

    percent: bool
    decimals: int

    @classmethod
    def of(cls, percent: bool, n: int, low: float | None, high: float | None, *values: float | None) -> Precision:
        """Two digits of half the interval where it begins with 1 or 2, else one; without one as of `n` yes or no.

        None of the values is written as 0, or as 100 %, unless it is.
        """
        half = (high - low) / 2 if low is not None and high is not None else 0.0
        half = (half or 1 / math.sqrt(max(n, 1))) * (100 if percent else 1)
        least = max(0, math.ceil(-math.log10(half / 3)))
        tried = (cls(percent, least + more) for more in range(_MOST_MORE))
        known = [value for value in values if value is not None]
        return next((each for each in tried if all(map(each._is_true, known))), cls(percent, least))

    def _is_true(self, value: float) -> bool:
        scale = 100 if self.percent else 1
        written = round(value * scale, self.decimals)
        return written not in (0, 100 * self.percent) or value * scale == written

    def number(self, value: float | None, signed: bool = False) -> str:
        if value is None:
            return NONE
        if signed and value == 0:
            return "0"
        sign = "+" if signed else ""
        return f"{value * (100 if self.percent else 1):{sign}.{self.decimals}f}".replace("-", "−")

    def value(self, value: float | None) -> str:
        if self.percent and value in (0.0, 1.0):
            return "100 %" if value else "0 %"
        return NONE if value is None else self.number(value) + " %" * self.percent

    def interval(self, low: float | None, high: float | None) -> str:
        if low is None or high is None:
            return NONE
        between = "–" if low >= 0 else " to "
        return f"{self.number(low)}{between}{self.number(high)}" + " %" * self.percent


def p_value(p: float) -> str:
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def counted(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """As `8s`, `3m 05s` or `2h 10m`."""
    minutes, whole = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {whole:02d}s" if minutes else f"{whole}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"
