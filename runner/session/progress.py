"""What a person sees of a run while it works: a line per judge and model, live on a terminal, plain in a log file.

Hides rich and how often a line is printed. Pure functions over the aggregator's live counts work out what is shown, so
the numbers can be tested without a terminal and without waiting.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from runner.messages import JudgeModelId, Snapshot
from runner.usage import usd

from .run_status import describe_duration

EVERY_S = 10.0
"""Seconds between two plain lines of one judge and model, where nothing else calls for one."""
STEPS = 10
"""Every tenth of the trials calls for a plain line."""
SETTLED_S, SETTLED_DONE = 10.0, 10
"""A rate over fewer seconds or judgments than this says nothing of the time left."""
WINDOW_S = 30.0
"""The rate is measured over the last seconds, so that a pause shows and an earlier session does not count."""

T = TypeVar("T", int, str)


@dataclass(frozen=True, slots=True)
class Row:
    judge: str
    model: str
    trials: int
    done: int
    unscored: int
    """Judgments without a score so far."""
    waiting: int
    """Trials that go out again."""
    rate_per_s: float | None
    """None until two moments are known."""
    throttled: int
    """429s of this session."""
    cost_usd: float
    note: str = ""
    is_settled: bool = True
    """Whether enough was seen to tell the time left."""

    @property
    def share(self) -> float:
        """Done of all, 0 to 1; without trials it is done."""
        return self.done / self.trials if self.trials else 1.0

    @property
    def left_s(self) -> float | None:
        """Seconds to the end at the present rate; None where that says nothing."""
        if self.done >= self.trials:
            return 0.0
        return (self.trials - self.done) / self.rate_per_s if self.rate_per_s and self.is_settled else None


class ThroughputMeter:
    """Judgments a second of each judge × model, over the last WINDOW_S seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[JudgeModelId, deque[tuple[float, int]]] = {}
        self._first: dict[JudgeModelId, tuple[float, int]] = {}

    def rate(self, judge_model: JudgeModelId, done: int) -> float | None:
        now = self._clock()
        counts = self._counts.setdefault(judge_model, deque())
        counts.append((now, done))
        self._first.setdefault(judge_model, (now, done))
        while len(counts) > 2 and counts[1][0] <= now - WINDOW_S:
            counts.popleft()
        first_at, first_done = counts[0]
        return (done - first_done) / (now - first_at) if now > first_at else None

    def is_settled(self, judge_model: JudgeModelId) -> bool:
        """Whether the rate tells the time left."""
        (began_at, before), (now, done) = self._first[judge_model], self._counts[judge_model][-1]
        return now - began_at >= SETTLED_S and done - before >= SETTLED_DONE

    def overall(self) -> tuple[float, float | None]:
        """Seconds since the first count, and judgments a second since then, of all together."""
        if not self._first:
            return 0.0, None
        seconds = self._clock() - min(at for at, _ in self._first.values())
        done = sum(self._counts[each][-1][1] - before for each, (_, before) in self._first.items())
        return seconds, done / seconds if seconds > 0 else None


def rows(
    snapshot: Snapshot,
    throughput: ThroughputMeter,
    throttled: Mapping[str, int] = {},
    states: Mapping[str, str] = {},
    suspected: Mapping[JudgeModelId, int] = {},
) -> list[Row]:
    """The rows to show, in the snapshot's order. `throttled` and `states` are by model."""
    listed = []
    for (judge, model), tally in snapshot.tallies.items():
        rate = throughput.rate((judge, model), tally.done)
        unscored, waiting = tally.done - tally.scored, tally.waiting + tally.parked
        counts = (tally.trials, tally.done, unscored, waiting, rate, throttled.get(model, 0), tally.usage.cost_usd)
        note = states.get(model) or _suspects(suspected.get((judge, model), 0))
        is_settled = throughput.is_settled((judge, model))
        listed.append(Row(judge, model, *counts, note=note, is_settled=is_settled))
    return listed


def line(row: Row) -> str:
    number = {name: show(row) for name, show in NUMBERS.items()}
    again = f"  to judge again {row.waiting:,}" if row.waiting else ""
    text = f"{row.judge} × {row.model}: {percent(row.share)} {number['done']}  {number['rate']}  unscored "
    text += f"{number['unscored']}{again}  429s {number['429s']}  {number['cost']}  {number['left']} left"
    return text + (f"  {row.note}" if row.note else "")


NUMBERS: Mapping[str, Callable[[Row], str]] = {
    "done": lambda row: f"{row.done:,}/{row.trials:,}",
    "rate": lambda row: _rate(row.rate_per_s),
    "unscored": lambda row: percent(row.unscored / row.done if row.done else 0.0, 1),
    "again": lambda row: f"{row.waiting:,}" if row.waiting else "",
    "429s": lambda row: f"{row.throttled:,}",
    # A model without a price costs something too, but nobody knows what.
    "cost": lambda row: usd(row.cost_usd) if row.cost_usd else "–",
    "left": lambda row: duration(row.left_s),
}
WITH_BAR = 100
"""Columns of a terminal that shows bars."""
LEAST_NAME = 16
"""Columns for the names, before which numbers give way: these, the first first. No digit is ever cut."""
GIVE_WAY = ("rate", "again", "429s", "unscored")


def _numbers(cells: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """The numbers that have room beside the names."""
    needed = {name: 1 + max(len(name), *(len(each[name]) for each in cells)) for name in NUMBERS}
    if not any(each["again"] for each in cells):
        del needed["again"]
    for name in GIVE_WAY:
        if sum(needed.values()) + LEAST_NAME > width:
            needed.pop(name, None)
    return list(needed)


def _table(rows: Sequence[Row], width: int) -> Table:
    """A row per judge × model, and below several what all of them come to.

    The numbers are as wide as they are; name and bar share what they leave.
    """
    entries = [(f"{row.judge} × {row.model}", row, _cells(row)) for row in rows]
    if len(rows) > 1:
        entries.append(("all", *totals(rows)))
    names = _numbers([cells for _, _, cells in entries], width)
    with_bar = width >= WITH_BAR
    table = Table.grid(padding=(0, 1), expand=True)
    table.show_header = True
    table.add_column("judge × model", ratio=4, no_wrap=True, overflow="ellipsis")
    for _ in range(with_bar):
        table.add_column(ratio=2)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for title, row, cells in entries:
        bar = [ProgressBar(max(row.trials, 1), row.done if row.trials else 1)] if with_bar else []
        table.add_row(Text(title), *bar, *(cells[name] for name in names))
    return table


def _panel(
    rows: Sequence[Row], overall: tuple[float, float | None], stopping: tuple[int, float] | None, width: int
) -> Group:
    """The table, what is to be said of single rows, and how the whole stands."""
    notes = [f"{row.judge} × {row.model}: {row.note}" for row in rows if row.note]
    seconds, average = overall
    last = f"{duration(seconds)} so far, {_rate(average)} on average"
    if stopping is not None:
        last = f"stopping: {stopping[0]:,} in flight, {duration(stopping[1])} left; Ctrl-C again leaves at once"
    lines = [Text(text, no_wrap=True, overflow="ellipsis") for text in notes]
    return Group(_table(rows, width), *lines, Text(last))


def _cells(row: Row) -> dict[str, str]:
    return {name: number(row) for name, number in NUMBERS.items()}


def totals(rows: Sequence[Row]) -> tuple[Row, dict[str, str]]:
    counts = {
        name: sum(getattr(row, name) for row in rows) for name in ("trials", "done", "unscored", "waiting", "cost_usd")
    }
    total = Row("", "", **counts, rate_per_s=sum(row.rate_per_s or 0.0 for row in rows), throttled=0)
    # The models work side by side, so the run takes as long as its slowest row. Rows of one account share its 429s.
    left = [row.left_s for row in rows]
    longest = None if None in left else max(seconds for seconds in left if seconds is not None)
    cells = _cells(total) | {"429s": "", "left": duration(longest)}
    if total.cost_usd and any(row.done and not row.cost_usd for row in rows):
        cells["cost"] = f"≥ {cells['cost']}"
    return total, cells


class Progress:
    """Shows a run on stderr while it works. A context manager; `update` is called as often as counts come.

    `accounts` names the account of every model that shares one, so that the account's 429s stand in its models' rows.
    """

    def __init__(
        self,
        accounts: Mapping[str, str] = {},
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._accounts = accounts
        self._quiet = quiet
        self._stream = stream or sys.stderr
        self._clock = clock
        self._throughput = ThroughputMeter(clock)
        self._rows: list[Row] = []
        self._live: Live | None = None
        self._printed: dict[JudgeModelId, tuple[float, Row]] = {}

    def __enter__(self) -> Progress:
        if not self._quiet and self._stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
            # No thread of its own: it would draw between two lines of a log.
            self._live = Live(console=Console(file=self._stream), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            if self._rows:
                self._draw(self._live, None)
            self._live.stop()
            self._live = None
        elif not self._quiet:
            for row in self._rows:
                # The rate and the time left change by themselves.
                last = self._printed[row.judge, row.model][1]
                if (last.done, last.waiting, last.cost_usd) != (row.done, row.waiting, row.cost_usd):
                    self._print(row)

    @property
    def is_live(self) -> bool:
        """Whether a panel is drawn anew and anew, which says all that is to be said."""
        return self._live is not None

    def update(
        self,
        snapshot: Snapshot,
        throttled: Mapping[str, int] = {},
        states: Mapping[str, str] = {},
        suspected: Mapping[JudgeModelId, int] = {},
        stopping: tuple[int, float] | None = None,
    ) -> None:
        """Show the newest counts. `throttled`: 429s by account; `states`: a word by account, as `endpoint away`;
        `suspected`: trials that may kill their workers; `stopping`: requests in flight, and the seconds they have.
        """
        if self._quiet:
            return
        models = {model for _, model in snapshot.tallies}
        by_model = self._by_model(throttled, models), self._by_model(states, models)
        self._rows = rows(snapshot, self._throughput, *by_model, suspected)
        if self._live is not None:
            self._draw(self._live, stopping)
            return
        for row in self._rows:
            if self._is_due(row):
                self._print(row)

    def _draw(self, live: Live, stopping: tuple[int, float] | None) -> None:
        panel = _panel(self._rows, self._throughput.overall(), stopping, live.console.width)
        live.update(panel, refresh=True)

    def _by_model(self, by_account: Mapping[str, T], models: set[str]) -> dict[str, T]:
        accounts = {model: self._accounts.get(model, model) for model in models}
        return {model: by_account[name] for model, name in accounts.items() if name in by_account}

    def _is_due(self, row: Row) -> bool:
        printed_at, last = self._printed.get((row.judge, row.model), (0.0, None))
        if last is None:
            return True
        if last.done >= last.trials:
            return (last.done, last.trials) != (row.done, row.trials)
        is_step = int(row.share * STEPS) > int(last.share * STEPS)
        return is_step or row.note != last.note or self._clock() - printed_at >= EVERY_S

    def _print(self, row: Row) -> None:
        self._printed[row.judge, row.model] = (self._clock(), row)
        try:
            self._stream.write(line(row) + "\n")
            self._stream.flush()
        except OSError:
            # A file on a full disk, or a reader that has gone: the run goes on without progress.
            self._quiet = True


def _suspects(suspected: int) -> str:
    return f"workers die, {suspected:,} trial{'s' * (suspected != 1)} suspected" if suspected else ""


def percent(share: float, digits: int = 0) -> str:
    """A share as `62 %`; rounded down, since 100 % is said only of what is whole."""
    factor = 100 * 10**digits
    return f"{int(share * factor + 1e-9) / 10**digits:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """A time in words; `?` where it is not known."""
    return "?" if seconds is None else describe_duration(seconds)


def _rate(per_s: float | None) -> str:
    return "?/s" if per_s is None else f"{per_s:,.1f}/s"
