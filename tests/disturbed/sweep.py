"""Many ordeals one after the other: what an undisturbed run says, each job's result, and the table at the end.

Results are lines of a file, so that a sweep which was stopped goes on with the seeds that it lacks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runs import log_of

from runner.simulate import Simulation, running

from .checks import Bought, bought, complaints, rows
from .cluster import Cluster
from .inputs import CANARY, REPLAY, write_config, write_inputs
from .job import Course, Job
from .plan import CLUSTER, ENDS_DRIVER, KINDS, TRIALS, Ordeal, ordeal
from .surroundings import environment, failpoints, short_folder


class Sweep:
    """Runs ordeals below a folder. Inputs, undisturbed runs and a cluster are made once, where they are needed."""

    def __init__(self, folder: Path, trials: int = TRIALS) -> None:
        self.folder = folder
        self.trials = trials
        self.file = folder / f"results-{trials}.jsonl"
        self._failpoints = failpoints()
        self._stack = ExitStack()
        self._cluster: tuple[Cluster, Path] | None = None
        self._truths: dict[str, dict[str, Any]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def results(self) -> dict[int, dict[str, Any]]:
        """Seed → what came of it, of all sessions of the sweep; of a seed that was repeated, the last."""
        if not self.file.exists():
            return {}
        lines = self.file.read_text(encoding="utf-8").splitlines()
        return {entry["seed"]: entry for entry in map(json.loads, lines)}

    def plan(self, seed: int) -> Ordeal:
        """What is done to the job of this seed."""
        return ordeal(seed, self._failpoints, self.trials)

    def run(self, seed: int) -> dict[str, Any]:
        """Carry out a seed's ordeal, and keep its result. The folder of one that failed stays."""
        result = self.carry_out(self.plan(seed), self.folder / f"seed-{seed}-{self.trials}")
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        return result

    def carry_out(self, planned: Ordeal, folder: Path) -> dict[str, Any]:
        """Carry out one ordeal in a folder, and say what came of it."""
        shutil.rmtree(folder, ignore_errors=True)
        begun = time.monotonic()
        result: dict[str, Any] = {
            "seed": planned.seed, "place": planned.place, "job": planned.job, "trials": planned.trials,
            "publishes": planned.publishes, "plan": [str(disturbance) for disturbance in planned.disturbances],
        }  # fmt: skip
        try:
            truth = self._truth(planned.job, planned.trials)
            begun = time.monotonic()
            course, cost, wrong = self._judged(planned, truth, folder)
            result |= {
                "kinds": dict(course.kinds), "starts": course.starts, **asdict(cost),
                "acknowledged": sum(course.acknowledged.values()),
            }  # fmt: skip
        except Exception:
            wrong = [traceback.format_exc()]
            self._stack.close()
            self._cluster = None
        result |= {"seconds": round(time.monotonic() - begun, 1), "wrong": wrong}
        if not wrong:
            shutil.rmtree(folder)
        return result

    def _judged(self, planned: Ordeal, truth: dict[str, Any], folder: Path) -> tuple[Course, Bought, list[str]]:
        inputs = self._inputs(planned.job, planned.trials)
        with ExitStack() as stack:
            if planned.place == CLUSTER:
                cluster, shared = self._shared_cluster()
            else:
                cluster, shared = None, stack.enter_context(short_folder())
            course = Job(planned, inputs, folder, cluster, shared).carry_out()
            cost = bought(course, truth["prompts"])
            known = {key: tuple(outcome) for key, outcome in truth["rows"].items()}
            wrong = complaints(course, known, cost)
            if wrong and planned.place != CLUSTER:
                # Ray's own logs, for whoever looks into it; its sockets are not to be copied.
                for logs in shared.glob("**/session_2*/logs"):
                    shutil.copytree(logs, folder / "ray-logs", dirs_exist_ok=True)
            return course, cost, wrong

    def _inputs(self, job: str, trials: int) -> Path:
        folder = self.folder / f"{job}-{trials}"
        if not (folder / REPLAY).exists():
            write_inputs(folder, job, trials)
        return folder

    def _truth(self, job: str, trials: int) -> dict[str, Any]:
        """What an undisturbed run of the job says, and how many replies each prompt takes in it."""
        folder = self._inputs(job, trials)
        kept = folder / "truth.json"
        if job not in self._truths and kept.exists():
            self._truths[job] = json.loads(kept.read_text())
        if job not in self._truths:
            out, log = folder / "calm", folder / "calm.jsonl"
            shutil.rmtree(out, ignore_errors=True)
            simulation = Simulation(api_key=CANARY, replay=folder / REPLAY, log=log)
            with running(simulation, before=("sh", "-c", 'exec "$@" 2>"$0"', os.devnull)) as url:
                write_config(folder / "calm.yaml", folder, job, url, out)
                command = ["run", str(folder / "calm.yaml"), "--local", "--yes", "--quiet"]
                subprocess.run(
                    [sys.executable, "-m", "runner", *command], check=True, stdout=subprocess.DEVNULL,
                    env={**os.environ, **environment(folder), "JURYBOX_LOG": "warning"},
                )  # fmt: skip
            asked = Counter(entry["prompt"] for entry in log_of(log) if "Answer " in entry["body"])
            self._truths[job] = {"rows": rows(out), "prompts": asked}
            kept.write_text(json.dumps(self._truths[job]))
        return self._truths[job]

    def _shared_cluster(self) -> tuple[Cluster, Path]:
        if self._cluster is None or not self._cluster[0].alive:
            shared = self._stack.enter_context(short_folder())
            self._cluster = self._stack.enter_context(Cluster(environment(shared), shared / "cluster.err")), shared
        return self._cluster


def table(results: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What a sweep has shown, in lines."""
    everything = list(results)
    whole = [result for result in everything if "requests" in result]
    kinds = sum((Counter(result["kinds"]) for result in whole), Counter[str]())
    names = sorted({*ENDS_DRIVER, *(kind for some in KINDS.values() for kind in some)})
    yield f"{'place':<8} {'seeds':>5} {'wrong':>5} {'starts':>6} " + " ".join(f"{name:>10}" for name in names)
    for place in sorted({result["place"] for result in everything}):
        here = [result for result in everything if result["place"] == place]
        done = sum((Counter(result.get("kinds", {})) for result in here), Counter[str]())
        starts, wrong = sum(r.get("starts", 0) for r in here), sum(bool(r["wrong"]) for r in here)
        yield f"{place:<8} {len(here):>5} {wrong:>5} {starts:>6} " + " ".join(f"{done[name]:>10}" for name in names)
    if whole:
        add: Counter[str] = Counter()
        for result in whole:
            add.update({name: value for name, value in result.items() if isinstance(value, int | float)})
        yield f"{add['trials']:,} trials, {add['requests']:,} requests, {sum(kinds.values())} disturbances"
        yield f"asked again after a sound reply: {add['again']:,}; paid and in no attempt: {add['unrecorded']:,}"
        yield f"open at the endpoint at the kills: {add['in_flight']:,}; reserved and not settled: {add['reserved']:,}"
        most = add["recorded_usd"] + add["reserved_usd"]
        yield (
            f"recorded {add['recorded_usd']:.6f} USD ≤ charged by the endpoint {add['charged_usd']:.6f} USD ≤ "
            f"recorded and reserved {most:.6f} USD"
        )
        yield f"{60 * len(whole) / add['seconds']:.1f} seeds a minute"
    for result in everything:
        if result["wrong"]:
            yield f"seed {result['seed']} ({result['place']}): {'; '.join(result['wrong'])}"
