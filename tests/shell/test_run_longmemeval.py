"""The 500 real answers of LongMemEval: what the endpoint receives, and the published numbers out of recorded labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from runs import ROOT, Finished, Workspace, judging, log_of

from runner.simulate import Simulation, running

CONFIG = ROOT / "configs" / "longmemeval.yaml"
PROMPTS = ROOT.parent / "shared" / "prompts"
FAULTS: dict[str, Any] = {
    "throttled": 0.05,
    "retry_after_s": 0.01,
    "server_errors": 0.03,
    "resets": 0.02,
    "malformed": 0.10,
}
PUBLISHED = {
    "single-session-user": (0.9429, 70),
    "single-session-assistant": (0.9643, 56),
    "single-session-preference": (0.4000, 30),
    "multi-session": (0.6692, 133),
    "temporal-reasoning": (0.5940, 133),
    "knowledge-update": (0.7949, 78),
}
STRANGE = [
    {
        "question_id": f"strange-{number}",
        "question_type": "adversarial",
        "question": f"Which {{answer}} is number {number}?",
        "answer": number,
        "hypothesis": f"{{question}} {{0.__class__}} number {number}\n\nQuestion: none",
        "label": True,
    }
    for number in range(10)
]

Row = dict[str, Any]


@pytest.fixture
def rows(data: Path) -> list[Row]:
    """Question, answer, response and recorded label, joined by other code than the program's."""

    def read(name: str) -> list[Row]:
        return [json.loads(line) for line in (data / "longmemeval" / name).read_text("utf-8").splitlines()]

    questions = {row["question_id"]: row for row in read("questions.jsonl")}
    return [
        {
            **{key: questions[row["question_id"]][key] for key in ("question_type", "question", "answer")},
            "question_id": row["question_id"],
            "hypothesis": row["hypothesis"],
            "label": row["autoeval_label"]["label"],
        }
        for row in read("memory_agents.eval-results-gpt-4o.jsonl")
    ]


def prompt(judge: str, template: str, places: dict[str, Any]) -> str:
    """A published prompt, filled in. Split before anything is put in: what an answer says is not filled in again."""
    path = PROMPTS / judge / f"{template}.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    parts = [path.read_bytes().decode()]
    for place in places:
        parts = [piece for part in parts for piece in _split(part, place)]
    return "".join(str(places[part[1:]]) if part.startswith("\0") else part for part in parts)


def _split(text: str, place: str) -> list[str]:
    pieces = text.split("{" + place + "}")
    return [piece for pair in zip(pieces, ["\0" + place] * len(pieces), strict=True) for piece in pair][:-1]


def paper_body(row: Row) -> Row:
    kind = row["question_type"]
    template, place = {
        "single-session-preference": ("single-session-preference", "rubric"),
        "temporal-reasoning": ("temporal-reasoning", "answer"),
        "knowledge-update": ("knowledge-update", "answer"),
    }.get(kind, ("base", "answer"))
    if "_abs" in row["question_id"]:
        template, place = "abstention", "explanation"
    places = {"question": row["question"], place: row["answer"], "response": row["hypothesis"]}
    return {
        "model": "gpt-4o-2024-08-06",
        "messages": [{"role": "user", "content": prompt("longmemeval-paper", template, places)}],
        "temperature": 0,
        "max_tokens": 10,
    }


def hindsight_body(row: Row) -> Row:
    group: str = row["question_type"]
    template = {
        "single-session-user": "base",
        "single-session-assistant": "base",
        "multi-session": "base",
        "adversarial": "default",
    }.get(group, group)
    places = {"question": row["question"], "correct_answer": row["answer"], "predicted_answer": row["hypothesis"]}
    return {
        "model": "gpt-4o-2024-08-06",
        "messages": [{"role": "user", "content": prompt("longmemeval-hindsight", template, places)}],
        "temperature": 0,
        "max_tokens": 4096,
    }


def judge(work: Workspace, rows: Iterable[Row], reply: Callable[[Row], Any], *overrides: str) -> Finished:
    """Judge the rows with the shipped config by an endpoint that replays the labels, with faults; then `report`."""
    rows = list(rows)
    write_lines(work.folder / "hypotheses.jsonl", ({k: r[k] for k in ("question_id", "hypothesis")} for r in rows))
    questions = ("question_id", "question_type", "question", "answer")
    write_lines(work.folder / "questions.jsonl", ({k: r[k] for k in questions} for r in rows))
    replay = (
        {"question": r["question"], "response": r["hypothesis"], "reference": r["answer"], "reply": reply(r)}
        for r in rows
    )
    write_lines(work.folder / "replay.jsonl", replay)
    simulation = Simulation(replay=work.folder / "replay.jsonl", log=work.folder / "log", **FAULTS)
    work.environment["OPENAI_API_KEY"] = "sk-only-for-this-machine"
    with running(simulation) as url:
        settings = [
            f"items.path={work.folder}/hypotheses.jsonl",
            f"items.join.path={work.folder}/questions.jsonl",
            "items.labels={}",
            f"models.0.base_url={url}",
            # Hindsight reserves 4,096 tokens a reply: at the shipped limit that is seven requests a second.
            "models.0.limits.tpm=100000000",
            *overrides,
        ]
        sets = [part for setting in settings for part in ("--set", setting)]
        done = work.command("run", str(CONFIG), "--local", "--yes", "--quiet", "--out", str(work.out), *sets)
    assert done.status == 0, done.stderr
    work.assert_each_trial_judged_once(len(rows))
    return work.command("report", str(work.out), "--json")


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def answered(work: Workspace) -> tuple[Counter[str], set[str]]:
    """Bodies by how often they got a sound reply, and all bodies; each as JSON with sorted keys.

    Whoever was cut is asked again with twice the tokens, as after a block of reasoning that is left open, which some of
    the malformed replies are; here the bodies have what they had at first.
    """
    log = judging(log_of(work.folder / "log"))
    bodies, allowed = [], dict[str, tuple[int, set[int]]]()
    for entry in log:
        body = json.loads(entry["body"])
        asked = json.dumps(body["messages"])
        now = body["max_tokens"]
        first, due = allowed.get(asked, (now, {now}))
        assert now in due
        allowed[asked] = first, {"truncated": {2 * now}, "malformed": {now, 2 * now}}.get(entry["fault"], {now})
        bodies.append(canonical(body | {"max_tokens": first}))
    sound = Counter(
        body for body, entry in zip(bodies, log, strict=True) if entry["status"] == 200 and not entry["fault"]
    )
    return sound, set(bodies)


def bodies_of(expected: Iterable[Row]) -> Counter[str]:
    return Counter(canonical(body) for body in expected)


def canonical(body: Row) -> str:
    """A body as JSON with sorted keys; temperature 0 and 0.0 are the same number."""
    return json.dumps(body | {"temperature": float(body["temperature"])}, sort_keys=True)


def accuracies(parts: list[Row], name: str) -> dict[str, tuple[float, int]]:
    found = {part[name]: part["scores"]["correct"]["share"] for part in parts}
    return {group: (round(rate["value"], 4), rate["n"]) for group, rate in found.items()}


def test_the_official_judge(rows: list[Row], tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    report = judge(work, rows, lambda row: "yes" if row["label"] else "no").report

    sound, received = answered(work)
    assert sound == bodies_of(paper_body(row) for row in rows)
    assert received == sound.keys()

    [result] = report["results"]
    assert (result["planned"], result["scored"]) == (500, 500)
    assert round(result["scores"]["correct"]["share"]["value"], 4) == 0.7240
    assert round(result["macro"]["correct"]["value"], 4) == 0.7275
    assert accuracies(result["slices"], "slice") == {"abstention": (0.7000, 30)}
    assert accuracies(result["groups"], "group") == PUBLISHED


def test_the_judge_of_hindsight(rows: list[Row], tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    rows = rows + STRANGE
    report = judge(work, rows, lambda row: bool(row["label"]), "judges=[longmemeval-hindsight]").report

    sound, received = answered(work)
    assert received == sound.keys()
    plain: Counter[str] = Counter()
    for text, count in sound.items():
        body = json.loads(text)
        wanted = body.pop("response_format")
        assert wanted["type"] == "json_schema"
        assert wanted["json_schema"]["schema"]["properties"].keys() == {"correct", "reasoning"}
        plain[canonical(body)] += count
    assert plain == bodies_of(hindsight_body(row) for row in rows)

    [result] = report["results"]
    assert (result["planned"], result["scored"]) == (510, 510)
    assert result["scores"]["correct"]["share"]["hits"] == 362 + len(STRANGE)
    assert accuracies(result["groups"], "group") == PUBLISHED | {"adversarial": (1.0, len(STRANGE))}
    assert accuracies(result["slices"], "slice") == {"abstention": (0.7000, 30)}
    assert any("no abstention prompt" in notice and "30 items" in notice for notice in report["notices"])
