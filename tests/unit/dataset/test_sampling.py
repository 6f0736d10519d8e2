"""Samples: how many items of every group, which questions, and that nothing but ids and seed decides it."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from runner.dataset import sampling as sample
from runner.dataset.sampling import ItemSampler, Question, Sample, allocate

GROUPS = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d", "e"]))
SIZES = st.dictionaries(GROUPS, st.integers(1, 400), min_size=1)


def draw(sample: Sample, items: Sequence[Question]) -> list[Question]:
    """The items that a sample keeps, in their order."""
    drawn = ItemSampler(sample, Counter(group for group, _ in items), items)
    return [item for item in items if item in drawn]


@given(SIZES, st.integers(1, 3_000))
def test_shares_add_up_and_are_in_proportion(sizes: dict[str | None, int], wanted: int) -> None:
    shares = allocate(wanted, sizes)
    total = sum(sizes.values())
    assert sum(shares.values()) == min(wanted, total)
    assert all(0 <= shares[group] <= sizes[group] for group in sizes)
    if len(sizes) <= wanted:
        assert all(shares.values())
    raised = sum(1 for group in sizes if wanted * sizes[group] / total < 1)
    for group in sizes:
        exact = min(wanted, total) * sizes[group] / total
        # A group is rounded; beyond that it gives at most what the smallest groups were raised by.
        assert -1 - raised < shares[group] - exact <= 1


def test_shares_by_hand() -> None:
    assert allocate(10, {"a": 60, "b": 30, "c": 10}) == {"a": 6, "b": 3, "c": 1}
    # 4.95, 4.95 and 0.1: the small group is raised to one, at the cost of one that was rounded up.
    assert sorted(allocate(10, {"a": 495, "b": 495, "c": 10}).values()) == [1, 4, 5]
    assert allocate(2, {"a": 70, "b": 20, "c": 10}) == {"a": 1, "b": 1, "c": 0}
    assert allocate(99, {"a": 3, None: 2}) == {"a": 3, None: 2}


@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 5), st.lists(GROUPS, min_size=1, max_size=5, unique=True))
def test_one_answer_a_question_gives_exactly_as_many_items_as_asked_for(
    questions: int, wanted: int, seed: int, groups: list[str | None]
) -> None:
    items = [(groups[number % len(groups)], f"q{number}") for number in range(questions)]
    assert len(draw(Sample(wanted, seed), items)) == min(wanted, questions)


@given(st.integers(1, 50), st.integers(1, 6), st.integers(1, 200), st.randoms(use_true_random=False), st.integers(1, 3))
def test_systems_stay_paired_and_the_number_is_as_near_as_whole_questions_come(
    questions: int, systems: int, wanted: int, random: object, groups: int
) -> None:
    items = [(f"g{number % groups}", f"q{number}") for number in range(questions) for _ in range(systems)]
    random.shuffle(items)  # type: ignore[attr-defined]
    kept = Counter(draw(Sample(wanted), items))
    assert set(kept.values()) <= {systems}
    total = sum(kept.values())
    near = min(wanted, len(items))
    # Where every group must have a question, a question each can be more than was asked for.
    assert abs(total - near) <= max(systems / 2, len(kept) * systems - near)
    assert draw(Sample(wanted), sorted(items)) == sorted(draw(Sample(wanted), items))


def test_a_seed_draws_anew_and_a_larger_sample_holds_the_smaller() -> None:
    items: list[Question] = [(None, f"q{number}") for number in range(1_000)]
    small, large, other = (set(draw(Sample(*asked), items)) for asked in ((50, 0), (200, 0), (50, 1)))
    assert small < large
    assert small != other
    assert 0 <= len(small & other) < 15


def test_memory_is_that_of_the_sample_not_of_the_items() -> None:
    asked = 100_000
    held: list[int] = []

    def items() -> Iterator[Question]:
        for number in range(asked):
            yield None, f"q{number}"
        # Only what the module itself holds: another thread of the test process may allocate meanwhile.
        ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, str(sample.__file__))])
        held.append(sum(trace.size for trace in ours.traces))

    tracemalloc.start()
    try:
        drawn = ItemSampler(Sample(100), {None: asked}, items())
    finally:
        tracemalloc.stop()
    assert held[0] < 100_000, "a place of each question would take megabytes"
    assert sum((None, f"q{number}") in drawn for number in range(asked)) == 100
