"""Spellings of one model, and names that look alike."""

from __future__ import annotations

import pytest

from runner.report.model_names import look, model_key


@pytest.mark.parametrize(
    "names",
    [
        ["gpt-4o", "GPT 4o", "gpt4o", "gpt_4o", "openai/gpt-4o-2024-08-06", "azure:gpt-4o", "gpt\u20114o",
         "gpt-4o (2024-08-06)"],
        ["claude-3-5-sonnet-20240620", "claude-3.5-sonnet@20240620", "anthropic.claude-3-5-sonnet-20240620-v1:0",
         "us.anthropic.claude-3-5-sonnet-20240620-v1:0", "Claude 3.5 Sonnet", "claude-3-5-sonnet-latest"],
        ["llama3:8b", "llama3-8b", "meta/Llama3 8B", "ollama/llama3:8b"],
        ["gpt-4", "gpt-4-0613", "gpt-4-1106-preview"],
        ["gemini-1.5-pro", "models/gemini-1.5-pro-002", "google/gemini-1.5-pro:free"],
        ["deepseek-v3", "deepseek/deepseek-v3"],
    ],
)  # fmt: skip
def test_spellings_of_a_model(names: list[str]) -> None:
    assert len({model_key(name) for name in names}) == 1


def test_other_models_are_others() -> None:
    names = [
        "gpt-4",
        "gpt-4o",
        "gpt-4o-mini",
        "gpt-4.1",
        "deepseek-v3",
        "deepseek-r1",
        "llama3:8b",
        "llama3:70b",
        "o1",
        "o3",
    ]
    assert len({model_key(name) for name in [*names, "2024", "openai", "gemini", "mistral"]}) == len(names) + 4


@pytest.mark.parametrize(
    "name", ["ｇｐｔ-4", "gpt\u200b-4", "gpt\u20134", "gpt\u22124", "GPT-4", "gpt\u00a04", "gpt_4"]
)
def test_names_that_look_alike(name: str) -> None:
    assert look(name) == look("gpt-4")
    assert look("gpt-4 b") != look("gpt-4") != look("gpt4")
