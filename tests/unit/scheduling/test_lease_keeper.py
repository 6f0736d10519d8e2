"""Silence: a worker that never answers is found dead in time, one that nobody listened to is not."""

from __future__ import annotations

from runner.scheduling.lease_keeper import BEAT_S, HeartbeatTimer


def test_no_answer_for_long_enough_is_death() -> None:
    silence = HeartbeatTimer(60)
    for _ in range(59):
        silence.beat(BEAT_S)
    assert not silence.is_death
    silence.beat(BEAT_S)
    assert silence.is_death


def test_a_pause_of_the_listener_is_no_silence_of_the_worker() -> None:
    silence = HeartbeatTimer(60)
    for _ in range(29):
        silence.beat(3600)
    assert not silence.is_death
    silence.beat(3600)
    assert silence.is_death, "and yet a listener that is slow for good hears of it in the end"
