"""Signals outside the judging: the first is a KeyboardInterrupt, wherever it comes; the second ends the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

IN_A_FINALIZER = """
import signal
from runner.signals import install_handlers

class Collected:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

install_handlers()
try:
    Collected()
    while True:
        signal.pause()
except KeyboardInterrupt:
    print("heard")
"""

TWICE = """
import signal
from runner.signals import install_handlers

install_handlers()
try:
    signal.raise_signal(signal.SIGTERM)
except KeyboardInterrupt:
    print("heard", flush=True)
    signal.raise_signal(signal.SIGINT)
    print("went on")
"""

LEFT = "\njurybox: left at once; what was recorded is kept, and the same command goes on\n"

AT_THE_END = """
import signal
from runner.signals import ignore_signals, install_handlers

install_handlers()
ignore_signals()
signal.raise_signal(signal.SIGINT)
print("went on")
"""


@pytest.mark.parametrize(
    ("code", "status", "said", "told"),
    [(IN_A_FINALIZER, 0, "heard\n", ""), (TWICE, 130, "heard\n", LEFT), (AT_THE_END, 0, "went on\n", "")],
    ids=["where Python raises nothing", "twice", "at the end"],
)
def test_a_signal_is_heard(code: str, status: int, said: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, said, told)
