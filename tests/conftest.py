"""What every test stands on: no test can leave this machine or spend money, and no fault of a fixture goes by unseen.

Hides how a simulated endpoint is started and how real data is found; tests ask for `endpoint` or `data`.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings

# Where others wait for the outcome the examples are few, and the same each time; new ones are looked for at one's own
# machine.
settings.register_profile("ci", derandomize=True, max_examples=40)
if os.environ.get("CI"):
    settings.load_profile("ci")

# A shell lets what it starts in the background ignore SIGINT, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio alone: it is the only loop that the program runs on."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """What a test says of logging holds for that test: jurybox leaves alone what was set up before it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """What a test carries out in this process may take its signals; processes started later would inherit that."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def _no_way_out() -> Iterator[None]:
    """Refuse connections to public addresses, and hide every key that the shell may hold."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        # UDP: Ray "connects" a datagram socket to a public address to learn its own; nothing is sent.
        if isinstance(address, tuple) and self.type == socket.SOCK_STREAM and _is_public(str(address[0])):
            raise AssertionError(f"a test tried to reach {address[0]}; tests use only this machine")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("HF_HUB_OFFLINE", "1")
        for name in list(os.environ):
            if name.endswith(("_API_KEY", "_API_TOKEN")) or name in ("RAY_ADDRESS", "JURYBOX_LOG"):
                patch.delenv(name)
        yield


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return host != "localhost"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data, which is no part of the project; skips where it is absent."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the real data of ../shared/data is not on this machine")
    return path


@pytest.fixture
def jurybox(tmp_path: Path) -> Path:
    """The `jurybox` command in a folder of its own, to be put on a PATH: this interpreter, this source."""
    command = tmp_path / "bin" / "jurybox"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m runner "$@"\n')
    command.chmod(0o755)
    return command


@pytest.fixture
def endpoint(jurybox: Path) -> Iterator[str]:
    """The base URL of a simulated endpoint without faults, in a process of its own."""
    with subprocess.Popen(
        [str(jurybox), "simulate", "--port", "0"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("serving http://127.0.0.1:"), f"the simulated endpoint did not start: {line!r}"
            yield line.split()[1]
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
