"""A judge in Python through the whole program: what its code cannot deal with is one trial without a score."""

from __future__ import annotations

from pathlib import Path

from runs import Workspace, items, model, stats

from runner.simulate import Simulation, running

JUDGE = """
from judges import Judge, load_judge, parse_judge
from pathlib import Path


class Careful(Judge):
    def read(self, reply, count=1):
        return super().read(reply, count)

    def scores(self, verdict, item):
        if item.id == "q3-brook":
            return {"correct": 1 / 0}
        return super().scores(verdict, item)


judge = parse_judge(load_judge("yes-no", Path()).source.replace("name: yes-no", "name: careful"), "careful", Careful)
"""


def test_an_error_in_a_judges_code_ends_that_trial_and_no_other(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(10)))
    (tmp_path / "mine.py").write_text(JUDGE)
    with running(Simulation()) as url:
        work.write_config(model(url), judges=["./mine.py:judge"], max_unscored=0.2)
        assert work.run().status == 0
    work.assert_each_trial_judged_once(20)
    frame = work.results()
    (failed,) = frame.filter(frame["state"] != "scored").to_dicts()
    assert (failed["item_id"], failed["state"], failed["reason"]) == ("q3-brook", "failed", "judge_code")
    # Its reply was paid for, and is kept with what went wrong.
    assert failed["judge_reply"] in ("yes", "no")
    assert work.query("SELECT error FROM attempts WHERE error IS NOT NULL") == [
        ("judge_code: ZeroDivisionError: division by zero",)
    ]


def test_whatever_a_judges_code_raises_ends_that_trial_and_no_other(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(8)))
    head = """
import os
import sys
from asyncio import CancelledError


class Mute(Exception):
    def __str__(self):
        return 1 / 0


class Own(BaseException):
    pass


RAISED = dict(zip(("q1-atlas", "q2-atlas", "q3-atlas", "q4-atlas", "q5-atlas"),
                  (SystemExit(0), CancelledError(), KeyboardInterrupt(), Mute(), Own())))
"""
    also = 'if item.id == "q6-atlas":\n            os.fork()\n            print("as well")\n        '
    code = JUDGE.replace('if item.id == "q3-brook"', also + "if item.id in RAISED")
    (tmp_path / "mine.py").write_text(head + code.replace('return {"correct": 1 / 0}', "raise RAISED[item.id]"))
    with running() as url:
        # One after the other: what has never worked is taken to be wrong with all.
        work.write_config(model(url, limits={"in_flight": 1}), judges=["./mine.py:judge"], max_unscored=0.5)
        done = work.run()
        assert stats(url)["requests"] == 16, "no copy of the process goes on with the run"
    assert (done.status, done.report["done"]) == (0, 16)
    assert "as well" in done.stderr
    assert "Traceback" not in done.stderr
    work.assert_each_trial_judged_once(16)
    assert work.query("SELECT state, reason, count(*) FROM judgments WHERE state <> 'scored' GROUP BY 1, 2") == [
        ("failed", "judge_code", 5)
    ]


def test_code_that_ends_the_process_is_suspected_at_the_next_start(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(items(range(4)))
    deadly = tmp_path / "deadly"
    deadly.touch()
    ends = f"if Path({str(deadly)!r}).exists():\n                os._exit(7)"
    (tmp_path / "mine.py").write_text("import os\n" + JUDGE.replace('return {"correct": 1 / 0}', ends))
    with running() as url:
        work.write_config(model(url, limits={"in_flight": 1}), judges=["./mine.py:judge"])
        died = work.run()
        assert (died.status, died.stderr) == (7, "")
        deadly.unlink()
        again = work.run()
        assert again.status == 0, again.stderr
        assert again.stderr.count("\n") == 1
        assert "last_session_ended_abruptly" in again.stderr and "without --local" in again.stderr

        # What ends in good order is under no suspicion.
        work.write_items(items(range(5)))
        assert work.run().stderr == ""
    work.assert_each_trial_judged_once(10)
