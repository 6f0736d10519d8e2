"""The errors that end a command, and the exit status each one means.

    JuryboxError
    ├── InputError              2   the command line, config, a judge or an item is wrong; nothing was paid
    │   ├── ConfigError             a key of the config, with its path
    │   ├── ItemError               an item, with file:line and id
    │   ├── MeaningChanged          the directory holds a run that means something else, with a diff
    │   ├── RunLocked               another process works in the directory, or it cannot be written
    │   └── LedgerDamaged           run.db is not as it was written
    ├── Interrupted           130   SIGINT or SIGTERM; resumable
    │   └── Terminated              SIGTERM: whoever sent it will not wait for long
    ├── StoppedEarly            4   outage, endpoint never reached, budget; resumable
    │   └── DiskFull                nothing more can be written, or soon could not
    ├── ActionNeeded            5   401, no quota, unknown model: in the provider's words
    └── WorkerDied                  internal to pool and driver: a worker process is gone

Every class survives pickling: they cross process borders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeVar

Death = Literal["crash", "hang", "node"]
"""How a worker came to its end: its process died, it was killed since it gave no answer, or its node was lost."""


_Error = TypeVar("_Error", bound=BaseException)


class JuryboxError(Exception):
    """Root of all errors that are not bugs. `exit_status` is what the command ends with."""

    exit_status = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InputError(JuryboxError):
    """Something the user wrote is wrong; nothing has been paid."""

    exit_status = 2


class ConfigError(InputError):
    """A key of the config is wrong."""


class ItemError(InputError):
    """An item is wrong."""


class MeaningChanged(InputError):
    """The directory's run means something else than the config."""


class RunLocked(InputError):
    """The run directory is in use or cannot be written."""


class LedgerDamaged(InputError):
    """The run's ledger is not as it was written."""


class Interrupted(JuryboxError):
    """The user asked to stop."""

    exit_status = 130


class Terminated(Interrupted):
    """The system asked to stop, and will not wait for long."""


class StoppedEarly(JuryboxError):
    """The run stopped before its end and can be resumed as it is."""

    exit_status = 4


class DiskFull(StoppedEarly):
    """The run's file system takes nothing more, or is about to. What was acknowledged is kept, and can be read."""


class ActionNeeded(JuryboxError):
    """Only the user can mend this, at the endpoint."""

    exit_status = 5


class WorkerDied(JuryboxError):
    """A worker's process is gone; what it held is to be handed to another. `message`: what is known of how it came."""

    def __init__(self, message: str, death: Death = "crash") -> None:
        super().__init__(message)
        self.death = death

    def __reduce__(self) -> tuple[type[WorkerDied], tuple[str, Death]]:
        return type(self), (self.message, self.death)


def single_errors(errors: BaseExceptionGroup[_Error]) -> Iterator[_Error]:
    """The errors of a group, and of the groups in it."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from single_errors(error)
        else:
            yield error


def weightiest(errors: BaseExceptionGroup[JuryboxError]) -> JuryboxError:
    """Of several errors at once the one with the weightiest exit status (5 before 4 before 2)."""
    return max(single_errors(errors), key=lambda error: error.exit_status)
