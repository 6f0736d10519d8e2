"""Results of other evaluations as items: what the two programs really write, and what is odd about it."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from stage_inputs import column, failure, fields, lines, rejects, staged

from judges import load_judge
from runner.config import parse_config
from runner.dataset import json_reader as jsonrows
from runner.dataset.column_profile import profile_columns
from runner.errors import ConfigError, InputError
from runner.items_config import Items
from runner.session.init_config import draft

EVALUATIONS = Path(__file__).resolve().parents[2] / "evaluations"
GENERATED = "samples_capgen_2026-11-21T09-26-16.482770.jsonl"
LIKELIHOODS = "samples_capmc_2026-11-21T09-26-16.482770.jsonl"

QUESTIONS = {
    "fr": "What is the capital of France?",
    "it": "And of Italy?",
    "turns": "User: Hello.\n\nAssistant: Hello. What is it?\n\nUser: The capital on this map?\n[image]",
    "7": "Which one is a capital?\n\nA) Lyon\nB) Paris",
    "broken": "What is broken?",
}
REFERENCES = {"fr": "Paris", "it": "Rome\nRoma", "turns": "Paris", "7": "B", "broken": "x"}


def log(*samples: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A log of inspect_ai, made by hand."""
    evaluated = {"task": "made", "model": "some/model", "config": {}, **spec}
    return {"version": 2, "status": "success", "eval": evaluated, "samples": list(samples)}


def sample(number: int | str = 1, **more: Any) -> dict[str, Any]:
    made = {"id": number, "epoch": 1, "input": "q", "target": "r", "output": {"completion": "a"}, "scores": {}}
    return made | more


def write_eval(path: Path, document: dict[str, Any], header: str = "header.json", **more: Any) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in document["samples"]:
            archive.writestr(f"samples/{entry['id']}_epoch_{entry['epoch']}.json", json.dumps(entry))
        archive.writestr(header, json.dumps({key: value for key, value in document.items() if key != "samples"}))
        for name, content in more.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("name", ["capitals.eval", "capitals.json"])
def test_a_log_of_inspect_gives_every_sample_of_every_epoch(tmp_path: Path, name: str) -> None:
    shutil.copy(EVALUATIONS / name, tmp_path)
    result = staged(
        tmp_path,
        path=name,
        fields={"group": "metadata.continent"},
        labels={"correct": {"field": "scores.includes.value", "map": {"C": True, "I": False}}},
    )
    assert set(column(result, "id")) == {f"capitals/{key}/{epoch}" for key in QUESTIONS for epoch in (1, 2)}
    assert (result.rows, result.rejects, result.duplicates) == (10, 0, 0)
    assert set(column(result, "system")) == {"mockllm/model"}
    assert result.coverage == {"mockllm/model": (5, 5)}
    # The samples that failed before there was an answer are items like any others.
    assert result.empty == {"mockllm/model": 2}
    labels = [json.loads(text) for text in column(result, "labels")]
    rows = zip(fields(result), column(result, "item_group"), labels, strict=True)
    for entry, group, label in rows:
        key = str(entry["sample_id"])
        assert entry["question"] == QUESTIONS[key]
        assert entry["reference"] == REFERENCES[key]
        answers = {"it": "Rome", "broken": ""}
        assert entry["response"] == answers.get(key, "It is Paris, I think.")
        assert entry.get("error") == ({"message": "RuntimeError('the sandbox is gone')"} if key == "broken" else None)
        assert (group, label) == ("Europe" if key == "fr" else None, label)
        expected = {} if key == "broken" else {"correct": key != "7"}
        assert label == expected
        assert not {"messages", "events", "events_data", "store", "output", "attachments"} & set(entry)


def test_both_layouts_of_a_log_say_the_same(tmp_path: Path) -> None:
    for name in ("capitals.eval", "capitals.json"):
        shutil.copy(EVALUATIONS / name, tmp_path)
    both = staged(tmp_path, path="capitals.*")
    assert (both.rows, both.duplicates) == (10, 10)


def test_what_the_config_names_of_a_transcript_is_kept(tmp_path: Path) -> None:
    shutil.copy(EVALUATIONS / "capitals.eval", tmp_path)
    result = staged(tmp_path, path="capitals.eval", fields={"turns": "messages", "asked": "input"})
    assert [len(entry["turns"]) for entry in fields(result)[:2]] == [2, 1]
    assert isinstance(fields(result)[4]["asked"], list)


def test_a_log_is_known_by_its_format_where_its_name_does_not_tell(tmp_path: Path) -> None:
    shutil.copy(EVALUATIONS / "capitals.eval", tmp_path / "a.zip")
    (tmp_path / "b.txt").write_text(json.dumps(log(sample())), encoding="utf-8")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(json.dumps(log(sample(2)), indent=2).encode()))
    result = staged(tmp_path, path=["a.zip", "b.txt", "c.txt.gz"], format="inspect")
    assert column(result, "id")[10:] == ["made/1", "made/2"]
    lines(tmp_path / "d.json", [{"version": 1, "status": "x", "id": "i", "response": "a", "question": "", "eval": {}}])
    # One object a line that merely resembles a log's start is a row.
    assert "there is no column 'reference'" in failure(tmp_path, path="d.json")


def test_ids_tell_epochs_and_tasks_apart(tmp_path: Path) -> None:
    write_eval(tmp_path / "a.eval", log(sample(1), sample(1, epoch=2), config={"epochs": 2}))
    write_eval(tmp_path / "b.eval", log(sample(1), task="other"))
    result = staged(tmp_path, path="*.eval")
    assert column(result, "id") == ["made/1/1", "made/1/2", "other/1"]
    assert column(result, "question_id") == ["made/1", "made/1", "other/1"]
    write_eval(tmp_path / "c.eval", log(sample(1, output={"completion": "b"}), task="other"))
    message = failure(tmp_path, path="*.eval")
    assert "c.eval:1: other/1: the same system and id stand at" in message
    result = staged(tmp_path, systems={"first": "b.eval", "second": "c.eval"})
    assert column(result, "system") == ["first", "second"]


ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "older logs have no completion": (
        {"output": {"choices": [{"message": {"role": "assistant", "content": "a"}}]}},
        "a",
    ),
    "parts": (
        {
            "output": {
                "completion": "",
                "choices": [
                    {
                        "message": {
                            "content": [
                                {"type": "reasoning", "reasoning": "secret"},
                                {"type": "text", "text": "a"},
                                {"type": "text", "text": "b"},
                            ]
                        }
                    }
                ],
            }
        },
        "a\nb",
    ),
    "no choices": ({"output": {"choices": []}}, ""),
    "no output": ({"output": None}, ""),
    "null": ({"output": {"completion": None, "choices": None}}, ""),
    "attached": ({"output": {"completion": "attachment://f1"}, "attachments": {"f1": "long"}}, "long"),
    "not attached": ({"output": {"completion": "attachment://f2"}, "attachments": {"f1": "long"}}, "attachment://f2"),
    "an error after the answer": ({"error": {"message": "the scorer failed", "traceback": "…"}}, "a"),
}


@pytest.mark.parametrize(("more", "response"), ANSWERS.values(), ids=ANSWERS)
def test_the_response_is_the_completion_or_empty(tmp_path: Path, more: dict[str, Any], response: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(log(sample(**more))), encoding="utf-8")
    (entry,) = fields(staged(tmp_path, path="a.json"))
    assert entry["response"] == response


def test_a_score_that_is_no_number_is_no_label(tmp_path: Path) -> None:
    scored = sample(scores={"graded": {"value": float("nan")}})
    (tmp_path / "a.json").write_text(json.dumps(log(scored)), encoding="utf-8")
    write_eval(tmp_path / "b.eval", log(scored, task="other"))
    result = staged(
        tmp_path, path=["a.json", "b.eval"], labels={"g": {"field": "scores.graded.value", "of": "correct"}}
    )
    assert column(result, "labels") == ["{}", "{}"]


def test_a_log_that_is_still_written_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    write_eval(tmp_path / "a.eval", log(sample(1), sample(2)), header="_journal/start.json")
    assert column(staged(tmp_path, path="a.eval"), "id") == ["made/1", "made/2"]


def test_damaged_logs_are_told_with_their_place(tmp_path: Path) -> None:
    whole = (EVALUATIONS / "capitals.eval").read_bytes()
    (tmp_path / "a.eval").write_bytes(whole[: len(whole) // 2])
    assert "a.eval:1: damaged log: File is not a zip file" in failure(tmp_path, path="a.eval")
    with zipfile.ZipFile(EVALUATIONS / "capitals.eval") as archive:
        places = {info.filename: info.header_offset for info in archive.infolist()}
    spoilt = bytearray(whole)
    at = places["samples/fr_epoch_1.json"] + 300
    spoilt[at : at + 8] = bytes(8)
    (tmp_path / "b.eval").write_bytes(spoilt)
    assert "b.eval:3: samples/fr_epoch_1.json is damaged" in failure(tmp_path, path="b.eval")
    result = staged(tmp_path, path="b.eval", on_bad="skip")
    assert (result.rows, result.rejects) == (9, 1)
    text = (EVALUATIONS / "capitals.json").read_text(encoding="utf-8")
    (tmp_path / "c.json").write_text(text[: text.index('"id": "it"')], encoding="utf-8")
    result = staged(tmp_path, path="c.json", on_bad="skip")
    assert result.rows == 3
    assert [(name, problem[:9]) for name, _, _, problem in rejects(result)] == [("c.json", "not JSON:")]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": [sample()]},
            "which model was evaluated",
        ),
        ({"version": 2, "status": "success", "eval": {"model": "m"}}, "the object has no array 'samples'"),
        ({"samples": [sample()]}, "which model was evaluated"),
        ([sample()], "the file holds no object"),
        (log({"epoch": 1}), "it has no id"),
        (log(), "no item is left"),
    ],
)
def test_what_is_no_log_is_told(tmp_path: Path, document: Any, problem: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document), encoding="utf-8")
    assert problem in failure(tmp_path, path="a.json", format="inspect")


def test_a_zip_that_is_no_log_is_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("anything.txt", "x")
    assert "a.eval:1: no log of inspect_ai: the zip holds no header.json" in failure(tmp_path, path="a.eval")
    (tmp_path / "b.eval").write_text("x", encoding="utf-8")
    assert "b.eval:1: not JSON: the file holds no object" in failure(tmp_path, path="b.eval")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    before=st.dictionaries(st.text().filter(lambda name: name != "samples"), VALUES, max_size=4),
    rows=st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=4),
    chunk=st.integers(1, 40),
    indent=st.sampled_from([None, 0, 3]),
)
def test_the_samples_of_an_object_read_as_json_does_however_it_is_cut(
    before: dict[str, Any], rows: list[dict[str, Any]], chunk: int, indent: int | None
) -> None:
    text = json.dumps({**before, "samples": rows, "after": 1}, indent=indent)
    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonrows, "CHUNK", chunk)
        read = [row for _, row in jsonrows.json_member(io.BufferedReader(io.BytesIO(text.encode())), "samples", found)]
    assert (json.dumps(read), json.dumps(found)) == (json.dumps(rows), json.dumps(before))


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    shutil.copytree(EVALUATIONS / "lm-eval", tmp_path / "model")
    return tmp_path


def test_samples_of_lm_eval_give_a_row_for_each_document_and_filter(harness: Path) -> None:
    result = staged(
        harness,
        path=f"model/{GENERATED}",
        fields={"group": "task", "answer": "doc.answer"},
        labels={"exact": {"field": "exact_match", "type": "ordinal", "of": "correct"}},
    )
    filters = ("strict", "flexible")
    assert column(result, "id") == [f"capgen/{number}/{name}" for name in filters for number in (0, 1)]
    assert column(result, "question_id") == ["capgen/0", "capgen/1"] * 2
    assert set(column(result, "system")) == {"example/dummy"}
    assert set(column(result, "item_group")) == {"capgen"}
    assert [json.loads(text) for text in column(result, "labels")] == [{"exact": 0.0}] * 4
    first = fields(result)[0]
    assert first["question"] == "Q: Capital of France?\nA:"
    assert (first["reference"], first["answer"], first["response"], first["raw_response"]) == (
        "Paris", "Paris", "lol", "lol",
    )  # fmt: skip
    assert not {"arguments", "resps", "filtered_resps", "target"} & set(first)


def test_log_likelihoods_are_no_answers(harness: Path) -> None:
    message = failure(harness, path=f"model/{LIKELIHOODS}")
    assert f"{LIKELIHOODS}:1: the sample holds log-likelihoods, no answer in words" in message


def test_a_glob_may_match_files_that_hold_no_answers(harness: Path) -> None:
    message = failure(harness, path="model/samples_*.jsonl")
    assert "name the files of the others alone in items.path" in message
    assert "set items.on_bad: skip to leave them out" in message
    rows = staged(harness, path=f"model/{GENERATED}").rows
    result = staged(harness, path="model/samples_*.jsonl", on_bad="skip")
    assert result.rows == rows > 0
    assert {Path(file).name for file, *_ in rejects(result)} == {LIKELIHOODS}


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
def test_a_look_passes_over_files_that_hold_no_answers(harness: Path, on_bad: Literal["stop", "skip"]) -> None:
    seen = profile_columns(Items(path="model/samples_*.jsonl", on_bad=on_bad), harness)
    assert [Path(file).name for file in seen.left_out] == [LIKELIHOODS]
    assert seen.complete and seen.columns["task"].values.keys() == {"capgen"}
    made = draft(seen, "x", {"path": "model/samples_*.jsonl"}, [load_judge("yes-no", Path())]).text
    assert f"holds log-likelihoods and no answers: {seen.left_out[0]}" in made
    assert parse_config(yaml.safe_load(made)).items.on_bad == "skip"
    with pytest.raises(InputError, match=":1: the sample holds log-likelihoods"):
        profile_columns(Items(path=f"model/{LIKELIHOODS}", on_bad=on_bad), harness)


def test_letters_of_inspect_are_true_and_false(tmp_path: Path) -> None:
    shutil.copy(EVALUATIONS / "capitals.eval", tmp_path)
    made = draft(
        profile_columns(Items(path="capitals.eval"), tmp_path),
        "x",
        {"path": "capitals.eval"},
        [load_judge("yes-no", Path())],
    ).text
    label = parse_config(yaml.safe_load(made)).items.labels["correct"]
    assert (label.field, label.type, label.map) == ("scores.includes.value", "bool", {"C": True, "I": False})
    assert "type: choice" not in made


def samples(*answers: Any, **more: Any) -> list[dict[str, Any]]:
    """Samples of the harness, made by hand: what stands in `filtered_resps` of each."""
    common = {"doc": {"q": "x"}, "target": "t", "arguments": [["prompt", {"until": []}]], "filter": "none", **more}
    return [
        {"doc_id": number, **common, "resps": [["raw"]], "filtered_resps": answer}
        for number, answer in enumerate(answers)
    ]


def test_older_samples_repeats_and_what_python_writes_as_nan(tmp_path: Path) -> None:
    rows = samples(["a"], [["b", "c"]], ["d", "e"], [[]], [["False", "True"]], exact=float("nan"))
    lines(tmp_path / "samples_sums.jsonl", rows)
    result = staged(tmp_path, path="samples_sums.jsonl", labels={"exact": {"field": "exact", "of": "correct"}})
    found = list(zip(column(result, "id"), [entry["response"] for entry in fields(result)], strict=True))
    assert found == [
        ("sums/0", "a"), ("sums/1/0", "b"), ("sums/1/1", "c"), ("sums/2/0", "d"), ("sums/2/1", "e"), ("sums/3", ""),
        ("sums/4/0", "False"), ("sums/4/1", "True"),
    ]  # fmt: skip
    assert {entry["question"] for entry in fields(result)} == {"prompt"}
    assert set(column(result, "system")) == {"default"}
    assert set(column(result, "labels")) == {"{}"}


def test_samples_are_seen_by_name_and_first_line_together(tmp_path: Path) -> None:
    plain = {"id": "i", "question": "q", "reference": "r", "response": "a", "doc_id": 1}
    lines(tmp_path / "samples_plain.jsonl", [plain])
    assert column(staged(tmp_path, path="samples_plain.jsonl"), "id") == ["i"]
    lines(tmp_path / "other.jsonl", samples(["a"]))
    assert "there is no column 'response'" in failure(tmp_path, path="other.jsonl")
    assert column(staged(tmp_path, path="other.jsonl", format="lm-eval"), "id") == ["0"]
    (tmp_path / "samples_packed.jsonl.gz").write_bytes(gzip.compress(json.dumps(samples(["a"])[0]).encode()))
    assert column(staged(tmp_path, path="samples_packed.jsonl.gz"), "id") == ["packed/0"]
    lines(tmp_path / "samples_mixed.jsonl", [*samples(["a"]), plain, *samples([1.5], [{}])])
    rejected = rejects(staged(tmp_path, path="samples_mixed.jsonl", on_bad="skip"))
    assert [(line, problem.split(":")[0]) for _, line, _, problem in rejected] == [
        (2, "no sample of lm-evaluation-harness"),
        (3, "the sample holds log-likelihoods, no answer in words; only generate_until tasks can be judged"),
        (4, "the sample holds log-likelihoods, no answer in words; only generate_until tasks can be judged"),
    ]


def test_results_that_cannot_be_read_are_told(harness: Path) -> None:
    (results,) = (harness / "model").glob("results_*.json")
    results.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"results_.*: cannot be read, to see which model was evaluated"):
        staged(harness, path=f"model/{GENERATED}")
    results.unlink()
    assert set(column(staged(harness, path=f"model/{GENERATED}"), "system")) == {"default"}
