"""What happens to one job, as a value drawn from a seed: where it runs, what it judges, who is killed and when.

Pure. Moments are points of progress, not seconds, so that a seed means much the same on a fast and on a slow machine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

TRIALS = 2000

LOCAL, RAY, CLUSTER = "local", "ray", "cluster"
PLACES = (LOCAL, RAY, LOCAL, RAY, LOCAL, RAY, LOCAL, CLUSTER)
"""By the seed's remainder: where nothing but the driver can die, a start of Ray (10 s) would show nothing more."""

SINGLE, BATCHED = "single", "batched"

DRIVER, INTERRUPT, LEAVE, FAILPOINT = "driver", "interrupt", "leave", "failpoint"
WORKER, AGGREGATOR, NODE = "worker", "aggregator", "node"
ENDS_DRIVER = (DRIVER, INTERRUPT, LEAVE)
KINDS = {
    LOCAL: (DRIVER, DRIVER, INTERRUPT, LEAVE, FAILPOINT, FAILPOINT),
    RAY: (WORKER, WORKER, AGGREGATOR, AGGREGATOR, FAILPOINT),
    CLUSTER: (NODE, NODE, WORKER, AGGREGATOR),
}
PUBLISHING = ("after-mark", "after-tmp", "after-rename", "before-delete")
"""Failpoints that only a job with `publish:` comes to."""
MOST_PASSES, MOST_SEGMENTS = 15, 5
"""How often an armed failpoint is passed at most before somebody dies there; one of publishing."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of a job's progress: so many requests at the endpoint, or judgments in the ledger, as a share of all
    that there will be; or, of one start of the driver, so many seconds after it."""

    by: str
    at: float

    def __str__(self) -> str:
        return f"{self.at:.2f} s after a start" if self.by == "start" else f"{self.at:.0%} {self.by}"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing that is done to the job."""

    kind: str
    when: Moment
    failpoint: str = ""
    passes: int = 0

    def __str__(self) -> str:
        where = f" {self.failpoint} after {self.passes}" if self.failpoint else ""
        return f"{self.kind}{where} at {self.when}"


@dataclass(frozen=True, slots=True)
class Ordeal:
    """All that is done to one job."""

    seed: int
    place: str
    job: str
    trials: int
    disturbances: tuple[Disturbance, ...]
    publishes: bool = False
    """Whether it is mirrored while it is judged."""

    @property
    def requests(self) -> float:
        """How many it takes at least: half the trials of a batched job are asked by tens."""
        return self.trials * (0.55 if self.job == BATCHED else 1.0)


def ordeal(seed: int, failpoints: tuple[str, ...], trials: int = TRIALS) -> Ordeal:
    """What happens to the job of this seed. `failpoints` are the places in the program where a process may die."""
    chance = random.Random(seed)
    place = PLACES[seed % len(PLACES)]
    job = BATCHED if chance.random() < 0.4 else SINGLE
    publishes = place != CLUSTER and random.Random(f"publish {seed}").random() < 0.5
    failpoints = tuple(name for name in failpoints if publishes or name not in PUBLISHING)
    if place == LOCAL:
        kinds = chance.choices(KINDS[LOCAL], k=chance.randint(2, 5))
    else:
        # Each of these takes the driver's process, and the next start of it takes seconds.
        kinds = [*chance.choices(KINDS[place], k=chance.randint(2, 4)), chance.choice(ENDS_DRIVER)]
        if place == CLUSTER:
            kinds.append(NODE)
        chance.shuffle(kinds)
    at = sorted(chance.uniform(0.01, 0.97) for _ in kinds)
    return Ordeal(
        seed, place, job, trials,
        tuple(_disturbance(kind, at, failpoints, chance) for kind, at in zip(kinds, at, strict=True)), publishes,
    )  # fmt: skip


def _disturbance(kind: str, at: float, failpoints: tuple[str, ...], chance: random.Random) -> Disturbance:
    moment = Moment(chance.choice(("requests", "judged")), at)
    if kind in ENDS_DRIVER and chance.random() < 0.1:
        moment = Moment("start", chance.uniform(0.0, 4.0))
    if kind == FAILPOINT:
        # By a share: another failpoint in the program moves nothing else of any seed.
        name = failpoints[int(chance.random() * len(failpoints))]
        most = MOST_SEGMENTS if name in PUBLISHING else MOST_PASSES
        return Disturbance(kind, moment, name, int(chance.random() * most))
    return Disturbance(kind, moment)


def often(kind: str, times: int, trials: int) -> Ordeal:
    """A job in one process to which the same is done so many times, evenly over its progress."""
    disturbances = (Disturbance(kind, Moment("judged", (n + 0.5) / times)) for n in range(times))
    return Ordeal(0, LOCAL, SINGLE, trials, tuple(disturbances))
