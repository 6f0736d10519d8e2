"""Which requests go wrong, and how: drawn from the seed, the prompt, and how many times that prompt has arrived.

So a run meets the same faults however its requests are ordered and whatever the limits delay. Hides the counting of
arrivals, and that no prompt gets more than so many faults in a row.
"""

import math
from dataclasses import dataclass
from hashlib import blake2b

from .options import FAULTS, Simulation


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request. `variant` picks among the ways of its kind."""

    kind: str
    variant: int


class Faults:
    """The faults of one endpoint. Stateful only in its count of arrivals."""

    def __init__(self, simulation: Simulation, yes: float) -> None:
        self._key = b"%d" % simulation.seed
        self._counted_from = simulation.miscounted_from
        self._bound = simulation.max_faults_in_a_row
        low, high = malformed_shares(simulation.malformed, simulation.malformed_skew, yes)
        self._malformed = {False: low, True: high}
        self._rest = [(kind, share) for kind in FAULTS[1:] if (share := getattr(simulation, kind))]
        self._any = bool(simulation.malformed or self._rest)
        self._arrivals: dict[bytes, tuple[int, int]] = {}

    def next(self, digest: bytes, verdict: bool, scores: int = 0) -> Fault | None:
        """Count an arrival of a prompt that asks for so many scores, and draw what goes wrong with it."""
        if not self._any:
            return None
        arrived, in_a_row = self._arrivals.get(digest, (0, 0))
        fault = None if in_a_row == self._bound else self._draw(digest, arrived, verdict)
        if fault is not None and fault.kind == "miscounted" and scores < self._counted_from:
            fault = None
        self._arrivals[digest] = (arrived + 1, in_a_row + 1 if fault else 0)
        return fault

    def _draw(self, digest: bytes, arrived: int, verdict: bool) -> Fault | None:
        drawn = blake2b(digest + arrived.to_bytes(4, "big"), digest_size=12, key=self._key).digest()
        point = int.from_bytes(drawn[:8], "big") / 2**64
        point -= self._malformed[verdict]
        if point < 0:
            return Fault("malformed", int.from_bytes(drawn[8:], "big"))
        for kind, share in self._rest:
            point -= share
            if point < 0:
                return Fault(kind, int.from_bytes(drawn[8:], "big"))
        return None


def malformed_shares(share: float, skew: float, yes: float) -> tuple[float, float]:
    """Shares of malformed replies where the verdict is (no, yes), `skew` times as many at yes, `share` over all."""
    if math.isinf(skew):
        return 0.0, min(1.0, share / yes) if yes else 0.0
    low = share / (skew * yes + 1 - yes) if skew * yes + 1 - yes else 0.0
    return min(1.0, low), min(1.0, skew * low)
