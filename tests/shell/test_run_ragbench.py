"""RAGBench's rows through the command: what the endpoint receives, and the stored scores out of recorded keys."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ragbench_rows import Row, prompt_of, reply_of, rows_of, scores_of
from runs import ROOT, Finished, Workspace, judging, log_of

from runner.simulate import Simulation, running

CONFIG = ROOT / "configs" / "ragbench.yaml"
SAMPLES = ROOT / "configs" / "samples" / "ragbench.jsonl"


def judge(work: Workspace, rows: list[Row], replies: list[Row], *overrides: str, status: int = 0) -> Finished:
    """Judge the rows with the shipped config by an endpoint that replays the replies; faults strike on the way."""
    write_lines(work.folder / "rows.jsonl", rows)
    recorded = zip(rows, replies, strict=True)
    write_lines(
        work.folder / "replay.jsonl",
        [{"question": row["question"], "response": row["response"], "reply": reply} for row, reply in recorded],
    )
    simulation = Simulation(
        replay=work.folder / "replay.jsonl", log=work.folder / "log", throttled=0.1, retry_after_s=0.01, malformed=0.2
    )
    work.environment["OPENAI_API_KEY"] = "sk-only-for-this-machine"
    with running(simulation) as url:
        settings = [f"items.path={work.folder}/rows.jsonl", f"models.0.base_url={url}", *overrides]
        sets = [part for setting in settings for part in ("--set", setting)]
        done = work.command("run", str(CONFIG), "--local", "--yes", "--json", "--quiet", "--out", str(work.out), *sets)
    assert done.status == status, done.stderr
    return done


def write_lines(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def exported(work: Workspace) -> dict[str, Row]:
    """Item → its exported row."""
    done = work.command("export", str(work.out), "--format", "jsonl")
    assert done.status == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({row["item_id"] for row in rows}) == len(rows)
    return {row["item_id"]: row for row in rows}


def notes(row: Row) -> list[str]:
    """What was odd about a reply; a fault on the way may have made it the second one."""
    return [note for note in row["notes"] if not note.startswith("read:")]


def test_the_published_rows(data: Path, tmp_path: Path) -> None:
    rows = rows_of(data)
    work = Workspace(tmp_path)
    report = judge(work, rows, [reply_of(row) for row in rows]).report

    found = exported(work)
    assert {item: row["scores"] for item, row in found.items()} == {row["id"]: scores_of(row) for row in rows}
    for row in rows:
        published, verdict = found[row["id"]], reply_of(row)
        assert published["state"] == "scored"
        assert (published["system"], published["item_group"]) == (row["generation_model_name"], row["dataset_name"])
        for name in ("all_relevant_sentence_keys", "sentence_support_information", "all_utilized_sentence_keys"):
            assert published["verdict"][name] == verdict[name]

    bodies = [json.loads(entry["body"]) for entry in judging(log_of(work.folder / "log"))]
    for body in bodies:
        schema: Any = body["response_format"]["json_schema"]["schema"]
        assert schema["required"] == list(reply_of(rows[0]))
        assert schema["additionalProperties"] is False
        assert (body["model"], body["temperature"], body["max_tokens"]) == ("gpt-4o-2024-08-06", 0, 4096)
    received = Counter(json.dumps(body["messages"]) for body in bodies)
    assert received.keys() == {json.dumps([{"role": "user", "content": prompt_of(row)}]) for row in rows}

    [result] = report["results"]
    assert (result["planned"], result["scored"]) == (20, 20)


def test_the_shipped_sample_is_scored_as_its_labels_say(tmp_path: Path) -> None:
    rows: list[Row] = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    unsaid = {"relevance_explanation": "", "overall_supported_explanation": ""}
    labelled = [
        row | unsaid | {"unsupported_response_sentence_keys": [] if row["adherence_score"] else ["b"]} for row in rows
    ]
    work = Workspace(tmp_path)
    judge(work, rows, [reply_of(row) for row in labelled])
    found = exported(work)
    assert {item: row["scores"] for item, row in found.items()} == {row["id"]: scores_of(row) for row in rows}
    assert notes(found["ferry-2"]) == ["nothing_relevant"]


def test_odd_keys_leave_notes_and_the_example_repeated_no_score(tmp_path: Path) -> None:
    rows: list[Row] = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()[:3]]
    replies = [
        {
            "relevance_explanation": "",
            "all_relevant_sentence_keys": keys,
            "overall_supported_explanation": "",
            "overall_supported": True,
            "sentence_support_information": [{"sentence_key": keys[0], "is_supported": True, "explanation": ""}],
            "all_utilized_sentence_keys": keys[:1],
        }
        for keys in (["0A.", "0b"], ["0c", "9z", "9z"], ["D1_S1", "D1_S3"])
    ]
    work = Workspace(tmp_path)
    # Two of seven keys are no sentences of their items: whatever is left unscored, the shares mean little.
    done = judge(work, rows, replies, "max_unscored=1.0", status=3)
    assert "2 of 7 sentence keys it named are unknown" in done.report["notices"][1]
    assert done.report["notices"][0].startswith("SIMULATED")
    found = exported(work)
    assert notes(found["lighthouse-1"]) == ["key_case:3", "key_dot:3", "support_missing:1"]
    assert found["lighthouse-1"]["scores"] == pytest.approx(
        {"relevance": 2 / 6, "utilization": 1 / 6, "completeness": 0.5, "adherence": 1.0}
    )
    assert notes(found["lighthouse-2"]) == ["unknown_keys:2", "duplicate_keys:1", "support_missing:1"]
    assert found["lighthouse-2"]["scores"]["relevance"] == pytest.approx(0.5)
    assert (found["ferry-1"]["state"], found["ferry-1"]["reason"]) == ("malformed", "schema_echo")
    assert found["ferry-1"]["scores"] is None


def test_bad_documents_are_told_before_anything_is_paid(tmp_path: Path) -> None:
    rows: list[Row] = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    rows[1]["documents_sentences"][1][0][0] = "0a"
    rows[3]["documents_sentences"] = "Bicycles travel free."
    work = Workspace(tmp_path)
    write_lines(work.folder / "rows.jsonl", rows)
    work.environment["OPENAI_API_KEY"] = "sk-only-for-this-machine"
    with running(Simulation(log=work.folder / "log")) as url:
        settings = [f"items.path={work.folder}/rows.jsonl", f"models.0.base_url={url}"]
        sets = [part for setting in settings for part in ("--set", setting)]
        done = work.command("run", str(CONFIG), "--local", "--yes", "--out", str(work.out), *sets)
    assert done.status == 2
    told = "judge 'ragbench': documents: "
    assert f"rows.jsonl:2: lighthouse-2: {told}[1][0]: the key '0a' is that of [0][0] already" in done.stderr
    assert f"rows.jsonl:4: ferry-2: {told}must be a list of sentences" in done.stderr
    assert log_of(work.folder / "log") == []
