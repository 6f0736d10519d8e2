"""What is wrong with a judge or a config, in words that are none of pydantic's."""

from __future__ import annotations

from typing import Any

import pytest

from judges import JudgeError, parse_judge
from runner.config import parse_config
from runner.errors import ConfigError

JUDGE: dict[str, Any] = {
    "name": "x",
    "reads": {"kind": "yesno"},
    "route": [{"template": "t"}],
    "templates": {"t": "{response}"},
}
CONFIG: dict[str, Any] = {"name": "x", "items": {"path": "x"}, "judges": ["yes-no"], "models": ["m"]}
MODEL = {"name": "a", "model": "b"}


def in_judge(**keys: Any) -> str:
    with pytest.raises(JudgeError) as caught:
        parse_judge({**JUDGE, **keys}, "x")
    return caught.value.message


def in_config(**keys: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config({**CONFIG, **keys}, "x")
    return caught.value.message


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"reads": {"kind": "yes-no"}},
            "reads.kind: unknown kind 'yes-no'; did you mean 'yesno'? (kinds: yesno, object, scores, choice)",
        ),
        ({"reads": {}}, "reads.kind: is missing (kinds: yesno, object, scores, choice)"),
        ({"reads": "yesno"}, "reads: must be a mapping such as {kind: yesno}, not a text"),
        (
            {"reads": {"kind": "choice", "labels": {"A": {"value": "x"}, "B": {"alias": []}}}},
            "reads.labels.A.value: must be true or false or a number, not 'x'\n"
            "  x: reads.labels.B.alias: unknown key; did you mean 'aliases'?",
        ),
        ({"templates": {"t": 5}}, "templates.t: must be a text or a mapping, not 5 (in quotes)"),
        (
            {"templates": {"t": {"usr": "x"}}},
            "templates.t.user: is missing\n  x: templates.t.usr: unknown key; did you mean 'user'?",
        ),
        ({"templates": {"t": ""}}, "templates.t: must not be empty"),
        ({"route": []}, "route: must have at least 1 entry, not 0"),
        ({"structured": "atuo"}, "structured: must be off, auto or require, not 'atuo'; did you mean 'auto'?"),
        ({"batch": {"size": 2.5}}, "batch.size: must be a whole number, not 2.5"),
        ({"sampling": {"temperature": "1"}}, "sampling.temperature: must be a number, not '1' (without the quotes)"),
        ({"protocol_notes": "x"}, "protocol_notes: must be a list (each entry after a '-', or [a, b]), not a text"),
    ],
)
def test_of_a_judge(keys: dict[str, Any], message: str) -> None:
    assert in_judge(**keys) == f"x: {message}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"items": {"path": 5}}, "items.path: must be a text or a list, not 5 (in quotes)"),
        ({"items": {"path": ["a", 1]}}, "items.path.1: must be a text, not 1 (in quotes)"),
        ({"items": "x"}, "items: must be a mapping (with the keys path, systems, hf, format, …), not a text"),
        ({"items": {"path": "x", "fields": {1: "x"}}}, "items.fields.1: the key must be a text; quote it"),
        (
            {"items": {"path": "x", "labels": {"a": {"field": "b", "map": {"C": [1]}}}}},
            "items.labels.a.map.C: must be true or false, a number or a text, not a list",
        ),
        ({"workers": "aut"}, "workers: must be auto or a whole number, not 'aut'; did you mean 'auto'?"),
        ({"workers": 0}, "workers: must be at least 1, not 0"),
        ({"retry": {"reformat": {"name": "x"}}}, "retry.reformat.model: is missing"),
        ({"controls": 2}, "controls: must be at most 1, not 2"),
        ({"name": None}, "name: must be a text, not null (nothing)"),
        ({"max_unscored": "1%"}, "max_unscored: must be a number, not '1%'"),
        ({"models": [MODEL | {"timeout_s": 0}]}, "models.0.timeout_s: must be above 0, not 0"),
    ],
)
def test_of_a_config(keys: dict[str, Any], message: str) -> None:
    assert in_config(**keys) == f"x: {message}"


def test_a_key_in_the_wrong_place_is_not_repeated() -> None:
    assert "sk-1234" not in in_config(models=[MODEL | {"extra": {"headers": "Bearer sk-1234"}}])
    assert "sk-1234" not in in_config(models=[MODEL | {"limits": "sk-1234"}])
