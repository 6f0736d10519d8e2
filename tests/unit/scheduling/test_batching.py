"""Which trials share a request: every one once, no question twice, the same whatever is done already."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from runner.scheduling.batching import Member, compose_batches, split


def members(questions: list[int], alone: frozenset[int] = frozenset(), shift: int = 0) -> list[Member]:
    return [
        Member(place + shift, f"item {place}", f"q{question}", "base", place in alone)
        for place, question in enumerate(questions)
    ]


@given(
    questions=st.lists(st.integers(0, 30), max_size=120),
    size=st.integers(1, 12),
    alone=st.frozensets(st.integers(0, 119)),
    salt=st.text(max_size=5),
)
def test_every_trial_stands_in_one_batch_that_holds_no_question_twice(
    questions: list[int], size: int, alone: frozenset[int], salt: str
) -> None:
    batches = compose_batches(members(questions, alone), size, salt)
    assert sorted(position for batch in batches for position in batch) == list(range(len(questions)))
    for batch in batches:
        assert len(batch) <= size
        assert len({questions[position] for position in batch}) == len(batch)
        assert len(batch) == 1 or not alone & set(batch)
    # No composition within these rules needs fewer requests.
    free = [question for place, question in enumerate(questions) if place not in alone]
    least = max(math.ceil(len(free) / size), max(Counter(free).values(), default=0))
    assert len(batches) == least + len(questions) - len(free)


def test_batches_are_full_but_for_the_last() -> None:
    assert sorted(map(len, compose_batches(members(list(range(25))), 10, "s"))) == [5, 10, 10]


def test_a_batch_holds_one_template_only() -> None:
    mixed = [Member(n, str(n), str(n), "ab"[n % 2], False) for n in range(20)]
    for batch in compose_batches(mixed, 6, "s"):
        assert len({position % 2 for position in batch}) == 1


@given(st.lists(st.integers(0, 9), min_size=2, max_size=60))
def test_the_composition_does_not_depend_on_where_a_row_stands(questions: list[int]) -> None:
    rows = members(questions)
    turned = [Member(m.position, m.identity, m.question_id, m.template, m.alone) for m in reversed(rows)]
    assert compose_batches(rows, 7, "s") == compose_batches(turned, 7, "s")


def test_the_salt_shuffles_within_and_between_batches() -> None:
    rows = members(list(range(40)))
    assert compose_batches(rows, 10, "a") != compose_batches(rows, 10, "b")
    assert compose_batches(rows, 10, "a") == compose_batches(rows, 10, "a")
    assert any(list(batch) != sorted(batch) for batch in compose_batches(rows, 10, "a"))


@given(st.integers(1, 50), st.integers(0, 8))
def test_halves_hold_all_trials_in_order_and_end_with_one_each(length: int, depth: int) -> None:
    parts = split(range(length), depth)
    assert [position for part in parts for position in part] == list(range(length))
    assert max(map(len, parts)) == max(1, math.ceil(length / 2**depth))
