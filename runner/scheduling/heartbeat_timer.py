"""When silence is a sign of death. Pure: time comes in as numbers."""

from __future__ import annotations

BEAT_S = 1.0
"""Between two looks whether an answer has come."""


class HeartbeatTimer:
    """How long no answer came, as far as anybody listened.

    A process that is held up itself (its machine sleeps, or has too much to do) does not hear: of such a pause no more
    counts than two beats.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._lasted_s = 0.0

    def beat(self, seconds: float) -> None:
        """Another wait of one beat has ended without an answer, after so many seconds."""
        self._lasted_s += min(seconds, 2 * BEAT_S)

    @property
    def is_death(self) -> bool:
        """Whether it has lasted for too long."""
        return self._lasted_s >= self._most_s
