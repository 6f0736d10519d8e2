"""The same run with other inputs or another config: what is bought, what may change freely, and what is refused."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import items, log_of, model, stats, trial_of
from structlog.testing import capture_logs

from runner.config import parse_config
from runner.errors import MeaningChanged
from runner.ledger.ledger import Ledger
from runner.session.dry_run import preview
from runner.session.judging import judge_plan, local_pool
from runner.session.planning import Plan, plan_run
from runner.session.session import Session
from runner.simulate import Simulation, running

ROWS = items(range(12))
JUDGE: dict[str, Any] = {
    "name": "mine",
    "reads": {"kind": "yesno", "verdict": "correct"},
    "route": [{"when": {"group": ["north"]}, "template": "short"}, {"template": "long"}],
    "templates": {
        "short": "Is {response} right? Answer yes or no.",
        "long": "Does {response} give {reference}? Answer yes or no.",
    },
    "sampling": {"temperature": 0, "max_tokens": 10},
}

Config = dict[str, Any]


class Bench:
    """A finished run in a folder, and what sessions on copies of it ask the endpoint."""

    def __init__(self, folder: Path, url: str, log: Path) -> None:
        self.folder = folder
        self.url = url
        self._log = log
        self.config: Config = {
            "name": "changing",
            "items": {"path": "items.jsonl"},
            "judges": ["./judge.yaml"],
            "models": [model(url)],
            "repeats": 1,
        }
        self.rows: list[dict[str, Any]] = copy.deepcopy(ROWS)
        self.judge: dict[str, Any] = copy.deepcopy(JUDGE)

    def copied(self, folder: Path) -> Bench:
        """The same in another folder, to be changed."""
        # With the times of the files: by them a run knows its inputs.
        shutil.copytree(self.folder, folder / "copy")
        return Bench(folder / "copy", self.url, self._log)

    def write(self) -> None:
        """The files as they are to be now; one that is so already is left alone."""
        texts = {
            "items.jsonl": "".join(json.dumps(row) + "\n" for row in self.rows),
            "judge.yaml": json.dumps(self.judge),
        }
        for path, text in ((self.folder / name, text) for name, text in texts.items()):
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")

    def session(self) -> Session:
        return Session(parse_config(self.config), self.folder, self.folder / "run")

    def planned(self) -> tuple[int, int]:
        """What `jurybox plan` says: trials, and those that are judged already."""
        shown = preview(parse_config(self.config), self.folder, self.folder / "run", None)
        return shown.trials, shown.judged

    def go(self) -> tuple[Plan, list[str]]:
        """Carry out the run; its plan, and the items that were asked about."""
        self.write()
        planned = self.planned()
        with self.session() as session:
            plan = plan_run(session)
            assert (plan.trials, plan.judged) == planned
            before = len(self.log())
            if not plan.complete:
                judge_plan(session, plan, make_pool=lambda: local_pool(session))
            session.finish()
        with Ledger(self.folder / "run" / "run.db", read_only=True) as ledger:
            assert sum(row.done for row in ledger.shards()) == plan.trials
        return plan, sorted(trial_of(entry["body"]) for entry in self.log()[before:])

    def log(self) -> list[dict[str, Any]]:
        stats(self.url)
        return sorted(log_of(self._log), key=lambda entry: int(entry["n"]))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("finished")
    log = folder / "log"
    with running(Simulation(log=log)) as url:
        made = Bench(folder / "run", url, log)
        made.folder.mkdir()
        assert made.go()[1] == sorted(row["id"] for row in ROWS)
        yield made


@pytest.fixture
def bench(finished: Bench, tmp_path: Path) -> Bench:
    return finished.copied(tmp_path)


# ---- inputs


def test_added_rows_are_judged_and_no_others(bench: Bench) -> None:
    bench.rows[5:5] = items(range(50, 53))
    plan, asked = bench.go()
    assert (plan.trials, plan.carried) == (30, 24)
    assert asked == sorted(row["id"] for row in items(range(50, 53)))


def test_removed_rows_cost_nothing_and_may_come_back(bench: Bench) -> None:
    removed, bench.rows = bench.rows[3:9], bench.rows[:3] + bench.rows[9:]
    plan, asked = bench.go()
    assert (plan.trials, plan.carried, asked) == (18, 18, [])
    bench.rows += removed
    plan, asked = bench.go()
    assert (plan.trials, plan.carried, asked) == (24, 24, [])


def test_edited_rows_are_judged_and_no_others(bench: Bench) -> None:
    bench.rows[4]["response"] += " Or is it?"
    bench.rows[9]["reference"] = "Port Nowhere"
    # What no prompt shows changes no answer: this item's template has no reference, and none has a remark.
    assert bench.rows[7]["group"] == "north"
    bench.rows[7]["reference"] = "Port Nowhere"
    bench.rows[11]["remark"] = "looked at twice"
    plan, asked = bench.go()
    assert (plan.trials, plan.carried) == (24, 22)
    assert asked == sorted(bench.rows[at]["id"] for at in (4, 9))


def test_rows_in_another_order_are_the_same_rows(bench: Bench) -> None:
    bench.rows.sort(key=lambda row: str(row["id"])[::-1])
    assert bench.rows != ROWS
    plan, asked = bench.go()
    assert (plan.trials, plan.carried, asked) == (24, 24, [])


def test_everything_at_once_is_judged_by_its_difference(bench: Bench) -> None:
    bench.rows[0]["response"] += " Or is it?"
    edited = bench.rows[0]["id"]
    bench.rows = [*reversed(bench.rows[:20]), *items([60])]
    plan, asked = bench.go()
    assert (plan.trials, plan.carried) == (22, 19)
    assert asked == sorted([edited, *(row["id"] for row in items([60]))])


def test_few_trials_left_in_many_shards_are_asked_side_by_side(bench: Bench) -> None:
    bench.rows = items(range(60))
    bench.go()
    with Ledger(bench.folder / "run" / "run.db", read_only=True) as ledger:
        shards = [row.shard for row in ledger.shards()]
    assert len(shards) == 12
    for shard in shards:
        bench.rows[shard.first_row]["response"] += " Or is it?"
    with running(Simulation(latency_ms=500)) as slow:
        bench.config["models"][0] |= {"base_url": slow, "limits": {"in_flight": len(shards)}}
        bench.go()
        assert stats(slow)["requests"] == len(shards)
        assert max(stats(slow)["max_in_flight"].values()) > len(shards) / 2


# ---- a changed config, by the classes of changes


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """Another endpoint, which must not be asked anything."""
    with running() as url:
        yield url
        assert stats(url)["requests"] == 0


def test_operational_keys_change_freely_and_are_logged(bench: Bench, elsewhere: str) -> None:
    changed = bench.config["models"][0]
    changed |= {
        "base_url": elsewhere,
        "limits": {"rpm": 60, "tpm": 1000, "in_flight": 3},
        "price": {"input": 1.0, "output": 2.0},
        "account": "shared",
        "timeout_s": 5.0,
    }
    bench.config |= {"retry": {"attempts": 2}, "budget": {"usd": 1.5}, "workers": 1, "max_unscored": 0.5}
    with capture_logs() as logs:
        plan, asked = bench.go()
    assert (plan.complete, plan.carried, asked) == (True, None, []), "the plan itself is the old one"
    told = [entry["what"] for entry in logs if entry["event"] == "config_changed"]
    assert "config.models.judge.limits.rpm: was not set, is 60.0" in told
    assert f"config.models.judge.base_url: was {bench.url}, is {elsewhere}" in told
    assert "config.workers: was not set, is 1" in told
    with capture_logs() as logs:
        bench.go()
    assert not [entry for entry in logs if entry["event"] == "config_changed"], "told once"


def change_route(bench: Bench) -> None:
    bench.judge["route"][0]["when"]["group"] = ["north", "south"]


def add_judge(bench: Bench) -> None:
    bench.config["judges"].append("yes-no")


def add_model(bench: Bench) -> None:
    bench.config["models"].append(model(bench.url, "second"))


def add_repeat(bench: Bench) -> None:
    bench.config["repeats"] = 2


def add_labels(bench: Bench) -> None:
    bench.config["items"]["labels"] = {"correct": {"field": "human", "type": "bool"}}
    for at, row in enumerate(bench.rows):
        row["human"] = at % 2 == 0


EVERY = [str(row["id"]) for row in ROWS]


@pytest.mark.parametrize(
    ("add", "trials", "bought"),
    [
        (add_judge, 48, EVERY),
        (add_model, 48, EVERY),
        (add_repeat, 48, EVERY),
        (add_labels, 24, []),
        # Another template is another prompt, of these items alone.
        (change_route, 24, [str(row["id"]) for row in ROWS if row["group"] == "south"]),
    ],
)
def test_additions_are_bought_and_nothing_else(
    bench: Bench, add: Callable[[Bench], None], trials: int, bought: list[str]
) -> None:
    add(bench)
    plan, asked = bench.go()
    assert (plan.trials, plan.carried) == (trials, trials - len(bought))
    assert asked == sorted(bought)
    assert sum(entry.requests for entry in plan.estimates) == len(bought), "as the plan says"


def other_prompt(bench: Bench) -> None:
    bench.judge["templates"]["long"] += " Be strict."


def other_reading(bench: Bench) -> None:
    bench.judge["reads"]["verdict"] = "right"


def other_model(bench: Bench) -> None:
    bench.config["models"][0]["model"] = "simulated-other"


def other_revision(bench: Bench) -> None:
    bench.config["models"][0]["revision"] = "r2"


def other_sampling(bench: Bench) -> None:
    bench.config["models"][0]["sampling"] = {"max_tokens": 50}


def other_sampling_of_the_judge(bench: Bench) -> None:
    bench.config["judges"] = [{"use": "./judge.yaml", "sampling": {"temperature": 1.0}}]


def other_body(bench: Bench) -> None:
    bench.config["models"][0]["extra"] = {"body": {"reasoning_effort": "low"}}


def other_fields(bench: Bench) -> None:
    bench.config["items"]["fields"] = {"reference": "question"}


def other_emptiness(bench: Bench) -> None:
    bench.config["items"]["empty_response"] = "wrong"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (other_prompt, "judges.mine.templates.long"),
        (other_reading, "judges.mine.reads.verdict: was correct, is right"),
        (other_model, "models.judge.model: was simulated-judge, is simulated-other"),
        (other_revision, "models.judge.revision: was null, is r2"),
        (other_sampling, "sampling of mine × judge.max_tokens: was 10, is 50"),
        (other_sampling_of_the_judge, "sampling of mine × judge.temperature: was 0.0, is 1.0"),
        (other_body, "sampling of mine × judge.reasoning_effort: was not set, is low"),
        (other_fields, "items.fields.reference: was not set, is question"),
        (other_emptiness, "items.empty_response: was judge, is wrong"),
    ],
)
def test_another_meaning_under_an_old_name_is_refused(
    finished: Bench, tmp_path: Path, change: Callable[[Bench], None], told: str
) -> None:
    # Not copied: nothing of the run may change.
    other = Bench(finished.folder, finished.url, tmp_path)
    change(other)
    judge, before = finished.folder / "judge.yaml", tree(finished.folder / "run")
    judge.write_text(json.dumps(other.judge))
    try:
        with other.session() as session, pytest.raises(MeaningChanged) as refused:
            plan_run(session)
        with pytest.raises(MeaningChanged):
            other.planned()
    finally:
        judge.write_text(json.dumps(finished.judge))
    assert told in refused.value.message
    assert "Give what changed a new name, or use --out" in refused.value.message
    assert tree(finished.folder / "run") == before


def test_another_meaning_under_a_new_name_is_an_addition(bench: Bench) -> None:
    bench.config["models"].append(model(bench.url, "warm", sampling={"temperature": 1.0}))
    plan, asked = bench.go()
    assert (plan.trials, plan.carried, asked) == (48, 24, sorted(EVERY))


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time."""
    files = {path: path.stat() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}
    return {str(path): (status.st_size, status.st_mtime_ns) for path, status in files.items()}
