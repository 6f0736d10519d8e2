"""Silence: a worker that never answers is found dead in time, one that nobody listened to is not."""

from __future__ import annotations

from runner.scheduling.lease_keeper import BEAT_S, count_silence


def test_no_answer_for_long_enough_is_death() -> None:
    assert sum(count_silence(BEAT_S) for _ in range(59)) < 60 <= sum(count_silence(BEAT_S) for _ in range(60))


def test_a_pause_of_the_listener_is_no_silence_of_the_worker() -> None:
    # And yet a listener that is slow for good hears of it in the end.
    assert sum(count_silence(3600) for _ in range(29)) < 60 <= sum(count_silence(3600) for _ in range(30))
