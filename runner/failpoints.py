"""Places where tests let a process die: named in the code, armed by files in the directory `JURYBOX_FAILPOINTS`.

Hides how a place dies once and not again after its process was restarted: whoever can take the file away dies, as if by
`kill -9`. Not armed, a failpoint costs one look at a variable.
"""

import os
import signal
from pathlib import Path

_ARMED = os.environ.get("JURYBOX_FAILPOINTS")


def failpoint(name: str) -> None:
    """Die here by SIGKILL where a file of this name stands in the directory; its text, if any, is how often to pass."""
    if _ARMED is None:
        return
    file = Path(_ARMED, name)
    try:
        passes = int(file.read_text() or 0)
        if passes:
            file.write_text(str(passes - 1))
            return
        file.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
