"""A short sweep: jobs whose processes are killed at seeded moments, resumed, and held against an undisturbed run.

`scripts/chaos.py` runs as many seeds as one likes, on 2,000 trials each; what is done and checked stands in
tests/disturbed.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from disturbed.checks import bought, complaints, rows
from disturbed.inputs import CANARY, write_inputs
from disturbed.job import Course, Job
from disturbed.ledger import seen
from disturbed.plan import DRIVER, ENDS_DRIVER, KINDS, LOCAL, SINGLE, Ordeal, often
from disturbed.surroundings import short_folder
from disturbed.sweep import Sweep
from runs import ROOT

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

TRIALS = 800
SEEDS = (20, 23)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    with Sweep(tmp_path_factory.mktemp("sweep"), TRIALS) as sweep:
        yield sweep


def test_a_short_sweep_covers_every_kind_of_death(sweep: Sweep) -> None:
    done: Counter[str] = Counter()
    for seed in SEEDS:
        result = sweep.run(seed)
        assert result["wrong"] == [], "\n".join(result["wrong"])
        done.update(result["kinds"])
    assert set(done) == {*ENDS_DRIVER, *(kind for kinds in KINDS.values() for kind in kinds)}
    assert sweep.results().keys() == set(SEEDS)
    assert not list(sweep.folder.glob("seed-*")), "the folder of a seed where nothing was wrong goes"


def test_a_driver_that_is_killed_twenty_times(sweep: Sweep) -> None:
    result = sweep.carry_out(often(DRIVER, 20, TRIALS), sweep.folder / "often")
    assert result["wrong"] == [], "\n".join(result["wrong"])
    assert (result["kinds"], result["starts"]) == ({DRIVER: 20}, 21)


def test_what_would_be_wrong_is_seen(tmp_path: Path) -> None:
    """The checks themselves, on a run that nothing was done to before and that is damaged now."""
    trials = 80
    write_inputs(tmp_path / "inputs", SINGLE, trials)
    with short_folder() as shared:
        calm = Job(
            Ordeal(0, LOCAL, SINGLE, trials, (), True), tmp_path / "inputs", tmp_path / "job", None, shared
        ).carry_out()
    truth = rows(calm.out)
    prompts = Counter(entry["prompt"] for entry in calm.log if entry["fault"] is None)

    def told(course: Course) -> str:
        return "; ".join(complaints(course, truth, bought(course, prompts)))

    assert told(calm) == ""
    assert "end otherwise than undisturbed" in "; ".join(complaints(calm, {}, bought(calm, prompts)))
    sender, seq = next(iter(calm.acknowledged.items()))
    assert f"batch {seq + 1} was acknowledged" in told(replace(calm, acknowledged={sender: seq + 1}))
    assert "are recorded, the endpoint has charged" in told(replace(calm, tokens={"prompt": 0, "completion": 0}))
    more = {name: number + 1000 for name, number in calm.tokens.items()}
    assert "recorded and 0.0 reserved" in told(replace(calm, tokens=more))
    twice = [{**entry, "n": 0, "fault": None, "status": None} for entry in calm.log]
    assert "paid replies are in no attempt" in told(replace(calm, log=calm.log + twice))
    later = replace(calm, begun=[*calm.begun, (0.0, len(calm.readings) - 1)])
    assert "judged before start 2 are asked after it" in told(later)

    (calm.out / "note").write_text(f"Bearer {CANARY}")
    assert "holds the key" in told(calm)
    (calm.out / "note").unlink()

    assert calm.mirror is not None
    segment = next(calm.mirror.glob("*/results/*/*.parquet"))
    segment.rename(segment.with_suffix(".lost"))
    assert told(calm) == "the mirror does not hold what the run directory holds"
    segment.with_suffix(".lost").rename(segment)

    part = next((calm.out / "results").glob("*.parquet"))
    duckdb.sql(f"COPY (SELECT * REPLACE ('refused' AS state) FROM '{part}') TO '{part}.new' (FORMAT parquet)")
    Path(f"{part}.new").replace(part)
    assert "by the published rows" in told(calm)

    with closing(sqlite3.connect(calm.out / "run.db")) as ledger, ledger:
        ledger.execute(
            "DELETE FROM judgments WHERE (shard, position) IN (SELECT shard, position FROM judgments LIMIT 1)"
        )
    after = replace(calm, readings=[*calm.readings, seen(calm.out)])
    assert "1 judgments that were committed are gone" in told(after)
    assert f"{trials} trials: {trials} planned, {trials} done, {trials - 1} judged" in told(after)


def test_a_seed_means_the_same_every_time(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "chaos.py"), "--plan", "--seeds", "0-7,15", "--folder", "sweep"]
    first, second = (
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second
    assert first.count("\n") == 9
    assert "seed 15: cluster" in first
