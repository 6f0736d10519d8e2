from __future__ import annotations

import errno
import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from runner.messages import Snapshot, Tally
from runner.session.progress import (
    NUMBERS,
    Progress,
    Row,
    ThroughputMeter,
    duration,
    line,
    percent,
    rows,
    totals,
)
from runner.usage import Usage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def snapshot(scored: int, trials: int = 100, **counts: int) -> Snapshot:
    return Snapshot({("yes-no", "small"): Tally(trials=trials, scored=scored, usage=Usage(cost_usd=0.5), **counts)})


def row(**changes: object) -> Row:
    values = {"judge": "j", "model": "m", "trials": 10, "done": 5, "unscored": 0, "waiting": 0, "rate_per_s": 1.0}
    return Row(**({**values, "throttled": 0, "cost_usd": 0.0} | changes))  # type: ignore[arg-type]


def test_a_row_counts_what_has_no_score_and_what_goes_out_again() -> None:
    shown = rows(
        snapshot(40, malformed=3, refused=2, failed=4, poisoned=1, waiting=5, parked=2),
        ThroughputMeter(Clock()),
        {"small": 7},
        {"small": "outage 12s"},
    )[0]
    assert (shown.done, shown.unscored, shown.waiting, shown.throttled) == (50, 10, 7, 7)
    assert shown.note == "outage 12s"


def test_the_rate_is_that_of_this_session_and_of_the_last_seconds() -> None:
    clock = Clock()
    pace = ThroughputMeter(clock)
    assert pace.rate(("j", "m"), 1_000) is None
    clock.now += 10
    assert pace.rate(("j", "m"), 1_500) == 50
    for _ in range(10):
        clock.now += 10
        rate = pace.rate(("j", "m"), 1_500)
    assert rate == 0


def test_time_left() -> None:
    assert row(done=5, rate_per_s=2.0).left_s == 2.5
    assert row(done=5, rate_per_s=None).left_s is None
    assert row(done=5, rate_per_s=0.0).left_s is None
    assert row(done=10, rate_per_s=0.0).left_s == 0.0
    assert row(trials=0, done=0).share == 1.0


def test_a_line_says_all() -> None:
    text = line(row(trials=5_000, done=1_250, unscored=5, waiting=3, throttled=12, cost_usd=1.5, rate_per_s=25.0))
    assert text == "j × m: 25 % 1,250/5,000  25.0/s  unscored 0.4 %  to judge again 3  429s 12  $1.50  2m 30s left"
    assert line(row(note="outage 12s")).endswith("  outage 12s")


def test_numbers_as_people_read_them() -> None:
    assert [percent(0.999), percent(1.0), percent(0.0049, 1), percent(0.29)] == ["99 %", "100 %", "0.4 %", "29 %"]
    assert [duration(None), duration(8.4), duration(185), duration(7_800)] == ["?", "8s", "3m 05s", "2h 10m"]


def test_plain_lines_come_at_steps_and_after_a_while_and_at_the_end() -> None:
    clock, stream = Clock(), io.StringIO()
    printed: list[str] = []

    def lines() -> list[str]:
        text = stream.getvalue()
        new = text.removeprefix("".join(printed)).splitlines(keepends=True)
        printed.extend(new)
        return new

    with Progress(stream=stream, clock=clock) as progress:
        progress.update(snapshot(0))
        assert len(lines()) == 1
        clock.now += 1
        progress.update(snapshot(5))
        assert lines() == []
        progress.update(snapshot(11))
        assert "11 % 11/100" in lines()[0]
        clock.now += 10
        progress.update(snapshot(12))
        assert len(lines()) == 1
        progress.update(snapshot(12), states={"small": "outage 1s"})
        assert len(lines()) == 1
        progress.update(snapshot(12), suspected={("yes-no", "small"): 3})
        assert "workers die, 3 trials suspected" in lines()[0]
        progress.update(snapshot(12), suspected={("yes-no", "small"): 1})
        assert lines()[0].endswith("workers die, 1 trial suspected\n")
        progress.update(snapshot(100))
        assert "100 % 100/100" in lines()[0]
        clock.now += 60
        progress.update(snapshot(100))
        assert lines() == []
    assert lines() == []


def test_what_was_not_printed_yet_is_printed_at_the_end() -> None:
    stream = io.StringIO()
    with Progress(stream=stream, clock=Clock()) as progress:
        progress.update(snapshot(0))
        progress.update(snapshot(3))
    assert "3/100" in stream.getvalue().splitlines()[-1]


def test_bars_on_a_terminal() -> None:
    stream = Terminal()
    with Progress(stream=stream, clock=Clock()) as progress:
        progress.update(
            Snapshot({("yes-no", "small"): Tally(trials=10, scored=4), ("yes-no", "large"): Tally(trials=10)})
        )
    text = stream.getvalue()
    assert "yes-no × small" in text
    assert "4/20" in text


def test_quiet_prints_nothing() -> None:
    stream = Terminal()
    with Progress(quiet=True, stream=stream) as progress:
        progress.update(snapshot(3))
    assert stream.getvalue() == ""


def test_a_name_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "160")
    with Progress(stream=stream, clock=Clock()) as progress:
        progress.update(Snapshot({("[bold]x[/nope]", "m"): Tally(trials=10)}), states={"m": "[/]"})
    assert "[bold]x[/nope] × m" in stream.getvalue()
    assert "[/]" in stream.getvalue()


@pytest.mark.parametrize(
    ("columns", "numbers"),
    [(60, ("done", "cost", "left")), (80, tuple(set(NUMBERS) - {"rate", "again"})), (160, tuple(NUMBERS))],
)
def test_no_digit_is_cut(columns: int, numbers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream, clock = Terminal(), Clock()
    tally = Tally(trials=1_000_000, malformed=54_321, waiting=7, usage=Usage(cost_usd=1234.5))
    with Progress(stream=stream, clock=clock) as progress:
        for scored in (0, 100_000):
            tallies = {("longmemeval-paper", name): replace(tally, scored=scored) for name in ("gpt-4o-mini", "o3")}
            counts = Snapshot(tallies)
            progress.update(counts, throttled={"gpt-4o-mini": 98_765})
            clock.now += 10
    lines = stream.getvalue().splitlines()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", "\n".join(lines))
    shown = rows(counts, ThroughputMeter(clock), {"gpt-4o-mini": 98_765})[0]
    for name in set(numbers) - {"rate", "left"}:
        assert NUMBERS[name](shown) in text
    assert "…" in text or columns == 160
    assert max(cell_len(line) for line in text.splitlines()) <= columns


def test_an_accounts_429s_stand_in_the_rows_of_its_models() -> None:
    stream = io.StringIO()
    with Progress({"small": "openai"}, stream=stream, clock=Clock()) as progress:
        progress.update(snapshot(3), {"openai": 7, "other": 9})
    assert "429s 7" in stream.getvalue()


def test_a_stderr_that_takes_nothing_more_ends_no_run() -> None:
    class Full(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            raise OSError(errno.ENOSPC, "No space left on device")

    stream = Full()
    with Progress(stream=stream) as progress:
        for done in (0, 50, 100):
            progress.update(snapshot(done))
    assert stream.writes == 1


def test_the_time_left_is_told_once_it_means_something() -> None:
    clock = Clock()
    pace = ThroughputMeter(clock)
    shown = [rows(snapshot(0), pace)[0]]
    for scored in (3, 20, 40):
        clock.now += 5
        shown.append(rows(snapshot(scored), pace)[0])
    assert [each.left_s for each in shown] == [None, None, 40.0, 22.5]
    assert pace.overall() == (15.0, 40 / 15)


def test_the_panel_says_why_how_long_and_what_a_stop_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream, clock = Terminal(), Clock()
    with Progress(stream=stream, clock=clock) as progress:
        assert progress.is_live
        progress.update(snapshot(0), states={"small": "endpoint away, probing (server: HTTP 502)"})
        clock.now += 65
        progress.update(snapshot(13), stopping=None)
        progress.update(snapshot(13), stopping=(12, 8.0))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert "yes-no × small: endpoint away, probing (server: HTTP 502)" in text
    assert "1m 05s so far, 0.2/s on average" in text
    assert "stopping: 12 in flight, 8s left; Ctrl-C again leaves at once" in text
    assert max(map(cell_len, text.splitlines())) <= 60


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Progress(stream=stream) as progress:
        assert not progress.is_live
        progress.update(snapshot(3))
    assert "\x1b" not in stream.getvalue() and "3/100" in stream.getvalue()


def test_what_has_no_price_shows_no_cost() -> None:
    unpriced, priced = row(done=5, cost_usd=0.0), row(done=5, cost_usd=0.25)
    assert NUMBERS["cost"](unpriced) == "–"
    assert totals([unpriced, priced])[1]["cost"] == "≥ $0.25"
    assert totals([priced, priced])[1]["cost"] == "$0.50"
