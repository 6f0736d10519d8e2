"""Carries out one ordeal: starts the command, watches its progress, kills what the plan says, resumes to the end.

Hides processes. Who is killed is a descendant of a process that this module started, never somebody found by name on
the machine. What it hands back is a `Course`: what happened, in numbers and readings; `checks` judges it.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from runs import log_of, stats

from runner.simulate import Simulation, running

from .cluster import Cluster
from .inputs import CANARY, REPLAY, write_config
from .ledger import Seen, judged, seen
from .plan import AGGREGATOR, CLUSTER, ENDS_DRIVER, FAILPOINT, INTERRUPT, LEAVE, LOCAL, RAY, WORKER, Disturbance, Ordeal
from .surroundings import environment

END_S = 600.0
"""A job that has not ended by then never will, also on a machine that is busy with other things."""
LOOK_S = 0.04
LEAVE_AFTER_S = 0.05
GONE_S = 60.0
"""How long the processes of a session that died may outlive it."""
TOO_BUSY = "timed out during startup"
"""What Ray says on a machine that is too busy to start it within half a minute."""
UNBORN = "Fatal Python error: init"
"""What Python says where it is interrupted before the command's first line."""
ACTORS = {WORKER: "ray::_WorkerActor", AGGREGATOR: "ray::Aggregator"}

_ACKNOWLEDGED = re.compile(r"(\S+) debug acknowledged sender=(\S+) seq=(\d+)")


@dataclass(frozen=True, slots=True)
class Done:
    """One disturbance as it happened."""

    disturbance: Disturbance
    at: float
    """On the monotonic clock."""


@dataclass(slots=True)
class Course:
    """What happened to a job."""

    ordeal: Ordeal
    out: Path
    done: list[Done] = field(default_factory=list)
    starts: int = 0
    seconds: float = 0.0
    readings: list[Seen] = field(default_factory=list)
    """Of the ledger, in order: before and after each disturbance, and at the end."""
    begun: list[tuple[float, int]] = field(default_factory=list)
    """When the command was started, on the monotonic clock, and the number of the last reading before it."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Sender → the last batch that it was told is committed."""
    report: str = ""
    log: list[dict[str, Any]] = field(default_factory=list)
    """The endpoint's."""
    tokens: dict[str, int] = field(default_factory=dict)
    """What the endpoint charges for: prompt and completion tokens of all replies that it has given."""
    places: list[Path] = field(default_factory=list)
    """Where the job has written anything."""
    problems: list[str] = field(default_factory=list)
    """What ended otherwise than it may."""

    @property
    def mirror(self) -> Path | None:
        """Where the job publishes, if it does."""
        return self.out.with_name("mirror") if self.ordeal.publishes else None

    @property
    def kinds(self) -> Counter[str]:
        """How often each kind of disturbance happened."""
        return Counter(done.disturbance.kind for done in self.done)

    @property
    def losses(self) -> list[Done]:
        """Disturbances that took what was in flight with them: not those that a worker outlives, or that wait."""
        lasting = (INTERRUPT, AGGREGATOR) if self.ordeal.place == LOCAL else (INTERRUPT, AGGREGATOR, FAILPOINT)
        return [done for done in self.done if done.disturbance.kind not in lasting]


class Job:
    """One job under way."""

    def __init__(self, ordeal: Ordeal, inputs: Path, folder: Path, cluster: Cluster | None, shared: Path) -> None:
        """`shared` is the place that a cluster's processes know: Ray's sessions, and the armed failpoints."""
        self.course = Course(ordeal, folder / "run")
        self._ordeal = ordeal
        self._inputs = inputs
        self._folder = folder
        self._cluster = cluster
        self._shared = shared
        self._places = shared / "failpoints"
        self._armed: dict[str, Disturbance] = {}
        self._pending = deque(ordeal.disturbances)
        # Not the seed itself: its first draws made the plan.
        self._chance = random.Random(ordeal.seed + 1_000_003)
        self._started: set[psutil.Process] = set()
        self._url = ""
        self._excused: set[int] = set()

    def carry_out(self) -> Course:
        """Disturb and resume until the job is complete, or is not as it should be."""
        self._folder.mkdir(parents=True)
        self._places.mkdir(parents=True, exist_ok=True)
        for left in self._places.iterdir():
            left.unlink()
        simulation = Simulation(
            seed=self._ordeal.seed, latency_ms=30, malformed=0.03, truncated=0.005, miscounted=0.05,
            server_errors=0.015, resets=0.01, throttled=0.003, retry_after_s=0.05, api_key=CANARY,
            replay=self._inputs / REPLAY, log=self._folder / "endpoint.jsonl",
        )  # fmt: skip
        begun = time.monotonic()
        since = time.time()
        # What it cannot find a recorded reply for it complains about, and that is wanted here.
        aside = ("sh", "-c", 'exec "$@" 2>"$0"', str(self._folder / "endpoint.txt"))
        with running(simulation, before=aside) as self._url:
            keys = {"publish": str(self.course.mirror)} if self.course.mirror else {}
            write_config(
                self._folder / "config.yaml", self._inputs, self._ordeal.job, self._url, self.course.out, **keys
            )
            try:
                while self._session(begun + END_S):
                    pass
                self.course.seconds = time.monotonic() - begun
                self._await_end_of_processes()
            finally:
                self._end_processes()
            self.course.tokens = stats(self._url)["tokens"]
        self.course.readings.append(seen(self.course.out))
        self.course.log = log_of(self._folder / "endpoint.jsonl")
        self.course.places = [self._folder, self._shared]
        self.course.acknowledged = self._acknowledged(since)
        return self.course

    # ---- one start of the command

    def _session(self, end: float) -> bool:
        """Start the command and see it end; True: it has to be started again."""
        course = self.course
        course.starts += 1
        self._excused = {0}
        begun = time.monotonic()
        course.begun.append((begun, len(course.readings) - 1))
        with self._driver() as process:
            while process.poll() is None:
                if time.monotonic() > end:
                    course.problems.append(f"start {course.starts} did not end within {END_S:.0f} s")
                    process.kill()
                    process.wait()
                    return False
                if self._pending and self._reached(begun):
                    disturbance = self._pending[0]
                    if self._disturb(disturbance, process):
                        self._pending.popleft()
                else:
                    time.sleep(LOOK_S)
                self._note_failpoint()
        self._note_failpoint()
        course.readings.append(seen(course.out))
        words = (self._folder / f"stderr.{course.starts}").read_text(errors="replace")
        if process.returncode == 2 and TOO_BUSY in words:
            return True
        if INTERRUPT in self.course.kinds and UNBORN in words:
            return True
        if process.returncode not in self._excused:
            course.problems.append(f"start {course.starts} ended with status {process.returncode}: {words[-2000:]}")
            return False
        if "Traceback" in words and "KeyboardInterrupt" not in words:
            course.problems.append(f"start {course.starts} left a traceback: {words[-2000:]}")
            return False
        course.report = (self._folder / f"stdout.{course.starts}").read_text()
        return process.returncode != 0

    @contextmanager
    def _driver(self) -> Iterator[subprocess.Popen[bytes]]:
        place = {LOCAL: ["--local"], RAY: [], CLUSTER: ["--address", self._cluster.address if self._cluster else ""]}
        command = [
            sys.executable, "-m", "runner", "run", str(self._folder / "config.yaml"), "--yes", "--json", "--quiet",
            *place[self._ordeal.place],
        ]  # fmt: skip
        name = self.course.starts
        with (self._folder / f"stdout.{name}").open("wb") as out, (self._folder / f"stderr.{name}").open("wb") as err:
            process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env={**os.environ, **environment(self._shared, often=self.course.mirror is not None)},
            )  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    self._remember(process)
                    process.kill()
                process.wait()

    def _reached(self, begun: float) -> bool:
        when = self._pending[0].when
        match when.by:
            case "start":
                return time.monotonic() - begun >= when.at
            case "requests":
                return bool(stats(self._url)["requests"] >= when.at * self._ordeal.requests)
            case _:
                return judged(self.course.out) >= when.at * self._ordeal.trials

    # ---- what is done to it

    def _disturb(self, disturbance: Disturbance, process: subprocess.Popen[bytes]) -> bool:
        """Do it; False: who is to die is not there yet."""
        victims: list[psutil.Process] = []
        if disturbance.kind in ACTORS:
            victims = self._actors(process, ACTORS[disturbance.kind])
            if not victims:
                time.sleep(LOOK_S)
                return False
        self._remember(process)
        self.course.readings.append(seen(self.course.out))
        at = time.monotonic()
        match disturbance.kind:
            case "driver":
                process.kill()
                self._excused.add(-signal.SIGKILL)
            case "interrupt" | "leave":
                # As the shell sees it who is interrupted before Python has taken the signal over.
                self._excused |= {130, -signal.SIGINT}
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGINT)
                    if disturbance.kind == LEAVE:
                        time.sleep(LEAVE_AFTER_S)
                        at = time.monotonic()
                        os.kill(process.pid, signal.SIGINT)
            case "failpoint":
                (self._places / disturbance.failpoint).write_text(str(disturbance.passes))
                self._armed[disturbance.failpoint] = disturbance
                return True
            case "node":
                assert self._cluster is not None
                self._cluster.lose_node()
                self._cluster.add_node()
            case _:
                with suppress(psutil.NoSuchProcess):
                    self._chance.choice(victims).kill()
        if disturbance.kind in ENDS_DRIVER:
            process.wait(timeout=END_S)
        self.course.done.append(Done(disturbance, at))
        self.course.readings.append(seen(self.course.out))
        return True

    def _note_failpoint(self) -> None:
        """Whether somebody has died at an armed failpoint: then its file is gone."""
        for name in [name for name in self._armed if not (self._places / name).exists()]:
            self.course.done.append(Done(self._armed.pop(name), time.monotonic()))
            self._excused.add(-signal.SIGKILL)
            self.course.readings.append(seen(self.course.out))

    # ---- processes

    def _root(self, process: subprocess.Popen[bytes]) -> int:
        return self._cluster.pid if self._cluster is not None else process.pid

    def _actors(self, process: subprocess.Popen[bytes], name: str) -> list[psutil.Process]:
        return sorted((p for p in _below(self._root(process)) if _is_called(p, name)), key=lambda p: p.pid)

    def _remember(self, process: subprocess.Popen[bytes]) -> None:
        self._started |= set(_below(process.pid))
        if self._cluster is not None:
            self._started |= {p for name in ACTORS.values() for p in self._actors(process, name)}

    def _await_end_of_processes(self) -> None:
        """Whatever a session that died has started ends by itself."""
        end = time.monotonic() + GONE_S
        while left := [process for process in self._started if _runs(process)]:
            if time.monotonic() > end:
                names = [" ".join(process.cmdline())[:60] for process in left if _runs(process)]
                self.course.problems.append(f"processes outlive their session by {GONE_S:.0f} s: {names}")
                return
            time.sleep(LOOK_S)

    def _end_processes(self) -> None:
        for process in self._started:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _acknowledged(self, since: float) -> dict[str, int]:
        """What the workers' own logs say was acknowledged, in this job."""
        logs = [*self._folder.glob("stderr.*"), *self._shared.glob("**/worker-*.err")]
        found: dict[str, int] = {}
        for path in logs:
            if path.stat().st_mtime < since:
                continue
            for line in _ACKNOWLEDGED.finditer(path.read_text(errors="replace")):
                found[line[2]] = max(found.get(line[2], 0), int(line[3]))
        return found


def _below(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _is_called(process: psutil.Process, name: str) -> bool:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return _runs(process) and process.cmdline()[:1] != [] and process.cmdline()[0].startswith(name)
    return False


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
