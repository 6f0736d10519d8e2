"""Keys: exactly what changes an answer buys it again. Shards: every routed row once per judge, model and repeat."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Item, load_judge
from runner.config import RunConfig, parse_config
from runner.endpoint.judge_model import JudgeModel, judge_models
from runner.errors import ConfigError
from runner.scheduling.plan import MAX_SHARD_TRIALS, count_judged_by_shard, estimate_cost, shard_size, split_into_shards

ITEM = Item("i1", "q1", "s1", None, {"question": "Q", "reference": "R", "response": "A"})


def config(models: list[dict[str, Any]], judges: list[Any] | None = None, **more: Any) -> RunConfig:
    base = {"name": "t", "items": {"path": "x"}, "judges": judges or ["yes-no"], "models": models}
    return parse_config({**base, **more})


def model(name: str = "m", served: str = "served", **more: Any) -> dict[str, Any]:
    return {"name": name, "model": served, "base_url": "http://127.0.0.1:1/v1", **more}


def pair_of(parsed: RunConfig) -> JudgeModel:
    judges = [load_judge(use.use, Path()) for use in parsed.judges]
    return next(iter(judge_models(parsed, judges).values()))


def key(parsed: RunConfig, item: Item = ITEM, repeat: int = 0) -> bytes:
    pair = pair_of(parsed)
    template = pair.judge.route(item)
    assert template is not None
    return pair.key(item.system, item.id, pair.judge.render(item, template), repeat)


def test_a_key_is_128_bits_and_the_same_every_time() -> None:
    assert len(key(config([model()]))) == 16
    assert key(config([model()])) == key(config([model()]))


@pytest.mark.parametrize(
    "same",
    [
        model(name="another-name"),
        model(base_url="http://127.0.0.1:2/v1"),
        model(limits={"rpm": 5, "tpm": 7, "in_flight": 1}),
        model(price={"input": 1, "output": 2}),
        model(account="shared", timeout_s=3, api_key_env="KEY"),
        model(extra={"headers": {"x": "y"}, "query": {"api-version": "1"}}),
    ],
)
def test_what_does_not_change_an_answer_leaves_the_key_alone(same: dict[str, Any]) -> None:
    assert key(config([same])) == key(config([model()]))


@pytest.mark.parametrize(
    "other",
    [
        model(served="other"),
        model(revision="2"),
        model(sampling={"temperature": 0.5}),
        model(extra={"body": {"reasoning_effort": "high"}}),
    ],
)
def test_what_changes_an_answer_changes_the_key(other: dict[str, Any]) -> None:
    assert key(config([other])) != key(config([model()]))


@pytest.mark.parametrize(
    "other",
    [
        Item("i2", "q1", "s1", None, ITEM.fields),
        Item("i1", "q1", "s2", None, ITEM.fields),
        Item("i1", "q1", "s1", None, {**ITEM.fields, "response": "B"}),
    ],
)
def test_another_item_has_another_key(other: Item) -> None:
    assert key(config([model()]), other) != key(config([model()]))
    assert key(config([model()]), repeat=1) != key(config([model()]))


def test_what_the_prompt_does_not_show_is_not_in_the_key() -> None:
    relabelled = Item("i1", "other-question-id", "s1", "other-group", {**ITEM.fields, "note": "x"}, {"correct": True})
    assert key(config([model()]), relabelled) == key(config([model()]))


def test_the_later_sampling_wins() -> None:
    judges = [{"use": "yes-no", "sampling": {"max_tokens": 99}}]
    pair = pair_of(config([model(sampling={"max_tokens": 50, "top_p": 0.5})], judges))
    assert pair.sampling.body() == {"temperature": 0, "max_tokens": 99, "top_p": 0.5}


def test_calls_are_told_with_trials_where_a_request_is_of_several() -> None:
    alone = pair_of(config([model()]))
    assert estimate_cost(alone, 15_099, 99, 100.0).describe().startswith("15,000 calls, ~")
    batched = pair_of(config([model()], [{"use": "answer-correctness", "batch": 10}]))
    assert [batched.count_requests(trials) for trials in (20, 21, 0)] == [2, 3, 0]
    assert estimate_cost(batched, 15_099, 0, 100.0).describe().startswith("1,510 calls for 15,099 trials, ~")


def test_two_entries_that_mean_the_same_are_refused() -> None:
    parsed = config([model("a"), model("b", limits={"rpm": 1})])
    with pytest.raises(ConfigError, match="equal keys"):
        pair_of(parsed)
    pair_of(config([model("a"), model("b", extra={"body": {"reasoning_effort": "high"}})]))


@given(
    rows=st.integers(1, 5_000),
    workers=st.integers(1, 64),
    repeats=st.integers(1, 3),
    skipped=st.integers(1, 7),
)
def test_shards_cover_every_routed_row_once(rows: int, workers: int, repeats: int, skipped: int) -> None:
    parsed = config([model("a"), model("b", served="other")], ["yes-no", "longmemeval-paper"], repeats=repeats)
    judges = [load_judge(use.use, Path()) for use in parsed.judges]

    def routed(judge: str, first: int, count: int) -> int:
        return sum(judge == "yes-no" or row % skipped == 0 for row in range(first, first + count))

    size = shard_size(rows, workers)
    assert 1 <= size <= MAX_SHARD_TRIALS
    shards = split_into_shards(parsed, judges, rows, size, routed)
    assert [shard.id for shard in shards] == list(range(len(shards)))
    for judge in ("yes-no", "longmemeval-paper"):
        for name in ("a", "b"):
            for repeat in range(repeats):
                own = [s for s in shards if (s.judge, s.model, s.repeat) == (judge, name, repeat)]
                assert sum(shard.trials for shard in own) == routed(judge, 0, rows)
                covered = [row for s in own for row in range(s.first_row, s.first_row + s.rows)]
                assert len(covered) == len(set(covered))
                assert judge != "yes-no" or len(covered) == rows


@given(
    # Few different bytes, zeros among them, so that keys are alike but for where they end.
    st.sets(st.lists(st.sampled_from([0, 1]), min_size=16, max_size=16).map(bytes)),
    st.data(),
)
def test_what_is_judged_already_is_counted_by_shard(keys: set[bytes], data: st.DataObject) -> None:
    wanted = sorted(keys)
    judged = data.draw(st.sets(st.sampled_from(wanted))) if wanted else set()
    trials = [(key, at % 3, at) for at, key in enumerate(wanted)]
    found = count_judged_by_shard(sorted(judged, reverse=True), iter(trials))
    expected = Counter(at % 3 for at, key in enumerate(wanted) if key in judged)
    assert {shard: n for shard, n in found.items() if n} == expected


def test_keys_stay_what_they_are() -> None:
    """With other keys every run that is there would be bought anew; a judge whose prompt changes has others."""
    plain = config([model(revision="r", sampling={"max_tokens": 9})])
    assert key(plain, repeat=2).hex() == "23497ec3c3c63db02c366d09bdbebcf7"
    batched = config([model()], [{"use": "answer-correctness", "batch": 4}])
    assert key(batched).hex() == "9b54cb9d3555f5913c1737da8d111f50"
