"""Looking at a run without working in it: its report, how far it is, its rows. Works while the run goes on."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged, load_staged
from runner.errors import InputError
from runner.ledger.ledger import Ledger
from runner.ledger.run_directory import RunDirectory
from runner.messages import Tally
from runner.report import Report, build
from runner.report.notices import describe_unsettled, unsettled_document
from runner.usage import CostBound, describe_cost


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run directory opened for reading."""

    path: Path
    config: RunConfig
    judges: dict[str, Judge]
    staged: Staged
    ledger: Ledger

    def report(self) -> Report:
        running = RunDirectory(self.path).worker_pid() is not None
        return build(self.config.name, self.path, self.config, self.judges, self.staged, self.ledger, running)


@contextmanager
def open_run(directory: Path) -> Iterator[OpenRun]:
    """Open the run in a directory; InputError where there is none."""
    run = RunDirectory(directory)
    config, judges = run.open()
    with Ledger(run.ledger, read_only=True) as ledger:
        yield OpenRun(run.path, config, {judge.name: judge for judge in judges}, load_staged(run.items), ledger)


def describe_duration(seconds: float) -> str:
    """A time as `8s`, `3m 05s` or `2h 10m`."""
    minutes, whole = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {whole:02d}s" if minutes else f"{whole}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"


@dataclass(frozen=True, slots=True)
class Status:
    """How far a run is."""

    name: str
    directory: str
    trials: int
    """Those of the items; control items are counted apart, but for `judge_models`, which holds both."""
    done: int
    controls: int
    controls_done: int
    again: int
    """Of all these: trials that are being judged again; their judgments stand until that is done."""
    waiting: int
    revision: int
    cost_usd: float | None
    """None where no model that was asked has a price."""
    unpriced: list[str]
    """Models that were asked and have no price: what they cost is in no sum."""
    unsettled: CostBound
    """What may have been billed besides."""
    tallies: dict[tuple[str, str], Tally]
    limit: tuple[int, int] | None = None
    """Only the first so many of so many items are judged."""
    pid: int | None = None
    """The process that works in it; None: none does, on this machine."""
    rate_per_s: float | None = None
    """Trials a second of late; None where none is worked on."""
    publishing: tuple[str, int] | None = None
    """Where to, and how many judgments and requests are not there yet; None: the run is not published."""

    @property
    def running(self) -> bool:
        """Whether a process is at work on it."""
        return self.pid is not None

    @property
    def complete(self) -> bool:
        """Every trial has a judgment, those of control items too, and the trials are of all items."""
        return self._finished and self.limit is None

    @property
    def _finished(self) -> bool:
        return (self.done, self.controls_done) == (self.trials, self.controls)

    @property
    def left_s(self) -> float | None:
        """Seconds to the end at that rate."""
        left = self.trials - self.done + self.controls - self.controls_done + self.again
        return left / self.rate_per_s if self.rate_per_s else None

    def document(self) -> dict[str, Any]:
        judge_models = [
            {"judge": j, "model": m, **asdict(tally), "done": tally.done} for (j, m), tally in self.tallies.items()
        ]
        own = [field.name for field in fields(self) if field.name not in ("tallies", "publishing")]
        document: dict[str, Any] = {name: getattr(self, name) for name in own}
        if self.publishing is not None:
            document["publishing"] = dict(zip(("place", "behind"), self.publishing, strict=True))
        unsettled = unsettled_document(self.unsettled)
        return {
            **document,
            "unsettled": unsettled,
            "left_s": self.left_s,
            "running": self.running,
            "complete": self.complete,
            "judge_models": judge_models,
        }

    def text(self) -> str:
        share = 100 * (self.done + self.controls_done) // max(1, self.trials + self.controls)
        word = "complete" if self._finished else f"INCOMPLETE {share} %"
        if self._finished and self.limit is not None:
            word = f"INCOMPLETE: first {self.limit[0]:,} of {self.limit[1]:,} rows"
        lines = [f"{self.name}: {word}, {self.done:,} of {self.trials:,} trials judged"]
        lines[0] += f", {'spent ' * bool(self.cost_usd)}{describe_cost(self.cost_usd or 0.0, self.unpriced)}"
        if self.revision > 1:
            lines[0] += f", revision {self.revision}"
        if self.pid is not None:
            pace = ""
            if self.left_s is not None:
                pace = f", {self.rate_per_s:,.1f} trials/s of late, about {describe_duration(self.left_s)} left"
            lines.append(f"  process {self.pid} is at work{pace}")
        elif not self._finished:
            lines.append("  no process of this machine is at work on it; the run's own command goes on")
        if self.unsettled:
            lines.append(f"  {describe_unsettled(self.unsettled, self.running)}")
        if self.publishing is not None and self.publishing[1]:
            place, behind = self.publishing
            lines.append(f"  publishing to {place} is behind by {behind:,} judgments and requests")
        if self.controls:
            judged = f"{self.controls_done:,} of {self.controls:,} trials of control items judged"
            lines.append(f"  and {judged}; they are counted in the lines that follow")
        if self.again:
            lines.append(f"  {self.again:,} of these are being judged again; until that ends their judgments stand")
        for (judge, model), tally in sorted(self.tallies.items()):
            states = ("scored", "malformed", "refused", "failed", "poisoned", "waiting", "parked")
            parts = [f"{getattr(tally, name):,} {name}" for name in states if getattr(tally, name) or name == "scored"]
            lines.append(f"  {judge} × {model}: {tally.done:,} of {tally.trials:,} ({', '.join(parts)})")
        return "\n".join(lines)


def status_of(directory: Path) -> Status:
    """How far the run in a directory is; needs no pass over its items."""
    run = RunDirectory(directory)
    if (manifest := run.manifest()) is not None:
        run.require_ledger(manifest)
    elif not run.ledger.exists():
        raise InputError(f"{directory}: holds no run (no manifest.json)")
    with Ledger(run.ledger, read_only=True) as ledger:
        tallies = ledger.tallies()
        rows = ledger.shards()
        staged = load_staged(run.items) if run.items.is_dir() else None
        controls = [row for row in rows if staged is not None and staged.is_control(row.shard.first_row)]
        controls_done = sum(row.done for row in controls)
        publishing = None
        if (published := ledger.segments.state()) is not None and published.on:
            publishing = published.place, ledger.segments.count_unpublished()
        spent = {model: spend for model, spend in ledger.spend().items() if spend.requests}
        unpriced = [model for model in spent if model in _without_price(manifest)]
        known = [spend.usage.cost_usd for model, spend in spent.items() if model not in unpriced]
        return Status(
            name=manifest["name"] if manifest else directory.name,
            directory=str(directory),
            trials=sum(row.shard.trials for row in rows) - sum(row.shard.trials for row in controls),
            done=sum(row.done for row in rows) - controls_done,
            controls=sum(row.shard.trials for row in controls),
            controls_done=controls_done,
            again=sum(ledger.revisions.waiting_again().values()) + ledger.revisions.count_renewed(),
            waiting=sum(tally.waiting + tally.parked for tally in tallies.values()),
            cost_usd=sum(known) if known or not unpriced else None,
            unpriced=unpriced,
            unsettled=ledger.spending.reserved(),
            tallies=tallies,
            revision=ledger.revisions.current(),
            limit=None if staged is None or staged.limit is None else (staged.limit, staged.rows),
            publishing=publishing,
            pid=(pid := run.worker_pid()),
            rate_per_s=None if pid is None else ledger.recent_rate(time.time()),
        )


def _without_price(manifest: Mapping[str, Any] | None) -> set[str]:
    """Names of the models, those too that only reformat, to which the config gives no price."""
    config = manifest["config"] if manifest else {}
    reformat = config.get("retry", {}).get("reformat")
    extra = {reformat} if isinstance(reformat, str) else set()
    models = [*config.get("models", []), *([reformat] if isinstance(reformat, dict) else [])]
    priced = {model["name"] for model in models if model.get("price") is not None}
    return ({model["name"] for model in models} | extra) - priced
