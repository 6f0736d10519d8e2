"""What nodes are asked before a run: how sources are told apart, and how the problems of many become one message."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from runs import ROOT

from runner.config import RunConfig, parse_config
from runner.errors import InputError
from runner.scheduling.cluster.preflight import (
    OLDEST_RAY,
    check_ray_version,
    describe_problems,
    inspect_node,
    other_source,
    own_source,
)

KEY = "sk-canary-7Gm3xW9qLp2Ry5"


def config(**model: object) -> RunConfig:
    data = {
        "name": "n",
        "items": {"path": "i.jsonl"},
        "judges": ["yes-no"],
        "models": [{"name": "judge", "model": "m", "base_url": "http://127.0.0.1:1/v1"} | model],
    }
    return parse_config(data, source="here")


def source_in(folder: Path) -> str:
    """What a process says that runs the source in that folder."""
    words = "from runner.scheduling.cluster.preflight import own_source; print(own_source())"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", words], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_another_source_of_the_same_version_is_told_apart(tmp_path: Path) -> None:
    for package in ("judges", "runner"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    assert source_in(tmp_path) == own_source()
    judge = tmp_path / "judges" / "library" / "yes-no.yaml"
    judge.write_text(judge.read_text(encoding="utf-8") + "\n# another\n", encoding="utf-8")
    other = source_in(tmp_path)
    assert other != own_source()
    assert other_source(own_source()) is None
    assert f"started with {other}" in (other_source(other) or "")
    assert inspect_node(other, b"not read") == [other_source(other)]


def test_every_missing_key_is_named_and_none_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    asked = config(api_key_env="JURYBOX_TESTS_JUDGE", extra={"headers": {"X-Team": "${JURYBOX_TESTS_TEAM}"}})
    from_file = config(api_key_file=str(file))

    def lacking(of: RunConfig) -> list[str]:
        return inspect_node(own_source(), pickle.dumps((of, [])))

    assert ["JURYBOX_TESTS_JUDGE" in words for words in lacking(asked)] == [True]
    monkeypatch.setenv("JURYBOX_TESTS_JUDGE", KEY)
    [words] = lacking(asked)
    assert "JURYBOX_TESTS_TEAM" in words
    assert KEY not in words
    monkeypatch.setenv("JURYBOX_TESTS_TEAM", KEY)
    assert lacking(asked) == []
    assert str(file) in lacking(from_file)[0]
    file.write_text(KEY, encoding="utf-8")
    assert lacking(from_file) == []
    # The node of the aggregator alone needs none.
    assert inspect_node(own_source(), b"") == []


def test_a_judge_whose_code_is_not_there_is_a_problem_of_the_node() -> None:
    pickled = b"cmodule_that_is_not_there\nJudge\n."
    [problem] = inspect_node(own_source(), pickled)
    assert problem == "the judges cannot be loaded: ModuleNotFoundError: No module named 'module_that_is_not_there'"


def test_one_message_for_all_nodes() -> None:
    key = "model 'judge': the environment variable K is not set; it must hold the API key"
    code = "jurybox cannot be imported: ModuleNotFoundError: No module named 'runner'"
    problems: dict[str, list[str]] = {f"n{number}": [key] for number in range(20)}
    problems["n3"] = [key, code]
    first, keys, codes, *what_to_do = describe_problems(problems, nodes=30).splitlines()
    assert first == "20 of the cluster's 30 nodes cannot judge; no request was made"
    assert keys == f"  n0, n1, n2, n3, n4, n5, n6, n7 and 12 more: {key}"
    assert codes == f"  n3: {code}"
    assert [line.split(":")[0].strip() for line in what_to_do] == ["keys", "code"]
    assert len(describe_problems({"a": ["no answer within 60 s"]}, nodes=2).splitlines()) == 2


def test_the_oldest_ray_is_the_one_that_is_installed_with_jurybox() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    check_ray_version("2.60.0rc1")
    check_ray_version("3.0.0")
    with pytest.raises(InputError, match=r"ray 2\.51\.1 is installed; jurybox needs 2\.60 or newer"):
        check_ray_version("2.51.1")
    assert f"ray>={'.'.join(map(str, OLDEST_RAY))},<3" in project["dependencies"]
