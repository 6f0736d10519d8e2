"""A million items judged against the simulated endpoint, watched from outside; the same again; then a changed file.

    python scripts/million.py --directory DIR [--items 1000000] [--changed 1000] [--every 1.0]

Every step is the command as a user gives it. What was seen stands in DIR/seen.jsonl: the same command again goes on
where it was stopped, and prints the tables at the end.

Steps: `run` judges all items; `again` is the same command with nothing to do; `changed` has rows added, as many edited,
and all of them in another order.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil

from runner.errors import JuryboxError
from runner.ledger.ledger import Ledger
from runner.simulate import Simulation, running

ROOT = Path(__file__).resolve().parent.parent
STEPS = ("run", "again", "changed")
FILLER = "x" * 700
NOTHING_TO_DO = "nothing to do"
MIB = 2**20
ROLES = {"ray::_WorkerActor": "worker", "ray::Aggregator": "aggregator", "raylet": "raylet", "gcs_server": "gcs"}


def rows(items: int) -> Iterator[dict[str, str]]:
    """The items of the first run."""
    for n in range(items):
        yield row(n)


def changed_rows(items: int, changed: int) -> Iterator[dict[str, str]]:
    """The same with `changed` more, as many edited, and every row in another place."""
    total = items + changed
    step = next(step for step in range(int(total * 0.618) | 1, 2 * total, 2) if math.gcd(step, total) == 1)
    every = max(1, items // changed)
    for place in range(total):
        n = (place * step + changed) % total
        found = row(n)
        if n < items and n % every == 0 and n // every < changed:
            found["response"] += " And that is all."
        yield found


def row(n: int) -> dict[str, str]:
    """The n-th item, of about 1.5 kB."""
    return {"id": str(n), "question": f"Question {n}? {FILLER}", "reference": str(n), "response": f"{n} {FILLER}"}


def write(path: Path, items: Iterable[dict[str, str]]) -> None:
    """A file of items, whole or not at all."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(item) + "\n" for item in items)
    fresh.replace(path)


@dataclass
class Sample:
    """What was seen at a moment of a step: seconds since its start, trials judged, requests that were answered, and
    by process the CPU seconds so far and the memory that is its own (USS)."""

    step: str
    session: float
    at_s: float
    done: int
    requests: int
    cpu_s: dict[str, float] = field(default_factory=dict)
    uss: dict[str, int] = field(default_factory=dict)


class Processes:
    """A command and all that it starts: by role, the CPU time of all that ever ran, and the memory now."""

    def __init__(self, pid: int) -> None:
        self._driver = psutil.Process(pid)
        self._roles: dict[int, str] = {}
        self._cpu: dict[int, float] = {}
        self._numbered: dict[str, int] = {}

    def look(self) -> tuple[dict[str, float], dict[str, int]]:
        """CPU seconds and USS by role. What Ray starts besides our actors, raylet and GCS is summed as `ray, rest`."""
        uss: dict[str, int] = {}
        try:
            family = [self._driver, *self._driver.children(recursive=True)]
        except psutil.Error:
            family = []
        for process in family:
            try:
                role = self._role(process)
                times = process.cpu_times()
                self._cpu[process.pid] = times.user + times.system
                uss[role] = uss.get(role, 0) + process.memory_full_info().uss
            except (psutil.Error, OSError):
                continue
        cpu: dict[str, float] = {}
        for pid, seconds in self._cpu.items():
            role = self._roles[pid]
            cpu[role] = cpu.get(role, 0.0) + seconds
        return cpu, uss

    def _role(self, process: psutil.Process) -> str:
        if process == self._driver:
            return self._roles.setdefault(process.pid, "driver")
        known = self._roles.get(process.pid)
        # A worker of Ray gets its name only when it becomes an actor.
        if known in (None, "ray, rest"):
            name = " ".join(process.cmdline())
            role = next((role for sign, role in ROLES.items() if sign in name.split(" --")[0]), "ray, rest")
            if role == "worker":
                self._numbered[role] = self._numbered.get(role, 0) + 1
                role = f"worker {self._numbered[role]}"
            self._roles[process.pid] = role
        return self._roles[process.pid]


def watched(
    step: str, command: list[str], directory: Path, url: str, every: float, seen: Path
) -> tuple[dict[str, Any], float]:
    """Carry out a command and write down what is seen of it; its report, and the seconds that it took."""
    asked = requests(url)
    session, begun = time.time(), time.monotonic()
    with (
        seen.open("a", encoding="utf-8") as out,
        (directory / f"{step}.err").open("a") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT) as process,
    ):
        processes = Processes(process.pid)
        told: float | None = None
        while process.poll() is None:
            cpu, uss = processes.look()
            now = time.monotonic() - begun
            sample = Sample(step, session, now, done(directory), requests(url) - asked, cpu, uss)
            out.write(json.dumps(vars(sample)) + "\n")
            out.flush()
            if told is None and NOTHING_TO_DO in Path(errors.name).read_text(encoding="utf-8"):
                told = now
            try:
                process.wait(every)
            except subprocess.TimeoutExpired:
                continue
        assert process.stdout is not None
        report = process.stdout.read()
        if process.returncode not in (0, 3):
            raise SystemExit(f"million: step {step} ended with status {process.returncode}; see {errors.name}")
        took = time.monotonic() - begun
        ended = {
            "step": step,
            "ended": took,
            "requests": requests(url) - asked,
            "db": db_bytes(directory),
            "told": told,
        }
        out.write(json.dumps(ended | {"done": json.loads(report)["done"]}) + "\n")
    return json.loads(report), took


def done(directory: Path) -> int:
    """Trials that have a judgment; -1 where the ledger cannot be read just now."""
    try:
        with Ledger(directory / "run" / "run.db", read_only=True) as ledger:
            return sum(row.done for row in ledger.shards())
    except JuryboxError:
        return -1


def requests(url: str) -> int:
    """Requests that the endpoint has had."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as reply:
        return int(json.load(reply)["requests"])


def db_bytes(directory: Path) -> int:
    """Size of the ledger."""
    return sum(path.stat().st_size for path in (directory / "run").glob("run.db*"))


def load(seen: Path) -> tuple[list[Sample], dict[str, dict[str, Any]]]:
    """All samples, and how each step that is over ended."""
    samples, ended = [], {}
    for line in seen.read_text(encoding="utf-8").splitlines() if seen.exists() else ():
        entry = json.loads(line)
        if "ended" in entry:
            ended[entry["step"]] = entry
        else:
            samples.append(Sample(**entry))
    return samples, ended


def joined(samples: list[Sample]) -> list[Sample]:
    """Samples of one step as if it had been carried out in one session: times and CPU add up over its sessions."""
    found: list[Sample] = []
    at, cpu, asked = 0.0, dict[str, float](), 0
    for before, sample in zip([None, *samples], samples, strict=False):
        if before is not None and before.session != sample.session:
            at, cpu, asked = found[-1].at_s, found[-1].cpu_s, found[-1].requests
        total = {role: cpu.get(role, 0.0) + sample.cpu_s.get(role, 0.0) for role in cpu | sample.cpu_s}
        made = Sample(sample.step, 0, at + sample.at_s, sample.done, asked + sample.requests, total, sample.uss)
        found.append(made)
    return found


def show_run(samples: list[Sample], items: int, ended: dict[str, Any]) -> None:
    """The table by tenth of the run."""
    samples = [sample for sample in joined(samples) if sample.done >= 0 or sample.at_s < 1]
    judging = [sample for sample in samples if sample.done > 0]
    first = samples[max(0, samples.index(judging[0]) - 1)]
    roles = sorted({role for sample in samples for role in sample.uss}, key=lambda role: (role[:3] == "ray", role))
    say(f"| tenth | items/s | CPU s per 1,000 items | {' | '.join(f'{role}, MiB' for role in roles)} |")
    say("|---" * (3 + len(roles)) + "|")
    start = first
    for tenth in range(1, 11):
        end = next((sample for sample in judging if sample.done >= items * tenth / 10), judging[-1])
        within = [sample for sample in judging if start.at_s < sample.at_s <= end.at_s] or [end]
        more = end.done - max(0, start.done)
        if more > 0:
            cpu = (sum(end.cpu_s.values()) - sum(start.cpu_s.values())) / more * 1000
            peaks = " | ".join(f"{peak(within, role):,.0f}" for role in roles)
            say(f"| {tenth} | {more / (end.at_s - start.at_s):,.0f} | {cpu:.2f} | {peaks} |")
        start = end
    last = judging[-1]
    after = [sample for sample in samples if sample.done >= items] or [last]
    whole = sum(last.cpu_s.values())
    say()
    say(f"- {items:,} items in {last.at_s:,.0f} s: {first.at_s:,.0f} s until the first judgment (stage, plan, start),")
    say(
        f"  {after[0].at_s - first.at_s:,.0f} s of judging ({items / (after[0].at_s - first.at_s):,.0f} items/s),"
        f" {last.at_s - after[0].at_s:,.0f} s to publish and report"
    )
    by_role = ", ".join(f"{role} {seconds:,.0f}" for role, seconds in sorted(last.cpu_s.items()))
    say(f"- {whole:,.0f} CPU seconds, the endpoint's left out: {by_role}")
    staging = [sample for sample in samples if sample.at_s <= first.at_s]
    say(
        f"- driver: {peak(staging, 'driver'):,.0f} MiB at most before judging,"
        f" {peak([s for s in judging if s.done < items], 'driver'):,.0f} while judging,"
        f" {peak(after, 'driver'):,.0f} while publishing"
    )
    say(f"- run.db {ended['db'] / MIB:,.0f} MiB, {ended['db'] / items:,.0f} bytes an item")


def show_again(samples: list[Sample], ended: dict[str, Any]) -> None:
    """What it takes to find that nothing is to be done."""
    told = "no" if ended.get("told") is None else f"{ended['told']:.1f} s to"
    say(
        f"- the same command again: {told} `{NOTHING_TO_DO}`, {ended['ended']:.1f} s"
        f" ({joined(samples)[-1].cpu_s.get('driver', 0):.1f} of CPU) with the report,"
        f" {peak(samples, 'driver'):,.0f} MiB, {ended['requests']} requests"
    )


def show_changed(samples: list[Sample], changed: int, ended: dict[str, Any]) -> None:
    """What a changed file takes."""
    samples = joined(samples)
    asked = next((sample for sample in samples if sample.requests), samples[-1])
    before = [sample for sample in samples if sample.at_s <= asked.at_s]
    say(
        f"- {changed:,} rows added, {changed:,} edited, all in another order: {asked.at_s:.0f} s and"
        f" {peak(before, 'driver'):,.0f} MiB to the first new request, {ended['ended']:.0f} s in all;"
        f" {samples[-1].requests if ended['requests'] < samples[-1].requests else ended['requests']:,} requests,"
        f" {ended['done']:,} judged"
    )


def peak(samples: list[Sample], role: str) -> float:
    """The most memory that a role held, in MiB."""
    return max((sample.uss.get(role, 0) for sample in samples), default=0) / MIB


def say(line: str = "") -> None:
    """A line on stdout."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True, help="for items, run and what was seen; 4 kB an item")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=1_000, help="rows added, and as many edited")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two looks at the processes")
    parser.add_argument("--latency-ms", type=float, default=50.0)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=0, help="0: auto")
    given = parser.parse_args()
    directory: Path = given.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    seen, items, config = directory / "seen.jsonl", directory / "items.jsonl", directory / "million.yaml"

    ended = load(seen)[1]
    if not items.exists():
        write(items, rows(given.items))
    command = [sys.executable, "-m", "runner", "run", str(config), "--yes", "--json"]
    while left := [step for step in STEPS if step not in ended]:
        with running(Simulation(latency_ms=given.latency_ms)) as url:
            model = {"name": "sim", "model": "sim", "base_url": url, "limits": {"in_flight": given.in_flight}}
            document = {
                "name": "million",
                "items": {"path": str(items)},
                "judges": ["yes-no"],
                "models": [model],
                "out": str(directory / "run"),
                **({"workers": given.workers} if given.workers else {}),
            }
            config.write_text(json.dumps(document), encoding="utf-8")
            if left[0] == "changed" and not (mark := directory / "items-are-changed").exists():
                write(items, changed_rows(given.items, given.changed))
                mark.touch()
            every = given.every if left[0] == "run" else min(0.2, given.every)
            # What has nothing to do says so, unless it is to be quiet.
            said = [] if left[0] == "again" else ["--quiet"]
            watched(left[0], [*command, *said], directory, url, every, seen)
        ended = load(seen)[1]
    samples, ended = load(seen)
    by_step = {step: [sample for sample in samples if sample.step == step] for step in STEPS}
    show_run(by_step["run"], given.items, ended["run"])
    show_again(by_step["again"], ended["again"])
    show_changed(by_step["changed"], given.changed, ended["changed"])


if __name__ == "__main__":
    main()
