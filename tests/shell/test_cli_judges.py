"""`jurybox judges`: every shipped judge is listed and printed whole, and one of one's own as well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from judges import Judge, JudgeError, library_names, load_judge
from runner.cli.app import app
from runner.session.judge_catalog import describe_judge, judge_document, list_judges, summarize_judge

NAMES = library_names()


def judge(name: str) -> Judge:
    return load_judge(name, Path())


def test_the_list_has_a_line_for_every_judge() -> None:
    lines = list_judges([judge(name) for name in NAMES]).splitlines()
    assert [line.split()[0] for line in lines[: len(NAMES)]] == NAMES
    assert all(len(line) < 150 for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_judge_is_printed_whole(name: str) -> None:
    known = judge(name)
    text = describe_judge(known)
    assert known.fingerprint in text
    for roles in known.templates.values():
        assert all(part in text for part in roles.values())
    flat = " ".join(text.split())
    assert all(" ".join(note.split()) in flat for note in known.protocol_notes)
    assert all(f"score {score}: " in flat for score in known.scales())
    assert known.batch is None or f"{known.batch} items a request" in flat
    if (schema := known.response_schema()) is not None:
        assert json.loads(text.split("--- response schema\n")[1].split("\n\n--- template")[0]) == schema


@pytest.mark.parametrize("name", NAMES)
def test_as_data_it_is_the_judge_and_json(name: str) -> None:
    known = judge(name)
    data = json.loads(json.dumps(judge_document(known)))
    assert data["templates"] == known.templates
    assert data["reads"] == json.loads(known.reading_spec)
    assert (data["schema"], data["batch"], data["fingerprint"]) == (
        known.response_schema(),
        known.batch,
        known.fingerprint,
    )
    assert set(data["scores"]) == set(summarize_judge(known)["scores"]) == set(known.scales())


def test_the_command_prints_one_document_and_names_what_was_meant(tmp_path: Path) -> None:
    runner = CliRunner()
    everything = runner.invoke(app, ["judges", "--json"])
    assert [entry["name"] for entry in json.loads(everything.stdout)] == NAMES
    one = runner.invoke(app, ["judges", "choice-ab", "--json"])
    assert json.loads(one.stdout)["choices"] == ["A", "B"]
    own = tmp_path / "own.yaml"
    own.write_text(
        "name: own\nreads: {kind: scores, low: 1, high: 5}\nroute: [{when: {group: [a]}, template: t}]\n"
        "on_unrouted: skip\ntemplates: {t: '{question} {response}'}\n",
        encoding="utf-8",
    )
    printed = runner.invoke(app, ["judges", str(own)]).stdout
    assert "scores: score, from 1 to 5 in steps of 1" in printed
    assert "left out, and counted" in printed
    with pytest.raises(JudgeError, match="did you mean 'yes-no'"):
        judge("yesno")
    wrong = runner.invoke(app, ["judges", "yesno"])
    assert getattr(wrong.exception, "exit_status", None) == 2


def test_where_verdicts_stand_in_a_reply() -> None:
    run = CliRunner().invoke
    shown = run(app, ["judges", "yes-no", "--reply", "Yes, it does.\n\nAnswer: no"]).stdout
    assert "line 1, lead: true" in shown
    assert "line 3, label: false" in shown
    assert "not read: conflict" in shown
    found = json.loads(run(app, ["judges", "score-0-5", "--reply", "Fine.\n\nScore: [[4]]", "--json"]).stdout)
    assert found["read"] == {"verdict": {"scores": [4]}, "stage": "tolerant:mark"}
    first = found["places"][0]
    assert (first["place"], first["line"], first["verdict"]) == ("mark", 3, [4])
    assert run(app, ["judges", "--reply", "yes"]).exit_code != 0
