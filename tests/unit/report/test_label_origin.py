"""Who gave a label: what the config says, else what its name says."""

from __future__ import annotations

import pytest

from runner.labels import Label
from runner.report.label_origin import is_model_label, names_model

MODELS = """
gpt4_label LLM_verdict judge auto-eval claude_3 model_correct llmjudge LLMLabel modelLabel aiLabel GPTScore
trulens_groundedness ragas_faithfulness autograder o3_label gemma mixtral grok prometheus LLMjudge judge_score
gpt4o_answer_gpt4_label autoeval_label.label llm_as_judge autoRater chatgptCorrect qwen2_72b_verdict deepseek_r1
scores.GEval llama3Score is_correct_by_gpt4 gpt-4-annotation machine_label
"""
PEOPLE = """
human human_judge correct judgement author annotators.0 expert_model_rating said is_model_answer_correct judge_a judge1
judge.2 model_answer_correct llm_response_label is_model_correct model_was_right autonomy aim said_model_answer_is_right
fulfillment_label gpt4_human_label evaluation human_correct rating label is_correct
"""


@pytest.mark.parametrize("name", MODELS.split())
def test_names_of_models_labels(name: str) -> None:
    assert names_model(name)


@pytest.mark.parametrize("name", PEOPLE.split())
def test_names_of_peoples_labels(name: str) -> None:
    assert not names_model(name)


def test_what_the_config_says_wins() -> None:
    assert is_model_label("correct", Label(field="label", by="model"))
    assert not is_model_label("correct", Label(field="gpt4_label", by="people"))
    assert is_model_label("gpt4", Label(field="label"))
