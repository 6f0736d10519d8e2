"""A local OpenAI-compatible endpoint for demos, tests and benchmarks.

Nothing that costs money can be tried out often, and no provider fails on command. This package answers chat
completions on this machine: with verdicts made up from the prompt or recorded earlier, with the limits and the faults
that were asked for, and the same way every time. It hides the HTTP server and knows nothing of judges: like a provider,
it sees only request bodies.
"""

from .options import Simulation
from .replay import Ambiguous, NotRecorded, Replay
from .server import running, serve

__all__ = ["Ambiguous", "NotRecorded", "Replay", "Simulation", "running", "serve"]
