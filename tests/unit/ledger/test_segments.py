"""What of a ledger is to be published: once, in an order that never leaves a judgment without its request."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_batches import judged, judgment, key, new_ledger, plan

from runner.ledger.ledger import Ledger
from runner.ledger.segments import Segment
from runner.messages import Batch


def published(ledger: Ledger, *, rows: int = 1_000) -> list[tuple[Segment, set[tuple[int, int]]]]:
    """Publish all there is: each segment with the places of its judgments."""
    found = []
    while (segment := ledger.segments.begin_segment(rows)) is not None:
        found.append((segment, places(ledger)))
        ledger.segments.finish_segment(segment.number)
    return found


def places(ledger: Ledger, *, renewed: bool = False) -> set[tuple[int, int]]:
    _, rows = ledger.segments.rows(renewed=renewed)
    found = [(row[0], row[1]) for row in rows]
    assert len(found) == len(set(found))
    return set(found)


def turned_on(ledger: Ledger) -> Ledger:
    ledger.segments.enable("there", segment=0, edition=0, attempts=0)
    ledger.segments.begin_edition(ledger.revisions.current())
    return ledger


def test_nothing_is_kept_for_a_run_that_is_not_published(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        ledger.commit(judged("a", 1, 0, 0, 1))
        assert ledger.segments.begin_segment(10) is None
        assert ledger.segments.count_unpublished() == 0
        turned_on(ledger)
        ledger.commit(judged("a", 2, 1, 0))
        assert [found for _, found in published(ledger)] == [{(0, 0), (0, 1), (1, 0)}]
        ledger.segments.disable()
        ledger.commit(judged("a", 3, 1, 1))
        assert ledger.segments.begin_segment(10) is None
        ledger.segments.begin_edition(1)
        ((segment, found),) = published(ledger)
        assert found == {(0, 0), (0, 1), (1, 0), (1, 1)}
        assert (segment.edition, segment.after, segment.until) == (2, 3, 4)


def test_a_segment_stays_as_it_was_marked_until_it_is_done(tmp_path: Path) -> None:
    with turned_on(new_ledger(tmp_path)) as ledger:
        ledger.commit(judged("a", 1, 0, 0, 1))
        segment = ledger.segments.begin_segment(10)
        assert segment is not None
        held = places(ledger)
        ledger.commit(judged("a", 2, 1, 0))
    with Ledger(tmp_path / "run.db") as ledger:
        assert ledger.segments.begin_segment(10) == segment
        assert places(ledger) == held == {(0, 0), (0, 1)}
        assert ledger.segments.count_unpublished() == 2 + 1 + 3
        ledger.segments.finish_segment(segment.number)
        ledger.segments.finish_segment(segment.number)
        assert [found for _, found in published(ledger)] == [{(1, 0)}]
        assert ledger.segments.count_unpublished() == 0
        assert ledger.segments.begin_segment(10) is None


def test_what_is_new_goes_before_what_is_published_anew(tmp_path: Path) -> None:
    with new_ledger(tmp_path, plan(4, 50)) as ledger:
        for shard in range(3):
            ledger.commit(judged("a", shard + 1, shard, *range(50)))
        turned_on(ledger)
        assert (
            ledger.segments.begin_segment(40) is not None
        )  # attempts first: their judgments come with the last of them
        assert places(ledger) == set()
        ledger.commit(judged("a", 4, 3, 0, 1))
        segments = published(ledger, rows=40)
        first = next(found for _, found in segments if found)
        assert {(3, 0), (3, 1)} < first
        seen = [place for _, found in segments for place in found]
        assert len(seen) == len(set(seen)) == 152
        assert [segment.catches_up for segment, _ in segments] == [False] * (len(segments) - 1) + [True]


def test_a_judgment_is_in_no_earlier_segment_than_its_request(tmp_path: Path) -> None:
    with turned_on(new_ledger(tmp_path, plan(4, 50))) as ledger:
        for shard in range(3):
            ledger.commit(judged("a", shard + 1, shard, *range(50)))
        until = 0
        for segment, found in published(ledger, rows=40):
            assert segment.after == until
            until = segment.until
            assert not found or until == 150
        assert until == 150


def test_a_changed_plan_begins_another_edition(tmp_path: Path) -> None:
    with turned_on(new_ledger(tmp_path, plan(2, 2))) as ledger:
        ledger.commit(judged("a", 1, 0, 0, 1))
        published(ledger)
        ledger.commit(judged("a", 2, 1, 0))
        segment = ledger.segments.begin_segment(10)
        assert segment is not None
        moved = [(shard.id, at) for shard in plan(2, 2) for at in range(2)]
        ledger.replan(plan(2, 2), [(key(1 - shard, at), shard, at) for shard, at in moved])
        ledger.segments.begin_edition(1)
        # Its name may be taken; its judgments are elsewhere now, and come with the edition.
        assert ledger.segments.begin_segment(10) == segment
        assert places(ledger) == set()
        ledger.segments.finish_segment(segment.number)
        ((last, found),) = published(ledger)
        assert (last.edition, last.catches_up, found) == (2, True, {(1, 0), (1, 1), (0, 0)})


def test_a_retry_is_published_apart_until_it_stands(tmp_path: Path) -> None:
    with turned_on(new_ledger(tmp_path, plan(1, 3))) as ledger:
        unread = {"state": "malformed", "reason": "x", "verdict": None, "scores": None}
        ledger.commit(Batch("a", 1, judgments=tuple(judgment(0, at, **unread) for at in range(3))))
        published(ledger)
        ledger.revisions.begin_retry(["malformed"])
        ledger.commit(judged("a", 2, 0, 1))
        segment = ledger.segments.begin_segment(10)
        assert segment is not None
        assert (segment.judgments, segment.renewed) == (0, 1)
        assert (places(ledger), places(ledger, renewed=True)) == (set(), {(0, 1)})
        names, ((*row,),) = ledger.segments.rows(renewed=True)
        told = dict(zip(names, row, strict=True))
        assert (told["state"], told["revision"], told["judge_reply"]) == ("scored", 2, "yes")
        ledger.segments.finish_segment(segment.number)
        ledger.revisions.settle(lambda place: None, "1")
        ledger.segments.begin_edition(ledger.revisions.current())
        ((last, found),) = published(ledger)
        assert (last.edition, last.revision, found) == (2, 2, {(0, 0), (0, 1), (0, 2)})


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(["judge", "mark", "done", "reopen", "off", "edition"]), max_size=30),
    rows=st.integers(1, 7),
)
def test_whatever_happens_each_edition_holds_each_judgment_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], rows: int
) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = turned_on(new_ledger(folder, plan(4, 5)))
    judged_so_far = 0
    editions: dict[int, list[tuple[int, int]]] = {}
    attempts: list[int] = []

    def finish(segment: Segment) -> None:
        editions.setdefault(segment.edition, []).extend(places(ledger))
        attempts.extend(range(segment.after + 1, segment.until + 1))
        ledger.segments.finish_segment(segment.number)

    for step in steps:
        if step == "judge" and judged_so_far < 20:
            ledger.commit(judged("a", judged_so_far + 1, *divmod(judged_so_far, 5)))
            judged_so_far += 1
        elif step == "mark":
            ledger.segments.begin_segment(rows)
        elif step == "done" and (segment := ledger.segments.begin_segment(rows)) is not None:
            finish(segment)
        elif step == "reopen":
            ledger.close()
            ledger = Ledger(folder / "run.db")
        elif step == "off":
            ledger.segments.disable()
            ledger.segments.begin_edition(1)
        elif step == "edition":
            ledger.segments.begin_edition(1)
    while (segment := ledger.segments.begin_segment(rows)) is not None:
        finish(segment)
    state = ledger.segments.state()
    assert state is not None
    last = editions.get(state.edition, [])
    assert sorted(last) == [divmod(n, 5) for n in range(judged_so_far)]
    assert attempts == list(range(1, judged_so_far + 1))
    assert all(len(found) == len(set(found)) for found in editions.values())
    assert state.whole
    assert ledger.segments.count_unpublished() == 0
    ledger.close()
