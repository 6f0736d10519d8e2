"""A simulated endpoint in a process of its own, for tests, demos and benchmarks.

Hides how it is started, how it tells its port, and that it never outlives whoever started it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from runner.errors import InputError

from .options import Simulation
from .server import READY


@contextlib.contextmanager
def running(simulation: Simulation | None = None, *, before: tuple[str, ...] = ()) -> Iterator[str]:
    """Run an endpoint and yield its base URL. `before` is put before its command, such as `taskset -c 0`.

    The endpoint ends with the block. It also ends when this process dies: then the pipe to its stdin closes.
    """
    command = [*before, sys.executable, "-m", __package__ or "", (simulation or Simulation()).model_dump_json()]
    # The process imports this very source, installed or not.
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith(READY):
                raise InputError("simulate: the endpoint did not start; its words are above")
            yield line.removeprefix(READY).strip()
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
