"""What a report says of how replies were read: put together from counts and calls, with what must be told first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from judges import Scale
from runner.ledger.ledger import Ledger
from runner.ledger.schema import ALL_SHARDS
from runner.stats.counting import Counts
from runner.stats.malformed_examples import BEGINNING, END, MalformedExample, top_examples
from runner.stats.parse_stats import (
    UNSCORED,
    Call,
    FirstReplies,
    JudgeModelNames,
    ParsePaths,
    StepCalls,
    coercions,
    first_replies,
    parse_paths,
    step_calls,
)


@dataclass(frozen=True, slots=True)
class ParseSummary:
    """How replies were read, of every judge × model of the plan."""

    first_replies: tuple[FirstReplies, ...] = ()
    ways: tuple[ParsePaths, ...] = ()
    coercions: Mapping[JudgeModelNames, Mapping[str, int]] | None = None
    unreadable: tuple[MalformedExample, ...] = ()
    calls: tuple[StepCalls, ...] = ()
    """Those of the plan, and those of models that it holds only to reformat."""

    @property
    def plain_replies(self) -> bool:
        """Whether every first reply was a verdict just as it was asked for."""
        return all(entry.strict.hits == entry.replies and not entry.cut.hits for entry in self.first_replies)

    @property
    def plain_ways(self) -> bool:
        """Whether every verdict came of such a reply."""
        return all(way.way in ("strict", *UNSCORED) for entry in self.ways for way in entry.ways)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "first_replies": [asdict(entry) for entry in self.first_replies],
            "ways": [asdict(entry) for entry in self.ways],
            "coercions": [
                {"judge": judge, "model": model, "note": note, "trials": trials}
                for (judge, model), found in (self.coercions or {}).items()
                for note, trials in found.items()
            ],
            "unreadable": [asdict(entry) for entry in self.unreadable],
            "calls": [asdict(entry) for entry in self.calls],
        }


def summarize_parsing(
    counts: Counts | None,
    ledger: Ledger,
    scales: Mapping[str, Mapping[str, Scale]],
    choices: Mapping[str, Sequence[str]],
    place: Callable[[str, str], tuple[int, int]],
    planned: Iterable[JudgeModelNames],
    before: int = ALL_SHARDS,
) -> ParseSummary:
    """`place`: where a planned judge × model stands in the report; `before`: the first shard of control items, of which
    only the calls are told.
    """
    if counts is None:
        return ParseSummary()
    known = set(planned)

    def order(entry: Any) -> tuple[int, ...]:
        pair = entry.judge, entry.model
        return (0, *place(*pair)) if pair in known else (1,)

    calls = [call for call in map(Call._make, ledger.calls()) if _of_plan(call, known)]
    mine = [call for call in map(Call._make, ledger.calls(before)) if (call.judge, call.model) in known]
    unread = (row for row in ledger.malformed_replies(BEGINNING, END, before) if (row[0], row[1]) in known)
    return ParseSummary(
        tuple(sorted(first_replies(mine), key=order)),
        tuple(sorted(parse_paths(counts, scales, choices), key=order)),
        coercions(counts),
        tuple(sorted(top_examples(unread), key=order)),
        tuple(sorted(step_calls(calls), key=order)),
    )


def _of_plan(call: Call, known: set[JudgeModelNames]) -> bool:
    judges = {judge for judge, _ in known}
    return (call.judge, call.model) in known or (call.step == "reformat" and call.judge in judges)
