"""`jurybox init` on small files and on the real ones: what it writes can be planned and run as it stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import ROOT, Workspace, items, stats

from runner.config import load_config
from runner.simulate import running


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def trials(work: Workspace, config: str) -> int:
    """How many trials `plan` sees in a config."""
    planned = work.command("plan", config, "--json")
    assert planned.status == 0, planned.stderr
    document = json.loads(planned.stdout)
    assert all(prompt["messages"][-1]["content"] for prompt in document["prompts"])
    return int(document["trials"])


def test_what_is_written_is_printed_and_runs_as_it_stands(work: Workspace) -> None:
    work.write_items([row | {"human_correct": True} for row in items(range(10))])
    done = work.command("init", "items.jsonl", "--to", "sub/mine.yaml")
    assert (done.status, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr
    (work.folder / "sub").mkdir()
    done = work.command("init", "items.jsonl", "--to", "sub/mine.yaml")
    assert (done.status, done.stdout) == (0, "sub/mine.yaml\n")
    assert "next: jurybox plan sub/mine.yaml" in done.stderr
    _, _, schema = (work.folder / "sub" / "mine.yaml").read_text(encoding="utf-8").splitlines()[0].partition("$schema=")
    assert (work.folder / "sub" / schema).read_text(encoding="utf-8") == work.command("schema", "config").stdout
    assert trials(work, "sub/mine.yaml") == 20
    with running() as url:
        endpoint = ("--set", f"models.0.base_url={url}", "--set", "models.0.api_key_env=null")
        judged = work.command("run", "sub/mine.yaml", "--local", "--json", "--quiet", *endpoint)
        assert stats(url)["requests"] == 20
    assert judged.status == 0, judged.stderr
    assert {result["system"] for result in judged.report["results"]} == {"atlas", "brook"}
    assert judged.report["agreement"]


def test_a_schema_of_another_version_is_left_alone_and_told(work: Workspace) -> None:
    work.write_items(items(range(2)))
    assert work.command("schema", "judge", "--to", "jurybox-config.schema.json").status == 0
    done = work.command("init", "items.jsonl")
    assert done.status == 0
    assert "`jurybox schema config --to jurybox-config.schema.json` writes it anew" in done.stderr
    assert work.command("schema", "config", "--to", "nowhere/x.json").status == 2


def test_a_file_that_exists_is_left_alone(work: Workspace) -> None:
    work.write_items(items(range(2)))
    existing = work.folder / "items.yaml"
    existing.write_text("mine", encoding="utf-8")
    done = work.command("init", "items.jsonl")
    assert (done.status, done.stdout) == (2, "")
    assert "items.yaml: exists already" in done.stderr
    assert existing.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing.jsonl",), "there is no file nothing.jsonl"),
        (("items.yaml",), "is a config already"),
        (("items.jsonl", "--on", "id"), "--on is the column"),
        (("items.jsonl", "--reference", "items.jsonl"), "could be id or"),
    ],
)
def test_what_cannot_be_looked_at_is_an_input_error(work: Workspace, arguments: tuple[str, ...], said: str) -> None:
    work.write_items(items(range(3), ["atlas"]))
    done = work.command("init", *arguments)
    assert (done.status, done.stdout) == (2, "")
    assert said in done.stderr
    assert not list(work.folder.glob("*.yaml"))


@pytest.mark.parametrize(
    ("file", "rows", "judge", "fields", "labels"),
    [
        (
            "human_labels/evouna_nq.jsonl",
            15_099,
            "yes-no",
            {"response": "model_answer", "reference": "gold_answer", "system": "model", "question_id": "question"},
            {"correct": "human_correct"},
        ),
        (
            "human_labels/nq301.jsonl",
            1_490,
            "yes-no",
            {"response": "model_answer", "reference": "gold_answers", "question_id": "id"},
            {"correct": "human"},
        ),
        (
            "ragbench/rows.jsonl",
            20,
            "ragbench",
            {"response": "response", "documents": "documents_sentences"},
            {
                "relevance": "relevance_score",
                "utilization": "utilization_score",
                "completeness": "completeness_score",
                "adherence": "adherence_score",
            },
        ),
        (
            "correctness/cognee_hotpot.jsonl",
            700,
            "yes-no",
            {"response": "answer", "reference": "golden_answer", "system": "_file"},
            {},
        ),
    ],
)
def test_real_files_can_be_planned_with_the_config_as_it_is_written(
    data: Path, work: Workspace, file: str, rows: int, judge: str, fields: dict[str, str], labels: dict[str, str]
) -> None:
    assert work.command("init", str(data / file), "--to", "real.yaml").status == 0
    config = load_config(work.folder / "real.yaml")
    assert config.judges[0].use == judge
    assert fields.items() <= config.items.fields.items()
    assert {name: label.field for name, label in config.items.labels.items()} == labels
    assert trials(work, "real.yaml") == rows


def test_longmemeval_answers_are_joined_with_their_questions(data: Path, work: Workspace) -> None:
    answers = str(data / "longmemeval" / "memory_agents.eval-results-gpt-4o.jsonl")
    alone = work.command("init", answers, "--to", "alone.yaml")
    assert alone.status == 0
    assert "no column looks like question or reference" in alone.stderr
    assert load_config(work.folder / "alone.yaml").items.fields["response"] == "hypothesis"
    questions = str(data / "longmemeval" / "questions.jsonl")
    assert work.command("init", answers, "--reference", questions, "--to", "joined.yaml").status == 0
    written = load_config(work.folder / "joined.yaml")
    assert [use.use for use in written.judges] == ["longmemeval-paper"]
    assert written.items.join is not None and written.items.join.on == "question_id"
    assert trials(work, "joined.yaml") == 500


def test_the_samples_of_the_project(work: Workspace) -> None:
    samples = ROOT / "configs" / "samples"
    assert work.command("init", str(samples / "answers.jsonl"), "--to", "answers.yaml").status == 0
    assert trials(work, "answers.yaml") == 60
    joined = ("--reference", str(samples / "questions.jsonl"), "--to", "joined.yaml")
    assert work.command("init", str(samples / "hypotheses.jsonl"), *joined).status == 0
    assert load_config(work.folder / "joined.yaml").judges[0].use == "longmemeval-paper"
    assert trials(work, "joined.yaml") == 14
