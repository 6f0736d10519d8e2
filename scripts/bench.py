"""Measurements of jurybox's parts on this machine, each a subcommand: `python scripts/bench.py simulate`.

Numbers that the documents state come from here. Server and client are pinned to a core each where that can be done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runner.simulate import Simulation, running

PROMPT = "Does the response give the reference answer?\n\nQuestion: {} {}\n\nReference answer: 42\n\nResponse: 42\n\n{}"


class Caller(asyncio.Protocol):
    """One kept-alive connection that sends the next request as soon as a reply is complete."""

    def __init__(self, requests: count[int], padding: str, replies: list[int]) -> None:
        self._requests = requests
        self._padding = padding
        self._replies = replies
        self._buffer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._buffer.index(b"content-length: ") + len(b"content-length: ")
        if len(self._buffer) < head + 4 + int(self._buffer[at : self._buffer.index(b"\r", at)]):
            return
        status = int(self._buffer[9:12])
        if status != 200:
            raise SystemExit(f"the endpoint answered {self._buffer!r}")
        self._buffer = b""
        self._replies[0] += 1
        self._send()

    def _send(self) -> None:
        # Every prompt differs: the endpoint is to do the work that a run gives it.
        text = PROMPT.format(next(self._requests), self._padding, "Answer yes or no only.")
        message = json.dumps({"role": "user", "content": text})
        body = f'{{"model":"bench","temperature":0,"max_tokens":10,"messages":[{message}]}}'.encode()
        self._transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer simulated\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )


async def requests_per_second(url: str, *, connections: int, seconds: float, prompt_bytes: int) -> float:
    """Replies a second of the endpoint at `url`, every connection always busy; the first second does not count."""
    loop = asyncio.get_running_loop()
    address = urlsplit(url)
    replies, requests = [0], count()
    padding = "x" * max(0, prompt_bytes - len(PROMPT))
    transports = [
        (
            await loop.create_connection(
                lambda: Caller(requests, padding, replies), address.hostname or "", address.port or 80
            )
        )[0]
        for _ in range(connections)
    ]
    await asyncio.sleep(1)
    before, started = replies[0], time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (replies[0] - before) / (time.perf_counter() - started)
    for transport in transports:
        transport.abort()
    return rate


def simulate(arguments: argparse.Namespace) -> None:
    """What the simulated endpoint serves on one core: bare, and with everything switched on."""
    before: tuple[str, ...] = ()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1 and shutil.which("taskset"):
        os.sched_setaffinity(0, {cores[-1]})
        before = ("taskset", "-c", str(cores[0]))
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "requests.jsonl"
        everything = Simulation(
            rpm=1e9,
            tpm=1e13,
            in_flight=100_000,
            malformed=0.05,
            truncated=0.01,
            refused=0.01,
            malformed_skew=3,
            log=log,
        )
        cases = {
            "bare": Simulation(),
            "200 ms latency": Simulation(latency_ms=200),
            "limits, faults, log of bodies": everything,
        }
        for name, simulation in cases.items():
            with running(simulation, before=before) as url:
                started = _stats(url)
                rate = asyncio.run(
                    requests_per_second(
                        url,
                        connections=arguments.connections * (4 if simulation.latency_ms else 1),
                        seconds=arguments.seconds,
                        prompt_bytes=arguments.prompt_bytes,
                    )
                )
                ended = _stats(url)
            cpu = (ended["cpu_s"] - started["cpu_s"]) / (ended["requests"] - started["requests"])
            sys.stdout.write(
                f"simulate, {name}: {rate:,.0f} requests/s; "
                f"{cpu * 1e6:.0f} us of CPU a request, so {1 / cpu:,.0f}/s on a core of its own\n"
            )
            sys.stdout.flush()


def _stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as reply:
        found: dict[str, Any] = json.load(reply)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="MEASUREMENT")
    command = commands.add_parser("simulate", help=simulate.__doc__)
    command.add_argument("--connections", type=int, default=256)
    command.add_argument("--seconds", type=float, default=5.0)
    command.add_argument("--prompt-bytes", type=int, default=1500)
    command.set_defaults(measure=simulate)
    arguments = parser.parse_args()
    arguments.measure(arguments)


if __name__ == "__main__":
    main()
