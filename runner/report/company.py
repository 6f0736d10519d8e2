"""Notices of a report about the company in which scores were given."""

from __future__ import annotations

from collections.abc import Sequence

from runner.graded import LEAST_GROUP
from runner.neighbours import Neighbours, Part

from .table import p_value


def moved(entry: Neighbours) -> list[str]:
    """What is to be said where a batch moves its scores."""
    whose = f"{entry.judge} × {entry.model}: the mean {entry.score} differs"
    why = "the size is part of what was measured."
    said = []
    if entry.size_matters and entry.by_size:
        said.append(f"{whose} by batch size beyond chance ({p_value(entry.by_size.p)}): {_ends(entry.sizes)}; {why}")
    if entry.place_matters and entry.by_place:
        places = _ends(entry.places)
        said.append(f"{whose} by place in the batch beyond chance ({p_value(entry.by_place.p)}): {places}.")
    return said


def _ends(parts: Sequence[Part]) -> str:
    """The lowest and the highest mean, of those that were compared."""
    tested = [part for part in parts if part.score.n >= LEAST_GROUP]
    means = sorted((part.score.value, part.at) for part in tested if part.score.value is not None)
    (low, low_at), (high, high_at) = means[0], means[-1]
    return f"{low:.2f} at {low_at}, {high:.2f} at {high_at}"
