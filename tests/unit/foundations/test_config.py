"""The config: every wrong key is an error that names its path and, where one is near, the name that was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.config import Limits, Model, RunConfig, load_config, parse_config
from runner.errors import ConfigError

GOOD: dict[str, Any] = {
    "name": "t",
    "items": {"path": "x.jsonl"},
    "judges": ["yes-no"],
    "models": [{"name": "m", "model": "served", "base_url": "http://127.0.0.1:1/v1"}],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    import copy

    data = copy.deepcopy(GOOD)
    target: Any = data
    *parents, last = path.split(".")
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
    target[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("modles", [], "modles: unknown key; did you mean 'models'"),
        ("models.0.limit", {}, "models.0.limit: unknown key; did you mean 'limits'"),
        ("models.0.limits", {"rmp": 1}, "models.0.limits.rmp: unknown key; did you mean 'rpm'"),
        ("models.0.limits", {"in_flight": 0}, "models.0.limits.in_flight"),
        ("models.0.api_key_env", "sk-abc123", "must be the NAME of an environment variable"),
        ("models.0.base_url", "api.openai.com/v1", "must start with http"),
        ("models.0.base_url", "https://me:secret@host/v1", "must not hold credentials"),
        ("models.0.base_url", "https://host/v1?key=1", "extra.query"),
        ("models.0.extra", {"body": {"messages": []}}, "'messages' is set by jurybox itself"),
        ("items", {"path": "x", "systems": {"a": "b"}}, "give one of path, systems and hf"),
        ("items", {}, "give one of path, systems and hf"),
        ("retry", {"max_outage": "soon"}, "must be a duration"),
        ("budget", {"usd": 5}, "needs a price"),
        ("repeats", True, "got a boolean"),
        ("judges", [], "judges"),
    ],
)
def test_a_wrong_key_is_named(path: str, value: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(changed(path, value))
    assert told in caught.value.message


def test_all_faults_are_told_at_once() -> None:
    data = changed("modles", [])
    data["repeats"] = 0
    with pytest.raises(ConfigError) as caught:
        parse_config(data)
    assert "modles" in caught.value.message
    assert "repeats" in caught.value.message


def test_models_that_share_an_account_share_its_limits() -> None:
    data = changed("models.0.account", "shared")
    data["models"].append({"name": "n", "model": "other", "account": "shared", "limits": {"rpm": 5}})
    with pytest.raises(ConfigError, match="share the account 'shared'"):
        parse_config(data)


def test_a_model_may_be_one_string_and_a_judge_a_name() -> None:
    parsed = parse_config(changed("models", ["gpt-4o-mini"]))
    assert parsed.models[0].model == "gpt-4o-mini"
    assert parsed.models[0].api_key_env == "OPENAI_API_KEY"
    assert parsed.judges[0].use == "yes-no"


def test_overrides_reach_into_lists_and_mappings(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "name: t\nitems: {path: x, join: {path: y, on: id}}\njudges: [yes-no]\n"
        "models: [{name: m, model: s, structured: off}]\n"
    )
    parsed = load_config(file, ["models.0.limits.rpm=60", "retry.rejudge=0", "models.0.model=other"])
    assert parsed.models[0].limits.rpm == 60
    assert parsed.retry.rejudge == 0
    assert parsed.models[0].model == "other"
    assert parsed.models[0].structured == "off"
    assert parsed.items.join is not None
    assert parsed.items.join.on == "id"


@pytest.mark.parametrize("override", ["models.5.name=x", "name", "=3", "name.deeper.x=1", "a=[", "models.x.name=1"])
def test_a_wrong_override_is_told(tmp_path: Path, override: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("name: t\nitems: {path: x}\njudges: [yes-no]\nmodels: [m]\n")
    with pytest.raises(ConfigError, match="--set"):
        load_config(file, [override])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\nname: b\n", "given twice"),
        ("- 1\n", "must be a mapping"),
        ("name: [\n", "not valid YAML"),
        ("", "must be a mapping"),
    ],
)
def test_a_file_that_is_no_config_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told) as caught:
        load_config(file)
    assert str(file) in caught.value.message


def reformatting(named: Any, **more: Any) -> RunConfig:
    return parse_config(changed("retry", {"reformat": named}) | more)


def test_the_model_of_the_reformat_stage_is_one_of_the_models_or_its_own() -> None:
    none, same, listed = (reformatting(named) for named in (None, "same", "m"))
    assert (none.reformatter, same.reformatter, listed.reformatter) == (None, None, listed.models[0])
    for config in (none, same, listed):
        assert list(config.accounts()) == ["m"]
    other = reformatting("gpt-4o-mini")
    assert other.reformatter == Model(name="gpt-4o-mini", model="gpt-4o-mini", api_key_env="OPENAI_API_KEY")
    own = reformatting({"name": "cheap", "model": "tiny", "limits": {"in_flight": 2}, "account": "shared"})
    assert own.accounts() == {"m": Limits(), "shared": Limits(in_flight=2)}
    assert [model.name for model in own.asked_models] == ["m", "cheap"]
    assert parse_config(own.model_dump(mode="json", exclude_defaults=True)) == own


@pytest.mark.parametrize(
    ("named", "more", "told"),
    [
        ({"name": "m", "model": "another"}, {}, "two entries are named 'm'"),
        ({"name": "cheap", "model": "c", "account": "m", "limits": {"rpm": 5}}, {}, "one set of limits"),
        ("gpt-4o-mini", {"budget": {"usd": 5}}, "'gpt-4o-mini' has none"),
        ({"name": "cheap", "modle": "c"}, {}, "retry.reformat"),
    ],
)
def test_the_model_of_the_reformat_stage_keeps_the_rules_of_all(named: Any, more: Any, told: str) -> None:
    priced = [GOOD["models"][0] | {"price": {"input": 1, "output": 1}}]
    with pytest.raises(ConfigError) as caught:
        reformatting(named, models=priced, **more)
    assert told in caught.value.message
