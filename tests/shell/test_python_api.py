"""jurybox from Python: scripts, a notebook's loop, frames, judges in code, interrupts."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from runs import ROOT, Workspace, ended_with_test, items, model, stats, until

import jurybox
from judges import Item, Judge, Reading, Reply
from runner.errors import ItemError, MeaningChanged, RunLocked
from runner.publishing.result_frames import ATTEMPT_COLUMNS, COLUMNS
from runner.simulate import Simulation, running

DATA: dict[str, Any] = {
    "name": "after-mark",
    "reads": {"kind": "yesno", "verdict": "correct"},
    "route": [{"template": "base"}],
    "templates": {"base": "Question: {question}\nAnswer: {response}\nReference: {reference}\nYes or no?"},
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def only_run(folder: Path) -> Path:
    [run] = folder.glob("runs/*")
    return run


def asked(url: str) -> int:
    requests: int = stats(url)["requests"]
    return requests


def test_ten_dicts_are_judged_and_the_same_call_again_is_free(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = items(range(5))
    handlers = list(logging.getLogger().handlers)
    before = asked(url)
    run = jurybox.run(rows, judge="yes-no", model="m", base_url=url)
    assert asked(url) == before + 10

    assert run.directory.parent == Path("runs")
    assert run.directory.name.startswith("yes-no-")
    scores = run.scores()
    assert scores.columns == [
        "item_id", "question_id", "system", "item_group", "judge", "model", "repeat", "state", "correct",
    ]  # fmt: skip
    assert scores["item_id"].to_list() == [row["id"] for row in rows]
    assert scores["correct"].dtype == pl.Float64
    judgments = run.judgments()
    assert COLUMNS.items() <= dict(judgments.schema).items()
    assert judgments["response"].to_list() == [row["response"] for row in rows]
    assert judgments["score_correct"].cast(pl.Float64).equals(scores["correct"])
    assert not {"question", "response", "judge_reply"} & set(run.judgments(texts=False).columns)
    assert [{"correct": score == 1.0} for score in scores["correct"]] == [json.loads(v) for v in judgments["verdict"]]
    assert dict(run.attempts().schema) == ATTEMPT_COLUMNS
    assert run.attempts().height == 10

    report = run.report()
    assert repr(report) == "Report('yes-no': complete, 10 of 10 trials judged)"
    assert "yes-no · complete · 10 of 10 trials" in report._repr_html_()
    assert run.text() == str(report)
    assert repr(run) == f"jurybox.Run('{run.directory}'): complete, 10 of 10 trials judged"
    assert repr(jurybox.Run(folder / "none")) == f"jurybox.Run('{folder / 'none'}')"
    assert run._repr_html_() == report._repr_html_()
    assert str(report).startswith("yes-no · complete · 10 of 10 trials")
    assert "\x1b" not in str(report)

    again = jurybox.run(iter(rows), judge="yes-no", model="m", base_url=url, limits={"in_flight": 2})
    assert again.directory == run.directory
    assert asked(url) == before + 10
    other = jurybox.run(rows[:9], judge="yes-no", model="m", base_url=url)
    assert other.directory != run.directory

    loaded = jurybox.load(run.directory)
    assert loaded.judgments().equals(judgments)
    assert repr(loaded) == repr(run)
    assert (run.directory.stat().st_mode & 0o777, (run.directory / "given.jsonl").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
    assert logging.getLogger().handlers == handlers, "the process's own logging is left alone"
    assert capsys.readouterr() == ("", "")


FRESH = """
import time
begun = time.perf_counter()
import json, sys
import jurybox
rows = json.loads(sys.argv[1])
run = jurybox.run(rows, judge="yes-no", model="m", base_url=sys.argv[2], out="run")
assert run.report().complete and run.scores().height == 10
sys.stderr.write(f"{time.perf_counter() - begun} {time.process_time()}")
"""


@pytest.mark.long
def test_ten_dicts_take_less_than_three_seconds_beyond_the_latency_in_a_fresh_process(tmp_path: Path) -> None:
    work = Workspace(tmp_path)  # there, importing Ray is an error
    latency_s = 0.5
    # As a user's machine has it: imports compiled once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": os.pathsep.join([str(tmp_path / "without-ray"), str(ROOT)])}
    environment |= {"PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    with running(Simulation(latency_ms=latency_s * 1000)) as url:
        took = []
        for attempt in range(3):
            command = [sys.executable, "-c", FRESH, json.dumps(items(range(5))), url]
            place = tmp_path / str(attempt)
            place.mkdir()
            done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert done.stdout == ""
            took.append([float(number) for number in done.stderr.split()])
    assert min(cpu for _, cpu in took) < 3, took
    if os.getloadavg()[0] < (os.cpu_count() or 1):  # else the clock tells what the others do
        assert min(wall for wall, _ in took) < 3 + latency_s, took
    assert work.folder == tmp_path


def test_configs_by_path_and_as_a_mapping_go_on_working(folder: Path, url: str) -> None:
    work = Workspace(folder)
    work.write_items(items(range(3)))
    work.write_config(model(url))
    run = jurybox.run(work.config)
    assert run.directory == work.out
    assert run.report().planned == 6
    config = {"name": "c", "items": {"path": "items.jsonl"}, "judges": ["yes-no"], "models": [model(url)]}
    run = jurybox.run(config, limit=4)
    assert run.directory == Path("runs/c")
    assert run.report().planned == 4
    with pytest.raises(jurybox.InputError, match="fields: goes with items, judge= and model=; here the config says it"):
        jurybox.run(config, fields={"response": "answer"})
    with pytest.raises(jurybox.InputError, match="repeats: goes with items"):
        jurybox.run(config, repeats=2)


def test_a_file_of_items_and_what_a_config_could_say(folder: Path, url: str) -> None:
    work = Workspace(folder)
    work.write_items(
        [{"q": row["question"], "gold": row["reference"], "answer": row["response"]} for row in items([1])]
    )
    own = {"model": "simulated-judge", "price": {"input": 1.0, "output": 1.0}}
    run = jurybox.run(
        "items.jsonl",
        judge={"use": "yes-no", "sampling": {"max_tokens": 5}},
        model=["m", own],
        base_url=url,
        limits={"in_flight": 3},
        fields={"question": "q", "reference": "gold", "response": "answer"},
        repeats=2,
    )
    assert run.directory == Path("runs/items")
    assert sorted(run.scores().select("model", "repeat").rows()) == sorted(
        [(name, repeat) for name in ("m", "simulated-judge") for repeat in (0, 1) for _ in range(2)]
    )
    config = json.loads((run.directory / "manifest.json").read_text(encoding="utf-8"))["config"]
    assert [entry["limits"] for entry in config["models"]] == [{"in_flight": 3}] * 2
    assert [entry["base_url"] for entry in config["models"]] == [url] * 2
    with pytest.raises(MeaningChanged):
        jurybox.run("items.jsonl", judge="yes-no", model="m", base_url=url, sampling={"max_tokens": 7})


def test_the_same_rows_in_another_order_are_the_same_run(folder: Path, url: str) -> None:
    rows = items(range(4))
    run = jurybox.run(rows, judge="yes-no", model="m", base_url=url)
    scores = dict(run.scores().select("item_id", "correct").iter_rows())
    before = asked(url)
    turned = [dict(reversed(row.items())) for row in reversed(rows)]
    again = jurybox.run(turned, judge="yes-no", model="m", base_url=url)
    assert again.directory == run.directory
    assert asked(url) == before
    assert again.scores()["item_id"].to_list() == [row["id"] for row in turned]
    assert dict(again.scores().select("item_id", "correct").iter_rows()) == scores


def test_a_wrong_limit_leaves_a_finished_run_alone(folder: Path, url: str) -> None:
    rows = items(range(2))
    run = jurybox.run(rows, judge="yes-no", model="m", base_url=url)
    with pytest.raises(jurybox.InputError, match="limit: must be a whole number from 1 on, not -1"):
        jurybox.run(rows, judge="yes-no", model="m", base_url=url, limit=-1)
    assert run.scores().height == 4


@pytest.mark.parametrize("kind", ["polars", "pandas", "datasets"])
def test_frames_are_judged_like_their_rows(folder: Path, url: str, kind: str) -> None:
    rows = items(range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library: Any = pytest.importorskip(kind)
        frame = library.Dataset.from_list(rows) if kind == "datasets" else library.DataFrame(rows)
    run = jurybox.run(frame, judge="yes-no", model="m", base_url=url)
    before = asked(url)
    assert jurybox.run(rows, judge="yes-no", model="m", base_url=url).directory == run.directory
    assert asked(url) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"items": [{"response": "x"}], "judge": "yes-no"}, "model: is missing"),
        ({"items": [{"response": "x"}], "model": "m"}, "judge: is missing"),
        ({"items": [{"response": "x"}]}, "judge: is missing"),
        ({"items": "items.jsonl"}, "judge: is missing"),
        ({"items": [{"response": "x"}], "judge": "yes-now", "model": "m"}, "did you mean 'yes-no'?"),
        (
            {"items": [{"response": "x"}], "judge": 3, "model": "m"},
            "judge: a name, a path, a mapping or a judge is wanted",
        ),
        ({"items": [{"response": "x"}], "judge": "yes-no", "model": 3}, "model: an id or a mapping is wanted, not int"),
        ({"items": [{"response": "x"}], "judge": "yes-no", "model": "m", "repeat": 2}, "did you mean 'repeats'?"),
        ({"items": [{"response": "x"}], "judge": "yes-no", "model": "m", "batch": 2}, "takes one item at a time"),
        ({"items": [{"response": "x"}], "judge": "yes-no", "model": "m", "models": []}, "models: is not set this way"),
        *(
            ({"items": [{"response": "x"}], "judge": "yes-no", "model": "m", name: value}, f"{name}: must be a whole")
            for name in ("limit", "sample")
            for value in (0, -1, 2.5, True, "3")
        ),
        (
            {"items": [{"response": "x"}], "judge": "yes-no", "model": "m", "limit": 1, "sample": 1},
            "limit and sample exclude each other",
        ),
        ({"items": [{"a": 1}, 2], "judge": "yes-no", "model": "m"}, "items[1]: a dict is wanted, not int"),
        ({"items": "there-is-none.jsonl", "judge": "yes-no", "model": "m"}, "there is no file there-is-none.jsonl"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_done(folder: Path, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(jurybox.InputError) as raised:
        jurybox.run(**arguments)
    assert told in raised.value.message
    assert list(folder.glob("runs/*/given.jsonl")) == []


def test_a_bad_item_is_named_by_its_position(folder: Path, url: str) -> None:
    rows = items(range(3))
    del rows[3]["reference"]
    before = asked(url)
    with pytest.raises(ItemError) as raised:
        jurybox.run(rows, judge="yes-no", model="m", base_url=url)
    assert "items[3]: q1-brook: judge 'yes-no', template 'base': the row lacks 'reference'" in raised.value.message
    twice = [*items([1]), {**items([1])[0], "response": "another"}]
    with pytest.raises(ItemError) as raised:
        jurybox.run(twice, judge="yes-no", model="m", base_url=url)
    assert "items[2]: q1-atlas: the same system and id stand at items[0] with different" in raised.value.message
    assert asked(url) == before


def test_a_key_that_is_not_there_is_told_and_no_other_endpoint_gets_openai_s(folder: Path, url: str) -> None:
    with pytest.raises(jurybox.InputError, match="OPENAI_API_KEY"):
        jurybox.run(items([1]), judge="yes-no", model="m")
    run = jurybox.load(only_run(folder))
    assert COLUMNS.items() <= dict(run.judgments().schema).items()
    assert run.report().planned == 2
    with pytest.raises(jurybox.InputError, match="holds no run"):
        jurybox.load(folder)
    with pytest.raises(jurybox.InputError, match="holds no run"):
        jurybox.Run(folder).judgments()


def test_before_a_run_has_ended_its_frames_are_empty_and_whole(folder: Path) -> None:
    with pytest.raises(jurybox.InputError):
        jurybox.run(items([1]), judge="yes-no", model="m", out="run", api_key_env="JURYBOX_TESTS_NO_SUCH_KEY")
    run = jurybox.load("run")
    assert dict(run.judgments().schema) == COLUMNS
    assert run.judgments().height == run.attempts().height == run.scores().height == 0
    assert run.scores().columns[-1] == "state"
    assert run.report().status == "INCOMPLETE 0 %"


# ---- judges as data and as code --------------------------------------------------------------------------------------


class AfterMark(Judge):
    """Reads what stands after the last mark alone."""

    def read(self, reply: Reply, count: int = 1) -> Reading:
        return super().read(replace(reply, text=(reply.text or "").split("###")[-1]), count)


class Turned(Judge):
    """Looks for wrong answers."""

    def scores(self, verdict: Mapping[str, Any], item: Item) -> dict[str, float]:
        return {name: 1 - value for name, value in super().scores(verdict, item).items()}


def test_judges_as_a_mapping_as_text_and_as_an_object_are_one_judge(folder: Path, url: str) -> None:
    rows = items(range(2))
    made = jurybox.judge(DATA)
    (folder / "mine.yaml").write_text(made.source, encoding="utf-8")
    before = asked(url)
    directories = {
        jurybox.run(rows, judge=judge, model="m", base_url=url).directory
        for judge in (DATA, made, made.source, "mine.yaml", Path("mine.yaml"))
    }
    assert len(directories) == 1
    assert asked(url) == before + 4
    run = jurybox.run(rows, judge=[DATA, "yes-no"], model="m", base_url=url)
    assert run.scores()["judge"].unique().sort().to_list() == ["after-mark", "yes-no"]


def test_a_judge_in_python_judges_and_its_run_is_read_without_its_code(folder: Path, url: str) -> None:
    rows = items(range(4))
    plain = jurybox.run(rows, judge=DATA, model="m", base_url=url)
    run = jurybox.run(rows, judge=jurybox.judge(DATA, Turned), model="m", base_url=url)
    assert run.directory != plain.directory
    assert run.scores()["correct"].to_list() == [1 - score for score in plain.scores()["correct"]]
    [facts] = jurybox.load(run.directory).report().judges
    assert facts.fingerprint == jurybox.judge(DATA, Turned).fingerprint != jurybox.judge(DATA).fingerprint
    # The same name for other code, in the same directory.
    before = asked(url)
    with pytest.raises(MeaningChanged, match=r"judges\.after-mark\.code"):
        jurybox.run(rows, judge=jurybox.judge(DATA, AfterMark), model="m", base_url=url, out=run.directory)
    assert asked(url) == before


PYTHON_JUDGE = """
import pathlib
from judges import Judge, parse_judge

pathlib.Path("carried-out").touch()


class Turned(Judge):
    def scores(self, verdict, item):
        return {name: 1 - value for name, value in super().scores(verdict, item).items()}


judge = parse_judge(%r, "mine.py", Turned)
"""


def test_a_judge_of_a_python_file_in_a_config_and_by_name(folder: Path, url: str) -> None:
    work = Workspace(folder)
    work.write_items(items(range(2)))
    (folder / "mine.py").write_text(PYTHON_JUDGE % DATA, encoding="utf-8")
    work.write_config(model(url), judges=["./mine.py:judge"])
    done = work.run()
    assert done.status == 0, done.stderr
    scores = jurybox.load(work.out).scores()["correct"].to_list()
    plain = jurybox.run(items(range(2)), judge=DATA, model="simulated-judge", base_url=url).scores()["correct"]
    assert scores == [1 - score for score in plain]

    (folder / "carried-out").unlink()
    assert jurybox.load(work.out).report().complete
    assert work.command("report", str(work.out)).status == 0
    assert not (folder / "carried-out").exists(), "looking at a run carries no code out"

    named = jurybox.run(items(range(2)), judge="mine.py:judge", model="simulated-judge", base_url=url)
    assert named.scores()["correct"].to_list() == scores


def test_code_that_deals_with_no_reply_stops_the_run_and_the_run_goes_on_after_it(folder: Path, url: str) -> None:
    class Broken(Judge):
        def read(self, reply: Reply, count: int = 1) -> Reading:
            if broken:
                raise ZeroDivisionError("in the judge's code")
            return super().read(reply, count)

    broken = True
    judge = jurybox.judge(DATA, Broken)
    told = "its code could deal with none of 3 replies; the last: ZeroDivisionError: in the judge's code"
    rows = items(range(50))
    with pytest.raises(jurybox.ActionNeeded, match=told):
        jurybox.run(rows, judge=judge, model="m", base_url=url, limits={"in_flight": 4}, out="out")
    left = jurybox.load("out")
    assert left.report().done == 0
    # Those in flight at once, and no others, were paid for.
    assert 3 <= left.attempts().height <= 8
    broken = False
    assert jurybox.run(rows, judge=judge, model="m", base_url=url, out="out").report().complete


# ---- loops and interrupts --------------------------------------------------------------------------------------------


async def test_in_a_running_loop_run_works_and_arun_leaves_the_loop_free(folder: Path) -> None:
    rows = items(range(3))
    with running(Simulation(latency_ms=200)) as url:
        run = jurybox.run(rows, judge="yes-no", model="m", base_url=url, out="one")
        assert run.report().complete
        turns = 0

        async def turning() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(turning())
            other = await jurybox.arun(rows, judge="yes-no", model="m", base_url=url, out="two")
            task.cancel()
    assert other.scores().equals(run.scores())
    assert turns > 5
    with pytest.raises(ItemError):
        await jurybox.arun([], judge="yes-no", model="m")


async def test_cancelling_arun_ends_what_is_in_flight_and_the_same_call_goes_on(folder: Path) -> None:
    rows = items(range(40))
    with running(Simulation(latency_ms=60)) as url:
        arguments: dict[str, Any] = {"judge": "yes-no", "model": "m", "base_url": url, "limits": {"in_flight": 4}}
        task = asyncio.ensure_future(jurybox.arun(rows, **arguments))
        while asked(url) < 12:
            assert not task.done()
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stopped = stats(url)
        assert stopped["open"] == 0, "what was in flight was waited for"
        run = jurybox.load(only_run(folder))
        assert run.report().done == stopped["requests"] < len(rows)
        assert run.judgments()["state"].drop_nulls().len() == stopped["requests"]
        done = await jurybox.arun(rows, **arguments)
        assert done.directory.name == run.directory.name
        assert done.report().complete
        assert asked(url) == len(rows)


async def test_cancelling_arun_twice_gives_up_what_is_in_flight(folder: Path) -> None:
    with running(Simulation(hanging=1.0)) as url:
        task = asyncio.ensure_future(jurybox.arun(items([1]), judge="yes-no", model="m", base_url=url))
        while stats(url)["open"] == 0:
            assert not task.done()
            await asyncio.sleep(0.02)
        begun = time.monotonic()
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.2)
        assert time.monotonic() - begun < 15, "a request that hangs would take 120 s, the order to stop 30 s"
        with pytest.raises(asyncio.CancelledError):
            await task
    assert jurybox.load(only_run(folder)).report().done == 0


SCRIPT = """
import json, sys
import jurybox
rows, url = json.loads(sys.argv[1]), sys.argv[2]
try:
    jurybox.run(rows, judge="yes-no", model="m", base_url=url, limits={"in_flight": 4}, out="run")
except KeyboardInterrupt:
    print("interrupted")
"""
CELL = """
import asyncio, json, sys
import jurybox
rows, url = json.loads(sys.argv[1]), sys.argv[2]

async def cell():
    jurybox.run(rows, judge="yes-no", model="m", base_url=url, limits={"in_flight": 4}, out="run")

try:
    loop = asyncio.new_event_loop()
    # As a notebook's kernel: its own handler of SIGINT, which raises in whatever code runs in the loop.
    loop.run_until_complete(cell())
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("code", [SCRIPT, CELL], ids=["script", "cell"])
def test_an_interrupt_ends_what_is_in_flight_and_raises_keyboard_interrupt(tmp_path: Path, code: str) -> None:
    rows = items(range(60))
    with running(Simulation(latency_ms=60)) as url:
        process = subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(rows), url],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with ended_with_test(process):
            until(lambda: asked(url) >= 12, process)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stdout, stderr) == (0, "interrupted\n", "")
        stopped = stats(url)
        assert stopped["open"] == 0
        run = jurybox.load(tmp_path / "run")
        assert run.report().done == run.judgments()["state"].drop_nulls().len() == stopped["requests"] < len(rows)
        done = jurybox.run(rows, judge="yes-no", model="m", base_url=url, out=tmp_path / "run")
        assert done.report().complete
        assert asked(url) == len(rows)


def test_a_second_call_on_a_directory_that_is_worked_in_is_refused(folder: Path) -> None:
    rows = items(range(4))
    with running(Simulation(latency_ms=1000)) as url:
        arguments: dict[str, Any] = {"judge": "yes-no", "model": "m", "base_url": url}
        first = threading.Thread(target=jurybox.run, args=(rows,), kwargs=arguments)
        first.start()
        wait_for(lambda: stats(url)["open"] > 0)
        with pytest.raises(RunLocked, match="another jurybox works here"):
            jurybox.run(rows, **arguments)
        first.join()
    assert jurybox.load(only_run(folder)).report().complete


def test_a_third_interrupt_leaves_at_once_and_the_directory_is_held_until_the_work_has_ended(folder: Path) -> None:
    reading, go_on = threading.Event(), threading.Event()

    class Slow(Judge):
        def read(self, reply: Reply, count: int = 1) -> Reading:
            if not reading.is_set():
                reading.set()
                assert go_on.wait(60)
            return super().read(reply, count)

    interrupts = 0

    def interrupted(number: int, frame: object) -> None:
        nonlocal interrupts
        interrupts += 1
        raise KeyboardInterrupt

    def insist() -> None:
        assert reading.wait(60)
        for count in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(lambda count=count: interrupts > count)  # type: ignore[misc]

    rows = items(range(3))
    judge = jurybox.judge(DATA, Slow)
    usual = signal.signal(signal.SIGINT, interrupted)
    try:
        with running() as url:
            insisting = threading.Thread(target=insist)
            insisting.start()
            with pytest.raises(KeyboardInterrupt):
                jurybox.run(rows, judge=judge, model="m", base_url=url, out="run")
            insisting.join()
            [work] = [thread for thread in threading.enumerate() if thread.name == "jurybox"]
            with pytest.raises(RunLocked, match="another jurybox works here"):
                jurybox.run(rows, judge=judge, model="m", base_url=url, out="run")
            go_on.set()
            work.join(60)
            assert jurybox.run(rows, judge=judge, model="m", base_url=url, out="run").report().complete
    finally:
        go_on.set()
        signal.signal(signal.SIGINT, usual)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
