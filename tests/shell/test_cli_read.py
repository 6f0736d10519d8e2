"""`jurybox read`: one reply or lines of them, in their order, whatever comes in."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import load_judge
from runner.session import reply_reader as readback
from runner.session.reply_reader import Reader, ReplyDefaults, read_lines

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus" / "answers.jsonl"
KINDS = {"yesno": "yes-no", "scores": "score-0-5", "json": "correct-and-score"}
KEYS = ["state", "verdict", "scores", "stage", "reason", "notes"]


def run(jurybox: Path, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([jurybox, "read", *arguments], input=data, capture_output=True, timeout=60)


def one(jurybox: Path, *arguments: str, data: bytes) -> dict[str, Any]:
    done = run(jurybox, *arguments, data=data)
    assert (done.returncode, done.stderr) == (0, b"")
    answer: dict[str, Any] = json.loads(done.stdout)
    assert list(answer) == KEYS
    return answer


def lines(data: bytes, judge: str | None = None, count: int | None = None) -> list[dict[str, Any]]:
    reader = Reader(load_judge(judge, ROOT)) if judge else None
    out = b"".join(read_lines(io.BytesIO(data), ReplyDefaults(reader, count)))
    return [json.loads(line) for line in out.splitlines()]


def scored(verdict: dict[str, Any], scores: dict[str, float] | None) -> dict[str, Any]:
    return dict(zip(KEYS, ["scored", verdict, scores, "strict", None, []], strict=True))


@pytest.mark.parametrize(
    ("arguments", "reply", "verdict", "scores"),
    [
        (["yes-no"], "no", {"correct": False}, {"correct": 0.0}),
        (["score-0-5"], "4", {"scores": [4]}, {"score": 4.0}),
        (["score-0-5", "--count", "3"], "4,0,5", {"scores": [4, 0, 5]}, None),
        (["correct-and-score"], '{"correct": true, "score": 3}', {"correct": True, "score": 3}, None),
        (["choice-ab"], "B", {"choice": "B"}, {"choice": 0.0}),
    ],
)
def test_a_verdict(
    jurybox: Path, arguments: list[str], reply: str, verdict: dict[str, Any], scores: dict[str, float] | None
) -> None:
    if arguments[0] == "correct-and-score":
        scores = {"correct": 1.0, "score": 3.0}
    assert one(jurybox, "--judge", *arguments, data=reply.encode()) == scored(verdict, scores)
    # The shell's own line break is no part of the reply.
    assert one(jurybox, "--judge", *arguments, data=reply.encode() + b"\n") == scored(verdict, scores)


def test_no_verdict(jurybox: Path) -> None:
    empty: dict[str, Any] = {"verdict": None, "scores": None, "stage": None, "notes": []}
    cut = one(jurybox, "--judge", "yes-no", "--finish-reason", "length", data=b"Yes, becau")
    assert cut == {"state": "malformed", "reason": "truncated", **empty}
    refused = one(jurybox, "--judge", "yes-no", "--finish-reason", "content_filter", data=b"yes")
    assert refused == {"state": "refused", "reason": "content_filter", **empty}
    for data in (b"", b"\0", b"\xff\xfeyes", b"yes\0no", "\u2028".encode()):
        assert one(jurybox, "--judge", "yes-no", data=data)["state"] == "malformed"


def test_a_judge_by_its_path(jurybox: Path, tmp_path: Path) -> None:
    source = (ROOT / "judges" / "library" / "yes-no.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.python.yaml"
    path.write_text(source.replace("name: yes-no", "name: mine"), encoding="utf-8")
    assert one(jurybox, "--judge", str(path), data=b"yes")["verdict"] == {"correct": True}
    assert lines(json.dumps({"text": "yes", "judge": str(path)}).encode())[0]["verdict"] == {"correct": True}


def test_what_a_verdict_is_worth_is_open_where_that_takes_the_item() -> None:
    reply = {
        "relevance_explanation": "r", "all_relevant_sentence_keys": ["0a"], "overall_supported_explanation": "o",
        "overall_supported": True, "sentence_support_information": [
            {"sentence_key": "0a", "is_supported": True, "explanation": "e"}], "all_utilized_sentence_keys": ["0a"],
    }  # fmt: skip
    (answer,) = lines(json.dumps({"text": json.dumps(reply), "judge": "ragbench"}).encode())
    assert (answer["state"], answer["scores"]) == ("scored", None)
    assert answer["verdict"]["overall_supported"] is True


CODE = """
from judges import Judge, Reply, parse_judge

class Mine(Judge):
    def read(self, reply, count=1):
        if "boom" in reply.text:
            raise KeyError("boom")
        return super().read(Reply(reply.text.replace("ja", "yes")), count)

judge = parse_judge({"name": "mine", "reads": {"kind": "yesno"}, "route": [{"template": "t"}],
                     "templates": {"t": "{response}"}}, "here", Mine)
"""


def test_a_judge_in_python_is_named_on_the_command_line_alone(jurybox: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(CODE, encoding="utf-8")
    assert one(jurybox, "--judge", f"{path}:judge", data=b"ja")["verdict"] == {"correct": True}
    done = run(jurybox, "--judge", f"{path}:judge", data=b"boom")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"judge 'mine': its code cannot read this reply: KeyError: 'boom'" in done.stderr
    (answer,) = lines(json.dumps({"text": "ja", "judge": f"{path}:judge"}).encode())
    assert answer["state"] == "error"
    assert "is Python: only --judge may name it" in answer["reason"]
    rows = b'{"text": "boom"}\n{"text": "ja"}\n{"text": "yes", "judge": "yes-no"}\n'
    states = [answer["state"] for answer in lines(rows, f"{path}:judge")]
    assert states == ["error", "scored", "scored"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--judge NAME must say who reads the reply"),
        (["--judge", "yesno"], "unknown judge 'yesno'; did you mean 'yes-no'?"),
        (["--judge", "yesno", "--jsonl"], "unknown judge 'yesno'; did you mean 'yes-no'?"),
        (["--judge", "no/such.yaml"], "no/such.yaml: cannot be read"),
        (["--judge", "score-0-5", "--count", "0"], "--count"),
        (["--judge", "score-0-5", "--count", "51"], "count must be 1 to 50"),
        (["--judge", "score-0-5", "--count", "two"], "--count"),
        (["--jsonl", "--count", "-1"], "--count"),
        (["--judge", "yes-no", "--count", "2"], "yes-no reads one verdict"),
        (["--judge", "yes-no", "reply.txt"], "reply.txt"),
    ],
)
def test_a_call_that_is_wrong(jurybox: Path, arguments: list[str], said: str) -> None:
    done = run(jurybox, *arguments, data=b"yes")
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


BAD = [
    (b"", "is empty"),
    (b"   ", "is empty"),
    (b"yes", "is not JSON"),
    (b'{"text": "yes"', "is not JSON"),
    (b'"yes"', "is no JSON object"),
    (b'{"text": "\xff"}', "is not JSON"),
    (b'{"text": "a\x00b"}', "is not JSON"),
    (b'{"text": NaN, "x": "\\ud800"}', "text must be a string or null"),
    (b"{}", "text is missing"),
    (b'{"text": true}', "text must be a string or null"),
    (b'{"text": "yes", "judge": "yesno"}', "unknown judge 'yesno'; did you mean 'yes-no'?"),
    (b'{"text": "yes", "judge": 3}', "judge must be a name or a path"),
    (b'{"text": "yes", "judge": "no.yaml"}', "no.yaml: cannot be read"),
    (b'{"text": "yes", "count": 2}', "yes-no reads one verdict"),
    (b'{"text": "4", "judge": "score-0-5", "count": 0}', "count must be 1 to 50"),
    (b'{"text": "4", "judge": "score-0-5", "count": true}', "count must be a whole number"),
    (b'{"text": "4", "judge": "score-0-5", "count": 1.0}', "count must be a whole number"),
    (b'{"text": "yes", "finish_reason": 1}', "finish_reason must be a string or null"),
    (b'{"text": "yes", "refusal": []}', "refusal must be a string or null"),
    (b"[" * 100_000, "is not JSON"),
    (b'{"x": "\\u0041", "y": ' + b"[" * 100_000, "is not JSON"),
]


def test_a_bad_line_is_answered_in_its_place() -> None:
    good = b'{"text": "yes"}'
    found = lines(b"\n".join(part for bad, _ in BAD for part in (bad, good)), "yes-no")
    assert len(found) == 2 * len(BAD)
    for number, (answer, (line, said)) in enumerate(zip(found[::2], BAD, strict=True)):
        assert list(answer) == KEYS
        assert answer["state"] == "error", line[:80]
        assert answer["reason"].startswith(f"line {2 * number + 1}: ")
        assert said in answer["reason"]
        assert [answer[name] for name in ("verdict", "scores", "stage", "notes")] == [None, None, None, []]
    assert {answer["state"] for answer in found[1::2]} == {"scored"}


def test_lines_say_all_that_a_reply_has(jurybox: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "yes", "judge": "yes-no", "id": 7},
        {"text": None},
        {"text": "", "reasoning": "I think it is right"},
        {"text": "no", "refusal": "I cannot judge this"},
        {"text": "1,2", "judge": "score-0-5"},
        {"text": "1,2,3", "judge": "score-0-5", "count": 3},
        {"text": "yes", "finish_reason": None},
        {"text": "yes \ud800", "judge": "choice-ab"},
    ]
    data = b"\xef\xbb\xbf" + "\r\n".join(json.dumps(row) for row in rows).encode()
    done = run(jurybox, "--jsonl", "--judge", "yes-no", "--count", "2", data=data)
    assert (done.returncode, done.stderr) == (0, b"")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(answer["state"], answer["reason"]) for answer in found] == [
        ("scored", None), ("malformed", "empty"), ("malformed", "nothing_after_reasoning"), ("refused", "model"),
        ("scored", None), ("scored", None), ("scored", None), ("malformed", "no_verdict"),
    ]  # fmt: skip
    # --judge is for the lines that name none, --count for those whose judge reads lists and that name no count.
    assert found[4]["verdict"] == {"scores": [1, 2]}
    assert found[5]["verdict"] == {"scores": [1, 2, 3]}


def test_each_line_is_answered_as_it_comes(jurybox: Path) -> None:
    with subprocess.Popen(
        [jurybox, "read", "--jsonl", "--judge", "yes-no"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        for word, verdict in (("yes", True), ("no", False)):
            process.stdin.write(json.dumps({"text": word}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["verdict"] == {"correct": verdict}
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(timeout=30) == 0


def test_a_reader_that_has_had_enough(jurybox: Path) -> None:
    data = b'{"text": "yes"}\n' * 100_000
    with subprocess.Popen(
        f'"{jurybox}" read --jsonl --judge yes-no | head -n 1', shell=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        out, said = process.communicate(data, timeout=60)
    assert json.loads(out)["state"] == "scored"
    assert said == b""


def test_a_line_may_say_which_response_was_judged() -> None:
    row = {"text": "Answer: yes\nno"}
    data = b"\n".join(json.dumps(each).encode() for each in (row | {"response": "Answer: yes"}, row))
    quoted, alone = lines(data, "yes-no")
    assert (quoted["reason"], alone["reason"]) == ("no_verdict", "conflict"), "a line of the response is no verdict"


class Pieces(io.RawIOBase):
    """Bytes that come a few at a time."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = io.BytesIO(data)
        self._sizes = sizes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._data.read(min(self._sizes.pop() if self._sizes else len(buffer), len(buffer)))
        buffer[: len(data)] = data
        return len(data)


@given(st.lists(st.sampled_from(['{"text": "yes"}', '{"text": "no"}', "", "{", "é"])), st.lists(st.integers(1, 9)))
def test_one_line_for_each_however_they_come(rows: list[str], sizes: list[int]) -> None:
    data = "\n".join(rows).encode()
    usual = ReplyDefaults(Reader(load_judge("yes-no", ROOT)))
    found = b"".join(read_lines(io.BufferedReader(Pieces(data, sizes)), usual)).splitlines()
    expected = rows[:-1] if rows and rows[-1] == "" else rows
    assert len(found) == len(expected)
    for row, line in zip(expected, found, strict=True):
        verdict = {'{"text": "yes"}': {"correct": True}, '{"text": "no"}': {"correct": False}}.get(row)
        assert json.loads(line)["verdict"] == verdict


def test_a_line_that_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "MAX_RECORD_BYTES", 1 << 20)
    good, long = b'{"text": "yes"}\n', b'{"text": "' + b"x" * (1 << 20) + b'"}\n'
    found = lines(good + long + good + long + long, "yes-no")
    assert [answer["state"] for answer in found] == ["scored", "error", "scored", "error", "error"]
    assert found[1]["reason"] == "line 2: is longer than 1 MiB"


def test_the_corpus_in_one_call(jurybox: Path) -> None:
    if not CORPUS.exists():
        pytest.skip(f"{CORPUS} is not there")
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").strip().split("\n")]
    asked = [
        {"text": row["text"], "judge": KINDS[row["kind"]], "count": row["n"], "finish_reason": row["finish"]}
        for row in rows
    ]
    done = run(jurybox, "--jsonl", data="\n".join(json.dumps(row) for row in asked).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(rows)
    wrong = [(row["id"], answer) for row, answer in zip(rows, answers, strict=True) if not _right(row, answer)]
    assert wrong == []
    readable = [
        answer["state"] == "scored"
        for row, answer in zip(rows, answers, strict=True)
        if row["expect"] != "malformed" and not row["soft"]
    ]
    assert sum(readable) >= 0.95 * len(readable)
    # A reply on its own is read as it is in a line.
    for row, answer in list(zip(rows, answers, strict=True))[::20]:
        if row["n"] != 0:
            count = ["--count", str(row["n"])] if row["n"] else []
            asked_alone = ["--judge", KINDS[row["kind"]], "--finish-reason", row["finish"], *count]
            assert one(jurybox, *asked_alone, data=row["text"].encode() + b"\n") == answer


def _right(row: dict[str, Any], answer: dict[str, Any]) -> bool:
    """No verdict, or the corpus's own."""
    if answer["state"] != "scored":
        return answer["verdict"] is None and answer["state"] in (
            ("error",) if row["n"] == 0 else ("malformed", "refused")
        )
    expected = {"yesno": {"correct": row["expect"] == "yes"}, "scores": {"scores": row["expect"]}}
    return bool(row["expect"] != "malformed" and answer["verdict"] == expected.get(row["kind"], row["expect"]))


def test_thousands_of_clean_replies_are_read_just_as_they_stand() -> None:
    clean: dict[str, dict[str, Any]] = {
        "yes-no": {"text": "yes"},
        "choice-ab": {"text": "A"},
        "score-0-5": {"text": "1,2,3,4,5,0,1,2,3,4", "count": 10},
        "correct-and-score": {"text": '{"reason": "' + "as it should be " * 20 + '", "correct": true, "score": 4}'},
    }  # fmt: skip
    for judge, row in clean.items():
        data = (json.dumps({**row, "judge": judge}).encode() + b"\n") * 5_000
        answers = b"".join(read_lines(io.BytesIO(data), ReplyDefaults()))
        assert answers.count(b'"stage":"strict"') == 5_000, judge


def test_it_starts_without_what_only_runs_need() -> None:
    script = (
        "import sys; from runner.cli import app; app(['read', '--judge', 'yes-no'], standalone_mode=False);"
        "sys.stderr.write(' '.join(sorted({'ray', 'openai', 'polars', 'pyarrow', 'numpy'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=b"yes", cwd=ROOT, capture_output=True, timeout=60)
    assert json.loads(done.stdout)["verdict"] == {"correct": True}
    assert done.stderr == b""
