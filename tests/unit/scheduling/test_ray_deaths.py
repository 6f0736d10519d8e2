"""What Ray says when a worker is gone, and who is to blame for it."""

from __future__ import annotations

from ray.exceptions import ActorUnavailableError, OutOfMemoryError

from runner.scheduling.cluster.actors import describe_death


def test_a_worker_that_ran_out_of_memory_is_its_works_fault() -> None:
    told = "1 worker(s) were killed due to the node running low on memory."
    died = describe_death(OutOfMemoryError(told))  # type: ignore[no-untyped-call]
    assert died.death == "crash"
    assert "memory" in died.message


def test_one_that_is_out_of_reach_blames_nobody() -> None:
    assert describe_death(ActorUnavailableError("it cannot be reached", None)).death == "node"
