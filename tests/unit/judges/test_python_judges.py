"""Judges in Python: what they may change, that their code is their meaning, and how they get into another process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Item, Judge, JudgeError, Reading, Reply, Scored, load_judge, parse_judge
from judges.python_judges import code_of

ROOT = Path(__file__).resolve().parents[3]

DATA: dict[str, Any] = {
    "name": "after-mark",
    "reads": {"kind": "yesno", "verdict": "correct"},
    "route": [{"template": "base"}],
    "templates": {"base": "Is {response} right? Reason, then write ### and yes or no."},
}
ITEM = Item("1", "1", "s", None, {"response": "it"})

FILE = '''
from dataclasses import replace

from judges import Judge, parse_judge

LAST = -1


class AfterMark(Judge):
    def read(self, reply, count=1):
        return super().read(replace(reply, text=(reply.text or "").split("###")[LAST]), count)


DATA = """
name: after-mark
reads: {kind: yesno, verdict: correct}
route: [{template: base}]
templates: {base: "Is {response} right?"}
"""
judge = parse_judge(DATA, "DATA", AfterMark)
plain = parse_judge(DATA, "DATA")
other = 7
'''


class AfterMark(Judge):
    """Reads what stands after the mark alone."""

    def read(self, reply: Reply, count: int = 1) -> Reading:
        return super().read(replace(reply, text=(reply.text or "").split("###")[-1]), count)


class Turned(Judge):
    """Looks for wrong answers."""

    def scores(self, verdict: Mapping[str, Any], item: Item) -> dict[str, float]:
        return {name: 1 - value for name, value in super().scores(verdict, item).items()}


class Whatever(Judge):
    """Scores whatever its verdict says."""

    def scores(self, verdict: Mapping[str, Any], item: Item) -> dict[str, float]:
        return dict(verdict)


def test_a_mapping_is_the_judge_of_the_same_yaml() -> None:
    as_text = "name: after-mark\nreads: {kind: yesno, verdict: correct}\nroute: [{template: base}]\ntemplates:\n"
    as_text += f"  base: {DATA['templates']['base']!r}\n"
    made = parse_judge(DATA, "here")
    assert made.fingerprint == parse_judge(as_text, "there").fingerprint
    assert made.code == ""
    assert parse_judge(made.source, "again").fingerprint == made.fingerprint


@given(st.text(min_size=1))
def test_a_prompt_in_a_mapping_is_kept_to_the_character(text: str) -> None:
    prompt = text.replace("{", "{{").replace("}", "}}") + "{response}"
    made = parse_judge(DATA | {"templates": {"base": prompt}}, "here")
    assert made.render(ITEM, "base")[-1]["content"] == text + "it"
    assert parse_judge(made.source, "again").templates == made.templates


@pytest.mark.parametrize("value", [("a",), object()])
def test_a_mapping_that_no_file_could_hold_is_refused(value: object) -> None:
    with pytest.raises(JudgeError, match="here: holds what no YAML file could"):
        parse_judge(DATA | {"protocol_notes": value}, "here")


def test_an_error_in_a_mapping_names_the_key() -> None:
    with pytest.raises(JudgeError, match="here: read: unknown key; did you mean 'reads'"):
        parse_judge(DATA | {"read": {}}, "here")


def test_a_subclass_reads_and_scores_in_its_own_way() -> None:
    reply = Reply("It is not. ### yes")
    plain, made = parse_judge(DATA, "here"), parse_judge(DATA, "here", AfterMark)
    assert isinstance(made, AfterMark)
    assert not isinstance(plain.read(reply), Scored)
    reading = made.read(reply)
    assert isinstance(reading, Scored)
    assert reading.verdict == {"correct": True}
    assert parse_judge(DATA, "here", Turned).scores({"correct": True}, ITEM) == {"correct": 0.0}


@pytest.mark.parametrize("scores", [{"correct": 2}, {"correct": 0.5}, {"correct": float("nan")}, {"other": 1.0}])
def test_scores_that_the_judge_s_data_does_not_know_are_refused(scores: dict[str, float]) -> None:
    judge = parse_judge(DATA, "here", Whatever)
    assert judge.scores({"correct": True}, ITEM) == {"correct": 1.0}
    with pytest.raises(JudgeError, match=r"judge 'after-mark': the(re is no)? score"):
        judge.scores(scores, ITEM)


def test_code_is_meaning() -> None:
    plain, last, turned = (parse_judge(DATA, "here", kind) for kind in (Judge, AfterMark, Turned))
    assert len({plain.fingerprint, last.fingerprint, turned.fingerprint}) == 3
    assert len({plain.reading_spec, last.reading_spec, turned.reading_spec}) == 3
    assert 'split("###")[-1]' in last.code
    # Without its code at hand, as a run's directory is read: the same judge by name, but it carries nothing out.
    known = parse_judge(last.source, "manifest", code=last.code)
    assert type(known) is Judge
    assert known.fingerprint == last.fingerprint


class _Renamed(Judge):
    @property
    def name(self) -> str:
        return "other"


class _Parametrised(Judge):
    def __init__(self, *_: object) -> None:
        raise AssertionError


@pytest.mark.parametrize(("kind", "what"), [(_Renamed, "name"), (_Parametrised, "__init__")])
def test_what_stands_in_the_data_is_not_for_code(kind: type[Judge], what: str) -> None:
    with pytest.raises(
        JudgeError, match=f"defines '{what}': a judge in Python may define fault, missing, outcomes, read"
    ):
        code_of(kind, Judge)


def test_a_judge_of_a_python_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    made = load_judge("mine.py:judge", tmp_path)
    assert isinstance(made.read(Reply("It is not. ### yes")), Scored)
    assert made.code == FILE
    assert load_judge("mine.py:plain", tmp_path).code == ""
    assert load_judge("mine.py:DATA", tmp_path).fingerprint == load_judge("mine.py:plain", tmp_path).fingerprint

    # The whole file counts, where it lies does not.
    path.rename(tmp_path / "moved.py")
    assert load_judge("moved.py:judge", tmp_path).fingerprint == made.fingerprint
    path.write_text(FILE.replace("LAST = -1", "LAST = 0"), encoding="utf-8")
    changed = load_judge("mine.py:judge", tmp_path)
    assert changed.fingerprint != made.fingerprint
    assert not isinstance(changed.read(Reply("It is not. ### yes")), Scored)


@pytest.mark.parametrize(
    ("text", "ref", "told"),
    [
        (FILE, "mine.py", "mine.py: name the judge in the file as well, as in mine.py:judge"),
        (FILE, "mine.py:", "name the judge in the file as well"),
        (FILE, "mine.py:judges", "mine.py: has no 'judges'"),
        (FILE, "mine.py:other", "mine.py: 'other' must be a judge or a judge's data, not int"),
        (FILE, "yours.py:judge", "yours.py: cannot be read: No such file"),
        ("x = 1\ny = x / 0\n", "mine.py:judge", "mine.py: line 2: ZeroDivisionError: division by zero"),
        ("x = (\n", "mine.py:judge", "mine.py: line 1: SyntaxError: '(' was never closed"),
    ],
)
def test_a_python_file_that_holds_no_judge(tmp_path: Path, text: str, ref: str, told: str) -> None:
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    with pytest.raises(JudgeError) as raised:
        load_judge(ref, tmp_path)
    assert told in raised.value.message


READ = """
import pickle, sys
from judges import Reply
judge = pickle.load(sys.stdin.buffer)
print(judge.fingerprint, judge.read(Reply("It is not. ### yes")).state, type(judge).__name__)
"""


def test_a_judge_of_a_file_reads_in_a_process_that_lacks_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    made = load_judge("mine.py:judge", tmp_path)
    data = pickle.dumps(made)
    path.unlink()
    done = subprocess.run([sys.executable, "-c", READ], input=data, capture_output=True, cwd=ROOT, check=True)
    assert done.stdout.decode().split() == [made.fingerprint, "scored", "AfterMark"]


SCRIPT = """
import pickle, sys
from dataclasses import replace
import cloudpickle
from judges import Judge, parse_judge

class Mine(Judge):
    def read(self, reply, count=1):
        return super().read(replace(reply, text=reply.text.split("###")[-1]), count)

sys.stdout.buffer.write(cloudpickle.dumps(parse_judge(sys.argv[1], "data", Mine)))
"""


def test_a_judge_of_a_script_reads_in_another_process(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    source = parse_judge(DATA, "here").source
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    dumped = subprocess.run([sys.executable, str(script), source], capture_output=True, check=True, env=environment)
    done = subprocess.run([sys.executable, "-c", READ], input=dumped.stdout, capture_output=True, cwd=ROOT, check=True)
    assert done.stdout.decode().split()[1:] == ["scored", "Mine"]


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("yes-no", {"correct": 1}),
        ("yes-no", {"correct": None}),
        ("yes-no", {}),
        ("yes-no", {"correct": True, "more": 1}),
        ("score-0-5", {"score": 7}),
        ("score-0-5", {"score": True}),
        ("score-0-5", {"score": "4"}),
        ("score-0-5", {"score": Decimal(3)}),
        ("score-0-5", {"score": float("nan")}),
        ("choice-ab", {"choice": "C"}),
    ],
)
def test_a_verdict_that_the_data_does_not_allow_is_none(name: str, verdict: dict[str, Any]) -> None:
    with pytest.raises((JudgeError, TypeError, ValueError)):
        load_judge(name, Path()).check(verdict, ITEM)


@pytest.mark.parametrize(
    ("name", "verdict"), [("yes-no", {"correct": False}), ("score-0-5", {"score": 0}), ("choice-ab", {"choice": "A"})]
)
def test_a_verdict_that_the_data_allows_passes(name: str, verdict: dict[str, Any]) -> None:
    load_judge(name, Path()).check(verdict, ITEM)
