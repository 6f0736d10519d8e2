"""How one account's endpoint has fared, as one worker sees it: a circuit breaker with the reasons in its states' names.

Pure: records and transitions; time comes in as a number, and whoever holds the breaker carries out what its state says.

=============  ================  ===================================================================================
state          circuit breaker   what goes out
=============  ================  ===================================================================================
UNPROVEN       half-open         a few requests, until a good reply comes: nothing has shown yet, or not again, that
                                 the endpoint works
WORKING        closed            all that the lease allows
SUSPECT        open              one probe, at once: so many requests failed in a row that it may be the endpoint
AWAY           open              a probe whenever the driver gives the turn: a probe failed too
REFUSING       open              the probes of those who were refused: a key that was taken back fails all that is sent
ACTION_NEEDED  open for good     nothing: only the user can mend it
STOPPED        open for good     nothing: the run stops, or the driver has closed the account
=============  ================  ===================================================================================

Any reply, be it an error, ends SUSPECT and AWAY: the endpoint is there.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from .retry_policy import ACCOUNT_ERRORS, OUTAGE_ERRORS, EndpointStatus, ErrorKind

FIRST_REQUESTS = 3
"""In flight to an endpoint that is not proven: a wrong key fails them all."""
OPEN_AFTER = 10
"""Failures in a row, with no reply to anything between them, after which a probe is to show whose fault they are."""
OPEN_AFTER_AT_MOST = 160
STORM = 5
"""429s in a row. Fewer between replies hold up nothing but their own requests."""


class Health(StrEnum):
    """The state of a breaker."""

    UNPROVEN = "unproven"
    WORKING = "working"
    SUSPECT = "suspect"
    AWAY = "away"
    REFUSING = "refusing"
    ACTION_NEEDED = "action_needed"
    STOPPED = "stopped"


_ENDED = (Health.ACTION_NEEDED, Health.STOPPED)


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """One account's, in one worker. Each transition returns the breaker after it."""

    health: Health = Health.UNPROVEN
    failures: int = 0
    """As if the endpoint were away, since anything was answered there."""
    failed_probes: int = 0
    """Since it became SUSPECT or AWAY."""
    throttles: int = 0
    """429s since a request succeeded or was at fault itself."""
    unreachable: int = 0
    """Connections that could not be made since the last HTTP reply of any kind."""
    refusals: int = 0
    """In a row, of requests that others fared better than."""
    has_turn: bool = False
    """The driver gave the turn to probe, which is not used yet."""
    action_needed: str | None = None
    """What the user must mend."""
    _open_after: int = OPEN_AFTER
    _storm_s: float = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether requests fail, so that nothing but probes goes out."""
        return self.health in (Health.SUSPECT, Health.AWAY)

    @property
    def has_ended(self) -> bool:
        """Whether nothing goes out any more."""
        return self.health in _ENDED

    @property
    def most_in_flight(self) -> int | None:
        """Requests in flight that the state allows, probes aside; None: all that the lease does."""
        return {Health.WORKING: None, Health.UNPROVEN: FIRST_REQUESTS}.get(self.health, 0)

    @property
    def wants_probe(self) -> bool:
        """Whether a probe is due: at once when it opens, then whenever the driver gives the turn."""
        return self.health is Health.SUSPECT or (self.health is Health.AWAY and self.has_turn)

    def after_good_reply(self) -> Self:
        """A request succeeded. An endpoint that is only just back does not get everything at once."""
        health = Health.UNPROVEN if self.health is Health.AWAY else Health.WORKING
        return replace(self._after_reply(), throttles=0, unreachable=0, refusals=0)._move(health)

    def after_error(self, kind: ErrorKind, answered: bool) -> Self:
        """A request failed; `answered`: by an HTTP reply."""
        after = self.after_copy_error(kind, answered)
        if kind not in OUTAGE_ERRORS:
            return after._after_reply()
        after = replace(after, failures=self.failures + 1)
        return after._move(Health.SUSPECT) if not self.is_open and after.failures >= self._open_after else after

    def after_probe_error(self, kind: ErrorKind, answered: bool) -> Self:
        """A harmless request failed: where no other reply came, that is the endpoint's fault."""
        after = self.after_error(kind, answered)
        if kind not in OUTAGE_ERRORS:
            return after
        return replace(after, failed_probes=self.failed_probes + 1, has_turn=False)._move(Health.AWAY)

    def after_copy_error(self, kind: ErrorKind, answered: bool) -> Self:
        """A request failed without which a trial can do: counted, but its sender leaves an endpoint alone by itself."""
        after = replace(self, unreachable=0) if answered else self
        if kind is ErrorKind.THROTTLED:
            return replace(after, throttles=self.throttles + 1)
        if kind is ErrorKind.UNREACHABLE:
            return replace(after, unreachable=self.unreachable + 1)
        return after if kind in OUTAGE_ERRORS else replace(after, throttles=0)

    def after_refusal(self) -> Self:
        """A request was refused that others may fare better than. A second one in a row holds up all but probes."""
        after = replace(self, refusals=self.refusals + 1)
        return after._move(Health.REFUSING) if after.refusals > 1 and not self.is_open else after

    def after_check(self, status: EndpointStatus) -> Self:
        """A probe has shown what such a refusal, or a few, say of the endpoint."""
        works = status is EndpointStatus.WORKS
        after = replace(self, refusals=0) if works else self
        return after if self.is_open else after._move(Health.WORKING if works else Health.UNPROVEN)

    def is_storm(self, sent_s: float) -> bool:
        """Whether the last replies were all 429, this one to what was sent at a moment.

        What was under way together learns of the same limit: it is one storm.
        """
        return self.throttles >= STORM and sent_s > self._storm_s

    def after_storm(self, now_s: float) -> Self:
        """The account was paused because of a storm."""
        after = replace(self, _storm_s=now_s)
        return after._move(Health.UNPROVEN) if self.health is Health.WORKING else after

    def with_turn(self) -> Self:
        """The driver gives the turn to probe."""
        return replace(self, has_turn=True)

    def stop(self, action_needed: str | None = None) -> Self:
        """Nothing goes out any more; `action_needed`: what the user must mend first."""
        needed = action_needed or self.action_needed
        return replace(self, health=Health.ACTION_NEEDED if needed else Health.STOPPED, action_needed=needed)

    def _after_reply(self) -> Self:
        """The endpoint is there.

        Where the very first probe shows that, requests fail for reasons of their own. As long as nothing else succeeds
        there, it takes more of them to ask again.
        """
        false_alarm = self.health is Health.SUSPECT
        open_after = min(2 * self._open_after, OPEN_AFTER_AT_MOST) if false_alarm else OPEN_AFTER
        after = replace(self, failures=0, failed_probes=0, has_turn=False, _open_after=open_after)
        return after._move(Health.UNPROVEN) if self.is_open else after

    def _move(self, health: Health) -> Self:
        return self if self.health in (health, *_ENDED) else replace(self, health=health)


@dataclass(slots=True)
class Evidence:
    """What requests that were sent since a moment have shown of an endpoint; None: nothing, a probe is to show it.

    A failure may be laid to its request only by what was sent after it: what was taken before shows nothing.
    """

    _good_s: dict[str, float] = field(default_factory=dict)
    """Model → the last moment at which something was sent that got a good reply."""
    _taken_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """Judge and model → the same of their own requests."""
    _probe_s: float = float("-inf")
    _probe: EndpointStatus = EndpointStatus.AWAY

    def record_success(self, model: str, judge: str | None, sent_s: float) -> None:
        """A good reply came; `judge`: whose own request it was, if any."""
        self._good_s[model] = max(sent_s, self._good_s.get(model, sent_s))
        if judge is not None:
            self._taken_s[judge, model] = max(sent_s, self._taken_s.get((judge, model), sent_s))

    def record_probe(self, sent_s: float, error: ErrorKind | None) -> None:
        """A harmless request has ended, well or not. One that is rejected shows an endpoint that takes others."""
        self._probe_s, self._probe = sent_s, probe_status(error, rejected=EndpointStatus.WORKS)

    def has_worked(self, model: str) -> bool:
        """Whether the model ever gave a good reply."""
        return model in self._good_s

    def endpoint_status(self, model: str, since_s: float) -> EndpointStatus | None:
        """What the endpoint is like."""
        if self._good_s.get(model, since_s) > since_s:
            return EndpointStatus.WORKS
        return self._probe if self._probe_s > since_s else None

    def takes_requests(self, judge: str, model: str, since_s: float) -> bool:
        """Whether a request of the judge itself was taken."""
        return self._taken_s.get((judge, model), since_s) > since_s


def probe_status(error: ErrorKind | None, *, rejected: EndpointStatus) -> EndpointStatus:
    """What the end of a harmless request shows; `rejected`: what a 400 means."""
    if error is None:
        return EndpointStatus.WORKS
    if error is ErrorKind.BAD_REQUEST:
        return rejected
    return EndpointStatus.REFUSES if error in ACCOUNT_ERRORS else EndpointStatus.AWAY
