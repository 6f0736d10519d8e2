"""Measurements of jurybox's parts on this machine, each a subcommand: `python scripts/bench.py simulate`.

Numbers that the documents state come from here. Server and client are pinned to a core each where that can be done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil

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


def job(arguments: argparse.Namespace) -> None:
    """A whole run on a local Ray against the simulated endpoint: items a second, peak memory by process."""
    with tempfile.TemporaryDirectory() as scratch, running(Simulation(latency_ms=arguments.latency_ms)) as url:
        folder = Path(scratch)
        config = {
            "name": "bench",
            "items": {"path": str(folder / "items.jsonl")},
            "judges": ["yes-no"],
            "models": [{"name": "sim", "model": "sim", "base_url": url, "limits": {"in_flight": arguments.in_flight}}],
            "out": str(folder / "run"),
        }
        if arguments.workers:
            config["workers"] = arguments.workers
        (folder / "bench.yaml").write_text(json.dumps(config))
        filler = "x" * 700
        with (folder / "items.jsonl").open("w") as file:
            for n in range(arguments.items):
                row = {
                    "id": str(n),
                    "question": f"Question {n}? {filler}",
                    "reference": str(n),
                    "response": f"{n} {filler}",
                }
                file.write(json.dumps(row) + "\n")
        command = [sys.executable, "-m", "runner", "run", str(folder / "bench.yaml"), "--yes", "--quiet", "--json"]
        if arguments.local:
            command.append("--local")
        begun = time.monotonic()
        peaks: dict[str, int] = {}
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            watched = psutil.Process(process.pid)
            while process.poll() is None:
                for role, uss in _memory(watched).items():
                    peaks[role] = max(peaks.get(role, 0), uss)
                time.sleep(0.5)
            assert process.stdout is not None
            report = json.load(process.stdout)
        took = time.monotonic() - begun
        size = (folder / "run" / "run.db").stat().st_size
        again = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        sys.stdout.write(
            f"job, {report['done']:,} of {report['planned']:,} items: "
            f"{took:.1f} s in all, {report['done'] / took:,.0f} items/s, "
            f"run.db {size / 2**20:,.0f} MiB; again (nothing to do) {time.monotonic() - again:.1f} s\n"
        )
        for role, uss in sorted(peaks.items()):
            sys.stdout.write(f"  peak USS of {role}: {uss / 2**20:,.0f} MiB\n")


def _memory(driver: psutil.Process) -> dict[str, int]:
    """USS by role: the largest of each kind of process below the driver, and the driver."""
    found: dict[str, int] = {}
    for process in [driver, *driver.children(recursive=True)]:
        try:
            name = " ".join(process.cmdline())
            role = (
                "driver"
                if process == driver
                else next((r for r in ("Worker", "Aggregator") if f"ray::{r}" in name or f"ray::_{r}" in name), None)
            )
            if role:
                found[role] = max(found.get(role, 0), process.memory_full_info().uss)
        except psutil.Error:
            continue
    return found


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
    command = commands.add_parser("job", help=job.__doc__)
    command.add_argument("--items", type=int, default=20_000)
    command.add_argument("--latency-ms", type=float, default=50.0)
    command.add_argument("--in-flight", type=int, default=256)
    command.add_argument("--workers", type=int, default=0, help="0: auto")
    command.add_argument("--local", action="store_true", help="in one process, without Ray")
    command.set_defaults(measure=job)
    arguments = parser.parse_args()
    arguments.measure(arguments)


if __name__ == "__main__":
    main()
