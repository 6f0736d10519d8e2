"""`jurybox rescore`: a better reader applied to stored replies, without a call, as one revision for every reader."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from runs import ROOT, Workspace, items, model, stats

from judges import PARSER_VERSION
from runner.simulate import Simulation, running

ITEMS = items(range(60))
CONFIG: dict[str, Any] = {"max_unscored": 0.9, "retry": {"rejudge": 1}}
MALFORMED = Simulation(malformed=0.4, max_faults_in_a_row=5)

# Reads again, saying so at each shard, so that it can be killed in the middle.
RESCORE = """
import sys
from pathlib import Path
from runner.session.session import reopen
from runner.dataset import Staged

frame = Staged.frame
def told(self, *arguments):
    sys.stdout.write("shard\\n")
    sys.stdout.flush()
    return frame(self, *arguments)
with reopen(Path(sys.argv[1])) as session:
    Staged.frame = told
    session.rescore()
    sys.stdout.write("done\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A finished run in which many replies could not be read."""
    work = Workspace(tmp_path_factory.mktemp("finished"))
    work.write_items(ITEMS)
    with running(MALFORMED) as url:
        work.write_config(model(url), **CONFIG)
        assert work.run().status == 0
        assert stats(url)["requests"] > len(ITEMS)
    # The endpoint is gone: nothing that follows can ask it.
    return work


@pytest.fixture
def work(finished: Workspace, tmp_path: Path) -> Workspace:
    """A copy of it."""
    work = Workspace(tmp_path)
    work.items.write_bytes(finished.items.read_bytes())
    config = yaml.safe_load(finished.config.read_text())
    work.config.write_text(yaml.safe_dump(config | {"out": str(work.out)}))
    shutil.copytree(finished.out, work.out)
    return work


@contextmanager
def rescoring(work: Workspace) -> Iterator[subprocess.Popen[str]]:
    """A process that reads again and says how far it is."""
    process = subprocess.Popen(
        [sys.executable, "-c", RESCORE, str(work.out)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def says(process: subprocess.Popen[str], line: str) -> None:
    """Wait until it has said this."""
    assert process.stdout is not None
    for told in process.stdout:
        if told == f"{line}\n":
            return
    raise AssertionError(f"it ended without saying {line!r}")


def edit(work: Workspace, sql: str, *parameters: Any) -> int:
    """Change the ledger as no command does: other replies, or an older reader."""
    with closing(sqlite3.connect(work.out / "run.db")) as ledger, ledger:
        return ledger.execute(sql, parameters).rowcount


def readable(work: Workspace, text: str = "yes") -> dict[str, str | None]:
    """Make the first replies of all malformed trials such as a better reader reads; item id → state before."""
    unread = work.results().filter(pl.col("state") == "malformed")["key"].to_list()
    changed = sum(
        edit(
            work,
            "UPDATE attempts SET judge_reply = ?, finish_reason = 'stop' WHERE keys = ? AND stage = 'first'",
            text,
            bytes.fromhex(key),
        )
        for key in unread
    )
    assert changed == len(unread) > 3
    return {key: "malformed" for key in unread}


def test_right_after_a_run_nothing_changes(work: Workspace) -> None:
    done = work.command("rescore", str(work.out))
    assert (done.status, done.stdout) == (0, f"nothing changed: revision 1 stands, read by parser {PARSER_VERSION}\n")
    assert set(work.results()["revision"]) == {1}


def test_what_is_read_now_is_scored_in_ledger_results_export_and_report(work: Workspace) -> None:
    before = work.results()
    unread = readable(work)
    requests = work.query("SELECT count(*) FROM attempts")
    done = work.command("rescore", str(work.out), "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["revision"], document["new"], document["parser_version"]) == (2, True, PARSER_VERSION)
    assert (document["changed"], document["unchanged"]) == (len(unread), len(ITEMS) - len(unread))
    assert {change["from"]["state"] for change in document["changes"]} == {"malformed"}
    assert {json.dumps(change["to"]["verdict"]) for change in document["changes"]} == {'{"correct": true}'}
    assert sum(change["trials"] for change in document["changes"]) == len(unread)
    shown = {example["key"] for change in document["changes"] for example in change["examples"]}
    assert shown <= set(unread) and all(change["examples"][0]["item_id"] for change in document["changes"])

    after = work.results()
    assert set(after["revision"]) == {2}
    changed = after.filter(pl.col("key").is_in(list(unread)))
    assert set(changed["verdict"]) == {'{"correct": true}'} and set(changed["judge_reply"]) == {"yes"}
    same = [name for name in before.columns if name != "revision"]
    rest = ~pl.col("key").is_in(list(unread))
    assert after.filter(rest).select(same).equals(before.filter(rest).select(same))
    work.assert_each_trial_judged_once(len(ITEMS))
    assert work.query("SELECT count(*) FROM attempts") == requests

    report = work.command("report", str(work.out), "--json").report
    assert (report["revision"], report["parser_versions"], report["unscored"]) == (2, [PARSER_VERSION], 0)
    exported = work.command("export", str(work.out), "--format", "jsonl").stdout
    assert {json.loads(line)["revision"] for line in exported.splitlines()} == {2}
    (told,) = json.loads((work.out / "manifest.json").read_text())["revisions"]
    assert (told["revision"], told["kind"], told["changed"]) == (2, "rescore", len(unread))

    again = work.command("rescore", str(work.out))
    assert again.stdout == f"nothing changed: revision 2 stands, read by parser {PARSER_VERSION}\n"
    assert work.results().equals(after)
    # The run's own command finds nothing to do, and leaves the revision as it is.
    assert work.run().status == 0
    assert work.results().equals(after)


def test_what_changed_is_printed_for_people(work: Workspace) -> None:
    unread = readable(work, "no")
    done = work.command("rescore", str(work.out))
    first, counted, head, stage, *lines = done.stdout.splitlines()
    assert first == f"revision 2: all replies read again, by parser {PARSER_VERSION}"
    assert counted == f"yes-no × judge: {len(unread)} of 120 changed, {120 - len(unread)} unchanged"
    assert head.split() == ["new", "changed", "gone", "same", "verdicts", "read", "as"]
    new, changed, gone, _, name = stage.split()
    assert (int(new), changed, gone, name) == (len(unread), "0", "0", "strict")
    assert lines and all("malformed (" in line and ' → {"correct": false}  (q' in line for line in lines)


def test_an_older_reader_is_said_and_gone_after(work: Workspace) -> None:
    edit(work, "UPDATE judgments SET parser_version = '1' WHERE position < 5")
    report = work.command("report", str(work.out), "--section", "notices")
    assert f"Replies were read by parsers 1 and {PARSER_VERSION}" in report.stdout
    assert "jurybox rescore" in report.stdout
    done = work.command("rescore", str(work.out))
    assert done.stdout.startswith(f"revision 2: all replies read again, by parser {PARSER_VERSION} (before: 1)\n")
    assert "0 of 120 changed, 120 unchanged" in done.stdout
    assert set(work.results()["parser_version"]) == {PARSER_VERSION}
    assert "Replies were read by parsers" not in work.command("report", str(work.out)).stdout


def test_a_run_that_goes_on_is_read_by_one_reader_throughout(work: Workspace) -> None:
    edit(work, "UPDATE judgments SET parser_version = '1'")
    unread = readable(work)
    with running() as url:
        work.write_items(items(range(62)))
        work.write_config(model(url), **CONFIG)
        done = work.run()
        asked = stats(url)["requests"]
    assert (done.status, asked) == (0, 4), done.stderr
    frame = work.results()
    assert (set(frame["parser_version"]), set(frame["revision"]), frame.height) == ({PARSER_VERSION}, {2}, 124)
    assert set(frame.filter(pl.col("key").is_in(list(unread)))["state"]) == {"scored"}


@pytest.mark.long
def test_what_an_earlier_plan_had_comes_back_by_the_same_reader(work: Workspace) -> None:
    edit(work, "UPDATE judgments SET parser_version = '1'")
    assert work.run().status == 0
    assert set(work.results()["parser_version"]) == {"1"}, "one reader read all: it stands"
    work.write_items(ITEMS[:50])
    assert work.run().status == 0
    assert work.command("rescore", str(work.out)).status == 0
    work.write_items(ITEMS)
    assert work.run().status == 0
    frame = work.results()
    assert (frame.height, set(frame["parser_version"])) == (120, {PARSER_VERSION})


@pytest.mark.long
def test_a_manifest_that_was_not_written_any_more_is_mended(work: Workspace) -> None:
    readable(work)
    assert work.command("rescore", str(work.out)).status == 0
    file = work.out / "manifest.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps(whole | {"revisions": []}))
    assert work.command("rescore", str(work.out)).stdout.startswith("nothing changed: revision 2 stands")
    assert json.loads(file.read_text()) == whole
    assert [revision["revision"] for revision in whole["revisions"]] == [2]


def test_too_many_without_a_score_is_an_exit_status(work: Workspace) -> None:
    edit(work, "UPDATE attempts SET judge_reply = 'Perhaps.' WHERE id % 2")
    manifest = json.loads((work.out / "manifest.json").read_text())
    manifest["config"]["max_unscored"] = 0.01
    (work.out / "manifest.json").write_text(json.dumps(manifest))
    assert work.command("rescore", str(work.out)).status == 3


def test_only_one_at_a_time_works_in_a_directory_and_there_must_be_a_run(work: Workspace) -> None:
    with rescoring(work) as process:
        says(process, "done")
        locked = work.command("rescore", str(work.out))
        assert locked.status == 2 and "another jurybox works here" in locked.stderr
    nothing = work.command("rescore", str(work.folder / "none"))
    assert nothing.status == 2 and "there is no such directory" in nothing.stderr
    assert not (work.folder / "none").exists()


def test_killed_in_the_middle_it_leaves_the_old_revision_whole(work: Workspace) -> None:
    unread = readable(work)
    judgments = work.query("SELECT * FROM judgments ORDER BY shard, position")
    readings = work.query("SELECT id, reading, parser_version FROM attempts ORDER BY id")
    published = work.results()
    shards = len(work.query("SELECT id FROM shards"))
    assert shards > 4
    for after in (1, shards // 2, shards):
        with rescoring(work) as process:
            for _ in range(after):
                says(process, "shard")
            process.send_signal(signal.SIGKILL)
        assert work.query("SELECT * FROM judgments ORDER BY shard, position") == judgments
        assert work.query("SELECT id, reading, parser_version FROM attempts ORDER BY id") == readings
        assert work.query("SELECT * FROM revisions") == []
        assert work.results().equals(published)
        assert work.command("status", str(work.out), "--json").report["revision"] == 1
    done = work.command("rescore", str(work.out))
    assert f"{len(unread)} of 120 changed" in done.stdout
    assert set(work.results()["revision"]) == {2}


def test_a_revision_that_was_not_published_is_published_by_the_next_command(work: Workspace) -> None:
    readable(work)
    with rescoring(work) as process:
        says(process, "done")
        process.send_signal(signal.SIGKILL)
    assert set(work.results()["revision"]) == {1}
    assert work.command("rescore", str(work.out)).stdout.startswith("nothing changed: revision 2 stands")
    assert set(work.results()["revision"]) == {2}


@pytest.mark.long
def test_a_judge_in_python_needs_its_code(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(4)))
    code = work.folder / "mine.py"
    code.write_text(
        "from judges import Judge, load_judge, parse_judge\n"
        "from pathlib import Path\n"
        "class Mine(Judge):\n"
        "    def scores(self, verdict, item):\n"
        "        return {'correct': 1.0 - verdict['correct']}\n"
        "judge = parse_judge(load_judge('yes-no', Path()).source, 'mine', Mine)\n"
    )
    with running() as url:
        work.write_config(model(url), judges=["./mine.py:judge"])
        done = work.run()
    assert done.status == 0, done.stderr
    edit(work, "UPDATE judgments SET scores = '{\"correct\": 0.5}'")
    assert work.command("rescore", str(work.out)).status == 0
    assert set(json.loads(scores)["correct"] for (scores,) in work.query("SELECT scores FROM judgments")) <= {0.0, 1.0}

    moved = code.rename(work.folder / "moved.py")
    gone = work.command("rescore", str(work.out))
    assert gone.status == 2
    assert "judge 'yes-no' reads or scores in Python, and its code is not where it was" in gone.stderr
    work.config.write_text(work.config.read_text().replace("mine.py", "moved.py"))
    assert work.command("rescore", str(work.out), "--config", str(work.config)).status == 0
    moved.rename(code)
    code.write_text(code.read_text().replace("1.0 -", "0.5 +"))
    other = work.command("rescore", str(work.out))
    assert other.status == 2 and "is not the code of this run any more" in other.stderr


@pytest.mark.long
def test_after_every_step_of_the_ladder_the_same_reader_changes_nothing(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(40)))
    faults = Simulation(
        malformed=0.15, mumbled=0.3, miscounted=0.2, truncated=0.1, refused=0.1, server_errors=0.05,
        max_faults_in_a_row=9,
    )  # fmt: skip
    with running(faults) as url:
        work.write_config(
            model(url),
            judges=[{"use": "answer-correctness", "batch": 5}, "yes-no", "correct-and-score"],
            max_unscored=0.9,
            retry={"rejudge": 1, "reformat": "same"},
        )
        assert work.run().status == 0
    steps = {stage.split(":")[0] for (stage,) in work.query("SELECT DISTINCT stage FROM attempts")}
    assert steps >= {"first", "rejudge", "refused", "bisect", "reformat"}
    before = work.query("SELECT * FROM judgments ORDER BY shard, position")
    assert {state for (state,) in work.query("SELECT DISTINCT state FROM judgments")} >= {"scored", "malformed"}
    assert work.query("SELECT count(*) FROM judgments WHERE stage = 'reformat'")[0][0] > 10
    done = work.command("rescore", str(work.out))
    assert done.stdout == f"nothing changed: revision 1 stands, read by parser {PARSER_VERSION}\n"
    # An older reader than today's read all alike: only its name changes.
    edit(work, "UPDATE judgments SET parser_version = '0'")
    assert work.command("rescore", str(work.out)).stdout.count(": 0 of 80 changed, 80 unchanged\n") == 3
    place = [row[1] for row in work.query("PRAGMA table_info(judgments)")].index("parser_version")
    for old, new in zip(before, work.query("SELECT * FROM judgments ORDER BY shard, position"), strict=True):
        assert old == (*new[:place], PARSER_VERSION, *new[place + 1 :])
