"""Reading stored replies again: which reply decides, what follows it, and what stands as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_batches import attempts
from replied_run import Replied, replied_run, scored

from judges import PARSER_VERSION
from runner.messages import Attempt
from runner.session.rescore import rescore_ledger
from runner.worker.request import copy_request_id

YES, NO = {"correct": True}, {"correct": False}
UNREADABLE = "It depends."


@pytest.fixture
def run(tmp_path: Path) -> Replied:
    return replied_run(tmp_path)


def changes(document: dict[str, Any]) -> dict[tuple[str, str], tuple[int, list[str]]]:
    """(from, to) → how many, and the examples' ids."""

    def end(data: dict[str, Any]) -> str:
        return json.dumps(data["verdict"]) if data["verdict"] else f"{data['state']} {data['reason']}"

    return {
        (end(change["from"]), end(change["to"])): (change["trials"], [one["item_id"] for one in change["examples"]])
        for change in document["changes"]
    }


def test_the_first_reply_that_can_be_read_today_decides(run: Replied) -> None:
    first, second = run.reply("a", "Yes."), run.reply("a", "no", "rejudge:1", worker="v", latency_s=0.25)
    run.record([first, second], [run.judgment("a", second, **scored(NO, stage="rejudge:1", notes=("read:strict",)))])
    before = run.judged("a")
    document, revision = run.rescore()
    assert revision is not None and (revision.number, revision.kind) == (2, "rescore")
    run.shows("a", state="scored", verdict=YES, scores={"correct": 1.0}, request_id=first.request_id, worker="w")
    run.shows("a", attempt=1, latency_s=0.5, parser_version=PARSER_VERSION, revision=2, official=None)
    assert run.judged("a")["stage"].split(":")[0] in ("strict", "tolerant"), "the stage is that of the reading"
    assert changes(document) == {('{"correct": false}', '{"correct": true}'): (1, ["a"])}
    kept = ("key", "attempts", "input_tokens", "cost_usd", "judged_at", "template", "structured")
    run.shows("a", **{name: before[name] for name in kept})


def test_a_later_reply_of_the_ladder_decides_where_the_first_says_nothing(run: Replied) -> None:
    first, second = run.reply("a", UNREADABLE), run.reply("a", "yes", "rejudge:1")
    run.record([first, second], [run.judgment("a", second)])
    document, _ = run.rescore()
    run.shows("a", verdict=YES, stage="rejudge:1", notes=["read:strict"], request_id=second.request_id, attempt=2)
    assert changes(document) == {("malformed no_verdict", '{"correct": true}'): (1, ["a"])}


def test_a_score_whose_reply_says_nothing_today_is_malformed_unless_another_reply_is_read(run: Replied) -> None:
    alone, first, second = run.reply("a", "Yes and no."), run.reply("b", UNREADABLE), run.reply("b", "no", "rejudge:1")
    run.record(
        [alone, first, second],
        [run.judgment("a", alone, **scored(YES)), run.judgment("b", first, **scored(YES))],
    )
    run.rescore()
    run.shows("a", state="malformed", verdict=None, scores=None, stage="first", attempt=1)
    assert run.judged("a")["reason"] is not None
    run.shows("b", verdict=NO, stage="rejudge:1", attempt=3)


def test_where_nothing_can_be_read_the_last_reply_says_why(run: Replied) -> None:
    first, second = run.reply("a", UNREADABLE), run.reply("a", "", "rejudge:1")
    filtered = run.reply("b", "yes", finish_reason="content_filter")
    run.record([first, second, filtered], [run.judgment("a", second), run.judgment("b", filtered, **scored(YES))])
    document, _ = run.rescore()
    run.shows("a", state="malformed", reason="empty", stage="rejudge:1", attempt=2)
    run.shows("b", state="refused", reason="content_filter", verdict=None)
    assert document["changed"] == 2


def test_what_no_reply_decided_stands(run: Replied) -> None:
    dead = run.reply("a", None, state="error", error="rejected: no", status=400)
    lost = run.reply("b", None, "rejudge:1", state="error", error="server: no", status=500)
    run.record(
        [dead, run.reply("b", UNREADABLE), lost, run.reply("d", UNREADABLE), run.reply("d", "yes", "rejudge:1")],
        [
            run.judgment("a", dead, state="failed", reason="rejected"),
            run.judgment("b", lost, state="failed", reason="exhausted"),
            run.judgment("c", None, **scored(NO, stage="empty")),
            run.judgment("d", None, state="poisoned", reason=None),
        ],
    )
    before = {id_: run.judged(id_) for id_ in "abc"}
    document, revision = run.rescore()
    assert revision is not None, "they are by today's reader now"
    for id_ in "abc":
        run.shows(id_, **before[id_] | {"parser_version": PARSER_VERSION, "revision": 2})
    # It has an answer after all.
    run.shows("d", state="scored", verdict=YES)
    assert (document["changed"], document["unchanged"]) == (1, 3)


def test_a_reply_that_came_late_decides_nothing(run: Replied) -> None:
    in_time, late = run.reply("a", UNREADABLE), run.reply("a", "yes")
    run.record([in_time], [run.judgment("a", in_time)])
    run.record([late], [run.judgment("a", late, **scored(YES))])
    assert [row["late_duplicate"] for row in attempts(run.ledger)] == [0, 1]
    assert run.rescore()[0]["changed"] == 0
    run.shows("a", state="malformed", attempt=1)
    assert {row["parser_version"] for row in attempts(run.ledger)} == {PARSER_VERSION}


def test_a_trial_that_waits_is_judged_once_a_reply_of_it_is_read(run: Replied) -> None:
    run.record(
        [run.reply("a", "yes"), run.reply("b", UNREADABLE), run.reply("c", UNREADABLE)],
        waiting=[run.waiting("a", official=True), run.waiting("b"), run.waiting("c")],
    )
    run.judge_models = {name: replace(each, mode="enforced:vllm") for name, each in run.judge_models.items()}
    document, revision = run.rescore()
    assert revision is not None
    run.shows("a", state="scored", verdict=YES, attempts=1, input_tokens=100.0, revision=2, official=1, notes=[])
    run.shows("a", structured="enforced:vllm")
    assert run.judged("b") == {} == run.judged("c")
    assert [row.done for row in run.ledger.shards()] == [1]
    assert len(run.ledger.pending_positions(0)) == 2
    assert changes(document) == {("waiting None", '{"correct": true}'): (1, ["a"])}
    assert run.ledger.tallies()["yes-no", "m"].waiting == 2


def test_scores_are_worked_out_again(run: Replied) -> None:
    reply = run.reply("a", "yes")
    run.record([reply], [run.judgment("a", reply, **scored(YES, scores='{"correct": 0.5}'))])
    document, _ = run.rescore()
    run.shows("a", verdict=YES, scores={"correct": 1.0})
    ((change,),) = [document["changes"]]
    assert (change["from"]["scores"], change["to"]["scores"]) == ({"correct": 0.5}, {"correct": 1.0})


def test_notes_of_the_request_stay_and_those_of_the_reading_are_new(run: Replied) -> None:
    first, second = run.reply("a", "yes"), run.reply("b", "yes")
    asked = ("json_hint", "not_sent:temperature", "seed:3")
    run.record(
        [first, second, run.reply("b", "yes", "rejudge:1")],
        [
            run.judgment("a", first, **scored(YES, notes=(*asked, "prose"))),
            run.judgment("b", run.reply("b", "yes", "rejudge:1"), **scored(YES, notes=asked)),
        ],
    )
    document, _ = run.rescore()
    run.shows("a", notes=list(asked))
    # Another request decides: how that one was sampled was not kept.
    run.shows("b", notes=["json_hint", "not_sent:temperature"], stage="strict", request_id=second.request_id)
    (counted,) = document["judge_models"]
    assert (counted["changed"], counted["unchanged"], counted["read_otherwise"]) == (0, 2, 2)


def test_the_official_reading_is_that_of_the_first_reply(run: Replied) -> None:
    first, second = run.reply("a", "Yes, or no"), run.reply("a", "no", "rejudge:1")
    run.record([first, second], [run.judgment("a", second, **scored(NO, official=False))])
    run.rescore()
    run.shows("a", official=1)


def test_the_same_reader_again_makes_no_revision(run: Replied) -> None:
    first = run.reply("a", "yes")
    run.record([first, run.reply("b", UNREADABLE)], [run.judgment("a", first)], [run.waiting("b")])
    assert run.rescore()[1] is not None
    before = run.judged("a")
    document, revision = run.rescore()
    assert (document["changed"], document["unchanged"], document["changes"], revision) == (0, 1, [], None)
    assert run.judged("a") == before
    assert [revision.number for revision in run.ledger.revisions.all()] == [2]


def test_another_reader_that_reads_all_alike_is_a_revision_without_changes(run: Replied) -> None:
    reply = run.reply("a", "yes", reading="strict")
    run.record([reply], [run.judgment("a", reply, **scored(YES))])
    assert run.ledger.revisions.parser_versions() == ["1"]
    document, revision = run.rescore()
    assert revision is not None and revision.changes["parser_versions_before"] == ["1"]
    assert document["changed"] == 0
    assert run.ledger.revisions.parser_versions() == [PARSER_VERSION]


def test_an_error_on_the_way_takes_all_of_it_back(run: Replied) -> None:
    replies = [run.reply(id_, "yes") for id_ in "abcdefgh"]
    run.record(replies, [run.judgment(id_, reply) for id_, reply in zip("abcdefgh", replies, strict=True)])
    before = [run.judged(id_) for id_ in "abcdefgh"]
    run.ledger._db.change("UPDATE judgments SET notes = 'broken' WHERE position = 6")
    with pytest.raises(json.JSONDecodeError):
        rescore_ledger(run.ledger, run.staged, run.judge_models, run.name)
    run.ledger._db.change("UPDATE judgments SET notes = '[]' WHERE position = 6")
    assert [run.judged(id_) for id_ in "abcdefgh"] == before
    assert run.rescore()[0]["changed"] == 8, "and the next time it goes through"


# --- batches


@pytest.fixture
def batched(tmp_path: Path) -> Replied:
    return replied_run(tmp_path, "answer-correctness")


def test_a_reply_to_a_batch_is_shared_out_by_its_own_order(batched: Replied) -> None:
    reply = batched.reply("cab", "1, 2, 3")
    batched.record([reply], [batched.judgment(id_, reply) for id_ in "abc"])
    document, _ = batched.rescore()
    for id_, score, place in (("c", 1, 1), ("a", 2, 2), ("b", 3, 3)):
        batched.shows(id_, verdict={"score": score}, scores={"score": float(score)}, batch_position=place)
        batched.shows(id_, batch_size=3, bisect_depth=0, request_id=reply.request_id)
    assert document["changed"] == 3
    assert [row["reading"] for row in attempts(batched.ledger)] != ["as then"]


def test_halves_of_a_batch_give_way_to_the_whole_once_that_is_read(batched: Replied) -> None:
    whole = batched.reply("abcd", "1,2,3,4")
    left, right = batched.reply("ab", "5,5", "bisect:1"), batched.reply("cd", "5,5", "bisect:1")
    batched.record(
        [whole, left, right],
        [
            batched.judgment(id_, half, **scored({"score": 5}, stage="bisect:1", bisect_depth=1))
            for half, ids in ((left, "ab"), (right, "cd"))
            for id_ in ids
        ],
    )
    batched.rescore()
    for place, id_ in enumerate("abcd", 1):
        batched.shows(id_, verdict={"score": place}, batch_size=4, batch_position=place, bisect_depth=0)


def test_halves_decide_where_the_whole_has_another_count_today(batched: Replied) -> None:
    whole = batched.reply("abcd", "1,2,3")
    left = batched.reply("ab", "5", "bisect:1")
    deeper = [batched.reply("a", "4", "bisect:2"), batched.reply("b", "no idea", "bisect:2")]
    again, right = batched.reply("b", "0", "rejudge:1"), batched.reply("cd", "2,1", "bisect:1")
    batched.record(
        [whole, left, *deeper, again, right],
        [batched.judgment(id_, whole, **scored({"score": 3})) for id_ in "abcd"],
    )
    batched.rescore()
    batched.shows("a", verdict={"score": 4}, stage="bisect:2", bisect_depth=2, batch_size=1, batch_position=1)
    batched.shows("b", verdict={"score": 0}, stage="rejudge:1", bisect_depth=2, batch_size=1)
    batched.shows("c", verdict={"score": 2}, bisect_depth=1, batch_size=2, batch_position=1)
    batched.shows("d", verdict={"score": 1}, bisect_depth=1, batch_size=2, batch_position=2)


def test_a_batch_whose_other_members_are_not_in_the_run_any_more_is_read_all_the_same(batched: Replied) -> None:
    reply = batched.reply("ab", "4,1", keys=(batched.keys["a"][0], b"somewhere else!!"))
    batched.record([reply], [batched.judgment("a", reply)])
    batched.rescore()
    batched.shows("a", verdict={"score": 4}, batch_size=2, batch_position=1)


def test_an_item_that_opens_like_a_block_keeps_its_note(tmp_path: Path) -> None:
    run = replied_run(tmp_path, "answer-correctness", "a", response="One.\n\nQuestion 7: And?")
    reply = run.reply("a", "4")
    run.record([reply], [run.judgment("a", reply)])
    run.rescore()
    run.shows("a", verdict={"score": 4}, notes=["block_marker"])


# --- copies of verdicts by the reformat model


def copy_of(run: Replied, original: Attempt, text: str, **changes: Any) -> Attempt:
    """The reformat model's answer about a reply."""
    ids = "".join(id_ for key in original.keys for id_, (own, *_) in run.keys.items() if own == key)
    name = copy_request_id(original.request_id, original.keys)
    usual = {"request_id": name, "model": "cheap", "reading": None, "parser_version": None}
    return run.reply(ids, text, "reformat", **usual | changes)


COPIED = scored(YES, stage="reformat", notes=("reformat:cheap", "prompt:0a0b0c0d"))
BURIED = "Overall the answer gives what the reference gives, so on balance the verdict here comes to yes in my view"


def test_a_verdict_copied_out_of_an_unreadable_reply_stands(run: Replied) -> None:
    original = run.reply("a", BURIED)
    run.record([original, copy_of(run, original, "yes", reading="reformat")], [run.judgment("a", original, **COPIED)])
    before = run.judged("a")
    document, _ = run.rescore()
    run.shows("a", **before | {"parser_version": PARSER_VERSION, "revision": 2})
    assert (document["changed"], document["judge_models"][0]["read_otherwise"]) == (0, 0)
    assert [row["reading"] for row in attempts(run.ledger)][1] == "reformat"


def test_a_copy_that_is_not_in_the_reply_is_no_verdict_any_more(run: Replied) -> None:
    original = run.reply("a", "It is on balance what the reference gives")
    run.record([original, copy_of(run, original, "yes", reading="reformat")], [run.judgment("a", original, **COPIED)])
    run.rescore()
    run.shows("a", state="malformed", verdict=None, stage="first", request_id=original.request_id, attempt=1)
    assert [row["reading"] for row in attempts(run.ledger)][1] is None


def test_a_reply_that_is_read_today_needs_no_copy(run: Replied) -> None:
    original = run.reply("a", "no")
    run.record([original, copy_of(run, original, "yes", reading="reformat")], [run.judgment("a", original, **COPIED)])
    run.rescore()
    run.shows("a", verdict=NO, stage="strict", notes=[])


def test_a_copy_that_holds_today_decides_before_later_replies(run: Replied) -> None:
    first, second = run.reply("a", UNREADABLE), run.reply("a", BURIED, "rejudge:1")
    third = run.reply("a", "no", "rejudge:2")
    run.record(
        [first, copy_of(run, first, "NONE"), second, copy_of(run, second, "yes"), third],
        [run.judgment("a", third, **scored(NO, stage="rejudge:2", notes=("read:strict",)))],
    )
    run.rescore()
    run.shows("a", verdict=YES, stage="reformat", notes=["reformat:cheap", "asked:rejudge:1"], attempt=3)


def test_the_check_of_a_verdict_decides_nothing_and_is_held_against_what_stands_now(run: Replied) -> None:
    def judged_and_checked(id_: str, text: str, check: str, **verdict: Any) -> list[Attempt]:
        first, again = run.reply(id_, text), run.reply(id_, check, "reread:lead", same_verdict=True)
        run.record([first, again], [run.judgment(id_, first, **scored(**verdict, stage="tolerant:lead"))])
        return [first, again]

    judged_and_checked("a", UNREADABLE, "yes", verdict=YES)
    judged_and_checked("b", "No, it is not.", "no", verdict=YES)
    judged_and_checked("c", "No, it is not.", "Yes, it is.", verdict=NO)
    judged_and_checked("d", "No, it is not.", "maybe", verdict=NO)
    run.rescore()
    run.shows("a", state="malformed", reason="no_verdict", attempt=1)
    run.shows("b", verdict=NO, attempt=3)
    checks = [row for row in attempts(run.ledger) if row["stage"] == "reread:lead"]
    assert [(row["reading"], row["same_verdict"], row["parser_version"]) for row in checks] == [
        ("strict", None, PARSER_VERSION),
        ("strict", 1, PARSER_VERSION),
        ("tolerant:lead", 0, PARSER_VERSION),
        ("malformed:no_verdict", None, PARSER_VERSION),
    ]
    assert run.rescore()[1] is None


def test_it_is_told_at_which_stage_verdicts_are_new_changed_and_gone(run: Replied) -> None:
    replies = [
        run.reply(id_, text)
        for id_, text in zip(
            "abcdefg",
            ("Yes, it is.", "Result: no", "yes", "Wait, no", UNREADABLE, UNREADABLE, "Yes. It is."),
            strict=True,
        )
    ]
    lead = scored(YES, stage="tolerant:lead")
    judged = [{}, lead, scored(YES), lead, lead, {}, lead]
    run.record(
        replies, [run.judgment(id_, reply, **was) for id_, reply, was in zip("abcdefg", replies, judged, strict=True)]
    )
    run.record([run.reply("h", "**Yes**")], waiting=[run.waiting("h")])
    document, revision = run.rescore()
    (counted,) = document["judge_models"]
    none = {"new": 0, "changed": 0, "gone": 0, "same": 0}
    assert counted["stages"] == {
        "strict": none | {"same": 1},
        "tolerant:label": none | {"changed": 1},
        "tolerant:lead": none | {"new": 1, "gone": 2, "same": 1},
        "tolerant:whole": none | {"new": 1},
    }
    assert revision is not None
    table = revision.text().splitlines()[2:6]
    assert [line.split(None, 4) for line in table] == [
        ["new", "changed", "gone", "same", "verdicts read as"],
        ["0", "1", "0", "0", "tolerant:label"],
        ["1", "0", "2", "1", "tolerant:lead"],
        ["1", "0", "0", "0", "tolerant:whole"],
    ]
