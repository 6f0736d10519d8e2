"""What becomes of the work that a dead worker held, until the trial that kills its workers stands alone.

Pure. All calls in flight fail alike when a process dies, so who is to blame cannot be read off an error; it is found
out by deaths. The first may have come from outside: the work goes out again as usual. After the second it is suspect
and goes to fresh workers that get nothing else, halved with each that dies, until single trials are left. One that is
alone with a worker when it dies, twice, is poisoned. A node that is lost, or a worker that was handed nothing yet,
blames nobody.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from runner.errors import Death
from runner.messages import TrialPosition

from .batching import halve
from .dispatch import Work

DEATHS_AS_USUAL = 2
"""Deaths with other work beside it after which work is suspect."""
DEATHS_ALONE = 2
"""Deaths of a worker that had one trial and nothing else, after which that trial is poisoned."""
IDLE_IN_A_ROW = 8
"""Workers that die before they were handed any work, with no task ended between them: then none can live here."""
POISONED_IN_A_ROW = 8
"""Poisoned trials with no task ended between them: then it is hardly the trials."""

Requests = Sequence[Sequence[TrialPosition]]


@dataclass(frozen=True, slots=True)
class TrialSubset:
    """Some trials of work that was lost with a worker."""

    of: Hashable
    """What the work was made from."""
    trials: tuple[TrialPosition, ...]


@dataclass(frozen=True, slots=True)
class RecoveryAction:
    """What is to be done with lost work: all that is empty or None is not."""

    again: tuple[Work, ...] = ()
    poisoned: TrialPosition | None = None
    hopeless: bool = False
    """It kills every worker, and is not made of trials."""


def decide_after_death(
    work: Work, death: Death, sent: int, left: Requests, new_id: Callable[[], int]
) -> RecoveryAction:
    """What becomes of work that was carried out when its worker died.

    `sent`: how many trials it was made of; `left`: those of which nothing is recorded yet, by request.
    """
    if death == "node":
        return RecoveryAction((work,))
    if not sent:
        # It cannot be halved.
        deaths = work.deaths + 1
        if work.isolated and deaths >= DEATHS_ALONE:
            return RecoveryAction(hopeless=True)
        suspect = not work.isolated and deaths >= DEATHS_AS_USUAL
        return RecoveryAction((replace(work, deaths=0, isolated=True) if suspect else replace(work, deaths=deaths),))
    trials = [place for request in left for place in request]
    if not trials:
        return RecoveryAction()
    if not work.isolated:
        deaths = work.deaths + 1
        suspect = deaths >= DEATHS_AS_USUAL
        return RecoveryAction((_subset_work(work, left, new_id, deaths=0 if suspect else deaths, alone=suspect),))
    if len(trials) > 1:
        return RecoveryAction(tuple(_subset_work(work, half, new_id) for half in _halves(left)))
    # It counts only where no other trial was with it, recorded by now or not.
    deaths = work.deaths + (sent == 1)
    if deaths >= DEATHS_ALONE:
        return RecoveryAction(poisoned=trials[0])
    return RecoveryAction((_subset_work(work, left, new_id, deaths=deaths),))


def _subset_work(
    work: Work, requests: Requests, new_id: Callable[[], int], *, deaths: int = 0, alone: bool = True
) -> Work:
    origin = work.payload.of if isinstance(work.payload, TrialSubset) else work.payload
    trials = tuple(place for request in requests for place in request)
    return Work(new_id(), work.account, len(requests), TrialSubset(origin, trials), deaths, alone)


def _halves(requests: Requests) -> tuple[Requests, Requests]:
    """By requests; a single one by its trials."""
    if len(requests) == 1:
        first, second = halve(requests[0])
        return [first], [second]
    return halve(requests)


class CrashLoopDetector:
    """Deaths without anything done between them: tells when the workers, not the trials, are to blame."""

    def __init__(self) -> None:
        self._idle = 0
        self._poisoned = 0
        self._died_at = float("-inf")

    def record_progress(self) -> None:
        """A task was carried out."""
        self._idle = self._poisoned = 0

    def record_idle_death(self, begun: float, now: float) -> None:
        """A worker that was started at `begun` died with no work. Those that lived side by side count once."""
        if begun >= self._died_at:
            self._idle += 1
            self._died_at = now

    def record_poisoned(self) -> None:
        """A trial was found to be poisoned."""
        self._poisoned += 1

    @property
    def verdict(self) -> str | None:
        """Why it is no use to go on; None: it is."""
        if self._idle >= IDLE_IN_A_ROW:
            return f"{self._idle} workers died one after another before they were given anything to judge"
        if self._poisoned >= POISONED_IN_A_ROW:
            return (
                f"{self._poisoned} trials one after another killed the workers that judged them alone; the judge's "
                "code or the machine is at fault rather than they (`jurybox retry --state poisoned` judges them again)"
            )
        return None
